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

from tokenbox.compose.requests import Count as TokenCount
from tokenbox.content.items import read_item, read_items
from tokenbox.conversation.counted_window import CountedWindow
from tokenbox.engine.window import WindowLimits
from tokenbox.errors import TokenboxError
from tokenbox.gateway.admission import judge, refusal_of
from tokenbox.gateway.counting import texts_of
from tokenbox.gateway.low_water import mark
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.services import FittedCall
from tokenbox.gateway.settings import Fit
from tokenbox.gateway.texts import cuttable, transcript, with_cuts, with_summary
from tokenbox.tokenizers.truncation import truncate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence

    from tokenbox.content.items import Item
    from tokenbox.content.message import Object
    from tokenbox.conversation.low_water import LowWater
    from tokenbox.engine.window import WindowStep
    from tokenbox.gateway.admission import Admission
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.gateway.services import CountingService, Grant, Summaries
    from tokenbox.gateway.upstream import Upstream
    from tokenbox.models import ModelUse
    from tokenbox.tokenizers.protocol import Tokenizer

    Count = Callable[[ApiCall], Coroutine[Any, Any, Admission]]

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
    call: ApiCall
    verdict: Admission
    gone: frozenset[int]
    record: dict[str, object]


class _CallSession:
    """The running count of a call: its upstream is asked for the whole, its items are counted here."""

    sums = False

    def __init__(
        self, call: ApiCall, whole: Admission, tokenizer: Tokenizer, ask: Callable[[ApiCall], Admission]
    ) -> None:
        self.call, self.counted = call, whole
        self._tokenizer, self._ask = tokenizer, ask
        self._given = call
        self._shown: dict[int, Any] = {}
        self._asked: dict[bytes, Admission] = {call.data: whole}
        self._is_stale = False

    def frame(self, head: Sequence[Item], tools: Sequence[Object] = (), fields: Object | None = None) -> None:
        """It is in the call."""

    def add(self, number: int, item: Item) -> None:
        self._shown[number] = self._given.input[number]

    def replace(self, number: int, item: Item) -> None:
        self._shown[number] = item.to_dict()
        self._is_stale = True

    def remove(self, numbers: Collection[int]) -> None:
        for number in numbers:
            del self._shown[number]
        self._is_stale = self._is_stale or bool(numbers)

    def count(self) -> TokenCount:
        if self._is_stale:
            self.call, self.counted = self._asked_for(self._shown)
            self._is_stale = False
        tokens, count = _size(self.counted), self.counted.counted.count
        return TokenCount(tokens, count.exact, tokens, count.by)

    def total_with(self, changes: Mapping[int, Item | None]) -> int:
        shown = {n: value for n, value in self._shown.items() if changes.get(n, self) is not None}
        shown |= {n: item.to_dict() for n, item in changes.items() if item is not None}
        return _size(self._asked_for(dict(sorted(shown.items())))[1])

    def size(self, number: int) -> int:
        return self.cost(read_item(self._shown[number], strict=False))

    def cost(self, item: Item) -> int:
        return sum(self._tokenizer.count_batch([message.counted_text for message in item.messages]))

    def _asked_for(self, shown: Mapping[int, Any]) -> tuple[ApiCall, Admission]:
        call = self._given.with_body({**self._given.body, self._given.protocol.input_key: [*shown.values()]})
        if call.data not in self._asked:
            self._asked[call.data] = self._ask(call)
        return call, self._asked[call.data]


class PolicyFitting:
    """Takes the steps of ``policy`` in turn until the request fits.

    Each candidate is counted as a whole, as the upstream will count it, about log2(n) times. ``low_water``:
    how far to evict, so that the start of the prompt stays the same (:mod:`tokenbox.gateway.low_water`).
    """

    def __init__(
        self,
        counting: CountingService,
        summaries: Summaries,
        policy: Sequence[Fit] = (Fit.EVICT,),
        low_water: LowWater = 1,
    ) -> None:
        self._counting = counting
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
        self,
        call: ApiCall,
        upstream: Upstream,
        use: ModelUse,
        verdict: Admission,
        grant: Grant,
        tried: dict[str, TokenCount],
    ) -> FittedCall | None:
        budget, guarded = verdict.budget, verdict.guarded
        if budget is None or guarded is None or budget < 1 or call.protocol.name not in _WINDOWED:
            return None

        async def count(smaller: ApiCall) -> Admission:
            counted = await self._counting.count(smaller, upstream, use)
            found = judge(smaller, counted, verdict.model, verdict.mode, guarded.uncertain)
            if found.is_missing_count:
                raise refusal_of(smaller, found)
            tried[hashlib.sha256(smaller.data).hexdigest()] = counted.count
            return found

        counted, tokenizer = verdict, texts_of(use)
        steps: list[dict[str, object]] = []
        for action in self._policy:
            if action is Fit.TRUNCATE:
                done = await self._truncated(call, tokenizer, count, counted, budget)
            else:
                done = await self._evicted(call, tokenizer, count, counted, budget, grant, action)
            if done is None:
                continue
            call, counted, record = done
            steps.append(record)
            if counted.fits:
                totals = {"before": _size(verdict), "after": _size(counted), "budget": budget}
                first = steps[0] if len(steps) == 1 else {"action": "several", "steps": steps}
                return FittedCall(call, counted, {**first, **totals})
        return None

    async def _truncated(
        self, call: ApiCall, tokenizer: Tokenizer, count: Count, counted: Admission, budget: int
    ) -> tuple[ApiCall, Admission, dict[str, object]] | None:
        """Long texts of the past cut to the largest size that fits; to the smallest if none does."""
        slots = cuttable(call)

        def sizes() -> list[int]:
            return tokenizer.count_batch([slot.text for slot in slots])

        tokens = await self._in_thread(sizes)
        low, high = SHORTEST, max(tokens, default=0)
        if high <= low:
            return None
        found: tuple[int, ApiCall, Admission, list[int]] | None = None
        while low < high:
            middle = (low + high) // 2
            tried = await self._cut_to(call, tokenizer, count, middle, tokens)
            if _size(tried[1]) <= budget:
                found, low = (middle, *tried), middle + 1
            else:
                high = middle
        if found is None:
            found = (SHORTEST, *await self._cut_to(call, tokenizer, count, SHORTEST, tokens))
        at_most, smaller, after, cut = found
        record = {"action": "truncate", "messages": cut, "at_most": at_most, "keep": "ends"}
        return smaller, after, {**record, "before": _size(counted), "after": _size(after)}

    async def _cut_to(
        self, call: ApiCall, tokenizer: Tokenizer, count: Count, at_most: int, tokens: Sequence[int]
    ) -> tuple[ApiCall, Admission, list[int]]:
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
        self,
        call: ApiCall,
        tokenizer: Tokenizer,
        count: Count,
        counted: Admission,
        budget: int,
        grant: Grant,
        action: Fit,
    ) -> tuple[ApiCall, Admission, dict[str, object]] | None:
        if action is Fit.COMPACT:
            compacted = await self._compacted(call, tokenizer, count, counted, budget, grant)
            if compacted is not None:
                return compacted
            # Without a summary nothing else is lost: what had to leave leaves as in a plain eviction.
        evicted = await self._search(call, tokenizer, count, counted, budget)
        return None if evicted is None else (evicted.call, evicted.verdict, evicted.record)

    async def _compacted(
        self, call: ApiCall, tokenizer: Tokenizer, count: Count, counted: Admission, budget: int, grant: Grant
    ) -> tuple[ApiCall, Admission, dict[str, object]] | None:
        """The oldest exchanges in the words of a summary; None if there is none, or it does not fit."""
        room = min(SUMMARY_TOKENS, budget // SUMMARY_PART)
        evicted = await self._search(call, tokenizer, count, counted, budget - room)
        if evicted is None or not evicted.gone:
            return None
        summary = await self._summaries.summary_of(transcript(call, evicted.gone), room, call, grant)
        if summary is None:
            return None
        smaller = with_summary(evicted.call, summary.text)
        after = await count(smaller)
        if _size(after) > budget:
            return None
        record = {**evicted.record, "action": "compact", "summary": summary.to_dict(), "after": _size(after)}
        return smaller, after, record

    async def _search(
        self, call: ApiCall, tokenizer: Tokenizer, count: Count, whole: Admission, budget: int
    ) -> _Evicted | None:
        """Results shortened and the oldest gone; None where what must be kept does not fit alone."""
        loop = asyncio.get_running_loop()

        def ask(smaller: ApiCall) -> Admission:
            return asyncio.run_coroutine_threadsafe(count(smaller), loop).result()

        if not isinstance(call.input, list):
            return None
        session = _CallSession(call, whole, tokenizer, ask)
        window = CountedWindow(session, tokenizer)

        def enforce() -> list[WindowStep]:
            for value, item in zip(call.input, read_items(call.input, strict=False), strict=True):
                window.add(value, item)
            window.settle()
            engine = window.window
            here = max(1, engine.total - engine.base)  # as this process counts the items

            def least() -> int:
                return (engine.must_stay() - engine.base) * _size(whole) // here

            to = mark(self._low_water, engine, _size(whole), budget, least)
            # A server's counts are searched for what just fits, so the mark is the budget of the search.
            low = min(to, budget)
            return window.enforce(WindowLimits(None, low, low)) or window.enforce(
                WindowLimits(None, budget, budget)
            )

        steps = await self._in_thread(enforce)
        smaller, after = session.call, session.counted
        if _size(after) > budget:
            return None
        gone = frozenset(range(len(call.input))) - window.shown.keys()
        record: dict[str, object] = {
            "action": "evict",
            "evicted": sorted(gone),
            "shortened": [n for n, shown in window.shown.items() if shown is not window.given[n]],
            "before": _size(whole),
            "after": _size(after),
            "budget": budget,
            "steps": [step.to_dict() for step in steps],
        }
        return _Evicted(smaller, after, gone, record)

    async def _in_thread(self, work: Callable[[], Found]) -> Found:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TokenboxError as error:
            raise Refusal(400, error.code, error.message) from None


def _size(verdict: Admission) -> int:
    """The figure that the guard goes by."""
    assert verdict.guarded is not None  # noqa: S101  # there is a budget
    return verdict.guarded.tokens
