"""``tokenbox pack``: compiles files and folders into a token budget."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import typer

import tokenbox
from tokenbox import folder as packing
from tokenbox.__about__ import DISTRIBUTION
from tokenbox.cli import streams, terminal
from tokenbox.cli.clipboard import copy
from tokenbox.cli.counter_options import ENGINE_OPTION, by_settings, named_tokenizer, note_misspelt
from tokenbox.cli.disk_usage import show_usage, usage_of
from tokenbox.cli.options import OUTPUT, TOKENIZER, argument, flag, option
from tokenbox.cli.outcome import Exit, UsageProblem, only_one, report, reporting
from tokenbox.cli.proving import PROOF, PROOF_DIR, PROOF_TEXTS, Prover, asks_for_proof, proving
from tokenbox.cli.watching import watch
from tokenbox.errors import TokenboxError, plural
from tokenbox.files import cache_folder
from tokenbox.folder.option_values import FileOrder, Purpose, Strip
from tokenbox.render.lines import printable
from tokenbox.render.registry import BUILTIN, renderer_names
from tokenbox.store.stored_counts import StoredCounts
from tokenbox.tokenizers.cache import CountCache
from tokenbox.tokenizers.protocol import Engine

HEAD = "HEAD"
SHOWN_NOTES = 5
"""Notes of one kind that are shown; all secrets are, and --format json has all notes."""


# The formats beside those of the renderers.
JSON, BCP = "json", "bcp"


def formats() -> tuple[str, ...]:
    """Return the names that ``--format`` takes. Those of installed packages take 20 ms to find."""
    return (*renderer_names(), JSON, BCP)


def known_format(name: str) -> str:
    """Return the name of a format. Raises ``BadParameter`` for any other."""
    if name not in (*BUILTIN, JSON, BCP) and name not in formats():
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, formats()))}.")
    return name


@dataclass(frozen=True, slots=True)
class PackCommand:
    """Pack files and folders for a model, within a token budget.

    With a query, the pack contains the code that is relevant to it; without one, the file tree and the code
    that is referenced most. .gitignore and .tokenboxignore are respected. Skipped and changed files are
    reported on standard error.

    Example: tokenbox pack . -b 8000 -q "Why does login fail?" -o prompt.xml
    """

    paths: list[str] | None = argument("PATH...", "Files and folders.", None, show_default=False)
    budget: int | None = option("--budget -b TOKENS", "The token budget.", min=0)
    given_format: str | None = option(
        f"--format -f <{'|'.join((*BUILTIN, JSON, BCP))}>",
        "json prints the record; bcp, as for -o NAME.bcp, writes a pack for `tokenbox lcp`. Default: xml.",
        parser=known_format,
        autocompletion=lambda incomplete: [name for name in formats() if name.startswith(incomplete)],
    )
    tokenizer: str | None = TOKENIZER
    model: str | None = option("--model -m NAME", "The model that reads the pack.")
    engine: Engine = ENGINE_OPTION
    query: str | None = option("--query -q TEXT", "An issue, a question or a traceback.")
    query_file: str | None = option("--query-file FILE", "A file with the query; - is standard input.")
    focus: list[str] | None = option(
        "--focus PATH[:SYMBOL|:LINES]",
        "Prefer this file, folder, definition or lines, and related code; may be repeated.",
    )
    scorer: str | None = option("--scorer NAME", "Your own ranking of pieces: module:function.")
    history: bool | None = option("--history/--no-history", "Use the git history to rank files.")
    include: list[str] | None = option("--include GLOB", "Only these files; may be repeated.")
    exclude: list[str] | None = option("--exclude GLOB", "Skip these files; may be repeated.")
    level: list[str] | None = option(
        "--level GLOB=LEVEL", "Show these files at most as full, outline or listed; may be repeated."
    )
    purpose: Purpose | None = option("--for", "A preset of --diff, --order, --log and others.")
    order: FileOrder | None = option("--order", "Order files by path, or by worth, the best last.")
    line_numbers: bool | None = option("--line-numbers/--no-line-numbers", "Number the lines.")
    strip: list[Strip] | None = option("--strip", "Remove these from files; may be repeated.")
    log: int | None = option("--log N", "Show the latest N commits, within the budget.", min=0)
    instructions: str | None = option("--instructions FILE", "A text to add at the end, within the budget.")
    diff: str | None = option("--diff [=REV]", "Put the changes since REV (default HEAD) first.")
    priority: list[str] | None = option(
        "--priority -p GLOB=CLASS", "The priority of files, such as 'src/**=high'; may be repeated."
    )
    redact: bool = option("--redact/--no-redact", "Replace secrets by their kind.", True)
    stdin0: bool = flag("--stdin0", "Read NUL-terminated paths from standard input.")
    tree: bool = flag("--tree", "Show the tokens of folders and files instead.")
    check: bool = flag("--check", "Write nothing; exit with 3 unless all files fit in full.")
    explain: bool = flag("--explain", "Show the decision on each file instead of the text.")
    output: str | None = OUTPUT
    split: int | None = option(
        "--split TOKENS", "Write parts of at most this size: FILE.1, FILE.2 ...", min=1
    )
    copy: bool = flag("--copy", "Copy the text to the clipboard.")
    watch: bool = flag("--watch", "Write it again whenever a file changes.")
    cache: bool = option("--cache/--no-cache", "Keep counts on disk for later runs.", True)
    proof: bool | None = PROOF
    proof_texts: bool | None = PROOF_TEXTS
    proof_dir: str | None = PROOF_DIR

    def run(self) -> int:
        with (
            reporting(as_json=self.text_format == JSON, takes_budget=True),
            proving(proof=self.proof, texts=self.proof_texts, folder=self.proof_dir) as prover,
            ExitStack() as ended,
        ):
            self.verify()
            if prover is not None and self.budget is not None:
                prover.budget_source = "--budget"
            given = self._settings()
            if self.scorer is not None and self.query is None and self.query_file is None:
                raise UsageProblem("--scorer ranks by a query: add --query TEXT or --query-file FILE.")
            note_misspelt(*by_settings(self.model, self.tokenizer))
            named = _paths(self.paths or [], stdin0=self.stdin0)
            if packing.is_url(named[0]):
                named = [_cloned(named, given, self.purpose, ended)]
            rules = tuple(map(packing.parse_rule, self.priority or ()))
            run = _Run(self, given, tuple(named), _query(self.query, self.query_file), rules, prover)
            if not self.watch:
                return run.once()

            watch(run.once, run.state, partial(report, takes_budget=True))
            return Exit.OK

    @property
    def text_format(self) -> str:
        """The format of ``--format``; else bcp for a file of that name, and XML for others."""
        is_pack = self.output is not None and self.output.lower().endswith(".bcp")
        return self.given_format or (BCP if is_pack else BUILTIN[0])

    @property
    def mode(self) -> str:
        """The rendering of the text, which in a record is XML."""
        return self.text_format if self.text_format not in {JSON, BCP} else BUILTIN[0]

    @property
    def _proves(self) -> bool:
        return asks_for_proof(proof=self.proof, texts=self.proof_texts, folder=self.proof_dir)

    def _settings(self) -> packing.PackSettings:
        """Return the options that a project's settings may also state."""
        return packing.PackSettings(
            include=tuple(self.include) if self.include else None,
            exclude=tuple(self.exclude) if self.exclude else None,
            levels=tuple(map(packing.LevelRule.parse, self.level)) if self.level else None,
            strip=tuple(self.strip) if self.strip else None,
            line_numbers=self.line_numbers,
            order=self.order,
            log=self.log,
            history=self.history,
            diff=self.diff,
        )

    def verify(self) -> None:
        view = only_one({"--tree": self.tree, "--check": self.check, "--explain": self.explain})
        if self.check and self.budget is None:
            raise UsageProblem("--check needs --budget: without one everything fits.")
        if self.text_format == BCP and self.budget is not None and not self.check:
            raise UsageProblem(
                "a .bcp pack contains everything. Leave out --budget, and give it to `tokenbox lcp render`."
            )
        if self.text_format == BCP and self.explain:
            raise UsageProblem(
                "--explain describes a rendering. Give --format xml, markdown, minimal or json."
            )
        if self._proves and (self.tree or self.check or self.text_format == BCP):
            raise UsageProblem("--proof records a rendering: not with --tree, --check or --format bcp.")
        if (self.tree or self.check) and self.output is not None:
            raise UsageProblem(f"{view} writes no pack. Leave out -o.")
        if self.text_format == BCP and view is None and self.output is None and terminal.is_seen():
            raise UsageProblem("a .bcp pack is not text for a terminal. Name a file with -o, or use a pipe.")
        self._verify_outputs(view)
        if self.explain and self.output == streams.STDIN:
            raise UsageProblem("--explain and -o - both go to standard output. Name a file for the text.")

    def _verify_outputs(self, view: str | None) -> None:
        to_a_file = self.output not in {None, streams.STDIN}
        if self.watch and not (to_a_file or self.copy):
            raise UsageProblem("--watch writes the pack at each change. Name a file with -o, or give --copy.")
        if self.split is not None and not to_a_file:
            raise UsageProblem("--split writes several files. Name them with -o, as in -o pack.xml.")
        if self.split is not None and self.text_format in {JSON, BCP}:
            raise UsageProblem("--split is for a text. Give --format xml, markdown or minimal.")
        if self.copy and (view or self.text_format == BCP or self.output == streams.STDIN):
            raise UsageProblem("--copy puts a text on the clipboard: not with a view, .bcp or -o -.")
        if self._proves and (self.watch or self.split is not None):
            raise UsageProblem("--proof records one rendering: not with --watch or --split.")


pack = PackCommand


def with_revision(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the default value of ``--diff``, which typer does not support."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for given, after in pairwise(arguments[:end]):
        if given == "--diff" and not after.startswith("-") and not os.path.exists(after):
            raise UsageProblem(f"no file is called {after}. For a revision, write --diff={after}")
    options = [f"--diff={HEAD}" if argument == "--diff" else argument for argument in arguments[:end]]
    return [*options, *arguments[end:]]


def _cloned(
    named: Sequence[str], given: packing.PackSettings, purpose: Purpose | None, ended: ExitStack
) -> str:
    """Clone the repository that is named, and return its folder, which lasts until ``ended`` closes."""
    if len(named) > 1:
        raise UsageProblem("a remote repository is packed alone. Name one URL, and no other path.")
    settled = packing.settled(given, purpose, packing.PackSettings())
    whole = bool(settled.history or settled.log or settled.diff)
    return ended.enter_context(packing.cloned(named[0], whole=whole))


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of the command, which ``--watch`` repeats."""

    choices: PackCommand
    given: packing.PackSettings
    paths: tuple[str, ...]
    query: str | None
    rules: tuple[packing.PriorityRule, ...]
    prover: Prover | None

    def surveyed(self) -> packing.Survey:
        """Find the files, without those that the command writes: a pack does not contain itself."""
        surveyed = packing.survey(self.paths)
        if self.choices.output is None:
            return surveyed
        stem, suffix = os.path.splitext(os.path.realpath(self.choices.output))
        number = "" if self.choices.split is None else r"\.\d+"
        written = re.compile(re.escape(stem) + number + re.escape(suffix))
        start, files = os.path.join(surveyed.found.root, ""), surveyed.found.files
        for path in [path for path in files if written.fullmatch(start + path)]:
            del files[path]
        return surveyed

    def state(self) -> Mapping[str, tuple[int, int]]:
        """Return the time and size of each file; nothing while a path is missing."""
        state: dict[str, tuple[int, int]] = {}
        with suppress(TokenboxError):
            found = self.surveyed().found
            for path in found.files:
                with suppress(OSError):
                    status = os.stat(os.path.join(found.root, path))
                    state[path] = status.st_mtime_ns, status.st_size
        return state

    def once(self) -> int:
        """Read the files, choose what fits, write the pack, and return the exit status."""
        choices = self.choices
        surveyed = self.surveyed()
        settled = packing.settled(self.given, choices.purpose, surveyed.settings.pack)
        focus = tuple(choices.focus or ())
        options = packing.PackOptions.of(settled, self.query, focus=focus, scorer=choices.scorer)
        said = _text_of(choices.instructions)
        read = partial(
            packing.read,
            surveyed,
            settled,
            rules=self.rules,
            redact=choices.redact,
            instructions=surveyed.settings.instructions if said is None else said,
        )
        if choices.text_format == BCP and not (choices.tree or choices.check):
            with terminal.progress("reading", len(surveyed.found.files)) as advance:
                source = read(advance=advance)
            with terminal.progress("summarizing"):
                blocks = packing.as_blocks(source)
                data = tokenbox.lcp.encode(blocks, compression=tokenbox.lcp.Compression.BLOCKS)
            _report_notes(source.notes)
            streams.deliver(data, choices.output)
            return Exit.OK
        counter = named_tokenizer(*by_settings(choices.model, choices.tokenizer), choices.engine)
        stored = StoredCounts(cache_folder()) if choices.cache else nullcontext(CountCache())
        with (
            stored as counts,
            packing.CountAhead(counter, counts, surveyed.found.size) as ahead,
        ):
            with terminal.progress("reading", len(surveyed.found.files)) as advance:
                source = read(memory=counts, advance=advance, seen=ahead.add)
            _report_notes(source.notes)
            _report_grammars(source)
            if not choices.tree:
                return self._render(source, ahead, options)
            ahead.wait()
            with terminal.progress("counting"):
                usage = usage_of(source, counter, counts)
            if choices.text_format == JSON:
                streams.write_record("tree", usage.to_dict())
            else:
                show_usage(usage, exact=counter.identity.exact)
            return Exit.OK

    def _render(self, source: packing.Source, ahead: packing.CountAhead, options: packing.PackOptions) -> int:
        choices, counter, counts = self.choices, ahead.tokenizer, ahead.cache
        budget = None if choices.check else choices.budget
        with terminal.progress("choosing"):
            result = packing.pack_source(
                source,
                counter,
                budget,
                choices.mode,
                options=options,
                cache=counts,
                proof=self.prover,
                ahead=ahead,
            )
        about = "" if counter.identity.exact else "~"
        if choices.check:
            assert choices.budget is not None  # noqa: S101  # `verify` checked it
            over = result.total - choices.budget
            verdict = "fits" if over <= 0 else f"does not fit, {about}{over:,} over"
            streams.write_text(f"{about}{result.total:,} of {plural(choices.budget, 'token')}: {verdict}\n")
            return Exit.OK if over <= 0 else Exit.DOES_NOT_FIT
        data: Iterable[bytes] = (piece.encode() for piece in result.rendering.pieces)
        if choices.text_format == JSON:
            data = [streams.json_bytes(result.to_dict())]
        if choices.copy:
            copy(b"".join(data))
        if choices.split is not None:
            # To files of their own: pack.1.xml, pack.2.xml, ...
            stem, suffix = os.path.splitext(str(choices.output))
            parts = packing.split(result, counter, choices.split, choices.mode, cache=counts)
            for number, part in enumerate(parts, 1):
                name = f"{stem}.{number}{suffix}"
                streams.deliver(part.text.encode(), name)
                streams.write_error(f"{printable(name)}: {plural(part.total, 'token')}\n")
        elif choices.output is not None or not (choices.explain or choices.copy):
            streams.deliver(data, choices.output)
        if choices.explain:
            streams.write_text(result.explain() + "\n")
        streams.write_error(_outcome(result, about) + "\n")
        return Exit.OK if self.prover is None else self.prover.status()


def _paths(paths: Sequence[str], *, stdin0: bool) -> list[str]:
    named = list(paths)
    if stdin0:
        named += [os.fsdecode(name) for name in streams.standard_input().read().split(b"\0") if name]
    if not named:
        raise UsageProblem("name files or folders, such as the current one: tokenbox pack . --budget 8000")
    return named


def _query(text: str | None, file: str | None) -> str | None:
    only_one({"--query": text is not None, "--query-file": file is not None})
    found = _text_of(file) if text is None else text
    if found is not None and not found.strip():
        raise UsageProblem("the query is empty. Describe the task, or leave out --query.")
    return found


def _text_of(file: str | None) -> str | None:
    """Return the text of a file; PowerShell writes UTF-16. Raises ``UnreadableInput``."""
    if file is None:
        return None
    text = packing.as_text(streams.read_bytes(file))
    if text is None:
        raise streams.UnreadableInput(
            f"{streams.shown_name(file)} is a binary file, not text. Name a text file.", file=file
        )
    return text[0].decode()


def _outcome(result: packing.PackedFolder, about: str) -> str:
    """Return one line: the tokens of the budget, and the number of files in each form."""
    forms = Counter(file.shown.name for file in result.files)
    names = {"FULL": "full", "FOCUSED": "in part", "OUTLINE": "outline", "LISTED": "not shown"}
    shown = ", ".join(f"{forms[form]:,} {name}" for form, name in names.items() if forms[form])
    budget = "" if result.rendering.budget is None else f" of {result.rendering.budget:,}"
    tokens = f"{about}{result.total:,}{budget} tokens of {result.rendering.tokenizer.name}"
    return f"{tokens}; {plural(len(result.files), 'file')}: {shown}"


def _report_grammars(source: packing.Source) -> None:
    """Report the languages whose files are cut at blank lines, because their grammar is not installed."""
    from tokenbox.content.lenses.syntax import works

    kinds = Counter(file.kind.outline for file in source.files if file.kind.outline is not None)
    missing = [language for language in sorted(kinds) if not works(language)]
    if missing:
        number = sum(kinds[language] for language in missing)
        streams.write_error(
            f"note: files without an outline, cut at blank lines: {number:,} ({', '.join(missing)}). "
            f"Their grammars are not installed: pip install '{DISTRIBUTION}[outline]'\n"
        )


def _report_notes(notes: Sequence[packing.Note]) -> None:
    """Report the first notes of each kind."""
    kinds: dict[packing.NoteKind, list[packing.Note]] = {}
    for note in notes:
        kinds.setdefault(note.kind, []).append(note)
    lines: list[str] = []
    for kind, found in kinds.items():
        shown = found if kind is packing.NoteKind.SECRET else found[:SHOWN_NOTES]
        lines += [f"note: {note}" for note in shown]
        if len(found) > len(shown):
            lines.append(
                f"note: ... and {len(found) - len(shown):,} more such ({kind.value}); --format json has all"
            )
    if lines:
        streams.write_error("".join(f"{printable(line)}\n" for line in lines))
