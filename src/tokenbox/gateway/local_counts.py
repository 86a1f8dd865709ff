"""Count a request in this process, by the model's counter. A proof replays these counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tokenbox.compose.lower_bound import lower_bound
from tokenbox.content.message import InvalidMessage
from tokenbox.content.request import Request, costly, read_request
from tokenbox.conversation.image_costs import image_cost
from tokenbox.conversation.markers import MarkersFormat
from tokenbox.errors import TokenboxError
from tokenbox.tokenizers.guarded import as_estimate
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.models import ModelUse
    from tokenbox.tokenizers.protocol import Tokenizer


def request_of(call: ApiCall) -> Request:
    """Return the request in the shape common to all APIs. Raises :class:`InvalidMessage`."""
    return read_request(call.body, api=call.protocol.api, strict=False)


def count_locally(call: ApiCall, use: ModelUse) -> Count:
    """Count in this process, as the library does."""
    request = request_of(call)
    try:
        return use.counter.count_request(request)
    except InvalidMessage:
        raise
    except TokenboxError:  # a template may refuse a request that the server accepts
        return MarkersFormat(text_tokenizer(use), image_cost=image_cost(use.model)).count_request(request)


def at_least_its_texts(count: Count, call: ApiCall, use: ModelUse) -> Count:
    """Return the count by rules that were wrong once: no longer exact, and of all texts of the request.

    What the rules hide may be shown, and the vocabulary may be another.
    """
    least = lower_bound(costly(call.body), as_estimate(text_tokenizer(use)))
    more = max(0, least - count.total)
    return replace(
        count,
        total=count.total + more,
        exact=False,
        at_most=max(count.at_most, least),
        largest=None if count.largest is None else count.largest + more,
    )


def text_tokenizer(use: ModelUse) -> Tokenizer:
    """Return the model's tokenizer of texts, or the larger count of two vocabularies if it is unknown."""
    return get("two-vocabularies") if use.tokenizer is None else use.tokenizer
