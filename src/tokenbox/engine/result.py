"""The decisions of a layout engine, and the steps that led to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import repeat
from typing import NamedTuple

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
    OVER = "the total was {over} over the budget"
    STILL_OVER_WITHOUT = "the total was {over} over the budget, and over it even without this section"
    NOTHING_LEFT = "the total was {over} over the budget, and a cut of at most {limit} left no text"
    BELOW_MIN = "the total was {over} over the budget, and no cut of {limit} or less reached the minimum"
    CUT_NOT_ENOUGH = "the total was {over} over the budget, and a cut to its minimum did not change that"
    AT_LEAST = "the total was {over} over the budget, with every section as small as it may be"
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
class StepLog:
    """The steps of a layout: consecutive drops as columns, then ``rest``.

    A layout may drop a hundred thousand sections, without which the total was still over the budget. Their
    steps are made when the log is read. ``before``: the size of every section before the drops. ``totals``
    returns the total before each drop.
    """

    rest: Sequence[Step] = ()
    dropped: Sequence[int] = ()
    before: Sequence[int] = ()
    budget: int = 0
    totals: Callable[[], Iterable[int]] = tuple

    def __bool__(self) -> bool:
        return bool(self.dropped or self.rest)

    def __iter__(self) -> Iterator[Step]:
        sizes = map(self.before.__getitem__, self.dropped)
        overs = (total - self.budget for total in self.totals())
        why = repeat(Reason.STILL_OVER_WITHOUT)
        yield from map(Step, self.dropped, repeat(Action.DROP), why, sizes, repeat(0), overs)
        yield from self.rest
