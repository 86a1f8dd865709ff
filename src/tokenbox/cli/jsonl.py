"""``tokenbox layout --jsonl``: one JSON document per line in, one result per line out, in the same order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tokenbox.cli import terminal
from tokenbox.cli.outcome import Exit
from tokenbox.cli.streams import MAX_BYTES, ReaderGoneError, json_bytes, standard_input, write_bytes
from tokenbox.errors import DocumentError, TokenboxError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenbox.cli.choices import Choices
    from tokenbox.cli.proving import Prover

_SOURCE = "standard input"
_BLANK = b" \t\r\n"


def answer_lines(choices: Choices, prover: Prover | None = None) -> Exit:
    """Answer every line of standard input that is not blank, each at once.

    An error is the answer of its line: ``{"error": {"code", "message", ...figures}}``.
    """
    status = Exit.OK
    with terminal.progress("lines answered") as advance:
        for number, line in _lines():
            if not line.strip(_BLANK):
                continue
            try:
                answer: dict[str, object] = _answer(line, number, choices, prover)
            except TokenboxError as error:
                answer = {"error": error.to_dict()}
            except (ReaderGoneError, KeyboardInterrupt):
                raise
            except Exception as error:  # noqa: BLE001  # a bug must not cost the answers of the other lines
                message = f"{type(error).__name__}: {error}. This is a bug in tokenbox; please report it."
                answer = {"error": {"code": "internal_error", "message": message}}
                status = Exit.BUG
            write_bytes(json_bytes(answer, one_line=True), flush=True)
            advance()
    return status


def _answer(line: bytes, number: int, choices: Choices, prover: Prover | None) -> dict[str, object]:
    from tokenbox.documents import parse_text  # noqa: PLC0415

    document = parse_text(
        _decoded(line, number),
        ".json",
        base=choices.base or ".",
        name=_SOURCE,
        allow_outside=choices.allow_outside,
        first_line=number,
    )
    if choices.reclaim:
        document = replace(document, reclaim=True)
    return document.layout(budget=choices.budget, tokenizer=choices.tokenizer, proof=prover).to_dict()


def _lines() -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers, from 1. Of a line beyond the limit only its beginning is held."""
    number, source = 0, standard_input()
    while line := source.readline(MAX_BYTES + 1):
        number += 1
        yield number, line
        while len(line) > MAX_BYTES and not line.endswith(b"\n"):
            line = source.readline(MAX_BYTES + 1)


def _decoded(line: bytes, number: int) -> str:
    from tokenbox.documents import Code  # noqa: PLC0415

    if len(line) > MAX_BYTES:
        raise DocumentError(
            f"the line has more than {MAX_BYTES:,} bytes. "
            "Put long texts into files and name them by content_file.",
            file=_SOURCE,
            line=number,
            code=Code.FILE_TOO_LARGE.value,
            limit=MAX_BYTES,
        )
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"the line is not UTF-8: its byte {error.start:,} is 0x{line[error.start]:02X}.",
            file=_SOURCE,
            line=number,
            code=Code.FILE_ENCODING.value,
            byte=error.start,
        ) from None
