"""Decisions of the gateway made again from a proof bundle, for ``tokenbox proof replay``.

What counted here counts again. What a server counted is taken as it is in the bundle, which has the count of
every body that was tried. Everything in a bundle may be forged: it is checked here as what a client sends is.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final, cast

from tokenbox.conversation.low_water import AutoLowWater
from tokenbox.gateway.admission import Counted, Room, judge, limit_of, refusal_of, with_output_limit
from tokenbox.gateway.calls import read_call
from tokenbox.gateway.counting import RequestCounting
from tokenbox.gateway.evidence import ALGORITHM, REQUEST, digest_of, of_request
from tokenbox.gateway.fitting import PolicyFitting
from tokenbox.gateway.local import LocalCounts
from tokenbox.gateway.protocols import PROTOCOLS
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.services import Decision, Grant, Summary
from tokenbox.gateway.settings import Fit, Limits, Mode, ModelSettings, Settings
from tokenbox.gateway.shapes import texts_of
from tokenbox.gateway.texts import SUMMARY
from tokenbox.proof.bundle import DECISIONS, INPUTS, MANIFEST
from tokenbox.proof.errors import BundleInvalid, ReplayImpossible
from tokenbox.proof.replay import compared
from tokenbox.tokenizers.registry import FILE_PREFIX, is_builtin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tokenbox.conversation.low_water import LowWater
    from tokenbox.gateway.admission import Verdict
    from tokenbox.gateway.calls import Call
    from tokenbox.gateway.counting import Local
    from tokenbox.gateway.services import Counting
    from tokenbox.gateway.upstream import Upstream
    from tokenbox.proof.contents import Contents
    from tokenbox.proof.evidence import Evidence, Record
    from tokenbox.proof.replay import Replay, Texts

_RATIO: Final = re.compile(r"[0-9]{1,50}(\.[0-9]{1,50}|/[1-9][0-9]{0,50})?")
_NAMES = {protocol.name: protocol for protocol in PROTOCOLS.values()}
# A bundle may be of a gateway with other limits.
_LIMITS = Limits(body=1 << 40, messages=1 << 40, count_seconds=3600.0)
_NO_SERVER = cast("Upstream", None)


def is_of_gateway(contents: Contents) -> bool:
    return contents.manifest.predicate["algorithm"] == ALGORITHM


def replay(contents: Contents, texts: Texts, tokenizer: str | None = None) -> Replay:
    """Decide again what a gateway decided.

    ``texts`` has the body of the request, as it came. ``tokenizer``: the name, or ``file:PATH``, of what
    counts, in place of what the bundle names. Raises ``ReplayImpossible`` and ``BundleInvalid``.
    """
    return compared(contents, asyncio.run(_decided_again(contents, texts, tokenizer)))


async def _decided_again(contents: Contents, texts: Texts, tokenizer: str | None) -> Evidence:
    """As :class:`tokenbox.gateway.app.Request` does."""
    options, asked = _options(contents), _asked(contents, texts)
    local = _local(contents, asked, tokenizer)
    counting: Counting = (
        _RecordedCounts(contents) if local is None else RequestCounting(lambda *_: local, _LIMITS)
    )
    verdict = judge(asked, await counting.count(asked, _NO_SERVER), _room(contents), _mode(contents))
    tried: dict[str, int] = {}
    sent: Call | None = asked
    done, refusal = None, None
    if verdict.mode is not Mode.OBSERVE and (verdict.deficit or verdict.budget is None):
        try:
            sent, verdict, done = await _fitted(contents, texts, verdict, asked, counting, local, tried)
        except Refusal as error:
            refusal = error
    if refusal is not None and refusal.code == ReplayImpossible.code:  # raised while it was counted
        raise ReplayImpossible(refusal.message)
    if isinstance(limited := options.get("limited"), str) and sent is not None:
        sent, verdict = with_output_limit(sent, verdict, limited)
    decision = Decision(asked, sent, verdict, done, tried, refusal)
    return of_request(decision, *_policy(contents))


async def _fitted(  # one parameter per thing that is known
    contents: Contents,
    texts: Texts,
    verdict: Verdict,
    asked: Call,
    counting: Counting,
    local: Local | None,
    tried: dict[str, int],
) -> tuple[Call, Verdict, dict[str, object]]:
    """Made to fit as the policy says. Raises :class:`Refusal`."""
    if verdict.mode is not Mode.FIT or verdict.budget is None:
        raise refusal_of(asked, verdict)
    cutting = LocalCounts(Settings(())).of(asked.model) if local is None else local
    fitting = PolicyFitting(
        counting, lambda *_: cutting, _RecordedSummaries(contents, texts), *_policy(contents)
    )
    try:
        fitted = await fitting.fit(asked, _NO_SERVER, verdict, Grant(), tried)
    finally:
        fitting.close()
    if fitted is None:
        raise refusal_of(asked, verdict)
    return fitted.call, judge(fitted.call, fitted.counted, verdict.room, verdict.mode), fitted.record


class _RecordedCounts:
    """Counts as the bundle has them. Fulfils :class:`~tokenbox.gateway.services.Counting`."""

    def __init__(self, contents: Contents) -> None:
        said = _figures(contents)
        self._source, self._exact = str(said.get("counted_by")), said.get("exact") is True
        self._largest = _whole(said, "largest_prompt")
        self._counts = {
            str(record["counted"]): _whole(record, "tokens") or 0
            for record in contents.decisions
            if "counted" in record
        }

    async def count(self, call: Call, upstream: Upstream) -> Counted:
        tokens = self._counts.get(digest_of(call.data))
        if tokens is None:
            raise ReplayImpossible(
                f"{self._source[:100]!r} counted, and the bundle has not its count of a request that is "
                "tried now. Give what counts, with --tokenizer file:PATH."
            )
        return Counted(tokens, self._exact, self._source, largest=self._largest)

    async def with_parts(self, call: Call, upstream: Upstream, counted: Counted) -> Counted:
        return counted


class _RecordedSummaries:
    """The summary as it went into the body that was sent; it is never made again."""

    def __init__(self, contents: Contents, texts: Texts) -> None:
        self._contents = contents
        self._texts = texts

    async def summary_of(self, text: str, at_most: int, call: Call, grant: Grant) -> Summary | None:
        made = next(_summaries(self._contents), None)
        if made is None:  # the model failed
            return None
        sent = self._texts.text(self._contents.manifest.emitted)
        if sent is None:
            raise ReplayImpossible("the summary is not in the bundle, which is one without texts.")
        body = _read(call.protocol.name, sent).body
        for said in texts_of([body.get(key) for key in ("system", "instructions", "messages")]):
            summary = Summary(
                said.rpartition(f"{SUMMARY}\n")[2], str(made.get("model")), str(made.get("request_id"))
            )
            if summary.to_dict() == made:
                return summary
        raise BundleInvalid("is in no text of what was sent.", file=DECISIONS, field="done.summary")


def _summaries(contents: Contents) -> Iterator[Mapping[str, object]]:
    for record in contents.decisions:
        done = record.get("done")
        if isinstance(done, dict):
            for step in [done, *(done["steps"] if isinstance(done.get("steps"), list) else [])]:
                if isinstance(step, dict) and isinstance(step.get("summary"), dict):
                    yield step["summary"]


def _local(contents: Contents, asked: Call, given: str | None) -> Local | None:
    """What counts here: what was given, what is published for the model, or what the bundle names.

    None where a server has counted. No file is opened because a bundle says so.
    """
    recorded = cast("Mapping[str, object]", contents.manifest.predicate["tokenizer"])
    own = LocalCounts(Settings(())).of(asked.model)
    name = str(recorded["name"])
    if given is not None:
        local = _named(asked.model, given)
    elif not recorded["fingerprint"]:
        return None
    elif own.identity.name == name:
        local = own
    elif is_builtin(name):
        local = _named(asked.model, name)
    else:
        raise ReplayImpossible(
            f"what counted is not known here: {name[:100]!r}. Give it with --tokenizer {FILE_PREFIX}PATH.",
            tokenizer=name[:100],
        )
    return replace(local, certain=True)  # there is no server to ask before


def _named(model: str, name: str) -> Local:
    return LocalCounts(Settings((), models={model: ModelSettings(tokenizer=name)})).of(model)


def _asked(contents: Contents, texts: Texts) -> Call:
    """The request as it came."""
    record = next((record for record in contents.inputs if record["id"] == REQUEST), None)
    if record is None:
        raise BundleInvalid("is missing.", file=INPUTS, field=REQUEST)
    text = texts.text(record["digest"])
    if text is None:
        raise ReplayImpossible(
            "the body of the request is missing. The bundle has it not; give it again with --from, byte for "
            "byte as it was sent, or set proof.texts.",
            missing=[REQUEST],
        )
    return _read(_options(contents).get("route"), text)


def _read(route: object, text: str) -> Call:
    protocol = _NAMES.get(route) if isinstance(route, str) else None
    if protocol is None:
        raise BundleInvalid(
            "is none of the gateway's routes.", file=MANIFEST, field="predicate.options.route"
        )
    try:
        return read_call(protocol, text.encode(), _LIMITS)
    except Refusal as error:
        raise BundleInvalid(f"is no request: {error.message}", file=INPUTS, field=REQUEST) from None


def _room(contents: Contents) -> Room:
    """What the model could take, as recorded: by settings and servers of that day."""
    said = _figures(contents)
    headroom = _fraction(said.get("headroom"), "headroom")
    window = _whole(said, "context_window")
    sources = said.get("sources")
    return Room(
        window=window,
        limit=limit_of(window, headroom),
        max_input=_whole(said, "max_input_tokens"),
        max_output=None,
        reserve=_whole(_options(contents), "reserve_out") or 0,
        headroom=str(said.get("headroom")),
        sources=sources if isinstance(sources, dict) else {},
    )


def _mode(contents: Contents) -> Mode:
    try:
        return Mode(str(_options(contents).get("mode")))
    except ValueError:
        raise BundleInvalid("is no mode.", file=MANIFEST, field="predicate.options.mode") from None


def _policy(contents: Contents) -> tuple[tuple[Fit, ...], LowWater]:
    """The steps of the mode fit, and how far to evict."""
    options = _options(contents)
    steps, eagerness = options.get("fit"), options.get("eagerness")
    if _mode(contents) is not Mode.FIT:
        return (), 1
    if not isinstance(steps, list) or not set(map(str, steps)) <= set(Fit):
        raise BundleInvalid("are no steps.", file=MANIFEST, field="predicate.options.fit")
    policy = tuple(Fit(str(step)) for step in steps)
    if eagerness is not None:
        return policy, AutoLowWater(_fraction(eagerness, "eagerness"))
    return policy, _fraction(options.get("low_water"), "low_water")


def _figures(contents: Contents) -> Record:
    if not contents.decisions or "decision" not in contents.decisions[0]:
        raise BundleInvalid("has no figures.", file=DECISIONS)
    return contents.decisions[0]


def _options(contents: Contents) -> Record:
    return cast("Record", contents.manifest.predicate["options"])


def _whole(record: Record, name: str) -> int | None:
    """A number of tokens that the bundle says."""
    value = record.get(name)
    if value is None:
        return None
    if type(value) is not int or value < 0:
        raise BundleInvalid("is no number of tokens.", file=DECISIONS, field=name)
    return value


def _fraction(value: object, name: str) -> Fraction:
    if not isinstance(value, str) or not _RATIO.fullmatch(value):
        raise BundleInvalid("is no fraction.", file=MANIFEST, field=f"predicate.options.{name}")
    return Fraction(value)
