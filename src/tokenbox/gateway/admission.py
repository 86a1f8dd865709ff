"""Whether a request fits: the one guard's answer (:mod:`tokenbox.policy.guard`), as the gateway tells it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson

from tokenbox.content.weight import weight_text
from tokenbox.gateway.refusals import Refusal, over_limit
from tokenbox.gateway.settings import Mode
from tokenbox.integers import MAX_INTEGER
from tokenbox.policy.guard import Basis, GuardLimits, Uncertain, guard, in_window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tokenbox.compose.requests import Count
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.models import ModelFigures
    from tokenbox.policy.guard import Verdict as Guarded
    from tokenbox.tokenizers.protocol import TokenizerIdentity

# A request that states no output limit, and has to have one, gets this one.
OUTPUT_UNDER_QUOTA = 4096


@dataclass(frozen=True, slots=True)
class Counted:
    """The count of a request, and who made it.

    ``identity``: of what counted here; None where a server did. ``missing``: why the server that counts for
    the model did not, None if it did or there is none: such a request passes only by its bound. ``unseen``:
    input that nobody has counted, as the request only names it. ``parts``: the size of each message alone,
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
    """Whether a request fits, with all figures.

    ``guarded`` is the guard's answer, None where nobody knows how much the model can take.
    """

    counted: Counted
    reserved: int
    model: ModelFigures
    mode: Mode
    guarded: Guarded | None

    @property
    def fits(self) -> bool:
        return self.guarded is not None and self.guarded.ok

    @property
    def is_over(self) -> bool:
        """Whether it is refused for its size, and not because it could not be counted."""
        return self.guarded is not None and not self.fits and not (self.is_missing_count or self.is_unseen)

    @property
    def budget(self) -> int | None:
        """What the input may be, None where that is unknown; below 0 if the output alone is too much."""
        return None if self.guarded is None else self.guarded.limits.input_limit

    @property
    def deficit(self) -> int:
        """By how much the figure that decided is over the budget."""
        return 0 if self.guarded is None else max(0, self.guarded.over)

    @property
    def remaining(self) -> int | None:
        """What stays free, None if that is unknown."""
        budget = self.budget
        return None if budget is None else max(0, budget - in_window(self.counted.count))

    @property
    def is_missing_count(self) -> bool:
        """Whether it is refused only because the server that counts did not answer."""
        guarded = self.guarded
        if self.counted.missing is None or guarded is None or guarded.ok:
            return False
        return guarded.basis is not Basis.TOTAL and self.counted.unseen is None

    @property
    def is_unseen(self) -> bool:
        """Whether it is refused only because of input that nobody has counted."""
        guarded = self.guarded
        if self.counted.unseen is None or guarded is None or guarded.ok:
            return False
        return guarded.basis is not Basis.TOTAL

    @property
    def input_at_most(self) -> int:
        """The most input it may be charged for. Of input that nobody counted, that is the window."""
        at_most, window = self.counted.count.at_most, self.model.context_window
        return at_most if self.counted.unseen is None or window is None else min(at_most, window)

    def figures(self) -> dict[str, object]:
        """Everything about the decision, for the answer, the proof and the log."""
        model, count = self.model, self.counted.count
        found: dict[str, object] = {
            "mode": self.mode.value,
            "input_tokens": count.total,
            "exact": count.exact,
            "at_most": count.at_most,
            "counted_by": self.counted.source,
            "by": count.by.value,
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
        if self.guarded is not None:
            found |= {"basis": self.guarded.basis.value, "uncertain": self.guarded.uncertain.value}
        return found


def judge(
    call: ApiCall, counted: Counted, model: ModelFigures, mode: Mode, uncertain: Uncertain = Uncertain.MARGIN
) -> Admission:
    """The guard's answer for a request. The output reserved is what the request asks for.

    An answer has a token at least: servers refuse a prompt that fills the window. Where the server that
    counts did not answer, only the bound counts; input that nobody counted has none.
    """
    stated = model.output_reserve if call.max_output is None else call.max_output
    reserved = max(1, stated or 0) if call.protocol.output_keys else 0
    if model.context_window is None and model.max_input is None:
        return Admission(counted, reserved, model, mode, None)
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
    return Admission(counted, reserved, model, mode, guard(counted.count, limits, rule))


def narrowed(model: ModelFigures, other: ModelFigures) -> ModelFigures:
    """What fits both models; a figure that is unknown of either is the other's."""
    if other.context_window is None and other.max_input is None:
        return replace(model, context_window=None, max_input=None)  # unknown, so nothing is promised
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


def with_output_limit(call: ApiCall, verdict: Admission, heeded: Sequence[str]) -> tuple[ApiCall, Admission]:
    """The call with an output limit, for a key with a quota: nothing else bounds what it may use.

    ``heeded``: the names for it that the server heeds, the one to use first. Whatever else says that there is
    no limit is replaced.
    """
    if not call.protocol.output_keys:
        return call, verdict
    own, most = heeded[0], call.max_output
    if most is not None:
        stated = [name for name in heeded if call.body.get(name) is not None]
        if stated and most:
            return call, verdict
        # It is limited only by a name that this server ignores, or by 0, which some take for no limit.
        return call.with_body({**call.body, **dict.fromkeys(stated or (own,), max(1, most))}), verdict
    left = verdict.remaining
    most = OUTPUT_UNDER_QUOTA if left is None else max(1, min(OUTPUT_UNDER_QUOTA, verdict.reserved + left))
    unlimited = {name: most for name in call.protocol.output_keys if call.body.get(name) is not None}
    bounded = call.with_body({**call.body, **unlimited, own: most})
    uncertain = Uncertain.MARGIN if verdict.guarded is None else verdict.guarded.uncertain
    return bounded, judge(bounded, verdict.counted, verdict.model, verdict.mode, uncertain)


def refusal_of(call: ApiCall, verdict: Admission) -> Refusal:
    """What a request that may not go is answered, with the smallest remedies.

    400 where it does not fit, or nobody knows the window; 503 where only the server's count is missing.
    """
    model, count = verdict.model, verdict.counted.count
    if verdict.budget is None:
        return Refusal(
            400,
            "context_window_unknown",
            f"How much the model {call.model!r} can take is not known, so nothing can be promised. The "
            f"operator sets it: [models.{call.model!r}] max_ctx in the configuration, or the mode observe.",
            "model",
            verdict.figures(),
        )
    if verdict.is_unseen:
        return Refusal(
            400,
            "input_not_countable",
            f"The request cannot be counted: {verdict.counted.unseen}, and the upstream's count does not "
            'cover that. Send its text, or the operator sets policy.uncertain to "allow".',
            call.protocol.input_key,
            verdict.figures(),
        )
    if verdict.is_missing_count:
        return Refusal(
            503,
            "count_unavailable",
            f"The request could not be counted: {verdict.counted.missing}. It may be as large as "
            f"{count.at_most} tokens, and {max(0, verdict.budget)} would fit. Try again shortly.",
            None,
            verdict.figures(),
            headers=((b"retry-after", b"1"),),
        )
    figures = {**verdict.figures(), "deficit": verdict.deficit, "fixes": remedies(call, verdict)}
    if verdict.counted.parts is not None:
        figures["messages"] = sizes(call, verdict.counted)
    assert verdict.guarded is not None  # noqa: S101  # there is a budget
    by_input = verdict.guarded.limits.max_input_binds
    limit = model.max_input if by_input else model.usable
    assert limit is not None  # noqa: S101  # a budget has one of them
    return over_limit(
        input_tokens=verdict.guarded.tokens,
        reserved=0 if by_input else verdict.reserved,
        limit=limit,
        window=model.context_window if model.context_window is not None else limit,
        param=call.protocol.input_key,
        exact=verdict.counted.exact,
        figures=figures,
    )


def remedies(call: ApiCall, verdict: Admission) -> list[dict[str, object]]:
    """The single changes that would make it fit, smallest first."""
    found: list[dict[str, object]] = []
    model = verdict.model
    tokens = in_window(verdict.counted.count) if verdict.guarded is None else verdict.guarded.tokens
    free = None if model.usable is None else model.usable - tokens
    input_fits = model.max_input is None or tokens <= model.max_input
    if call.protocol.output_keys and input_fits and free is not None and free > 0:
        key = call.limited_by or call.protocol.output_keys[0]
        free = free if model.max_output is None else min(free, model.max_output)
        found.append(
            {"change": "reduce_output", "param": key, "to": free, "say": f"set {key} to {free} or less"}
        )
    if verdict.budget is not None and verdict.budget > 0:
        found.append(
            {
                "change": "reduce_input",
                "by": verdict.deficit,
                "to": verdict.budget,
                "say": f"send at least {verdict.deficit} tokens less in the {call.protocol.input_key}",
            }
        )
    can_be_fitted = call.protocol.name in ("chat", "messages", "responses") and (verdict.budget or 0) > 0
    if can_be_fitted and verdict.mode is not Mode.FIT:
        found.append({"change": "fit", "say": "send the header x-tokenbox-mode: fit, if your key may use it"})
    return found


def sizes(call: ApiCall, counted: Counted) -> list[dict[str, object]]:
    """The size of each message alone, or of each prompt."""
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
    """SHA-256 (hex) over the RFC 8785 JSON of a decision: text keys in ASCII, whole numbers, texts.

    For such data RFC 8785 is compact JSON with sorted keys.
    """
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a model named with half a character
        data = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest()
