"""What the gateway decides of a request: how a bundle has it, and how a replay decides it again.

What counted here counts again. What a server counted is taken as it is in the bundle, which has the count of
every body that was tried. Everything in a bundle may be forged: it is checked here as what a client sends is.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from tokenbox.compose.requests import By, Count
from tokenbox.content.library_objects import texts_in
from tokenbox.content.weight import weight_text
from tokenbox.conversation.low_water import AutoLowWater, eagerness_of
from tokenbox.gateway.admission import Counted, judge, refusal_of, with_output_limit
from tokenbox.gateway.asgi import json_bytes
from tokenbox.gateway.calls import read_call
from tokenbox.gateway.counting import count_here
from tokenbox.gateway.fitting import PolicyFitting
from tokenbox.gateway.protocols import PROTOCOLS
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.services import Grant, ModelSummary, ProofDecision
from tokenbox.gateway.settings import Fit, Mode, RequestLimits
from tokenbox.gateway.texts import SUMMARY
from tokenbox.models import Counting as Counters
from tokenbox.models import ModelFigures, ModelUse, resolve
from tokenbox.policy.guard import Uncertain
from tokenbox.proof.bundle import DECISIONS, INPUTS, MANIFEST
from tokenbox.proof.calls import evidence_of, recorded_decision
from tokenbox.proof.errors import BundleInvalid, ReplayImpossible
from tokenbox.proof.evidence import (
    Budget,
    Evidence,
    EvidenceKind,
    EvidenceOutcome,
    EvidenceStatus,
    Input,
    Sourced,
)
from tokenbox.proof.manifest import leaves
from tokenbox.tokenizers.protocol import TokenizerIdentity
from tokenbox.tokenizers.registry import FILE_PREFIX, is_builtin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tokenbox.conversation.low_water import LowWater
    from tokenbox.gateway.admission import Admission
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.gateway.services import CountingService
    from tokenbox.gateway.upstream import Upstream
    from tokenbox.proof.calls import Arguments
    from tokenbox.proof.evidence import Evidence, Record
    from tokenbox.proof.recorded import Recorded

# The input that is the whole body, as it came.
REQUEST = "request"
_RATIO: Final = re.compile(r"[0-9]{1,50}(\.[0-9]{1,50}|/[1-9][0-9]{0,50})?")
_NAMES = {protocol.name: protocol for protocol in PROTOCOLS.values()}
# A bundle may be of a gateway with other limits.
_LIMITS = RequestLimits(body=1 << 40, messages=1 << 40, count_seconds=3600.0)
_NO_SERVER = cast("Upstream", None)


class Decided(NamedTuple):
    """A decision, and the policy of the mode fit by which it was made."""

    decision: ProofDecision
    fit: Sequence[Fit]
    low_water: LowWater


def of_request(decision: ProofDecision, fit: Sequence[Fit], low_water: LowWater) -> Evidence:
    """The body that was asked and its items as inputs; the figures, what was done and counted as decisions.

    What is emitted is the very body that goes on; None for a refusal. ``fit`` and ``low_water``: the policy
    of the mode fit.
    """
    return evidence_of(GATEWAY, {}, Decided(decision, fit, low_water))


def _result(_: Arguments, decided: Decided) -> dict[str, Any]:
    decision = decided.decision
    asked, verdict, refusal = decision.asked, decision.verdict, decision.refusal
    counted, model = verdict.counted, verdict.model
    data = None if decision.sent is None or refusal is not None else decision.sent.data
    return {
        "arguments": _options(*decided),
        "budget": Budget(
            Sourced(verdict.budget),
            Sourced(model.context_window, model.sources.get("context_window")),
            Sourced(verdict.reserved, "request" if asked.max_output is not None else "policy"),
            Sourced(weight_text(model.headroom), "policy"),
            Sourced(model.max_input, model.sources.get("max_input")),
        ),
        "tokenizer": counted.identity or TokenizerIdentity(counted.source, "", "", counted.exact),
        "inputs": tuple(_inputs(asked)),
        "decisions": tuple(_decisions(decision)),
        "outcome": EvidenceOutcome()
        if refusal is None
        else EvidenceOutcome(EvidenceStatus.REFUSED, refusal.code, {"deficit": verdict.deficit}),
        "emitted": data,
        "digest": None if data is None else digest_of(data),
        "figures": {"tokens_in": counted.tokens, "exact": counted.exact, "deficit": verdict.deficit},
        "model": asked.model,
    }


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _options(decision: ProofDecision, fit: Sequence[Fit], low_water: LowWater) -> Record:
    """All that was decided by, besides the figures."""
    asked, sent, verdict = decision.asked, decision.sent, decision.verdict
    options: dict[str, object] = {
        "route": asked.protocol.name,
        "mode": verdict.mode.value,
        "choices": asked.choices,
        "reserve_out": verdict.model.output_reserve,
        # What the gateway called the output limit that it set because of a quota.
        "limited": _limit_added(asked, sent),
    }
    if verdict.mode is Mode.FIT:
        eagerness = eagerness_of(low_water)
        options["fit"] = [step.value for step in fit]
        options["eagerness"] = None if eagerness is None else weight_text(eagerness)
        options["low_water"] = weight_text(Fraction(low_water)) if eagerness is None else None  # type: ignore[arg-type]
    return options


def _limit_added(asked: ApiCall, sent: ApiCall | None) -> str | None:
    if asked.max_output is not None or sent is None or sent.max_output is None:
        return None
    keys = asked.protocol.output_keys
    return next((key for key in keys if asked.body.get(key) is None is not sent.body.get(key)), keys[0])


def _decisions(decision: ProofDecision) -> Iterator[Record]:
    """The figures; what was done to make it fit; each body that was counted for it, and its tokens."""
    done, verdict = decision.done, decision.verdict
    yield {"decision": "admitted" if decision.refusal is None else "refused", **verdict.figures()}
    if done is not None:
        yield {"done": dict(done)}
    counts = {**decision.tried, digest_of(decision.asked.data): decision.count}
    for digest, count in sorted(counts.items()):
        yield {"counted": digest, **count.to_dict()}


def _inputs(call: ApiCall) -> Iterator[Input]:
    """The body, and each of its items: whose texts are in the body."""
    items = call.input if isinstance(call.input, list) else [call.input]
    for number, item in enumerate(items):
        data = json_bytes(item)
        yield Input(f"{call.protocol.input_key}[{number}]", _kind(item), digest_of(data), len(data), None)
    yield Input(REQUEST, REQUEST, digest_of(call.data), len(call.data), None, texts=(call.data,))


def _kind(item: object) -> str:
    role = item.get("role") if isinstance(item, dict) else None
    return role if isinstance(role, str) and role.isprintable() and len(role) < 40 else "item"  # noqa: PLR2004


# Deciding it again.


def decide_again(recorded: Recorded) -> Decided:
    """What :class:`tokenbox.gateway.app.Request` decides of the recorded request."""
    return asyncio.run(_decided_again(recorded))


async def _decided_again(recorded: Recorded) -> Decided:
    asked = _asked(recorded)
    use = _use(recorded, asked)
    counting = _CountedAgain(recorded, use)
    model, mode, uncertain = _model(recorded), _mode(recorded), _uncertain(recorded)
    counted = await counting.count(asked, _NO_SERVER, use)
    verdict = judge(asked, counted, model, mode, uncertain)
    tried: dict[str, Count] = {}
    sent: ApiCall | None = asked
    done, refusal = None, None
    if verdict.mode is not Mode.OBSERVE and not verdict.fits:
        try:
            sent, verdict, done = await _fitted(recorded, verdict, asked, counting, use, tried)
        except Refusal as error:
            refusal = error
    if refusal is not None and refusal.code == ReplayImpossible.code:  # raised while it was counted
        raise ReplayImpossible(refusal.message)
    if isinstance(limited := recorded.arguments.get("limited"), str) and sent is not None:
        sent, verdict = with_output_limit(sent, verdict, (limited,))
    decision = ProofDecision(asked, counted.count, sent, verdict, done, tried, refusal)
    return Decided(decision, *_policy(recorded))


async def _fitted(  # one parameter per thing that is known
    recorded: Recorded,
    verdict: Admission,
    asked: ApiCall,
    counting: CountingService,
    use: ModelUse,
    tried: dict[str, Count],
) -> tuple[ApiCall, Admission, dict[str, object]]:
    """Made to fit as the policy says. Raises :class:`Refusal`."""
    if verdict.mode is not Mode.FIT or verdict.budget is None:
        raise refusal_of(asked, verdict)
    fitting = PolicyFitting(counting, _RecordedSummaries(recorded), *_policy(recorded))
    try:
        fitted = await fitting.fit(asked, _NO_SERVER, use, verdict, Grant(), tried)
    finally:
        fitting.close()
    if fitted is None:
        raise refusal_of(asked, verdict)
    return fitted.call, fitted.verdict, fitted.record


class _CountedAgain:
    """Counts as the bundle has them; what counted here counts again, and its figure is the total.

    A tokenizer that is given counts in place of whoever counted. Fulfils
    :class:`~tokenbox.gateway.services.CountingService`.
    """

    def __init__(self, recorded: Recorded, use: ModelUse) -> None:
        said = _figures(recorded)
        self._source = str(said.get("counted_by"))
        missing = said.get("missing")
        self._missing = None if missing is None else str(missing)
        self._unseen = None if said.get("unseen") is None else str(said["unseen"])
        self._is_local = recorded.counts_here
        self._identity = use.counter.identity if self._is_local else None
        self._counts = {
            str(record["counted"]): _count(record)
            for record in recorded.contents.decisions
            if "counted" in record
        }

    async def count(self, call: ApiCall, upstream: Upstream, use: ModelUse) -> Counted:
        count = self._counts.get(digest_of(call.data))
        if self._is_local:
            again = count_here(call, use)
            known = again if count is None else count
            # Of what was known then, such as what a server had reported, a count can only be less sure.
            weaker = again.exact and known.exact, max(again.at_most, known.at_most)
            count = Count(again.total, weaker[0], weaker[1], again.by, again.largest)
        if count is None:
            raise ReplayImpossible(
                f"{self._source[:100]!r} counted, and the bundle does not contain its count of a request "
                "that is tried now. Give what counts, with --tokenizer file:PATH."
            )
        return Counted(count, self._source, self._identity, self._missing, self._unseen)

    async def parts(self, call: ApiCall, use: ModelUse) -> tuple[int, ...]:
        return ()


def _count(record: Record) -> Count:
    total = _whole(record, "total") or 0
    try:
        by = By(str(record.get("by")))
    except ValueError:
        raise BundleInvalid("is not one of the known counters.", file=DECISIONS, field="by") from None
    exact = record.get("exact") is True
    return Count(total, exact, _whole(record, "at_most") or total, by, _whole(record, "largest"))


class _RecordedSummaries:
    """The summary as it went into the body that was sent; it is never made again."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded

    async def summary_of(self, text: str, at_most: int, call: ApiCall, grant: Grant) -> ModelSummary | None:
        made = next(_summaries(self._recorded), None)
        if made is None:  # the model failed
            return None
        sent = self._recorded.texts.text(self._recorded.contents.manifest.emitted)
        if sent is None:
            raise ReplayImpossible("the summary is not in the bundle, which is one without texts.")
        body = _read(call.protocol.name, sent).body
        for said in texts_in([body.get(key) for key in ("system", "instructions", "messages")]):
            summary = ModelSummary(
                said.rpartition(f"{SUMMARY}\n")[2], str(made.get("model")), str(made.get("request_id"))
            )
            if summary.to_dict() == made:
                return summary
        raise BundleInvalid("is in no text of what was sent.", file=DECISIONS, field="done.summary")


def _summaries(recorded: Recorded) -> Iterator[Mapping[str, object]]:
    for record in recorded.contents.decisions:
        done = record.get("done")
        if isinstance(done, dict):
            for step in [done, *(done["steps"] if isinstance(done.get("steps"), list) else [])]:
                if isinstance(step, dict) and isinstance(step.get("summary"), dict):
                    yield step["summary"]


def _use(recorded: Recorded, asked: ApiCall) -> ModelUse:
    """What counts here: what was given, what is resolved for the model, or what the bundle names.

    No file is opened because a bundle says so.
    """
    identity = cast("Mapping[str, object]", recorded.predicate["tokenizer"])
    given = None if recorded.counter is None else str(recorded.counter)
    use = resolve(asked.model, counting=Counters(named=given))
    name = str(identity["name"])
    if given is not None or not identity["fingerprint"] or use.counter.identity.name == name:
        return use
    if is_builtin(name):
        return resolve(asked.model, counting=Counters(named=name))
    raise ReplayImpossible(
        f"what counted is not known here: {name[:100]!r}. Give it with --tokenizer {FILE_PREFIX}PATH.",
        tokenizer=name[:100],
    )


def _asked(recorded: Recorded) -> ApiCall:
    """The request as it came."""
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
    """What the model could take, as recorded: by settings and servers of that day."""
    said = _figures(recorded)
    sources = said.get("sources")
    return ModelFigures(
        model=None,
        context_window=_whole(said, "context_window"),
        max_input=_whole(said, "max_input_tokens"),
        max_output=None,
        output_reserve=_whole(recorded.arguments, "reserve_out"),
        headroom=_fraction(said.get("headroom"), "headroom"),
        sources=sources if isinstance(sources, dict) else {},
    )


def _uncertain(recorded: Recorded) -> Uncertain:
    try:
        return Uncertain(str(_figures(recorded).get("uncertain", Uncertain.MARGIN.value)))
    except ValueError:
        raise BundleInvalid("is not a rule.", file=DECISIONS, field="uncertain") from None


def _mode(recorded: Recorded) -> Mode:
    try:
        return Mode(str(recorded.arguments.get("mode")))
    except ValueError:
        raise BundleInvalid("is not a mode.", file=MANIFEST, field="predicate.arguments.mode") from None


def _policy(recorded: Recorded) -> tuple[tuple[Fit, ...], LowWater]:
    """The steps of the mode fit, and how far to evict."""
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
    """A number of tokens that the bundle says."""
    value = record.get(name)
    if value is None:
        return None
    if type(value) is not int or value < 0:
        raise BundleInvalid("is not a number of tokens.", file=DECISIONS, field=name)
    return value


def _fraction(value: object, name: str) -> Fraction:
    if not isinstance(value, str) or not _RATIO.fullmatch(value):
        raise BundleInvalid("is not a fraction.", file=MANIFEST, field=f"predicate.arguments.{name}")
    return Fraction(value)


def _taken(recorded: Recorded) -> frozenset[str]:
    """What is not decided again: where figures are from, who made a summary, and what a server counted."""
    first = "decisions[1]"
    found = {f"{first}.{name}" for name in ("counted_by", "missing", "unseen", "sources")}
    for number, record in enumerate(recorded.contents.decisions, 1):
        if "counted" in record:
            sure = {"exact", "at_most"} if recorded.counts_here else record.keys() - {"counted"}
            found |= {f"decisions[{number}].{name}" for name in sure}
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
