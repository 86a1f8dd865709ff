"""Admission: whether a request fits, as the guard decides (:mod:`tokenbox.policy.guard`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson

from tokenbox.content.weight import weight_text
from tokenbox.gateway.fields import REASONING_BESIDE
from tokenbox.gateway.refusals import Refusal, unavailable
from tokenbox.gateway.settings import Mode
from tokenbox.integers import MAX_INTEGER
from tokenbox.policy.guard import Basis, GuardLimits, Uncertain, Verdict, guard, in_window
from tokenbox.tokenizers.ownership import key_of_model

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.models import ModelFigures
    from tokenbox.tokenizers.protocol import TokenizerIdentity

# The output limit, in tokens, of a request under a quota that states none.
OUTPUT_UNDER_QUOTA = 4096


@dataclass(frozen=True, slots=True)
class Counted:
    """The count of a request, and its source.

    ``identity`` is that of the local counter; None if a server counted. ``missing`` tells why the server that
    counts for the model did not: such a request passes only by its upper bound. ``unseen`` names input that
    could not be counted because the request only refers to it. ``parts`` has the size of each message alone,
    where that was counted.
    """

    count: Count
    source: str
    identity: TokenizerIdentity | None = None
    missing: str | None = None
    unseen: str | None = None
    parts: tuple[int, ...] | None = None

    @property
    def tokens(self) -> int:
        return self.count.total

    @property
    def exact(self) -> bool:
        return self.count.exact


@dataclass(frozen=True, slots=True)
class Admission:
    """The decision whether a request fits, with all figures.

    ``verdict`` is the guard's; None if the limits of the model are unknown. ``prompts`` is their number.
    """

    counted: Counted
    reserved: int
    model: ModelFigures
    mode: Mode
    verdict: Verdict | None
    prompts: int = 1

    @property
    def fits(self) -> bool:
        return self.verdict is not None and self.verdict.ok

    @property
    def is_over(self) -> bool:
        """Whether it is refused for its size, and not because it could not be counted."""
        return self.verdict is not None and not self.fits and not (self.is_missing_count or self.is_unseen)

    @property
    def budget(self) -> int | None:
        """The most input tokens; None if unknown, below 0 if the output alone is too much."""
        return None if self.verdict is None else self.verdict.limits.input_limit

    @property
    def input_tokens(self) -> int:
        """The figure that decided; of input that is partly unknown, what is known."""
        if self.verdict is None or self.counted.unseen is not None:
            return in_window(self.counted.count)
        return self.verdict.tokens

    @property
    def deficit(self) -> int:
        """By how many tokens that figure exceeds the budget."""
        return 0 if self.budget is None else max(0, self.input_tokens - self.budget)

    @property
    def remaining(self) -> int | None:
        """The tokens that stay free; None if unknown."""
        budget = self.budget
        return None if budget is None else max(0, budget - in_window(self.counted.count))

    @property
    def is_missing_count(self) -> bool:
        """Whether it is refused only because the server that counts did not answer."""
        verdict = self.verdict
        if self.counted.missing is None or self.counted.unseen is not None:
            return False
        return verdict is None or not (verdict.ok or verdict.basis is Basis.TOTAL)

    @property
    def is_unseen(self) -> bool:
        """Whether it is refused only because of input that could not be counted."""
        verdict = self.verdict
        if self.counted.unseen is None or verdict is None or verdict.ok:
            return False
        return verdict.basis is not Basis.TOTAL

    @property
    def input_at_most(self) -> int:
        """The most input tokens to charge: a window for each prompt with input that could not be counted."""
        count, window = self.counted.count, self.model.context_window
        if self.counted.unseen is None or window is None:
            return count.at_most
        return max(count.total, min(count.at_most, self.prompts * window))

    def again(self, call: ApiCall, counted: Counted) -> Admission:
        """Decide about another form of the request, by the same limits and rule."""
        uncertain = Uncertain.MARGIN if self.verdict is None else self.verdict.uncertain
        return judge(call, counted, self.model, self.mode, uncertain)

    def figures(self) -> dict[str, object]:
        """Return all figures of the decision, for the answer, the proof and the log."""
        model, count = self.model, self.counted.count
        found: dict[str, object] = {
            "mode": self.mode,
            "input_tokens": count.total,
            "exact": count.exact,
            "at_most": count.at_most,
            "counted_by": self.counted.source,
            "by": count.by,
            "reserved": self.reserved,
            "context_window": model.context_window,
            "headroom": weight_text(model.headroom),
            "limit": model.usable,
            "max_input_tokens": model.max_input,
            "remaining": self.remaining,
            "sources": dict(model.sources),
        }
        if self.counted.missing is not None:
            found["missing"] = self.counted.missing
        if self.counted.unseen is not None:
            found["unseen"] = self.counted.unseen
        if count.largest is not None:
            found["largest_prompt"] = count.largest
        if self.verdict is not None:
            found |= {"basis": self.verdict.basis, "uncertain": self.verdict.uncertain}
        return found


def judge(
    call: ApiCall, counted: Counted, model: ModelFigures, mode: Mode, uncertain: Uncertain = Uncertain.MARGIN
) -> Admission:
    """Decide whether a request fits. The reserved output is what the request asks for.

    At least one token is reserved, as servers refuse a prompt that fills the window. If the server that
    counts did not answer, the upper bound decides; input that could not be counted has no bound.
    """
    least = model.output_reserve if call.is_endless else None
    reserved = max(1, call.max_output or 0, least or 0) if call.protocol.output_keys else 0
    prompts = len(call.prompts) if call.protocol.takes_prompts else 1
    if model.context_window is None and model.max_input is None:
        return Admission(counted, reserved, model, mode, None, prompts)
    limits = GuardLimits(
        MAX_INTEGER if model.context_window is None else model.context_window,
        reserved,
        model.headroom,
        model.max_input,
        model.sources,
    )
    rule = uncertain
    if counted.missing is not None or (counted.unseen is not None and uncertain is not Uncertain.ALLOW):
        rule = Uncertain.BOUND
    return Admission(counted, reserved, model, mode, guard(counted.count, limits, rule), prompts)


def narrowed(model: ModelFigures, other: ModelFigures) -> ModelFigures:
    """Return the smaller limits of both models. A figure that one model lacks is the other's."""
    if other.context_window is None and other.max_input is None:
        return replace(model, context_window=None, max_input=None)  # unknown for one is unknown for both
    return replace(
        model,
        context_window=_least(model.usable, other.usable),
        headroom=model.headroom * 0,
        max_input=_least(model.max_input, other.max_input),
        max_output=_least(model.max_output, other.max_output),
        output_reserve=max(
            (one for one in (model.output_reserve, other.output_reserve) if one is not None), default=None
        ),
    )


def _least(one: int | None, other: int | None) -> int | None:
    return min((figure for figure in (one, other) if figure is not None), default=None)


def with_output_limit(
    call: ApiCall, admission: Admission, heeded: Sequence[str]
) -> tuple[ApiCall, Admission]:
    """Set an output limit for a key with a quota, because nothing else bounds its usage.

    ``heeded`` are the fields that the server heeds as an output limit, the preferred one first.
    """
    if not call.protocol.output_keys:
        return call, admission
    room = None if admission.remaining is None else admission.reserved + admission.remaining
    default = _within(room, 2 if call.thinks_endlessly else 1)
    own = max(1 if call.is_limited else default, call.max_output or 0)
    # -1 is no limit, and some servers take 0 for none.
    values = {-1: max(own, default), 0: own}
    stated = [(name, call.body[name]) for name in call.protocol.output_keys if name in call.body]
    limits = {name: values[value] for name, value in stated if value in values}
    if all(call.body.get(name) is None for name in heeded):
        limits[heeded[0]] = own
    if call.thinks_endlessly:
        answer = max(own, *limits.values(), 0)
        limits[REASONING_BESIDE] = _within(None if room is None else room - answer)
    if not limits:
        return call, admission
    bounded = call.with_body({**call.body, **limits})
    return bounded, admission.again(bounded, admission.counted)


def _within(room: int | None, shares: int = 1) -> int:
    """Return the output limit for a share of the room that the window has."""
    return OUTPUT_UNDER_QUOTA if room is None else max(1, min(OUTPUT_UNDER_QUOTA, room // shares))


def refusal_of(call: ApiCall, admission: Admission) -> Refusal:
    """Return the refusal of a request, with the smallest remedies.

    The status is 400 if the request does not fit or the window is unknown, and 503 if only the server's count
    is missing.
    """
    if admission.budget is None and not admission.is_missing_count:
        return Refusal(
            400,
            "context_window_unknown",
            f"The context window of the model {call.model!r} is unknown, so the request cannot be checked. "
            "The operator sets the window that its server has, or the mode observe. "
            f"Run: tokenbox config set {key_of_model(call.model, 'max_ctx')} 8192",
            "model",
            admission.figures(),
        )
    if admission.is_unseen:
        return Refusal(
            400,
            "input_not_countable",
            f"The request cannot be counted: {admission.counted.unseen}, and the upstream's count does not "
            'cover that. Leave it out or send its text, or the operator sets policy.uncertain to "allow".',
            call.protocol.input_key,
            admission.figures(),
        )
    if admission.is_missing_count:
        fits = (
            "how many fit is unknown, too"
            if admission.budget is None
            else f"{max(0, admission.budget)} would fit"
        )
        refusal = unavailable(
            "count_unavailable",
            f"The request could not be counted: {admission.counted.missing}. It may be as large as "
            f"{admission.counted.count.at_most} tokens, and {fits}. Try again shortly.",
            1,
        )
        return replace(refusal, tokenbox=admission.figures())
    return _too_large(call, admission)


def _too_large(call: ApiCall, admission: Admission) -> Refusal:
    """Return the refusal of input and output that do not fit, in the texts that clients parse."""
    model, param, tokens = admission.model, call.protocol.input_key, admission.input_tokens
    assert admission.verdict is not None  # noqa: S101  # there is a budget
    by_input = admission.verdict.limits.max_input_binds
    limit, reserved = (model.max_input, 0) if by_input else (model.usable, admission.reserved)
    assert limit is not None  # noqa: S101  # a budget has one of them
    figures = {
        "window": limit if model.context_window is None else model.context_window,
        **admission.figures(),
        "deficit": admission.deficit,
        "fixes": remedies(call, admission),
    }
    if admission.counted.parts is not None:
        figures["messages"] = sizes(call, admission.counted)
    if tokens > limit:
        anthropic = f"prompt is too long: {tokens} tokens > {limit} maximum"
    else:
        anthropic = (
            f"input length and `max_tokens` exceed context limit: {tokens} + {reserved} > {limit}, "
            "decrease input length or `max_tokens` and try again"
        )
    return Refusal(
        400,
        "context_length_exceeded",
        f"This model's maximum context length is {limit} tokens. However, you requested {tokens + reserved} "
        f"tokens{'' if admission.counted.exact else ' (estimated)'} ({tokens} in the {param}, {reserved} in "
        f"the completion). Please reduce the length of the {param}{' or completion' if reserved else ''}. "
        "[context_length_exceeded]",
        param,
        figures,
        anthropic_message=anthropic,
    )


def remedies(call: ApiCall, admission: Admission) -> list[dict[str, object]]:
    """Return the single changes that would make the request fit, smallest first."""
    found: list[dict[str, object]] = []
    model = admission.model
    tokens = admission.input_tokens
    free = None if model.usable is None else model.usable - tokens
    input_fits = model.max_input is None or tokens <= model.max_input
    if call.protocol.output_keys and input_fits and free is not None and free > 0:
        key = call.limited_by or call.protocol.output_keys[0]
        free = free if model.max_output is None else min(free, model.max_output)
        found.append(
            {"change": "reduce_output", "param": key, "to": free, "say": f"set {key} to {free} or less"}
        )
    if admission.budget is not None and admission.budget > 0:
        found.append(
            {
                "change": "reduce_input",
                "by": admission.deficit,
                "to": admission.budget,
                "say": f"send at least {admission.deficit} tokens less in the {call.protocol.input_key}",
            }
        )
        if not call.protocol.takes_prompts and admission.mode is not Mode.FIT:
            say = "send the header x-tokenbox-mode: fit, if your key may use it"
            found.append({"change": "fit", "say": say})
    return found


def sizes(call: ApiCall, counted: Counted) -> list[dict[str, object]]:
    """Return the size of each message or prompt alone."""
    return [
        {
            "index": index,
            "role": item.get("role") if isinstance(item, dict) else None,
            "tokens": tokens,
            "exact": False,
        }
        for index, (item, tokens) in enumerate(zip(call.parts, counted.parts or (), strict=False))
    ]


def decision_id(value: Mapping[str, object]) -> str:
    """Return the SHA-256 (hex) of the decision's RFC 8785 JSON.

    With text keys in ASCII, integers and texts, RFC 8785 is compact JSON with sorted keys.
    """
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # lone surrogates in the name of a model
        data = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest()
