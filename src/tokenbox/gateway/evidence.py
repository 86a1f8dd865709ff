"""What was decided of a request, as the evidence that a proof bundle is made of."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import TYPE_CHECKING

from tokenbox.content.weight import weight_text
from tokenbox.conversation.low_water import eagerness_of
from tokenbox.gateway.asgi import json_bytes
from tokenbox.gateway.settings import Mode
from tokenbox.proof.evidence import Budget, Evidence, Input, Kind, Outcome, Sourced, Status
from tokenbox.tokenizers.protocol import TokenizerIdentity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenbox.conversation.low_water import LowWater
    from tokenbox.gateway.calls import Call
    from tokenbox.gateway.services import Decision
    from tokenbox.gateway.settings import Fit
    from tokenbox.proof.evidence import Record

ALGORITHM = "gateway/1"
# The input that is the whole body, as it came.
REQUEST = "request"


def of_request(decision: Decision, fit: Sequence[Fit], low_water: LowWater) -> Evidence:
    """The body that was asked and its items as inputs; the figures, what was done and counted as decisions.

    What is emitted is the very body that goes on; None for a refusal. ``fit`` and ``low_water``: the policy
    of the mode fit.
    """
    asked, verdict, refusal = decision.asked, decision.verdict, decision.refusal
    counted, room = verdict.counted, verdict.room
    refused = refusal is not None
    data = None if decision.sent is None or refused else decision.sent.data
    return Evidence(
        kind=Kind.ENFORCEMENT,
        algorithm=ALGORITHM,
        options=_options(decision, fit, low_water),
        budget=Budget(
            Sourced(verdict.budget),
            Sourced(room.window, room.sources.get("context_window")),
            Sourced(verdict.reserved, "request" if asked.max_output is not None else "policy"),
            Sourced(room.headroom, "policy"),
        ),
        tokenizer=counted.identity or TokenizerIdentity(counted.source, "", "", counted.exact),
        inputs=tuple(_inputs(asked)),
        decisions=tuple(_decisions(decision)),
        outcome=Outcome()
        if refusal is None
        else Outcome(Status.REFUSED, refusal.code, {"deficit": verdict.deficit}),
        emitted=data,
        digest=None if data is None else digest_of(data),
        figures={"tokens_in": counted.tokens, "exact": counted.exact, "deficit": verdict.deficit},
        model=asked.model,
    )


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _options(decision: Decision, fit: Sequence[Fit], low_water: LowWater) -> Record:
    """All that was decided by, besides the figures."""
    asked, sent, verdict = decision.asked, decision.sent, decision.verdict
    options: dict[str, object] = {
        "route": asked.protocol.name,
        "mode": verdict.mode.value,
        "choices": asked.choices,
        "reserve_out": verdict.room.reserve,
        # What the gateway called the output limit that it set because of a quota.
        "limited": _limit_added(asked, sent),
    }
    if verdict.mode is Mode.FIT:
        eagerness = eagerness_of(low_water)
        options["fit"] = [step.value for step in fit]
        options["eagerness"] = None if eagerness is None else weight_text(eagerness)
        options["low_water"] = weight_text(Fraction(low_water)) if eagerness is None else None  # type: ignore[arg-type]
    return options


def _limit_added(asked: Call, sent: Call | None) -> str | None:
    if asked.max_output is not None or sent is None or sent.max_output is None:
        return None
    keys = asked.protocol.output_keys
    return next((key for key in keys if asked.body.get(key) is None is not sent.body.get(key)), keys[0])


def _decisions(decision: Decision) -> Iterator[Record]:
    """The figures; what was done to make it fit; each body that was counted for it, and its tokens."""
    done, verdict = decision.done, decision.verdict
    yield {"decision": "admitted" if decision.refusal is None else "refused", **verdict.figures()}
    if done is not None:
        yield {"done": dict(done)}
    first = verdict.counted.tokens if done is None else done["before"]
    counts = {**decision.tried, digest_of(decision.asked.data): first}
    for digest, tokens in sorted(counts.items()):
        yield {"counted": digest, "tokens": tokens}


def _inputs(call: Call) -> Iterator[Input]:
    """The body, and each of its items: whose texts are in the body."""
    items = call.input if isinstance(call.input, list) else [call.input]
    for number, item in enumerate(items):
        data = json_bytes(item)
        yield Input(f"{call.protocol.input_key}[{number}]", _kind(item), digest_of(data), len(data), None)
    yield Input(REQUEST, REQUEST, digest_of(call.data), len(call.data), None, texts=(call.data,))


def _kind(item: object) -> str:
    role = item.get("role") if isinstance(item, dict) else None
    return role if isinstance(role, str) and role.isprintable() and len(role) < 40 else "item"  # noqa: PLR2004
