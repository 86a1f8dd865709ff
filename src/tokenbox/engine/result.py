"""The decisions of a layout engine, and the steps that led to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import repeat
from typing import NamedTuple, overload

from tokenbox.records import to_record


class Decision(StrEnum):
    """The final state of a section."""

    KEPT = "kept"
    EXPANDED = "expanded"
    COMPRESSED = "compressed"
    TRUNCATED = "truncated"
    DROPPED = "dropped"


class Policy(StrEnum):
    """How a layout shrinks: as the Token Box Model says, or degrading sections before dropping any."""

    FACET = "facet"
    DEGRADE = "degrade"


class Action(StrEnum):
    """The kind of a step."""

    EXPAND = "expand"
    COMPRESS = "compress"
    TRUNCATE = "truncate"
    DROP = "drop"
    RECLAIM = "reclaim"


class Reason(StrEnum):
    """Why a step was taken. The value is the template of the sentence shown to a person."""

    SHARE = "took in {items} within its share of {limit} tokens"
    OVER = "the whole was {over} over the budget"
    STILL_OVER_WITHOUT = "the whole was {over} over the budget, and over it even without this section"
    NOTHING_LEFT = "the whole was {over} over the budget, and a cut of at most {limit} left no text"
    BELOW_MIN = "the whole was {over} over the budget, and no cut of {limit} or less reached the minimum"
    CUT_NOT_ENOUGH = "the whole was {over} over the budget, and a cut to its minimum did not change that"
    AT_LEAST = "the whole was {over} over the budget, with every section as small as it may be"
    OWN_MAX = "it was {over} over its maximum"
    GROUP_MAX = "its group was {over} over its maximum"
    GROUP_MIN = "its group would have been below its minimum"
    TOGETHER = "it is kept only together with a section that was dropped"
    ROOM = "{limit} tokens were free again"


class Step(NamedTuple):
    """One recorded action on a section (by index), its reason, and the section's tokens before and after.

    ``over``: the tokens over the budget before the step (0 or less: it fitted). ``limit``: the size that the
    step aimed for. ``items``: the extra items taken in. A tuple rather than a dataclass because a layout may
    make a hundred thousand.
    """

    section: int
    action: Action
    reason: Reason
    before: int
    after: int
    over: int
    limit: int = 0
    items: int = 0

    @property
    def why(self) -> str:
        """The reason as a sentence, with its figures."""
        return self.because("")

    def because(self, about: str) -> str:
        """Return the reason as a sentence. ``about`` is the prefix of token counts."""
        items = f"{self.items} item{'' if self.items == 1 else 's'}"
        return self.reason.value.format(
            over=f"{about}{self.over:,}", limit=f"{about}{self.limit:,}", items=items
        )

    def to_dict(self) -> dict[str, object]:
        return to_record(self, "action before after why")


@dataclass(frozen=True, slots=True)
class SectionResult:
    """The decision for one section. In tokens: ``base_size`` of the content, ``size`` of the emitted text.

    ``form``: the alternative that was emitted or cut; None for the content.
    """

    id: str
    decision: Decision
    base_size: int
    size: int
    text: str = field(default="", repr=False)
    form: str | None = None
    steps: tuple[Step, ...] = ()

    def to_dict(self) -> dict[str, object]:
        return to_record(self, "id decision base_size size form? steps")


@dataclass(frozen=True, slots=True)
class Drops:
    """Consecutive drops of sections without which the whole was still over the budget, stored as columns.

    ``before``: the size of every section before the drops. ``totals`` returns the total before each drop.
    """

    sections: Sequence[int] = ()
    before: Sequence[int] = ()
    budget: int = 0
    totals: Callable[[], Iterable[int]] = tuple

    def steps(self) -> Iterator[Step]:
        sizes = map(self.before.__getitem__, self.sections)
        overs = (total - self.budget for total in self.totals())
        why = repeat(Reason.STILL_OVER_WITHOUT)
        return map(Step, self.sections, repeat(Action.DROP), why, sizes, repeat(0), overs)


class StepLog(Sequence[Step]):
    """The steps of a layout, in order.

    A layout may drop a hundred thousand sections, so the steps of ``drops`` are created on first access.
    """

    __slots__ = ("_drops", "_made", "_rest")

    def __init__(self, drops: Drops, rest: Sequence[Step]) -> None:
        self._drops, self._rest = drops, rest
        self._made: tuple[Step, ...] | None = None

    def _steps(self) -> tuple[Step, ...]:
        if self._made is None:
            self._made = (*self._drops.steps(), *self._rest)
        return self._made

    def __len__(self) -> int:
        return len(self._drops.sections) + len(self._rest)

    def __iter__(self) -> Iterator[Step]:
        return iter(self._steps())

    @overload
    def __getitem__(self, place: int) -> Step: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Step, ...]: ...
    def __getitem__(self, place: int | slice) -> Step | tuple[Step, ...]:
        return self._steps()[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StepLog) and self._steps() == other._steps()

    __hash__ = None  # type: ignore[assignment]  # like a list

    def __reduce__(self) -> tuple[object, ...]:
        return StepLog, (Drops(), self._steps())
