"""``tokenbox count``: how many tokens files have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tokenbox.cli import terminal
from tokenbox.cli.outcome import Exit, UsageProblem, report, reporting
from tokenbox.cli.streams import STDIN, json_bytes, read_text, write_bytes, write_text
from tokenbox.errors import TokenboxError
from tokenbox.render.lines import Span, Style, printable

if TYPE_CHECKING:
    from tokenbox.render.lines import Line
    from tokenbox.tokenizers.protocol import Tokenizer, TokenizerIdentity

DEFAULT_TOKENIZER = "o200k_base"


class Engine(StrEnum):
    """What counts a byte-pair vocabulary. The counts are the same."""

    AUTO = "auto"
    TIKTOKEN = "tiktoken"
    FAST = "fast"


@dataclass(frozen=True, slots=True)
class FileCount:
    """One file: its tokens, or why it has none."""

    file: str
    tokens: int | None
    error: TokenboxError | None = None

    def to_dict(self) -> dict[str, object]:
        outcome = {"tokens": self.tokens} if self.error is None else {"error": self.error.to_dict()}
        return {"file": self.file, **outcome}


def count(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Files to count; - is standard input.")],
    tokenizer: Annotated[
        str,
        typer.Option(
            "--tokenizer", "-t", metavar="NAME", help="A name of `tokenbox tokenizers`, or file:PATH."
        ),
    ] = DEFAULT_TOKENIZER,
    engine: Annotated[
        Engine, typer.Option("--engine", help="For byte-pair vocabularies; fast needs the extra `fast`.")
    ] = Engine.AUTO,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Count the tokens of files.

    A file that cannot be read is reported, the others are counted, and the exit status is 2.
    The figures of an estimate have a ~.

    Example: tokenbox count README.md src/*.py
    """
    with reporting(as_json=as_json):
        if files.count(STDIN) > 1:
            raise UsageProblem("standard input can be read only once: give - only once.")
        from tokenbox.tokenizers import registry  # noqa: PLC0415

        counter = registry.get(tokenizer, engine=engine.value)
        with terminal.progress("counting", len(files)) as advance:
            counts = []
            for file in files:
                counts.append(_count_file(file, counter))
                advance()
        if as_json:
            write_bytes(json_bytes(_record(counts, counter.identity)))
        else:
            _show(counts, counter.identity)
        for failed in counts:
            if failed.error is not None:
                report(failed.error)
    return Exit.BAD_INPUT if any(c.error is not None for c in counts) else Exit.OK


def _count_file(file: str, counter: Tokenizer) -> FileCount:
    try:
        return FileCount(file, counter.count(read_text(file)))
    except TokenboxError as error:
        return FileCount(file, None, error)


def _record(counts: list[FileCount], identity: TokenizerIdentity) -> dict[str, object]:
    counted = [c.tokens for c in counts if c.tokens is not None]
    return {
        "tokenizer": identity.to_dict(),
        "files": [c.to_dict() for c in counts],
        "counted": len(counted),
        "failed": len(counts) - len(counted),
        "total": sum(counted),
    }


def _show(counts: list[FileCount], identity: TokenizerIdentity) -> None:
    """One line per file and, of several, the total. In a pipe the figures are bare, for other programs."""
    about = "" if identity.exact else "~"
    rows = [(c.tokens, c.file) for c in counts if c.tokens is not None]
    if len(counts) > 1:
        some = "" if len(rows) == len(counts) else f" ({len(rows)} of {len(counts)} files)"
        rows.append((sum(tokens for tokens, _ in rows), f"total{some}"))
    grouped = terminal.is_seen()
    figures = [f"{about}{tokens:,}" if grouped else f"{about}{tokens}" for tokens, _ in rows]
    size = max([len(figure) for figure in figures] + [0])
    if not grouped:
        write_text(
            "".join(
                f"{figure:>{size}}  {printable(file)}\n"
                for figure, (_, file) in zip(figures, rows, strict=True)
            )
        )
        return
    kind = "exact" if identity.exact else "estimate"
    lines: list[Line] = [
        (Span(f"{figure:>{size}}", Style.KEPT), Span(f"  {printable(file)}"))
        for figure, (_, file) in zip(figures, rows, strict=True)
    ]
    lines.append((Span(f"tokens of {identity.name} ({kind})", Style.FAINT),))
    terminal.show(lines)
