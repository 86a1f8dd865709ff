"""``tokenbox layout``: compiles layout documents into their budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import tokenbox
from tokenbox.cli import streams, terminal
from tokenbox.cli.counter_options import by_settings, note_misspelt
from tokenbox.cli.options import ALLOW_OUTSIDE, OUTPUT, OWN_TOKENIZER, RECLAIM, argument, flag, option
from tokenbox.cli.outcome import Exit, UsageProblem, only_one
from tokenbox.cli.proving import PROOF, PROOF_DIR, PROOF_TEXTS, Prover, asks_for_proof, proving
from tokenbox.compose.requests import RequestCounter
from tokenbox.counters import request_counter, section_counter
from tokenbox.documents import LayoutDocument
from tokenbox.engine.result import Policy
from tokenbox.errors import ContextCriticalOverflow, DocumentError, TokenboxError
from tokenbox.integers import digits
from tokenbox.render.explain import picture
from tokenbox.render.lines import Line, plain
from tokenbox.render.whatif import whatif_lines
from tokenbox.tokenizers.protocol import Tokenizer


@dataclass(frozen=True, slots=True)
class LayoutCommand:
    """Compile a layout document into its budget.

    Prints the text exactly as a model would receive it: nothing is added, no newline is changed.
    With --explain and -o, the text goes to the file and the picture to standard output.

    The shortest prompt.toml (`tokenbox schema` prints what else a document may have):

    sections = [{id = "rules", content = "Be brief."}]

    Example: tokenbox layout prompt.toml --budget 8000 --explain
    """

    overrides_budget: ClassVar[bool] = True

    document: str | None = argument(
        "DOC", "A layout document: .toml, .yaml or .json; - is standard input.", None
    )
    budget: int | None = option("--budget -b TOKENS", "Overrides the document's budget.")
    tokenizer: str | None = OWN_TOKENIZER
    model: str | None = option("--model -m NAME", "Count for this model; sections with roles are messages.")
    as_json: bool = flag("--json", "Print the record: text, sizes, decisions, digest.")
    explain: bool = flag("--explain", "Show a picture of the layout instead of the text.")
    whatif: str | None = option(
        "--whatif TOKENS,...", "Compare budgets: 1000,2000,4000; or list where sections change: 1000..4000."
    )
    messages: bool = flag("--messages", "Print chat messages in JSON; the budget covers their markers.")
    policy: Policy | None = option("--policy", "degrade uses smaller forms and cuts before it drops.")
    reclaim: bool = RECLAIM
    jsonl: bool = flag("--jsonl", "Read a JSON document per line; answer each with a line.")
    base: str | None = option("--base DIR", "Folder of the files that a document on standard input names.")
    allow_outside: bool = ALLOW_OUTSIDE
    text_format: Literal["toml", "yaml", "json"] | None = option(
        "--format", "Format of a document on standard input."
    )
    output: str | None = OUTPUT
    proof: bool | None = PROOF
    proof_texts: bool | None = PROOF_TEXTS
    proof_dir: str | None = PROOF_DIR

    def run(self) -> int:
        with proving(proof=self.proof, texts=self.proof_texts, folder=self.proof_dir) as prover:
            self.check()
            status = Exit.OK
            if prover is not None:
                prover.budget_source = "the document" if self.budget is None else "--budget"
            if self.jsonl:
                status = answer_lines(self, prover)
            elif self.whatif is not None and ".." in self.whatif:
                _show_breakpoints(self, *range_in(self.whatif))
            elif self.whatif is not None:
                _compare(self, budgets_in(self.whatif))
            else:
                _lay_out(self, prover)
            return status if prover is None else status or prover.status()

    def check(self) -> None:
        """Raise :class:`UsageProblem` for options that exclude each other; no option is silently ignored."""
        given = {option for option, is_given in self._given().items() if is_given}
        for one, others in _EXCLUDES.items():
            for other in others:
                only_one({one: one in given, other: other in given})
        if self.explain and (self.as_json or self.messages) and self.output is None:
            raise UsageProblem(
                "--explain and JSON both go to standard output. With -o FILE the JSON goes there."
            )
        if self.explain and self.output == streams.STDIN:
            raise UsageProblem("--explain and -o - both go to standard output. Name a file for the text.")
        self._check_document()
        if self.base is not None and not Path(self.base).is_dir():
            raise UsageProblem(f"--base {self.base}: there is no such folder.")
        if (
            self.output is not None
            and self.document is not None
            and streams.same_file(self.output, self.document)
        ):
            raise UsageProblem(f"-o {self.output} would overwrite the document itself. Name another file.")

    def applied_to(self, document: LayoutDocument) -> LayoutDocument:
        """Return the document with the options that override its own."""
        changed = replace(document, reclaim=True) if self.reclaim else document
        return changed if self.policy is None else replace(changed, policy=self.policy)

    def _check_document(self) -> None:
        if self.jsonl:
            return
        if self.document is None:
            raise UsageProblem("name a layout document, or - for standard input: tokenbox layout prompt.toml")
        if self.document == streams.STDIN and self.text_format is None:
            raise UsageProblem("a document on standard input needs --format toml, yaml or json.")
        if self.document != streams.STDIN and (self.text_format is not None or self.base is not None):
            option = "--base" if self.text_format is None else "--format"
            raise UsageProblem(f"{option} is for standard input; a file has its own folder and suffix.")

    def _given(self) -> dict[str, bool]:
        return {
            "DOC": self.document is not None,
            "--budget": self.budget is not None,
            "--explain": self.explain,
            "--json": self.as_json,
            "--whatif": self.whatif is not None,
            "--messages": self.messages,
            "--jsonl": self.jsonl,
            "--format": self.text_format is not None,
            "--output": self.output is not None,
            "--proof": asks_for_proof(proof=self.proof, texts=self.proof_texts, folder=self.proof_dir),
        }


layout = LayoutCommand

_EXCLUDES = {
    "--jsonl": ("DOC", "--explain", "--whatif", "--messages", "--format", "--output"),
    "--whatif": ("--budget", "--explain", "--messages", "--proof"),
    "--messages": ("--json",),
}


def budgets_in(text: str, option: str = "--whatif") -> list[int]:
    """Parse the budgets in ``1000,2000,4000``. Raises :class:`UsageProblem`."""
    budgets = [digits(part.strip()) for part in text.split(",")]
    found = [budget for budget in budgets if budget is not None]
    if len(found) < len(budgets):
        also = ", or a range as in 1000..4000" if option == "--whatif" else ""
        raise UsageProblem(
            f"{option} takes whole numbers of tokens as in 1000,2000,4000{also}; not {text[:60]!r}."
        )
    return found


def range_in(text: str) -> tuple[int, int]:
    """Parse the lower and upper bound in ``1000..4000``. Raises :class:`UsageProblem`."""
    low, high = budgets_in(text.replace("..", ","))[:2] if text.count("..") == 1 else (1, 0)
    if low > high:
        raise UsageProblem(f"--whatif takes a range of budgets as in 1000..4000; not {text[:60]!r}.")
    return low, high


def _lay_out(choices: LayoutCommand, prover: Prover | None) -> None:
    """Write the result to standard output or the file; with ``--explain``, show the picture."""
    with terminal.progress("laying out"):
        document = _read(choices)
        counter = _counter(choices, document)
        result = document.layout(budget=choices.budget, tokenizer=counter, proof=prover)
        if choices.messages:
            data = streams.json_bytes(result.messages())
        elif choices.as_json:
            data = streams.json_bytes(result.to_dict())
        else:
            data = result.text.encode()
    if choices.output is not None or not choices.explain:
        streams.deliver(data, choices.output)
    if choices.explain:
        terminal.show(picture(result, terminal.width(), terminal.charset()))


def _counter(choices: LayoutCommand, document: LayoutDocument) -> Tokenizer | RequestCounter | None:
    """Return the counter for these options; None is the document's own tokenizer."""
    if choices.model is None and choices.tokenizer is None and not choices.messages:
        return None
    model, tokenizer = by_settings(choices.model, choices.tokenizer)
    note_misspelt(model, tokenizer)
    if choices.messages:  # what is sent has to fit: the messages with their markers
        own = document.tokenizer if model is None else None
        return request_counter(model, tokenizer or own)
    return section_counter(document.sections, model, tokenizer)


def _compare(choices: LayoutCommand, budgets: list[int]) -> None:
    """Show one column per budget. A budget that is too small is a result, not a failure."""
    with terminal.progress("laying out"):
        document = _read(choices)
        results = document.whatif(budgets, tokenizer=_counter(choices, document))
    if choices.as_json:
        layouts = [
            {"error": result.to_dict()} if isinstance(result, ContextCriticalOverflow) else result.to_dict()
            for result in results
        ]
        streams.deliver(streams.record_bytes("whatif", {"layouts": layouts}), choices.output)
        return
    _deliver_lines(whatif_lines(document.sections, results, terminal.width(), terminal.charset()), choices)


def _show_breakpoints(choices: LayoutCommand, low: int, high: int) -> None:
    with terminal.progress("laying out"):
        document = _read(choices)
        found = document.breakpoints(low, high, tokenizer=_counter(choices, document))
    if choices.as_json:
        record = {"breakpoints": [point.to_dict() for point in found]}
        streams.deliver(streams.record_bytes("breakpoints", record), choices.output)
        return
    rows = [
        (f"{p.budget:,}", p.section, p.before or "does not fit", p.after or "does not fit") for p in found
    ]
    _deliver_lines(terminal.table(("from budget", "section", "was", "is"), rows), choices)


def _deliver_lines(lines: Sequence[Line], choices: LayoutCommand) -> None:
    if choices.output is None:
        terminal.show(lines)
    else:
        streams.deliver(plain(lines).encode(), choices.output)


def _read(choices: LayoutCommand) -> LayoutDocument:
    name = choices.document or streams.STDIN
    if name != streams.STDIN:
        document = tokenbox.documents.read_document(name, allow_outside=choices.allow_outside)
    else:
        document = tokenbox.documents.parse_text(
            streams.read_syntax(streams.STDIN),
            f".{choices.text_format}",
            base=choices.base or ".",
            name="standard input",
            allow_outside=choices.allow_outside,
        )
    return choices.applied_to(document)


_SOURCE = "standard input"
_BLANK = b" \t\r\n"


def answer_lines(choices: LayoutCommand, prover: Prover | None = None) -> Exit:
    """Answer each non-blank line of standard input as soon as it is read.

    An error is the answer to its line: ``{"schema": "tokenbox.error/1", "error": {"code", "message", ...}}``.
    """
    status = Exit.OK
    with terminal.progress("lines answered") as advance:
        for number, line in _lines():
            if not line.strip(_BLANK):
                continue
            try:
                answer = streams.json_bytes(_answer(line, number, choices, prover), one_line=True)
            except TokenboxError as error:
                answer = streams.record_bytes("error", {"error": error.to_dict()}, one_line=True)
            except (streams.ReaderGoneError, KeyboardInterrupt):
                raise
            except Exception as error:  # noqa: BLE001  # a bug must not lose the answers to the other lines
                message = f"{type(error).__name__}: {error}. This is a bug in tokenbox; please report it."
                failed = {"code": "internal_error", "message": message}
                answer = streams.record_bytes("error", {"error": failed}, one_line=True)
                status = Exit.BUG
            streams.write_bytes(answer, flush=True)
            advance()
    return status


def _answer(line: bytes, number: int, choices: LayoutCommand, prover: Prover | None) -> dict[str, object]:
    document = tokenbox.documents.parse_text(
        _decoded(line, number),
        ".json",
        base=choices.base or ".",
        name=_SOURCE,
        allow_outside=choices.allow_outside,
        first_line=number,
    )
    document = choices.applied_to(document)
    counter = _counter(choices, document)
    return document.layout(budget=choices.budget, tokenizer=counter, proof=prover).to_dict()


def _lines() -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers, from 1. Only the beginning of an oversized line is kept."""
    number, source = 0, streams.standard_input()
    while line := source.readline(streams.MAX_BYTES + 1):
        number += 1
        yield number, line
        while len(line) > streams.MAX_BYTES and not line.endswith(b"\n"):
            line = source.readline(streams.MAX_BYTES + 1)


def _decoded(line: bytes, number: int) -> str:
    if len(line) > streams.MAX_BYTES:
        raise DocumentError(
            f"the line has more than {streams.MAX_BYTES:,} bytes. "
            "Put long texts into files and name them with content_file.",
            file=_SOURCE,
            line=number,
            code=tokenbox.documents.DocumentCode.FILE_TOO_LARGE.value,
            limit=streams.MAX_BYTES,
        )
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"the line is not UTF-8: its byte {error.start:,} is 0x{line[error.start]:02X}.",
            file=_SOURCE,
            line=number,
            code=tokenbox.documents.DocumentCode.FILE_ENCODING.value,
            byte=error.start,
        ) from None
