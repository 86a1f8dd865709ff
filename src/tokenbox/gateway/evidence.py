"""The gateway's decisions as evidence: how a bundle records one, and how a replay repeats it.

Local counts are made again. Counts of a server are taken from the bundle, which has one for every body that
was tried. Any part of a bundle may be forged, so it is validated like a client's request.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from functools import partial
from typing import Any, Final, TypeVar, cast

from tokenbox.compose.requests import By, Count
from tokenbox.content.parts import texts_in
from tokenbox.content.weight import weight_text
from tokenbox.conversation.low_water import AutoLowWater, LowWater, eagerness_of
from tokenbox.gateway.admission import Counted, judge, refusal_of
from tokenbox.gateway.asgi import json_bytes
from tokenbox.gateway.attempt import RequestDecision
from tokenbox.gateway.calls import ApiCall, read_call
from tokenbox.gateway.fitting import ModelSummary
from tokenbox.gateway.local_counts import at_least_its_texts, count_locally, text_tokenizer
from tokenbox.gateway.protocols import PROTOCOLS
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.settings import Fit, Mode, RequestLimits
from tokenbox.gateway.texts import SUMMARY
from tokenbox.models import Counting as Counters
from tokenbox.models import ModelFigures, ModelUse, resolve
from tokenbox.policy.guard import Uncertain
from tokenbox.proof.bundle import DECISIONS, INPUTS, MANIFEST
from tokenbox.proof.calls import Arguments, Recorded, evidence_of, recorded_decision
from tokenbox.proof.errors import BundleInvalid, ReplayImpossible
from tokenbox.proof.evidence import (
    Budget,
    Evidence,
    EvidenceKind,
    EvidenceOutcome,
    EvidenceStatus,
    Input,
    Record,
    Sourced,
)
from tokenbox.proof.manifest import leaves
from tokenbox.tokenizers.protocol import TokenizerIdentity
from tokenbox.tokenizers.registry import FILE_PREFIX, is_builtin

E = TypeVar("E", bound=StrEnum)

# The id of the input that is the whole body.
REQUEST = "request"
_RATIO: Final = re.compile(r"[0-9]{1,50}(\.[0-9]{1,50}|/[1-9][0-9]{0,50})?")
_NAMES = {protocol.name: protocol for protocol in PROTOCOLS.values()}
# The bundle may come from a gateway with other limits.
_LIMITS = RequestLimits(body=1 << 40, messages=1 << 40, count_seconds=3600.0)


def of_request(decision: RequestDecision) -> Evidence:
    """Return the evidence of a decision: the body and its items as inputs, all figures as decisions.

    The emitted text is the body that goes to the upstream, None for a refusal.
    """
    return evidence_of(GATEWAY, {}, decision)


def _result(_: Arguments, decision: RequestDecision) -> dict[str, Any]:
    original, admission, refusal = decision.original, decision.admission, decision.refusal
    counted, model = admission.counted, admission.model
    data = None if refusal is not None else decision.call.data
    return {
        "arguments": _options(decision),
        "budget": Budget(
            Sourced(admission.budget),
            Sourced(model.context_window, model.sources.get("context_window")),
            Sourced(admission.reserved, "request" if original.is_limited else "policy"),
            Sourced(weight_text(model.headroom), "policy"),
            Sourced(model.max_input, model.sources.get("max_input")),
        ),
        "tokenizer": counted.identity or TokenizerIdentity(counted.source, "", "", counted.exact),
        "inputs": tuple(_inputs(original)),
        "decisions": tuple(_decisions(decision)),
        "outcome": EvidenceOutcome()
        if refusal is None
        else EvidenceOutcome(EvidenceStatus.REFUSED, refusal.code, {"deficit": admission.deficit}),
        "emitted": data,
        "digest": None if data is None else digest_of(data),
        "figures": {"tokens_in": counted.tokens, "exact": counted.exact, "deficit": admission.deficit},
        "model": original.model,
    }


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _options(decision: RequestDecision) -> Record:
    """Return the arguments of the decision, besides the figures."""
    original, admission = decision.original, decision.admission
    options: dict[str, object] = {
        "route": original.protocol.name,
        "mode": admission.mode.value,
        "choices": original.choices,
        "reserve_out": admission.model.output_reserve,
        # The fields in which the gateway may have set the output limit, because of a quota.
        "limited": " ".join(decision.heeded) or None,
    }
    if admission.mode is Mode.FIT:
        low_water = decision.low_water
        eagerness = eagerness_of(low_water)
        options["fit"] = [step.value for step in decision.fit]
        options["eagerness"] = None if eagerness is None else weight_text(eagerness)
        options["low_water"] = weight_text(Fraction(low_water)) if eagerness is None else None  # type: ignore[arg-type]
    return options


def _decisions(decision: RequestDecision) -> Iterator[Record]:
    """Yield the figures, the record of the mode ``fit``, and the count of each body that was tried."""
    outcome = "admitted" if decision.refusal is None else "refused"
    yield {"decision": outcome, **decision.admission.figures()}
    if decision.fit_record is not None:
        yield {"done": dict(decision.fit_record)}
    counts = {**decision.tried, digest_of(decision.original.data): decision.count}
    for digest, count in sorted(counts.items()):
        yield {"counted": digest, **count.to_dict()}


def _inputs(call: ApiCall) -> Iterator[Input]:
    """Yield each item, and the body, which has the texts of all items."""
    items = call.input if isinstance(call.input, list) else [call.input]
    for number, item in enumerate(items):
        data = json_bytes(item)
        yield Input(f"{call.protocol.input_key}[{number}]", _kind(item), digest_of(data), len(data), None)
    yield Input(REQUEST, REQUEST, digest_of(call.data), len(call.data), None, texts=(call.data,))


def _kind(item: object) -> str:
    role = item.get("role") if isinstance(item, dict) else None
    return role if isinstance(role, str) and role.isprintable() and len(role) < 40 else "item"


# Replay.


def decide_again(recorded: Recorded) -> RequestDecision:
    """Repeat the decision of :class:`tokenbox.gateway.request.GatewayRequest` for a recorded request."""
    return asyncio.run(_decided_again(recorded))


async def _decided_again(recorded: Recorded) -> RequestDecision:
    original = _original(recorded)
    use = _use(recorded, original)
    counting = _RecordedCounting(recorded, use)
    model, mode = _model(recorded), _mode(recorded)
    uncertain = _member(Uncertain, _figures(recorded).get("uncertain", "margin"), DECISIONS, "uncertain")
    admission = judge(original, await counting.count(original), model, mode, uncertain)
    decision = RequestDecision(original, admission, *_policy(recorded))
    try:
        summarize = partial(_recorded_summary, recorded)
        make_fit = partial(decision.make_fit, text_tokenizer(use), counting.count, summarize)
        if not decision.may_be_sent and not await make_fit():
            decision.refusal = refusal_of(original, admission)
    except Refusal as error:
        if error.code == ReplayImpossible.code:  # raised while it was counted
            raise ReplayImpossible(error.message) from None
        decision.refusal = error
    limited = recorded.arguments.get("limited")
    if isinstance(limited, str) and decision.refusal is None:
        decision.limit_output(tuple(limited.split()))
    return decision


class _RecordedCounting:
    """Returns the counts of a server from the bundle. Local counts are made again, and replace the total.

    A tokenizer that is given counts in place of the recorded counter.
    """

    def __init__(self, recorded: Recorded, use: ModelUse) -> None:
        self.use = use
        figures = _figures(recorded)
        self._source = str(figures.get("counted_by"))
        self._missing, self._unseen = _text(figures, "missing"), _text(figures, "unseen")
        self._is_local = recorded.counts_here
        self._identity = use.counter.identity if self._is_local else None
        self._counts = {
            str(record["counted"]): _count(record)
            for record in recorded.contents.decisions
            if "counted" in record
        }

    async def count(self, call: ApiCall) -> Counted:
        count = self._counts.get(digest_of(call.data))
        if self._is_local:
            local = count_locally(call, self.use)
            known = local if count is None else count
            if local.exact and not known.exact:  # a server had reported another usage by then
                local = at_least_its_texts(local, call, self.use)
            count = replace(local, at_most=max(local.at_most, known.at_most))
        if count is None:
            raise ReplayImpossible(
                f"{self._source[:100]!r} counted, and the bundle does not contain its count of a request "
                "that is tried now. Give what counts, with --tokenizer file:PATH."
            )
        return Counted(count, self._source, self._identity, self._missing, self._unseen)


def _count(record: Record) -> Count:
    total = _whole(record, "total") or 0
    by = _member(By, record.get("by"), DECISIONS, "by")
    exact = record.get("exact") is True
    return Count(total, exact, _whole(record, "at_most") or total, by, _whole(record, "largest"))


async def _recorded_summary(
    recorded: Recorded, _text: str, _at_most: int, call: ApiCall
) -> ModelSummary | None:
    """Return the recorded summary from the body that was sent. It is never made again."""
    record = next(_summaries(recorded), None)
    if record is None:  # the model failed
        return None
    sent = recorded.texts.text(recorded.contents.manifest.emitted)
    if sent is None:
        raise ReplayImpossible("the summary is not in the bundle, which is one without texts.")
    body = _read(call.protocol.name, sent).body
    for found in texts_in([body.get(key) for key in ("system", "instructions", "messages")]):
        summary = ModelSummary(
            found.rpartition(f"{SUMMARY}\n")[2], str(record.get("model")), str(record.get("request_id"))
        )
        if summary.to_dict() == record:
            return summary
    raise BundleInvalid("is in no text of what was sent.", file=DECISIONS, field="done.summary")


def _summaries(recorded: Recorded) -> Iterator[Mapping[str, object]]:
    for record in recorded.contents.decisions:
        done = record.get("done")
        if isinstance(done, dict):
            for step in [done, *(done["steps"] if isinstance(done.get("steps"), list) else [])]:
                if isinstance(step, dict) and isinstance(step.get("summary"), dict):
                    yield step["summary"]


def _use(recorded: Recorded, original: ApiCall) -> ModelUse:
    """Return the local counter: the given one, the model's own, or the built-in one that the bundle names.

    No file is opened because a bundle names it.
    """
    identity = cast("Mapping[str, object]", recorded.predicate["tokenizer"])
    given = None if recorded.counter is None else str(recorded.counter)
    # The upstream decided whether a public name proves its vocabulary, and the bundle does not name it.
    use = resolve(original.model, counting=Counters(named=given))
    if use.counter.identity.to_dict() != identity:
        elsewhere = resolve(original.model, counting=Counters(named=given, at_openai=False))
        use = elsewhere if elsewhere.counter.identity.to_dict() == identity else use
    name = str(identity["name"])
    if given is not None or not identity["fingerprint"] or use.counter.identity.name == name:
        return use
    if is_builtin(name):
        return resolve(original.model, counting=Counters(named=name))
    raise ReplayImpossible(
        f"the tokenizer is unknown here: {name[:100]!r}. Give it with --tokenizer {FILE_PREFIX}PATH.",
        tokenizer=name[:100],
    )


def _original(recorded: Recorded) -> ApiCall:
    """Return the request as it came."""
    record = next((record for record in recorded.inputs if record["id"] == REQUEST), None)
    if record is None:
        raise BundleInvalid("is missing.", file=INPUTS, field=REQUEST)
    text = recorded.texts.text(record["digest"])
    if text is None:
        raise ReplayImpossible(
            "the body of the request is missing. The bundle does not contain it; give it again with --from, "
            "byte for byte as it was sent, or set proof.texts.",
            missing=[REQUEST],
        )
    return _read(recorded.arguments.get("route"), text)


def _read(route: object, text: str) -> ApiCall:
    protocol = _NAMES.get(route) if isinstance(route, str) else None
    if protocol is None:
        raise BundleInvalid(
            "is not a route of the gateway.", file=MANIFEST, field="predicate.arguments.route"
        )
    try:
        return read_call(protocol, text.encode(), _LIMITS)
    except Refusal as error:
        raise BundleInvalid(f"is not a request: {error.message}", file=INPUTS, field=REQUEST) from None


def _model(recorded: Recorded) -> ModelFigures:
    """Return the limits of the model as recorded."""
    figures = _figures(recorded)
    sources = figures.get("sources")
    return ModelFigures(
        model=None,
        context_window=_whole(figures, "context_window"),
        max_input=_whole(figures, "max_input_tokens"),
        max_output=None,
        output_reserve=_whole(recorded.arguments, "reserve_out"),
        headroom=_fraction(figures.get("headroom"), "headroom"),
        sources=sources if isinstance(sources, dict) else {},
    )


def _mode(recorded: Recorded) -> Mode:
    return _member(Mode, recorded.arguments.get("mode"), MANIFEST, "predicate.arguments.mode")


def _member(kind: type[E], value: object, file: str, field: str) -> E:
    """Return a member of an enum by its value. Raises :class:`BundleInvalid`."""
    try:
        return kind(str(value))
    except ValueError:
        names = ", ".join(member.value for member in kind)
        raise BundleInvalid(f"is not one of {names}.", file=file, field=field) from None


def _policy(recorded: Recorded) -> tuple[tuple[Fit, ...], LowWater]:
    """Return the steps of the mode ``fit``, and how far to evict."""
    options = recorded.arguments
    steps, eagerness = options.get("fit"), options.get("eagerness")
    if _mode(recorded) is not Mode.FIT:
        return (), 1
    if not isinstance(steps, list) or not set(map(str, steps)) <= set(Fit):
        raise BundleInvalid("are not steps.", file=MANIFEST, field="predicate.arguments.fit")
    policy = tuple(Fit(str(step)) for step in steps)
    if eagerness is not None:
        return policy, AutoLowWater(_fraction(eagerness, "eagerness"))
    return policy, _fraction(options.get("low_water"), "low_water")


def _figures(recorded: Recorded) -> Record:
    if not recorded.contents.decisions or "decision" not in recorded.contents.decisions[0]:
        raise BundleInvalid("has no figures.", file=DECISIONS)
    return recorded.contents.decisions[0]


def _whole(record: Record, name: str) -> int | None:
    """Return a number of tokens from the bundle, or None."""
    value = record.get(name)
    if value is None:
        return None
    if type(value) is not int or value < 0:
        raise BundleInvalid("is not a number of tokens.", file=DECISIONS, field=name)
    return value


def _text(record: Record, name: str) -> str | None:
    value = record.get(name)
    return None if value is None else str(value)


def _fraction(value: object, name: str) -> Fraction:
    if not isinstance(value, str) or not _RATIO.fullmatch(value):
        raise BundleInvalid("is not a fraction.", file=MANIFEST, field=f"predicate.arguments.{name}")
    return Fraction(value)


def _taken(recorded: Recorded) -> frozenset[str]:
    """Return the fields that a replay cannot repeat: sources, makers of summaries, a server's counts."""
    first = "decisions[1]"
    found = {f"{first}.{name}" for name in ("counted_by", "missing", "unseen", "sources")}
    for number, record in enumerate(recorded.contents.decisions, 1):
        if "counted" in record:
            taken = {"exact", "at_most"} if recorded.counts_here else record.keys() - {"counted"}
            found |= {f"decisions[{number}].{name}" for name in taken}
        elif "done" in record:
            names = [f"decisions[{number}].{name}" for name, _ in leaves(record)]
            found.update(name for name in names if name.endswith((".summary.model", ".summary.request_id")))
    return frozenset(found)


GATEWAY = recorded_decision(
    "gateway",
    EvidenceKind.ENFORCEMENT,
    decide_again,
    _result,
    ("route", "mode", "choices", "reserve_out", "limited", "fit", "eagerness", "low_water"),
    _taken,
)
