"""The token count of a request, with its source and an upper bound, and the protocols of counters.

Every count of messages goes through a :class:`RequestCounter`. The chat formats in
:mod:`tokenbox.conversation` implement it, and :mod:`tokenbox.models` chooses among them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from tokenbox.errors import TokenizerError, shown
from tokenbox.integers import MAX_INTEGER, given_count
from tokenbox.records import to_record
from tokenbox.tokenizers.protocol import Tokenizer

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from tokenbox.content.items import Item
    from tokenbox.content.message import Message, Object
    from tokenbox.content.request import Request
    from tokenbox.tokenizers.protocol import TokenizerIdentity


NO_BOUND: Final = MAX_INTEGER
"""The ``at_most`` of a request with input that only the server knows."""


class By(StrEnum):
    """The source of a count, in order of preference."""

    TEMPLATE = "template"
    """A local chat template and vocabulary, both in the table of verified ones."""
    SERVER = "server"
    """The endpoint that will run the request."""
    PUBLISHED = "published"
    """The provider's published rules."""
    TEXT = "text"
    """The tokenizer, for a request that is plain text."""
    MARKERS = "markers"
    """A known vocabulary, plus a generous estimate of chat markers."""
    MARGIN = "margin"
    """The larger count of two vocabularies, plus a margin of 15 %."""
    CHARS4 = "chars4"
    """Characters / 4, only on explicit request."""


@dataclass(frozen=True, slots=True)
class Count:
    """The tokens of one request.

    ``total``: the best available count. ``exact``: whether that is proven to be the server's count.
    ``at_most``: an upper bound that the server's own count never exceeds; it equals an exact ``total``. It is
    :data:`NO_BOUND` if the request refers to input that only the server knows.
    ``largest``: the count of the largest of several prompts, since each has its own context window; None for
    a single prompt.
    """

    total: int
    exact: bool
    at_most: int
    by: By
    largest: int | None = None

    def __str__(self) -> str:
        return f"{'' if self.exact else '~'}{self.total:,}"

    def to_dict(self) -> dict[str, object]:
        return to_record(self, "total exact at_most by largest?")


def checked_count(given: object) -> Count:
    """Return what a counter of requests gave. Raises ``TokenizerError`` if a caller's own gave no count."""
    if not isinstance(given, Count):
        raise TokenizerError(f"the counter of requests gave {shown(given)}, not a Count.")
    for figure in (given.total, given.at_most):
        given_count(figure, "the counter of requests")
    if not isinstance(given.exact, bool):
        raise TokenizerError(f"the counter of requests gave exact={shown(given.exact)}, not True or False.")
    return given


def count_by(counter: RequestCounter, request: Request) -> Count:
    """Return the count of a request by any counter. Raises ``TokenizerError`` if it gave no count."""
    return checked_count(counter.count_request(request))


def with_unseen(count: Count, request: Request) -> Count:
    """Return the count of a request, without an upper bound if only the server knows some of its input."""
    if count.exact:
        return count
    from tokenbox.content.unseen import unseen_of  # on use: a layout needs none of it

    if unseen_of(request) is None:
        return count
    return replace(count, at_most=NO_BOUND)


class RequestCounter(Protocol):
    """A counter of whole requests, as their server counts them."""

    @property
    def identity(self) -> TokenizerIdentity: ...

    def count_request(self, request: Request) -> Count:
        """Count the request. Raises ``TokenizerError``, or an error that names the position."""
        ...


Counts: TypeAlias = str | Tokenizer | RequestCounter | Callable[[str], int]
"""A source of token counts, as callers name it: a name from ``tokenbox tokenizers``, ``file:PATH``, a model's
name, a tokenizer, any function from a text to its count, or a chat format, which counts whole requests. A
counter of texts counts requests with the markers of the common chat formats added. Where None is allowed, it
is the larger count of two vocabularies plus 15 %, an estimate."""


class PartCost(NamedTuple):
    """The tokens that one part adds to the count of a request."""

    total: int
    at_most: int
    exact: bool


def is_request_counter(counter: object) -> TypeIs[RequestCounter]:
    """Return whether this counts requests. ``isinstance`` with a protocol takes ten times longer."""
    return callable(getattr(counter, "count_request", None)) and hasattr(counter, "identity")


@runtime_checkable
class CountsPieces(Protocol):
    """A :class:`RequestCounter` whose count is the sum of its messages' counts and a frame."""

    def piece(self, message: Message) -> PartCost: ...

    def frame(self, request: Request) -> PartCost:
        """Count the request without its messages."""
        ...


class RunningCount(Protocol):
    """The running count of one conversation. Unchanged items are not counted again.

    The caller identifies items by increasing numbers. An error leaves the count unchanged.
    """

    sums: bool
    """Whether ``count`` takes time proportional to the change. Otherwise it counts the whole each time."""

    def frame(self, head: Sequence[Item], tools: Sequence[Object] = (), fields: Object = ...) -> None:
        """Set the rest of the request: the system prompt before the items, tools and other fields."""
        ...

    def add(self, number: int, item: Item) -> None: ...

    def replace(self, number: int, item: Item) -> None:
        """Replace the item with another form of it."""
        ...

    def remove(self, numbers: Collection[int]) -> None: ...

    def count(self) -> Count:
        """Return the count of the request."""
        ...

    def total_with(self, changes: Mapping[int, Item | None]) -> int:
        """Return the total with these items replaced, or removed (None)."""
        ...

    def size(self, number: int) -> int:
        """Return the count of this item alone."""
        ...

    def cost(self, item: Item) -> int:
        """Return the count of an item that is not in the conversation."""
        ...


@runtime_checkable
class CountsSessions(Protocol):
    """A :class:`RequestCounter` that can count a growing conversation incrementally."""

    def session(self) -> RunningCount: ...
