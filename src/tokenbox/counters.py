"""The counters that a model or a tokenizer names, and the count of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tokenbox.compose.bound import count_of_text
from tokenbox.compose.messages import are_messages
from tokenbox.compose.remembered import COUNTS
from tokenbox.compose.requests import Count, Counts, RequestCounter, is_request_counter
from tokenbox.errors import TokenizerError, shown
from tokenbox.tokenizers.registry import FILE_PREFIX, UNKNOWN, as_tokenizer, get, is_builtin

if TYPE_CHECKING:
    from tokenbox.content.section import Section
    from tokenbox.conversation.pieces import MediaTokens
    from tokenbox.models import Counters
    from tokenbox.tokenizers.protocol import Tokenizer


def request_counter(
    model: str | None,
    tokenizer: Counts | None = None,
    *,
    media_tokens: MediaTokens = None,
    markers: bool = True,
) -> RequestCounter:
    """Return the counter of requests for a model or a tokenizer. Raises a ``TokenizerError``."""
    # A text is counted without chat formats, which take as long to load as all the rest.
    from tokenbox.conversation.image_costs import image_cost
    from tokenbox.conversation.markers import MarkersFormat
    from tokenbox.conversation.pieces import CountsMedia

    if not markers:
        named = tokenizer if isinstance(tokenizer, str) and is_model(tokenizer) else model
        return MarkersFormat(
            text_counter(model, tokenizer),
            markers=False,
            media_tokens=media_tokens,
            image_cost=image_cost(named),
        )
    if model is None and tokenizer is None:
        return MarkersFormat(get(UNKNOWN), media_tokens=media_tokens)
    counter = _counters(model, tokenizer).counter
    return counter.priced(media_tokens) if isinstance(counter, CountsMedia) else counter


def text_counter(model: str | None, tokenizer: Counts | None) -> Tokenizer:
    """Return the tokenizer for a model or a tokenizer's name. Raises a ``TokenizerError``."""
    if model is None and tokenizer is None:
        return get(UNKNOWN)
    if model is None and not is_model(tokenizer) and not is_request_counter(tokenizer):
        return as_tokenizer(tokenizer)  # type: ignore[arg-type]  # not None
    found = _counters(model, tokenizer).tokenizer
    if found is None:
        raise TokenizerError("this model counts requests, not texts. Give messages, or name a tokenizer.")
    return found


def _counters(model: str | None, tokenizer: Counts | None) -> Counters:
    from tokenbox.models import Counting, counters_for  # the catalog is loaded on use

    # A program may take a model's name from others. A file that it names is never opened.
    if tokenizer is None and isinstance(model, str) and model.startswith(FILE_PREFIX):
        raise TokenizerError(f"{shown(model)} names a file, not a model. Give it as the tokenizer.")
    return counters_for(model, Counting(named=tokenizer))


def counter_of_model(name: str) -> RequestCounter | None:
    """Return the counter of requests to the model ``name``, or None if it names neither a model nor files."""
    return _counters(None, name).counter if counts_requests(name) else None


def counts_requests(tokenizer: object) -> bool:
    """Return whether the argument for a tokenizer names a model, or files, which may be a model's own."""
    return is_model(tokenizer) or (isinstance(tokenizer, str) and tokenizer.startswith(FILE_PREFIX))


def is_model(tokenizer: object) -> bool:
    """Return whether the argument for a tokenizer is the name of a model."""
    if not isinstance(tokenizer, str) or is_builtin(tokenizer) or tokenizer.startswith(FILE_PREFIX):
        return False
    from tokenbox.models import names_model  # the catalog is loaded on use

    return names_model(tokenizer)


def section_counter(
    sections: Sequence[Section], model: str | None, tokenizer: Counts | None
) -> Tokenizer | RequestCounter:
    """Return the counter of sections: of messages if all have a role, else of texts."""
    if is_request_counter(tokenizer) and (model is None or are_messages(sections)):
        return tokenizer
    if model is None and not counts_requests(tokenizer):
        return text_counter(None, tokenizer)  # before the roles are read, for which sections may be made
    format_ = chat_format(model, tokenizer) if are_messages(sections) else None
    return text_counter(model, tokenizer) if format_ is None else format_


def chat_format(model: str | None, tokenizer: Counts | None) -> RequestCounter | None:
    """Return the counter of requests for a model or a chat format; None if neither is named.

    A model's own files name its chat format. A vocabulary or a function alone counts texts.
    """
    if model is None and not counts_requests(tokenizer):
        return None  # the catalog need not be loaded
    found = _counters(model, tokenizer)
    return found.counter if found.has_format else None


def count_text(text: str, tokenizer: Tokenizer) -> Count:
    """Count the tokens of a text, and remember the count."""
    return count_of_text(text, COUNTS.each(tokenizer, [text])[0] if text else 0, tokenizer)
