"""How a window may shrink: the steps that are allowed, the limits, and the record of each change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from tokenbox.errors import plural
from tokenbox.records import to_record

if TYPE_CHECKING:
    from fractions import Fraction


class Reduce(StrEnum):
    """A way to shrink the window, in the order in which they are tried."""

    MASK = "mask"
    CUT = "cut"
    ROUNDS = "rounds"
    EXCHANGES = "exchanges"
    SHORTEN_LAST = "shorten_last"


ALL_STEPS: Final = frozenset(Reduce)
KEEP_RESULTS: Final = 3
"""The number of newest results, just read by an agent, that are masked last."""
LEAST_CUT: Final = 64
"""The minimum size in tokens of a result whose middle is cut out; a smaller one is masked."""


class WindowAction(StrEnum):
    """The change that a step made to its items."""

    EVICT = "evict"
    MASK = "mask"
    CUT = "cut"
    RESTORE = "restore"


class WindowReason(StrEnum):
    """Why a step was taken. The value is the template of the sentence shown to a person."""

    UNSENDABLE = "no server takes a tool call without its results, or a result without its call"
    TURNS = "the conversation had {exchanges} more than the {limit} allowed"
    OVER = "the total was {tokens} over the budget of {limit}"
    AHEAD = "making room for more requests, down to about {room}, keeps the prompt's start for longer"
    OPEN_ROUND = "what must stay was {tokens} over the budget of {limit} by itself"
    LESS_WORTH = "the total was {tokens} over the budget of {limit}; what stays is nearer to the question"
    ROOM = "what left made more room than was needed: {tokens} of {limit} {were} free"


class WindowStep(NamedTuple):
    """One change: its items, its reason, and the total before and after it, in tokens.

    ``over``: the excess over ``limit``, in exchanges for ``TURNS``, else in tokens.
    """

    messages: tuple[int, ...]
    reason: WindowReason
    before: int
    after: int
    over: int = 0
    limit: int = 0
    action: WindowAction = WindowAction.EVICT

    @property
    def why(self) -> str:
        return self.reason.value.format(
            tokens=plural(self.over, "token"),
            exchanges=plural(self.over, "exchange"),
            were="was" if self.over == 1 else "were",
            limit=f"{self.limit:,}",
            room=plural(self.limit, "token"),
        )

    def to_dict(self) -> dict[str, object]:
        return to_record(self, "action messages before after why")


@dataclass(frozen=True, slots=True)
class WindowLimits:
    """At most ``max_turns`` exchanges and ``budget`` tokens; None: no limit.

    Once over the budget, the window is reduced to about ``mark``, the low-water mark, in whole steps
    (:mod:`tokenbox.engine.low_water`). With ``eagerness``, the mark is derived from the window's growth and
    ``mark`` is ignored.
    """

    max_turns: int | None
    budget: int | None
    mark: int
    eagerness: Fraction | None = None
    steps: frozenset[Reduce] = ALL_STEPS
    keep_results: int = KEEP_RESULTS

    @property
    def in_steps(self) -> bool:
        """Whether more is evicted at once than the budget requires."""
        return self.eagerness is not None or self.mark != self.budget
