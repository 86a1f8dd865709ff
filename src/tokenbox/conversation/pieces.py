"""Counters of requests, those that add up its parts, and the running count of a conversation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from tokenbox.compose.bound import Bound
from tokenbox.compose.lower_bound import lower_bound
from tokenbox.compose.requests import (
    By,
    Count,
    CountsSessions,
    PartCost,
    RequestCounter,
    RunningCount,
    count_by,
)
from tokenbox.content.message import Frozen, Message, Object, Part, Role, UndeclaredCost
from tokenbox.content.request import NO_FIELDS, Request, read_request
from tokenbox.conversation.image_costs import ImageCost, media_estimate
from tokenbox.errors import TokenboxError
from tokenbox.integers import given_count
from tokenbox.tokenizers.protocol import Opened
from tokenbox.tokenizers.registry import UNKNOWN, get

if TYPE_CHECKING:
    from tokenbox.content.items import Item
    from tokenbox.tokenizers.protocol import Tokenizer, TokenizerIdentity

MediaTokens = int | Callable[[Part], int] | Literal["declared"] | None
"""The tokens of an image, a file or a recording: a number, or a function of the part. ``"declared"`` uses the
part's key ``tokens``; only for parts that you wrote yourself, since a client may write any number. None is an
estimate by the rule of the model's images."""


class CountsMessages(Opened, ABC):
    """A request counter that accepts messages and tools as they are."""

    identity: TokenizerIdentity

    @abstractmethod
    def count_request(self, request: Request) -> Count:
        """Return the count of a complete request."""

    @property
    def exact(self) -> bool:
        return self.identity.exact

    def count_messages(
        self,
        messages: Sequence[Any],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = True,  # a request always has it
    ) -> int:
        return self.count_request(read_request(list(messages), tools=tools)).total


class CountsMedia(CountsMessages):
    """A request counter to which the caller may tell the costs of images and files."""

    media_tokens: MediaTokens = None
    image_cost: ImageCost | None = None

    def priced(self, media_tokens: MediaTokens) -> Self:
        """Return the same counter with these costs of images and files."""
        if media_tokens is None:
            return self
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, media_tokens=media_tokens, opened_by=None)
        return other

    def media(self, message: Message) -> int:
        """Return the cost of the images and files of a message. Raises :class:`UndeclaredCost`."""
        return sum(map(self._media_part, message.media))

    def _media_part(self, part: Part) -> int:
        given = self.media_tokens
        if given == "declared":
            cost = part.tokens
        elif callable(given):
            cost = given(part)
        else:
            cost = media_estimate(part.source, self.image_cost) if given is None else given
        if cost is None:
            raise UndeclaredCost(
                f'this {part.kind.value} does not declare its cost. Add "tokens": N to the part, or give '
                "media_tokens as a number or as a function of the part.",
                kind=part.kind.value,
            )
        return given_count(cost, "media_tokens")


class PieceCounter(CountsMedia):
    """A counter that counts each message separately, plus a frame. Subclasses define the rules.

    Thread-safe, as tokenizers are.
    """

    by: By

    def __init__(
        self, tokenizer: Tokenizer, media_tokens: MediaTokens = None, image_cost: ImageCost | None = None
    ) -> None:
        self.tokenizer = tokenizer
        self.media_tokens = media_tokens
        self.image_cost = image_cost
        self.bound = Bound(tokenizer)

    @abstractmethod
    def piece(self, message: Message) -> PartCost:
        """Return the cost of a message. Raises ``TokenizerError``."""

    @abstractmethod
    def frame(self, request: Request) -> PartCost:
        """Return the cost of the request without its messages. A tool costs the same beside any others."""

    @abstractmethod
    def prompt(self, prompt: str | tuple[int | str, ...]) -> PartCost:
        """Return the cost of one prompt of a completion or an embedding."""

    def count_request(self, request: Request) -> Count:
        if request.prompts:
            return self._count_prompts(request)
        pieces = [self.piece(message) for message in request.messages]
        last = request.messages[-1] if request.messages else None
        return self.whole([self.frame(request), *pieces, *self._converted(request, pieces)], last)

    def _converted(self, request: Request, pieces: Sequence[PartCost]) -> list[PartCost]:
        """Return what each converted item costs beside its messages."""
        if not request.raw:
            return []
        totals: Counter[int | None] = Counter()
        for place, cost in zip(request.places, pieces, strict=True):
            totals[place] += cost.total
        return [
            PartCost(self.unshown(raw, totals[place]), 0, exact=False)
            for place, raw in zip(request.raw_places, request.raw, strict=True)
        ]

    def least(self, value: Object) -> int:
        """Return a lower bound that includes every text, even those that the rules ignore."""
        return lower_bound(value, self.tokenizer)

    def unshown(self, raw: Frozen, shown: int) -> int:
        """Return the tokens of a converted item's texts that exceed those of the messages read from it.

        Some texts have no place in a chat message, such as reasoning that is encrypted, and some images, such
        as those that an item of an unknown shape holds.
        """
        media = media_estimate(raw, self.image_cost) if self.media_tokens is None else 0
        return max(0, lower_bound(raw, self.tokenizer) + media - shown)

    def whole(self, costs: Iterable[PartCost], last: Message | None) -> Count:
        """Return the count of a request of these parts, whose last message is ``last``."""
        total = at_most = 0
        # No provider publishes the cost of an answer that the model is to continue.
        exact = last is None or last.role is not Role.ASSISTANT or bool(last.tool_calls)
        for cost in costs:
            total += cost.total
            at_most += cost.at_most
            exact = exact and cost.exact
        return Count(total, exact, total if exact else max(total, at_most), self.by)

    def session(self) -> RunningCount:
        return PieceSession(self)

    def _count_prompts(self, request: Request) -> Count:
        costs = [self.prompt(prompt) for prompt in request.prompts]
        frame = _NOTHING
        if request.fields:
            fields = self.frame(request)
            frame = PartCost(fields.total, fields.at_most, exact=False)
        count = self.whole([frame, *costs], None)
        if len(costs) == 1:
            return count
        largest = max(cost.total for cost in costs) + frame.total
        return Count(count.total, count.exact, count.at_most, count.by, largest)


_NOTHING: Final = PartCost(0, 0, exact=True)


class PieceSession:
    """The running count of a conversation by a :class:`PieceCounter`, which counts each message once."""

    sums = True

    def __init__(self, counter: PieceCounter) -> None:
        self._counter = counter
        self._head: tuple[Item, ...] = ()
        self._fixed: list[PartCost] = [counter.frame(Request())]
        self._costs: dict[int, PartCost] = {}
        self._last: dict[int, Message | None] = {}
        self._total = self._at_most = self._inexact = 0
        self._count: Count | None = None

    def frame(self, head: Sequence[Item], tools: Sequence[Object] = (), fields: Object = NO_FIELDS) -> None:
        frame = self._counter.frame(Request(tools=tuple(tools), fields=fields))
        self._fixed = [frame, *map(self._cost, head)]
        self._head, self._count = tuple(head), None

    def add(self, number: int, item: Item) -> None:
        cost, before = self._cost(item), self._costs.get(number, _NOTHING)
        self._count = None
        self._costs[number] = cost
        self._last[number] = item.messages[-1] if item.messages else None
        self._total += cost.total - before.total
        self._at_most += cost.at_most - before.at_most
        self._inexact += before.exact - cost.exact

    replace = add

    def remove(self, numbers: Collection[int]) -> None:
        self._count = None
        for number in numbers:
            cost = self._costs.pop(number)
            del self._last[number]
            self._total -= cost.total
            self._at_most -= cost.at_most
            self._inexact -= not cost.exact

    def count(self) -> Count:
        if self._count is None:
            head = [message for item in self._head for message in item.messages]
            last = next(reversed(self._last.values()), head[-1] if head else None)
            window = PartCost(self._total, self._at_most, not self._inexact)
            self._count = self._counter.whole([*self._fixed, window], last)
        return self._count

    def total_with(self, changes: Mapping[int, Item | None]) -> int:
        before = sum(self._costs[number].total for number in changes)
        after = sum(self._cost(item).total for item in changes.values() if item is not None)
        return self._total - before + after + sum(cost.total for cost in self._fixed)

    def size(self, number: int) -> int:
        return self._costs[number].total

    def cost(self, item: Item) -> int:
        return self._cost(item).total

    def _cost(self, item: Item) -> PartCost:
        costs = [self._counter.piece(message) for message in item.messages]
        total, at_most = sum(cost.total for cost in costs), sum(cost.at_most for cost in costs)
        if item.verbatim:
            return PartCost(total, at_most, all(cost.exact for cost in costs))
        total += self._counter.unshown(item.raw, total)
        return PartCost(total, at_most + self._counter.bound.beside(item.raw, item.messages), exact=False)


class WholeSession:
    """The running count of a conversation by any counter, which counts the complete request each time."""

    sums = False

    def __init__(self, counter: RequestCounter) -> None:
        self._counter = counter
        self._head: tuple[Item, ...] = ()
        self._tools: tuple[Object, ...] = ()
        self._fields = NO_FIELDS
        self._items: dict[int, Item] = {}
        self._count: Count | None = None

    def frame(self, head: Sequence[Item], tools: Sequence[Object] = (), fields: Object = NO_FIELDS) -> None:
        self._head, self._tools, self._fields = tuple(head), tuple(tools), fields
        self._count = None

    def add(self, number: int, item: Item) -> None:
        self._items[number] = item
        self._count = None

    replace = add

    def remove(self, numbers: Collection[int]) -> None:
        for number in numbers:
            del self._items[number]
        self._count = None

    def count(self) -> Count:
        if self._count is None:
            self._count = self._counted(self._request({}))
        return self._count

    def total_with(self, changes: Mapping[int, Item | None]) -> int:
        return self._counted(self._request(changes)).total if changes else self.count().total

    def size(self, number: int) -> int:
        return self.cost(self._items[number])

    def cost(self, item: Item) -> int:
        """Return the size of an item by the counter's ``item_size``, else as a request of its own."""
        own = getattr(self._counter, "item_size", None)
        if callable(own):
            return given_count(own(item), "item_size")
        try:
            return self._counted(Request.of_read([item])).total
        except TokenboxError:  # a template may require a question before an answer
            return sum(get(UNKNOWN).count_batch([message.counted_text for message in item.messages]))

    def _counted(self, request: Request) -> Count:
        return count_by(self._counter, request)

    def _request(self, changes: Mapping[int, Item | None]) -> Request:
        shown = (changes.get(number, item) for number, item in self._items.items())
        present = [item for item in shown if item is not None]
        return Request.of_read([*self._head, *present], self._tools, self._fields)


def open_session(counter: RequestCounter) -> RunningCount:
    """Start the running count of a conversation, by the fastest way that the counter supports."""
    return counter.session() if isinstance(counter, CountsSessions) else WholeSession(counter)
