"""What an engine decided, and the steps that led there."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Decision(StrEnum):
    """What became of a section."""

    KEPT = "kept"
    EXPANDED = "expanded"
    COMPRESSED = "compressed"
    TRUNCATED = "truncated"
    DROPPED = "dropped"


class Action(StrEnum):
    """What a step did."""

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
    ROOM = "{limit} tokens were free again"


class Step(NamedTuple):
    """One recorded action: who (the ``section``'s index), what, why, its tokens before and after.

    ``over`` is how many tokens the whole was over the budget before the step (0 or less: it fitted);
    ``limit`` is the figure the step worked to; ``items`` the extra items taken in. A tuple rather than a
    dataclass because a layout may make a hundred thousand.
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
        items = f"{self.items} item{'' if self.items == 1 else 's'}"
        return self.reason.value.format(over=f"{self.over:,}", limit=f"{self.limit:,}", items=items)

    def to_dict(self) -> dict[str, object]:
        return {"action": self.action.value, "before": self.before, "after": self.after, "why": self.why}
