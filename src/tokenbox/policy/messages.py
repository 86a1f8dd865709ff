"""Chat messages as chunks: packed by the window, or as a user's strategy chose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tokenbox.content.message import Message, Role
from tokenbox.conversation.fit import fit
from tokenbox.conversation.record import WindowDecision
from tokenbox.errors import TokenboxError
from tokenbox.policy.errors import StrategyFailed
from tokenbox.policy.estimate import request_counter, sizes_of, sizes_of_messages
from tokenbox.policy.records import ChunkPlan, SummaryOp
from tokenbox.policy.strategies import Candidate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.conversation.record import Fitted
    from tokenbox.policy.chunks import Chunks
    from tokenbox.policy.estimate import Counts

# Tokens by which a message may count more among others than measured alone.
SLACK: Final = 4


def windowed(
    request: Chunks, budget: int, counter: Counts
) -> tuple[Fitted[Any], list[ChunkPlan], list[SummaryOp]]:
    """The strategy ``window``: whole exchanges leave, the oldest first."""
    made = fit(request.items, budget, request_counter(counter), tools=request.tools or None)
    return made, chunk_plans(request, made), _summaries(request, made, counter)


def chosen(
    request: Chunks, indices: Sequence[int], name: str, counter: Counts
) -> tuple[Fitted[Any], list[ChunkPlan]]:
    """What a user's strategy chose. Raises :class:`StrategyFailed` if that parts a call from its result."""
    selected = [request.items[i] for i in indices]
    made = fit(selected, None, request_counter(counter), tools=request.tools or None)
    if made.evicted:
        raise StrategyFailed(
            f"the strategy {name} parted a tool call from its results, which no server takes.", strategy=name
        )
    sizes = sizes_of(request, counter)
    kept = set(indices)
    plans = [
        ChunkPlan(
            i,
            request.ids[i],
            WindowDecision.KEPT if i in kept else WindowDecision.EVICTED,
            size,
            size if i in kept else 0,
        )
        for i, size in enumerate(sizes)
    ]
    return made, plans


def candidates_of(request: Chunks, counter: Counts) -> list[Candidate]:
    """The messages as a strategy sees them: critical are the system's, and the last of the user."""
    messages: Sequence[Message] = request.items
    last = max((i for i, message in enumerate(messages) if message.role is Role.USER), default=-1)
    return [
        Candidate(
            i,
            request.ids[i],
            message.text,
            size,
            None,
            i == last or message.role in Message.SYSTEM_ROLES,
            message.role.value,
        )
        for i, (message, size) in enumerate(zip(messages, sizes_of(request, counter), strict=True))
    ]


def chunk_plans(request: Chunks, made: Fitted[Any]) -> list[ChunkPlan]:
    """What became of each message, with the reason where it left."""
    why = {number: step.why for step in made.steps for number in step.messages}
    return [
        ChunkPlan(
            i,
            name,
            WindowDecision.EVICTED if i in made.gone else WindowDecision.KEPT,
            size,
            0 if i in made.gone else size,
            (why[i],) if i in why else (),
        )
        for i, (name, size) in enumerate(zip(request.ids, made.sizes, strict=True))
    ]


def _summaries(request: Chunks, made: Fitted[Any], counter: Counts) -> list[SummaryOp]:
    """Everything that left could be told in one system message of the room that is left."""
    gone = sorted(made.gone)
    if not gone or made.budget is None:
        return []
    at_most = made.budget - made.total - _frame(made, counter)
    size = sum(made.sizes[i] for i in gone)
    if not 0 < at_most < size:
        return []
    names = tuple(request.ids[i] for i in gone)
    return [SummaryOp(names, size, at_most, names)]


def _frame(made: Fitted[Any], counter: Counts) -> int:
    """What a chat format puts around one system message more."""
    told = Message.of({"role": "system", "content": "x"})
    try:
        return sizes_of_messages(counter, [told])[0] + SLACK
    except TokenboxError:
        return made.budget or 0  # a format without system messages: nothing can be told so
