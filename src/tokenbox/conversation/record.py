"""What a conversation's limits did: what left, what stayed and why; as values, data and words."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from tokenbox.content.exchanges import Exchange, exchanges
from tokenbox.content.weight import weight_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenbox.content.message import Message
    from tokenbox.engine.window import Limits, Step
    from tokenbox.errors import ContextCriticalOverflow
    from tokenbox.tokenizers.protocol import TokenizerIdentity

SCHEMA = "tokenbox.window/1"
ALGORITHM = "window/1"
_SHOWN = 48


class WindowDecision(StrEnum):
    """What became of an exchange."""

    KEPT = "kept"
    REDUCED = "reduced"
    """Some of it left: tool rounds of the last exchange, or all but what is pinned."""
    EVICTED = "evicted"


@dataclass(frozen=True, slots=True)
class ExchangeResult:
    """What became of one exchange: ``base_size`` and ``size`` in tokens, before and after.

    ``numbers`` are the places of its messages in the list that was given; ``left`` of those that left.
    """

    numbers: tuple[int, ...]
    left: tuple[int, ...]
    base_size: int
    size: int
    opening: str

    @property
    def decision(self) -> WindowDecision:
        if not self.left:
            return WindowDecision.KEPT
        return WindowDecision.EVICTED if len(self.left) == len(self.numbers) else WindowDecision.REDUCED

    def to_dict(self) -> dict[str, object]:
        return {
            "messages": list(self.numbers),
            "evicted": list(self.left),
            "decision": self.decision.value,
            "base_size": self.base_size,
            "size": self.size,
        }


@dataclass(frozen=True)
class Fitted:
    """Messages that fit. ``total <= budget``, and ``total`` counts everything that is sent.

    ``messages`` are the very objects that were given, in order; ``evicted`` those that left. ``exact`` is
    False where a figure is an estimate, or counts texts without the markers a server puts around them.
    """

    messages: list[Any] = field(repr=False)
    evicted: list[Any] = field(repr=False)
    total: int
    budget: int | None
    limits: Limits
    steps: tuple[Step, ...] = field(repr=False)
    inputs: tuple[Message, ...] = field(repr=False)
    sizes_of: Callable[[], Sequence[int]] = field(repr=False, compare=False)
    pinned: frozenset[int] = field(repr=False)
    tokenizer: TokenizerIdentity
    exact: bool
    tools_text: str | None = field(repr=False)
    """The schemas of the tools as JSON with sorted keys; None without tools."""

    @property
    def tools_digest(self) -> str | None:
        """SHA-256 (hex) of the tools' schemas; None without tools."""
        return None if self.tools_text is None else hashlib.sha256(self.tools_text.encode()).hexdigest()

    @cached_property
    def gone(self) -> frozenset[int]:
        """The places of the messages that left."""
        return frozenset(number for step in self.steps for number in step.messages)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """What every message counts by itself, in tokens. The total may be more or less than their sum."""
        return tuple(self.sizes_of())

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
            "total": self.total,
            "exact": self.exact,
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

    def _result(self, exchange: Exchange) -> ExchangeResult:
        left = tuple(number for number in exchange.numbers if number in self.gone)
        base_size = sum(self.sizes[number] for number in exchange.numbers)
        opening = next((" ".join(m.text.split()) for m in exchange.messages if m.text), "")
        return ExchangeResult(
            exchange.numbers,
            left,
            base_size,
            base_size - sum(self.sizes[number] for number in left),
            opening if len(opening) <= _SHOWN else opening[: _SHOWN - 1] + "…",
        )

    def _digested(self) -> dict[str, object]:
        digests = [message_digest(message) for message in self.inputs]
        emitted = [digest for place, digest in enumerate(digests) if place not in self.gone]
        return {
            "schema": SCHEMA,
            "algorithm": ALGORITHM,
            "options": {
                "max_turns": self.limits.max_turns,
                "low_water": low_water_of(self.limits),
                "pinned": sorted(self.pinned),
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

    evicted: tuple[Message, ...] = field(repr=False)
    steps: tuple[Step, ...]
    total: int
    budget: int | None
    exact: bool
    summary: str | None = None
    failure: str | None = None
    overflow: ContextCriticalOverflow | None = None

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
            "evicted": [message.to_dict() for message in self.evicted],
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


def low_water_of(limits: Limits) -> int | dict[str, str]:
    """The low-water mark in tokens, or how eagerly it is chosen."""
    return limits.mark if limits.eagerness is None else {"auto": weight_text(limits.eagerness)}


def sentence(step: Step) -> str:
    """A step for a person."""
    count = len(step.messages)
    return (
        f"evicted {count} message{'' if count == 1 else 's'} ({step.before:,} -> {step.after:,}): {step.why}"
    )


def message_digest(message: Message) -> str:
    """SHA-256 (hex) over the message as JSON with sorted keys."""
    return hashlib.sha256(as_json(message.to_dict()).encode()).hexdigest()


def as_json(value: object) -> str:
    """One JSON text for one value: sorted keys, no spaces, nothing escaped that need not be."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def names(messages: Sequence[Message], numbers: Sequence[int], sizes: Sequence[int]) -> list[tuple[str, int]]:
    """What is there, by names a person understands, with their sizes."""
    return [
        (f"messages[{number}] ({messages[number].role.value})", size)
        for number, size in zip(numbers, sizes, strict=True)
    ]
