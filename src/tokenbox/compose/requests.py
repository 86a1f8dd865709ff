"""What a request to a model costs: one figure, who counted it, and a bound that is never passed.

Everything that counts messages counts through a :class:`RequestCounter`, and through nothing else
(requests.md, "A count"). This module has the shape of the answer; the chat formats that give it are in
:mod:`tokenbox.conversation`, and :mod:`tokenbox.models` chooses among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tokenbox.content.items import Item
    from tokenbox.content.message import Message, Object
    from tokenbox.content.request import Request
    from tokenbox.tokenizers.protocol import TokenizerIdentity


class By(StrEnum):
    """Which counter counted, and how, in the order in which they are asked."""

    TEMPLATE = "template"
    """A chat template and vocabulary here, both in the verified table."""
    SERVER = "server"
    """The endpoint that will run the request."""
    PUBLISHED = "published"
    """The provider's published rules."""
    TEXT = "text"
    """A text by its own tokenizer, where text is what is sent."""
    MARKERS = "markers"
    """A known vocabulary, with the markers of the common chat formats counted generously."""
    MARGIN = "margin"
    """The larger count of two vocabularies, and a margin of 15 %."""
    CHARS4 = "chars4"
    """Characters / 4, asked for by name."""


@dataclass(frozen=True, slots=True)
class Count:
    """The tokens of one request.

    ``total`` is the best figure. ``exact`` only if that is proven. ``at_most`` is a bound that the server's
    own count never passes; it equals ``total`` where that is exact. ``largest``: of several prompts, each of
    which has the context window for itself, the largest; None for one.
    """

    total: int
    exact: bool
    at_most: int
    by: By
    largest: int | None = None

    def __str__(self) -> str:
        return f"{'' if self.exact else '~'}{self.total:,}"

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {
            "total": self.total,
            "exact": self.exact,
            "at_most": self.at_most,
            "by": self.by.value,
        }
        return found if self.largest is None else {**found, "largest": self.largest}


@runtime_checkable
class RequestCounter(Protocol):
    """Counts a request whole, as its server will."""

    @property
    def identity(self) -> TokenizerIdentity: ...

    def count_request(self, request: Request) -> Count:
        """The count of the request. Raises ``TokenizerError`` or a typed error that names the place."""
        ...


class PartCost(NamedTuple):
    """What one part of a request adds to the count of the whole."""

    total: int
    at_most: int
    exact: bool


@runtime_checkable
class CountsPieces(Protocol):
    """A :class:`RequestCounter` whose count is the sum of the messages' costs and of what is around them."""

    def piece(self, message: Message) -> PartCost: ...

    def frame(self, request: Request) -> PartCost:
        """What the request costs without its messages."""
        ...


class RunningCount(Protocol):
    """The running count of one conversation: what did not change is not counted again.

    Items (messages, of whatever API) are known by the numbers that the caller gives them, in rising order.
    An error leaves the session as it was.
    """

    sums: bool
    """Whether a change costs as much as it changes. Otherwise every ``count`` is a count of the whole."""

    def frame(self, head: Sequence[Item], tools: Sequence[Object] = (), fields: Object | None = None) -> None:
        """What is sent beside the numbered items: the system prompt before them, tools, and other fields."""
        ...

    def add(self, number: int, item: Item) -> None: ...

    def replace(self, number: int, item: Item) -> None:
        """Another form of the item is sent in its place."""
        ...

    def remove(self, numbers: Collection[int]) -> None: ...

    def count(self) -> Count:
        """The count of the request with all that is here."""
        ...

    def total_with(self, changes: Mapping[int, Item | None]) -> int:
        """The total if items had another form, or had left (None)."""
        ...

    def size(self, number: int) -> int:
        """What this item adds, by itself."""
        ...

    def cost(self, item: Item) -> int:
        """What an item would add, by itself, that is not here."""
        ...


@runtime_checkable
class CountsSessions(Protocol):
    """A :class:`RequestCounter` that counts a conversation faster than request by request."""

    def session(self) -> RunningCount: ...
