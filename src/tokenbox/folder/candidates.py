"""A file that may be shown in a pack: its pieces, their forms, and the text that shows them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.content.lenses.outline import Signature, is_namespace

if TYPE_CHECKING:
    from tokenbox.folder.cutting import CutFile
    from tokenbox.folder.source import File

# Lines that look like those of ``CandidateFile.mark``.
_MARK = re.compile(r"^([ \t]*)(\\*\[(?:outline of )?lines? [0-9])", re.MULTILINE)
# The end of a line that is shown in part.
_CUT = " ...\n"
# A signature stays if its worth is at least this percentage of the best one. The shortened outline is used if
# it has at most this percentage of the characters.
_WORTH, _SIZE = 50, 70


class PieceForm(IntEnum):
    """How much of a piece is shown. ``BRIEF``: the best of its outline (:func:`brief`)."""

    NOTHING = 0
    BRIEF = 1
    OUTLINE = 2
    FULL = 3

    def continues(self, other: PieceForm) -> bool:
        """Return True if a piece of this form needs no mark after one of the ``other`` form."""
        return self is other or {self, other} == {PieceForm.BRIEF, PieceForm.OUTLINE}


class ShownLines(NamedTuple):
    """The only lines that are shown of piece ``piece``: bytes ``start`` to ``end`` of the file.

    The last line may be cut.
    """

    piece: int
    start: int
    end: int


@dataclass(slots=True)
class CandidateFile:
    """A file that may be shown, and the form that each of its pieces has now.

    Tokens: ``frame`` of the markup around it, ``full_price`` of all of it, ``price`` as it is shown now,
    ``outlined`` of its outlines. ``numbers``: each line has its number. ``briefs``: the texts of the pieces
    that have a brief outline. ``shown``: the pieces that are shown, in order, as a file may have 100,000.
    """

    file: File
    cut: CutFile
    frame: int
    full_price: int
    numbers: bool
    forms: list[PieceForm] = field(init=False)
    price: int = 0
    outlined: int = 0
    part: ShownLines | None = None
    briefs: dict[int, str] = field(default_factory=dict)
    shown: list[int] = field(init=False)
    _outlines_before: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._outlines_before = [0, *accumulate(map(bool, self.cut.outlines))]
        self.hide()

    @property
    def is_shown(self) -> bool:
        return bool(self.shown)

    @property
    def is_full(self) -> bool:
        if self.part is not None or len(self.shown) < len(self.forms):
            return False
        return all(form is PieceForm.FULL for form in self.forms)

    def hide(self) -> None:
        self.forms = [PieceForm.NOTHING] * len(self.cut.pieces)
        self.shown = []
        self.price = self.outlined = 0
        self.part = None

    def show(self, p: int, form: PieceForm) -> None:
        """Set the form of a piece."""
        if bool(form) != bool(self.forms[p]):
            place = bisect_left(self.shown, p)
            self.shown[place : place + (not form)] = [p] if form else []
        self.forms[p] = form

    def show_full(self) -> None:
        self.forms = [PieceForm.FULL] * len(self.cut.pieces)
        self.shown = list(range(len(self.forms)))
        self.price = self.full_price

    def text(self) -> str | None:
        """Return the shown pieces with their marks; None if all of the file is shown."""
        if self.is_full:
            return None
        parts: list[str] = []
        for pieces in self.runs():
            parts.append(self.mark(pieces))
            parts += [self.shown_text(p, self.forms[p]) for p in pieces]
        return "".join(parts).rstrip("\n")

    def runs(self) -> Iterator[Sequence[int]]:
        """Yield runs of shown pieces of the same form, brief outlines with others.

        They are neighbours, but a run of outlines continues across pieces that have no outline.
        """
        start = 0
        for end, p in enumerate(self.shown, 1):
            if end == len(self.shown) or not self._continues(p, self.shown[end]):
                yield self.shown[start:end]
                start = end

    def _continues(self, p: int, after: int) -> bool:
        """Return True if a shown piece needs no mark after the shown piece ``p``."""
        form = self.forms[p]
        if not self.forms[after].continues(form) or (self.part is not None and self.part.piece == p):
            return False
        if after == p + 1:
            return True
        outlined = self._outlines_before[after] - self._outlines_before[p + 1]
        return form is not PieceForm.FULL and not outlined

    def mark(self, shown: Sequence[int]) -> str:
        """Return the line before a run of pieces: its line numbers, and the definition that it is in."""
        first, last, form = shown[0], shown[-1], self.forms[shown[0]]
        begin, end = self.cut.pieces[first].first + 1, self.cut.pieces[last].last
        part = self.part
        if part is not None and part.piece == last:
            end = self._line(part.piece, max(part.start, part.end - 1))
            begin = self._line(part.piece, part.start) if first == part.piece else begin
        begin, end = (next(iter(self.file.line_numbers(n))) for n in (begin, end))
        lines = f"line {begin}" if begin == end else f"lines {begin}-{end}"
        if form is not PieceForm.FULL:
            return f"[outline of {lines}]\n"
        within = ".".join(self.cut.pieces[first].within)
        return f"[{lines}, in {within}]\n" if within else f"[{lines}]\n"

    def outline(self, p: int, form: PieceForm) -> str:
        """Return an outline of a piece, brief or whole; empty if it has none."""
        return self.briefs[p] if form is PieceForm.BRIEF else self.cut.outlines[p]

    def piece_text(self, p: int, form: PieceForm) -> str:
        """Return all of a piece in a form."""
        if form is not PieceForm.FULL:
            return _escaped(self.outline(p, form))
        piece = self.cut.pieces[p]
        text = self.file.data[piece.start : piece.end].decode()
        return self._body(text if text.endswith("\n") else f"{text}\n", piece.first + 1)

    def shown_text(self, p: int, form: PieceForm) -> str:
        """Return what is shown of a piece in a form."""
        part = self.part
        if part is None or part.piece != p:
            return self.piece_text(p, form)
        text = self.file.data[part.start : part.end].decode()
        if not text.endswith("\n"):
            text += _CUT if part.end < self.cut.pieces[p].end else "\n"
        return self._body(text, self._line(p, part.start))

    def _body(self, text: str, first: int) -> str:
        return numbered(text, self.file.line_numbers(first)) if self.numbers else _escaped(text)

    def _line(self, p: int, byte: int) -> int:
        """Return the number of the line at a byte of piece ``p``, from 1."""
        piece = self.cut.pieces[p]
        return piece.first + 1 + self.file.data.count(b"\n", piece.start, byte)


def numbered(text: str, numbers: Iterable[int]) -> str:
    """Return the text with a number before each line, which also escapes lines that look like marks."""
    *lines, rest = text.split("\n")
    following = iter(numbers)
    result = "".join(f"{n}| {line}\n" for line, n in zip(lines, following, strict=False))
    return f"{result}{next(following)}| {rest}" if rest else result


def _escaped(text: str) -> str:
    """Return the text with a backslash before lines that look like marks."""
    if "[lines " in text or "[line " in text or "[outline of line" in text:
        return _MARK.sub(r"\1\\\2", text)
    return text


class Brief(NamedTuple):
    """The best signatures of an outline: their text, and the worths of the best of them and of the rest."""

    text: str
    best: int
    rest: int


class _Entry(NamedTuple):
    """A definition with what has no name in it. ``around``: the place of the entry it is inside of, or -1."""

    depth: int
    around: int
    worth: int
    lines: list[str]


def brief(signatures: Sequence[Signature], worth: Callable[[str], int]) -> Brief | None:
    """Return the signatures whose names are worth most, with those around them; None if these are most.

    ``worth``: of a name.
    """
    entries = _entries(signatures, worth)
    best = max((entry.worth for entry in entries), default=0)
    stays = [entry.worth * 100 >= best * _WORTH for entry in entries]
    shown = set[int]()
    for at, stay in enumerate(stays):
        around = at if stay else -1
        while around >= 0 and around not in shown:
            shown.add(around)
            around = entries[around].around
    text = "".join(line for at, entry in enumerate(entries) if at in shown for line in entry.lines)
    size = sum(len(one.text) for one in signatures)
    if not best or len(text) * 100 > size * _SIZE:
        return None
    rest = max((entry.worth for entry, stay in zip(entries, stays, strict=True) if not stay), default=0)
    return Brief(text, best, rest)


def _entries(signatures: Sequence[Signature], worth: Callable[[str], int]) -> list[_Entry]:
    entries: list[_Entry] = []
    for one in signatures:
        around = len(entries) - 1
        while around >= 0 and entries[around].depth >= one.depth:
            around = entries[around].around
        if one.name or around < 0:
            value = worth(one.name) if one.name and not is_namespace(one) else 0
            entries.append(_Entry(one.depth, around, value, [one.text]))
        else:
            entries[around].lines.append(one.text)
    return entries
