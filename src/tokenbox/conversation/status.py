"""What a conversation tells of itself: its figures, its parts, and what it evicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tokenbox.records import AsRecord

if TYPE_CHECKING:
    from tokenbox.content.items import Item
    from tokenbox.content.message import Message


@dataclass(frozen=True, slots=True)
class Evicted:
    """The argument of a ``summarize`` callback: the evicted items, oldest first, and the present summary."""

    items: tuple[Item, ...]
    summary: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """The evicted messages, in the chat completions shape."""
        return tuple(message for item in self.items for message in item.messages)

    @property
    def text(self) -> str:
        """The evicted messages as lines of ``role: text``."""
        return "\n".join(f"{message.role.value}: {message.counted_text}" for message in self.messages)


Summarize = Callable[[Evicted], str | None]
"""A callback that returns the new summary, which replaces the present one, or None to keep that."""


@dataclass(frozen=True, slots=True)
class Status(AsRecord):
    """The figures of a conversation. ``evictions``: the number of eviction steps."""

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


@dataclass(frozen=True, slots=True)
class ContextItem:
    """One part of the request. ``number``: None if it is not a message but tools and markers.

    ``age``: in exchanges, 0 for the present one.
    """

    name: str
    tokens: int
    number: int | None = None
    age: int = 0
    pinned: bool = False
    text: str = field(default="", repr=False)


def without_excess(items: Sequence[ContextItem], excess: int) -> Iterator[ContextItem]:
    """Yield the items without an excess of tokens. The messages share it equally."""
    shares: dict[int | None, int] = {}
    left = sum(item.number is not None for item in items)
    for item in sorted(items, key=lambda item: (item.number is None, item.tokens)):
        shares[item.number] = min(item.tokens, excess // max(1, left))
        excess, left = excess - shares[item.number], left - 1
    for item in items:
        yield replace(item, tokens=item.tokens - shares[item.number])
