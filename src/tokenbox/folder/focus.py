"""What is in focus: the folders, files, definitions and lines that ``--focus`` names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.errors import TokenboxError, plural
from tokenbox.folder.cutting import cut_all
from tokenbox.worth.query import NamedPath

if TYPE_CHECKING:
    from tokenbox.folder.source import File
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.worth.documents import PieceSpan

# A line or a range of lines, and what stands between the names of a symbol: ``Session.get``, ``Shop::add``.
_LINES = re.compile(r"([1-9][0-9]{0,8})(?:-([1-9][0-9]{0,8}))?")
_BETWEEN_NAMES = re.compile(r"\.|::|#")
# The maximum number of paths that an error names.
_MAX_NAMED = 3


class FocusProblem(TokenboxError, code="focus_not_found"):
    """A ``--focus`` names a file, symbol or line that is not in the pack, or the end of several paths."""


class InFocus(NamedTuple):
    """A text in focus, and its place."""

    text: bytes
    place: NamedPath


def in_focus(files: Sequence[File], focus: Iterable[str], memory: CountCache | None = None) -> list[InFocus]:
    """Return what ``PATH``, ``PATH:SYMBOL``, ``PATH:LINE`` or ``PATH:FIRST-LAST`` name.

    ``PATH`` is that of a file or folder in the pack, or the end of one that ends no other. ``memory`` caches
    how files are cut. Raises :class:`FocusProblem`.
    """
    found: list[InFocus] = []
    for named in focus:
        path, part = _split(files, named)
        chosen = _files_of(files, named, path)
        if part and len(chosen) > 1:
            raise FocusProblem(f"focus {named}: {path!r} is a folder, which defines nothing.", path=path)
        for file in chosen:
            text, lines = _part_of(file, named, part, memory) if part else (file.data, ())
            found.append(InFocus(text, NamedPath(file.name, lines, is_whole=True)))
    return found


def _split(files: Sequence[File], named: str) -> tuple[str, str]:
    """Return the path and what follows it: the longest path that names a file, as names may have colons."""
    ends = [len(named), *(at for at in reversed(range(len(named))) if named[at] == ":")]
    is_path = (at for at in ends if _at(files, named[:at]) or _ending(files, named[:at]))
    end = next(is_path, ends[-1])
    return named[:end], named[end + 1 :]


def _at(files: Sequence[File], path: str) -> list[File]:
    """Return the file at a path, which is as on the disk or as shown, or those in a folder."""
    wanted = path.removeprefix("./").rstrip("/")
    start = "" if wanted in {"", "."} else f"{wanted}/"
    return [file for file in files if wanted in _names(file)] or [
        file for file in files if path and any(name.startswith(start) for name in _names(file))
    ]


def _ending(files: Sequence[File], path: str) -> list[File]:
    """Return the files whose path ends like this one."""
    end = f"/{path.removeprefix('./').rstrip('/')}"
    return [file for file in files if any(name.endswith(end) for name in _names(file))]


def _names(file: File) -> tuple[str, str]:
    return file.path, file.name


def _files_of(files: Sequence[File], named: str, path: str) -> list[File]:
    """Return the file at a path, or those in a folder."""
    chosen = _at(files, path)
    if chosen:
        return chosen
    ending = _ending(files, path)
    if len(ending) == 1:
        return ending
    if ending:
        names = ", ".join(file.name for file in ending[:_MAX_NAMED])
        more = f" and {len(ending) - _MAX_NAMED} more" if len(ending) > _MAX_NAMED else ""
        problem = f"{len(ending)} files end with {path!r}: {names}{more}. Give more of the path."
        raise FocusProblem(f"focus {named}: {problem}", path=path)
    last = path.rstrip("/").rpartition("/")[2]
    by_name = {file.name.rpartition("/")[2]: file.name for file in files}
    near = [by_name[name] for name in difflib.get_close_matches(last, by_name, 1)]
    hint = _did_you_mean(near) or " List the files: tokenbox pack . --tree"
    raise FocusProblem(f"focus {named}: there is no file {path!r} in the pack.{hint}", path=path)


def _part_of(file: File, named: str, part: str, memory: CountCache | None) -> tuple[bytes, tuple[int, ...]]:
    """Return the pieces of a file that have the lines or define the symbol, and the lines in focus."""
    pieces = cut_all([(file.data, file.kind.outline)], memory)[0].pieces
    numbers = _LINES.fullmatch(part)
    if numbers is None:
        chosen = _defining(file.data, pieces, part)
        first, last = 1, pieces[-1].last if pieces else 0
        problem = f"the file defines no {part!r}.{_like(part, pieces)}"
    else:
        first, last = int(numbers[1]), int(numbers[2] or numbers[1])
        chosen = [piece for piece in pieces if piece.first < last and first <= piece.last]
        count = pieces[-1].last if pieces else 0
        problem = f"the file has {plural(count, 'line')}."
        if last < first:
            chosen, problem = [], f"line {last:,} is before line {first:,}. Write {last}-{first}."
    if not chosen:
        raise FocusProblem(f"focus {named}: {problem}", path=file.name)
    lines = (line for piece in chosen for line in range(piece.first + 1, piece.last + 1))
    return (
        b"".join(file.data[piece.start : piece.end] for piece in chosen),
        tuple(line for line in lines if first <= line <= last),
    )


def _defining(text: bytes, pieces: Sequence[PieceSpan], symbol: str) -> list[PieceSpan]:
    """Return the pieces of a definition, which may be named with those around it or with its receiver."""
    found = [piece for piece in pieces if symbol in piece.names or symbol in piece.within]
    parts = _BETWEEN_NAMES.split(symbol)
    if not found:
        found = [piece for piece in pieces if set(parts) <= {*piece.names, *piece.within}]
    if not found:  # ``Cart.Total`` for ``func (c *Cart) Total`` in Go
        head = re.compile(rb"\b" + rb"\b.*\b".join(re.escape(part).encode() for part in parts) + rb"\b")
        named = (piece for piece in pieces if parts[-1] in piece.names)
        found = [piece for piece in named if head.search(text, piece.start, piece.end) is not None]
    return found


def _like(symbol: str, pieces: Sequence[PieceSpan]) -> str:
    names = sorted({name for piece in pieces for name in (*piece.names, *piece.within)})
    return _did_you_mean(difflib.get_close_matches(_BETWEEN_NAMES.split(symbol)[-1], names, 1))


def _did_you_mean(near: Sequence[str]) -> str:
    return f" Did you mean {near[0]}?" if near else ""
