"""``fit``: the messages of a list that fit a budget, for code that keeps its own list."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

from tokenbox.content.items import Item, read_items
from tokenbox.content.message import Role
from tokenbox.content.request import beside_items, shown_tools
from tokenbox.conversation.counted_window import CountedWindow
from tokenbox.conversation.counters import counter_of, tokenizer_of
from tokenbox.conversation.limits import limits as checked_limits
from tokenbox.conversation.limits import overflow
from tokenbox.conversation.pieces import MediaTokens, open_session
from tokenbox.conversation.record import Fitted, as_json, names
from tokenbox.conversation.relevance import asked
from tokenbox.engine.low_water import margin
from tokenbox.engine.steps import ALL_STEPS, KEEP_RESULTS, WindowLimits, WindowStep
from tokenbox.errors import InvalidBudget, several, shown
from tokenbox.integers import whole

if TYPE_CHECKING:
    from tokenbox.compose.requests import Counts
    from tokenbox.conversation.low_water import LowWater

T = TypeVar("T")
Tools = Sequence[Mapping[str, object]]


def fit(  # noqa: PLR0913  # each is an option of its own
    messages: Sequence[T] | Iterator[T],
    budget: int | None,
    tokenizer: Counts | None = None,
    *,
    tools: Tools | None = None,
    fields: Mapping[str, object] | None = None,
    max_turns: int | None = None,
    low_water: LowWater = 1,
    steps: Collection[str] = ALL_STEPS,
    keep_results: int = KEEP_RESULTS,
    pinned: Collection[int] = (),
    query: str | None = None,
    media_tokens: MediaTokens = None,
    markers: bool = True,
    handles: bool = False,
) -> Fitted[T]:
    """Fit messages into ``budget`` tokens as :func:`tokenbox.fit` does, which has the options and errors.

    A result without its call leaves, and so does a call that was never answered, unless it is still at the
    end of the list. With ``low_water`` below 1 the list is replayed from its beginning, so that a longer list
    keeps earlier changes, and the start of the prompt stays the same. With a ``query`` the newest messages
    get an eighth of the room, and the others compete for the rest (:mod:`tokenbox.conversation.relevance`).
    """
    limits = checked_limits(max_turns, budget, low_water, steps, keep_results)
    given = list(messages) if isinstance(messages, Iterator) else messages
    items = read_items(given)
    kept_places = places(pinned, len(items))
    counter = counter_of(tokenizer, markers=markers, media_tokens=media_tokens)
    head, every_tool, beside = beside_items(tools, fields)
    frame = head, shown_tools(every_tool)[0], beside
    question = None if query is None else asked(query, items, limits)

    def run(within: WindowLimits) -> tuple[CountedWindow, list[WindowStep]]:
        window = CountedWindow(open_session(counter), tokenizer_of(counter), handles)
        window.frame(frame)
        return window, _run(window, given, items, within, kept_places, query=question)

    window, steps_taken = run(limits)
    if question is None and _leaves_room(window, steps_taken, items, limits):
        # Whole steps end at other places than a plain reduction, so a lower mark may have kept more.
        other, other_steps = run(replace(limits, mark=limits.mark - 1))
        other_steps += other.restore(limits)
        if window.window.total < other.window.total <= limits.mark:
            window, steps_taken = other, other_steps
    counted = window.settle()
    result = Fitted(
        messages=[window.shown[number].value for number in window.window],
        evicted=[value for number, value in enumerate(given) if number not in window.window],
        count=counted,
        budget=limits.budget,
        limits=limits,
        steps=tuple(steps_taken),
        inputs=tuple(items),
        shown={number: window.shown[number].item for number in window.window},
        sizes=tuple(window.sizes[number] for number in range(len(items))),
        sizes_now={number: window.window.size(number) for number in window.window},
        pinned=frozenset(kept_places),
        query=question,
        tokenizer=counter.identity,
        left_out=window.left_out,
        tools_text=as_json(list(tools)) if tools else None,
    )
    if limits.budget is not None and counted.total > limits.budget:
        kept, least = window.least(limits)
        raise overflow(limits.budget, least, names(items, kept), estimate=not counted.exact)
    return cast("Fitted[T]", result)


def _run(
    window: CountedWindow,
    given: Sequence[object],
    items: Sequence[Item],
    limits: WindowLimits,
    pinned: Collection[int],
    *,
    query: str | None,
) -> list[WindowStep]:
    """Enforce the limits and return the steps; with a low-water mark, replay every request of the list."""
    replay = limits.eagerness is not None or limits.mark != limits.budget
    steps: list[WindowStep] = []
    before: Item | None = None
    for number, (value, item) in enumerate(zip(given, items, strict=True)):
        # An answer, of one item or several, was requested with the messages before it.
        if replay and item.role is Role.ASSISTANT and not _continues(before, item):
            steps += window.enforce(limits)
        before = item
        window.add(value, item)
        if number in pinned:
            window.window.pin(number)
    if query is not None and limits.budget is not None:
        steps += window.answer(query, limits.budget)
    return steps + window.enforce(limits)


def _continues(before: Item | None, item: Item) -> bool:
    """Return True if an assistant's item is of the same answer as the item before it."""
    return before is not None and before.role is Role.ASSISTANT and (before.joins or item.joins)


def _leaves_room(
    window: CountedWindow, taken: Sequence[WindowStep], items: Sequence[Item], limits: WindowLimits
) -> bool:
    """Return True if more than the usual margin is unused and results could be reduced in another order."""
    budget = limits.budget
    if not taken or not budget or limits.eagerness is not None or limits.mark != budget:
        return False
    return window.window.total < budget - margin(budget) and any(item.results for item in items)


def places(pinned: Collection[int], length: int) -> frozenset[int]:
    """Return validated places in the list; a negative one counts from its end."""
    numbers = several(pinned)
    if numbers is None:
        raise InvalidBudget(f"pinned is a list of places, not {shown(pinned):.60}.", given=shown(pinned))
    found = set()
    for given in numbers:
        place = whole(given)
        if place is None or not -length <= place < length:
            raise InvalidBudget(
                f"pinned: {shown(given)} is not a place in the list of messages, whose length is {length:,}.",
                given=shown(given),
            )
        found.add(place % length)
    return frozenset(found)
