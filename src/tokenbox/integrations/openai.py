"""OpenAI's SDK: a client that counts, guards or fits requests before it sends them.

client = guarded(OpenAI(), on_call=print)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from openai import AsyncOpenAI, OpenAI

from tokenbox.integrations.fitting import Called, Endpoint, Fitting, Guarding, refuse

Client = TypeVar("Client", OpenAI, AsyncOpenAI)


def guarded(
    client: Client,
    budget: int | None = None,
    *,
    model: str | None = None,
    fit: bool = False,
    on_call: Callable[[Called], object] | None = None,
    **options: Any,
) -> Client:
    """Return a copy of the client that sends only completions and responses that fit, with every method.

    Another request raises :class:`~tokenbox.integrations.fitting.OverWindow`; with ``fit`` its messages are
    fitted instead. Batches and ``responses.connect``, whose requests cannot be counted before, raise
    :class:`~tokenbox.integrations.fitting.NotGuarded`. ``budget``, ``model``: see
    :mod:`tokenbox.integrations.fitting`. ``on_call`` receives the predicted count and the input tokens that
    the server used; for a stream, at its end, if it reports usage.
    """
    guarding = Guarding(Fitting(budget, model, options), fit, on_call)
    copy = client.copy()
    for resource in (copy.responses, getattr(copy.beta, "responses", None)):
        refuse(resource, "connect", "responses.connect")
    return guarding.guard(copy, _ENDPOINTS, guarded)


def _chat_used(answer: Any) -> int | None:
    return getattr(getattr(answer, "usage", None), "prompt_tokens", None)


def _responses_used(answer: Any) -> int | None:
    """Return the input tokens of an answer, or of the last event of a stream, which has the answer."""
    return getattr(getattr(getattr(answer, "response", answer), "usage", None), "input_tokens", None)


_RESPONSES: Final = Endpoint(_responses_used, "input", "instructions")
_ENDPOINTS: Final = {
    "chat/completions": Endpoint(_chat_used, "messages"),
    "completions": Endpoint(_chat_used),
    "responses": _RESPONSES,
    "responses/compact": _RESPONSES,
    "batches": None,
}
