"""A Merkle tree over the entries of a log, as in RFC 9162 (section 2.1): roots, and inclusion proofs.

Unlike a hash chain, it proves one entry without all later ones: the proof for one bundle among a million is
20 hashes, and the other bundles stay private.

The stored hashes are append-only: entry n adds its leaf, then each inner node that it completes. So a node is
found by its level and number, and a root needs O(log n) of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

HASH_SIZE: Final = 32
EMPTY_ROOT: Final = hashlib.sha256().digest()

Read = Callable[[int], bytes]
"""``read(index)`` returns the stored hash at that place."""


def leaf_hash(entry: bytes) -> bytes:
    return hashlib.sha256(b"\0" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def stored(entries: int) -> int:
    """Return the number of stored hashes for a number of entries."""
    return 2 * entries - entries.bit_count()


def new_hashes(number: int, leaf: bytes, read: Read) -> Iterator[bytes]:
    """Yield the hashes to store for entry ``number`` (from 0): its leaf, then each node that it completes."""
    yield leaf
    node, level = leaf, 0
    while number >> level & 1:
        # The left sibling is older, so it is stored.
        node = node_hash(read(place(level, (number >> level) - 1)), node)
        yield node
        level += 1


def place(level: int, number: int) -> int:
    """Return the index of node ``number`` of ``level``: after the lower nodes of the same entry."""
    last = ((number + 1) << level) - 1
    return stored(last) + level


def root(entries: int, read: Read) -> bytes:
    """Return the root of the first ``entries`` entries."""
    return _root(0, entries, read)


def inclusion(number: int, entries: int, read: Read) -> list[bytes]:
    """Return the audit path of entry ``number`` in the tree of ``entries`` entries (RFC 9162, 2.1.3.1)."""
    path: list[bytes] = []
    start, end = 0, entries
    while end - start > 1:
        middle = start + _split(end - start)
        if number < middle:
            path.append(_root(middle, end, read))
            end = middle
        else:
            path.append(_root(start, middle, read))
            start = middle
    return path[::-1]


def root_of_inclusion(entry: bytes, number: int, entries: int, path: Sequence[bytes]) -> bytes | None:
    """Return the root that the path leads to; None if the path is invalid (RFC 9162, 2.1.3.2)."""
    if not 0 <= number < entries:
        return None
    node, last, found = number, entries - 1, leaf_hash(entry)
    for sibling in path:
        if last == 0:
            return None
        if node & 1 or node == last:
            found = node_hash(sibling, found)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        node, last = node >> 1, last >> 1
    return found if last == 0 else None


class GrowingRoot:
    """The root of a growing list, in O(log n) memory."""

    def __init__(self) -> None:
        self.entries = 0
        self._peaks: list[bytes] = []

    def add(self, entry: bytes) -> None:
        node, number = leaf_hash(entry), self.entries
        while number & 1:
            node = node_hash(self._peaks.pop(), node)
            number >>= 1
        self._peaks.append(node)
        self.entries += 1

    @property
    def root(self) -> bytes:
        if not self._peaks:
            return EMPTY_ROOT
        found = self._peaks[-1]
        for peak in self._peaks[-2::-1]:
            found = node_hash(peak, found)
        return found


def _root(start: int, end: int, read: Read) -> bytes:
    """Return the root of the entries from ``start`` to ``end``, a subtree of the log."""
    size = end - start
    if size == 0:
        return EMPTY_ROOT
    if size & (size - 1) == 0:
        level = size.bit_length() - 1
        return read(place(level, start >> level))
    middle = start + _split(size)
    return node_hash(_root(start, middle, read), _root(middle, end, read))


def _split(size: int) -> int:
    """Return the largest power of two below ``size``."""
    return 1 << (size - 1).bit_length() - 1
