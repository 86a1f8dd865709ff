"""Counts of texts that are put together from pieces: each piece is counted once, and the seams anew.

A text can be cut at a special token, and between two pieces of ordinary text at a safe cut of its tokenizer.
Of a piece only what lies before its first cut and behind its last one is kept as text; the count of a seam is
the count of one piece's tail with the next one's head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenbox.tokenizers.special import PromptTokenizer

_KEPT: Final = 64  # characters of an end that are worth no cut
_SEAMS: Final = (
    1_024  # short texts that are remembered: what stands between messages is nearly always the same
)


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a prompt. ``head`` is all its text if it has no cut; ``start`` and ``end`` are its ends.

    ``text`` is all of it where that is kept. ``is_marked``: the words that are looked for are in it.
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
    """The pieces of prompts of one vocabulary."""

    def __init__(self, prompts: PromptTokenizer, mark: str | None = None) -> None:
        self._prompts = prompts
        self._mark = mark
        self.empty = Segment("")
        self._short: dict[str, Segment] = {"": self.empty}
        self._counts: dict[str, int] = {"": 0}

    def of(self, text: str) -> Segment:
        """The piece of a text."""
        known = self._short.get(text)
        if known is not None:
            return known
        found = self._of(text)
        if self._mark is not None and self._mark in text:
            found = replace(found, is_marked=True)
        if len(text) <= _KEPT:
            if len(self._short) > _SEAMS:
                self._short = {"": self.empty}
            self._short[text] = found
        return found

    def _count(self, text: str) -> int:
        """The count of a text without special tokens."""
        count = self._counts.get(text)
        if count is None:
            count = self._prompts.count_plain(text)
            if len(text) <= _KEPT:
                if len(self._counts) > _SEAMS:
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
        """The first safe cut that no special token across the text's start can reach; -1 if there is none."""
        cuts, longest = self._prompts.cuts, self._prompts.longest
        return -1 if cuts is None or len(text) <= longest + _KEPT else cuts.first(text, longest)

    def _last(self, text: str) -> int:
        cuts, longest = self._prompts.cuts, self._prompts.longest
        return (
            -1 if cuts is None or len(text) <= longest + _KEPT else cuts.last(text, len(text) - longest + 1)
        )

    def join(self, left: Segment, right: Segment) -> Segment:
        """One piece of two."""
        found = self._join(left, right)
        is_marked = left.is_marked or right.is_marked
        return replace(found, is_marked=True) if is_marked and not found.is_marked else found

    def _join(self, left: Segment, right: Segment) -> Segment:
        if not left.is_cut and not left.head:
            return right
        if not right.is_cut and not right.head:
            return left
        start = left.start if len(left.start) >= _KEPT else (left.start + right.start)[:_KEPT]
        end = right.end if len(right.end) >= _KEPT else (left.end + right.end)[-_KEPT:]
        middle = self.of((left.tail if left.is_cut else left.head) + right.head)
        if not left.is_cut and not right.is_cut:
            return middle
        if not middle.is_cut:
            marked = middle.is_marked
            if left.is_cut and right.is_cut:
                count = left.count + self._count(middle.head) + right.count
                return Segment(
                    left.head, count, right.tail, is_cut=True, start=start, end=end, is_marked=marked
                )
            if left.is_cut:
                return Segment(
                    left.head, left.count, middle.head, is_cut=True, start=start, end=end, is_marked=marked
                )
            return Segment(
                middle.head, right.count, right.tail, is_cut=True, start=start, end=end, is_marked=marked
            )
        head, count, tail = middle.head, middle.count, middle.tail
        if left.is_cut:
            count += left.count + self._count(head)
            head = left.head
        if right.is_cut:
            count += self._count(tail) + right.count
            tail = right.tail
        return Segment(head, count, tail, is_cut=True, start=start, end=end, is_marked=middle.is_marked)

    def joined(self, pieces: Iterable[str | Segment]) -> Segment:
        """One piece of many, and of the texts between them."""
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
        """The count of a piece that is the whole prompt."""
        if not segment.is_cut:
            return self._prompts.count(segment.head)
        count = self._count
        return count(segment.head) + segment.count + count(segment.tail)
