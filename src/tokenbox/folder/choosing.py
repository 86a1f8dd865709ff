"""Choose the pieces of files to show, and their forms, by exact token counts (docs/pack.md, selection.md)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from tokenbox.engine.choice import Choice, Upgrade, choose
from tokenbox.folder.candidates import CandidateFile, PieceForm, ShownLines, brief, numbered
from tokenbox.folder.cutting import cut_all
from tokenbox.render.registry import find_renderer
from tokenbox.tokenizers.truncation import truncate
from tokenbox.worth.copies import counted_once
from tokenbox.worth.standing import Standing

if TYPE_CHECKING:
    from tokenbox.compose.counting import Counter
    from tokenbox.folder.introducing import Introduction
    from tokenbox.folder.source import File
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.worth.scorers import Worth


@dataclass(frozen=True, slots=True)
class Depths:
    """The worth of each form in percent of the worth of its piece.

    ``of_shown_files``: only files with a shown piece have an outline, worth as much as their best piece.
    ``markup``: the maximum percentage of the room for the markup around files, as long as more of the files
    that are shown already fits.
    """

    body: int
    outline: int
    of_shown_files: bool
    markup: int = 100


WITH_QUERY = Depths(body=100, outline=22, of_shown_files=True)
WITHOUT_QUERY = Depths(body=30, outline=100, of_shown_files=False, markup=7)
# The maximum markup in tokens that no budget goes below.
_MIN_MARKUP = 500
# The size in bytes at which an outline is worth half.
_HALF_WORTH_OUTLINE = 4_000
# The maximum number of outline tokens per file with a query.
_MAX_OUTLINE = 300
# An upper bound of the bytes per token, except for runs of blanks.
_BYTES_PER_TOKEN = 12
# The minimum room in tokens, and the minimum number of lines, for showing the first lines of a piece; and the
# maximum number of pieces to try.
_MIN_PART_TOKENS, _MIN_PART_LINES, _MAX_TRIES = 24, 3, 400
# The share of the room (1/33) that is left over only if nothing can be shown in it, not even part of a line.
UNUSED_SHARE = 33
# How often a cut within a line is measured: its mark and its line numbers have tokens as well.
_MAX_MEASURES = 4
_LINE_END = re.compile(rb"\n")
_DELIMITER = "\n\n"


@dataclass(slots=True)
class Board:
    """The candidate files and their token counts. An ``engine.choice.ChoiceWhole``; items are pieces."""

    files: Sequence[File]
    tokens: Sequence[int]
    counter: Counter
    mode: str
    line_numbers: bool = False
    memory: CountCache | None = None
    candidates: dict[int, CandidateFile] = field(default_factory=dict)
    _items: list[tuple[int, int]] = field(default_factory=list)
    _first: dict[int, int] = field(default_factory=dict)
    _sizes: dict[tuple[int, int], int] = field(default_factory=dict)
    _worths: list[int] = field(default_factory=list)
    _outlined_only: set[int] = field(default_factory=set)
    _limits_outlines: bool = False
    _markup_room: int = 0

    def add(self, indices: Iterable[int]) -> None:
        """Cut these files into pieces."""
        new = [i for i in dict.fromkeys(indices) if i not in self.candidates]
        files = [self.files[i] for i in new]
        cuts = cut_all([(file.data, file.kind.outline) for file in files], self.memory)
        blocks = [file.block() for file in files]
        markup = find_renderer(self.mode)
        around = [(_around(markup.summary(block, "")), _around(markup.full(block))) for block in blocks]
        self.counter.count_small([text for both in around for texts in both for text in texts])
        small = self.counter.small
        contents = [self.tokens[i] for i in new]
        if self.line_numbers:  # all at once, and not as small texts, which are kept
            contents = self.counter.count_all(
                [numbered(file.data.decode(), file.line_numbers()) for file in files]
            )
        for i, file, cut, (shortened, whole), content in zip(new, files, cuts, around, contents, strict=True):
            full = sum(map(small, whole)) + content
            frame = sum(map(small, shortened))
            self.candidates[i] = CandidateFile(file, cut, frame, full, self.line_numbers)
            self._first[i] = len(self._items)
            self._items += [(i, p) for p in range(len(cut.pieces))]

    def reset(self) -> None:
        """Show nothing."""
        for candidate in self.candidates.values():
            candidate.hide()

    def keep(self, indices: Iterable[int]) -> None:
        """Show these files in full, whatever else is shown."""
        for i in indices:
            self.candidates[i].show_full()

    @property
    def shown(self) -> dict[int, CandidateFile]:
        """The files that are shown, in part or in full."""
        return {i: candidate for i, candidate in self.candidates.items() if candidate.is_shown}

    def upgrades(
        self, worth: Worth, ranks: Sequence[int], depths: Depths, allowed: Sequence[PieceForm]
    ) -> list[Upgrade]:
        """Return each form of each piece, those worth most first. ``allowed``: the best form of each file."""
        found = []
        self._outlined_only = {i for i in self.candidates if allowed[i] is PieceForm.OUTLINE}
        if len(self._worths) != len(self._items):
            cut = [(i, self.candidates[i].cut.pieces[p]) for i, p in self._items]
            values = zip(cut, worth.pieces(cut), strict=True)
            own = [0 if piece.is_notice else value for (_, piece), value in values]
            runs = [self.candidates[i].cut.runs[p] for i, p in self._items]
            self._worths = counted_once(runs, own)
            if isinstance(worth, Standing):
                cuts = [candidate.cut for candidate in self.candidates.values()]
                worth.count_members(one.name for cut in cuts for some in cut.signatures for one in some)
        for i, candidate in self.candidates.items():
            worths = self._worths[self._first[i] : self._first[i] + len(candidate.cut.pieces)]
            best = max(worths, default=0)
            for p, value in enumerate(worths):
                item = self._first[i] + p
                if allowed[i] is PieceForm.FULL:
                    found.append(Upgrade(ranks[i], value * depths.body // 100, item, PieceForm.FULL))
                if candidate.cut.outlines[p] and allowed[i] is not PieceForm.NOTHING:
                    if isinstance(worth, Standing) and not depths.of_shown_files:
                        outlines = self._outlines(item, value, worth)
                    else:
                        outlines = iter([((best + 3 * value) // 4, PieceForm.OUTLINE)])
                    found += [
                        Upgrade(ranks[i], outlined * depths.outline // 100, item, form)
                        for outlined, form in outlines
                    ]
        return sorted(found, key=_by_worth)  # to sort them again, as each choice does, takes little

    def _outlines(self, item: int, value: int, worth: Standing) -> Iterator[tuple[int, PieceForm]]:
        """Yield the worths of a piece's outlines without a query: of the brief one, and of the whole."""
        i, p = self._items[item]
        candidate = self.candidates[i]
        short = brief(candidate.cut.signatures[p], partial(worth.name, i))
        if short is not None:
            candidate.briefs[p] = short.text
            yield _of_outline(value, short.text), PieceForm.BRIEF
            value = value * short.rest // short.best
        yield _of_outline(value, candidate.cut.outlines[p]), PieceForm.OUTLINE

    def _count_ahead(self, upgrades: Sequence[Upgrade], room: int) -> None:
        """Count the pieces that are most likely to be priced in one batch."""
        texts: list[str] = []
        size = 0
        for upgrade in sorted(upgrades, key=_by_worth):
            if size > 6 * room:
                break
            i, p = self._items[upgrade.item]
            text = self.candidates[i].piece_text(p, PieceForm(upgrade.form))
            size += len(text)
            texts.append(text)
        self.counter.count_small(texts)

    # The methods of ``ChoiceWhole``.

    def at_least(self, upgrade: Upgrade) -> int:
        i, p = self._items[upgrade.item]
        candidate = self.candidates[i]
        if upgrade.form == PieceForm.FULL:
            piece = candidate.cut.pieces[p]
            return (piece.end - piece.start) // (2 * _BYTES_PER_TOKEN)
        is_brief = upgrade.form == PieceForm.BRIEF
        return len(candidate.briefs[p] if is_brief else candidate.cut.outlines[p]) // _BYTES_PER_TOKEN

    def price(self, upgrade: Upgrade) -> int | None:
        i, p = self._items[upgrade.item]
        candidate = self.candidates[i]
        form = PieceForm(upgrade.form)
        before = candidate.forms[p]
        if before >= form or (not candidate.is_shown and candidate.frame > self._markup_room):
            return None
        if form is PieceForm.OUTLINE and self._limits_outlines:
            size = self._size(upgrade.item, form)
            if candidate.outlined + size > _MAX_OUTLINE:
                return None
            if not candidate.is_shown and i not in self._outlined_only:
                return None
        candidate.show(p, form)
        after = self._price(i)
        candidate.show(p, before)
        return after - candidate.price

    def take(self, upgrade: Upgrade) -> None:
        i, p = self._items[upgrade.item]
        candidate = self.candidates[i]
        if not candidate.is_shown:
            self._markup_room -= candidate.frame
        candidate.show(p, PieceForm(upgrade.form))
        if upgrade.form == PieceForm.OUTLINE:
            candidate.outlined += self._size(upgrade.item, PieceForm.OUTLINE)
        candidate.price = self._price(i)
        if candidate.price >= candidate.full_price:
            candidate.show_full()

    def run(
        self,
        upgrades: Sequence[Upgrade],
        room: int,
        depths: Depths,
        introductions: Sequence[Introduction] = (),
    ) -> Choice:
        """Take the upgrades that fit into ``room`` tokens, and the first lines of one that does not fit.

        With a query the piece worth most comes first: if it is larger than the room, its first lines are
        shown instead of something else that happens to fit. ``introductions`` are shown of files from
        which nothing is taken.
        """
        self._limits_outlines = depths.of_shown_files
        self._count_ahead(upgrades, room)
        self._markup_room = room
        used = self._begin_best(upgrades, room) if depths.of_shown_files else 0
        choice = self._choose_beside(introductions, upgrades, room - used, depths.markup)
        left = choice.left - self._show_part(upgrades, choice.left)
        while left * UNUSED_SHARE > room and (size := self._show_part(upgrades, left, cuts_lines=True)):
            left -= size
        return replace(choice, left=left)

    def _choose_beside(
        self, introductions: Sequence[Introduction], upgrades: Sequence[Upgrade], room: int, share: int
    ) -> Choice:
        """Choose, with room kept for the introductions; what those do not need of it is spent as well."""
        kept = self._introduce(introductions, room)
        self._take_back(introductions)
        choice = self._choose(upgrades, room - kept, share)
        needed = self._introduce(introductions, room)
        if needed == kept:
            return choice
        self._take_back(introductions)
        more = choose(upgrades, choice.left + kept - needed, self)
        left = more.left + needed - self._introduce(introductions, room)
        return Choice(
            (*choice.taken, *more.taken), left, choice.worth + more.worth, choice.bound + more.bound
        )

    def _choose(self, upgrades: Sequence[Upgrade], room: int, share: int) -> Choice:
        """Choose class by class: ``share`` percent of the room for markup first, then more in steps.

        Many small files would otherwise leave no room for content. What is left of the room after the files
        that are shown already goes to further files: in each step the same share for their markup, and any in
        the last, which little that is left does not reach: it would go into markup for the most part.
        """
        markup = max(_MIN_MARKUP, room * share // 100)
        if markup >= room:
            return choose(upgrades, room, self)
        parts: list[Choice] = []
        left, shown = room, 0
        ranks = sorted({upgrade.rank for upgrade in upgrades})
        for rank in ranks:
            of_class = [upgrade for upgrade in upgrades if upgrade.rank == rank]
            for percent in (None, share, share, 100):
                if percent == 100 and left * UNUSED_SHARE <= room:
                    continue
                limit = max(0, markup - shown) if percent is None else left * percent // 100
                self._markup_room = limit
                parts.append(choose(of_class, left, self))
                left = parts[-1].left
                shown += limit - self._markup_room
        taken = tuple(upgrade for part in parts for upgrade in part.taken)
        worth = sum(part.worth for part in parts)
        return Choice(taken, left, worth, max(worth, sum(part.bound for part in parts)))

    def _introduce(self, introductions: Iterable[Introduction], room: int) -> int:
        """Introduce the files that are not shown yet, and return the tokens that this takes."""
        tokens = 0
        for introduction in introductions:
            i, start = introduction.file, introduction.start
            candidate = self.candidates[i]
            if candidate.is_shown:
                continue
            p = next(p for p, piece in enumerate(candidate.cut.pieces) if start < piece.end)
            candidate.show(p, PieceForm.FULL)
            tokens += self._show_lines(i, p, start, introduction.limit(room), 1)
            if candidate.part is None:
                candidate.hide()
        return tokens

    def _take_back(self, introductions: Iterable[Introduction]) -> None:
        """Hide the files that show only their introduction."""
        for introduction in introductions:
            candidate = self.candidates[introduction.file]
            if candidate.part is not None:
                candidate.hide()

    def _begin_best(self, upgrades: Sequence[Upgrade], room: int) -> int:
        """Show the first lines of the piece worth most if it exceeds the room, and return their tokens."""
        bodies = [upgrade for upgrade in upgrades if upgrade.form == PieceForm.FULL]
        if not bodies:
            return 0
        best = min(bodies, key=_by_worth)
        price = self.price(best)
        return 0 if price is None or price <= room else self._show_part([best], room)

    def _show_part(self, upgrades: Sequence[Upgrade], room: int, *, cuts_lines: bool = False) -> int:
        """Show the first lines of the first piece that is not shown yet, and return their tokens.

        ``cuts_lines``: up to a place in a line, for a piece whose first lines are too long.
        """
        if room < _MIN_PART_TOKENS:
            return 0
        for upgrade in upgrades[:_MAX_TRIES]:
            i, p = self._items[upgrade.item]
            candidate = self.candidates[i]
            before = candidate.forms[p]
            if upgrade.form != PieceForm.FULL or before is PieceForm.FULL or candidate.part is not None:
                continue
            candidate.show(p, PieceForm.FULL)
            start = candidate.cut.pieces[p].start
            size = (
                self._show_beginning(i, p, start, room)
                if cuts_lines
                else self._show_lines(i, p, start, room, _MIN_PART_LINES)
            )
            if size:
                return size
            candidate.show(p, before)
        return 0

    def _show_lines(self, i: int, p: int, start: int, room: int, least: int) -> int:
        """Show the lines of a piece from ``start`` that fit; return their tokens, 0 if below ``least``."""
        candidate = self.candidates[i]
        ends = [
            match.end()
            for match in _LINE_END.finditer(candidate.file.data, start, candidate.cut.pieces[p].end)
        ]

        def growth(lines: int) -> int:
            candidate.part = ShownLines(p, start, ends[lines - 1])
            return self._price(i) - candidate.price

        lines = bisect_right(range(1, len(ends)), room, key=growth)
        if lines < least:
            candidate.part = None
            return 0
        size = growth(lines)
        candidate.price += size
        return size

    def _show_beginning(self, i: int, p: int, start: int, room: int) -> int:
        """Show a piece from ``start`` up to the last token that fits; return its tokens, 0 if too few."""
        candidate = self.candidates[i]
        end = min(candidate.cut.pieces[p].end, start + room * _BYTES_PER_TOKEN)
        text = candidate.file.data[start:end].decode("utf-8", "ignore")
        candidate.part = ShownLines(p, start, start)
        most = room - (self._price(i) - candidate.price)
        for _ in range(_MAX_MEASURES):
            text = truncate(text, max(0, most), self.counter.measuring)
            candidate.part = ShownLines(p, start, start + len(text.encode()))
            size = self._price(i) - candidate.price
            if not text or size < _MIN_PART_TOKENS:
                break
            if size <= room:
                candidate.price += size
                return size
            most -= size - room
        candidate.part = None
        return 0

    def _price(self, i: int) -> int:
        candidate = self.candidates[i]
        if not candidate.is_shown:
            return 0
        if candidate.is_full:
            return candidate.full_price
        total = candidate.frame
        small = self.counter.small
        parted = None if candidate.part is None else candidate.part.piece
        for pieces in candidate.runs():
            total += small(candidate.mark(pieces))
            total += sum(
                small(candidate.shown_text(p, candidate.forms[p]))
                if p == parted
                else self._size(self._first[i] + p, candidate.forms[p])
                for p in pieces
            )
        return min(total, candidate.full_price)

    def _size(self, item: int, form: PieceForm) -> int:
        key = item, int(form)
        size = self._sizes.get(key)
        if size is None:
            i, p = self._items[item]
            size = self._sizes[key] = self.counter.small(self.candidates[i].piece_text(p, form))
        return size


def _around(framed: tuple[str, str, str]) -> tuple[str, str]:
    """Return the markup before and after a block."""
    before, _, after = framed
    return before, after.removeprefix("\n") + _DELIMITER


def _of_outline(worth: int, text: str) -> int:
    """Return the worth of an outline. Breadth counts: a long one is worth less than several short ones."""
    return worth * _HALF_WORTH_OUTLINE // (_HALF_WORTH_OUTLINE + len(text))


def _by_worth(upgrade: Upgrade) -> tuple[int, int]:
    """The key that sorts upgrades by priority, then by descending worth."""
    return upgrade.rank, -upgrade.worth
