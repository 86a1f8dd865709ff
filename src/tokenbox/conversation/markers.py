"""Requests counted with a bare vocabulary: texts plus generous allowances for the markers of chat formats.

A budget that is met by these figures is also met by the counts of the formats of GPT-4o, Llama 3 and Qwen
with the same vocabulary (tests/conversation/test_markers.py). The real cost is lower, so the figures are
marked ~.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tokenbox.compose.lower_bound import counts_of
from tokenbox.compose.remembered import COUNTS
from tokenbox.compose.requests import By, PartCost
from tokenbox.content.message import Frozen, Message, Object, Part, PartKind, thaw
from tokenbox.content.request import Request, texts_and_ids
from tokenbox.conversation.pieces import MediaTokens, PieceCounter
from tokenbox.tokenizers.estimates import Larger

if TYPE_CHECKING:
    from tokenbox.conversation.image_costs import ImageCost
    from tokenbox.tokenizers.protocol import Tokenizer, TokenizerIdentity

PER_REQUEST: Final = 64
"""Tokens for the start of a prompt, a template's own system prompt, and the start of the reply."""
PER_TOOLS: Final = 320
"""Tokens for a template's instructions on calling tools."""
PER_MESSAGE: Final = 8
"""Tokens for a message's role and the markers around it and after the text."""
PER_TEXT: Final = 4
"""Tokens around a further text of a message: a name, a thought, a field."""
PER_PART: Final = 16
"""Tokens around a part of a content, which some formats show literally: {'type': 'text', 'text': ...}."""
PER_CALL: Final = 32
"""Tokens around the name and arguments of a call, or around a result."""


class MarkersFormat(PieceCounter):
    """A request counter with a tokenizer of texts. ``markers=False`` counts the bare texts."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        markers: bool = True,
        media_tokens: MediaTokens = None,
        image_cost: ImageCost | None = None,
    ) -> None:
        super().__init__(tokenizer, media_tokens, image_cost)
        self.markers = markers
        self.by = _by(tokenizer) if markers else By.TEXT
        self._marker = 1 if markers else 0

    @property
    def identity(self) -> TokenizerIdentity:  # type: ignore[override]  # a tokenizer's may change
        """The tokenizer's identity, and the rule of the images if the model has one."""
        inner = self.tokenizer.identity
        if self.image_cost is None:
            return inner
        digest = hashlib.sha256(f"images/1:{inner.fingerprint}:{self.image_cost}".encode()).hexdigest()
        return replace(inner, fingerprint=digest)

    def piece(self, message: Message) -> PartCost:
        texts = [message.counted_text] if not self.markers else _texts(message)
        total = self._count(texts) + self.media(message)
        if self.markers:
            calls = len(message.tool_calls) + (message.role in Message.RESULT_ROLES)
            parts = 0 if message.content is None or isinstance(message.content, str) else len(message.content)
            total += PER_MESSAGE + PER_TEXT * len(texts[1:]) + PER_PART * parts + PER_CALL * calls
            if not _is_usual(message):
                total = max(total, self.least(message.source))
        return PartCost(total, max(total, self.bound.message(message)), exact=False)

    def frame(self, request: Request) -> PartCost:
        tools = request.tools
        # With markers, a tool is counted at its longest: some templates indent it, others escape it.
        texts = [_escaped(_as_json(one, indent=4)) if self.markers else _as_json(one) for one in tools]
        texts += [f"{name}: {_as_json(value, indent=4)}" for name, value in request.fields]
        total = self._count(texts)
        if self.markers:
            total += PER_REQUEST + (PER_TOOLS + PER_TEXT * len(texts) if texts else 0)
        return PartCost(total, max(total, self.bound.frame(request)), exact=False)

    def prompt(self, prompt: str | tuple[int | str, ...]) -> PartCost:
        """Count a prompt's texts as they are, plus one token before and after each that a server may add."""
        texts, ids = texts_and_ids(prompt)
        total = ids + self._count(texts) + 2 * self._marker
        return PartCost(total, max(total, self.bound.prompt(prompt)), exact=False)

    def _count(self, texts: Sequence[str]) -> int:
        count = counts_of if self.markers else COUNTS.each
        return sum(count(self.tokenizer, [text for text in texts if text]))


def _by(tokenizer: Tokenizer) -> By:
    if isinstance(tokenizer, Larger):
        return By.MARGIN
    return By.CHARS4 if tokenizer.identity.name == "chars4" else By.MARKERS


def _is_usual(message: Message) -> bool:
    """Return True for the usual shapes, all of whose texts are counted: others may hide some."""
    for key, value in message.source:
        if key == "content":
            known = isinstance(value, str | None) or all(map(_is_text, message.content or ()))
        elif key == "tool_calls":
            known = isinstance(value, tuple) and all(map(_is_call, value))
        else:
            known = key in _COUNTED and isinstance(value, str) and (key != _ID or len(value) <= _LONGEST_ID)
        if not known:
            return False
    return True


def _is_text(part: Part | str) -> bool:
    return not isinstance(part, str) and part.kind is PartKind.TEXT and len(part.source) == 2  # type and text


def _is_call(call: Frozen) -> bool:
    given = dict(call) if isinstance(call, Object) else {}
    if given.keys() != {"id", "type", "function"}:
        return False
    name, function = given["id"], given["function"]
    return (
        given["type"] == "function"
        and isinstance(name, str)
        and len(name) <= _LONGEST_ID
        and isinstance(function, Object)
        and dict(function).keys() == {"name", "arguments"}
    )


_ID: Final = "tool_call_id"
_LONGEST_ID: Final = 40
_COUNTED: Final = frozenset(("role", "name", _ID))


def _texts(message: Message) -> list[str]:
    """Return every text of a message that some format shows."""
    content = message.content
    texts = [content] if isinstance(content, str) else [part.text for part in content or ()]
    texts += [message.role.value, message.reasoning, message.name or ""]
    for call in message.tool_calls:
        texts += [call.name, _wider(call.arguments)]
    # Other keys may be shown by some format.
    texts += [f"{key}: {_as_json(value)}" for key, value in message.source if key not in _KNOWN]
    return [text for text in texts if text]


_KNOWN: Final = frozenset(
    """
    role content name tool_calls tool_call_id function_call reasoning_content reasoning id object type status
    refusal annotations audio cache_control index finish_reason provider_specific_fields
    """.split()
)


def _wider(arguments: str) -> str:
    """Return a call's arguments as given, or as some formats write them again, if longer."""
    try:
        again = json.dumps(json.loads(arguments), ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments
    return max(_escaped(again), arguments, key=len)


def _escaped(words: str) -> str:
    """Escape what Go's encoder of JSON does beside quotes and controls (Ollama)."""
    return words.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _as_json(value: Frozen, *, indent: int | None = None) -> str:
    return json.dumps(thaw(value), ensure_ascii=False, indent=indent)
