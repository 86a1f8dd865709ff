"""A running conversation that knows what it sends, to the token, and evicts at the right moment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from tokenbox.content.items import Item, read_item
from tokenbox.content.message import InvalidMessage, Message, Role
from tokenbox.content.request import costly_fields, read_tools
from tokenbox.conversation.counted_window import CountedWindow, ShownItem
from tokenbox.conversation.counters import counter_of, tokenizer_of
from tokenbox.conversation.limits import limits, overflow
from tokenbox.conversation.pieces import open_session
from tokenbox.conversation.record import Enforced, expanded
from tokenbox.engine.window import ALL_STEPS, KEEP_RESULTS, WindowAction, WindowLimits, WindowStep
from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count, RequestCounter, RunningCount
    from tokenbox.conversation.counters import Counts
    from tokenbox.conversation.low_water import LowWater
    from tokenbox.conversation.pieces import MediaTokens
    from tokenbox.tokenizers.protocol import TokenizerIdentity

BESIDE = "tools and markers"
SUMMARY_HEADING = "Summary of the earlier conversation:"


@dataclass(frozen=True, slots=True)
class Evicted:
    """What a ``summarize`` callback gets: what left, oldest first, and the summary there is so far."""

    items: tuple[Item, ...]
    summary: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages that left, in the shape of chat completions."""
        return tuple(message for item in self.items for message in item.messages)

    @property
    def text(self) -> str:
        """What left as lines of ``role: text``."""
        return "\n".join(f"{message.role.value}: {message.counted_text}" for message in self.messages)


Summarize = Callable[[Evicted], str | None]
"""Returns the new summary, which takes the place of the one so far, or None to leave that as it is."""


@dataclass(frozen=True, slots=True)
class Status:
    """Figures of a conversation. ``evictions``: how often something left; then how much that was."""

    tokens: int
    token_budget: int | None
    max_turns: int | None
    exchanges: int
    messages: int
    evictions: int
    evicted_messages: int
    evicted_tokens: int
    summary_failures: int
    last_failure: str | None
    exact: bool

    def to_dict(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class ContextItem:
    """One thing that is sent. ``number`` is None for what is not a message: tools, and what primes the reply.

    ``age`` is in exchanges: 0 for the present one.
    """

    name: str
    tokens: int
    number: int | None = None
    age: int = 0
    pinned: bool = False
    text: str = field(default="", repr=False)


class Conversation:
    """A system prompt and a window of messages, within ``max_turns`` exchanges and ``token_budget`` tokens.

    Messages are of any API or library (:mod:`tokenbox.content.items`). ``count``: what counts
    (:data:`~tokenbox.conversation.counters.Counts`), looked up at every use, so that it follows a switch of
    models. A message is counted once in its life. If ``count`` says who it is (``identity``) and that
    changes, all is counted again. Of a bare function the system prompt is counted at each use: if that count
    changes, so has the model. :meth:`recount` asks for it.

    ``steps`` and ``keep_results`` say what may be done once it is over the budget, as for
    :func:`tokenbox.fit`. ``query``: a text, or ``"last"``; each request then holds what it needs of all that
    was ever said, and what left comes back when it is needed. ``low_water``: once over the budget, go down to
    about this fraction of it, so that the prompt keeps its beginning for many calls; ``"auto"`` or an
    ``AutoLowWater`` chooses it. ``summarize``: called with what left; see :data:`Summarize`. ``tools`` and
    ``fields`` are sent along. ``keep``: called with the handle and the text of each result of which a shorter
    form is shown, so that it outlives the process.

    Not thread-safe. An error from counting leaves it as it was.
    """

    def __init__(  # noqa: PLR0913  # keyword options
        self,
        system: str = "",
        count: Counts = None,
        max_turns: int | None = None,
        token_budget: int | None = None,
        *,
        low_water: LowWater = 1,
        steps: Collection[str] = ALL_STEPS,
        keep_results: int = KEEP_RESULTS,
        query: str | None = None,
        summarize: Summarize | None = None,
        tools: Sequence[Mapping[str, object]] | None = None,
        fields: Mapping[str, object] | None = None,
        media_tokens: MediaTokens = None,
        markers: bool = True,
        handles: bool = False,
        keep: Callable[[str, str], object] | None = None,
    ) -> None:
        self.count: Counts = count
        self.max_turns, self.token_budget, self.low_water = max_turns, token_budget, low_water
        self.steps, self.keep_results, self.query = steps, keep_results, query
        self.summarize, self.keep = summarize, keep
        self.media_tokens, self.markers, self._handles = media_tokens, markers, handles
        self._limits = WindowLimits(None, None, 0)
        self._limits_of: object = None
        self._bounds()
        self._system, self._summary = "", ""
        self._fields = costly_fields(fields or {})
        self.system, self.tools = system, tools
        self._empty()
        self._evictions = self._evicted_messages = self._evicted_tokens = self._failures = 0
        self._last_failure: str | None = None

    def _empty(self) -> None:
        counter = self._counter()
        self._window = CountedWindow(open_session(counter), tokenizer_of(counter), self._handles)
        self._who: object = None
        self._framed: object = None
        self._left_out_kept = 0
        self._pinned: set[int] = set()
        self._away: dict[int, ShownItem] = {}
        self._exchange_of: dict[int, int] = {}
        self._exchanges_so_far = 0

    @property
    def system(self) -> str:
        """The system prompt, without the summary. It may be set at any time."""
        return self._system

    @system.setter
    def system(self, text: str) -> None:
        self._system = Message.of({"role": "system", "content": text}).text

    @property
    def summary(self) -> str:
        """The summary block of the system prompt, empty if there is none. It may be set at any time."""
        return self._summary

    @summary.setter
    def summary(self, text: str) -> None:
        self._summary = Message.of({"role": "system", "content": text}).text

    @property
    def tools(self) -> Sequence[Mapping[str, object]] | None:
        return self._tools

    @tools.setter
    def tools(self, tools: Sequence[Mapping[str, object]] | None) -> None:
        self._read_tools = read_tools(tools)[0]
        self._tools = tools

    @property
    def system_prompt(self) -> str:
        """What is sent as the system message: the system prompt and the summary block."""
        if not self._summary:
            return self._system
        block = f"{SUMMARY_HEADING}\n{self._summary}"
        return f"{self._system}\n\n{block}" if self._system else block

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What is sent, in the shape of chat completions: the system message, if any, and the window."""
        return [message.to_dict(declared=False) for message in self._sent()]

    @property
    def values(self) -> list[Any]:
        """The window as it was given: the caller's own objects, and copies of results shown shorter."""
        return [shown.value for shown in self._window.shown.values()]

    @property
    def window(self) -> dict[int, Item]:
        """The items of the window by their numbers, in order, as they are shown."""
        return {number: shown.item for number, shown in self._window.shown.items()}

    def add(self, message: object, *, pinned: bool = False) -> int:
        """Take in a message: its number, which stays its own. Raises :class:`InvalidMessage`."""
        item = read_item(message)
        number = self._window.add(message, item)
        self._exchanges_so_far += item.role is Role.USER and not item.results
        self._exchange_of[number] = self._exchanges_so_far
        if pinned:
            self.pin(number)
        return number

    def extend(self, messages: Sequence[object]) -> list[int]:
        """``add`` for each of them; none is taken in if one is refused."""
        for message in messages:
            read_item(message)
        return [self.add(message) for message in messages]

    def user(self, text: str) -> int:
        return self.add({"role": "user", "content": text})

    def assistant(self, text: str) -> int:
        return self.add({"role": "assistant", "content": text})

    def pin(self, number: int) -> None:
        """This message, and what belongs to it, is never evicted."""
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
        """Take a message out, with its tool calls' results or its call: the numbers that left."""
        self._check(number)
        dropped = self._window.drop(number)
        self._forget(dropped)
        return dropped

    def _bring_back(self) -> None:
        """With a query, what left stands in its place again, until it is known what this request needs."""
        if not self._away:
            return
        counter, before = self._counter(), self._window
        window = CountedWindow(open_session(counter), tokenizer_of(counter), self._handles)
        for number, shown in sorted({**self._away, **before.given}.items()):
            window.window.next_number = number
            window.add(shown.value, shown.item)
            if number in self._pinned:
                window.window.pin(number)
        window.window.next_number = before.window.next_number
        window.left_out = before.left_out
        self._frame(window.session)
        self._who, self._framed = self._identity(counter), (self.system_prompt, self._tools)
        self._window, self._away = window, {}

    @property
    def left_out(self) -> Mapping[str, str]:
        """The texts of results of which a shorter form is shown, or was, by their handles."""
        return self._window.left_out

    def expand(self, handle: str) -> str:
        """What was left out of the result with this handle, or a beginning of it.

        Raises :class:`~tokenbox.conversation.record.UnknownHandle`.
        """
        return expanded(self._window.left_out, handle)

    def reset(self) -> None:
        """Forget all messages and the summary. The system prompt, options and figures of the past stay."""
        self._empty()
        self.summary = ""

    def recount(self) -> None:
        """Count everything again at the next use: what ``count`` counts by has changed."""
        self._who = None

    def request_count(self) -> Count:
        """The count of the next request: system prompt, summary, tools and window.

        A message is counted on the first call after it was added, and not again.
        """
        counter = self._counter()
        who = self._identity(counter)
        frame = self.system_prompt, self._tools
        if who != self._who:
            session = open_session(counter)
            self._frame(session)
            self._window.count_with(session, tokenizer_of(counter))
            self._who, self._framed = who, frame
        elif frame != self._framed:
            self._frame(self._window.session)
            self._framed = frame
        return self._window.settle()

    def estimate_tokens(self) -> int:
        """The total of :meth:`request_count`."""
        return self.request_count().total

    @property
    def identity(self) -> TokenizerIdentity:
        """Who counts now."""
        return self._counter().identity

    @property
    def exact(self) -> bool:
        """Whether the figures are proven to be the server's own. Otherwise they are shown with ``~``."""
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
        """Shorten and evict until both limits hold; never raises for what does not fit.

        The result says what changed and why, and has the error (``overflow``) where what must stay is over
        the budget: then nothing changed for the budget's sake.
        """
        bounds = self._bounds()
        if self.query is not None:
            self._bring_back()
        self.request_count()
        evicted: dict[int, tuple[Any, Item]] = {}
        steps = self._evict(bounds, evicted)
        summary, failure = None, None
        if evicted and self.summarize is not None:
            summary, failure = self._summarize(bounds, evicted, steps)
            if failure is not None:  # a callback that failed may have changed things before
                self.request_count()
                steps += self._evict(bounds, evicted)
        count, budget = self.request_count(), self.token_budget
        return Enforced(
            evicted=tuple(value for value, _ in evicted.values()),
            evicted_items=tuple(item for _, item in evicted.values()),
            steps=tuple(steps),
            count=count,
            budget=budget,
            summary=summary,
            failure=failure,
            overflow=None if budget is None or count.total <= budget else self._overflow(count, budget),
        )

    def items(self) -> tuple[ContextItem, ...]:
        """Everything that is sent, each with its tokens; they add up to ``estimate_tokens()``."""
        total, session = self.estimate_tokens(), self._window.session
        prompt = self.system_prompt
        items = [ContextItem("system", session.cost(_system_item(prompt)), text=prompt)] if prompt else []
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
        return (*items, ContextItem(BESIDE, rest)) if rest else tuple(items)

    def __repr__(self) -> str:
        """What the next request holds and counts. It never raises: a debugger asks too."""
        from tokenbox.render.html import in_words  # noqa: PLC0415  # only who looks needs it

        names = [shown.item.role.value for shown in self._window.shown.values()]
        try:
            count = self.request_count()
            by = self.identity.name
        except TokenboxError as error:
            return f"<Conversation: {len(names):,} messages, not counted: {error.message}>"
        return in_words("Conversation", count.total, self.token_budget, by, names, exact=count.exact)

    def _repr_html_(self) -> str:
        """A small picture, for notebooks; the words of ``repr`` where nothing can be counted."""
        from tokenbox.render.html import FigureRow, figure  # noqa: PLC0415  # only who looks needs it

        try:
            found = self.items()
        except TokenboxError:
            return f"<pre>{escape(repr(self))}</pre>"
        rows = [
            FigureRow(
                item.name if item.number is None else f"{item.number + 1} {item.name}",
                "pinned" if item.pinned else "beside" if item.name == BESIDE else "kept",
                None,
                item.tokens,
            )
            for item in found
        ]
        status = self.status
        left = f"{status.evicted_messages:,} messages have left so far." if status.evicted_messages else ""
        return figure(
            f"Conversation · {self.identity.name}",
            rows,
            total=status.tokens,
            budget=self.token_budget,
            exact=status.exact,
            notes=[left] if left else [],
        )

    def _evict(self, bounds: WindowLimits, evicted: dict[int, tuple[Any, Item]]) -> list[WindowStep]:
        """Enforce once. What left is added to ``evicted``."""
        before = self._window.window.total
        steps, gone = self._answered(bounds)
        steps += self._window.enforce(bounds)
        gone |= self._window.evicted
        if self.query is not None:
            self._away |= gone
        evicted.update((number, (given.value, given.item)) for number, given in gone.items())
        self._forget(gone)
        self._keep_left_out()
        self._evictions += sum(step.action is WindowAction.EVICT for step in steps)
        self._evicted_messages += len(gone)
        self._evicted_tokens += max(0, before - self._window.window.total) if gone else 0
        return steps

    def _answered(self, bounds: WindowLimits) -> tuple[list[WindowStep], dict[int, ShownItem]]:
        """Let leave what the query needs least: the steps, and what left."""
        if self.query is None:
            return [], {}
        from tokenbox.conversation.relevance import asked  # noqa: PLC0415  # only a query needs its words

        given = dict(self._window.given)
        question = asked(self.query, [shown.item for shown in given.values()], bounds)
        if question is None or bounds.budget is None:
            return [], {}
        steps = self._window.answer(question, bounds.budget)
        return steps, {number: shown for number, shown in given.items() if number not in self._window.given}

    def _keep_left_out(self) -> None:
        """Hand what was left out since the last time to the caller's store."""
        known = self._window.left_out
        if self.keep is not None:
            for handle in list(known)[self._left_out_kept :]:
                self.keep(handle, known[handle])
        self._left_out_kept = len(known)

    def _summarize(
        self, bounds: WindowLimits, evicted: dict[int, tuple[Any, Item]], steps: list[WindowStep]
    ) -> tuple[str | None, str | None]:
        """The new summary, or why there is none. What makes room for it leaves too, and is summarized."""
        before = latest = fitting = self._summary
        told, numbered = 0, self._window.window.next_number
        while told < len(evicted):
            left = tuple(item for _, item in evicted.values())
            try:
                given = cast("Summarize", self.summarize)(Evicted(left[told:], latest))
                latest = latest if given is None else Message.of({"role": "system", "content": given}).text
                self.summary = latest
                self.request_count()
                over = 0 if bounds.budget is None else self._window.window.must_stay() - bounds.budget
            except Exception as error:  # noqa: BLE001  # the callback is a stranger's; the failure is reported
                return self._no_summary(fitting, f"{type(error).__name__}: {error}")
            if self._window.window.next_number != numbered:  # a new message each time would have no end
                return self._no_summary(fitting, "summarize has added messages; let it return a text")
            if latest != fitting and over > 0:  # to make room for it would cost everything, and not do
                return self._no_summary(fitting, f"the summary is {over:,} tokens too long")
            told, fitting = len(evicted), latest
            steps += self._evict(bounds, evicted)
        return (None if latest == before else latest), None

    def _no_summary(self, so_far: str, why: str) -> tuple[None, str]:
        self.summary = so_far
        self.request_count()
        self._failures += 1
        self._last_failure = why
        return None, why

    def _counter(self) -> RequestCounter:
        return counter_of(self.count, markers=self.markers, media_tokens=self.media_tokens)

    def _identity(self, counter: RequestCounter) -> object:
        """What tells one counter from another. Of a bare function only what it counts is known."""
        if isinstance(self.count, FunctionType):
            return self.count, self.media_tokens, tokenizer_of(counter).count(self.system_prompt)
        return counter.identity, self.media_tokens, self.markers

    def _frame(self, session: RunningCount) -> None:
        prompt = self.system_prompt
        session.frame([_system_item(prompt)] if prompt else [], self._read_tools, self._fields)

    def _bounds(self) -> WindowLimits:
        given = (self.max_turns, self.token_budget, self.low_water, tuple(self.steps), self.keep_results)
        if given != self._limits_of:
            self._limits, self._limits_of = limits(*given), given
        return self._limits

    def _sent(self) -> list[Message]:
        prompt = self.system_prompt
        system = list(_system_item(prompt).messages) if prompt else []
        return system + [message for item in self.window.values() for message in item.messages]

    def _overflow(self, count: Count, budget: int) -> Any:  # noqa: ANN401  # the error
        kept = self._window.least(self._limits)
        items = [item for item in self.items() if item.number is None or item.number in kept]
        named = [
            (f"message {item.number} ({item.name})", kept[item.number])
            for item in items
            if item.number is not None
        ]
        named += [("system prompt", item.tokens) for item in items if item.name == "system"]
        beside = [(item.name, item.tokens) for item in items if item.name == BESIDE]
        total = sum(size for _, size in (*named, *beside))
        return overflow(budget, max(total, budget + 1), named, estimate=not count.exact, beside=beside)

    def _forget(self, numbers: Collection[int]) -> None:
        for number in numbers:
            self._window.sizes.pop(number, None)
            self._pinned.discard(number)
            if number not in self._away:
                del self._exchange_of[number]

    def _check(self, number: int) -> None:
        if number not in self._window.shown:
            raise InvalidMessage(f"there is no message {number!r} in this conversation.")


def _system_item(prompt: str) -> Item:
    return Item((Message.of({"role": "system", "content": prompt}),))
