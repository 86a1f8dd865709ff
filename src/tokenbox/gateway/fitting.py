"""The mode ``fit``: a request that is too large loses its oldest exchanges, and says so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tokenbox.content.message import InvalidMessage
from tokenbox.engine.window import Limits
from tokenbox.gateway.items import window_of, without
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.services import Fitted

if TYPE_CHECKING:
    from collections.abc import Collection
    from decimal import Decimal

    from tokenbox.gateway.admission import Counted, Verdict
    from tokenbox.gateway.calls import Call
    from tokenbox.gateway.services import Counting
    from tokenbox.gateway.upstream import Upstream

_WINDOWED = frozenset({"chat", "messages", "responses"})


class Evicting:
    """Evicts whole exchanges, then tool rounds of the last one, oldest first; never what must be kept.

    Each candidate is counted as a whole, as the upstream will count it, about log2(n) times. ``low_water``:
    the fraction of the budget to go down to, so that the start of the prompt stays the same for a while.
    """

    def __init__(self, counting: Counting, low_water: Decimal) -> None:
        self._counting = counting
        self._low_water = low_water

    async def fit(self, call: Call, upstream: Upstream, verdict: Verdict) -> Fitted | None:
        budget = verdict.budget
        if budget is None or budget < 1 or call.protocol.name not in _WINDOWED:
            return None
        loop = asyncio.get_running_loop()
        counted: dict[frozenset[int], tuple[Call, Counted]] = {frozenset(): (call, verdict.counted)}

        def total_without(gone: Collection[int]) -> int:
            key = frozenset(gone)
            if key not in counted:
                smaller = without(call, key)
                question = self._counting.count(smaller, upstream)
                counted[key] = smaller, asyncio.run_coroutine_threadsafe(question, loop).result()
            return counted[key][1].tokens

        try:
            window = window_of(call)
        except InvalidMessage as error:
            raise Refusal(400, error.code, error.message, call.protocol.input_key) from None
        mark = int(budget * self._low_water)
        steps = await asyncio.to_thread(window.enforce_whole, Limits(None, budget, mark), total_without)
        if window.total > budget:
            # What must be kept and a little more may still be too much for the mark alone.
            return None
        gone = frozenset(number for step in steps for number in step.messages)
        smaller, count = counted[gone]
        record: dict[str, object] = {
            "action": "evict",
            "evicted": sorted(gone),
            "before": verdict.counted.tokens,
            "after": count.tokens,
            "budget": budget,
            "steps": [{"messages": list(step.messages), "why": step.why} for step in steps],
        }
        return Fitted(smaller, count, record)
