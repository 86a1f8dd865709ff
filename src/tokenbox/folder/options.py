"""The options of a pack, and how those of the call, of a preset and of the project are combined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from tokenbox.errors import TokenboxError, one_of
from tokenbox.folder.candidates import PieceForm
from tokenbox.folder.git import HEAD
from tokenbox.folder.globs import is_for_files
from tokenbox.folder.option_values import FileOrder, Purpose, Strip

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


class SettingProblem(TokenboxError, code="pack_setting_invalid"):
    """A setting of a pack has an invalid value."""


@dataclass(frozen=True, slots=True)
class PackSettings:
    """The options of a pack that a preset or a project may set; None if unset.

    ``include`` and ``exclude``: patterns as in .gitignore, for files and their changes. ``strip``: the
    content to remove from files. ``log``: the number of latest commits to show. ``diff``: the revision to
    compare the working tree with.
    """

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    levels: tuple[LevelRule, ...] | None = None
    strip: tuple[Strip, ...] | None = None
    line_numbers: bool | None = None
    order: FileOrder | None = None
    log: int | None = None
    history: bool | None = None
    diff: str | None = None

    def or_else(self, other: PackSettings) -> PackSettings:
        """Return these settings, with those of ``other`` for the unset ones."""
        missing = {
            field.name: getattr(other, field.name)
            for field in fields(self)
            if getattr(self, field.name) is None
        }
        return replace(self, **missing)


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

    @classmethod
    def of(
        cls,
        settings: PackSettings,
        query: str | None,
        *,
        focus: tuple[str, ...] = (),
        scorer: Scorer | str | None = None,
    ) -> PackOptions:
        """Return the options of a call with these settings."""
        return cls(
            query,
            settings.order or FileOrder.PATH,
            focus,
            bool(settings.history),
            settings.levels or (),
            bool(settings.line_numbers),
            scorer,
        )

    def asks(self, source: Source) -> bool:
        """Return whether a query, focus, diff or scorer says what the pack is for."""
        return self.query is not None or bool(self.focus or source.changes or self.scorer)


_PRESETS = {
    # The changes, line numbers for comments, and the latest commits.
    Purpose.REVIEW: PackSettings(diff=HEAD, line_numbers=True, log=5),
    # The most relevant files last, nearest to the question.
    Purpose.QUESTION: PackSettings(order=FileOrder.WORTH),
    # The latest commits with the files they changed, and no bulky data.
    Purpose.HANDOVER: PackSettings(log=20, strip=(Strip.BASE64, Strip.OUTPUTS)),
}


def settled(given: PackSettings, purpose: Purpose | str | None, project: PackSettings) -> PackSettings:
    """Combine the given settings, the preset and the project, in this order of precedence.

    Raises :class:`SettingProblem`.
    """
    if purpose is not None:
        given = given.or_else(_PRESETS[one_of(Purpose, "purpose", purpose, SettingProblem, setting="for")])
    return given.or_else(project)


def strips(names: Iterable[str]) -> tuple[Strip, ...]:
    """Parse the names of content to remove. Raises :class:`SettingProblem`."""
    return tuple(one_of(Strip, "strip", name, SettingProblem, setting="strip") for name in names)


def file_order(name: object) -> FileOrder:
    """Parse the order of files. Raises :class:`SettingProblem`."""
    return one_of(FileOrder, "order", name, SettingProblem, setting="order")
