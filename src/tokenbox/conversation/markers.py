"""Requests counted with a bare vocabulary: texts, and the markers of the common chat formats, generously.

A budget that is held on these figures holds on what the formats of GPT-4o, Llama 3 and Qwen count with the
same vocabulary (tests/conversation/test_markers.py). What a request really costs is less, so it is marked ~.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tokenbox.compose.remembered import COUNTS
from tokenbox.compose.requests import By, PartCost
from tokenbox.content.message import Message, thaw
from tokenbox.conversation.pieces import PieceCounter
from tokenbox.tokenizers.estimates import Larger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.content.message import Frozen
    from tokenbox.content.request import Request
    from tokenbox.conversation.pieces import MediaTokens
    from tokenbox.tokenizers.protocol import Tokenizer, TokenizerIdentity

PER_REQUEST: Final = 64
"""What begins a prompt, the system prompt that a template has of its own, and what primes the reply."""
PER_TOOLS: Final = 320
"""How a template tells the model to call tools."""
PER_MESSAGE: Final = 8
"""The role and the markers around it and after the text."""
PER_TEXT: Final = 4
"""Around a text that stands beside others: a name, a thought, a field."""
PER_PART: Final = 16
"""Around a part of a content, which some formats show as it is written: {'type': 'text', 'text': ...}."""
PER_CALL: Final = 32
"""Around the name and arguments of a call, or a result."""


class MarkersFormat(PieceCounter):
    """Counts requests with a tokenizer of texts. ``markers=False`` counts the bare texts."""

    def __init__(
        self, tokenizer: Tokenizer, *, markers: bool = True, media_tokens: MediaTokens = None
    ) -> None:
        super().__init__(tokenizer, media_tokens)
        self.markers = markers
        self.by = _by(tokenizer) if markers else By.TEXT
        self._marker = 1 if markers else 0

    @property
    def identity(self) -> TokenizerIdentity:  # type: ignore[override]  # a tokenizer's may change
        return self.tokenizer.identity

    def piece(self, message: Message) -> PartCost:
        texts = [message.counted_text] if not self.markers else _texts(message)
        total = self._count(texts) + self.media(message)
        if self.markers:
            calls = len(message.tool_calls) + (message.role in Message.RESULT_ROLES)
            parts = 0 if message.content is None or isinstance(message.content, str) else len(message.content)
            total += PER_MESSAGE + PER_TEXT * len(texts[1:]) + PER_PART * parts + PER_CALL * calls
        return PartCost(total, max(total, self.bound.message(message)), exact=False)

    def frame(self, request: Request) -> PartCost:
        texts = [_as_json(tool, indent=4 if self.markers else None) for tool in request.tools]
        texts += [f"{name}: {_as_json(value, indent=4)}" for name, value in request.fields]
        total = self._count(texts)
        if self.markers:
            total += PER_REQUEST + (PER_TOOLS + PER_TEXT * len(texts) if texts else 0)
        return PartCost(total, max(total, self.bound.frame(request)), exact=False)

    def prompt(self, prompt: str | tuple[int | str, ...]) -> PartCost:
        """Texts are sent as they are; a server may put a token before and after each."""
        texts = [prompt] if isinstance(prompt, str) else [item for item in prompt if isinstance(item, str)]
        ids = 0 if isinstance(prompt, str) else len(prompt) - len(texts)
        total = ids + self._count(texts) + 2 * self._marker
        return PartCost(total, max(total, self.bound.prompt(prompt)), exact=False)

    def _count(self, texts: Sequence[str]) -> int:
        return sum(COUNTS.each(self.tokenizer, [text for text in texts if text]))


def _by(tokenizer: Tokenizer) -> By:
    if isinstance(tokenizer, Larger):
        return By.MARGIN
    return By.CHARS4 if tokenizer.identity.name == "chars4" else By.MARKERS


def _texts(message: Message) -> list[str]:
    """The texts of a message that some format shows. Arguments of calls as they are, and written again."""
    content = message.content
    texts = [content] if isinstance(content, str) else [part.text for part in content or ()]
    texts += [message.role.value, message.reasoning, message.name or ""]
    for call in message.tool_calls:
        texts += [call.name, _wider(call.arguments)]
    # Keys that no format here knows may be shown by another.
    texts += [f"{key}: {_as_json(value)}" for key, value in message.source if key not in _KNOWN]
    return [text for text in texts if text]


_KNOWN: Final = frozenset(
    """
    role content name tool_calls tool_call_id function_call reasoning_content reasoning id object type status
    refusal annotations audio cache_control index finish_reason provider_specific_fields
    """.split()  # noqa: SIM905  # names read best as words
)


def _wider(arguments: str) -> str:
    """The arguments of a call as formats write them that read them first: with a space after each mark."""
    try:
        again = json.dumps(json.loads(arguments), ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments
    return max(again, arguments, key=len)


def _as_json(value: Frozen, *, indent: int | None = None) -> str:
    return json.dumps(thaw(value), ensure_ascii=False, indent=indent)
