"""The safe-cut index: exact counts of any part of a text, also after edits.

The text is stored in chunks of about ``CHUNK`` characters between safe cuts, each with its count, and the
chunks in blocks. For n characters, an edit or a query touches one block, the list of blocks and one chunk:
O(B + n / (B * CHUNK)) with B = ``BLOCK`` chunks per block, plus counting a few words. A stretch without safe
cuts (a megabyte of one letter) is one chunk, and counted as a whole when it changes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from tokenbox.errors import TokenizerError
from tokenbox.tokenizers.graphemes import floor_boundary
from tokenbox.tokenizers.patterns import CutRules
from tokenbox.tokenizers.protocol import AdditiveTokenizer
from tokenbox.tokenizers.truncation import Cuts, checked_size

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer

CHUNK: Final = 1_024
BLOCK: Final = 64
CONTEXT: Final = 128
"""Characters on each side of a boundary on which unproven cuts are checked."""

_ANYWHERE: Final = CutRules("anywhere", r"(?s:.(?=.))")


class _Chunk:
    """A part of the text between two boundaries. ``size``: its tokens, or its weight."""

    __slots__ = ("fine", "size", "text")

    def __init__(self, text: str, size: int) -> None:
        self.text, self.size = text, size
        self.fine: tuple[list[int], list[int]] | None = None  # cuts inside it, and the size up to each


class _Block:
    """Consecutive chunks with prefix sums: ``starts[i]`` and ``sizes[i]`` sum the chunks before i."""

    __slots__ = ("chunks", "sizes", "starts")

    def __init__(self, chunks: list[_Chunk]) -> None:
        self.chunks = chunks
        self.sum_up()

    def sum_up(self) -> None:
        self.starts = list(accumulate([len(c.text) for c in self.chunks], initial=0))
        self.sizes = list(accumulate([c.size for c in self.chunks], initial=0))


class TextIndex:
    """An editable text with the exact counts of the text and of its parts.

    ``rules``: the safe cuts in use; None if every count is made directly, because the tokenizer has no safe
    cuts or because they failed in this text. ``verified``: True if the rules are proven or the sum of the
    parts equalled the count of the whole text.

    Unproven rules: every boundary is checked with ``CONTEXT`` characters on both sides, also after an edit.
    Boundaries that fail are not used, and parts are counted from boundaries at least that far inside them.
    The only assumption is that no boundary depends on characters further away.
    Not thread-safe while it is edited.
    """

    def __init__(self, text: str, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._additive = tokenizer if isinstance(tokenizer, AdditiveTokenizer) else None
        self._measure = self._additive.weigh if self._additive is not None else tokenizer.count
        self.rules: CutRules | None = (
            _ANYWHERE if self._additive is not None else getattr(tokenizer, "cuts", None)
        )
        self._proven = self._additive is not None or bool(getattr(tokenizer, "cuts_proven", False))
        self.verified = self._proven
        chunks = self._chunks_of(text)
        if self.rules is not None and not self._proven:
            whole = tokenizer.count(text)
            self.verified = whole == sum(chunk.size for chunk in chunks)
            if not self.verified:
                self.rules = None
                chunks = [_Chunk(text, whole)] if text else []
        self._blocks = [_Block(chunks[i : i + BLOCK]) for i in range(0, len(chunks), BLOCK)]
        self._sum_up()

    # Queries.

    @property
    def total(self) -> int:
        """The count of the whole text."""
        return self._tokens(self._sizes[-1])

    def __len__(self) -> int:
        return self._starts[-1]

    def text(self) -> str:
        return "".join(chunk.text for block in self._blocks for chunk in block.chunks)

    def count(self, start: int = 0, end: int | None = None) -> int:
        """Return the count of ``text[start:end]``. An end beyond the text is the end of the text.

        Raises :class:`TokenizerError` for a negative bound.
        """
        start, end = self._bounds(start, end)
        if start >= end:
            return 0
        if start == 0 and end == len(self):
            return self.total
        # Unproven cuts are trusted only that far inside the part.
        near = 0 if self._proven else CONTEXT
        low, before = self._first_cut(start + near)
        high, up_to = self._last_cut(end - near)
        if low >= high:
            return self._tokens(self._measure(self._slice(start, end)))
        inner = up_to - before
        return self._tokens(self._part(start, low) + inner + self._part(high, end))

    def longest_prefix(self, max_tokens: int) -> int:
        """Return the length in characters of the longest prefix of at most ``max_tokens`` tokens.

        It ends at a grapheme cluster boundary and is the length of ``truncate(text, max_tokens, tokenizer)``.
        """
        max_tokens = checked_size(max_tokens)
        if self.total <= max_tokens:
            return len(self)
        if not self._proven or self._additive is not None:
            return Cuts(self.text(), self._tokenizer, "head", size=self.total).longest(max_tokens)
        b = bisect_right(self._sizes, max_tokens) - 1
        block = self._blocks[b]
        i = bisect_right(block.sizes, max_tokens - self._sizes[b]) - 1
        start, room = self._starts[b] + block.starts[i], max_tokens - self._sizes[b] - block.sizes[i]
        piece, before = block.chunks[i].text, block.chunks[i].size
        while True:
            found = Cuts(piece, self._tokenizer, "head", size=before).longest(room)
            if found > 0 or start == 0:
                return start + found
            b, i = self._find(start - 1)
            chunk = self._blocks[b].chunks[i]
            if floor_boundary(chunk.text + piece[:1], len(chunk.text)) == len(chunk.text):
                return start
            # The chunk starts inside a cluster: search one chunk earlier.
            start -= len(chunk.text)
            piece, room, before = chunk.text + piece, room + chunk.size, before + chunk.size

    # Edits.

    def replace(self, start: int, end: int, new: str) -> int:
        """Replace ``text[start:end]`` by ``new``. Return the new total.

        Raises :class:`TokenizerError` for a negative bound or an uncountable text, without changing the text.
        """
        start, end = self._bounds(start, end)
        end = max(start, end)
        if not self._blocks:
            self._splice((0, 0), (0, -1), self._chunks_of(new))
            return self.total
        first, last = self._find(start), self._find(max(start, end - 1))
        chunk = self._blocks[first[0]].chunks[first[1]]
        at = start - self._starts[first[0]] - self._blocks[first[0]].starts[first[1]]
        if self._proven and first == last and self._replace_inside(chunk, at, at + end - start, new):
            self._blocks[first[0]].sum_up()
            self._sum_up()
            return self.total
        before = chunk.text[:at]
        tail_block, tail_i = last
        tail = self._blocks[tail_block].chunks[tail_i].text
        after = tail[end - self._starts[tail_block] - self._blocks[tail_block].starts[tail_i] :]
        text = before + new + after
        # A boundary stays valid if its context is unchanged; otherwise the neighbouring chunk is redone, too.
        near = 1 if self._proven else CONTEXT
        left, right = len(before), len(after)
        while left < near and (earlier := self._neighbour(first, -1)) is not None:
            first = earlier
            piece = self._blocks[first[0]].chunks[first[1]].text
            text, left = piece + text, left + len(piece)
        while right < near and (later := self._neighbour(last, 1)) is not None:
            last = later
            piece = self._blocks[last[0]].chunks[last[1]].text
            text, right = text + piece, right + len(piece)
        self._splice(first, last, self._chunks_of(text))
        return self.total

    def _replace_inside(self, chunk: _Chunk, start: int, end: int, new: str) -> bool:
        """Edit one chunk, counting only between the cuts around the edit. Return False if not possible."""
        rules, old = self.rules, chunk.text
        if rules is None or start <= 0 or end >= len(old) or len(old) + len(new) > 2 * CHUNK + end - start:
            return False
        left = max(0, rules.last(old, start))
        right = rules.first(old, end)
        right = right if right >= 0 else len(old)
        edited = old[left:start] + new + old[end:right]
        if len(edited) > CHUNK:
            return False
        size = chunk.size + self._measure(edited) - self._measure(old[left:right])
        chunk.text, chunk.size, chunk.fine = old[:left] + edited + old[right:], size, None
        return True

    # Storage.

    def _chunks_of(self, text: str) -> list[_Chunk]:
        """Split ``text`` into chunks at valid safe cuts."""
        rules = self.rules
        pieces: list[str] = []
        place = 0
        while place < len(text):
            cut = -1
            if rules is not None and len(text) - place > CHUNK + CHUNK // 2:
                cut = rules.first(text, place + CHUNK - 1)
                while cut >= 0 and not self._proven and not self._holds(text, cut):
                    cut = rules.first(text, cut)
            cut = cut if cut >= 0 else len(text)
            pieces.append(text[place:cut])
            place = cut
        sizes: Sequence[int]
        if self._additive is not None:
            sizes = [self._additive.weigh(piece) for piece in pieces]
        else:
            sizes = self._tokenizer.count_batch(pieces)
        return [_Chunk(piece, size) for piece, size in zip(pieces, sizes, strict=True)]

    def _holds(self, text: str, cut: int) -> bool:
        """Return True if the counts of the text around ``cut`` add up there."""
        left, right = text[max(0, cut - CONTEXT) : cut], text[cut : cut + CONTEXT]
        parts, whole = self._measure(left) + self._measure(right), self._measure(left + right)
        return parts == whole

    def _sum_up(self) -> None:
        self._starts = list(accumulate([block.starts[-1] for block in self._blocks], initial=0))
        self._sizes = list(accumulate([block.sizes[-1] for block in self._blocks], initial=0))

    def _splice(self, first: tuple[int, int], last: tuple[int, int], new: list[_Chunk]) -> None:
        """Replace the chunks from ``first`` to ``last``, both included, by ``new``."""
        head = self._blocks[first[0]].chunks[: first[1]] if self._blocks else []
        tail = self._blocks[last[0]].chunks[last[1] + 1 :] if self._blocks else []
        if self._proven and new:
            # Merge small neighbours, whose counts add up, so that chunks do not get smaller and smaller.
            if tail and len(new[-1].text) + len(tail[0].text) <= CHUNK:
                new[-1] = _Chunk(new[-1].text + tail[0].text, new[-1].size + tail.pop(0).size)
            if head and len(new[0].text) + len(head[-1].text) <= CHUNK:
                new[0] = _Chunk(head[-1].text + new[0].text, head.pop().size + new[0].size)
        chunks = head + new + tail
        step = BLOCK if len(chunks) > 2 * BLOCK else max(1, len(chunks))
        self._blocks[first[0] : last[0] + 1] = [
            _Block(chunks[i : i + step]) for i in range(0, len(chunks), step)
        ]
        self._sum_up()

    def _find(self, place: int) -> tuple[int, int]:
        """Return the block and chunk of the character at ``place``; the last ones for the end of the text."""
        b = min(bisect_right(self._starts, place) - 1, len(self._blocks) - 1)
        block = self._blocks[b]
        return b, min(bisect_right(block.starts, place - self._starts[b]) - 1, len(block.chunks) - 1)

    def _neighbour(self, at: tuple[int, int], step: int) -> tuple[int, int] | None:
        b, i = at[0], at[1] + step
        if 0 <= i < len(self._blocks[b].chunks):
            return b, i
        b += step
        if not 0 <= b < len(self._blocks):
            return None
        return b, (0 if step > 0 else len(self._blocks[b].chunks) - 1)

    # Counts of parts.

    def _tokens(self, size: int) -> int:
        return self._additive.count_of(size) if self._additive is not None else size

    def _bounds(self, start: int, end: int | None) -> tuple[int, int]:
        stop = len(self) if end is None else end
        if start < 0 or stop < 0:
            raise TokenizerError(f"the bounds are {start} and {stop}. Give character offsets of 0 or more.")
        return min(start, len(self)), min(stop, len(self))

    def _first_cut(self, place: int) -> tuple[int, int]:
        """Return the first cut at or after ``place``, or the end of the text, and the size before it."""
        if place >= len(self):
            return len(self), self._sizes[-1]
        start, size, cuts, sizes = self._cuts_at(place)
        i = bisect_left(cuts, place - start)
        return start + cuts[i], size + sizes[i]

    def _last_cut(self, place: int) -> tuple[int, int]:
        """Return the last cut at or before ``place``, or the start of the text, and the size before it."""
        if place <= 0:
            return 0, 0
        start, size, cuts, sizes = self._cuts_at(place)
        i = bisect_right(cuts, place - start) - 1
        return start + cuts[i], size + sizes[i]

    def _cuts_at(self, place: int) -> tuple[int, int, list[int], list[int]]:
        """Return the start of the chunk at ``place``, the size before it, and the cuts and sizes in it.

        Proven cuts are about 32 characters apart, and found on first use. Of others, only the ends of a chunk
        are known to hold.
        """
        b, i = self._find(place)
        block = self._blocks[b]
        chunk, rules = block.chunks[i], self.rules if self._proven else None
        if chunk.fine is None:
            cuts, text = [0], chunk.text
            while rules is not None and (cut := rules.first(text, cuts[-1] + 31)) >= 0:
                cuts.append(cut)
            cuts.append(len(text))
            sizes = [chunk.size]
            if len(cuts) > 2:
                sizes = [self._measure(text[left:right]) for left, right in pairwise(cuts)]
            chunk.fine = cuts, list(accumulate(sizes, initial=0))
        return self._starts[b] + block.starts[i], self._sizes[b] + block.sizes[i], *chunk.fine

    def _part(self, start: int, end: int) -> int:
        return self._measure(self._slice(start, end)) if end > start else 0

    def _slice(self, start: int, end: int) -> str:
        (b, i), (c, j) = self._find(start), self._find(end - 1)
        offset = self._starts[b] + self._blocks[b].starts[i]
        at: tuple[int, int] | None = (b, i)
        parts: list[str] = []
        while at is not None and at <= (c, j):
            parts.append(self._blocks[at[0]].chunks[at[1]].text)
            at = self._neighbour(at, 1)
        return "".join(parts)[start - offset : end - offset]
