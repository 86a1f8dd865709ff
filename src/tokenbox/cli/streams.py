"""Files, standard input and standard output. Text is UTF-8, and newlines are never translated."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import sys
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TextIO

from tokenbox.errors import TokenboxError
from tokenbox.files import listing_of, read_at_most, replace
from tokenbox.render.lines import printable

STDIN = "-"
# The largest input that is read; a larger one is a mistake, or a device that never ends.
MAX_BYTES = 256 * 1024 * 1024
# What a terminal obeys and JSON does not escape: more control characters, and changes of direction.
_OBEYED = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# What to do instead, by a sign in the name of a file that does not exist.
_NO_FILE = {
    "://": "Download it first: curl -sSL URL | tokenbox count -",
    "*": "No file matches this pattern.",
    " ": "To give a text, pipe it to a command whose file is -, as in: printf 'some text' | tokenbox count -",
}


class ReaderGoneError(Exception):
    """The reader of standard output has closed it."""


class UnreadableInput(TokenboxError, code="input_unreadable"):
    """A file or standard input is not readable text. ``details``: ``file``, and ``byte`` (from 0)."""


class OutputFailed(TokenboxError, code="output_failed"):
    """A result cannot be written: the disk is full, or the file is read-only."""


def check_streams() -> None:
    """Raise :class:`OutputFailed` if the process was started with standard output closed."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # open until the process ends
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # until the process ends
        raise OutputFailed("standard output is closed, so nothing was done.")


def standard_input() -> BinaryIO:
    """Return standard input as a binary file. Raises :class:`UnreadableInput` if it is closed."""
    if sys.stdin is None:
        raise UnreadableInput("standard input is closed.", file=STDIN)
    if sys.platform != "win32":
        with suppress(OSError):  # a test's stream, which is no file
            # A non-blocking pipe, which Node.js may pass, would end where nothing has been written yet.
            os.set_blocking(sys.stdin.fileno(), True)
    return sys.stdin.buffer


def read_syntax(name: str) -> str:
    """Return the text of a JSON, YAML or TOML file, without the byte order mark that some editors write."""
    return read_text(name).removeprefix("\ufeff")


def read_data(name: str) -> Any:  # noqa: ANN401  # JSON or TOML
    """Return the value in a JSON file, or a TOML file by its name. Raises :class:`UnreadableInput`."""
    text = read_syntax(name)
    kind, parse = ("TOML", tomllib.loads) if name.lower().endswith(".toml") else ("JSON", json.loads)
    try:
        return parse(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(
            f"{shown_name(name)} is not {kind}: {syntax_problem(error)}.", file=name
        ) from None


def syntax_problem(error: ValueError | RecursionError) -> str:
    """Return why a text is not JSON or TOML, in words."""
    if isinstance(error, json.JSONDecodeError) and not error.doc.strip():
        return "it is empty"
    if isinstance(error, json.JSONDecodeError | tomllib.TOMLDecodeError):
        return str(error)
    return (
        "it is nested too deeply" if isinstance(error, RecursionError) else "an integer has too many digits"
    )


def read_text(name: str) -> str:
    """Return the text of a file, or of standard input for ``-``. Raises :class:`UnreadableInput`."""
    data = read_bytes(name)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UnreadableInput(
            f"{shown_name(name)} is not UTF-8 text: byte {error.start:,} is 0x{data[error.start]:02X}. "
            "It is a binary file, or in another encoding: convert it to UTF-8.",
            file=name,
            byte=error.start,
        ) from None


def read_bytes(name: str) -> bytes:
    """Return the bytes of a file, or of standard input for ``-``. Raises :class:`UnreadableInput`."""
    shown = shown_name(name)
    try:
        if name == STDIN:
            data = read_at_most(standard_input(), MAX_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = read_at_most(file, MAX_BYTES + 1)
    except IsADirectoryError:
        raise UnreadableInput(
            f"{shown} is a folder, not a file. Name the files in it, such as {os.path.join(name, '*')}; "
            f"to count all of them: tokenbox pack {name} --tree",
            file=name,
        ) from None
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        hint = ""
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            hint = f" {next((fix for sign, fix in _NO_FILE.items() if sign in name), listing_of(name))}"
        raise UnreadableInput(f"{shown} cannot be read: {said}.{hint}", file=name) from None
    if len(data) > MAX_BYTES:
        raise UnreadableInput(
            f"{shown} has more than {MAX_BYTES:,} bytes. Split it, or give a part of it.",
            file=name,
            limit=MAX_BYTES,
        )
    return data


def shown_name(name: str) -> str:
    return "standard input" if name == STDIN else name


def same_file(one: str | Path, other: str | Path) -> bool:
    """Return True if both paths exist and are the same file."""
    try:
        return Path(one).samefile(other)
    except (OSError, ValueError):
        return False


def write_bytes(data: bytes | Iterable[bytes], *, flush: bool = False) -> None:
    """Write ``data``, one value or pieces, to standard output unchanged."""
    try:
        sys.stdout.flush()
        pieces = [data] if isinstance(data, bytes) else data
        sys.stdout.buffer.writelines(pieces if not sys.stdout.isatty() else map(_seen, pieces))
        if flush:
            sys.stdout.buffer.flush()
    except OSError as error:
        output_failed(error)


# The last byte on a terminal: a message begins on a line of its own, also after a text without a newline.
_last = b"\n"


def _seen(piece: bytes) -> bytes:
    global _last  # noqa: PLW0603  # the terminal is global, too
    _last = piece[-1:] or _last
    return piece


def deliver(data: bytes | Iterable[bytes], output: str | None) -> None:
    """Write the result to standard output (None or ``-``), or atomically to the file ``output``."""
    if output in (None, STDIN):
        write_bytes(data)
    else:
        write_file(str(output), data)


def write_text(text: str) -> None:
    """Write ``text`` to standard output; characters that its encoding lacks are escaped."""
    write_bytes(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))


def write_error(text: str) -> None:
    """Write ``text`` to standard error; errors of doing so are ignored."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()  # on a terminal, the result comes before the messages about it
    try:
        if _last != b"\n" and sys.stderr.isatty():
            sys.stderr.write("\n")
        _seen(b"\n")
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()
    except (OSError, ValueError):
        abandon(sys.stderr)


def write_warnings(problems: Iterable[str]) -> None:
    """Write what is not understood in the settings to standard error."""
    for problem in problems:
        write_error(f"warning: {printable(problem)}\n")


def finish_output() -> None:
    try:
        sys.stdout.flush()
    except OSError as error:
        output_failed(error)


def abandon(stream: TextIO) -> None:
    """Discard what a stream has buffered, so that the interpreter does not try to write it again at exit."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def json_bytes(value: object, *, one_line: bool = False) -> bytes:
    """Return ``value`` as UTF-8 JSON that ends with a newline."""
    layout: dict[str, Any] = {"separators": (",", ":")} if one_line else {"indent": 2}
    text = json.dumps(value, ensure_ascii=False, default=str, **layout) + "\n"
    try:
        return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()
    except UnicodeEncodeError:  # a file name that is not UTF-8
        return (json.dumps(value, default=str, **layout) + "\n").encode()


def record_bytes(name: str, value: Mapping[str, object], *, one_line: bool = False) -> bytes:
    """Return a result as JSON with the name of its schema, which ``tokenbox schema NAME`` prints."""
    return json_bytes({"schema": f"tokenbox.{name}/1", **value}, one_line=one_line)


def write_json(value: object) -> None:
    """Print ``value`` as JSON."""
    write_bytes(json_bytes(value))


def write_record(name: str, value: Mapping[str, object]) -> None:
    """Print a result as JSON with the name of its schema."""
    write_bytes(record_bytes(name, value))


def write_file(name: str, data: bytes | Iterable[bytes]) -> None:
    """Replace the content of a file atomically by ``data`` or its pieces. Raises :class:`OutputFailed`."""
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
        hint, folders = "", Path(name).parents
        if isinstance(error, NotADirectoryError):
            hint = f" {next(filter(os.path.exists, folders))} is a file, not a folder."
        elif isinstance(error, FileNotFoundError) and not os.path.exists(path.parent):
            hint = f" Make its folder: mkdir -p {shlex.quote(str(folders[0]))}"
        raise OutputFailed(f"{name} cannot be written: {error.strerror or error}.{hint}", file=name) from None


def output_failed(error: OSError) -> NoReturn:
    """Raise :class:`ReaderGoneError` or :class:`OutputFailed` for a failed write to standard output."""
    if isinstance(error, BrokenPipeError):
        raise ReaderGoneError from None
    raise OutputFailed(f"standard output cannot be written: {error.strerror or error}.") from None
