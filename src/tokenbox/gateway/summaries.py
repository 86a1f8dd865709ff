"""Summaries of what leaves a request: calls of our own to a model, by the same ways as those of clients."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tokenbox.errors import TokenboxError
from tokenbox.gateway.admission import judge
from tokenbox.gateway.asgi import json_bytes
from tokenbox.gateway.calls import read_call
from tokenbox.gateway.protocols import CHAT
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.relay import CallOutcome
from tokenbox.gateway.services import ModelSummary
from tokenbox.gateway.settings import Mode

if TYPE_CHECKING:
    from tokenbox.gateway.admission import Admission
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.gateway.services import Grant, Services
    from tokenbox.gateway.upstream import Upstream

ASKED = (
    "Summarize the conversation below for the one who goes on with it: facts, decisions, open questions, "
    "names, figures. Write plain text, as short as you can."
)
# A summary that takes longer is not worth the wait.
SECONDS = 60.0
_OK = 200


@dataclass(slots=True)
class Errand:
    """A request of the gateway's own: what metrics, log, quotas and ledger need to know of it."""

    call: ApiCall
    grant: Grant
    category: str = "summarize"
    protocol: Any = CHAT
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    began_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    started_at: float = field(default_factory=time.monotonic)
    verdict: Admission | None = None
    upstream: Upstream | None = None
    outcome: CallOutcome = field(default_factory=CallOutcome)
    was_sent: bool = False
    done: dict[str, object] | None = None
    overflow_of: str | None = None
    span: object = None
    parent: str | None = None
    line: bytes = b""

    @property
    def request_id(self) -> str:
        return f"summary_{self.key}"


class ModelSummaries:
    """Summaries by ``settings.summary_model``, else by the model of the request itself."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def summary_of(self, text: str, at_most: int, call: ApiCall, grant: Grant) -> ModelSummary | None:
        """None where there is none, whatever the reason: the log has it. Its cost is the key's."""
        settings = self._services.settings
        model = settings.summary_model or call.model
        messages = [{"role": "system", "content": ASKED}, {"role": "user", "content": text}]
        body = {"model": model, "messages": messages, "max_tokens": at_most}
        refusal: Refusal | None = None
        errand: Errand | None = None
        try:
            errand = Errand(read_call(CHAT, json_bytes(body), settings.limits), grant)
            grant.check(model)
            said = await self._asked(errand)
        except Refusal as error:
            refusal, said = error, None
        except TokenboxError as error:
            refusal, said = Refusal(502, error.code, error.message), None
        finally:
            if errand is not None:
                self._services.observe(errand, refusal)
        if said is None or errand is None:
            return None
        return ModelSummary(said, model, errand.request_id)

    async def _asked(self, errand: Errand) -> str | None:
        services, call = self._services, errand.call
        upstream = errand.upstream = await services.models.upstream_of(call.model)
        use = await services.models.use(upstream, call.model)
        counted = await services.counting.count(call, upstream, use)
        verdict = errand.verdict = judge(call, counted, use, Mode.ENFORCE, services.settings.uncertain)
        if not verdict.fits:
            raise Refusal(400, "summary_too_large", "What leaves is too much for the model of the summaries.")
        async with services.accounts.reserved(errand, errand.grant), upstream.place():
            services.began(errand)
            errand.was_sent = True
            status, answer = await upstream.ask(CHAT.path, call.body, errand.grant.client_auth, SECONDS)
            outcome = errand.outcome
            outcome.status = 504 if status is None else status
            outcome.used_nothing = status is not None and status != _OK
            if status != _OK or not isinstance(answer, dict):
                raise Refusal(502, "summary_failed", f"The model of the summaries answered {status}.")
            outcome.usage = CHAT.usage_in(answer)
            outcome.begun = outcome.ended = outcome.complete = True
            return _text_in(answer)


def _text_in(answer: dict[str, Any]) -> str | None:
    choices = answer.get("choices")
    message = choices[0].get("message") if isinstance(choices, list) and choices else None
    said = message.get("content") if isinstance(message, dict) else None
    return said.strip() or None if isinstance(said, str) else None
