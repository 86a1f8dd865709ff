"""Counts with their source: the server if it supports and permits them, a local tokenizer, or ``chars4``.

Counting a text never raises; an estimate is marked as such.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tokenbox import tokenizers
from tokenbox.content.request import read_request
from tokenbox.models import Counting, counters_for, is_openai
from tokenbox.records import AsRecord

if TYPE_CHECKING:
    from tokenbox.compose.requests import RequestCounter
    from tokenbox.providers.request import ChatRequest
    from tokenbox.providers.target import Target


@dataclass(frozen=True, slots=True)
class TokenCount(AsRecord):
    """A number of tokens and its ``source``. ``str`` marks an estimate with ``~``."""

    value: int
    exact: bool
    source: str

    def __str__(self) -> str:
        return f"{'' if self.exact else '~'}{self.value:,}"


CHARS4: Final = "chars4"
"""The source of the last resort."""
NOTHING: Final = TokenCount(0, exact=True, source="empty text")


def as_text(text: object) -> str:
    """Convert any object to text; None is empty."""
    if isinstance(text, str):
        return text
    try:
        return "" if text is None else str(text)
    except Exception:  # noqa: BLE001  # any error of a foreign object: a count never raises
        return object.__repr__(text)


def is_unicode(text: str) -> bool:
    """Return whether ``text`` can be sent, without lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def local_count(text: str, target: Target) -> TokenCount:
    """Count ``text`` without a server. Never raises."""
    if not text:
        return NOTHING
    if target.tokenizer is not None:
        with suppress(Exception):  # such as a missing vocabulary: fall back to chars4
            tokenizer = tokenizers.get(target.tokenizer)
            source = f"tokenizer {target.tokenizer}"
            return TokenCount(tokenizer.count(text), tokenizer.identity.exact, source)
    return chars4(text)


def chars4(text: str) -> TokenCount:
    """Estimate the tokens like the tokenizer ``chars4``, also for invalid Unicode."""
    size = len(text.encode("utf-8", "surrogatepass"))
    return TokenCount(max(1, size // 4) if size else 0, exact=False, source=CHARS4)


def local_request_count(request: ChatRequest, target: Target, counter: RequestCounter | None) -> TokenCount:
    """Count a request without a server. Never raises.

    Uses ``counter``, or the one that :mod:`tokenbox.models` resolves for the target.
    """
    messages, tools = list(request.messages), list(request.tools) or None
    for named in (target.tokenizer, None):
        with suppress(Exception):  # a template may reject the request; a vocabulary may be missing
            used = counter or _counter(target.model, named, is_openai(target.endpoint, target.kind))
            found = used.count_request(read_request(messages, tools=tools, strict=False))
            return TokenCount(found.total, found.exact, found.by.value)
        counter = None
    return chars4(json.dumps([messages, tools], ensure_ascii=False, default=str))


@lru_cache(maxsize=64)
def _counter(model: str, tokenizer: str | None, at_openai: bool) -> RequestCounter:  # noqa: FBT001  # a key
    return counters_for(model or "unnamed", Counting(named=tokenizer, at_openai=at_openai)).counter
