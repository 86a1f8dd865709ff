"""Counts of texts composed of pieces: each piece is counted once, and only the joins are counted again.

A text can be cut at a special token, or in ordinary text at a safe cut of its tokenizer. A piece keeps only
the text before its first cut and after its last one; at a join, the tail of one piece is counted together
with the head of the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tokenbox.tokenizers.special import PromptTokenizer

_KEPT: Final = 64  # characters at an end within which no cut is searched
_MAX_CACHED: Final = 1_024  # short texts; the text between messages is nearly always the same


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a prompt. ``head``: the text before its first cut, or all of it if there is no cut.

    ``start`` and ``end``: its first and last characters. ``text``: its full text, if kept. ``is_marked``: it
    contains the mark that :class:`Segments` searches for.
    """

    head: str
    count: int = 0
    tail: str = ""
    is_cut: bool = False
    start: str = ""
    end: str = ""
    text: str | None = None
    is_marked: bool = False


class Segments:
    def __init__(self, prompts: PromptTokenizer, mark: str | None = None) -> None:
        self._prompts = prompts
        self._mark = mark
        self.empty = Segment("")
        self._short: dict[str, Segment] = {"": self.empty}
        self._counts: dict[str, int] = {"": 0}

    def of(self, text: str) -> Segment:
        known = self._short.get(text)
        if known is not None:
            return known
        found = self._of(text)
        if self._mark is not None and self._mark in text:
            found = replace(found, is_marked=True)
        if len(text) <= _KEPT:
            if len(self._short) > _MAX_CACHED:
                self._short = {"": self.empty}
            self._short[text] = found
        return found

    def _count(self, text: str) -> int:
        """Return the count of a text without special tokens."""
        count = self._counts.get(text)
        if count is None:
            count = self._prompts.count_plain(text)
            if len(text) <= _KEPT:
                if len(self._counts) > _MAX_CACHED:
                    self._counts = {"": 0}
                self._counts[text] = count
        return count

    def _of(self, text: str) -> Segment:
        start, end = text[:_KEPT], text[-_KEPT:]
        parts = self._prompts.parts(text)
        if parts is None:
            return Segment(text, start=start, end=end)
        if len(parts) == 1:
            first, last = self._first(text), self._last(text)
            if not 0 <= first <= last:
                return Segment(text, start=start, end=end)
            count = self._prompts.count_plain(text[first:last])
            return Segment(text[:first], count, text[last:], is_cut=True, start=start, end=end)
        head, tail = parts[0], parts[-1]
        first, last = self._first(head), self._last(tail)
        count = len(parts) - 1 + sum(map(self._prompts.count_plain, parts[1:-1]))
        if first >= 0:
            count += self._prompts.count_plain(head[first:])
            head = head[:first]
        if last >= 0:
            count += self._prompts.count_plain(tail[:last])
            tail = tail[last:]
        return Segment(head, count, tail, is_cut=True, start=start, end=end)

    def _first(self, text: str) -> int:
        """Return the first safe cut beyond the reach of a special token across the start; -1 if none."""
        cuts, longest = self._prompts.cuts, self._prompts.longest
        return -1 if cuts is None or len(text) <= longest + _KEPT else cuts.first(text, longest)

    def _last(self, text: str) -> int:
        cuts, longest = self._prompts.cuts, self._prompts.longest
        return (
            -1 if cuts is None or len(text) <= longest + _KEPT else cuts.last(text, len(text) - longest + 1)
        )

    def join(self, left: Segment, right: Segment) -> Segment:
        """Join two adjacent segments: the text between their cuts is cut and counted again."""
        if not left.is_cut and not left.head:
            return right
        if not right.is_cut and not right.head:
            return left
        middle = self.of((left.tail if left.is_cut else left.head) + right.head)
        head, count, tail = middle.head, middle.count, middle.tail
        if left.is_cut:
            if middle.is_cut or right.is_cut:
                count += left.count + self._count(head)
            else:
                count, tail = left.count, head
            head = left.head
        if right.is_cut:
            count += self._count(tail) + right.count
            tail = right.tail
        return Segment(
            head,
            count,
            tail,
            is_cut=left.is_cut or middle.is_cut or right.is_cut,
            start=left.start if len(left.start) >= _KEPT else (left.start + right.start)[:_KEPT],
            end=right.end if len(right.end) >= _KEPT else (left.end + right.end)[-_KEPT:],
            is_marked=left.is_marked or middle.is_marked or right.is_marked,
        )

    def joined(self, pieces: Iterable[str | Segment]) -> Segment:
        found, texts = self.empty, []
        for piece in pieces:
            if isinstance(piece, str):
                texts.append(piece)
                continue
            if texts:
                found = self.join(found, self.of("".join(texts)))
                texts = []
            found = self.join(found, piece)
        return self.join(found, self.of("".join(texts))) if texts else found

    def total(self, segment: Segment) -> int:
        """Return the count of a segment that is the entire prompt."""
        if not segment.is_cut:
            return self._prompts.count(segment.head)
        count = self._count
        return count(segment.head) + segment.count + count(segment.tail)
