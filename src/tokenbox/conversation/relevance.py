"""The selection of the parts of an old conversation that match a query.

An eighth of the room goes to the newest parts, to keep the thread. The rest goes to the pieces that match
the query best, by BM25 over all pieces: a piece is a line, or a sentence of a long line. A part is a round
of tool calls with its results, or the rest of an exchange. The first piece of a part brings in the entire
part: its short messages in full, and the matching pieces of the long ones, with a line that counts the
omitted text. So an answer stays with its question, and a result with its call. A piece is worth more if its
part and its neighbours match, too. The remaining room completes these parts, the best first, then the
newest others.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from tokenbox.compose.selection import check_query
from tokenbox.content.lenses.lines import omission, split_lines
from tokenbox.content.lenses.prose import sentence_ends
from tokenbox.content.message import Role
from tokenbox.engine.steps import LEAST_CUT, WindowLimits
from tokenbox.errors import InvalidBudget
from tokenbox.tokenizers.graphemes import sticks_to_left
from tokenbox.worth.lexical import FieldWeights, Lexical
from tokenbox.worth.query import read_question

if TYPE_CHECKING:
    from tokenbox.content.items import Item

LAST: Final = "last"
"""The query that stands for the last user message."""
RECENT: Final = 8
"""The newest parts get 1/8 of the room."""
MARK: Final = 12
"""The tokens of a line about omitted text; a shorter gap is shown instead."""
_SENTENCE: Final = 320
"""The length in characters above which a line is split into sentences."""
# The percentages of its part's score and of its neighbours' scores that are added to a piece's score.
_PART, _NEIGHBOURS = 50, 30
_BM25 = FieldWeights(k1=150, b=75)


def asked(query: str | None, items: Sequence[Item], limits: WindowLimits) -> str | None:
    """Return the text to match with; None if there is no query.

    Raises :class:`InvalidBudget` and ``InvalidContent``.
    """
    check_query(query)
    if query is None:
        return None
    if limits.budget is None or limits.eagerness is not None or limits.mark != limits.budget:
        raise InvalidBudget("query needs a budget and low_water=1: what it needs changes with each request.")
    if query != LAST:
        return query
    of_user = (item for item in reversed(items) if item.role is Role.USER)
    return next((item.text for item in of_user if item.text), "")


def pieces_of(text: str) -> list[str]:
    """Split a text into lines, and long lines into sentences. Joined, the pieces give the text."""
    return [piece for line in split_lines(text) for piece in _sentences(line)]


def _sentences(line: str) -> Iterator[str]:
    start = 0
    if len(line) > _SENTENCE:
        for end in sentence_ends(line):
            while end < len(line) and line[end].isspace():
                end += 1  # noqa: PLW2901  # the blank belongs to the sentence before it
            if start < end < len(line) and not sticks_to_left(line[end]):
                yield line[start:end]
                start = end
    yield line[start:]


@dataclass(slots=True)
class ItemText:
    """The text of an item of ``size`` tokens, in pieces. Short texts are shown in full or not at all.

    ``overhead``: the item's tokens without its text; None: it cannot be shown in part. ``ends``: the end of
    the pieces of each of its texts, if it has several. ``handles``: of each of its texts, for the first mark
    in it; part of ``overhead``.
    """

    pieces: list[str]
    size: int
    overhead: int | None = None
    ends: tuple[int, ...] = ()
    handles: tuple[str, ...] = ()
    chosen: list[int] = field(default_factory=list)
    whole: bool = False
    _sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Estimate the running sizes of the pieces by their share of the text."""
        if self.overhead is None or self.size - self.overhead <= LEAST_CUT:
            self.overhead = None
            return
        lengths = [len(piece.encode("utf-8", "replace")) for piece in self.pieces]
        tokens, length = self.size - self.overhead, max(1, sum(lengths))
        self._sizes = [end * tokens // length for end in accumulate(lengths, initial=0)]

    def opened(self) -> int:
        """Return the size of the item without any chosen piece."""
        return self.size if self.overhead is None else self.overhead + MARK

    def now(self) -> int:
        """Return the size of the item with the chosen pieces."""
        if self.whole or self.overhead is None:
            return self.size
        places = [-1, *self.chosen, len(self.pieces)]
        return self.overhead + sum(
            self._between(a, b) + (self._sizes[b + 1] - self._sizes[b] if b < len(self.pieces) else 0)
            for a, b in pairwise(places)
        )

    def price(self, piece: int) -> int:
        """Return the tokens that this piece adds."""
        if self.whole or self.overhead is None:
            return 0
        at = bisect_left(self.chosen, piece)
        if self.chosen[at : at + 1] == [piece]:
            return 0
        before = self.chosen[at - 1] if at else -1
        after = self.chosen[at] if at < len(self.chosen) else len(self.pieces)
        gaps = self._between(before, piece) + self._between(piece, after)
        return self._sizes[piece + 1] - self._sizes[piece] + gaps - self._between(before, after)

    def take(self, piece: int) -> None:
        if self.overhead is not None and self.price(piece):
            insort(self.chosen, piece)

    def shown(self) -> list[tuple[str, bool]] | None:
        """Return each text as it is shown, and False if no piece of it is; None if all pieces are shown."""
        kept = self._kept()
        if kept is None:
            return None
        present, start = set(kept), 0
        found: list[tuple[str, bool]] = []
        for number, end in enumerate(self.ends or (len(self.pieces),)):
            places = [piece - start for piece in range(start, end) if piece in present]
            handle = self.handles[number] if self.handles else ""
            found.append((_joined(self.pieces[start:end], places, handle), bool(places)))
            start = end
        return found

    def _kept(self) -> list[int] | None:
        """Return the pieces that are shown, including gaps shorter than a mark; None: all."""
        if self.whole or self.overhead is None:
            return None
        places = [-1, *self.chosen, len(self.pieces)]
        found: list[int] = []
        for a, b in pairwise(places):
            if self._sizes[b] - self._sizes[a + 1] <= MARK:
                found += range(a + 1, b)
            found += [b] if b < len(self.pieces) else []
        return None if len(found) == len(self.pieces) else found

    def _between(self, before: int, after: int) -> int:
        """Return the tokens shown for the pieces between two chosen ones: a mark, or the pieces."""
        return min(MARK, self._sizes[after] - self._sizes[before + 1])


def _joined(pieces: Sequence[str], kept: Sequence[int], handle: str) -> str:
    """Join the kept pieces, with a mark for each run of omitted ones. The first mark has the handle."""
    out, before = [], 0
    for at in (*kept, len(pieces)):
        if at > before:
            gap = "".join(pieces[before:at])
            end = "\n" if gap.endswith(("\n", "\r")) else " " if at < len(pieces) else ""
            out.append(omission(len(split_lines(gap)), "line", handle=handle) + end)
            handle = ""
        out += pieces[at : at + 1]
        before = at + 1
    return "".join(out)


Piece = tuple[int, int, int]
"""The place of a piece: its part, the text in the part, the piece of the text."""


def ranked(parts: Sequence[Sequence[ItemText]], query: str) -> list[Piece]:
    """Return the pieces that match the query or have a neighbour that does, the best first."""
    where = [
        (number, text, piece)
        for number, part in enumerate(parts)
        for text, one in enumerate(part)
        for piece in range(len(one.pieces))
    ]
    pieces = _scores([parts[p][t].pieces[i] for p, t, i in where], query)
    whole = _scores(["\n".join("".join(text.pieces) for text in part) for part in parts], query)
    found: list[tuple[int, int, Piece]] = []
    for at, place in enumerate(where):
        neighbours = sum(pieces[other] for other in (at - 1, at + 1) if 0 <= other < len(pieces))
        if pieces[at] or neighbours:
            worth = pieces[at] + (whole[place[0]] * _PART + neighbours * _NEIGHBOURS) // 100
            found.append((-worth, -at, place))
    return [place for _, _, place in sorted(found)]


def choose(parts: Sequence[Sequence[ItemText]], order: Sequence[Piece], room: int) -> set[int]:
    """Return the places of the parts that stay, within about ``room`` tokens; choose the pieces of each text.

    ``parts``: in the order of the conversation. ``order``: from :func:`ranked`.
    """
    for part in parts:
        for one in part:
            one.chosen, one.whole = [], False
    stay: set[int] = set()
    left = room
    newest = range(len(parts) - 1, -1, -1)
    whole = [sum(text.size for text in part) for part in parts]
    for place in newest:
        if room - left + whole[place] > room // RECENT:
            break
        left -= _make_whole(parts[place], whole[place], 0)
        stay.add(place)
    matched: dict[int, None] = {}
    for place, text, piece in order:
        price = parts[place][text].price(piece)
        if place not in stay:  # the first piece brings in the entire part
            price = min(whole[place], price + sum(one.opened() for one in parts[place]))
        if price <= left:
            left -= price
            parts[place][text].take(piece)
            matched[place] = None
            stay.add(place)
    for place in (*matched, *newest):
        now = sum(one.now() for one in parts[place]) if place in stay else 0
        if whole[place] - now <= left:
            left -= _make_whole(parts[place], whole[place], now)
            stay.add(place)
    return stay


def _make_whole(part: Sequence[ItemText], whole: int, now: int) -> int:
    for one in part:
        one.whole = True
    return whole - now


def _scores(texts: Sequence[str], query: str) -> list[int]:
    """Return the BM25 score of each text among all of them."""
    lexical = Lexical(read_question(query))
    data = [text.encode("utf-8", "replace") for text in texts]
    found = [lexical.read(one) for one in data]
    lexical.finish()
    average = sum(map(len, data)) // max(1, len(data))
    return [
        lexical.score(body, {}, {}, len(one), average, _BM25) if body else 0
        for body, one in zip(found, data, strict=True)
    ]
