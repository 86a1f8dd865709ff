"""Records of what a conversation's limits did: as values, as data and as text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, SupportsIndex, TypeVar

from tokenbox.content.canonical import record_digest
from tokenbox.content.exchanges import Exchange, exchanges
from tokenbox.content.weight import weight_text
from tokenbox.engine.steps import WindowAction, WindowLimits, WindowStep
from tokenbox.errors import ContextCriticalOverflow, TokenboxError
from tokenbox.integers import whole
from tokenbox.records import to_record
from tokenbox.render.html import Pictured, in_words

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count
    from tokenbox.content.items import Item
    from tokenbox.tokenizers.protocol import TokenizerIdentity

SCHEMA = "tokenbox.window/4"
ALGORITHM = "window/8"
_SHOWN = 48
T = TypeVar("T")


class UnknownHandle(TokenboxError, code="unknown_handle"):
    """No text was left out under this handle, or several were."""


class WindowDecision(StrEnum):
    """The decision on an exchange."""

    KEPT = "kept"
    REDUCED = "reduced"
    """Part of it was evicted or shortened: tool rounds and results, or everything that is not pinned."""
    EVICTED = "evicted"


@dataclass(frozen=True, slots=True)
class ExchangeResult:
    """The result for one exchange: ``base_size`` and ``size`` in tokens, before and after.

    ``numbers``: the places of its messages in the input list. ``left``: those that were evicted.
    ``shortened``: those shown in a shorter form.
    """

    numbers: tuple[int, ...]
    left: tuple[int, ...]
    shortened: tuple[int, ...]
    base_size: int
    size: int
    opening: str

    @property
    def decision(self) -> WindowDecision:
        if not self.left:
            return WindowDecision.REDUCED if self.shortened else WindowDecision.KEPT
        return WindowDecision.EVICTED if len(self.left) == len(self.numbers) else WindowDecision.REDUCED

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self,
            "messages evicted shortened decision base_size size",
            messages=list(self.numbers),
            evicted=list(self.left),
        )


@dataclass(frozen=True)
class Fitted(Pictured, Generic[T]):
    """Messages that fit: ``total <= budget``, and ``total`` counts everything that is sent.

    ``messages``: the caller's own objects, in order, except shortened results, which are copies of the same
    type; to iterate over the result gives them. ``evicted``: the messages that left. ``count``: the count of
    the request with ``messages`` and the tools. ``left_out``: the full texts of shortened results, by their
    handles.
    """

    messages: list[T] = field(repr=False)
    evicted: list[T] = field(repr=False)
    count: Count
    budget: int | None
    limits: WindowLimits
    steps: tuple[WindowStep, ...] = field(repr=False)
    inputs: tuple[Item, ...] = field(repr=False)
    shown: Mapping[int, Item] = field(repr=False)
    """The items of ``messages``, by their places in the input list."""
    sizes: tuple[int, ...] = field(repr=False)
    """The tokens of every message by itself, unshortened. The total may be more than their sum."""
    sizes_now: Mapping[int, int] = field(repr=False)
    pinned: frozenset[int] = field(repr=False)
    query: str | None = field(repr=False)
    """The query that old messages were matched with; None if the oldest were evicted first."""
    tokenizer: TokenizerIdentity
    left_out: Mapping[str, str] = field(repr=False)
    tools_text: str | None = field(repr=False)
    """The schemas of the tools as JSON with sorted keys; None without tools."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, place: SupportsIndex) -> T:
        return self.messages[place]

    @property
    def total(self) -> int:
        """The tokens of the request."""
        return self.count.total

    @property
    def exact(self) -> bool:
        """True if the total is proven to equal the server's own figure."""
        return self.count.exact

    def expand(self, handle: str) -> str:
        """Return the text that was left out under this handle or a prefix of it.

        Raises :class:`UnknownHandle`.
        """
        return expanded(self.left_out, handle)

    @property
    def tools_digest(self) -> str | None:
        """SHA-256 (hex) of the tools' schemas; None without tools."""
        return None if self.tools_text is None else hashlib.sha256(self.tools_text.encode()).hexdigest()

    @cached_property
    def gone(self) -> frozenset[int]:
        """The places of the evicted messages."""
        return frozenset(range(len(self.inputs))) - self.shown.keys()

    @cached_property
    def shortened(self) -> tuple[int, ...]:
        """The places of the shortened messages."""
        return tuple(place for place, item in self.shown.items() if item is not self.inputs[place])

    @cached_property
    def exchanges(self) -> tuple[ExchangeResult, ...]:
        """The result for every exchange, in order."""
        return tuple(map(self._result, exchanges(self.inputs)))

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) over the RFC 8785 JSON of all inputs of this decision and its result."""
        return record_digest(self._digested())

    def to_dict(self) -> dict[str, object]:
        """Return the record as JSON-compatible data."""
        return to_record(
            self,
            "schema budget max_turns low_water steps_allowed keep_results "
            "total exact at_most counted_by tokenizer exchanges steps digest",
            schema=SCHEMA,
            max_turns=self.limits.max_turns,
            low_water=low_water_of(self.limits),
            steps_allowed=sorted(self.limits.steps),
            keep_results=self.limits.keep_results,
            at_most=self.count.at_most,
            counted_by=self.count.by.value,
        )

    def explain(self) -> str:
        """Return a line per exchange with its decision and size, then every step with its reason."""
        lines = [f"{_of_budget(self)} ({self.tokenizer.name})"]
        lines += [
            f"{exchange.decision.value:<8} {exchange.size:>9,} / {exchange.base_size:>9,}  {exchange.opening}"
            for exchange in self.exchanges
        ]
        return "\n".join([*lines, *map(sentence, self.steps)])

    def __repr__(self) -> str:
        decisions = [exchange.decision.value for exchange in self.exchanges]
        return in_words("Fitted", self.total, self.budget, self.tokenizer.name, decisions, exact=self.exact)

    def _result(self, exchange: Exchange) -> ExchangeResult:
        left = tuple(number for number in exchange.numbers if number in self.gone)
        base_size = sum(self.sizes[number] for number in exchange.numbers)
        opening = next((" ".join(item.text.split()) for item in exchange.items if item.text), "")
        return ExchangeResult(
            exchange.numbers,
            left,
            tuple(number for number in exchange.numbers if number in self.shortened),
            base_size,
            sum(self.sizes_now[number] for number in exchange.numbers if number in self.sizes_now),
            opening if len(opening) <= _SHOWN else opening[: _SHOWN - 1] + "…",
        )

    def _digested(self) -> dict[str, object]:
        digests = [item_digest(item) for item in self.inputs]
        emitted = [item_digest(item) for item in self.shown.values()]
        return {
            "schema": SCHEMA,
            "algorithm": ALGORITHM,
            "options": {
                "max_turns": self.limits.max_turns,
                "low_water": low_water_of(self.limits),
                "steps": sorted(self.limits.steps),
                "keep_results": self.limits.keep_results,
                "pinned": sorted(self.pinned),
                "query": self.query,
                "tools": self.tools_digest,
            },
            "budget": self.budget,
            "tokenizer": self.tokenizer.to_dict(),
            "inputs": digests,
            "decisions": [exchange.to_dict() for exchange in self.exchanges],
            "total": self.total,
            "emitted": hashlib.sha256("".join(emitted).encode()).hexdigest(),
        }


@dataclass(frozen=True, slots=True)
class Enforced:
    """The result of one ``enforce_budget``.

    ``overflow``: the error to raise if the request is still over the budget and nothing more may leave.
    ``failure``: the reason why there is no new summary of the evicted messages.
    """

    evicted: tuple[Any, ...] = field(repr=False)
    evicted_items: tuple[Item, ...] = field(repr=False)
    steps: tuple[WindowStep, ...]
    count: Count
    budget: int | None
    summary: str | None = None
    failure: str | None = None
    overflow: ContextCriticalOverflow | None = None

    @property
    def total(self) -> int:
        return self.count.total

    @property
    def exact(self) -> bool:
        return self.count.exact

    @property
    def fits(self) -> bool:
        return self.overflow is None

    @property
    def over(self) -> int:
        """The tokens by which the request is still over the budget."""
        return 0 if self.budget is None else max(0, self.total - self.budget)

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self,
            "total budget over exact evicted steps summary failure overflow",
            evicted=[item.to_dict() for item in self.evicted_items],
        )

    def explain(self) -> str:
        lines = [_of_budget(self), *map(sentence, self.steps)]
        if self.failure is not None:
            lines.append(f"no summary: {self.failure}")
        if self.overflow is not None:
            lines.append(self.overflow.message)
        return "\n".join(lines)


def _of_budget(made: Fitted[Any] | Enforced) -> str:
    of_budget = "" if made.budget is None else f" of {made.budget:,}"
    return f"{'' if made.exact else '~'}{made.total:,}{of_budget} tokens"


def low_water_of(limits: WindowLimits) -> int | dict[str, str]:
    """Return the low-water mark in tokens, or the eagerness by which it is chosen."""
    return limits.mark if limits.eagerness is None else {"auto": weight_text(limits.eagerness)}


def sentence(step: WindowStep) -> str:
    """Return a step as a sentence."""
    count = len(step.messages)
    action = _ACTIONS[step.action]
    return (
        f"{action} {count} message{'' if count == 1 else 's'} ({step.before:,} -> {step.after:,}): {step.why}"
    )


_ACTIONS: Final = {
    WindowAction.EVICT: "evicted",
    WindowAction.MASK: "replaced by one line the results of",
    WindowAction.CUT: "cut the results of",
    WindowAction.RESTORE: "gave back the results of",
}


def item_digest(item: Item) -> str:
    """Return the SHA-256 (hex) of the item as JSON with sorted keys."""
    return hashlib.sha256(as_json(item.to_dict()).encode()).hexdigest()


def expanded(left_out: Mapping[str, str], handle: str) -> str:
    """Return the text with that handle, or its only match as a prefix. Raises :class:`UnknownHandle`."""
    found = [text for known, text in left_out.items() if handle and known.startswith(handle)]
    if len(found) != 1:
        which = "no text was" if not found else f"{len(found)} texts were"
        raise UnknownHandle(f"{which} left out under the handle {handle!r:.80}.", handle=handle)
    return found[0]


def as_json(value: object) -> str:
    """Return a canonical JSON text: sorted keys, no spaces, minimal escaping."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_plain)


def _plain(value: object) -> object:
    """Convert mappings, sequences and integers of other types for JSON."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    number = whole(value)
    if number is None:
        raise TypeError(f"{type(value).__name__} is not JSON")
    return number


def names(items: Sequence[Item], sizes: Mapping[int, int]) -> list[tuple[str, int]]:
    """Return readable names of the items with these places, each with its size."""
    return [(f"messages[{number}] ({items[number].role.value})", size) for number, size in sizes.items()]
