"""What a question needs of an old conversation: pieces of it compete by worth for what recency leaves.

An eighth of the room goes to the newest parts, so that the thread is kept. The rest goes to the pieces that
match the question best, by BM25 over all of them: a piece is a line, or a sentence of a long one. A part is
a round of tool calls with its results, or what an exchange holds beside its rounds. With its first piece all
of a part comes in: its short messages whole, and of the long ones the pieces that match, with a line that
counts what is missing; so an answer stays beside its question, and a result beside its call. A piece is worth
more where its part, and what stands next to it, match as well. What room is then left makes these parts
whole, the best first, and goes to the newest of the others.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from tokenbox.content.lenses.lines import left_out, split_lines
from tokenbox.content.lenses.prose import sentence_ends
from tokenbox.content.message import Role
from tokenbox.engine.window import LEAST_CUT
from tokenbox.errors import InvalidBudget
from tokenbox.tokenizers.graphemes import sticks_to_left
from tokenbox.worth.lexical import FieldWeights, Lexical, identifiers
from tokenbox.worth.query import read_question

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenbox.content.items import Item
    from tokenbox.engine.window import WindowLimits

LAST: Final = "last"
"""The name of the last user message as the query."""
RECENT: Final = 8
"""The newest parts have one in so many tokens of the room for themselves."""
MARK: Final = 12
"""Tokens that a line about what is left out takes: a gap that is no longer than that is shown."""
_SENTENCE: Final = 320
"""Characters of a line from which on its sentences are pieces of their own."""
# Percent of its part's match, and of that of the piece before and after it, that a piece gets.
_PART, _BESIDE = 50, 30
_BM25 = FieldWeights(k1=150, b=75)


def asked(query: str | None, items: Sequence[Item], limits: WindowLimits) -> str | None:
    """The text that old parts must match; None: the oldest leave first. Raises :class:`InvalidBudget`."""
    if query is None:
        return None
    if limits.budget is None or limits.eagerness is not None or limits.mark != limits.budget:
        raise InvalidBudget("query needs a budget and low_water=1: what it needs changes with each request.")
    if query != LAST:
        return query
    spoken = (item for item in reversed(items) if item.role is Role.USER)
    return next((item.text for item in spoken if item.text), "")


def pieces_of(text: str) -> list[str]:
    """The lines of a text, long ones by their sentences: joined, they are the text."""
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
    """What an item says, which counts ``size`` tokens. Short texts are shown whole or not at all.

    ``beside``: what the item counts beside its text; None: it cannot be shown in part. ``ends``: where the
    pieces of each of its texts end, where it has several.
    """

    pieces: list[str]
    size: int
    beside: int | None = None
    ends: tuple[int, ...] = ()
    chosen: list[int] = field(default_factory=list)
    whole: bool = False
    _sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """What each piece counts is estimated by its share of the text."""
        if self.beside is None or self.size - self.beside <= LEAST_CUT:
            self.beside = None
            return
        lengths = [len(piece.encode("utf-8", "replace")) for piece in self.pieces]
        here, all_of_it = self.size - self.beside, max(1, sum(lengths))
        self._sizes = [end * here // all_of_it for end in accumulate(lengths, initial=0)]

    def opened(self) -> int:
        """What it takes to have the item there at all."""
        return self.size if self.beside is None else self.beside + MARK

    def now(self) -> int:
        """What it counts as it is shown."""
        if self.whole or self.beside is None:
            return self.size
        places = [-1, *self.chosen, len(self.pieces)]
        return self.beside + sum(
            self._between(a, b) + (self._sizes[b + 1] - self._sizes[b] if b < len(self.pieces) else 0)
            for a, b in pairwise(places)
        )

    def price(self, piece: int) -> int:
        """By how much it grows with this piece."""
        if self.whole or self.beside is None:
            return 0
        at = bisect_left(self.chosen, piece)
        if self.chosen[at : at + 1] == [piece]:
            return 0
        before = self.chosen[at - 1] if at else -1
        after = self.chosen[at] if at < len(self.chosen) else len(self.pieces)
        beside = self._between(before, piece) + self._between(piece, after)
        return self._sizes[piece + 1] - self._sizes[piece] + beside - self._between(before, after)

    def take(self, piece: int) -> None:
        if self.beside is not None and self.price(piece):
            insort(self.chosen, piece)

    def shown(self) -> list[tuple[str, bool]] | None:
        """Each text with the pieces that are shown, and whether there are any; None: all of them are."""
        kept = self._kept()
        if kept is None:
            return None
        here, start = set(kept), 0
        found: list[tuple[str, bool]] = []
        for end in self.ends or (len(self.pieces),):
            of_it = [piece for piece in range(start, end) if piece in here]
            found.append((_joined(self.pieces[start:end], [piece - start for piece in of_it]), bool(of_it)))
            start = end
        return found

    def _kept(self) -> list[int] | None:
        """The pieces that are shown, with the gaps that are shorter than a mark; None: all."""
        if self.whole or self.beside is None:
            return None
        places = [-1, *self.chosen, len(self.pieces)]
        found: list[int] = []
        for a, b in pairwise(places):
            if self._sizes[b] - self._sizes[a + 1] <= MARK:
                found += range(a + 1, b)
            found += [b] if b < len(self.pieces) else []
        return None if len(found) == len(self.pieces) else found

    def _between(self, before: int, after: int) -> int:
        """What stands for the pieces between two that are shown."""
        return min(MARK, self._sizes[after] - self._sizes[before + 1])


def _joined(pieces: Sequence[str], kept: Sequence[int]) -> str:
    """The pieces that are kept, in order, and a mark for each run of others."""
    out, before = [], 0
    for at in (*kept, len(pieces)):
        if at > before:
            gap = "".join(pieces[before:at])
            end = "\n" if gap.endswith(("\n", "\r")) else " " if at < len(pieces) else ""
            out.append(left_out(len(split_lines(gap)), "line") + end)
        out += pieces[at : at + 1]
        before = at + 1
    return "".join(out)


Piece = tuple[int, int, int]
"""Where a piece is: the place of its part, the text in it, the piece of the text."""


def ranked(parts: Sequence[Sequence[ItemText]], query: str) -> list[Piece]:
    """The pieces that match the query, or stand next to one that does, the best first."""
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
        beside = sum(pieces[other] for other in (at - 1, at + 1) if 0 <= other < len(pieces))
        if pieces[at] or beside:
            worth = pieces[at] + (whole[place[0]] * _PART + beside * _BESIDE) // 100
            found.append((-worth, -at, place))
    return [place for _, _, place in sorted(found)]


def choose(parts: Sequence[Sequence[ItemText]], order: Sequence[Piece], room: int) -> set[int]:
    """The places of the parts that stay, within about ``room`` tokens; each text knows what of it is shown.

    ``parts`` are in the order of the conversation, ``order`` is what :func:`ranked` says.
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
        if place not in stay:  # all of the part comes in with its first piece
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
    """BM25 of each text among all of them."""
    lexical = Lexical(read_question(query))
    data = [text.encode("utf-8", "replace") for text in texts]
    found = [lexical.read(identifiers(one), len(one)) for one in data]
    lexical.finish()
    usual = sum(map(len, data)) // max(1, len(data))
    return [
        lexical.score(body, {}, {}, len(one), usual, _BM25) if body else 0
        for body, one in zip(found, data, strict=True)
    ]
