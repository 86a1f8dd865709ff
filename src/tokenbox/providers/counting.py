"""Counts, and who made them: the server if it can and may be asked, a local tokenizer, or ``chars4``.

Counting a text never fails and never stops the flow; a count that is not exact says so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from tokenbox import tokenizers
from tokenbox.providers.request import calls_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tokenbox.providers.request import ChatRequest
    from tokenbox.providers.target import Target

# What OpenAI's cookbook has for its own models: tokens around each message, and to prime the reply.
_PER_MESSAGE: Final = 4
_PRIMING: Final = 3


@dataclass(frozen=True, slots=True)
class TokenCount:
    """A number of tokens. ``source`` says who counted; ``str`` has a ``~`` if it is an estimate."""

    value: int
    exact: bool
    source: str

    def __str__(self) -> str:
        return f"{'' if self.exact else '~'}{self.value:,}"

    def to_dict(self) -> dict[str, object]:
        return {"value": self.value, "exact": self.exact, "source": self.source}


class RequestCounter(Protocol):
    """Counts a request whole, here: a chat template with the model's tokenizer."""

    @property
    def exact(self) -> bool: ...

    def count_messages(
        self, messages: Sequence[Any], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> int: ...


NOTHING: Final = TokenCount(0, exact=True, source="empty text")


def as_text(text: object) -> str:
    """Whatever is given, as a text: None is nothing, and the rest is what it shows as."""
    if isinstance(text, str):
        return text
    try:
        return "" if text is None else str(text)
    except Exception:  # noqa: BLE001  # it is somebody's object, and a count must not stop the flow
        return object.__repr__(text)


def is_unicode(text: str) -> bool:
    """Whether ``text`` can be sent: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def local_count(text: str, target: Target) -> TokenCount:
    """The count of ``text`` without a server. Never raises."""
    if not text:
        return NOTHING
    if target.tokenizer is not None:
        try:
            tokenizer = tokenizers.get(target.tokenizer)
            return TokenCount(
                tokenizer.count(text), tokenizer.identity.exact, f"tokenizer {target.tokenizer}"
            )
        except Exception:  # noqa: BLE001, S110  # a missing vocabulary must not stop the flow
            pass
    return chars4(text)


def chars4(text: str) -> TokenCount:
    """Characters / 4, as the tokenizer ``chars4`` has it; also for what is no valid Unicode."""
    size = len(text.encode("utf-8", "surrogatepass"))
    return TokenCount(max(1, size // 4) if size else 0, exact=False, source="chars4")


def local_request_count(request: ChatRequest, target: Target, counter: RequestCounter | None) -> TokenCount:
    """The count of a whole request without a server. Without a ``counter`` it is an estimate."""
    if counter is not None:
        try:
            value = counter.count_messages(request.messages, list(request.tools) or None)
            return TokenCount(value, counter.exact, "chat template")
        except Exception:  # noqa: BLE001, S110  # a template may refuse what the server takes
            pass
    texts = [text for message in request.messages for text in _texts(message)]
    texts += [json.dumps(tool, ensure_ascii=False, default=str) for tool in request.tools]
    counts = [local_count(text, target) for text in texts]
    names = " and ".join(sorted({count.source for count in counts if count.value})) or "chars4"
    total = sum(count.value for count in counts) + _PER_MESSAGE * len(request.messages) + _PRIMING
    return TokenCount(total, exact=False, source=f"{names}, by message")


def _texts(message: Mapping[str, Any]) -> list[str]:
    return [
        str(message["role"]),
        text_of(message.get("content")),
        as_text(message.get("name")),
        *(part for call in calls_of(message) for part in call[1:]),
    ]
