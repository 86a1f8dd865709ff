"""A running conversation that knows what it sends, to the token, and evicts at the right moment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from tokenbox.content.exchanges import Grouping
from tokenbox.content.message import InvalidMessage, Message, Role, check_tools
from tokenbox.conversation.counting import (
    TextPricing,
    identity_of,
    is_request_counter,
    message_sizes,
    text_pricing,
)
from tokenbox.conversation.limits import limits, overflow
from tokenbox.conversation.record import Enforced
from tokenbox.engine.window import Limits, Step, Window

if TYPE_CHECKING:
    from tokenbox.conversation.counting import Count, MediaTokens, RequestCounter
    from tokenbox.conversation.low_water import LowWater
    from tokenbox.tokenizers.protocol import TokenizerIdentity

SUMMARY_HEADING = "Summary of the earlier conversation:"


@dataclass(frozen=True, slots=True)
class Evicted:
    """What a ``summarize`` callback gets: what left, oldest first, and the summary there is so far."""

    messages: tuple[Message, ...]
    summary: str

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
class Item:
    """One thing that is sent. ``number`` is None for what is no message: tools, and what primes the reply.

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

    ``count``: what counts (:data:`Count`), looked up at every use: a function that follows a switch of
    models, a tokenizer's name, a :class:`~tokenbox.ChatFormat`; None is characters / 4. With anything but a
    ``ChatFormat`` a message costs the count of its text, once in its life. If ``count`` has an ``identity``
    and that changes, all is counted anew. Of a bare function the system prompt is counted at each use: if
    that count changes, so has the model, and all is counted anew. :meth:`recount` asks for that.

    ``low_water``: once over the budget, evict down to this fraction of it, so that the prompt keeps its
    beginning for many calls; ``"auto"`` or an ``AutoLowWater`` chooses it. ``summarize``: called with what
    left; see :data:`Summarize`. ``tools``: the schemas that are sent along. ``media_tokens``: the cost of
    images and files that declare none.

    Not thread-safe. An error from counting leaves it as it was.
    """

    def __init__(  # keyword options
        self,
        system: str = "",
        count: Count = None,  # type: ignore[valid-type]  # an alias that is only text
        max_turns: int | None = None,
        token_budget: int | None = None,
        *,
        low_water: LowWater = 1,
        summarize: Summarize | None = None,
        tools: Sequence[Mapping[str, object]] | None = None,
        media_tokens: MediaTokens = None,
    ) -> None:
        self.count: object = count
        self.max_turns, self.token_budget, self.low_water = max_turns, token_budget, low_water
        self.summarize = summarize
        self.media_tokens = media_tokens
        self._limits = limits(max_turns, token_budget, low_water)
        self._bounds_of = max_turns, token_budget, low_water
        self._priced: tuple[object, object, TextPricing] | None = None
        self._system, self._summary = "", ""
        self.system, self.tools = system, tools
        self._empty()
        self._evictions = self._evicted_messages = self._evicted_tokens = self._failures = 0
        self._last_failure: str | None = None

    def _empty(self) -> None:
        self._window = Window()
        self._grouping = Grouping()
        self._messages: dict[int, Message] = {}
        self._pinned: set[int] = set()
        self._exchange_of: dict[int, int] = {}
        self._exchanges_so_far = 0
        self._counted_by: tuple[object, object] | None = None
        self._sizes: dict[int, int] = {}
        self._uncounted: list[int] = []
        self._base = 0
        self._base_of: tuple[object, ...] | None = None
        self._whole: int | None = None

    @property
    def system(self) -> str:
        """The system prompt, without the summary. It may be set at any time."""
        return self._system

    @system.setter
    def system(self, text: str) -> None:
        self._system = Message.of({"role": "system", "content": text}).text
        self._whole = None

    @property
    def summary(self) -> str:
        """The summary block of the system prompt, empty if there is none. It may be set at any time."""
        return self._summary

    @summary.setter
    def summary(self, text: str) -> None:
        self._summary = Message.of({"role": "system", "content": text}).text
        self._whole = None

    @property
    def tools(self) -> Sequence[Mapping[str, object]] | None:
        return self._tools

    @tools.setter
    def tools(self, tools: Sequence[Mapping[str, object]] | None) -> None:
        check_tools(tools)
        self._tools = tools
        self._whole = None

    @property
    def system_prompt(self) -> str:
        """What is sent as the system message: the system prompt and the summary block."""
        return self._with_summary(self._summary)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What is sent: the system message, if it has any text, and the window."""
        return [message.to_dict(declared=False) for message in self._sent(())]

    @property
    def window(self) -> dict[int, Message]:
        """The messages of the window by their numbers, in order."""
        return dict(self._messages)

    def add(self, message: Mapping[str, object] | Message | object, *, pinned: bool = False) -> int:
        """Take in a message: its number, which stays its own. Raises :class:`InvalidMessage`."""
        checked = Message.of(message)
        number = self._grouping.take_into(self._window, checked, 0)
        self._messages[number] = checked
        self._sizes[number] = 0
        self._uncounted.append(number)
        self._exchanges_so_far += checked.role is Role.USER
        self._exchange_of[number] = self._exchanges_so_far
        self._whole = None
        if pinned:
            self.pin(number)
        return number

    def extend(self, messages: Sequence[Mapping[str, object] | Message | object]) -> list[int]:
        """``add`` for each of them; none is taken in if one is refused."""
        return [self.add(message) for message in [Message.of(message) for message in messages]]

    def user(self, text: str) -> int:
        return self.add({"role": "user", "content": text})

    def assistant(self, text: str) -> int:
        return self.add({"role": "assistant", "content": text})

    def pin(self, number: int) -> None:
        """This message, and what belongs to it, is never evicted."""
        self._check(number)
        if number not in self._pinned:
            self._pinned.add(number)
            self._window.pin(number)

    def unpin(self, number: int) -> None:
        self._check(number)
        if number in self._pinned:
            self._pinned.discard(number)
            self._window.unpin(number)

    def drop(self, number: int) -> tuple[int, ...]:
        """Take a message out, with its tool calls' results or its call: the numbers that left."""
        self._check(number)
        dropped = self._window.drop(number)
        self._forget(dropped)
        return dropped

    def reset(self) -> None:
        """Forget all messages and the summary. The system prompt, options and figures of the past stay."""
        self._empty()
        self.summary = ""

    def recount(self) -> None:
        """Count everything anew at the next use: what ``count`` counts by has changed."""
        self._uncounted = list(self._messages)
        self._base_of = self._whole = None

    def estimate_tokens(self) -> int:
        """What the next request counts: system prompt, summary, tools and window.

        A message is counted on the first call after it was added, and not again.
        """
        self._settle()
        return self._window.total

    @property
    def identity(self) -> TokenizerIdentity:
        """Who counts now."""
        return identity_of(self.count)

    @property
    def exact(self) -> bool:
        """Whether the figures are the server's own. False where they are shown with ``~``."""
        if not is_request_counter(self.count):
            return False
        exact_for = getattr(self.count, "exact_for", None)
        return exact_for(self._sent(()), self._tools) if callable(exact_for) else self.identity.exact

    @property
    def status(self) -> Status:
        return Status(
            tokens=self.estimate_tokens(),
            token_budget=self.token_budget,
            max_turns=self.max_turns,
            exchanges=self._window.exchanges,
            messages=len(self._messages),
            evictions=self._evictions,
            evicted_messages=self._evicted_messages,
            evicted_tokens=self._evicted_tokens,
            summary_failures=self._failures,
            last_failure=self._last_failure,
            exact=self.exact,
        )

    def enforce_budget(self) -> Enforced:
        """Evict until both limits hold or nothing more may leave; never raises for what does not fit.

        The result says what left and why, and has the error (``overflow``) where it is still over the budget.
        Costs as much as it evicts, with a counter of texts.
        """
        bounds = self._bounds()
        self._settle()
        evicted: list[Message] = []
        steps = self._evict(bounds, evicted)
        summary, failure = None, None
        if evicted and self.summarize is not None:
            summary, failure = self._summarize(bounds, evicted, steps)
            if failure is not None:  # a callback that failed may have changed things before
                steps += self._evict(bounds, evicted)
        total, budget = self._window.total, self.token_budget
        exact = self.exact
        return Enforced(
            evicted=tuple(evicted),
            steps=tuple(steps),
            total=total,
            budget=budget,
            exact=exact,
            summary=summary,
            failure=failure,
            overflow=None if budget is None or total <= budget else self._overflow(budget),
        )

    def items(self) -> tuple[Item, ...]:
        """Everything that is sent, each with its tokens; they add up to ``estimate_tokens()``."""
        total = self.estimate_tokens()
        sizes = self._sizes
        system = self._text_count(self.system_prompt) if not is_request_counter(self.count) else 0
        tools = self._base - system
        if is_request_counter(self.count):
            counter = cast("RequestCounter", self.count)
            sent = self._sent(())
            alone = message_sizes(counter, sent)
            system = alone.pop(0) if self.system_prompt else 0
            sizes = dict(zip(self._messages, alone, strict=True))
            tools = 0
        items = [Item("system", system, text=self.system_prompt)] if self.system_prompt else []
        for number, message in self._messages.items():
            items.append(
                Item(
                    message.role.value,
                    sizes[number],
                    number,
                    self._exchanges_so_far - self._exchange_of[number],
                    number in self._pinned,
                    message.text,
                )
            )
        if tools:
            items.append(Item("tools", tools))
        rest = total - sum(item.tokens for item in items)
        return (*items, Item("tools and markers", rest)) if rest else tuple(items)

    def _evict(self, bounds: Limits, evicted: list[Message]) -> list[Step]:
        """Enforce once. What left is added to ``evicted``."""
        before = self._window.total
        if is_request_counter(self.count):
            steps = self._window.enforce_whole(bounds, self._total_without)
            self._whole = self._window.total
        else:
            steps = self._window.enforce(bounds)
        gone = [number for step in steps for number in step.messages]
        evicted += [self._messages[number] for number in sorted(gone)]
        whole = self._whole
        self._forget(gone)
        self._whole = whole
        self._evictions += len(steps)
        self._evicted_messages += len(gone)
        self._evicted_tokens += before - self._window.total
        return steps

    def _summarize(
        self, bounds: Limits, evicted: list[Message], steps: list[Step]
    ) -> tuple[str | None, str | None]:
        """The new summary, or why there is none. What makes room for it leaves too, and is summarized."""
        before = latest = fitting = self._summary
        told, numbered = 0, self._window.next_number
        while told < len(evicted):
            try:
                given = cast("Summarize", self.summarize)(Evicted(tuple(evicted[told:]), latest))
                latest = latest if given is None else Message.of({"role": "system", "content": given}).text
                self.summary = latest
                self._settle()
                over = 0 if bounds.budget is None else self._least() - bounds.budget
            except Exception as error:  # noqa: BLE001  # the callback is a stranger's; the failure is reported
                return self._no_summary(fitting, f"{type(error).__name__}: {error}")
            if self._window.next_number != numbered:  # with a new message each time this would have no end
                return self._no_summary(fitting, "summarize has added messages; let it return a text")
            if latest != fitting and over > 0:  # to make room for it would cost everything, and not do
                return self._no_summary(fitting, f"the summary is {over:,} tokens too long")
            told, fitting = len(evicted), latest
            steps += self._evict(bounds, evicted)
        return (None if latest == before else latest), None

    def _least(self) -> int:
        """The total if everything left that may leave."""
        gone = frozenset(self._window.evictable())
        if is_request_counter(self.count):
            return self._total_without(gone)
        return self._window.total - sum(self._sizes[number] for number in gone)

    def _no_summary(self, so_far: str, why: str) -> tuple[None, str]:
        self.summary = so_far
        self._settle()
        self._failures += 1
        self._last_failure = why
        return None, why

    def _settle(self) -> None:
        """Count what has not been counted, and all of it if another counter counts now."""
        who = self._who()
        if is_request_counter(self.count):
            if self._whole is None or who != self._counted_by:
                self._whole = self._total_without(())
            self._window.total = self._whole
            self._counted_by = who
            return
        if is_request_counter(self._counted_by and self._counted_by[0]):
            self._window.total = self._base + sum(self._sizes.values())
        pricing = self._pricing()
        prompt = self.system_prompt
        same_text = (prompt, self._tools) == self._base_of
        base = self._base
        if not (same_text and self._is_known()) or who != self._counted_by:
            base = pricing.text(prompt) + pricing.tools(self._tools)
        # That a bare function now counts by another model shows in the count of the prompt it had before.
        anew = who != self._counted_by or (same_text and base != self._base)
        numbers = [n for n in (self._messages if anew else self._uncounted) if n in self._messages]
        sizes = pricing.sizes([self._messages[number] for number in numbers])
        # Nothing can fail from here on.
        for number, size in zip(numbers, sizes, strict=True):
            self._window.change(number, size - self._sizes[number])
            self._sizes[number] = size
        self._window.total += base - self._base
        self._base, self._base_of, self._counted_by, self._uncounted = base, (prompt, self._tools), who, []

    def _who(self) -> tuple[object, object]:
        """What tells one counter from another."""
        return self.count, getattr(self.count, "identity", None)

    def _is_known(self) -> bool:
        """Whether the counter says who it is. Of a bare function only itself is known."""
        return not callable(self.count) or hasattr(self.count, "identity")

    def _pricing(self) -> TextPricing:
        by = self._priced if self._is_known() else None  # what a bare function said is not remembered
        if by is None or by[0] is not self.count or by[1] is not self.media_tokens:
            pricing = text_pricing(self.count, self.media_tokens)
            by = self._priced = self.count, self.media_tokens, pricing
        return by[2]

    def _bounds(self) -> Limits:
        given = self.max_turns, self.token_budget, self.low_water
        if given != self._bounds_of:
            self._limits, self._bounds_of = limits(*given), given
        return self._limits

    def _text_count(self, text: str) -> int:
        return self._pricing().text(text)

    def _total_without(self, gone: Collection[int]) -> int:
        return cast("RequestCounter", self.count).count_messages(self._sent(gone), self._tools)

    def _sent(self, gone: Collection[int]) -> list[Message]:
        prompt = self.system_prompt
        system = [Message.of({"role": "system", "content": prompt})] if prompt else []
        return system + [message for number, message in self._messages.items() if number not in gone]

    def _with_summary(self, summary: str) -> str:
        if not summary:
            return self._system
        block = f"{SUMMARY_HEADING}\n{summary}"
        return f"{self._system}\n\n{block}" if self._system else block

    def _overflow(self, budget: int) -> Any:  # noqa: ANN401  # the error
        kept = [
            (item.name if item.number is None else f"message {item.number} ({item.name})", item.tokens)
            for item in self.items()
        ]
        return overflow(budget, self._window.total, kept, estimate=not self.exact)

    def _forget(self, numbers: Collection[int]) -> None:
        for number in numbers:
            del self._messages[number], self._sizes[number], self._exchange_of[number]
            self._pinned.discard(number)
        if numbers:
            self._whole = None

    def _check(self, number: int) -> None:
        if number not in self._messages:
            raise InvalidMessage(f"there is no message {number!r} in this conversation.")
