"""Summaries of what is evicted from a request, made by a model in requests of the gateway's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.errors import TokenboxError
from tokenbox.gateway.admission import judge
from tokenbox.gateway.asgi import json_bytes
from tokenbox.gateway.attempt import Attempt, new_key
from tokenbox.gateway.calls import ApiCall, read_call
from tokenbox.gateway.fitting import ModelSummary
from tokenbox.gateway.protocols import CHAT
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.settings import Mode
from tokenbox.gateway.upstream import used_nothing
from tokenbox.providers.errors import ProviderError, ServerUnreachable
from tokenbox.providers.shapes import text_at

if TYPE_CHECKING:
    from tokenbox.gateway.authentication import Grant
    from tokenbox.gateway.services import GatewayServices

PROMPT = (
    "Summarize the conversation below for the one who goes on with it: facts, decisions, open questions, "
    "names, figures. Write plain text, as short as you can."
)
# A summary that takes longer is given up.
SECONDS = 60.0
_OK = 200


async def summary_of(
    services: GatewayServices, text: str, at_most: int, call: ApiCall, grant: Grant
) -> ModelSummary | None:
    """Return a summary by ``settings.summary_model``, or by the model of the request itself.

    None if it failed, with the reason in the log. It is charged to the key.
    """
    settings, named = services.settings, services.settings.summary_model
    model = call.model if named is None else settings.served_as(named)
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": text}]
    body = {"model": model, "messages": messages, "max_tokens": at_most}
    try:
        own_call = read_call(CHAT, json_bytes(body), settings.limits, grant.client_auth)
    except Refusal:  # too large to be sent
        return None
    key = new_key()
    attempt = Attempt(CHAT, "summarize", f"summary_{key}", key, call=own_call, grant=grant)
    refusal: Refusal | None = None
    summary: str | None = None
    try:
        if named is not None:
            grant.check(named)
        summary = await _request(services, attempt, own_call, grant)
    except Refusal as error:
        refusal = error
    except TokenboxError as error:
        refusal = Refusal(502, error.code, error.message)
    finally:
        services.observe(attempt, refusal)
    return None if summary is None else ModelSummary(summary, model, attempt.request_id)


async def _request(services: GatewayServices, attempt: Attempt, call: ApiCall, grant: Grant) -> str | None:
    upstream = attempt.upstream = await services.models.upstream_of(call.model, call.client_auth)
    limit, *_ = upstream.heeded_limits(call)
    body = dict(call.body)
    body[limit] = body.pop("max_tokens")
    call = attempt.call = call.with_body(body)
    use = await services.models.use(upstream, call.model, call.client_auth)
    counted = await services.counting.count(call, upstream, use)
    admission = attempt.admission = judge(call, counted, use, Mode.ENFORCE, services.settings.uncertain)
    if not admission.fits:
        raise Refusal(
            400,
            "summary_too_large",
            "The evicted exchanges are too large for the model of the summaries.",
        )
    async with services.accounts.reserved(attempt, call, admission, grant), upstream.slot():
        services.record_start(attempt, call, admission)
        attempt.was_sent = True
        outcome = attempt.outcome
        try:
            answer = await upstream.get(CHAT.path, call.body, call.client_auth, SECONDS)
        except ProviderError as error:
            outcome.status, outcome.used_nothing = 502, error.code == ServerUnreachable.code
            raise Refusal(502, "summary_failed", "The model of the summaries did not answer.") from None
        outcome.status, outcome.used_nothing = answer.status, used_nothing(answer.status)
        if answer.status != _OK or not isinstance(answer.body, dict):
            raise Refusal(502, "summary_failed", f"The model of the summaries answered {answer.status}.")
        outcome.usage = CHAT.usage_in(answer.body)
        outcome.begun = outcome.ended = outcome.complete = True
        return text_at(answer.body, "choices.0.message.content").strip() or None
