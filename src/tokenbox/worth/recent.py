"""The recent work on documents and on their pieces: what the latest changes wrote.

A change counts for each document that it changed, and for each piece with lines that it wrote. It counts half
after ``_HALF_LIFE`` later ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tokenbox.worth.fixed import SCALE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenbox.worth.documents import Document, PieceSpan

_HALF_LIFE = 20
# A change of more documents says little about each of them.
_MAX_DOCUMENTS = 30
# The number of lines in a piece from which a change counts fully, and the length from which a line counts.
_MANY_LINES, _MIN_LINE = 4, 4
# The work on a piece itself counts this many times as much as that on its document; the work on the pieces
# next to it, this percentage of the work on itself.
_OWN, _BESIDE = 2, 20


@dataclass(frozen=True, slots=True)
class PastChange:
    """A past change: its message, the paths that it changed, and the lines that it wrote to each path."""

    message: bytes
    paths: Sequence[str]
    written: Mapping[str, frozenset[bytes]] = field(default_factory=dict)


class RecentWork:
    """The recent work on each document and piece, in units of ``SCALE``: SCALE for the busiest document.

    ``changes``: the latest first.
    """

    def __init__(self, changes: Sequence[PastChange], documents: Sequence[Document]) -> None:
        self._documents = documents
        places = {document.path: i for i, document in enumerate(documents)}
        self._written: dict[int, list[tuple[int, frozenset[bytes]]]] = {}
        found: dict[int, int] = {}
        for age, change in enumerate(changes):
            weight = SCALE * _HALF_LIFE // (_HALF_LIFE + age)
            for path in change.paths if len(change.paths) <= _MAX_DOCUMENTS else ():
                if (i := places.get(path)) is not None:
                    found[i] = found.get(i, 0) + weight * weight // SCALE
                    if path in change.written:
                        self._written.setdefault(i, []).append((weight, change.written[path]))
        most = max(found.values(), default=1) or 1
        self._shares = {i: SCALE * value // most for i, value in found.items()}

    def __bool__(self) -> bool:
        """Return True if a change of few documents is known."""
        return bool(self._shares)

    def document(self, i: int) -> int:
        """Return the work on document ``i``, at most ``SCALE``."""
        return self._shares.get(i, 0)

    def pieces(self, pieces: Sequence[tuple[int, PieceSpan]]) -> list[int]:
        """Return the work on each piece. All pieces of a document are consecutive, with its number."""
        own = [self._on_lines(i, span) for i, span in pieces]
        found = []
        for n, (i, _) in enumerate(pieces):
            beside = [own[m] for m in (n - 1, n + 1) if 0 <= m < len(pieces) and pieces[m][0] == i]
            work = own[n] + max(beside, default=0) * _BESIDE // 100
            found.append(self.document(i) + _OWN * work)
        return found

    def _on_lines(self, i: int, span: PieceSpan) -> int:
        changes = self._written.get(i)
        if not changes:
            return 0
        lines = lines_written(self._documents[i].data[span.start : span.end].split(b"\n"))
        return sum(
            weight * min(len(lines & written), _MANY_LINES) // _MANY_LINES for weight, written in changes
        )


def lines_written(lines: Iterable[bytes]) -> frozenset[bytes]:
    """Return the lines that tell where they are from, without their indentation."""
    return frozenset(line for line in map(bytes.strip, lines) if len(line) >= _MIN_LINE)
