"""``tokenbox pack``: files and folders compiled into a token budget."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from tokenbox.cli import terminal
from tokenbox.cli.count import DEFAULT_TOKENIZER, Engine
from tokenbox.cli.outcome import Exit, UsageProblem, reporting
from tokenbox.cli.proving import Proof, ProofDir, ProofTexts, asks_for_proof, proving
from tokenbox.cli.streams import (
    STDIN,
    json_bytes,
    standard_input,
    write_bytes,
    write_error,
    write_file,
    write_text,
)
from tokenbox.render.lines import Span, Style, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from tokenbox.cli.proving import Prover
    from tokenbox.compose.block_record import BlockLayout
    from tokenbox.pack import Collection, Note
    from tokenbox.render.lines import Line
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer

HEAD = "HEAD"
# Notes of one kind that are shown; --format json has all. Secrets are all shown.
SHOWN_NOTES = 5
BAR_CELLS = 20


class Format(StrEnum):
    """What a pack is written as."""

    XML = "xml"
    MARKDOWN = "markdown"
    MINIMAL = "minimal"
    JSON = "json"
    BCP = "bcp"


@dataclass(frozen=True, slots=True)
class PackChoices:
    """What was asked for."""

    budget: int | None
    text_format: Format
    tree: bool
    check: bool
    explain: bool
    output: str | None
    proof: bool

    def verify(self) -> None:
        """Raise :class:`UsageProblem` for what does not go together."""
        views = [
            name
            for name, on in (("--tree", self.tree), ("--check", self.check), ("--explain", self.explain))
            if on
        ]
        if len(views) > 1:
            raise UsageProblem(f"{views[0]} and {views[1]} do not go together. Give one of them.")
        if self.check and self.budget is None:
            raise UsageProblem("--check needs --budget: without one everything fits.")
        if self.text_format is Format.BCP and self.budget is not None and not self.check:
            raise UsageProblem(
                "a .bcp pack holds everything; the budget is for `tokenbox lcp render FILE --budget N`. "
                "Leave out --budget."
            )
        if self.text_format is Format.BCP and self.explain:
            raise UsageProblem(
                "--explain is about a rendering. Give --format xml, markdown, minimal or json."
            )
        if self.proof and (self.tree or self.check or self.text_format is Format.BCP):
            raise UsageProblem("--proof is of a rendering: not with --tree, --check or --format bcp.")
        if (self.tree or self.check) and self.output is not None:
            raise UsageProblem(f"{views[0]} writes no pack. Leave out -o.")
        if self.text_format is Format.BCP and not views and self.output is None and terminal.is_seen():
            raise UsageProblem("a .bcp pack is no text for a terminal. Name a file with -o, or use a pipe.")
        if self.explain and self.output == STDIN:
            raise UsageProblem("--explain and -o - both go to standard output. Name a file for the text.")


def with_revision(arguments: Sequence[str]) -> list[str]:
    """The arguments with a bare ``--diff`` spelled out, as its value is optional."""
    if not arguments or arguments[0] != "pack":
        return list(arguments)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    spelled = [f"--diff={HEAD}" if argument == "--diff" else argument for argument in arguments[:end]]
    return [*spelled, *arguments[end:]]


def pack(  # noqa: PLR0913, PLR0917  # one parameter per option
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH...", help="Files and folders.", show_default=False)
    ] = None,
    budget: Annotated[
        int | None, typer.Option("--budget", "-b", metavar="TOKENS", min=0, help="Never more than this.")
    ] = None,
    text_format: Annotated[
        Format, typer.Option("--format", "-f", help="json is the record, bcp a pack for `tokenbox lcp`.")
    ] = Format.XML,
    tokenizer: Annotated[
        str, typer.Option("--tokenizer", "-t", metavar="NAME", help="A name of `tokenbox tokenizers`.")
    ] = DEFAULT_TOKENIZER,
    engine: Annotated[
        Engine, typer.Option("--engine", help="For byte-pair vocabularies; fast needs the extra `fast`.")
    ] = Engine.AUTO,
    diff: Annotated[
        str | None,
        typer.Option(
            "--diff", metavar="[=REV]", help="Add what changed since REV (default HEAD), first of all."
        ),
    ] = None,
    priority: Annotated[
        list[str] | None,
        typer.Option(
            "--priority", "-p", metavar="GLOB=CLASS", help="Such as 'src/**=high'; may be repeated."
        ),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact/--no-redact", help="Replace secrets by their kind.")
    ] = True,
    stdin0: Annotated[
        bool, typer.Option("--stdin0", help="Read paths from standard input, each ended by a NUL.")
    ] = False,
    tree: Annotated[
        bool, typer.Option("--tree", help="Show the tokens of folders and files instead.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 3 if not all fits in full.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what became of each file instead of the text.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write there, all at once or not at all."),
    ] = None,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Remember counts for the next time.")
    ] = True,
    proof: Proof = None,
    proof_texts: ProofTexts = None,
    proof_dir: ProofDir = None,
) -> int:
    """Pack files and folders for a model, in at most a budget of tokens.

    What does not fit in full is shown as an outline, else as one line that says what was left out.
    .gitignore and .tokenboxignore are respected. What is not packed as it is, is said on standard error.

    Example: tokenbox pack . --budget 50000 --diff -o prompt.xml
    """
    proved = asks_for_proof(proof=proof, texts=proof_texts, folder=proof_dir)
    choices = PackChoices(budget, text_format, tree, check, explain, output, proved)
    with (
        reporting(as_json=text_format is Format.JSON),
        proving(proof=proof, texts=proof_texts, folder=proof_dir) as prover,
    ):
        choices.verify()
        if prover is not None and budget is not None:
            prover.budget_source = "--budget"
        from tokenbox import pack as packing  # noqa: PLC0415  # only this command reads folders

        rules = [packing.parse_rule(text) for text in priority or ()]
        surveyed = packing.survey(_paths(paths or [], stdin0=stdin0))
        collect = partial(packing.collect, surveyed, rules=rules, diff=diff, redact=redact)
        if text_format is Format.BCP and not (tree or check):
            with terminal.progress("reading", len(surveyed.found.files)) as advance:
                collection = collect(advance=advance)
            _encode(collection, choices)
            return Exit.OK
        from tokenbox.tokenizers import registry  # noqa: PLC0415

        counter = registry.get(tokenizer, engine=engine.value)
        with _counts(stored=cache) as counts:
            with (
                packing.CountAhead(counter, counts) as ahead,
                terminal.progress("reading", len(surveyed.found.files)) as advance,
            ):
                collection = collect(advance=advance, made=ahead.add)
            _report_notes(collection.notes)
            if tree:
                _show_tree(collection, counter, counts, choices)
                return Exit.OK
            return _render(collection, counter, counts, choices, prover)


def _counts(*, stored: bool) -> AbstractContextManager[CountCache]:
    """What remembers the counts: beyond this process if ``stored``."""
    if stored:
        from tokenbox.store.stored_counts import StoredCounts, default_folder  # noqa: PLC0415

        return StoredCounts(default_folder())
    from tokenbox.tokenizers.cache import CountCache  # noqa: PLC0415

    return nullcontext(CountCache())


def _paths(paths: Sequence[str], *, stdin0: bool) -> list[str]:
    named = list(paths)
    if stdin0:
        named += [os.fsdecode(name) for name in standard_input().read().split(b"\0") if name]
    if not named:
        raise UsageProblem("name files or folders, such as . for this one, or use --stdin0.")
    return named


def _render(
    collection: Collection,
    counter: Tokenizer,
    counts: CountCache,
    choices: PackChoices,
    prover: Prover | None,
) -> int:
    from tokenbox.proof.proven import render_blocks  # noqa: PLC0415

    mode = "xml" if choices.text_format in (Format.JSON, Format.BCP) else choices.text_format.value
    with terminal.progress("laying out"):
        result = render_blocks(
            collection.blocks,
            counter,
            choices.budget,
            mode,
            verbosity="full" if choices.check else "adaptive",
            summarize=collection.summary,
            cache=counts,
            proof=prover,
        )
    if choices.check:
        about = "" if result.tokenizer.exact else "~"
        fits = not result.over
        verdict = "fits" if fits else f"does not fit, {about}{result.over:,} over"
        write_text(f"{about}{result.total:,} of {choices.budget:,} tokens: {verdict}\n")
        return Exit.OK if fits else Exit.DOES_NOT_FIT
    data: bytes | Iterable[bytes] = (piece.encode() for piece in result.pieces)
    if choices.text_format is Format.JSON:
        data = json_bytes({**result.to_dict(), "notes": [note.to_dict() for note in collection.notes]})
    if choices.output is not None or not choices.explain:
        deliver(data, choices.output)
    if choices.explain:
        write_text(result.explain() + "\n")
    write_error(_outcome(result) + "\n")
    return Exit.OK if prover is None else prover.status()


def deliver(data: bytes | Iterable[bytes], output: str | None) -> None:
    """The result to standard output or the file."""
    if output in (None, STDIN):
        write_bytes(data)
    else:
        write_file(str(output), data)


def _encode(collection: Collection, choices: PackChoices) -> None:
    from tokenbox.lcp import Compression, encode  # noqa: PLC0415

    with terminal.progress("summarizing"):
        data = encode(collection.summarized(), compression=Compression.BLOCKS)
    _report_notes(collection.notes)
    deliver(data, choices.output)


def _outcome(result: BlockLayout) -> str:
    """One line: how much of the budget, and how many blocks in which form."""
    about = "" if result.tokenizer.exact else "~"
    forms = Counter(block.form.value for block in result.blocks)
    shown = ", ".join(f"{number:,} {form}" for form, number in forms.items())
    budget = "" if result.budget is None else f" of {result.budget:,}"
    tokens = f"{about}{result.total:,}{budget} tokens of {result.tokenizer.name}"
    return f"{tokens}; {len(result.blocks):,} blocks: {shown}"


def _report_notes(notes: Sequence[Note]) -> None:
    """Each kind of note with its first few."""
    from tokenbox.pack import NoteKind  # noqa: PLC0415

    kinds: dict[NoteKind, list[Note]] = {}
    for note in notes:
        kinds.setdefault(note.kind, []).append(note)
    lines: list[str] = []
    for kind, found in kinds.items():
        shown = found if kind is NoteKind.SECRET else found[:SHOWN_NOTES]
        lines += [f"note: {note}" for note in shown]
        if len(found) > len(shown):
            lines.append(
                f"note: ... and {len(found) - len(shown):,} more such ({kind.value}); --format json has all"
            )
    if lines:
        write_error("".join(f"{printable(line)}\n" for line in lines))


def _show_tree(collection: Collection, counter: Tokenizer, counts: CountCache, choices: PackChoices) -> None:
    from tokenbox.cli.disk_usage import usage_of  # noqa: PLC0415

    with terminal.progress("counting"):
        usage = usage_of(collection, counter, counts)
    if choices.text_format is Format.JSON:
        write_bytes(json_bytes(usage.to_dict()))
        return
    about = "" if counter.identity.exact else "~"
    rows = list(usage.rows())
    seen = terminal.is_seen()
    figures = [f"{about}{row.tokens:,}" if seen else f"{about}{row.tokens}" for row in rows]
    size = max(len(figure) for figure in figures)
    whole = max(1, usage.tokens)
    lines: list[Line] = []
    for row, figure in zip(rows, figures, strict=True):
        name = f"{'  ' * row.depth}{row.name}{'/' if row.is_folder else ''}"
        style = Style.STRONG if row.is_folder else Style.PLAIN
        spans = [Span(f"{figure:>{size}}  ", Style.KEPT)]
        if seen:
            cells = -(-row.tokens * BAR_CELLS // whole)
            bar = terminal.charset().bars[Style.KEPT] * cells
            spans.append(Span(f"{bar:<{BAR_CELLS}}  ", Style.COMPRESSED if row.is_folder else Style.FAINT))
        lines.append([*spans, Span(name, style)])
    terminal.show(lines)
