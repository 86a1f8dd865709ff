"""A list of chat messages in, what fits of it out: for code that keeps its own list of plain mappings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from tokenbox.content.exchanges import Grouping
from tokenbox.content.message import Message, Role, check_messages, check_tools
from tokenbox.conversation.counting import is_request_counter, message_sizes, text_pricing
from tokenbox.conversation.limits import limits as checked_limits
from tokenbox.conversation.limits import overflow
from tokenbox.conversation.record import Fitted, as_json, names
from tokenbox.engine.window import Limits, Step, Window
from tokenbox.errors import InvalidBudget

if TYPE_CHECKING:
    from tokenbox.conversation.counting import Count, MediaTokens, RequestCounter
    from tokenbox.conversation.low_water import LowWater
    from tokenbox.tokenizers.protocol import TokenizerIdentity

Tools = Sequence[Mapping[str, object]]


def fit(
    messages: Sequence[Any] | Iterator[Any],
    budget: int | None,
    count: Count = None,  # type: ignore[valid-type]  # an alias that is only text
    *,
    tools: Tools | None = None,
    max_turns: int | None = None,
    low_water: LowWater = 1,
    pinned: Collection[int] = (),
    media_tokens: MediaTokens = None,
) -> Fitted:
    """The messages that fit into ``budget`` tokens: the same objects, oldest exchanges evicted first.

    ``messages``: OpenAI-style mappings, :class:`Message` objects, or what an SDK returned. System and
    developer messages, pinned ones (by their places in the list) and the last user message always stay; a
    tool call stays or leaves with all its results. A result without its call leaves, and so does a call that
    was never answered, unless it is still the last thing in the list.

    ``count``: what counts (see :data:`Count`). With a :class:`~tokenbox.ChatFormat` the total is what the
    server will count; with a counter of texts, ``exact`` is False, for no markers are counted.
    ``low_water``: once over the budget, evict down to this fraction of it. Below 1 the answer follows the
    list from its beginning, so a longer list keeps the cut that was made before, and the prompt its start.
    ``"auto"`` cuts as far as pays best with a prompt cache, by what the messages show (docs/caching.md).

    Raises :class:`ContextCriticalOverflow` if what must stay does not fit, :class:`InvalidMessage`,
    :class:`InvalidBudget`, :class:`UndeclaredCost`, or a ``TokenizerError``.
    """
    limits = checked_limits(max_turns, budget, low_water)
    messages = list(messages) if isinstance(messages, Iterator) else messages
    inputs = check_messages(messages)
    check_tools(tools)
    kept_places = places(pinned, len(inputs))
    whole = is_request_counter(count)
    if whole:
        fitting: _Fitting = _WholeFitting(inputs, cast("RequestCounter", count), tools)
    else:
        fitting = _TextFitting(inputs, count, tools, media_tokens)
    steps = fitting.run(limits, kept_places, replay=limits.eagerness is not None or limits.mark != budget)
    window = fitting.window
    result = Fitted(
        messages=[messages[number] for number in window],
        evicted=[message for number, message in enumerate(messages) if number not in window],
        total=window.total,
        budget=budget,
        limits=limits,
        steps=tuple(steps),
        inputs=tuple(inputs),
        sizes_of=fitting.message_sizes,
        pinned=frozenset(kept_places),
        tokenizer=fitting.identity,
        exact=whole and fitting.is_exact(),
        tools_text=as_json(list(tools)) if tools else None,
    )
    if budget is not None and result.total > budget:
        kept = names(inputs, list(window), [result.sizes[number] for number in window])
        raise overflow(budget, result.total, kept, estimate=not fitting.identity.exact)
    return result


class _Fitting:
    """Takes the messages into a window, one after the other. Sizes add up."""

    identity: TokenizerIdentity

    def __init__(self, inputs: Sequence[Message], base: int, sizes: Sequence[int]) -> None:
        self.inputs, self.sizes = inputs, sizes
        self.window = Window(base)
        self._grouping = Grouping()

    def run(self, limits: Limits, pinned: Collection[int], *, replay: bool) -> list[Step]:
        """The steps; with ``replay`` those at the time of every request that was made, as it was made."""
        steps: list[Step] = []
        for number, message in enumerate(self.inputs):
            # An answer was asked for with what was there before it.
            if replay and message.role is Role.ASSISTANT:
                steps += self.enforce(limits)
            self._grouping.take_into(self.window, message, self.sizes[number])
            if number in pinned:
                self.window.pin(number)
        return steps + self.enforce(limits)

    def enforce(self, limits: Limits) -> list[Step]:
        return self.window.enforce(limits)

    def message_sizes(self) -> Sequence[int]:
        return self.sizes

    def is_exact(self) -> bool:
        """Whether what is left is counted as the server counts it."""
        return False


class _TextFitting(_Fitting):
    """Each message has the size of its text."""

    def __init__(
        self, inputs: Sequence[Message], count: object, tools: Tools | None, media_tokens: MediaTokens
    ) -> None:
        pricing = text_pricing(count, media_tokens)
        self.identity = pricing.identity
        super().__init__(inputs, pricing.tools(tools), pricing.sizes(inputs))


class _WholeFitting(_Fitting):
    """The whole is counted anew for every trial. What was counted before, the counter remembers."""

    def __init__(self, inputs: Sequence[Message], counter: RequestCounter, tools: Tools | None) -> None:
        self.identity = counter.identity
        self._counter, self._tools = counter, tools
        super().__init__(inputs, 0, [0] * len(inputs))

    def is_exact(self) -> bool:
        exact_for = getattr(self._counter, "exact_for", None)
        if not callable(exact_for):
            return self.identity.exact
        return bool(exact_for([self.inputs[number] for number in self.window], self._tools))

    def message_sizes(self) -> Sequence[int]:
        return message_sizes(self._counter, self.inputs)

    def enforce(self, limits: Limits) -> list[Step]:
        def total_without(gone: Collection[int]) -> int:
            here = [self.inputs[number] for number in self.window if number not in gone]
            return self._counter.count_messages(here, self._tools)

        return self.window.enforce_whole(limits, total_without)


def places(pinned: Collection[int], length: int) -> frozenset[int]:
    """Places in the list; a negative one counts from its end."""
    if not isinstance(pinned, Iterable):
        raise InvalidBudget(f"pinned is a list of places, not {pinned!r:.60}.", given=repr(pinned))
    places = frozenset(place + length if type(place) is int and place < 0 else place for place in pinned)
    wrong = [place for place in places if type(place) is not int or not 0 <= place < length]
    if wrong:
        raise InvalidBudget(
            f"pinned is a list of places in the {length} messages, and {wrong[0]!r} is none of them.",
            given=repr(wrong[0]),
        )
    return places
