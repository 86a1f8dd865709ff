"""What a pack is made for, and how the call, the preset and the project settle its options."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from tokenbox.errors import TokenboxError
from tokenbox.folder.difference import HEAD
from tokenbox.folder.packing import FileOrder, LevelRule
from tokenbox.folder.stripping import Strip

if TYPE_CHECKING:
    from tokenbox.folder.project import ProjectSettings


E = TypeVar("E", bound=StrEnum)


class SettingProblem(TokenboxError):
    """A setting of a pack has no such value."""

    code = "pack_setting_invalid"


class Purpose(StrEnum):
    """What a pack is for."""

    REVIEW = "review"
    QUESTION = "question"
    HANDOVER = "handover"


@dataclass(frozen=True, slots=True)
class PackSettings:
    """The options of a pack that a preset or a project may set; None where nothing is said.

    ``instructions``: a file. ``log``: how many of the latest commits are shown.
    """

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    levels: tuple[LevelRule, ...] | None = None
    strip: tuple[Strip, ...] | None = None
    line_numbers: bool | None = None
    instructions: str | None = None
    order: FileOrder | None = None
    log: int | None = None
    history: bool | None = None
    diff: str | None = None

    def before(self, other: PackSettings) -> PackSettings:
        """These settings, and those of ``other`` where these say nothing."""
        missing = {
            one.name: getattr(other, one.name) for one in fields(self) if getattr(self, one.name) is None
        }
        return replace(self, **missing)


PRESETS = {
    # What changed, with lines to comment on, and where the project stands.
    Purpose.REVIEW: PackSettings(diff=HEAD, line_numbers=True, log=5),
    # The best last, where it is nearest to the question.
    Purpose.QUESTION: PackSettings(order=FileOrder.WORTH),
    # What there is, what was done lately, and which files that touched.
    Purpose.HANDOVER: PackSettings(log=20, strip=(Strip.BASE64, Strip.OUTPUTS)),
}


def settled(given: PackSettings, purpose: Purpose | str | None, project: ProjectSettings) -> PackSettings:
    """What is given, then what the preset says, then the project. Raises :class:`SettingProblem`."""
    if purpose is not None:
        given = given.before(PRESETS[_member(Purpose, purpose, "for")])
    return given.before(
        PackSettings(
            include=project.include or None,
            exclude=project.exclude or None,
            levels=tuple(LevelRule.parse(f"{glob}={level}") for glob, level in project.levels) or None,
            strip=None if project.strip is None else strips(project.strip),
            line_numbers=project.line_numbers,
            instructions=project.instructions,
            order=None if project.order is None else _member(FileOrder, project.order, "order"),
            log=project.log,
            history=project.history,
        )
    )


def strips(names: tuple[str, ...]) -> tuple[Strip, ...]:
    """What ``names`` leave out. Raises :class:`SettingProblem`."""
    return tuple(_member(Strip, name, "strip") for name in names)


def _member(kind: type[E], value: str, setting: str) -> E:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(kind)
        raise SettingProblem(f"{setting} is one of {known}; not {value!r}.", setting=setting) from None
