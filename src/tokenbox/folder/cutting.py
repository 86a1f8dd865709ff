"""What is in a file, found once for each content: its pieces with their signatures, the names it defines.

To look for it takes longer than to read the file, so a cache that outlives the process keeps what was found,
by the digest of the content, of the rules (the source of the modules that they are in) and of the grammar.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.content.lenses import definitions, languages, outline
from tokenbox.content.lenses.languages import BY_NAME
from tokenbox.folder import pieces
from tokenbox.folder.pieces import Piece, shape
from tokenbox.worth import standing
from tokenbox.worth.standing import defined_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

    from tokenbox.tokenizers.cache import CountCache

# A file without a grammar is cut as fast as it is looked up, so it is not remembered.
_RULES_OF_CUTS = (definitions, languages, outline, pieces)
# Nor are the names in a file of fewer bytes than these.
_SMALL = 2_000


class CutFile(NamedTuple):
    """The pieces of a file, and the signatures in each piece."""

    pieces: tuple[Piece, ...]
    outlines: tuple[str, ...]


def cut_all(contents: Sequence[tuple[bytes, str | None]], memory: CountCache | None) -> list[CutFile]:
    """Each content cut, with the name of its language. ``memory`` is asked first, and told what is new."""
    keys = [None if memory is None else _key(data, language) for data, language in contents]
    known = {} if memory is None else memory.recall([key for key in keys if key is not None])
    found: list[CutFile] = []
    new: dict[bytes, bytes] = {}
    for key, (data, language) in zip(keys, contents, strict=True):
        remembered = None if key is None else _read(known.get(key))
        found.append(_cut(data, language) if remembered is None else remembered)
        if key is not None and remembered is None:
            new[key] = _written(found[-1])
    if memory is not None and new:
        memory.remember(new)
    return found


def _cut(data: bytes, language: str | None) -> CutFile:
    found = shape(data, language)
    lines: list[list[str]] = [[] for _ in found.pieces]
    if found.definitions and language is not None:
        p = 0
        for at, line in outline.signatures(data, found.definitions, BY_NAME[language]):
            while p + 1 < len(found.pieces) and found.pieces[p].end <= at:
                p += 1
            lines[p].append(line)
    return CutFile(found.pieces, tuple("".join(some) for some in lines))


def _key(data: bytes, language: str | None) -> bytes | None:
    """What a cut is remembered by; None if that is not worthwhile, or not safe."""
    rules = None if language is None else _rules(language)
    return None if rules is None else hashlib.sha256(rules + data).digest()


@cache
def _rules(language: str) -> bytes | None:
    """A digest of all that decides how a file is cut; None if that cannot be known."""
    if not definitions.works(language):
        return None
    digest = hashlib.sha256(language.encode())
    try:
        for name in ("tree-sitter", BY_NAME[language].module.replace("_", "-")):
            digest.update(f"{name} {version(name)}\n".encode())
        digest.update(_source_of(_RULES_OF_CUTS))
    except (OSError, PackageNotFoundError):
        return None
    return digest.digest()


def _source_of(modules: Iterable[ModuleType]) -> bytes:
    return b"".join(Path(str(module.__file__)).read_bytes() for module in modules)


@cache
def _rules_of_names() -> bytes | None:
    try:
        return hashlib.sha256(_source_of([standing])).digest()
    except OSError:
        return None


def names_in(contents: Sequence[bytes], memory: CountCache | None) -> list[list[bytes]]:
    """The names that each content defines. ``memory`` is asked first, and told what is new."""
    rules = None if memory is None else _rules_of_names()
    if memory is None or rules is None:
        return [defined_in(data) for data in contents]
    keys = [None if len(data) < _SMALL else hashlib.sha256(rules + data).digest() for data in contents]
    known = memory.recall([key for key in keys if key is not None])
    found: list[list[bytes]] = []
    new: dict[bytes, bytes] = {}
    for key, data in zip(keys, contents, strict=True):
        stored = None if key is None else _checked(known.get(key))
        found.append(defined_in(data) if stored is None else stored.split(b"\n") if stored else [])
        if key is not None and stored is None:
            new[key] = _with_check(b"\n".join(found[-1]))
    memory.remember(new)
    return found


def _with_check(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4) + data


def _checked(stored: bytes | None) -> bytes | None:
    """What was stored, if it is as it was written."""
    if stored is None or len(stored) < 4 or zlib.crc32(stored[4:]).to_bytes(4) != stored[:4]:  # noqa: PLR2004
        return None
    return stored[4:]


def _written(cut: CutFile) -> bytes:
    record = [
        [[p.first, p.last, p.start, p.end, p.names, p.within] for p in cut.pieces],
        cut.outlines,
    ]
    return zlib.compress(json.dumps(record, separators=(",", ":")).encode(), 1)


def _read(stored: bytes | None) -> CutFile | None:
    """What was stored; None if there is nothing, or if it is damaged (zlib has a check sum)."""
    if stored is None:
        return None
    with suppress(zlib.error, ValueError, TypeError):
        found, outlines = json.loads(zlib.decompress(stored))
        return CutFile(
            tuple(
                Piece(first, last, start, end, tuple(names), tuple(within))
                for first, last, start, end, names, within in found
            ),
            tuple(outlines),
        )
    return None
