"""What a conversation's limits did: what left, what stayed and why; as values, data and words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from tokenbox.content.exchanges import Exchange, exchanges
from tokenbox.content.weight import weight_text
from tokenbox.engine.window import WindowAction
from tokenbox.errors import TokenboxError
from tokenbox.integers import whole
from tokenbox.render.html import FigureRow, figure, in_words

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count
    from tokenbox.content.items import Item
    from tokenbox.engine.window import WindowLimits, WindowStep
    from tokenbox.errors import ContextCriticalOverflow
    from tokenbox.tokenizers.protocol import TokenizerIdentity

SCHEMA = "tokenbox.window/2"
ALGORITHM = "window/2"
_SHOWN = 48
_STEPS_SHOWN = 8
T = TypeVar("T")


class UnknownHandle(TokenboxError):
    """Nothing was left out under this handle, or more than one text was."""

    code = "unknown_handle"


class WindowDecision(StrEnum):
    """What became of an exchange."""

    KEPT = "kept"
    REDUCED = "reduced"
    """Some of it left, or is shown shorter: tool rounds and results, or all but what is pinned."""
    EVICTED = "evicted"


@dataclass(frozen=True, slots=True)
class ExchangeResult:
    """What became of one exchange: ``base_size`` and ``size`` in tokens, before and after.

    ``numbers`` are the places of its messages in the list that was given; ``left`` of those that left, and
    ``shortened`` of those of which a shorter form is shown.
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
        return {
            "messages": list(self.numbers),
            "evicted": list(self.left),
            "shortened": list(self.shortened),
            "decision": self.decision.value,
            "base_size": self.base_size,
            "size": self.size,
        }


@dataclass(frozen=True)
class Fitted(Generic[T]):
    """Messages that fit. ``total <= budget``, and ``total`` counts everything that is sent.

    ``messages`` are the very objects that were given, in order, but for results that are shown shorter: these
    are copies, of the same type. ``evicted`` are those that left. ``count`` is the count of the request that
    ``messages`` make, with the tools. ``left_out`` has the texts that are shown shorter, by their handles.
    """

    messages: list[T] = field(repr=False)
    evicted: list[T] = field(repr=False)
    count: Count
    budget: int | None
    limits: WindowLimits
    steps: tuple[WindowStep, ...] = field(repr=False)
    inputs: tuple[Item, ...] = field(repr=False)
    shown: Mapping[int, Item] = field(repr=False)
    """The items of ``messages``, by their places in the list that was given."""
    sizes: tuple[int, ...] = field(repr=False)
    """What every message counts by itself, in full, in tokens. The total may be more than their sum."""
    sizes_now: Mapping[int, int] = field(repr=False)
    pinned: frozenset[int] = field(repr=False)
    query: str | None = field(repr=False)
    """What old parts had to match; None where the oldest left first."""
    tokenizer: TokenizerIdentity
    left_out: Mapping[str, str] = field(repr=False)
    tools_text: str | None = field(repr=False)
    """The schemas of the tools as JSON with sorted keys; None without tools."""

    @property
    def total(self) -> int:
        """The tokens of the request."""
        return self.count.total

    @property
    def exact(self) -> bool:
        """Whether the total is proven to be the server's own figure."""
        return self.count.exact

    def expand(self, handle: str) -> str:
        """What was left out under this handle, or a beginning of it. Raises :class:`UnknownHandle`."""
        return expanded(self.left_out, handle)

    @property
    def tools_digest(self) -> str | None:
        """SHA-256 (hex) of the tools' schemas; None without tools."""
        return None if self.tools_text is None else hashlib.sha256(self.tools_text.encode()).hexdigest()

    @cached_property
    def gone(self) -> frozenset[int]:
        """The places of the messages that left."""
        return frozenset(range(len(self.inputs))) - self.shown.keys()

    @cached_property
    def shortened(self) -> tuple[int, ...]:
        """The places of the messages of which a shorter form is shown."""
        return tuple(place for place, item in self.shown.items() if item is not self.inputs[place])

    @cached_property
    def exchanges(self) -> tuple[ExchangeResult, ...]:
        """What became of every exchange, in order."""
        return tuple(map(self._result, exchanges(self.inputs)))

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) over the RFC 8785 JSON of everything that decides this, and of its result."""
        import rfc8785  # noqa: PLC0415  # only who asks for a digest pays for it

        return hashlib.sha256(rfc8785.dumps(cast("Any", self._digested()))).hexdigest()

    def to_dict(self) -> dict[str, object]:
        """The record as JSON-compatible data."""
        return {
            "schema": SCHEMA,
            "budget": self.budget,
            "max_turns": self.limits.max_turns,
            "low_water": low_water_of(self.limits),
            "steps_allowed": sorted(self.limits.steps),
            "keep_results": self.limits.keep_results,
            "total": self.total,
            "exact": self.exact,
            "at_most": self.count.at_most,
            "counted_by": self.count.by.value,
            "tokenizer": self.tokenizer.to_dict(),
            "exchanges": [exchange.to_dict() for exchange in self.exchanges],
            "steps": [step.to_dict() for step in self.steps],
            "digest": self.digest,
        }

    def explain(self) -> str:
        """A line per exchange: what became of it and what it counts; then every step and its reason."""
        about = "" if self.exact else "~"
        of_budget = "" if self.budget is None else f" of {self.budget:,}"
        lines = [f"{about}{self.total:,}{of_budget} tokens ({self.tokenizer.name})"]
        lines += [
            f"{exchange.decision.value:<8} {exchange.size:>9,} / {exchange.base_size:>9,}  {exchange.opening}"
            for exchange in self.exchanges
        ]
        return "\n".join([*lines, *map(sentence, self.steps)])

    def __repr__(self) -> str:
        decisions = [exchange.decision.value for exchange in self.exchanges]
        return in_words("Fitted", self.total, self.budget, self.tokenizer.name, decisions, exact=self.exact)

    def _repr_html_(self) -> str:
        """A small picture, for notebooks."""
        rows = [
            FigureRow(one.opening or "(no text)", one.decision.value, one.base_size, one.size)
            for one in self.exchanges
        ]
        return figure(
            f"Conversation · {self.tokenizer.name}",
            rows,
            total=self.total,
            budget=self.budget,
            exact=self.exact,
            notes=map(sentence, self.steps[:_STEPS_SHOWN]),
        )

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
    """What one ``enforce_budget`` did.

    ``overflow`` is the error to raise where it is still over the budget and nothing more may leave.
    ``failure`` says why there is no new summary of what left.
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
        """By how many tokens it is still over the budget."""
        return 0 if self.budget is None else max(0, self.total - self.budget)

    def to_dict(self) -> dict[str, object]:
        return {
            "total": self.total,
            "budget": self.budget,
            "over": self.over,
            "exact": self.exact,
            "evicted": [item.to_dict() for item in self.evicted_items],
            "steps": [step.to_dict() for step in self.steps],
            "summary": self.summary,
            "failure": self.failure,
            "overflow": None if self.overflow is None else self.overflow.to_dict(),
        }

    def explain(self) -> str:
        about = "" if self.exact else "~"
        of_budget = "" if self.budget is None else f" of {self.budget:,}"
        lines = [f"{about}{self.total:,}{of_budget} tokens", *map(sentence, self.steps)]
        if self.failure is not None:
            lines.append(f"no summary: {self.failure}")
        if self.overflow is not None:
            lines.append(self.overflow.message)
        return "\n".join(lines)


def low_water_of(limits: WindowLimits) -> int | dict[str, str]:
    """The low-water mark in tokens, or how eagerly it is chosen."""
    return limits.mark if limits.eagerness is None else {"auto": weight_text(limits.eagerness)}


def sentence(step: WindowStep) -> str:
    """A step for a person."""
    count = len(step.messages)
    done = _DONE[step.action]
    return (
        f"{done} {count} message{'' if count == 1 else 's'} ({step.before:,} -> {step.after:,}): {step.why}"
    )


_DONE: Final = {
    WindowAction.EVICT: "evicted",
    WindowAction.MASK: "replaced by one line the results of",
    WindowAction.CUT: "cut the results of",
    WindowAction.RESTORE: "gave back the results of",
}


def item_digest(item: Item) -> str:
    """SHA-256 (hex) over the item as JSON with sorted keys."""
    return hashlib.sha256(as_json(item.to_dict()).encode()).hexdigest()


def expanded(left_out: Mapping[str, str], handle: str) -> str:
    """The text with that handle, or with the only one that begins so. Raises :class:`UnknownHandle`."""
    found = [text for known, text in left_out.items() if handle and known.startswith(handle)]
    if len(found) != 1:
        which = "no text was" if not found else f"{len(found)} texts were"
        raise UnknownHandle(f"{which} left out under the handle {handle!r:.80}.", handle=handle)
    return found[0]


def as_json(value: object) -> str:
    """One JSON text for one value: sorted keys, no spaces, nothing escaped that need not be."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_plain)


def _plain(value: object) -> object:
    """What reads as JSON and is no dict or list: as one."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    number = whole(value)
    if number is None:
        raise TypeError(f"{type(value).__name__} is not JSON")
    return number


def names(items: Sequence[Item], sizes: Mapping[int, int]) -> list[tuple[str, int]]:
    """What is there, by names a person understands, with their sizes."""
    return [(f"messages[{number}] ({items[number].role.value})", size) for number, size in sizes.items()]
