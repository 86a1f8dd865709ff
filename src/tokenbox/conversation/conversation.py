"""A running conversation that counts what it sends and evicts messages to stay within its limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from html import escape
from types import FunctionType
from typing import TYPE_CHECKING, Any, Self, cast

from tokenbox.compose.selection import check_query
from tokenbox.content.items import Item, read_item, read_items
from tokenbox.content.message import InvalidMessage, Message, Role
from tokenbox.content.request import beside_items, shown_tools
from tokenbox.conversation.counted_window import CountedWindow, Frame
from tokenbox.conversation.counters import counter_of, tokenizer_of
from tokenbox.conversation.limits import BESIDE, limits, overflow
from tokenbox.conversation.pieces import MediaTokens, open_session
from tokenbox.conversation.record import Enforced, expanded
from tokenbox.conversation.relevance import asked
from tokenbox.conversation.status import ContextItem, Evicted, Status, Summarize, without_excess
from tokenbox.engine.steps import ALL_STEPS, KEEP_RESULTS, WindowAction, WindowLimits, WindowStep
from tokenbox.errors import InvalidContent, TokenboxError, plural, shown
from tokenbox.integers import whole
from tokenbox.render.html import Pictured, in_words

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count, Counts, RequestCounter
    from tokenbox.conversation.low_water import LowWater
    from tokenbox.conversation.result_forms import ShownItem
    from tokenbox.tokenizers.protocol import TokenizerIdentity

SUMMARY_HEADING = "Summary of the earlier conversation:"


class Conversation(Pictured):
    """A system prompt and a window of messages, within ``max_turns`` exchanges and ``token_budget`` tokens.

    Messages are of any API or library (:mod:`tokenbox.content.items`). ``model``: counts with this model's
    chat format. ``count``: a tokenizer or a chat format (:data:`~tokenbox.compose.requests.Counts`) to use
    instead. Both can be set at any time. Each message is counted once, and all are counted again when the
    counter's ``identity`` changes. A bare function has no identity, so it counts the system prompt on each
    use to detect a change. :meth:`recount` forces a recount.

    ``steps`` and ``keep_results``: the ways to reduce the window, as for :func:`tokenbox.fit`. ``query``: a
    text, or ``"last"``; each request then holds the parts of the entire history that match it best, and
    evicted parts return when they match. ``low_water``: once over the budget, reduce to about this fraction
    of it, so that the start of the prompt stays the same for many calls; ``"auto"`` or an ``AutoLowWater``
    chooses it. ``summarize``: called with evicted messages; see :data:`Summarize`. ``tools`` and ``fields``
    are sent with each request. ``keep``: called with the handle and the full text of each shortened result,
    to store it beyond the process.

    Not thread-safe. An error from counting leaves the conversation unchanged.
    """

    def __init__(  # noqa: PLR0913  # keyword options
        self,
        system: str = "",
        count: Counts | None = None,
        max_turns: int | None = None,
        token_budget: int | None = None,
        *,
        model: str | None = None,
        low_water: LowWater = 1,
        steps: Collection[str] = ALL_STEPS,
        keep_results: int = KEEP_RESULTS,
        query: str | None = None,
        summarize: Summarize | None = None,
        tools: Sequence[object] | None = None,
        fields: Mapping[str, object] | None = None,
        media_tokens: MediaTokens = None,
        markers: bool = True,
        handles: bool = False,
        keep: Callable[[str, str], object] | None = None,
    ) -> None:
        check_query(query)
        for name, callback in (("summarize", summarize), ("keep", keep)):
            if not (callback is None or callable(callback)):
                raise InvalidContent(f"{name} is a function, not {shown(callback):.60}.")
        self.count: Counts | None = count
        self.model = model
        self.max_turns, self.token_budget, self.low_water = max_turns, token_budget, low_water
        self.steps, self.keep_results, self.query = steps, keep_results, query
        self.summarize, self.keep = summarize, keep
        self.media_tokens, self.markers, self._handles = media_tokens, markers, handles
        self._found: tuple[tuple[object, ...], RequestCounter] | None = None
        self._bounds()
        self._system, self._summary = "", ""
        self._given_fields = fields
        self.system, self.tools = system, tools
        self._empty()
        self._evictions = self._evicted_messages = self._evicted_tokens = self._failures = 0
        self._last_failure: str | None = None

    def _empty(self) -> None:
        self._window = self._new_window()
        self._counted_by: object = None
        self._framed: object = None
        self._left_out_kept = 0
        self._pinned: set[int] = set()
        self._away: dict[int, ShownItem] = {}
        self._exchange_of: dict[int, int] = {}
        self._exchanges_so_far = 0

    @property
    def system(self) -> str:
        """The system prompt without the summary. It can be set at any time."""
        return self._system

    @system.setter
    def system(self, text: str) -> None:
        self._system = Message.of({"role": "system", "content": text}).text

    @property
    def summary(self) -> str:
        """The summary block of the system prompt, empty by default. It can be set at any time."""
        return self._summary

    @summary.setter
    def summary(self, text: str) -> None:
        self._summary = Message.of({"role": "system", "content": text}).text

    @property
    def tools(self) -> Sequence[Any] | None:
        """Schemas or tool objects that are sent with each request. They can be set at any time."""
        return self._tools

    @tools.setter
    def tools(self, tools: Sequence[Any] | None) -> None:
        self._given_head, every_tool, self._fields = beside_items(tools, self._given_fields)
        self._read_tools = shown_tools(every_tool)[0]
        self._tools = tools

    @property
    def system_prompt(self) -> str:
        """The system message that is sent: the system prompt and the summary block."""
        if not self._summary:
            return self._system
        block = f"{SUMMARY_HEADING}\n{self._summary}"
        return f"{self._system}\n\n{block}" if self._system else block

    @property
    def messages(self) -> list[Any]:
        """The messages to send, in the chat completions shape: the system message, if any, and the window."""
        items = (*self._head(), *self.window.values())
        return [message.to_dict(declared=False) for item in items for message in item.messages]

    @property
    def values(self) -> list[Any]:
        """The window as the caller's own objects, with copies of shortened results."""
        return [shown.value for shown in self._window.shown.values()]

    @property
    def window(self) -> dict[int, Item]:
        """The items of the window by their numbers, in order, as they are shown."""
        return {number: shown.item for number, shown in self._window.shown.items()}

    def add(self, message: object, *, pinned: bool = False) -> int:
        """Add a message and return its permanent number. Raises :class:`InvalidMessage`."""
        item = read_item(message)
        number = self._window.add(message, item)
        self._exchanges_so_far += item.role is Role.USER and not item.results
        self._exchange_of[number] = self._exchanges_so_far
        if pinned:
            self.pin(number)
        return number

    def extend(self, messages: Iterable[object]) -> list[int]:
        """Add all messages and return their numbers; add none if one is invalid."""
        given: Any = messages
        if isinstance(given, Iterator):
            given = list(given)
        read_items(given)
        return list(map(self.add, given))

    def user(self, text: str) -> int:
        return self.add({"role": "user", "content": text})

    def assistant(self, text: str) -> int:
        return self.add({"role": "assistant", "content": text})

    def pin(self, number: int) -> None:
        """Protect a message, and the messages that belong to it, from eviction."""
        self._check(number)
        if number not in self._pinned:
            self._pinned.add(number)
            self._window.window.pin(number)

    def unpin(self, number: int) -> None:
        self._check(number)
        if number in self._pinned:
            self._pinned.discard(number)
            self._window.window.unpin(number)

    def drop(self, number: int) -> tuple[int, ...]:
        """Remove a message, with the results of its tool calls or its call. Return the removed numbers."""
        self._check(number)
        dropped = self._window.drop(number)
        self._forget(dropped)
        return dropped

    def _bring_back(self) -> None:
        """Put evicted messages back in their places, so that they compete again for the query's budget."""
        if not self._away:
            return
        before, window = self._window, self._new_window()
        for number, given in sorted({**self._away, **before.given}.items()):
            window.window.next_number = number
            window.add(given.value, given.item)
            if number in self._pinned:
                window.window.pin(number)
        window.window.next_number = before.window.next_number
        window.left_out = before.left_out
        window.frame(self._frame())
        self._counted_by, self._framed = self._counter_key(), (self.system_prompt, self._tools)
        self._window, self._away = window, {}

    @property
    def left_out(self) -> Mapping[str, str]:
        """The full texts of results that are or were shortened, by their handles."""
        return self._window.left_out

    def expand(self, handle: str) -> str:
        """Return the full text of the result with this handle or a prefix of it.

        Raises :class:`~tokenbox.conversation.record.UnknownHandle`.
        """
        return expanded(self._window.left_out, handle)

    def reset(self) -> None:
        """Remove all messages and the summary. The system prompt, options and eviction figures stay."""
        self._empty()
        self.summary = ""

    def recount(self) -> None:
        """Count everything again on the next use, because the rules of ``count`` have changed."""
        self._counted_by = self._found = None

    def request_count(self) -> Count:
        """Return the count of the next request: system prompt, summary, tools and window.

        A message is counted on the first call after it was added, and not again.
        """
        key, frame = self._counter_key(), (self.system_prompt, self._tools)
        if key != self._counted_by:
            counter = self._counter()
            self._window.count_with(open_session(counter), tokenizer_of(counter), self._frame())
            self._counted_by, self._framed = key, frame
        elif frame != self._framed:
            self._window.frame(self._frame())
            self._framed = frame
        return self._window.settle()

    def estimate_tokens(self) -> int:
        """Return the total of :meth:`request_count`."""
        return self.request_count().total

    @property
    def identity(self) -> TokenizerIdentity:
        """The identity of the present counter."""
        return self._counter().identity

    @property
    def exact(self) -> bool:
        """True if the figures are proven to equal the server's own; otherwise they are shown with ``~``."""
        return self.request_count().exact

    @property
    def status(self) -> Status:
        count = self.request_count()
        return Status(
            tokens=count.total,
            token_budget=self.token_budget,
            max_turns=self.max_turns,
            exchanges=self._window.window.exchanges,
            messages=len(self._window.shown),
            evictions=self._evictions,
            evicted_messages=self._evicted_messages,
            evicted_tokens=self._evicted_tokens,
            summary_failures=self._failures,
            last_failure=self._last_failure,
            exact=count.exact,
        )

    def enforce_budget(self) -> Enforced:
        """Shorten and evict until both limits are met. Does not raise if that is impossible.

        The result lists the changes and their reasons. If the required messages alone are over the budget, it
        has the error (``overflow``), and nothing was changed because of the budget.
        """
        bounds = self._bounds()
        if self.query is not None:
            self._bring_back()
        self.request_count()
        evicted: dict[int, ShownItem] = {}
        steps = self._evict(bounds, evicted)
        summary, failure = None, None
        if evicted and self.summarize is not None:
            summary, failure = self._summarize(bounds, evicted, steps)
            if failure is not None:  # a failed callback may have changed the conversation
                self.request_count()
                steps += self._evict(bounds, evicted)
        count, budget = self.request_count(), self.token_budget
        return Enforced(
            evicted=tuple(given.value for given in evicted.values()),
            evicted_items=tuple(given.item for given in evicted.values()),
            steps=tuple(steps),
            count=count,
            budget=budget,
            summary=summary,
            failure=failure,
            overflow=None if budget is None or count.total <= budget else self._overflow(count, budget),
        )

    def items(self) -> tuple[ContextItem, ...]:
        """Return every part of the request with its tokens, which add up to ``estimate_tokens()``.

        By a chat template, the tokens of each part are estimates: they depend on the other parts.
        """
        total, session = self.estimate_tokens(), self._window.session
        items = [ContextItem("system", session.cost(item), text=item.text) for item in self._head()]
        items += [
            ContextItem(
                shown.item.role.value,
                self._window.window.size(number),
                number,
                self._exchanges_so_far - self._exchange_of[number],
                number in self._pinned,
                shown.item.text,
            )
            for number, shown in self._window.shown.items()
        ]
        rest = total - sum(item.tokens for item in items)
        if rest < 0:  # each was counted by itself, with the template's own system prompt
            items, rest = list(without_excess(items, -rest)), 0
        return (*items, ContextItem(BESIDE, rest)) if rest else tuple(items)

    def __copy__(self) -> Self:
        """Return a branch that goes its own way, with the same message objects."""
        given = (*self._window.given.values(), *self._window.shown.values(), *self._away.values())
        return deepcopy(self, {id(shown.value): shown.value for shown in given})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a branch that goes its own way, with copies of the message objects."""
        # The functions stay the same: they may be methods of a client, whose locks cannot be copied.
        functions = self.count, *filter(callable, (self.summarize, self.keep, self.media_tokens))
        memo |= {id(function): function for function in functions}
        branch = memo[id(self)] = object.__new__(type(self))
        branch.__setstate__(deepcopy(self.__getstate__(), memo))
        return branch

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the running count, which refers to the messages of this conversation."""
        return {**self.__dict__, "_found": None, "_window": self._window.uncounted()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        counter = self._counter()
        self._window.resume(open_session(counter), tokenizer_of(counter), self._frame())

    def __repr__(self) -> str:
        """Describe the next request. Never raises, because debuggers call it."""
        names = [shown.item.role.value for shown in self._window.shown.values()]
        try:
            count = self.request_count()
            by = self.identity.name
        except TokenboxError as error:
            return f"<Conversation: {plural(len(names), 'message')}, not counted: {error.message}>"
        return in_words("Conversation", count.total, self.token_budget, by, names, exact=count.exact)

    def _repr_html_(self) -> str:
        """Return a small picture for notebooks, or the ``repr`` if counting fails."""
        try:
            return super()._repr_html_()
        except TokenboxError:
            return f"<pre>{escape(repr(self))}</pre>"

    def _evict(self, bounds: WindowLimits, evicted: dict[int, ShownItem]) -> list[WindowStep]:
        """Enforce the limits once and add the evicted items to ``evicted``."""
        before = self._window.window.total
        steps, gone = self._evict_by_query(bounds)
        steps += self._window.enforce(bounds)
        gone |= self._window.evicted
        if self.query is not None:
            self._away |= gone
        evicted.update(gone)
        self._forget(gone)
        self._keep_left_out()
        self._evictions += sum(step.action is WindowAction.EVICT for step in steps)
        self._evicted_messages += len(gone)
        self._evicted_tokens += max(0, before - self._window.window.total) if gone else 0
        return steps

    def _evict_by_query(self, bounds: WindowLimits) -> tuple[list[WindowStep], dict[int, ShownItem]]:
        """Evict the parts that match the query least. Return the steps and the evicted items."""
        if self.query is None:
            return [], {}
        given = dict(self._window.given)
        question = asked(self.query, [shown.item for shown in given.values()], bounds)
        if question is None or bounds.budget is None:
            return [], {}
        steps = self._window.answer(question, bounds.budget)
        return steps, {number: shown for number, shown in given.items() if number not in self._window.given}

    def _keep_left_out(self) -> None:
        """Pass the texts left out since the last call to the caller's store."""
        known = self._window.left_out
        if self.keep is not None:
            for handle in list(known)[self._left_out_kept :]:
                self.keep(handle, known[handle])
        self._left_out_kept = len(known)

    def _summarize(
        self, bounds: WindowLimits, evicted: dict[int, ShownItem], steps: list[WindowStep]
    ) -> tuple[str | None, str | None]:
        """Return the new summary, or the reason why nothing was summarized.

        Messages evicted to make room for the summary are summarized, too.
        """
        before = latest = fitting = self._summary
        summarized, next_number = 0, self._window.window.next_number
        while summarized < len(evicted):
            left = tuple(given.item for given in evicted.values())
            try:
                given = cast("Summarize", self.summarize)(Evicted(left[summarized:], latest))
                latest = latest if given is None else Message.of({"role": "system", "content": given}).text
                self.summary = latest
                self.request_count()
                over = 0 if bounds.budget is None else self._window.window.must_stay() - bounds.budget
            except Exception as error:  # noqa: BLE001  # the user's callback; the failure is reported
                return self._no_summary(fitting, f"{type(error).__name__}: {error}")
            if self._window.window.next_number != next_number:  # else this loop might not end
                return self._no_summary(fitting, "summarize has added messages; let it return a text")
            if latest != fitting and over > 0:  # it does not fit even after evicting everything else
                return self._no_summary(fitting, f"the summary is {plural(over, 'token')} too long")
            summarized, fitting = len(evicted), latest
            steps += self._evict(bounds, evicted)
        return (None if latest == before else latest), None

    def _no_summary(self, so_far: str, why: str) -> tuple[None, str]:
        self.summary = so_far
        self.request_count()
        self._failures += 1
        self._last_failure = why
        return None, why

    def _counter(self) -> RequestCounter:
        """Return the counter of ``model`` or ``count``, found once for each value of them."""
        given = self.count, self.model, self.markers, self.media_tokens
        if self._found is None or any(new is not old for new, old in zip(given, self._found[0], strict=True)):
            found = counter_of(self.count, self.model, markers=self.markers, media_tokens=self.media_tokens)
            self._found = given, found
        return self._found[1]

    def _new_window(self) -> CountedWindow:
        counter = self._counter()
        return CountedWindow(open_session(counter), tokenizer_of(counter), self._handles)

    def _counter_key(self) -> object:
        """Return a key that changes with the counter; for a bare function, one of its counts stands in."""
        counter = self._counter()
        if isinstance(self.count, FunctionType):
            return self.count, self.model, self.media_tokens, tokenizer_of(counter).count(self.system_prompt)
        return counter.identity, self.media_tokens, self.markers

    def _head(self) -> list[Item]:
        """Return the item of the system prompt, if there is one."""
        prompt = self.system_prompt
        return [Item((Message.of({"role": "system", "content": prompt}),))] if prompt else []

    def _frame(self) -> Frame:
        return (*self._given_head, *self._head()), self._read_tools, self._fields

    def _bounds(self) -> WindowLimits:
        if isinstance(self.steps, Iterator):  # they are read many times
            self.steps = tuple(self.steps)
        return limits(self.max_turns, self.token_budget, self.low_water, self.steps, self.keep_results)

    def _overflow(self, count: Count, budget: int) -> Any:  # noqa: ANN401  # the error
        kept, least = self._window.least(self._bounds())
        shown, cost = self._window.shown, self._window.session.cost
        named = [(f"message {number} ({shown[number].item.role.value})", kept[number]) for number in kept]
        named += [("system prompt", cost(item)) for item in self._head()]
        return overflow(budget, max(least, budget + 1), named, estimate=not count.exact)

    def _forget(self, numbers: Collection[int]) -> None:
        for number in numbers:
            self._window.sizes.pop(number, None)
            self._pinned.discard(number)
            if number not in self._away:
                del self._exchange_of[number]

    def _check(self, number: int) -> None:
        if whole(number) is None or number not in self._window.shown:
            raise InvalidMessage(f"there is no message {shown(number)} in this conversation.")
