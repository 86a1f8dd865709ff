"""How a conversation is counted: by the texts of its messages, or as the whole request that is sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from tokenbox.compose.counting import Counter
from tokenbox.content.message import Message, Part, UndeclaredCost
from tokenbox.errors import TokenizerError
from tokenbox.tokenizers.registry import as_tokenizer

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer, TokenizerIdentity


@runtime_checkable
class RequestCounter(Protocol):
    """Counts a request whole, as :class:`tokenbox.ChatFormat` does."""

    @property
    def identity(self) -> TokenizerIdentity: ...

    def count_messages(
        self,
        messages: Sequence[Message | Mapping[str, object]],
        tools: Sequence[Mapping[str, object]] | None = None,
        *,
        add_generation_prompt: bool = True,
    ) -> int: ...


Count = "str | Tokenizer | RequestCounter | Callable[[str], int] | None"
"""What counts: a tokenizer's name, a tokenizer, any function from a text to its count, or a
:class:`RequestCounter`, which counts markers and tools too. None is characters / 4, an estimate."""

MediaTokens = int | Callable[[Part], int] | None
"""What an image, a file or a recording costs that does not say so itself; None if nobody knows."""

ESTIMATE = "chars4"


class TextPricing:
    """Each message costs the count of its text, its calls and its declared media; markers are not counted."""

    def __init__(self, tokenizer: Tokenizer, media_tokens: MediaTokens) -> None:
        self._tokenizer = tokenizer
        self._counter = Counter(tokenizer)
        self._media_tokens = media_tokens

    @property
    def identity(self) -> TokenizerIdentity:
        return self._tokenizer.identity

    def sizes(self, messages: Sequence[Message]) -> list[int]:
        """What each message counts. Raises ``TokenizerError`` or :class:`UndeclaredCost`."""
        media = [sum(map(self._declared, message.media)) for message in messages]
        texts = [message.counted_text for message in messages]
        places = [place for place, text in enumerate(texts) if text]
        for place, count in zip(places, self._counter.count_all([texts[p] for p in places]), strict=True):
            media[place] += count
        return media

    def text(self, text: str) -> int:
        return self._counter.count(text)

    def tools(self, tools: Sequence[Mapping[str, object]] | None) -> int:
        """The count of the tools' schemas as JSON."""
        return self.text(json.dumps(list(tools), ensure_ascii=False)) if tools else 0

    def _declared(self, part: Part) -> int:
        if part.tokens is not None:
            return part.tokens
        given = self._media_tokens
        cost = given(part) if callable(given) else given
        if cost is None:
            raise UndeclaredCost(
                f"nobody has said what this {part.kind.value} costs. Add "
                '"tokens": N to the part, or give media_tokens, a number or a function of the part.',
                kind=part.kind.value,
            )
        if type(cost) is not int or cost < 0:
            raise TokenizerError(f"media_tokens gave {cost!r}; a count is an integer, 0 or more.")
        return cost


def text_pricing(count: object, media_tokens: MediaTokens) -> TextPricing:
    """The pricing by a counter of texts."""
    value = ESTIMATE if count is None else count
    return TextPricing(as_tokenizer(value), media_tokens)  # type: ignore[arg-type]  # it checks


def identity_of(count: object) -> TokenizerIdentity:
    """Who counts."""
    if is_request_counter(count):
        return cast("RequestCounter", count).identity
    return text_pricing(count, None).identity


def is_request_counter(count: object) -> bool:
    """Whether ``count`` counts whole requests."""
    return callable(getattr(count, "count_messages", None))


def message_sizes(counter: RequestCounter, messages: Sequence[Message]) -> list[int]:
    """What each message counts alone: by the counter's own ``message_sizes``, else as a request of one."""
    own = getattr(counter, "message_sizes", None)
    if callable(own):
        return list(own(messages))
    return [counter.count_messages([message], add_generation_prompt=False) for message in messages]
