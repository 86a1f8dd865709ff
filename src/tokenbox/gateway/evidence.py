"""What was decided of a request, as the evidence that a proof bundle is made of."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tokenbox.gateway.asgi import json_bytes
from tokenbox.proof.evidence import Budget, Evidence, Input, Kind, Outcome, Sourced, Status
from tokenbox.tokenizers.protocol import TokenizerIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenbox.gateway.admission import Verdict
    from tokenbox.gateway.calls import Call
    from tokenbox.gateway.refusals import Refusal

ALGORITHM = "gateway/1"


def of_request(
    asked: Call,
    sent: Call | None,
    verdict: Verdict,
    done: Mapping[str, object] | None,
    refusal: Refusal | None,
) -> Evidence:
    """The items that were ``asked`` as inputs, the figures and what was done as decisions.

    What is emitted is the very body that goes on; None for a refusal.
    """
    figures, room = verdict.figures(), verdict.room
    decisions: list[Mapping[str, object]] = [
        {"decision": "refused" if refusal is not None else "sent", **figures}
    ]
    if done is not None:
        decisions.append({"done": dict(done)})
    refused = refusal is not None
    data = None if sent is None or refused else sent.data
    code = None if refusal is None else refusal.code
    counted = verdict.counted
    window = Sourced(room.window, room.sources.get("context_window"))
    return Evidence(
        kind=Kind.ENFORCEMENT,
        algorithm=ALGORITHM,
        options={"route": asked.protocol.name, "mode": verdict.mode.value, "choices": asked.choices},
        budget=Budget(
            Sourced(verdict.budget),
            window,
            Sourced(verdict.reserved, "request" if asked.max_output is not None else "policy"),
            Sourced(room.headroom, "policy"),
        ),
        tokenizer=TokenizerIdentity(counted.source, "", "", counted.exact),
        inputs=tuple(_inputs(asked)),
        decisions=tuple(decisions),
        outcome=Outcome(Status.REFUSED, code, {"deficit": verdict.deficit}) if refused else Outcome(),
        emitted=data,
        digest=None if data is None else hashlib.sha256(data).hexdigest(),
        figures={"tokens_in": counted.tokens, "exact": counted.exact, "deficit": verdict.deficit},
        model=asked.model,
    )


def _inputs(call: Call) -> list[Input]:
    """Each message, and all else that is counted."""
    items = call.input if isinstance(call.input, list) else [call.input]
    found = [
        _input(f"{call.protocol.input_key}[{number}]", _kind(item), item) for number, item in enumerate(items)
    ]
    others = {key: value for key, value in call.body.items() if key != call.protocol.input_key}
    return [*found, _input("request", "request", others)]


def _input(name: str, kind: str, value: object) -> Input:
    data = json_bytes(value)
    return Input(name, kind, hashlib.sha256(data).hexdigest(), len(data), None, texts=(data,))


def _kind(item: object) -> str:
    role = item.get("role") if isinstance(item, dict) else None
    return role if isinstance(role, str) and role.isprintable() and len(role) < 40 else "item"  # noqa: PLR2004
