"""Enforcement: decide whether a request may be sent, and if not, find the smallest changes that let it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tokenbox.compose.requests import NO_BOUND
from tokenbox.content.unseen import UNRENDERED, unseen_of
from tokenbox.errors import ContextCriticalOverflow, EmptyInput, one_of, shown
from tokenbox.models import OutputMode
from tokenbox.policy.chunks import ChunkKind, Chunks
from tokenbox.policy.errors import InvalidPolicy, StrategyFailed, UnknownStrategy
from tokenbox.policy.estimate import ChunkCounter, count_chunks
from tokenbox.policy.guard import GuardLimits, Uncertain, Verdict, checked_uncertain, guard
from tokenbox.policy.override import Override
from tokenbox.policy.packing import pack, strategy_name
from tokenbox.policy.records import CutChunks, Enforcement, LargerWindow, LowerMaxTokens, Remedy, Why

if TYPE_CHECKING:
    from tokenbox.policy.strategies import Strategy


Alternatives = Callable[[int], Sequence[str]]
"""``alternatives(tokens_in)``: other models that are counted alike and let the request pass, best first."""


def no_alternatives(tokens_in: int) -> Sequence[str]:  # noqa: ARG001  # the signature of Alternatives
    return ()


def enforce(  # noqa: PLR0913  # keyword options
    request: Chunks,
    limits: GuardLimits,
    counter: ChunkCounter,
    *,
    output_mode: OutputMode | str = OutputMode.TEXT,
    override: Override | None = None,
    strategy: str | Strategy | None = None,
    model: str | None = None,
    max_tokens_request: int | None = None,
    uncertain: Uncertain | str = Uncertain.MARGIN,
    max_output: int | None = None,
    notes: Sequence[str] = (),
    alternatives: Alternatives = no_alternatives,
) -> Enforcement:
    """Decide whether ``request`` may be sent within ``limits``; if not, find the smallest fixes.

    ``strategy`` decides what a smaller request would leave out; if it fails, the verdict stands, with a note.
    ``max_output`` is the longest answer of the model, which no remedy exceeds. ``alternatives`` is called for
    other models only if the request is over. Raises :class:`InvalidPolicy` for an invalid override.
    """
    mode = checked_mode(output_mode)
    if override is not None and not isinstance(override, Override):
        raise InvalidPolicy(
            f"override is what tokenbox.override.allow_over_context() gives, not {shown(override)}: the "
            "escape hatch is explicit.",
            field="override",
        )
    rule = checked_uncertain(uncertain)
    verdict = guard(count_chunks(request, counter), limits, rule)
    plan: tuple[Remedy, ...] = ()
    name, notes = strategy_name(request, strategy), tuple(notes)
    if verdict.count.at_most == NO_BOUND:
        notes += (f"{unseen_of(request.request(request.items)) or UNRENDERED}, which is not counted here",)
    if not verdict.ok:
        try:
            cuts = _cuts(request, verdict, counter, strategy, model)
        except (StrategyFailed, UnknownStrategy) as error:
            cause = "" if error.__cause__ is None else f": {type(error.__cause__).__name__}"
            cuts = []
            notes += (f"no cut is proposed, because the strategy {name} fails here{cause}",)
        plan = _remedies(verdict, cuts, max_output, alternatives)
    why = Why(verdict, overridden=not verdict.ok and override is not None, notes=notes)
    return Enforcement(
        ok=verdict.ok or override is not None,
        why=why,
        plan=plan,
        tokenizer=counter.identity,
        output_mode=mode,
        override=override,
        model=model,
        max_tokens_request=max_tokens_request,
        request=request,
        strategy=name,
    )


def checked_mode(mode: object) -> OutputMode:
    """Return ``mode`` as an :class:`OutputMode`. Raises :class:`InvalidPolicy`."""
    return one_of(OutputMode, "output_mode", mode, InvalidPolicy, field="output_mode")


def _remedies(
    verdict: Verdict, cuts: Sequence[Remedy], max_output: int | None, alternatives: Alternatives
) -> tuple[Remedy, ...]:
    """Return single changes, each of them enough: request less output, send less, use a larger window."""
    limits, tokens_in = verdict.limits, verdict.tokens
    if tokens_in == NO_BOUND:  # no window is known to be enough
        return tuple(cuts)
    lower: list[Remedy] = []
    largest = limits.largest_reserve(tokens_in)
    # Not if no answer at all would be left, or if the reserve is not the cause.
    if largest > 0 and not replace(limits, reserve_out=largest).denies(tokens_in):
        asked = largest if max_output is None else min(largest, max_output)
        lower = [LowerMaxTokens(asked, limits.reserve_out)]
    window = max(limits.smallest_window(tokens_in), 1)
    over_input = limits.max_input is not None and tokens_in > limits.max_input
    larger = LargerWindow(window, tokens_in if over_input else None, tuple(alternatives(tokens_in)))
    return (*lower, *cuts, larger)


def _cuts(
    request: Chunks,
    verdict: Verdict,
    counter: ChunkCounter,
    strategy: str | Strategy | None,
    model: str | None,
) -> list[Remedy]:
    """Return what the strategy would send; before it a single cut, if the strategy makes several.

    Leave out what is nothing, and what is not possible because of chunks that must be kept.
    """

    def cut(request: Chunks, strategy: str | Strategy | None) -> CutChunks | None:
        try:
            plan = pack(request, verdict.limits, counter, strategy, model, verdict.uncertain)
        except (ContextCriticalOverflow, EmptyInput):
            return None
        return CutChunks(plan) if plan.total > 0 else None  # the guard passes what `pack` plans

    if verdict.limits.input_limit < 1 or not request.items or (found := cut(request, strategy)) is None:
        return []
    if len(found.cuts) < 2 or request.kind is not ChunkKind.SECTIONS:
        return [found]
    single = cut(_only_largest_flexible(request), "box")
    return [found] if single is None or single.plan.dropped else [single, found]


def _only_largest_flexible(request: Chunks) -> Chunks:
    """Return the sections. Only the largest that may be cut stays flexible."""
    flexible = [i for i, section in enumerate(request.sections) if section.shrink != 0]
    largest = max(flexible, key=lambda i: (len(request.texts[i]), -i), default=None)
    only = tuple(
        section if i == largest else replace(section, shrink=0) for i, section in enumerate(request.sections)
    )
    return replace(request, items=only)
