"""Cutting of sections, at the positions and with the marker that the section defines.

A cut is the longest whose own count fits, including the marker. The marker says how many tokens were removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from tokenbox.content.section import Cut, Keep, Section
from tokenbox.tokenizers.graphemes import sticks_to_left
from tokenbox.tokenizers.measures import cut_text
from tokenbox.tokenizers.truncation import Cuts

if TYPE_CHECKING:
    from tokenbox.compose.counting import Counter

# A word ends before white space; each Chinese or Japanese character is a word.
_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD_END = re.compile(rf"(?<=\S)(?=\s)|(?<=[{_IDEOGRAPH}])(?=\S)|(?<=\S)(?=[{_IDEOGRAPH}])")
_LINE_END = re.compile(r"\r\n|\n|\r")
# The number of tokens that a cut and its marker may save by merging.
AHEAD = 2
_SPACE = re.compile(r"\s*")


class SectionCuts:
    """The cuts of one form of a section: a ``text`` of ``size`` tokens."""

    def __init__(self, section: Section, text: str, size: int, counter: Counter) -> None:
        self.text, self.size, self.counter = text, size, counter
        self.never = section.cut is Cut.NEVER
        self.marker = section.marker
        places = None if self.never else cut_places(section, text)
        self.cuts = Cuts(text, counter.measuring, section.keep, size=size, places=places)

    def longest(self, at_most: int) -> str:
        """Return the longest cut of at most ``at_most`` tokens; it may be empty."""
        if self.never or at_most <= 0:
            return ""
        if not self.marker:
            return self._kept(self.cuts.longest(at_most))
        count, best = self.counter.count, 0
        room = at_most - count(self._filled(self.size))
        while room > 0:
            best = self.cuts.longest(room)
            over = count(self._marked(best)) - at_most
            if over <= 0:
                break
            room, best = room - over, 0
        # A longer cut removes less, so its marker may be shorter.
        least = count(self._filled(0)) - AHEAD
        for m in self.cuts.after(best):
            if count(self._marked(m)) <= at_most:
                best = m
            elif count(self._kept(m)) + least > at_most:
                break
        return self._marked(best)

    def shortest(self, at_least: int) -> str:
        """Return the shortest cut such that it and all longer ones have at least ``at_least`` tokens."""
        if self.never:
            return self.text
        count, best = self.counter.count, -1
        room = at_least - 1 - (count(self._filled(self.size)) + AHEAD if self.marker else 0)
        for m in self.cuts.after(self.cuts.longest(max(0, room))):
            if count(self._marked(m)) < at_least:
                best = -1
            elif best < 0:
                best = m
            if best >= 0 and (not self.marker or count(self._kept(m)) >= at_least):
                return self._marked(best)
        return self.text

    def _kept(self, m: int) -> str:
        return cut_text(self.text, self.cuts.spans(m))

    def _marked(self, m: int) -> str:
        """Return the cut of size ``m``, with a marker at each gap."""
        kept = self._kept(m)
        if not self.marker or not kept or kept == self.text:
            return kept
        spans = self.cuts.spans(m)
        edges = [0, *chain.from_iterable(spans), len(self.text)]
        gaps = list(zip(edges[::2], edges[1::2], strict=True))
        only_one = sum(start < end for start, end in gaps) == 1
        pieces = []
        for (start, end), span in zip(gaps, [*spans, (0, 0)], strict=True):
            if start < end:
                count = self.counter.count
                lost = self.size - count(kept) if only_one else count(self.text[start:end])
                pieces.append(self._filled(max(0, lost)))
            pieces.append(self.text[slice(*span)])
        return "".join(pieces)

    def _filled(self, tokens: int) -> str:
        about = "" if self.counter.tokenizer.identity.exact else "~"
        return self.marker.replace("{tokens}", f"{about}{tokens:,}")


def cut_places(section: Section, text: str) -> Sequence[int] | None:
    """Return the allowed cut positions in ``text``, including 0 and its end; None: any grapheme boundary."""
    if section.items is not None and text == section.content:
        return item_places(section.items)
    if section.cut is Cut.GRAPHEME:
        return None
    starts = section.keep is not Keep.HEAD  # a head ends after a word; other parts begin with a word
    if section.cut is Cut.LINE:
        found: Iterable[int] = (match.end() for match in _LINE_END.finditer(text))
    elif section.cut is Cut.WORD:
        found = (match.start() for match in _WORD_END.finditer(text))
    else:
        from tokenbox.content.lenses.prose import sentence_ends  # lenses are loaded on first use

        found = sentence_ends(text)
    places = {0, len(text)}
    for end in found:
        space = _SPACE.match(text, end) if starts and section.cut is not Cut.LINE else None
        place = end if space is None else space.end()
        # Nothing sticks to a line end.
        if section.cut is Cut.LINE or not sticks_to_left(text[place : place + 1]):
            places.add(place)
    return sorted(places)


def item_places(items: Sequence[str]) -> Sequence[int]:
    """Return the ends of the items of a content with one item per line, including line ends."""
    ends = list(accumulate(len(item) + 1 for item in items))
    return sorted({0, *ends[:-1], ends[-1] - 1}) if ends else [0]
