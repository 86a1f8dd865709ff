"""The texts to pack, the same for every library.

They come from the documentation and the sources of the running Python, so nothing is downloaded and the same
version of Python gives the same bytes; the results contain :func:`fingerprint`.
"""

from __future__ import annotations

import hashlib
import os
import sysconfig
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from pydoc_data import topics

PRIORITIES = (900, 700, 500, 300, 100)
SEPARATOR = "\n\n"

# About 100 o200k tokens with the header line; the mean of every workload is in the results.
_CHUNK_CHARACTERS = 378
_NOT_ORDINARY_SOURCE = ("test", "tests", "idlelib", "lib2to3", "encodings", "turtledemo", "site-packages")


@dataclass(frozen=True, slots=True)
class Item:
    """A text to pack. A higher ``priority`` is kept longer."""

    id: str
    text: str
    priority: int


def items(n: int, variant: int) -> list[Item]:
    """Return ``n`` items in a fixed order, with mixed priorities.

    Variants share no text: each text begins with a line that contains the variant. So a repeat with another
    variant has no cache hits from an earlier one.
    """
    chunks = corpus()
    return [
        Item(
            id=f"s{index}",
            text=f"[source {variant:02d}.{index:06d}]\n{chunks[index % len(chunks)]}",
            # 7919 is prime: priorities follow no pattern of the texts
            priority=PRIORITIES[(index * 7919 + index // 5) % len(PRIORITIES)],
        )
        for index in range(n)
    ]


def changed(item: Item, edit: int) -> Item:
    """Return the item with an edited text."""
    return Item(item.id, f"{item.text}\nEdited for the {edit}th time since the last review.", item.priority)


@cache
def corpus() -> tuple[str, ...]:
    """Return pieces of whole lines, prose and code in turn, in a fixed order."""
    prose = [piece for name in sorted(topics.topics) for piece in _pieces(topics.topics[name])]
    code = [
        piece for path in _sources() for piece in _pieces(path.read_text(encoding="utf-8", errors="replace"))
    ]
    mixed = [piece for pair in zip_longest(prose, code) for piece in pair if piece is not None]
    return tuple(dict.fromkeys(mixed))


def megabyte(size: int) -> str:
    """Return the first ``size`` characters of the corpus as one document."""
    parts: list[str] = []
    total = 0
    for piece in corpus():
        parts.append(piece)
        total += len(piece) + len(SEPARATOR)
        if total >= size:
            break
    text = SEPARATOR.join(parts)
    if len(text) < size:
        text *= size // len(text) + 1
    return text[:size]


def fingerprint() -> str:
    """Return the SHA-256 (hex) of the corpus."""
    digest = hashlib.sha256()
    for piece in corpus():
        digest.update(piece.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()


def _sources() -> list[Path]:
    root = Path(sysconfig.get_path("stdlib"))
    found = []
    for folder, names, files in os.walk(root):
        names[:] = sorted(
            name
            for name in names
            if name not in _NOT_ORDINARY_SOURCE and name != "__pycache__" and "-" not in name
        )
        found.extend(Path(folder, file) for file in sorted(files) if file.endswith(".py") and file[0] != "_")
    return found


def _pieces(text: str) -> list[str]:
    pieces: list[str] = []
    lines: list[str] = []
    size = 0
    for line in text.splitlines(keepends=True):
        lines.append(line)
        size += len(line)
        if size >= _CHUNK_CHARACTERS:
            pieces.append("".join(lines).rstrip())
            lines, size = [], 0
    return [piece for piece in pieces if piece.strip() and len(piece) < 3 * _CHUNK_CHARACTERS]
