"""The entries of plans and of enforcement decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tokenbox.compose.blocks import BlockLayout
from tokenbox.compose.layout import Layout
from tokenbox.content.items import read_item
from tokenbox.conversation.record import Fitted
from tokenbox.inspect.of_layout import blocks_entry, layout_entry, tokenizer_facts
from tokenbox.inspect.of_messages import fitted_entry, message_item
from tokenbox.inspect.record import (
    PageEntry,
    PageFrame,
    PageItem,
    PageState,
    PageStep,
    PageVerdict,
    check_items,
    limits_shown,
)
from tokenbox.policy.chunks import ChunkKind, Chunks
from tokenbox.policy.records import CutChunks, Enforcement, PackPlan

if TYPE_CHECKING:
    from tokenbox.policy.guard import GuardLimits
    from tokenbox.policy.strategies import ChosenLayout


def plan_entry(plan: PackPlan, title: str, *, small: bool = False) -> PageEntry:
    """Return the entry of a plan: the layout of its strategy, with the limits behind its budget.

    ``small``: as in :func:`~tokenbox.inspect.of_layout.layout_entry`.
    """
    made = plan.layout
    if isinstance(made, Layout):
        entry = layout_entry(made, title, small=small)
    elif isinstance(made, BlockLayout):
        entry = blocks_entry(made, title)
    elif isinstance(made, Fitted):
        entry = fitted_entry(made, title)
    else:
        entry = _chosen_entry(made, title)
    about = "" if plan.exact else "~"
    return replace(
        entry,
        kind="plan",
        facts=(("Model", plan.model or "not named"), ("Strategy", plan.strategy), *entry.facts),
        notes=(*entry.notes, *(f"You could {op.say(about)}." for op in plan.summary_ops)),
        limits=_limits(plan.limits),
    )


def enforcement_entry(enforcement: Enforcement, title: str) -> PageEntry:
    """Return the entry of a decision: the request, its limits, and the remedies."""
    request, why = enforcement.request, enforcement.why
    cut = next((remedy.plan for remedy in enforcement.plan if isinstance(remedy, CutChunks)), None)
    items = () if request is None else _chunks(request, cut)
    check_items(len(items))
    given = tuple(PageState(i, "kept", item.base, item.text) for i, item in enumerate(items))
    limit = why.limits.input_limit
    frames = [PageFrame(limit, why.tokens_in, why.exact, given, label="as it was given")]
    if cut is not None and request is not None:
        sizes = {chunk.index: chunk for chunk in (*cut.packed, *cut.dropped)}
        texts = getattr(cut.layout, "texts", None)
        states = [
            PageState(
                i,
                sizes[i].decision.value,
                sizes[i].size,
                None if texts is None or len(texts) != len(items) else texts[i] or "",
            )
            for i in range(len(items))
            if i in sizes
        ]
        steps = tuple(
            PageStep((i,), chunk.decision.value, sentence, chunk.base_size, chunk.size)
            for i, chunk in sorted(sizes.items())
            for sentence in chunk.why
        )
        shown = PageFrame(cut.budget, cut.total, cut.exact, tuple(states), steps=steps, label="cut to fit")
        frames.append(shown)
    facts = [("Model", enforcement.model or "not named"), ("Output", enforcement.output_mode.value)]
    if enforcement.strategy is not None:
        facts.append(("Strategy", enforcement.strategy))
    return PageEntry(
        title,
        "decision",
        items,
        tuple(frames),
        facts=(*facts, ("Decided by", why.verdict.basis.value), *tokenizer_facts(enforcement.tokenizer)),
        notes=why.notes,
        separator="\n\n",
        limits=_limits(why.limits),
        verdict=PageVerdict.of_request(
            enforcement.ok, (why.say, *(remedy.say for remedy in enforcement.plan))
        ),
    )


def _limits(limits: GuardLimits) -> tuple[tuple[str, int], ...]:
    over = limits.window_room - limits.input_limit if limits.max_input_binds else 0
    return limits_shown(limits.max_ctx, limits.reserve_out, limits.max_ctx - limits.usable, over)


def _chunks(request: Chunks, cut: PackPlan | None) -> tuple[PageItem, ...]:
    bases: dict[int, int] = {}
    if cut is not None:
        bases = {chunk.index: chunk.base_size for chunk in (*cut.packed, *cut.dropped)}
    if request.kind is ChunkKind.MESSAGES:
        return tuple(
            message_item(read_item(message), i, bases.get(i)) for i, message in enumerate(request.items)
        )
    are_known = request.kind is ChunkKind.SECTIONS
    texts: Sequence[str | None] = request.texts if are_known else [None] * len(request.ids)
    return tuple(
        PageItem(name, request.kind.value.rstrip("s"), text, bases.get(i))
        for i, (name, text) in enumerate(zip(request.ids, texts, strict=True))
    )


def _chosen_entry(made: ChosenLayout, title: str) -> PageEntry:
    check_items(len(made.ids))
    exact = made.tokenizer.exact if made.count is None else made.count.exact
    items = tuple(
        PageItem(name, "chunk", text, base)
        for name, text, base in zip(made.ids, made.texts, made.base_sizes, strict=True)
    )
    states = tuple(
        PageState(i, "dropped" if text is None else "kept", size, text or "")
        for i, (text, size) in enumerate(zip(made.texts, made.sizes, strict=True))
    )
    frame = PageFrame(made.budget, made.total, exact, states, prompt=made.text)
    return PageEntry(title, "plan", items, (frame,), facts=tokenizer_facts(made.tokenizer))
