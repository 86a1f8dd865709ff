"""Chat messages as a request: counted by their texts, or whole by a chat format; packed by the window."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from tokenbox.content.message import Message, Role
from tokenbox.conversation.counting import is_request_counter, message_sizes, text_pricing
from tokenbox.conversation.fit import fit
from tokenbox.conversation.record import WindowDecision
from tokenbox.errors import TokenboxError
from tokenbox.policy.counted import COUNTS
from tokenbox.policy.errors import InvalidChunks, StrategyFailed
from tokenbox.policy.records import ChunkPlan, SummaryOp
from tokenbox.policy.strategies import Candidate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.conversation.counting import RequestCounter
    from tokenbox.conversation.record import Fitted
    from tokenbox.policy.chunks import Request
    from tokenbox.tokenizers.protocol import Tokenizer

    Counts = Tokenizer | RequestCounter

# Tokens by which a message may count more among others than measured alone.
SLACK: Final = 4


def counts_requests(counter: Counts) -> TypeGuard[RequestCounter]:
    """Whether it counts requests whole, markers and tools and all, as the server will."""
    return is_request_counter(counter)


def text_counter(counter: Counts) -> Tokenizer:
    """The counter, if it counts texts. Raises :class:`InvalidChunks` for one of chat requests."""
    if counts_requests(counter):
        raise InvalidChunks(
            "a chat format counts messages, not texts or blocks. Give messages, or a tokenizer."
        )
    return cast("Tokenizer", counter)


def is_exact(request: Request, counter: Counts) -> bool:
    """Whether the count of the request is what the server will count.

    Of messages only a chat format knows that: a tokenizer does not know their markers.
    """
    if request.kind.value != "messages" or not counter.identity.exact:
        return counter.identity.exact
    exact_for = getattr(counter, "exact_for", None)
    if callable(exact_for):
        return bool(exact_for(request.items, request.tools or None))
    return counts_requests(counter)


def sizes_of(request: Request, counter: Counts) -> list[int]:
    """What each message counts alone."""
    messages = request.items
    if counts_requests(counter):
        return message_sizes(counter, messages)
    if any(message.media for message in messages):
        return text_pricing(counter, None).sizes(messages)
    return COUNTS.each(text_counter(counter), [message.counted_text for message in messages])


def total_of(request: Request, counter: Counts) -> int:
    """What the request counts: by a chat format as a whole, by a tokenizer the sum of its texts and tools."""
    if counts_requests(counter):
        return counter.count_messages(request.items, request.tools or None)
    total = sum(sizes_of(request, counter))
    if request.tools:
        total += COUNTS.each(text_counter(counter), [tools_text(request)])[0]
    return total


def windowed(
    request: Request, budget: int, counter: Counts
) -> tuple[Fitted, list[ChunkPlan], list[SummaryOp]]:
    """The strategy ``window``: whole exchanges leave, the oldest first."""
    made = fit(request.items, budget, counter, tools=request.tools or None)
    return made, chunk_plans(request, made), _summaries(request, made, counter)


def chosen(
    request: Request, indices: Sequence[int], name: str, counter: Counts
) -> tuple[Fitted, list[ChunkPlan]]:
    """What a user's strategy chose. Raises :class:`StrategyFailed` if that parts a call from its result."""
    selected = [request.items[i] for i in indices]
    made = fit(selected, None, counter, tools=request.tools or None)
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


def candidates_of(request: Request, counter: Counts) -> list[Candidate]:
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


def chunk_plans(request: Request, made: Fitted) -> list[ChunkPlan]:
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


def emitted(messages: Sequence[Any]) -> str:
    """The messages that would be sent, as JSON."""
    return json.dumps(
        [Message.of(message).to_dict(declared=False) for message in messages],
        ensure_ascii=False,
        separators=(",", ":"),
    )


def message_text(message: Message) -> str:
    """The message as it was given, as JSON: what a proof with texts keeps of it."""
    return json.dumps(message.to_dict(), ensure_ascii=False, separators=(",", ":"))


def _summaries(request: Request, made: Fitted, counter: Counts) -> list[SummaryOp]:
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


def _frame(made: Fitted, counter: Counts) -> int:
    """What a chat format puts around one system message more."""
    if not counts_requests(counter):
        return 0
    told = Message.of({"role": "system", "content": "x"})
    try:
        return message_sizes(counter, [told])[0] + SLACK
    except TokenboxError:
        return made.budget or 0  # a format without system messages: nothing can be told so


def tools_text(request: Request) -> str:
    """The schemas of the tools as JSON."""
    return json.dumps([dict(tool) for tool in request.tools], ensure_ascii=False)
