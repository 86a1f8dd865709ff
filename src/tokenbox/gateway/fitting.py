"""The mode ``fit``: a request that is too large is made smaller, step by step of the policy, and says how.

``evict``: whole exchanges leave, oldest first. ``truncate``: long texts of the past, tool results above all,
lose their middle. ``compact``: what leaves is summed up by a model, in the system prompt. No step touches
what must be kept: system and developer messages, and the last user message.
"""

from __future__ import annotations

import asyncio
import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tokenbox.content.message import InvalidMessage
from tokenbox.engine.window import Limits
from tokenbox.errors import TokenboxError
from tokenbox.gateway.items import window_of, without
from tokenbox.gateway.low_water import mark
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.services import Fitted
from tokenbox.gateway.settings import Fit
from tokenbox.gateway.texts import cuttable, transcript, with_cuts, with_summary
from tokenbox.tokenizers.truncation import truncate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Sequence

    from tokenbox.conversation.low_water import LowWater
    from tokenbox.engine.window import Step
    from tokenbox.gateway.admission import Counted, Verdict
    from tokenbox.gateway.calls import Call
    from tokenbox.gateway.counting import Local
    from tokenbox.gateway.services import Counting, Grant, Summaries
    from tokenbox.gateway.upstream import Upstream
    from tokenbox.tokenizers.protocol import Tokenizer

    Count = Callable[[Call], Coroutine[Any, Any, Counted]]

Found = TypeVar("Found")

_WINDOWED = frozenset({"chat", "messages", "responses"})
# A cut text keeps at least so many tokens of its two ends.
SHORTEST = 64
# A summary has at most so many tokens, and at most this part of the budget.
SUMMARY_TOKENS = 512
SUMMARY_PART = 4
# Searches that run at a time: each has a thread, and asks the event loop for counts, which may take others.
THREADS = 8


@dataclass(frozen=True, slots=True)
class _Evicted:
    call: Call
    counted: Counted
    gone: frozenset[int]
    record: dict[str, object]


class PolicyFitting:
    """Takes the steps of ``policy`` in turn until the request fits.

    Each candidate is counted as a whole, as the upstream will count it, about log2(n) times. ``low_water``:
    how far to evict, so that the start of the prompt stays the same (:mod:`tokenbox.gateway.low_water`).
    """

    def __init__(
        self,
        counting: Counting,
        local: Callable[[Upstream, str], Local],
        summaries: Summaries,
        policy: Sequence[Fit] = (Fit.EVICT,),
        low_water: LowWater = 1,
    ) -> None:
        self._counting = counting
        self._local = local
        self._summaries = summaries
        self._policy = tuple(policy)
        self._low_water = low_water
        self._threads = ThreadPoolExecutor(THREADS, "tokenbox-fit")

    def become(self, policy: Sequence[Fit], low_water: LowWater) -> None:
        """Another policy, from the next request on."""
        self._policy, self._low_water = tuple(policy), low_water

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def fit(
        self, call: Call, upstream: Upstream, verdict: Verdict, grant: Grant, tried: dict[str, int]
    ) -> Fitted | None:
        budget = verdict.budget
        if budget is None or budget < 1 or call.protocol.name not in _WINDOWED:
            return None

        async def count(smaller: Call) -> Counted:
            counted = await self._counting.count(smaller, upstream)
            tried[hashlib.sha256(smaller.data).hexdigest()] = counted.tokens
            return counted

        counted, steps = verdict.counted, []
        for action in self._policy:
            if action is Fit.TRUNCATE:
                tokenizer = self._local(upstream, call.model).tokenizer
                done = await self._truncated(call, tokenizer, count, counted, budget)
            else:
                done = await self._evicted(call, count, counted, budget, grant, action)
            if done is None:
                continue
            call, counted, record = done
            steps.append(record)
            if counted.tokens <= budget:
                totals = {"before": verdict.counted.tokens, "after": counted.tokens, "budget": budget}
                first = steps[0] if len(steps) == 1 else {"action": "several", "steps": steps}
                return Fitted(call, counted, {**first, **totals})
        return None

    async def _truncated(
        self, call: Call, tokenizer: Tokenizer, count: Count, counted: Counted, budget: int
    ) -> tuple[Call, Counted, dict[str, object]] | None:
        """Long texts of the past cut to the largest size that fits; to the smallest if none does."""
        slots = cuttable(call)

        def sizes() -> list[int]:
            return tokenizer.count_batch([slot.text for slot in slots])

        tokens = await self._in_thread(sizes)
        low, high = SHORTEST, max(tokens, default=0)
        if high <= low:
            return None
        found: tuple[int, Call, Counted, list[int]] | None = None
        while low < high:
            middle = (low + high) // 2
            tried = await self._cut_to(call, tokenizer, count, middle, tokens)
            if tried[1].tokens <= budget:
                found, low = (middle, *tried), middle + 1
            else:
                high = middle
        if found is None:
            found = (SHORTEST, *await self._cut_to(call, tokenizer, count, SHORTEST, tokens))
        at_most, smaller, after, cut = found
        record = {"action": "truncate", "messages": cut, "at_most": at_most, "keep": "ends"}
        return smaller, after, {**record, "before": counted.tokens, "after": after.tokens}

    async def _cut_to(
        self, call: Call, tokenizer: Tokenizer, count: Count, at_most: int, tokens: Sequence[int]
    ) -> tuple[Call, Counted, list[int]]:
        slots = cuttable(call)

        def cut() -> dict[int, str]:
            return {
                number: truncate(slot.text, at_most, tokenizer, "ends", size=size)
                for number, (slot, size) in enumerate(zip(slots, tokens, strict=True))
                if size > at_most
            }

        texts = await self._in_thread(cut)
        smaller = with_cuts(call, texts)
        counted = await count(smaller)
        return smaller, counted, sorted({slots[number].item for number in texts})

    async def _evicted(  # one parameter per thing that is known
        self, call: Call, count: Count, counted: Counted, budget: int, grant: Grant, action: Fit
    ) -> tuple[Call, Counted, dict[str, object]] | None:
        if action is Fit.COMPACT:
            compacted = await self._compacted(call, count, counted, budget, grant)
            if compacted is not None:
                return compacted
            # Without a summary nothing else is lost: what had to leave leaves as in a plain eviction.
        evicted = await self._search(call, count, counted, budget)
        return None if evicted is None else (evicted.call, evicted.counted, evicted.record)

    async def _compacted(
        self, call: Call, count: Count, counted: Counted, budget: int, grant: Grant
    ) -> tuple[Call, Counted, dict[str, object]] | None:
        """The oldest exchanges in the words of a summary; None if there is none, or it does not fit."""
        room = min(SUMMARY_TOKENS, budget // SUMMARY_PART)
        evicted = await self._search(call, count, counted, budget - room)
        if evicted is None or not evicted.gone:
            return None
        summary = await self._summaries.summary_of(transcript(call, evicted.gone), room, call, grant)
        if summary is None:
            return None
        smaller = with_summary(evicted.call, summary.text)
        after = await count(smaller)
        if after.tokens > budget:
            return None
        record = {**evicted.record, "action": "compact", "summary": summary.to_dict(), "after": after.tokens}
        return smaller, after, record

    async def _search(self, call: Call, count: Count, whole: Counted, budget: int) -> _Evicted | None:
        """The fewest of the oldest exchanges gone; None where what must be kept does not fit alone."""
        loop = asyncio.get_running_loop()
        counted: dict[frozenset[int], tuple[Call, Counted]] = {frozenset(): (call, whole)}

        def total_without(gone: Collection[int]) -> int:
            key = frozenset(gone)
            if key not in counted:
                smaller = without(call, key)
                question = count(smaller)
                counted[key] = smaller, asyncio.run_coroutine_threadsafe(question, loop).result()
            return counted[key][1].tokens

        try:
            window = window_of(call)
        except InvalidMessage as error:
            raise Refusal(400, error.code, error.message, call.protocol.input_key) from None

        def enforce() -> list[Step]:
            to = mark(
                self._low_water, window, whole.tokens, budget, lambda: total_without(window.evictable())
            )
            return window.enforce_whole(Limits(None, budget, to), total_without)

        steps = await self._in_thread(enforce)
        if window.total > budget:
            # What must be kept and a little more may still be too much for the mark alone.
            return None
        gone = frozenset(number for step in steps for number in step.messages)
        smaller, after = counted[gone]
        record: dict[str, object] = {
            "action": "evict",
            "evicted": sorted(gone),
            "before": whole.tokens,
            "after": after.tokens,
            "budget": budget,
            "steps": [{"messages": list(step.messages), "why": step.why} for step in steps],
        }
        return _Evicted(smaller, after, gone, record)

    async def _in_thread(self, work: Callable[[], Found]) -> Found:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TokenboxError as error:
            raise Refusal(400, error.code, error.message) from None
