"""Chat messages as chunks: packed by the window, or by a user's strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tokenbox.content.items import Item, read_item
from tokenbox.content.message import Role, thaw
from tokenbox.conversation.fitting import fit
from tokenbox.conversation.record import Fitted, WindowDecision
from tokenbox.errors import TokenboxError
from tokenbox.policy.errors import StrategyFailed
from tokenbox.policy.estimate import request_counter, sizes_of, sizes_of_messages
from tokenbox.policy.records import ChunkPlan, SummaryOp
from tokenbox.policy.strategies import Candidate

if TYPE_CHECKING:
    from tokenbox.policy.chunks import Chunks
    from tokenbox.policy.estimate import Counts

# Tokens by which a message may count more among others than alone.
SLACK: Final = 4


def windowed(
    request: Chunks, budget: int, counter: Counts
) -> tuple[Fitted[Any], list[ChunkPlan], list[SummaryOp]]:
    """Evict whole exchanges, the oldest first: the strategy ``window``."""
    made = _fitted(request, request.items, budget, counter)
    return made, chunk_plans(request, made), _summaries(request, made, counter)


def chosen(request: Chunks, indices: Sequence[int], name: str, counter: Counts) -> Fitted[Any]:
    """Return a user's choice. Raises :class:`StrategyFailed` if it separates a call from its result."""
    made = _fitted(request, [request.items[i] for i in indices], None, counter)
    if made.evicted:
        raise StrategyFailed(
            f"the strategy {name} separated a tool call from its results, which no server accepts.",
            strategy=name,
        )
    return made


def _fitted(request: Chunks, items: Sequence[Item], budget: int | None, counter: Counts) -> Fitted[Any]:
    """Fit the items into the budget, beside the tools and the other fields of the request."""
    return fit(
        items, budget, request_counter(counter), tools=request.tools or None, fields=thaw(request.fields)
    )


def candidates_of(request: Chunks, counter: Counts) -> list[Candidate]:
    """Return the messages as a strategy sees them. System messages and the last user message are critical."""
    items: Sequence[Item] = request.items
    last = max((i for i, item in enumerate(items) if item.role is Role.USER), default=-1)
    return [
        Candidate(
            i,
            request.ids[i],
            item.text,
            size,
            None,
            i == last or item.is_system,
            item.role.value,
        )
        for i, (item, size) in enumerate(zip(items, sizes_of(request, counter), strict=True))
    ]


def chunk_plans(request: Chunks, made: Fitted[Any]) -> list[ChunkPlan]:
    """Return the decision about each message, with the reason if it was evicted or shortened."""
    why = {number: step.why for step in made.steps for number in step.messages}
    changed = {i: (WindowDecision.REDUCED, made.sizes_now[i]) for i in made.shortened}
    changed |= dict.fromkeys(made.gone, (WindowDecision.EVICTED, 0))
    plans = []
    for i, (name, size) in enumerate(zip(request.ids, made.sizes, strict=True)):
        decision, now = changed.get(i, (WindowDecision.KEPT, size))
        plans.append(ChunkPlan(i, name, decision, size, now, (why[i],) if i in why else ()))
    return plans


def _summaries(request: Chunks, made: Fitted[Any], counter: Counts) -> list[SummaryOp]:
    """Return one summary of all evicted messages, as a system message in the room that is left."""
    evicted = sorted(made.gone)
    if not evicted or made.budget is None:
        return []
    try:
        frame = sizes_of_messages(counter, [read_item({"role": "system", "content": "x"})])[0] + SLACK
    except TokenboxError:  # a format without system messages
        return []
    at_most = made.budget - made.total - frame
    size = sum(made.sizes[i] for i in evicted)
    if not 0 < at_most < size:
        return []
    names = tuple(request.ids[i] for i in evicted)
    return [SummaryOp(names, size, at_most, names)]
