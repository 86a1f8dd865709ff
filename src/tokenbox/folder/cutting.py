"""Parse each content once: its pieces with their signatures and runs, and the names that it defines.

Parsing takes longer than reading the file, so a persistent cache keeps the results, keyed by the digest of
the content, of the rules (the source of their modules) and of the grammar's version.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from tokenbox.content.lenses import (
    definition,
    definitions,
    headed,
    heads,
    languages,
    node_types,
    nodes,
    outline,
    parsed,
    syntax,
)
from tokenbox.content.lenses.languages import BY_NAME
from tokenbox.content.lenses.outline import Signature, is_namespace
from tokenbox.folder import pieces
from tokenbox.folder.pieces import shape
from tokenbox.folder.rules import digest_of_rules
from tokenbox.worth import copies, defined, documents, notices
from tokenbox.worth.documents import PieceSpan

if TYPE_CHECKING:
    from tokenbox.tokenizers.cache import CountCache

# The modules whose source decides how a file is cut. Files without a grammar are not cached: cutting them is
# as fast as a lookup.
CUT_RULES = (
    copies,
    definition,
    definitions,
    documents,
    headed,
    heads,
    languages,
    node_types,
    nodes,
    notices,
    outline,
    parsed,
    pieces,
    syntax,
)
# Shorter names, such as ``s``, are those of anything.
_SHORTEST = 3
_QUALIFIER = re.compile(r".*[.:](?=.)")
# The minimum size in bytes of a file whose names are cached.
_MIN_CACHED = 2_000
# A smaller cut is stored as it is, after this mark, as zlib takes longer for its tables than to cut the file.
_MIN_COMPRESSED, _PLAIN = 2_000, b"\0"
_CHECKSUM = 4  # bytes


class CutFile(NamedTuple):
    """The pieces of a file, the signatures in each piece, the text of these, and the runs of each piece.

    Signatures that are only names of namespaces have no text. By their runs near-copies are found.
    """

    pieces: tuple[PieceSpan, ...]
    signatures: tuple[tuple[Signature, ...], ...]
    outlines: tuple[str, ...]
    runs: tuple[Sequence[int], ...]

    @classmethod
    def of(
        cls,
        pieces: Iterable[Iterable[Any]],
        signatures: Iterable[Iterable[Iterable[Any]]],
        runs: Iterable[Iterable[int]],
    ) -> CutFile:
        """Return the file with these pieces, signatures and runs, or what JSON makes of them."""
        spans = (
            PieceSpan(start, end, first, last, tuple(names), tuple(within), is_notice)
            for start, end, first, last, names, within, is_notice in pieces
        )
        found = tuple(tuple(starmap(Signature, some)) for some in signatures)
        outlines = (
            "" if all(map(is_namespace, some)) else "".join(one.text for one in some) for some in found
        )
        return cls(tuple(spans), found, tuple(outlines), tuple(array("I", some) for some in runs))


def cut_all(contents: Sequence[tuple[bytes, str | None]], memory: CountCache | None) -> list[CutFile]:
    """Cut each content by the rules of its language. ``memory`` is the cache, read first and then updated."""
    return list(starmap(CutFile.of, _remembered(contents, memory, _cut_key, _cut)))


def names_in(contents: Sequence[tuple[bytes, str | None]], memory: CountCache | None) -> list[list[bytes]]:
    """Return the names that each content defines. ``memory`` is the cache, read first and then updated."""
    found = _remembered(contents, memory, _names_key, _names)
    return [[name.encode() for name in names] for names in found]


def _remembered(
    contents: Sequence[tuple[bytes, str | None]],
    memory: CountCache | None,
    key_of: Callable[[bytes, str | None], bytes | None],
    find: Callable[[bytes, str | None], Any],
) -> list[Any]:
    """Return what is found in each content, or from the cache what JSON makes of it."""
    if memory is None:
        return [find(data, language) for data, language in contents]
    keys = [key_of(data, language) for data, language in contents]
    known = memory.recall([key for key in keys if key is not None])
    found: list[Any] = []
    new: dict[bytes, bytes] = {}
    for key, (data, language) in zip(keys, contents, strict=True):
        cached = _read(known[key]) if key is not None and key in known else None
        found.append(find(data, language) if cached is None else cached)
        if key is not None and cached is None:
            new[key] = _written(found[-1])
    memory.remember(new)
    return found


def _written(found: object) -> bytes:
    data = json.dumps(found, separators=(",", ":"), default=list).encode()  # lists of arrays
    return _PLAIN + _checked(data) if len(data) < _MIN_COMPRESSED else zlib.compress(data, 1)


def _read(stored: bytes) -> Any:  # noqa: ANN401  # JSON
    """Return what was written; None if it is damaged."""
    if stored.startswith(_PLAIN):
        checked = stored[len(_PLAIN) :]
        data = checked[_CHECKSUM:]
        return json.loads(data) if checked == _checked(data) else None
    try:
        return json.loads(zlib.decompress(stored))  # which has a checksum of its own
    except zlib.error:
        return None


def _checked(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(_CHECKSUM) + data


def _cut(
    data: bytes, language: str | None
) -> tuple[Sequence[PieceSpan], list[list[Signature]], list[array[int]]]:
    found = shape(data, language)
    signatures: list[list[Signature]] = [[] for _ in found.pieces]
    if found.definitions and language is not None:
        p = 0
        for one in outline.signatures(data, found.definitions, BY_NAME[language]):
            while p + 1 < len(found.pieces) and found.pieces[p].end <= one.start:
                p += 1
            signatures[p].append(one)
    return found.pieces, signatures, [copies.runs(data[one.start : one.end]) for one in found.pieces]


def _cut_key(data: bytes, language: str | None) -> bytes | None:
    """Return the cache key of a cut; None if it cannot be cached."""
    rules = None if language is None else _rules(language)
    return None if rules is None else hashlib.sha256(rules + data).digest()


@cache
def _rules(language: str) -> bytes | None:
    """Return a digest of the code that cuts files; None if its source or version is unknown."""
    if not syntax.works(language):
        return None
    packages = [module.replace("_", "-") for module in BY_NAME[language].modules]
    return digest_of_rules(language, (*CUT_RULES, sys.modules[__name__]), packages)


@cache
def _name_rules() -> bytes | None:
    return digest_of_rules("names", (defined, headed, heads, languages, sys.modules[__name__]))


def _names_key(data: bytes, language: str | None) -> bytes | None:
    """Return the cache key of the names in a content; None if it is too small to be cached."""
    rules = _name_rules() if len(data) >= _MIN_CACHED else None
    named = (language or "").encode()
    return None if rules is None else hashlib.sha256(b"%b%b\n%b" % (rules, named, data)).digest()


def _names(data: bytes, language: str | None) -> list[str]:
    """Return the names that a content defines, without the members of types."""
    known = None if language is None else BY_NAME[language].heads
    if known is None or not known.suffixes or len(data) > pieces.MAX_PARSED:
        return [name.decode() for name in defined.defined_in(data, language)]
    found = dict.fromkeys(_QUALIFIER.sub("", name) for name in headed.names(data, known))
    return [name for name in found if len(name) >= _SHORTEST]
