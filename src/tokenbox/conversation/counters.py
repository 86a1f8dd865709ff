"""The choice of a request counter from a caller's ``count`` and ``model``."""

from __future__ import annotations

from typing import cast

from tokenbox.compose.requests import Counts, RequestCounter, is_request_counter
from tokenbox.conversation.markers import MarkersFormat
from tokenbox.conversation.pieces import CountsMedia, MediaTokens
from tokenbox.lookups import counter_of_model, request_counter
from tokenbox.tokenizers.protocol import Tokenizer
from tokenbox.tokenizers.registry import UNKNOWN, as_tokenizer, get, is_builtin


def counter_of(
    count: Counts | None, model: str | None = None, *, markers: bool = True, media_tokens: MediaTokens = None
) -> RequestCounter:
    """Return the counter of requests to ``model``, or else of ``count``. Raises a ``TokenizerError``."""
    if model is not None:
        return cast(
            "RequestCounter", request_counter(model, count, markers=markers, media_tokens=media_tokens)
        )
    named: RequestCounter | None = None
    if isinstance(count, str) and not is_builtin(count):
        named = counter_of_model(count)
    counter = count if named is None else named
    if isinstance(counter, CountsMedia):
        counter = counter.priced(media_tokens)
    if not is_request_counter(counter):
        tokenizer = as_tokenizer(UNKNOWN if counter is None else counter)
        return MarkersFormat(tokenizer, markers=markers, media_tokens=media_tokens)
    if markers:
        return counter
    images = counter.image_cost if isinstance(counter, CountsMedia) else None
    return MarkersFormat(tokenizer_of(counter), markers=False, media_tokens=media_tokens, image_cost=images)


def tokenizer_of(counter: RequestCounter) -> Tokenizer:
    """Return the counter's own tokenizer, else the one for unknown models."""
    own = getattr(counter, "tokenizer", None)
    return own if isinstance(own, Tokenizer) else get(UNKNOWN)
