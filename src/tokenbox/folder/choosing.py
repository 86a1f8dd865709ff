"""Which pieces of which files are shown, in which form, at exact prices (docs/pack.md, selection.md)."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from tokenbox.engine.choice import Choice, Upgrade, choose
from tokenbox.folder.cutting import cut_all
from tokenbox.render.registry import find_renderer
from tokenbox.worth.documents import PieceSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tokenbox.compose.counting import Counter
    from tokenbox.folder.cutting import CutFile
    from tokenbox.folder.pieces import Piece
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
    """How the worth of a form follows from that of its piece, in percent; and where an outline comes from."""

    body: int
    outline: int
    # With a query, the outline of a file is worth something once a piece of it is shown, and then by its
    # best piece.
    of_shown_files: bool


WITH_QUERY = Depths(body=100, outline=22, of_shown_files=True)
WITHOUT_QUERY = Depths(body=30, outline=100, of_shown_files=False)
# Bytes of an outline that make it worth half.
_USUAL_OUTLINE = 4_000
# Tokens of outline that a file has at most with a query.
MAX_OUTLINE = 300
# No token has more bytes, but for runs of blanks.
_BYTES_PER_TOKEN = 12
# The first lines of a piece are shown where there is room for so many tokens and lines; so many pieces are
# tried.
_LEAST_PART, _LEAST_LINES, _TRIED = 24, 3, 400
_OURS = re.compile(r"^([ \t]*)(\\*\[(?:outline of )?lines? [0-9])", re.MULTILINE)
_DELIMITER = "\n\n"


@dataclass(slots=True)
class CandidateFile:
    """A candidate file: its pieces, what each counts in each form, and the forms they have now."""

    file: File
    cut: CutFile
    frame: int
    full_price: int
    forms: list[PieceForm] = field(default_factory=list)
    price: int = 0
    outlined: int = 0
    part: tuple[int, int] | None = None
    """A piece of which only the first lines are shown, and how many bytes these have."""

    @property
    def is_shown(self) -> bool:
        return any(self.forms)

    @property
    def is_full(self) -> bool:
        return self.part is None and all(form is PieceForm.FULL for form in self.forms)


class Board:
    """The files that may be shown, priced. Fulfils ``engine.choice.Whole``; items are pieces of files."""

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
        self._texts: dict[tuple[int, int], int] = {}
        self._worths: list[int] = []
        self._outlined_only: set[int] = set()
        self._limits_outlines = False

    def add(self, indices: Iterable[int]) -> None:
        """Cut these files into pieces."""
        new = [i for i in dict.fromkeys(indices) if i not in self._candidates]
        files = [self._files[i] for i in new]
        cuts = cut_all([(file.text or b"", file.kind.outline) for file in files], self._memory)
        for i, file, cut in zip(new, files, cuts, strict=True):
            assert file.text is not None  # noqa: S101  # only texts are candidates
            block = file.block()
            frame = self._framed(self._markup.summary(block, ""))
            content = (
                self._counter.small(numbered(file.text.decode(), 1)) if self._numbers else self._tokens[i]
            )
            full = self._framed(self._markup.full(block)._replace(body="")) + content
            self._candidates[i] = CandidateFile(file, cut, frame, full, [PieceForm.NOTHING] * len(cut.pieces))
            self._first[i] = len(self._items)
            self._items += [(i, p) for p in range(len(cut.pieces))]

    def reset(self) -> None:
        """Show nothing."""
        for candidate in self._candidates.values():
            candidate.forms = [PieceForm.NOTHING] * len(candidate.forms)
            candidate.price = candidate.outlined = 0
            candidate.part = None

    def keep(self, indices: Iterable[int]) -> int:
        """Show these files in full, whatever else is shown; what they count."""
        total = 0
        for candidate in map(self.candidate, indices):
            candidate.forms = [PieceForm.FULL] * len(candidate.forms)
            candidate.price = candidate.full_price
            total += candidate.price
        return total

    def upgrades(
        self, worth: Worth, ranks: Sequence[int], depths: Depths, most: Sequence[PieceForm]
    ) -> list[Upgrade]:
        """Every form of every piece, with its worth, up to the best form that its file may have."""
        found = []
        self._outlined_only = {i for i in self._candidates if most[i] is PieceForm.OUTLINE}
        if len(self._worths) != len(self._items):
            cut = ((i, self._candidates[i].cut.pieces[p]) for i, p in self._items)
            self._worths = worth.pieces(
                [(i, PieceSpan(p.start, p.end, p.first, p.last, p.names, p.within)) for i, p in cut]
            )
        for i, candidate in self._candidates.items():
            worths = self._worths[self._first[i] : self._first[i] + len(candidate.cut.pieces)]
            best = max(worths, default=0)
            for p, value in enumerate(worths):
                item = self._first[i] + p
                if most[i] is PieceForm.FULL:
                    found.append(Upgrade(ranks[i], value * depths.body // 100, item, PieceForm.FULL))
                if candidate.cut.outlines[p] and most[i] is not PieceForm.NOTHING:
                    size = len(candidate.cut.outlines[p])
                    # Without a query breadth counts: a long outline is worth less than several short ones.
                    outlined = (
                        (best + 3 * value) // 4
                        if depths.of_shown_files
                        else value * _USUAL_OUTLINE // (_USUAL_OUTLINE + size)
                    )
                    found.append(Upgrade(ranks[i], outlined * depths.outline // 100, item, PieceForm.OUTLINE))
        return found

    def prepare(self, upgrades: Sequence[Upgrade], room: int) -> None:
        """Count together what is most likely to be asked for."""
        texts: list[str] = []
        size = 0
        for upgrade in sorted(upgrades, key=lambda u: (u.rank, -u.worth)):
            if size > 6 * room:
                break
            text = self._piece_text(upgrade.item, PieceForm(upgrade.form))
            size += len(text)
            texts.append(text)
        self._counter.count_small(texts)

    @property
    def least(self) -> int | None:
        """What the smallest file counts in full."""
        return min((candidate.full_price for candidate in self._candidates.values()), default=None)

    # What ``choose`` asks.

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
        if before >= form:
            return None
        if form is PieceForm.OUTLINE and self._limits_outlines:
            size = self._size(upgrade.item, form)
            if candidate.outlined + size > MAX_OUTLINE or not (
                candidate.is_shown or i in self._outlined_only
            ):
                return None
        candidate.forms[p] = form
        after = self._price(i)
        candidate.forms[p] = before
        return after - candidate.price

    def take(self, upgrade: Upgrade) -> None:
        i, p = self._items[upgrade.item]
        candidate = self._candidates[i]
        candidate.forms[p] = PieceForm(upgrade.form)
        if upgrade.form == PieceForm.OUTLINE:
            candidate.outlined += self._size(upgrade.item, PieceForm.OUTLINE)
        candidate.price = self._price(i)
        if candidate.price >= candidate.full_price:
            candidate.forms = [PieceForm.FULL] * len(candidate.forms)
            candidate.price = candidate.full_price

    def run(self, upgrades: Sequence[Upgrade], room: int, depths: Depths) -> Choice:
        """Take what fits into ``room`` tokens; of the first piece that does not, its first lines.

        With a query the piece that is worth most comes before all: where it is larger than the room, its
        first lines are shown, and not something else that happens to fit.
        """
        self._limits_outlines = depths.of_shown_files
        self.prepare(upgrades, room)
        begun = self._begin(upgrades, room) if depths.of_shown_files else 0
        choice = choose(upgrades, room - begun, self)
        return replace(choice, left=choice.left - self._fill(upgrades, choice.left))

    def _begin(self, upgrades: Sequence[Upgrade], room: int) -> int:
        """What the first lines of the piece that is worth most count, if it is larger than the room."""
        bodies = [upgrade for upgrade in upgrades if upgrade.form == PieceForm.FULL]
        best = min(bodies, key=lambda u: (u.rank, -u.worth), default=None)
        price = None if best is None else self.price(best)
        return 0 if best is None or price is None or price <= room else self._fill([best], room)

    def _fill(self, upgrades: Sequence[Upgrade], room: int) -> int:
        """Show the first lines of the piece that is worth most and does not fit; what they count."""
        for upgrade in sorted(upgrades, key=lambda u: (u.rank, -u.worth))[
            : _TRIED if room >= _LEAST_PART else 0
        ]:
            i, p = self._items[upgrade.item]
            candidate = self._candidates[i]
            if (
                upgrade.form != PieceForm.FULL
                or candidate.forms[p] is PieceForm.FULL
                or candidate.part is not None
            ):
                continue
            before, piece, data = candidate.forms[p], candidate.cut.pieces[p], candidate.file.text or b""
            ends = [at + 1 for at in range(piece.start, piece.end) if data[at] == 10]  # noqa: PLR2004  # line ends
            candidate.forms[p] = PieceForm.FULL

            def grows(
                lines: int, i: int = i, p: int = p, ends: list[int] = ends, piece: Piece = piece
            ) -> int:
                candidate = self._candidates[i]
                candidate.part = p, ends[lines - 1] - piece.start
                return self._price(i) - candidate.price

            most = bisect_right(range(1, len(ends)), room, key=grows)
            if most >= _LEAST_LINES:
                size = grows(most)
                candidate.price += size
                return size
            candidate.forms[p], candidate.part = before, None
        return 0

    # What is shown.

    @property
    def shown(self) -> list[int]:
        """The files of which anything is shown."""
        return [i for i, candidate in self._candidates.items() if candidate.is_shown]

    def candidate(self, i: int) -> CandidateFile:
        return self._candidates[i]

    def text(self, i: int) -> str | None:
        """What is shown of a file; None if that is all of it."""
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
                if candidate.part is not None and candidate.part[0] == p
                else self._size(self._first[i] + p, form)
                for p in range(first, last)
            )
        return min(total, candidate.full_price)

    def _size(self, item: int, form: PieceForm) -> int:
        key = item, int(form)
        size = self._texts.get(key)
        if size is None:
            size = self._texts[key] = self._counter.small(self._piece_text(item, form))
        return size

    def _piece_text(self, item: int, form: PieceForm) -> str:
        i, p = self._items[item]
        candidate = self._candidates[i]
        if form is PieceForm.OUTLINE:
            return _safe(candidate.cut.outlines[p])
        piece = candidate.cut.pieces[p]
        assert candidate.file.text is not None  # noqa: S101  # see ``add``
        text = candidate.file.text[piece.start : piece.end].decode()
        return self._body(text if text.endswith("\n") else f"{text}\n", piece)

    def _shown_text(self, i: int, p: int, form: PieceForm) -> str:
        text = self._piece_text(self._first[i] + p, form)
        part = self._candidates[i].part
        if part is None or part[0] != p:
            return text
        piece, data = self._candidates[i].cut.pieces[p], self._candidates[i].file.text or b""
        return self._body(data[piece.start : piece.start + part[1]].decode(), piece)

    def _body(self, text: str, piece: Piece) -> str:
        return numbered(text, piece.first + 1) if self._numbers else _safe(text)

    def _mark(self, i: int, first: int, last: int, form: PieceForm) -> str:
        """The line before a run of pieces: which lines it is, and inside what."""
        candidate = self._candidates[i]
        pieces = candidate.cut.pieces[first:last]
        begin, end = pieces[0].first + 1, pieces[-1].last
        if candidate.part is not None and candidate.part[0] == last - 1:
            piece, data = pieces[-1], candidate.file.text or b""
            end = piece.first + data.count(b"\n", piece.start, piece.start + candidate.part[1])
        lines = f"line {begin}" if begin == end else f"lines {begin}-{end}"
        if form is PieceForm.OUTLINE:
            return f"[outline of {lines}]\n"
        within = ".".join(pieces[0].within)
        return f"[{lines}, in {within}]\n" if within else f"[{lines}]\n"

    def _framed(self, framed: tuple[str, str, str]) -> int:
        before, _, after = framed
        return self._counter.small(before) + self._counter.small(after.removeprefix("\n") + _DELIMITER)


def _runs(candidate: CandidateFile) -> Iterable[tuple[int, int, PieceForm]]:
    """Neighbouring pieces in the same form. Pieces without an outline do not part those that have one."""
    forms, outlines = candidate.forms, candidate.cut.outlines
    parted = None if candidate.part is None else candidate.part[0]
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
    """The text with the number of each line before it; a line of it cannot look like a mark of ours."""
    lines = text.split("\n")
    last = lines.pop() if lines[-1] == "" else None
    return "\n".join(f"{n}| {line}" for n, line in enumerate(lines, first)) + ("" if last is None else "\n")


def _safe(text: str) -> str:
    """The text, with a backslash where a line of it would look like a mark of ours."""
    return (
        _OURS.sub(r"\1\\\2", text)
        if "[lines " in text or "[line " in text or "[outline of line" in text
        else text
    )
