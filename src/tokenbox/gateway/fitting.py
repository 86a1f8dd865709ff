"""The mode ``fit``: makes a request smaller, by the steps of the policy, and records what it did.

``evict`` drops whole exchanges, oldest first. ``truncate`` cuts the middle out of long texts of the past,
tool results above all. ``compact`` puts a model's summary of the evicted exchanges into the system prompt. No
step touches system and developer messages or the last user message.

A client sends its whole conversation each time, and the gateway remembers none of it. Following it from its
beginning, as :func:`tokenbox.fit` does, would take a count of the upstream for every earlier request. So
tokens are evicted in whole steps, and the cut stays where it is until the conversation has grown by a step:
the next, longer request keeps the same beginning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tokenbox.compose.requests import Count
from tokenbox.content.items import Item, read_item, read_items
from tokenbox.conversation.counted_window import CountedWindow
from tokenbox.conversation.low_water import LowWater, eagerness_of
from tokenbox.engine.low_water import freed, halvings, halvings_to_free, to_free
from tokenbox.engine.steps import WindowLimits, WindowStep
from tokenbox.errors import TokenboxError
from tokenbox.gateway.admission import Admission, Counted, refusal_of
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.settings import Fit
from tokenbox.gateway.texts import cuttable, transcript, with_cuts, with_summary
from tokenbox.tokenizers.truncation import truncate

if TYPE_CHECKING:
    from tokenbox.content.message import Object
    from tokenbox.engine.window import Window
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.tokenizers.protocol import Tokenizer

T = TypeVar("T")

# Tokens that a cut text keeps at least.
SHORTEST = 64
# The limits of a summary: tokens, and the divisor of its share of the budget.
SUMMARY_TOKENS = 512
SUMMARY_PART = 4
# Searches that run at the same time: each blocks a thread while the event loop counts.
_SEARCHERS = ThreadPoolExecutor(8, "tokenbox-fit")


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """A model's summary of what was evicted. ``request_id`` is that of its own request, in the log."""

    text: str = field(repr=False)
    model: str
    request_id: str

    def to_dict(self) -> dict[str, object]:
        """Return it for the record, with a digest in place of the text."""
        digest = sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()
        return {"model": self.model, "request_id": self.request_id, "sha256": digest}


@dataclass(frozen=True, slots=True)
class FittedCall:
    """A call that was made to fit. ``record`` tells how, as plain data for the client and the proof."""

    call: ApiCall
    admission: Admission
    record: dict[str, object]


def fit_actions(record: Mapping[str, Any]) -> str:
    """Return the actions of a record, in order: ``mask, evict``."""
    actions: list[str] = []
    for step in record["steps"] if record["action"] == "several" else [record]:
        inner = [one["action"] for one in step.get("steps", ())]
        if step["action"] != "evict":
            inner = [*(action for action in inner if action != "evict"), step["action"]]
        actions += inner
    return ", ".join(dict.fromkeys(actions))


class _CallSession:
    """The running count of a call. ``judge`` counts the whole call; single items are counted locally."""

    sums = False

    def __init__(
        self, call: ApiCall, whole: Admission, tokenizer: Tokenizer, judge: Callable[[ApiCall], Admission]
    ) -> None:
        self.call, self.admission = call, whole
        self._tokenizer, self._judge = tokenizer, judge
        self._original = call
        self._shown: dict[int, Any] = {}
        # By digest: the bodies that were tried may be large, and the search tries many.
        self._judged: dict[bytes, Admission] = {sha256(call.data).digest(): whole}
        self._is_stale = False

    def frame(self, head: Sequence[Item], tools: Sequence[Object] = (), fields: Object | None = None) -> None:
        """Do nothing: the call already has its frame."""

    def add(self, number: int, item: Item) -> None:
        self._shown[number] = self._original.input[number]

    def replace(self, number: int, item: Item) -> None:
        self._shown[number] = item.to_dict()
        self._is_stale = True

    def remove(self, numbers: Collection[int]) -> None:
        for number in numbers:
            del self._shown[number]
        self._is_stale = self._is_stale or bool(numbers)

    def count(self) -> Count:
        if self._is_stale:
            self.call, self.admission = self._judge_shown(self._shown)
            self._is_stale = False
        tokens, count = _size(self.admission), self.admission.counted.count
        return Count(tokens, count.exact, tokens, count.by)

    def total_with(self, changes: Mapping[int, Item | None]) -> int:
        shown = {n: value for n, value in self._shown.items() if changes.get(n, self) is not None}
        shown |= {n: item.to_dict() for n, item in changes.items() if item is not None}
        return _size(self._judge_shown(dict(sorted(shown.items())))[1])

    def size(self, number: int) -> int:
        return self.cost(read_item(self._shown[number], strict=False))

    def cost(self, item: Item) -> int:
        return sum(self._tokenizer.count_batch([message.counted_text for message in item.messages]))

    def _judge_shown(self, shown: Mapping[int, Any]) -> tuple[ApiCall, Admission]:
        call = self._original.with_input([*shown.values()])
        digest = sha256(call.data).digest()
        if digest not in self._judged:
            self._judged[digest] = self._judge(call)
        return call, self._judged[digest]


@dataclass(frozen=True, slots=True)
class CallFitting:
    """Takes the steps of ``policy`` in turn until the request fits.

    ``whole`` is the decision about the request as it is. Each candidate is counted as a whole by ``count``,
    as the upstream will count it, about log2(n) times; ``tried`` receives the count of each, by the SHA-256
    of its body. ``summarize`` takes a text and a number of tokens, and returns a summary of at most
    that many tokens, or None without one. ``low_water`` is how far to evict (:func:`mark`).
    """

    whole: Admission
    tokenizer: Tokenizer
    count: Callable[[ApiCall], Awaitable[Counted]]
    summarize: Callable[[str, int, ApiCall], Awaitable[ModelSummary | None]]
    tried: dict[str, Count]
    policy: Sequence[Fit]
    low_water: LowWater

    async def fit(self, call: ApiCall) -> FittedCall | None:
        """Make the call fit; None if what must be kept does not fit."""
        budget = self.whole.budget
        if budget is None or budget < 1 or call.protocol.takes_prompts:
            return None
        now = FittedCall(call, self.whole, {})
        steps: list[dict[str, object]] = []
        for action in self.policy:
            step = await self._step(action, now, budget)
            if step is None:
                continue
            now = step
            steps.append(step.record)
            if step.admission.fits:
                totals = {"before": _size(self.whole), "after": _size(step.admission), "budget": budget}
                first = steps[0] if len(steps) == 1 else {"action": "several", "steps": steps}
                return replace(step, record={**first, **totals})
        return None

    async def _step(self, action: Fit, now: FittedCall, budget: int) -> FittedCall | None:
        if action is Fit.TRUNCATE:
            return await self._truncate(now, budget)
        step = await self._compact(now, budget) if action is Fit.COMPACT else None
        # Without a summary, what would have been summarized is evicted.
        return await self._evict(now, budget) if step is None else step

    async def _judge(self, smaller: ApiCall) -> Admission:
        counted = await self.count(smaller)
        found = self.whole.again(smaller, counted)
        if found.is_missing_count:
            raise refusal_of(smaller, found)
        self.tried[sha256(smaller.data).hexdigest()] = counted.count
        return found

    async def _truncate(self, now: FittedCall, budget: int) -> FittedCall | None:
        """Cut long texts of the past to the largest size that fits, or to ``SHORTEST`` if none fits."""
        slots = cuttable(now.call)
        tokens = await _in_thread(lambda: self.tokenizer.count_batch([slot.text for slot in slots]))
        low, high = SHORTEST, max(tokens, default=0)
        if high <= low:
            return None
        found: FittedCall | None = None
        while low < high:
            middle = (low + high) // 2
            tried = await self._cut_to(now, middle, tokens)
            if _size(tried.admission) <= budget:
                found, low = tried, middle + 1
            else:
                high = middle
        return await self._cut_to(now, SHORTEST, tokens) if found is None else found

    async def _cut_to(self, now: FittedCall, at_most: int, tokens: Sequence[int]) -> FittedCall:
        """Cut every text that is longer than ``at_most``."""
        slots = cuttable(now.call)

        def cut() -> dict[int, str]:
            return {
                number: truncate(slot.text, at_most, self.tokenizer, "ends", size=size)
                for number, (slot, size) in enumerate(zip(slots, tokens, strict=True))
                if size > at_most
            }

        texts = await _in_thread(cut)
        smaller = with_cuts(now.call, texts)
        after = await self._judge(smaller)
        items = sorted({slots[number].item for number in texts})
        record = {"action": "truncate", "messages": items, "at_most": at_most, "keep": "ends"}
        sizes = {"before": _size(now.admission), "after": _size(after)}
        return FittedCall(smaller, after, {**record, **sizes})

    async def _compact(self, now: FittedCall, budget: int) -> FittedCall | None:
        """Replace the oldest exchanges by a summary; None if there is no summary, or it does not fit."""
        room = min(SUMMARY_TOKENS, budget // SUMMARY_PART)
        evicted = await self._evict(now, budget - room)
        if evicted is None or not evicted.record["evicted"]:
            return None
        numbers = cast("list[int]", evicted.record["evicted"])
        summary = await self.summarize(transcript(now.call, numbers), room, now.call)
        if summary is None:
            return None
        smaller = with_summary(evicted.call, summary.text)
        after = await self._judge(smaller)
        if _size(after) > budget:
            return None
        done = {"action": "compact", "summary": summary.to_dict(), "after": _size(after)}
        return FittedCall(smaller, after, {**evicted.record, **done})

    async def _evict(self, now: FittedCall, budget: int) -> FittedCall | None:
        """Mask tool results and evict the oldest exchanges; None if what must be kept does not fit."""
        loop, items, size = asyncio.get_running_loop(), now.call.input, _size(now.admission)
        if not isinstance(items, list):
            return None

        def judge_from_thread(smaller: ApiCall) -> Admission:
            return asyncio.run_coroutine_threadsafe(self._judge(smaller), loop).result()

        session = _CallSession(now.call, now.admission, self.tokenizer, judge_from_thread)
        window = CountedWindow(session, self.tokenizer)

        def enforce() -> list[WindowStep]:
            for value, item in zip(items, read_items(items, strict=False), strict=True):
                window.add(value, item)
            window.settle()
            engine = window.window
            local_total = max(1, engine.total - engine.base)

            def least() -> int:
                return (engine.must_stay() - engine.base) * size // local_total

            # The search finds what just fits by the server's counts, so the mark is its budget.
            low = min(mark(self.low_water, engine, size, budget, least), budget)
            return window.enforce(WindowLimits(None, low, low)) or window.enforce(
                WindowLimits(None, budget, budget)
            )

        steps = await _in_thread(enforce)
        after = _size(session.admission)
        if after > budget:
            return None
        record: dict[str, object] = {
            "action": "evict",
            "evicted": sorted(set(range(len(items))) - window.shown.keys()),
            "shortened": [n for n, shown in window.shown.items() if shown is not window.given[n]],
            "before": size,
            "after": after,
            "budget": budget,
            "steps": [step.to_dict() for step in steps],
        }
        return FittedCall(session.call, session.admission, record)


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        return await asyncio.get_running_loop().run_in_executor(_SEARCHERS, work)
    except TokenboxError as error:
        raise Refusal(400, error.code, error.message) from None


def _size(admission: Admission) -> int:
    """Return the figure that the guard decides on."""
    assert admission.verdict is not None  # noqa: S101  # there is a budget
    return admission.verdict.tokens


def mark(low_water: LowWater, window: Window, whole: int, budget: int, least: Callable[[], int]) -> int:
    """Return the total to evict down to: the largest within the budget that is whole steps below ``whole``.

    ``least`` counts what stays if everything leaves that may. It is called for ``auto`` only.
    """
    eagerness = eagerness_of(low_water)
    if eagerness is None:
        wanted = int(budget * (1 - Fraction(low_water)))  # type: ignore[arg-type]  # no eagerness: a number
        if not wanted:
            return budget
        times = halvings(wanted, budget)
    else:
        kept = least()
        wanted = to_free(max(0, budget - kept), max(0, whole - kept), window.answers + 1, eagerness)
        times = halvings_to_free(wanted, budget)
    return whole - freed(whole, budget, times)
