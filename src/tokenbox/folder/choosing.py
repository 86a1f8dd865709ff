"""Choose the pieces of files to show, and their forms, by exact token counts (docs/pack.md, selection.md)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.engine.choice import Choice, Upgrade, choose
from tokenbox.folder.cutting import cut_all
from tokenbox.render.registry import find_renderer
from tokenbox.worth.copies import counted_once
from tokenbox.worth.documents import PieceSpan

if TYPE_CHECKING:
    from tokenbox.compose.counting import Counter
    from tokenbox.folder.cutting import CutFile
    from tokenbox.folder.introducing import Introduction
    from tokenbox.folder.source import File
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.worth.scorers import Worth


class PieceForm(IntEnum):
    """How much of a piece is shown."""

    NOTHING = 0
    OUTLINE = 1
    FULL = 2


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
# Lines that look like those of ``Board._mark``.
_MARK = re.compile(r"^([ \t]*)(\\*\[(?:outline of )?lines? [0-9])", re.MULTILINE)
_LINE_END = re.compile(rb"\n")
_DELIMITER = "\n\n"


class ShownLines(NamedTuple):
    """The only lines that are shown of piece ``piece``: bytes ``start`` to ``end`` of the file."""

    piece: int
    start: int
    end: int


@dataclass(slots=True)
class CandidateFile:
    """A file that may be shown, and the form that each of its pieces has now.

    Tokens: ``frame`` of the markup around it, ``full_price`` of all of it, ``price`` as it is shown now,
    ``outlined`` of its outlines.
    """

    file: File
    cut: CutFile
    frame: int
    full_price: int
    forms: list[PieceForm] = field(default_factory=list)
    price: int = 0
    outlined: int = 0
    part: ShownLines | None = None

    @property
    def is_shown(self) -> bool:
        return any(self.forms)

    @property
    def is_full(self) -> bool:
        return self.part is None and all(form is PieceForm.FULL for form in self.forms)

    def line(self, p: int, byte: int) -> int:
        """Return the number of the line at a byte of piece ``p``, from 1."""
        piece = self.cut.pieces[p]
        return piece.first + 1 + self.file.data.count(b"\n", piece.start, byte)


class Board:
    """The candidate files and their token counts. An ``engine.choice.ChoiceWhole``; items are pieces."""

    def __init__(
        self,
        files: Sequence[File],
        tokens: Sequence[int],
        counter: Counter,
        mode: str,
        *,
        line_numbers: bool = False,
        memory: CountCache | None = None,
    ) -> None:
        self._numbers = line_numbers
        self._memory = memory
        self._files = files
        self._tokens = tokens
        self._counter = counter
        self._markup = find_renderer(mode)
        self._candidates: dict[int, CandidateFile] = {}
        self._items: list[tuple[int, int]] = []
        self._first: dict[int, int] = {}
        self._sizes: dict[tuple[int, int], int] = {}
        self._worths: list[int] = []
        self._outlined_only: set[int] = set()
        self._limits_outlines = False
        self._markup_room = 0

    def add(self, indices: Iterable[int]) -> None:
        """Cut these files into pieces."""
        new = [i for i in dict.fromkeys(indices) if i not in self._candidates]
        files = [self._files[i] for i in new]
        cuts = cut_all([(file.data, file.kind.outline) for file in files], self._memory)
        for i, file, cut in zip(new, files, cuts, strict=True):
            block = file.block()
            frame = self._count_frame(self._markup.summary(block, ""))
            content = self._tokens[i]
            if self._numbers:
                content = self._counter.small(numbered(file.data.decode(), 1))
            full = self._count_frame(self._markup.full(block)) + content
            self._candidates[i] = CandidateFile(file, cut, frame, full, [PieceForm.NOTHING] * len(cut.pieces))
            self._first[i] = len(self._items)
            self._items += [(i, p) for p in range(len(cut.pieces))]

    def reset(self) -> None:
        """Show nothing."""
        for candidate in self._candidates.values():
            _hide(candidate)

    def keep(self, indices: Iterable[int]) -> None:
        """Show these files in full, whatever else is shown."""
        for candidate in map(self.candidate, indices):
            _show_full(candidate)

    def upgrades(
        self, worth: Worth, ranks: Sequence[int], depths: Depths, allowed: Sequence[PieceForm]
    ) -> list[Upgrade]:
        """Return each form of each piece with its worth. ``allowed``: the best form for each file."""
        found = []
        self._outlined_only = {i for i in self._candidates if allowed[i] is PieceForm.OUTLINE}
        if len(self._worths) != len(self._items):
            cut = [(i, self._candidates[i].cut.pieces[p]) for i, p in self._items]
            spans = [(i, PieceSpan(p.start, p.end, p.first, p.last, p.names, p.within)) for i, p in cut]
            values = zip(cut, worth.pieces(spans), strict=True)
            own = [0 if piece.is_notice else value for (_, piece), value in values]
            data = [self._candidates[i].file.data[piece.start : piece.end] for i, piece in cut]
            self._worths = counted_once(data, own)
        for i, candidate in self._candidates.items():
            worths = self._worths[self._first[i] : self._first[i] + len(candidate.cut.pieces)]
            best = max(worths, default=0)
            for p, value in enumerate(worths):
                item = self._first[i] + p
                if allowed[i] is PieceForm.FULL:
                    found.append(Upgrade(ranks[i], value * depths.body // 100, item, PieceForm.FULL))
                if candidate.cut.outlines[p] and allowed[i] is not PieceForm.NOTHING:
                    if depths.of_shown_files:
                        outlined = (best + 3 * value) // 4
                    else:  # breadth counts: a long outline is worth less than several short ones
                        size = len(candidate.cut.outlines[p])
                        outlined = value * _HALF_WORTH_OUTLINE // (_HALF_WORTH_OUTLINE + size)
                    found.append(Upgrade(ranks[i], outlined * depths.outline // 100, item, PieceForm.OUTLINE))
        return found

    def _count_ahead(self, upgrades: Sequence[Upgrade], room: int) -> None:
        """Count the pieces that are most likely to be priced in one batch."""
        texts: list[str] = []
        size = 0
        for upgrade in sorted(upgrades, key=_by_worth):
            if size > 6 * room:
                break
            text = self._piece_text(upgrade.item, PieceForm(upgrade.form))
            size += len(text)
            texts.append(text)
        self._counter.count_small(texts)

    @property
    def least(self) -> int | None:
        """The tokens of the smallest file in full."""
        return min((candidate.full_price for candidate in self._candidates.values()), default=None)

    # The methods of ``ChoiceWhole``.

    def at_least(self, upgrade: Upgrade) -> int:
        i, p = self._items[upgrade.item]
        candidate = self._candidates[i]
        if upgrade.form == PieceForm.OUTLINE:
            return len(candidate.cut.outlines[p]) // _BYTES_PER_TOKEN
        piece = candidate.cut.pieces[p]
        return (piece.end - piece.start) // (2 * _BYTES_PER_TOKEN)

    def price(self, upgrade: Upgrade) -> int | None:
        i, p = self._items[upgrade.item]
        candidate = self._candidates[i]
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
        candidate.forms[p] = form
        after = self._price(i)
        candidate.forms[p] = before
        return after - candidate.price

    def take(self, upgrade: Upgrade) -> None:
        i, p = self._items[upgrade.item]
        candidate = self._candidates[i]
        if not candidate.is_shown:
            self._markup_room -= candidate.frame
        candidate.forms[p] = PieceForm(upgrade.form)
        if upgrade.form == PieceForm.OUTLINE:
            candidate.outlined += self._size(upgrade.item, PieceForm.OUTLINE)
        candidate.price = self._price(i)
        if candidate.price >= candidate.full_price:
            _show_full(candidate)

    def run(
        self,
        upgrades: Sequence[Upgrade],
        room: int,
        depths: Depths,
        introductions: Sequence[Introduction] = (),
    ) -> Choice:
        """Take the upgrades that fit into ``room`` tokens, and the first lines of one that does not fit.

        With a query the piece worth most comes first: if it is larger than the room, its first lines are
        shown instead of something else that happens to fit. ``introductions`` are shown of files of which
        nothing is taken.
        """
        self._limits_outlines = depths.of_shown_files
        self._count_ahead(upgrades, room)
        self._markup_room = room
        used = self._begin_best(upgrades, room) if depths.of_shown_files else 0
        reserved = self._introduce(introductions, room)
        for introduced in introductions:
            _hide(self._candidates[introduced.file])
        choice = self._choose(upgrades, room - used - reserved, depths.markup)
        left = choice.left + reserved - self._introduce(introductions, room)
        return replace(choice, left=left - self._show_part(upgrades, left))

    def _choose(self, upgrades: Sequence[Upgrade], room: int, share: int) -> Choice:
        """Choose class by class: ``share`` percent of the room for markup first, then more in steps.

        Many small files would otherwise leave no room for content. What is left of the room after the files
        that are shown already goes to further files: in each step the same share for their markup, and any in
        the last.
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
                limit = max(0, markup - shown) if percent is None else left * percent // 100
                self._markup_room = limit
                parts.append(choose(of_class, left, self))
                left = parts[-1].left
                shown += limit - self._markup_room
        taken = tuple(upgrade for part in parts for upgrade in part.taken)
        worth = sum(part.worth for part in parts)
        return Choice(taken, left, worth, max(worth, sum(part.bound for part in parts)))

    def _introduce(self, introductions: Iterable[Introduction], room: int) -> int:
        """Introduce the files of which nothing is shown yet, and return the tokens that this takes."""
        tokens = 0
        for introduction in introductions:
            i, start = introduction.file, introduction.start
            candidate = self._candidates[i]
            if candidate.is_shown:
                continue
            p = next(p for p, piece in enumerate(candidate.cut.pieces) if start < piece.end)
            candidate.forms[p] = PieceForm.FULL
            tokens += self._show_lines(i, p, start, introduction.limit(room), 1)
            if candidate.part is None:
                _hide(candidate)
        return tokens

    def _begin_best(self, upgrades: Sequence[Upgrade], room: int) -> int:
        """Show the first lines of the piece worth most if it exceeds the room, and return their tokens."""
        bodies = [upgrade for upgrade in upgrades if upgrade.form == PieceForm.FULL]
        if not bodies:
            return 0
        best = min(bodies, key=_by_worth)
        price = self.price(best)
        return 0 if price is None or price <= room else self._show_part([best], room)

    def _show_part(self, upgrades: Sequence[Upgrade], room: int) -> int:
        """Show the first lines of the piece worth most that is not shown yet, and return their tokens."""
        if room < _MIN_PART_TOKENS:
            return 0
        for upgrade in sorted(upgrades, key=_by_worth)[:_MAX_TRIES]:
            i, p = self._items[upgrade.item]
            candidate = self._candidates[i]
            before = candidate.forms[p]
            if upgrade.form != PieceForm.FULL or before is PieceForm.FULL or candidate.part is not None:
                continue
            candidate.forms[p] = PieceForm.FULL
            size = self._show_lines(i, p, candidate.cut.pieces[p].start, room, _MIN_PART_LINES)
            if size:
                return size
            candidate.forms[p] = before
        return 0

    def _show_lines(self, i: int, p: int, start: int, room: int, least: int) -> int:
        """Show the lines of a piece from ``start`` that fit; return their tokens, 0 if below ``least``."""
        candidate = self._candidates[i]
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

    # The result.

    @property
    def shown(self) -> list[int]:
        """The files with at least one shown piece."""
        return [i for i, candidate in self._candidates.items() if candidate.is_shown]

    def candidate(self, i: int) -> CandidateFile:
        return self._candidates[i]

    def text(self, i: int) -> str | None:
        """Return the shown pieces of a file with their marks; None if all of it is shown."""
        candidate = self._candidates[i]
        if candidate.is_full:
            return None
        parts: list[str] = []
        for first, last, form in _runs(candidate):
            parts.append(self._mark(i, first, last, form))
            parts += [self._shown_text(i, p, form) for p in range(first, last)]
        return "".join(parts).rstrip("\n")

    def _price(self, i: int) -> int:
        candidate = self._candidates[i]
        if not candidate.is_shown:
            return 0
        if candidate.is_full:
            return candidate.full_price
        total = candidate.frame
        small = self._counter.small
        for first, last, form in _runs(candidate):
            total += small(self._mark(i, first, last, form))
            total += sum(
                small(self._shown_text(i, p, form))
                if candidate.part is not None and candidate.part.piece == p
                else self._size(self._first[i] + p, form)
                for p in range(first, last)
            )
        return min(total, candidate.full_price)

    def _size(self, item: int, form: PieceForm) -> int:
        key = item, int(form)
        size = self._sizes.get(key)
        if size is None:
            size = self._sizes[key] = self._counter.small(self._piece_text(item, form))
        return size

    def _piece_text(self, item: int, form: PieceForm) -> str:
        i, p = self._items[item]
        candidate = self._candidates[i]
        if form is PieceForm.OUTLINE:
            return _escaped(candidate.cut.outlines[p])
        piece = candidate.cut.pieces[p]
        text = candidate.file.data[piece.start : piece.end].decode()
        return self._body(text if text.endswith("\n") else f"{text}\n", piece.first + 1)

    def _shown_text(self, i: int, p: int, form: PieceForm) -> str:
        candidate = self._candidates[i]
        part = candidate.part
        if part is None or part.piece != p:
            return self._piece_text(self._first[i] + p, form)
        return self._body(candidate.file.data[part.start : part.end].decode(), candidate.line(p, part.start))

    def _body(self, text: str, first: int) -> str:
        return numbered(text, first) if self._numbers else _escaped(text)

    def _mark(self, i: int, first: int, last: int, form: PieceForm) -> str:
        """Return the line before a run of pieces: its line numbers, and the definition that it is in."""
        candidate = self._candidates[i]
        pieces = candidate.cut.pieces[first:last]
        begin, end = pieces[0].first + 1, pieces[-1].last
        part = candidate.part
        if part is not None and part.piece == last - 1:
            end = candidate.line(part.piece, part.end) - 1
            begin = candidate.line(part.piece, part.start) if first == part.piece else begin
        lines = f"line {begin}" if begin == end else f"lines {begin}-{end}"
        if form is PieceForm.OUTLINE:
            return f"[outline of {lines}]\n"
        within = ".".join(pieces[0].within)
        return f"[{lines}, in {within}]\n" if within else f"[{lines}]\n"

    def _count_frame(self, framed: tuple[str, str, str]) -> int:
        """Count the markup around a block."""
        before, _, after = framed
        return self._counter.small(before) + self._counter.small(after.removeprefix("\n") + _DELIMITER)


def _by_worth(upgrade: Upgrade) -> tuple[int, int]:
    """The key that sorts upgrades by priority, then by descending worth."""
    return upgrade.rank, -upgrade.worth


def _hide(candidate: CandidateFile) -> None:
    candidate.forms = [PieceForm.NOTHING] * len(candidate.forms)
    candidate.price = candidate.outlined = 0
    candidate.part = None


def _show_full(candidate: CandidateFile) -> None:
    candidate.forms = [PieceForm.FULL] * len(candidate.forms)
    candidate.price = candidate.full_price


def _runs(candidate: CandidateFile) -> Iterable[tuple[int, int, PieceForm]]:
    """Yield runs of neighbouring pieces of the same form.

    A run of outlines continues across pieces that have no outline.
    """
    forms, outlines = candidate.forms, candidate.cut.outlines
    parted = None if candidate.part is None else candidate.part.piece
    at = 0
    while at < len(forms):
        form = forms[at]
        end = at + 1
        if form is PieceForm.NOTHING:
            at = end
            continue
        last = end
        while (
            end < len(forms)
            and parted != end - 1
            and (
                forms[end] is form
                or (form is PieceForm.OUTLINE and forms[end] is PieceForm.NOTHING and not outlines[end])
            )
        ):
            end += 1
            if forms[end - 1] is form:
                last = end
        yield at, last, form
        at = last


def numbered(text: str, first: int) -> str:
    """Return the text with a number before each line, which also escapes lines that look like marks."""
    *lines, rest = text.split("\n")
    result = "".join(f"{n}| {line}\n" for n, line in enumerate(lines, first))
    return f"{result}{first + len(lines)}| {rest}" if rest else result


def _escaped(text: str) -> str:
    """Return the text with a backslash before lines that look like marks."""
    if "[lines " in text or "[line " in text or "[outline of line" in text:
        return _MARK.sub(r"\1\\\2", text)
    return text
