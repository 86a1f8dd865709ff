"""Bytes in and out: files, standard input and output. Text is UTF-8, and no newline is ever translated."""

from __future__ import annotations

import json
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tokenbox.errors import TokenboxError
from tokenbox.files import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import BinaryIO

STDIN = "-"
# One text larger than this is a mistake, or never ends (a device).
MAX_BYTES = 256 * 1024 * 1024


class ReaderGoneError(Exception):
    """Nobody reads the output any more."""


class UnreadableInput(TokenboxError):
    """A file or standard input is not readable text. ``details`` has ``file`` and maybe ``byte``, from 0."""

    code = "input_unreadable"


class OutputFailed(TokenboxError):
    """The result cannot be written: the disk is full, or the file may not be changed."""

    code = "output_failed"


def check_streams() -> None:
    """Refuse to work for nobody: a process may be started with its standard streams closed."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # for the life of the process
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        raise OutputFailed("standard output is closed, so nothing was done.")


def standard_input() -> BinaryIO:
    """Standard input as bytes. Raises :class:`UnreadableInput` if it is closed."""
    if sys.stdin is None:
        raise UnreadableInput("standard input is closed.", file=STDIN)
    return sys.stdin.buffer


def read_text(name: str) -> str:
    """The text of the file ``name``, or of standard input for ``-``. Raises :class:`UnreadableInput`."""
    return decoded(read_bytes(name), _shown(name), name)


def read_bytes(name: str) -> bytes:
    """The bytes of the file ``name``, or of standard input for ``-``. Raises :class:`UnreadableInput`."""
    shown = _shown(name)
    try:
        if name == STDIN:
            data = standard_input().read(MAX_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise UnreadableInput(
            f"{shown} is a folder, not a file. Name the files in it, such as {os.path.join(name, '*')}; "  # noqa: PTH118
            f"to count all of them: tokenbox pack {name} --tree",
            file=name,
        ) from None
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UnreadableInput(f"{shown} cannot be read: {said}.", file=name) from None
    if len(data) > MAX_BYTES:
        raise UnreadableInput(
            f"{shown} has more than {MAX_BYTES:,} bytes. Split it, or give a part of it.",
            file=name,
            limit=MAX_BYTES,
        )
    return data


def _shown(name: str) -> str:
    return "standard input" if name == STDIN else name


def decoded(data: bytes, shown: str, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UnreadableInput(
            f"{shown} is not UTF-8 text: byte {error.start:,} is 0x{data[error.start]:02X}. "
            "It is a binary file, or in another encoding: convert it to UTF-8.",
            file=name,
            byte=error.start,
        ) from None


def write_bytes(data: bytes | Iterable[bytes], *, flush: bool = False) -> None:
    """``data``, whole or in pieces, on standard output, as it is."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.writelines([data] if isinstance(data, bytes) else data)
        if flush:
            sys.stdout.buffer.flush()
    except OSError as error:
        _output_failed(error)


def deliver(data: bytes | Iterable[bytes], output: str | None) -> None:
    """The result to standard output, or to the file ``output``, all at once or not at all."""
    if output in (None, STDIN):
        write_bytes(data)
    else:
        write_file(str(output), data)


def write_text(text: str) -> None:
    """``text`` for a person on standard output; what its encoding does not have is escaped."""
    write_bytes(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))


def write_error(text: str) -> None:
    """``text`` on standard error. If that is closed, there is nobody to tell."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()  # on a terminal, what was found comes before what is said of it
    with suppress(OSError, ValueError):
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()


def finish_output() -> None:
    """Hand over what is still buffered."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _output_failed(error)


def abandon_output() -> None:
    """Let the interpreter end without trying once more to write what nobody takes."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def json_bytes(value: object, *, one_line: bool = False) -> bytes:
    """``value`` as JSON with its newline, in UTF-8."""
    layout: dict[str, object] = {"separators": (",", ":")} if one_line else {"indent": 2}
    text = json.dumps(value, ensure_ascii=False, default=str, **layout) + "\n"  # type: ignore[arg-type]
    try:
        return text.encode()
    except UnicodeEncodeError:  # a file name that is not UTF-8
        return (json.dumps(value, default=str, **layout) + "\n").encode()  # type: ignore[arg-type]


def record_bytes(name: str, value: Mapping[str, object]) -> bytes:
    """A result as JSON with the name of its schema, which ``tokenbox schema NAME`` prints."""
    return json_bytes({"schema": f"tokenbox.{name}/1", **value})


def write_record(name: str, value: Mapping[str, object]) -> None:
    """Print a result as JSON with the name of its schema."""
    write_bytes(record_bytes(name, value))


def write_file(name: str, data: bytes | Iterable[bytes]) -> None:
    """Make ``data`` (or all its pieces) the content of the file ``name``: all, or the file stays as it was.

    Raises :class:`OutputFailed`.
    """
    path = Path(os.path.realpath(name))
    pieces = [data] if isinstance(data, bytes) else data
    try:
        mode = path.stat().st_mode if path.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            with path.open("wb") as file:  # a device or pipe is written to, not replaced; a folder refuses
                file.writelines(pieces)
            return
        replace(path, pieces)
    except OSError as error:
        raise OutputFailed(f"{name} cannot be written: {error.strerror or error}.", file=name) from None


def _output_failed(error: OSError) -> None:
    if isinstance(error, BrokenPipeError):
        raise ReaderGoneError from None
    raise OutputFailed(f"standard output cannot be written: {error.strerror or error}.") from None
