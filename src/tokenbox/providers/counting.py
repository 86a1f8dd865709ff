"""Counts, and who made them: the server if it can and may be asked, a local tokenizer, or ``chars4``.

Counting a text never fails and never stops the flow; a count that is not exact says so.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tokenbox import tokenizers
from tokenbox.content.request import read_request
from tokenbox.models import Counting, counters_for

if TYPE_CHECKING:
    from tokenbox.compose.requests import RequestCounter
    from tokenbox.providers.request import ChatRequest
    from tokenbox.providers.target import Target


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
    """Characters / 4, as the tokenizer ``chars4`` has it; also for what is not valid Unicode."""
    size = len(text.encode("utf-8", "surrogatepass"))
    return TokenCount(max(1, size // 4) if size else 0, exact=False, source="chars4")


def local_request_count(request: ChatRequest, target: Target, counter: RequestCounter | None) -> TokenCount:
    """The count of a whole request without a server. Never raises.

    ``counter`` counts, else what :mod:`tokenbox.models` resolves for the target, in its one order.
    """
    messages, tools = list(request.messages), list(request.tools) or None
    for named in (target.tokenizer, None):
        with suppress(Exception):  # a template may refuse what the server takes; a vocabulary may be missing
            who = counter or _counter(target.model, named)
            found = who.count_request(read_request(messages, tools=tools, strict=False))
            return TokenCount(found.total, found.exact, found.by.value)
        counter = None
    return chars4(json.dumps([messages, tools], ensure_ascii=False, default=str))


@lru_cache(maxsize=64)
def _counter(model: str, tokenizer: str | None) -> RequestCounter:
    return counters_for(model or _UNNAMED, Counting(named=tokenizer)).counter


_UNNAMED: Final = "unnamed"
