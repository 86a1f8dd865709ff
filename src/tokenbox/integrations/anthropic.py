"""Anthropic's SDK: a client that counts, guards or fits requests before it sends them.

client = guarded(Anthropic(), on_call=print)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from anthropic import Anthropic, AsyncAnthropic

from tokenbox.integrations.fitting import Called, Endpoint, Fitting, Guarding

Client = TypeVar("Client", Anthropic, AsyncAnthropic)


def guarded(
    client: Client,
    budget: int | None = None,
    *,
    model: str | None = None,
    fit: bool = False,
    on_call: Callable[[Called], object] | None = None,
    **options: Any,
) -> Client:
    """Return a copy of the client that sends only messages that fit, with every method and also in ``beta``.

    Another request raises :class:`~tokenbox.integrations.fitting.OverWindow`; with ``fit`` its messages are
    fitted instead. Batches raise :class:`~tokenbox.integrations.fitting.NotGuarded`. ``budget``, ``model``:
    see :mod:`tokenbox.integrations.fitting`. ``on_call`` receives the predicted count and the input tokens
    that the server used, cached ones included; for a stream, at its end.
    """
    guarding = Guarding(Fitting(budget, model, options), fit, on_call)
    return guarding.guard(client.copy(), _ENDPOINTS, guarded)


def _used(answer: Any) -> int | None:
    """Return all input tokens of an answer, cached or not. In a stream, the first event has them."""
    usage = getattr(getattr(answer, "message", answer), "usage", None)
    fresh = getattr(usage, "input_tokens", None)
    if fresh is None or getattr(answer, "type", None) == "message_delta":
        return None
    cached = (
        getattr(usage, name, None) for name in ("cache_creation_input_tokens", "cache_read_input_tokens")
    )
    return fresh + sum(tokens or 0 for tokens in cached)


_ENDPOINTS: Final = {"messages": Endpoint(_used, "messages", "system"), "messages/batches": None}
