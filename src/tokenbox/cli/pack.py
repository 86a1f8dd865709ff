"""``tokenbox pack``: files and folders compiled into a token budget."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from tokenbox.cli import terminal
from tokenbox.cli.count import Engine, by_settings, named_tokenizer
from tokenbox.cli.outcome import Exit, UsageProblem, reporting
from tokenbox.cli.proving import Proof, ProofDir, ProofTexts, asks_for_proof, proving
from tokenbox.cli.streams import (
    STDIN,
    deliver,
    json_bytes,
    read_bytes,
    standard_input,
    write_error,
    write_record,
    write_text,
)
from tokenbox.render.lines import Span, Style, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from tokenbox.cli.proving import Prover
    from tokenbox.folder import Note, PackedFolder, PackOptions, PackSettings, PriorityRule, Source
    from tokenbox.render.lines import Line
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer
    from tokenbox.worth.scorers import Worth

HEAD = "HEAD"
# Notes of one kind that are shown; --format json has all. Secrets are all shown.
SHOWN_NOTES = 5
BAR_CELLS = 20
# A folder of more than so many bytes for each token of the budget does not fit: few tokens are longer.
_SURELY_TOO_MUCH = 16


class OrderOption(StrEnum):
    """The order of the files."""

    PATH = "path"
    WORTH = "worth"


class PurposeOption(StrEnum):
    """What a pack is for."""

    REVIEW = "review"
    QUESTION = "question"
    HANDOVER = "handover"


class StripOption(StrEnum):
    """What is left out of files."""

    COMMENTS = "comments"
    BASE64 = "base64"
    OUTPUTS = "outputs"


class PackFormat(StrEnum):
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
    text_format: PackFormat
    tree: bool
    check: bool
    explain: bool
    output: str | None
    proof: bool
    copy: bool = False
    split: int | None = None
    watch: bool = False

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
        if self.text_format is PackFormat.BCP and self.budget is not None and not self.check:
            raise UsageProblem(
                "a .bcp pack holds everything; the budget is for `tokenbox lcp render FILE --budget N`. "
                "Leave out --budget."
            )
        if self.text_format is PackFormat.BCP and self.explain:
            raise UsageProblem(
                "--explain is about a rendering. Give --format xml, markdown, minimal or json."
            )
        if self.proof and (self.tree or self.check or self.text_format is PackFormat.BCP):
            raise UsageProblem("--proof is of a rendering: not with --tree, --check or --format bcp.")
        if (self.tree or self.check) and self.output is not None:
            raise UsageProblem(f"{views[0]} writes no pack. Leave out -o.")
        if self.text_format is PackFormat.BCP and not views and self.output is None and terminal.is_seen():
            raise UsageProblem("a .bcp pack is not text for a terminal. Name a file with -o, or use a pipe.")
        self._verify_ways_out(views)
        if self.explain and self.output == STDIN:
            raise UsageProblem("--explain and -o - both go to standard output. Name a file for the text.")

    def _verify_ways_out(self, views: Sequence[str]) -> None:
        to_a_file = self.output not in {None, STDIN}
        if self.watch and not (to_a_file or self.copy):
            raise UsageProblem("--watch writes the pack at each change. Name a file with -o, or give --copy.")
        if self.split is not None and not to_a_file:
            raise UsageProblem("--split writes several files. Name them with -o, as in -o pack.xml.")
        if self.split is not None and self.text_format in {PackFormat.JSON, PackFormat.BCP}:
            raise UsageProblem("--split is for a text. Give --format xml, markdown or minimal.")
        if self.copy and (views or self.text_format is PackFormat.BCP or self.output == STDIN):
            raise UsageProblem("--copy puts a text on the clipboard: not with a view, .bcp or -o -.")
        if self.proof and (self.watch or self.split is not None):
            raise UsageProblem("--proof is of one rendering: not with --watch or --split.")


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
        PackFormat, typer.Option("--format", "-f", help="json is the record, bcp a pack for `tokenbox lcp`.")
    ] = PackFormat.XML,
    tokenizer: Annotated[
        str | None,
        typer.Option("--tokenizer", "-t", metavar="NAME", help="A name of `tokenbox tokenizers`."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="NAME", help="The model that is to read it.")
    ] = None,
    engine: Annotated[
        Engine, typer.Option("--engine", help="For byte-pair vocabularies; fast needs the extra `fast`.")
    ] = Engine.AUTO,
    query: Annotated[
        str | None,
        typer.Option(
            "--query",
            "-q",
            metavar="TEXT",
            help="An issue, a question, a traceback.",
        ),
    ] = None,
    query_file: Annotated[
        str | None,
        typer.Option("--query-file", metavar="FILE", help="The query from a file, or -."),
    ] = None,
    focus: Annotated[
        list[str] | None,
        typer.Option("--focus", metavar="PATH[:SYMBOL]", help="This, and what is near it; may be repeated."),
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option("--scorer", metavar="NAME", help="What says what pieces are worth: module:function."),
    ] = None,
    history: Annotated[
        bool | None,
        typer.Option("--history/--no-history", help="Past changes say which files matter, by git."),
    ] = None,
    include: Annotated[
        list[str] | None, typer.Option("--include", metavar="GLOB", help="Only these files; may be repeated.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="GLOB", help="Not these files; may be repeated.")
    ] = None,
    level: Annotated[
        list[str] | None,
        typer.Option("--level", metavar="GLOB=LEVEL", help="At most full, outline or listed."),
    ] = None,
    purpose: Annotated[
        PurposeOption | None,
        typer.Option("--for", help="A preset: what --diff, --order, --log and the like are, if not given."),
    ] = None,
    order: Annotated[
        OrderOption | None, typer.Option("--order", help="Files by path, or the best last.")
    ] = None,
    line_numbers: Annotated[
        bool | None, typer.Option("--line-numbers/--no-line-numbers", help="Before each line.")
    ] = None,
    strip: Annotated[
        list[StripOption] | None,
        typer.Option("--strip", help="Leave these out of files; may be repeated."),
    ] = None,
    log: Annotated[
        int | None, typer.Option("--log", metavar="N", min=0, help="Show the latest N commits; they count.")
    ] = None,
    instructions: Annotated[
        str | None,
        typer.Option("--instructions", metavar="FILE", help="A text to show after the files; it counts."),
    ] = None,
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
    split: Annotated[
        int | None,
        typer.Option("--split", metavar="TOKENS", min=1, help="Write FILE.1, FILE.2 ... of this size each."),
    ] = None,
    copy: Annotated[bool, typer.Option("--copy", help="Put the text on the clipboard.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Write it again whenever a file changes.")] = False,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Remember counts for the next time.")
    ] = True,
    proof: Proof = None,
    proof_texts: ProofTexts = None,
    proof_dir: ProofDir = None,
) -> int:
    """Pack files and folders for a model, in at most a budget of tokens.

    With a query the pack has what the query needs; without one, the tree and what most of the code refers to.
    .gitignore and .tokenboxignore are respected. Skipped and changed files are reported on standard error.

    Example: tokenbox pack . --budget 8000 --query "redirects lose the fragment" -o prompt.xml
    """
    proved = asks_for_proof(proof=proof, texts=proof_texts, folder=proof_dir)
    choices = PackChoices(
        budget, text_format, tree, check, explain, output, proved, copy=copy, split=split, watch=watch
    )
    with (
        reporting(as_json=text_format is PackFormat.JSON),
        proving(proof=proof, texts=proof_texts, folder=proof_dir) as prover,
        ExitStack() as ended,
    ):
        choices.verify()
        if prover is not None and budget is not None:
            prover.budget_source = "--budget"
        from tokenbox import folder as packing  # only this command reads folders

        given = packing.PackSettings(
            include=tuple(include) if include else None,
            exclude=tuple(exclude) if exclude else None,
            levels=tuple(map(packing.LevelRule.parse, level)) if level else None,
            strip=packing.strips(tuple(one.value for one in strip)) if strip else None,
            line_numbers=line_numbers,
            instructions=instructions,
            order=None if order is None else packing.FileOrder(order.value),
            log=log,
            history=history,
            diff=diff,
        )
        named = _paths(paths or [], stdin0=stdin0)
        if packing.is_url(named[0]):
            named = [_cloned(named, given, purpose, ended)]
        run = _Run(
            choices,
            given,
            purpose,
            tuple(named),
            _query(query, query_file),
            tuple(focus or ()),
            tuple(packing.parse_rule(text) for text in priority or ()),
            scorer,
            redact=redact,
            stored=cache,
            counter=lambda: named_tokenizer(*by_settings(model, tokenizer), engine),
            prover=prover,
        )
        if not watch:
            return run.once()
        from tokenbox.cli.watching import watch as watched  # rarely asked for

        watched(lambda: void(run.once()), run.state)
        return Exit.OK


def void(_: object) -> None:
    """Drop a result."""


def _cloned(
    named: Sequence[str], given: PackSettings, purpose: PurposeOption | None, ended: ExitStack
) -> str:
    """The folder of a clone of the repository that is named; it lasts until ``ended``."""
    from tokenbox import folder as packing

    if len(named) > 1:
        raise UsageProblem("a remote repository is packed alone. Name one URL, and no other path.")
    settled = packing.settled(given, purpose, packing.ProjectSettings())
    whole = bool(settled.history or settled.log or settled.diff)
    return ended.enter_context(packing.cloned(named[0], whole=whole))


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of the command, which may be repeated."""

    choices: PackChoices
    given: PackSettings
    purpose: PurposeOption | None
    paths: tuple[str, ...]
    query: str | None
    focus: tuple[str, ...]
    rules: tuple[PriorityRule, ...]
    scorer: str | None
    redact: bool
    stored: bool
    counter: Callable[[], Tokenizer]
    prover: Prover | None

    def state(self) -> object:
        """The files with their sizes and times, but for what is written."""
        from tokenbox import folder as packing

        found = packing.survey(self.paths).found
        written = os.path.realpath(self.choices.output or os.devnull)
        state = {}
        for path in found.files:
            full = os.path.join(found.root, path)  # noqa: PTH118
            with suppress(OSError):
                if not os.path.realpath(full).startswith(written):
                    state[path] = os.stat(full).st_mtime_ns, os.stat(full).st_size  # noqa: PTH116
        return state

    def once(self) -> int:
        """Read, choose, write. The exit status."""
        from tokenbox import folder as packing

        choices = self.choices
        surveyed = packing.survey(self.paths)
        settled = packing.settled(self.given, self.purpose, surveyed.settings)
        options = packing.PackOptions(
            self.query,
            settled.order or packing.FileOrder.PATH,
            _text_of(settled.instructions),
            focus=self.focus,
            history=bool(settled.history),
            levels=settled.levels or (),
            line_numbers=bool(settled.line_numbers),
            scorer=self.scorer,
        )
        read = partial(
            packing.read,
            surveyed,
            rules=self.rules,
            diff=settled.diff,
            redact=self.redact,
            include=settled.include or (),
            exclude=settled.exclude or (),
            strip=settled.strip or (),
            log=settled.log or 0,
        )
        if choices.text_format is PackFormat.BCP and not (choices.tree or choices.check):
            with terminal.progress("reading", len(surveyed.found.files)) as advance:
                source = read(advance=advance)
            _encode(source, choices)
            return Exit.OK
        counter = self.counter()
        worth = None
        with _counts(stored=self.stored) as counts:
            with (
                packing.CountAhead(counter, counts) as ahead,
                terminal.progress("reading", len(surveyed.found.files)) as advance,
            ):
                source = read(advance=advance, seen=ahead.add)
                ahead.submit()
                # What is worth most is found while the last texts are counted, if not all can fit.
                weigh = choices.budget is not None and not (choices.tree or choices.check)
                if weigh and source.size > _SURELY_TOO_MUCH * (choices.budget or 0):
                    worth = packing.weigh(source, options, counts)
            _report_notes(source.notes)
            _report_grammars(source)
            if choices.tree:
                _show_tree(source, counter, counts, choices)
                return Exit.OK
            return _render(source, counter, counts, choices, options, self.prover, worth)


def _counts(*, stored: bool) -> AbstractContextManager[CountCache]:
    """What remembers the counts: beyond this process if ``stored``."""
    if stored:
        from tokenbox.store.stored_counts import StoredCounts, default_folder

        return StoredCounts(default_folder())
    from tokenbox.tokenizers.cache import CountCache

    return nullcontext(CountCache())


def _paths(paths: Sequence[str], *, stdin0: bool) -> list[str]:
    named = list(paths)
    if stdin0:
        named += [os.fsdecode(name) for name in standard_input().read().split(b"\0") if name]
    if not named:
        raise UsageProblem("name files or folders, such as . for this one, or use --stdin0.")
    return named


def _query(text: str | None, file: str | None) -> str | None:
    if text is not None and file is not None:
        raise UsageProblem("--query and --query-file do not go together. Give one of them.")
    found = _text_of(file) if text is None else text
    if found is not None and not found.strip():
        raise UsageProblem("the query is empty. Say what the model is to do, or leave out --query.")
    return found


def _text_of(file: str | None) -> str | None:
    return None if file is None else read_bytes(file).decode("utf-8", "replace")


def _render(  # the parts of one run
    source: Source,
    counter: Tokenizer,
    counts: CountCache,
    choices: PackChoices,
    options: PackOptions,
    prover: Prover | None,
    worth: Worth | None,
) -> int:
    from tokenbox.folder import pack_source

    mode = "xml" if choices.text_format in (PackFormat.JSON, PackFormat.BCP) else choices.text_format.value
    budget = None if choices.check else choices.budget
    with terminal.progress("choosing"):
        result = pack_source(
            source, counter, budget, mode, options=options, cache=counts, proof=prover, worth=worth
        )
    about = "" if counter.identity.exact else "~"
    if choices.check:
        assert choices.budget is not None  # noqa: S101  # see ``verify``
        over = result.total - choices.budget
        verdict = "fits" if over <= 0 else f"does not fit, {about}{over:,} over"
        write_text(f"{about}{result.total:,} of {choices.budget:,} tokens: {verdict}\n")
        return Exit.OK if over <= 0 else Exit.DOES_NOT_FIT
    data: bytes | Iterable[bytes] = (piece.encode() for piece in result.rendering.pieces)
    if choices.text_format is PackFormat.JSON:
        data = json_bytes({**result.to_dict(), "notes": [note.to_dict() for note in source.notes]})
    if choices.copy:
        from tokenbox.cli.clipboard import copy  # rarely asked for

        copy(json_bytes(result.to_dict()) if choices.text_format is PackFormat.JSON else result.text.encode())
    if choices.split is not None:
        _write_parts(result, counter, counts, choices, mode)
    elif choices.output is not None or not (choices.explain or choices.copy):
        deliver(data, choices.output)
    if choices.explain:
        write_text(result.explain() + "\n")
    write_error(_outcome(result, about) + "\n")
    return Exit.OK if prover is None else prover.status()


def _write_parts(
    result: PackedFolder, counter: Tokenizer, counts: CountCache, choices: PackChoices, mode: str
) -> None:
    """The parts of the pack, each in a file of its own: ``pack.1.xml``, ``pack.2.xml``, ..."""
    from tokenbox.folder import split

    stem, suffix = os.path.splitext(str(choices.output))  # noqa: PTH122
    parts = split(result, counter, choices.split or 0, mode, cache=counts)
    for number, part in enumerate(parts, 1):
        name = f"{stem}.{number}{suffix}"
        deliver(part.text.encode(), name)
        write_error(f"{printable(name)}: {part.total:,} tokens\n")


def _encode(source: Source, choices: PackChoices) -> None:
    from tokenbox.folder import as_blocks
    from tokenbox.lcp import Compression, encode

    with terminal.progress("summarizing"):
        data = encode(as_blocks(source), compression=Compression.BLOCKS)
    _report_notes(source.notes)
    deliver(data, choices.output)


def _outcome(result: PackedFolder, about: str) -> str:
    """One line: how much of the budget, and how many files in which form."""
    forms = Counter(file.shown for file in result.files)
    names = {"FULL": "full", "FOCUSED": "in part", "OUTLINE": "outline", "LISTED": "not shown"}
    shown = ", ".join(
        f"{number:,} {names[how.name]}"
        for how, number in sorted(forms.items(), key=lambda one: list(names).index(one[0].name))
    )
    budget = "" if result.rendering.budget is None else f" of {result.rendering.budget:,}"
    tokens = f"{about}{result.total:,}{budget} tokens of {result.rendering.tokenizer.name}"
    return f"{tokens}; {len(result.files):,} file{'' if len(result.files) == 1 else 's'}: {shown}"


def _report_grammars(source: Source) -> None:
    """The languages whose files are cut at blank lines, because their grammar is not installed."""
    from tokenbox.content.lenses.definitions import works

    kinds = Counter(file.kind.outline for file in source.files if file.kind.outline is not None)
    missing = [language for language in sorted(kinds) if not works(language)]
    if missing:
        number = sum(kinds[language] for language in missing)
        write_error(
            f"note: files without an outline, cut at blank lines: {number:,} ({', '.join(missing)}). "
            "Their grammars are not installed: pip install 'tokenbox-llm[outline]'\n"
        )


def _report_notes(notes: Sequence[Note]) -> None:
    """Each kind of note with its first few."""
    from tokenbox.folder import NoteKind

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


def _show_tree(source: Source, counter: Tokenizer, counts: CountCache, choices: PackChoices) -> None:
    from tokenbox.cli.disk_usage import usage_of

    with terminal.progress("counting"):
        usage = usage_of(source, counter, counts)
    if choices.text_format is PackFormat.JSON:
        write_record("tree", usage.to_dict())
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
