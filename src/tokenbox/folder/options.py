"""The options of a pack, and its rules for how much of some files is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.errors import TokenboxError
from tokenbox.folder.candidates import PieceForm
from tokenbox.folder.globs import is_for_files
from tokenbox.folder.option_values import FileOrder

if TYPE_CHECKING:
    from tokenbox.folder.source import Source
    from tokenbox.worth.scorers import Scorer


class LevelProblem(TokenboxError, code="level_invalid"):
    """A ``--level`` rule is invalid."""


@dataclass(frozen=True, slots=True)
class LevelRule:
    """A limit on how much of the files that match ``glob`` is shown."""

    glob: str
    level: PieceForm

    @classmethod
    def parse(cls, text: str) -> LevelRule:
        """Parse ``GLOB=LEVEL``. Raises :class:`LevelProblem`."""
        glob, _, name = text.rpartition("=")
        if name not in LEVELS or not is_for_files(glob):
            raise LevelProblem(
                f"--level takes GLOB=LEVEL with one of {', '.join(LEVELS)}, as in 'docs/**=listed'; "
                f"not {text[:60]!r}.",
                rule=text,
            )
        return cls(glob, LEVELS[name])


LEVELS = {"full": PieceForm.FULL, "outline": PieceForm.OUTLINE, "listed": PieceForm.NOTHING}


@dataclass(frozen=True, slots=True)
class PackOptions:
    """The options of a pack.

    ``focus``: paths, ``PATH:SYMBOL`` or ``PATH:FIRST-LAST``, whose neighbourhood is preferred. ``history``:
    use the history of git as evidence of relevance. ``levels``: limits on how much of some files is shown.
    ``line_numbers``: number each line. ``scorer``: scores pieces instead of the words of the query: a
    function, the name of an entry point, or ``module:function`` (``worth.scorers``).
    """

    query: str | None = None
    order: FileOrder = FileOrder.PATH
    focus: tuple[str, ...] = ()
    history: bool = False
    levels: tuple[LevelRule, ...] = ()
    line_numbers: bool = False
    scorer: Scorer | str | None = None

    def asks(self, source: Source) -> bool:
        """Return whether a query, focus, diff or scorer says what the pack is for."""
        return self.query is not None or bool(self.focus or source.changes or self.scorer)
