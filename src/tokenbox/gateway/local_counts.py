"""Count a request in this process, by the model's counter. A proof replays these counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tokenbox.compose.lower_bound import lower_bound
from tokenbox.content.message import InvalidMessage
from tokenbox.content.request import costly, read_request
from tokenbox.conversation.markers import BYTES_PER_TOKEN, MarkersFormat
from tokenbox.errors import TokenboxError
from tokenbox.tokenizers.registry import get
from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count
    from tokenbox.content.request import Request
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.models import ModelUse
    from tokenbox.tokenizers.protocol import Tokenizer


def request_of(call: ApiCall) -> Request:
    """Return the request in the shape common to all APIs. Raises :class:`InvalidMessage`."""
    return read_request(call.body, api=call.protocol.api, strict=False)


def count_locally(call: ApiCall, use: ModelUse) -> Count:
    """Count in this process. An estimate is at least the tokens of the request's own texts."""
    count = _count(request_of(call), use)
    return count if count.exact else at_least_its_texts(count, call, use)


def at_least_its_texts(count: Count, call: ApiCall, use: ModelUse) -> Count:
    """Return an estimate of at least the tokens of the request's own texts.

    A public name does not prove that the server has this vocabulary: the tokens of another are counted by
    bytes, too.
    """
    least = lower_bound(costly(call.body), text_tokenizer(use))
    if not use.exact:
        least = max(least, _bytes_in(request_of(call)) // BYTES_PER_TOKEN)
    total, largest = max(count.total, least), count.largest
    if largest is not None and total > count.total:
        largest += total - count.total
    return replace(count, total=total, at_most=max(count.at_most, total), largest=largest)


def _bytes_in(request: Request) -> int:
    """Return the UTF-8 bytes of its texts, without images and files."""
    texts = [message.counted_text for message in request.messages]
    texts += replace(request, messages=(), raw=()).texts()
    return sum(len(utf8(text)) for text in texts)


def _count(request: Request, use: ModelUse) -> Count:
    try:
        return use.counter.count_request(request)
    except InvalidMessage:
        raise
    except TokenboxError:  # a template may refuse a request that the server accepts
        return MarkersFormat(text_tokenizer(use)).count_request(request)


def text_tokenizer(use: ModelUse) -> Tokenizer:
    """Return the model's tokenizer of texts, or the larger count of two vocabularies if it is unknown."""
    return get("two-vocabularies") if use.tokenizer is None else use.tokenizer
