"""The evidence of a plan, of an enforcement, and of one that could not be made."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from tokenbox.content.blocks import AnnotationBlock, resolve_priorities
from tokenbox.content.weight import weight_text
from tokenbox.conversation.record import message_digest
from tokenbox.errors import ContextCriticalOverflow
from tokenbox.override import Override
from tokenbox.policy.chunks import Kind as ChunkKind
from tokenbox.policy.messages import message_text, tools_text
from tokenbox.proof.evidence import Budget, Evidence, Input, Kind, Outcome, Sourced, Status
from tokenbox.proof.of_blocks import block_input
from tokenbox.proof.of_layout import critical_decisions, outcome_of, section_input
from tokenbox.tokenizers.cache import text_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tokenbox.content.message import Message
    from tokenbox.errors import TokenboxError
    from tokenbox.policy import Enforcement, Limits, OutputMode, PackPlan, Request
    from tokenbox.proof.evidence import Record
    from tokenbox.tokenizers.protocol import TokenizerIdentity

GUARD: Final = "context-guard/1"
PLAN: Final = "context-plan/1"
OVER_CONTEXT: Final = "over_context"


def of_plan(plan: PackPlan) -> Evidence:
    """The evidence of a plan: what became of every chunk, and what would be sent."""
    chunks = sorted((*plan.packed, *plan.dropped), key=lambda chunk: chunk.index)
    sizes = {chunk.index: chunk.base_size for chunk in chunks}
    return Evidence(
        kind=Kind.PLAN,
        algorithm=PLAN,
        options={"strategy": plan.strategy, "separator": plan.request.separator},
        budget=budget_of(plan.limits),
        tokenizer=plan.tokenizer,
        inputs=tuple(_inputs(plan.request, sizes)),
        decisions=(
            *(chunk.to_dict() for chunk in chunks),
            *({"summarize": op.to_dict()} for op in plan.summary_ops),
        ),
        emitted=plan.emitted,
        digest=plan.layout.digest,
        figures={"total": plan.total, "exact": plan.exact},
        model=plan.model,
    )


def of_plan_error(
    error: TokenboxError,
    request: Request,
    limits: Limits,
    tokenizer: TokenizerIdentity,
    strategy: str,
    model: str | None,
) -> Evidence:
    """The evidence of chunks that could not be packed: refused if they do not fit, else failed."""
    critical = dict(error.critical) if isinstance(error, ContextCriticalOverflow) else {}
    return Evidence(
        kind=Kind.PLAN,
        algorithm=PLAN,
        options={"strategy": strategy, "separator": request.separator},
        budget=budget_of(limits),
        tokenizer=tokenizer,
        inputs=tuple(_inputs(request, {})),
        decisions=tuple(critical_decisions(critical)),
        outcome=outcome_of(error),
        model=model,
    )


def of_enforcement(verdict: Enforcement, strategy: str | None = None) -> Evidence:
    """The evidence of an enforcement: the rule with its figures, and every remedy where it was denied.

    ``strategy``: how the record calls the strategy, if not as the verdict does.

    What it is about are its inputs; nothing is emitted.
    """
    why = verdict.why
    figures = {"over": why.over, "input_limit": verdict.limits.input_limit}
    refused = Outcome(Status.REFUSED, OVER_CONTEXT, figures)
    return Evidence(
        kind=Kind.ENFORCEMENT,
        algorithm=GUARD,
        options=guard_options(
            verdict.request, verdict.output_mode, verdict.max_tokens_request, strategy or verdict.strategy
        ),
        budget=budget_of(verdict.limits),
        tokenizer=verdict.tokenizer,
        inputs=() if verdict.request is None else tuple(_inputs(verdict.request, {})),
        decisions=(
            {"decision": "allowed" if verdict.ok else "denied", "why": why.say, "notes": list(why.notes)},
            *({"remedy": remedy.to_dict()} for remedy in verdict.plan),
        ),
        outcome=Outcome() if verdict.ok else refused,
        figures={
            "tokens_in": why.tokens_in,
            "over": why.over,
            "exact": why.exact,
            "binding": why.binding.value,
            "max_input": verdict.limits.max_input,
            "overridden": why.overridden,
        },
        model=verdict.model,
        override=None if verdict.override is None else verdict.override.to_dict(),
    )


def of_enforcement_error(
    error: TokenboxError,
    request: Request,
    limits: Limits,
    tokenizer: TokenizerIdentity,
    options: Record,
    override: object,
    model: str | None,
) -> Evidence:
    """The evidence of a request about which nothing could be said: it failed, and so it may not be sent.

    ``options`` are those of :func:`guard_options`.
    """
    return Evidence(
        kind=Kind.ENFORCEMENT,
        algorithm=GUARD,
        options=options,
        budget=budget_of(limits),
        tokenizer=tokenizer,
        inputs=tuple(_inputs(request, {})),
        decisions=(),
        outcome=Outcome.of(error),
        figures={"max_input": limits.max_input},
        model=model,
        override=override.to_dict() if isinstance(override, Override) else None,
    )


def guard_options(
    request: Request | None, mode: OutputMode, max_tokens_request: int | None, strategy: str | None
) -> dict[str, object]:
    """What else a verdict follows from."""
    return {
        "output_mode": mode.value,
        "max_tokens_request": max_tokens_request,
        "strategy": strategy,
        "separator": None if request is None else request.separator,
    }


def budget_of(limits: Limits) -> Budget:
    """The figures of the guard, each with its source."""
    sources = limits.sources
    binding = "max_input" if limits.max_input_binds else "max_ctx"
    return Budget(
        # Below 0 nothing passes at all.
        tokens=Sourced(limits.input_limit, sources.get(binding)),
        context_window=Sourced(limits.max_ctx, sources.get("max_ctx")),
        reserve_output=Sourced(limits.reserve_out, sources.get("reserve_out")),
        headroom=Sourced(weight_text(limits.headroom), sources.get("headroom")),
    )


def _inputs(request: Request, sizes: Mapping[int, int]) -> Iterator[Input]:
    """Every chunk. ``sizes``: what each counts alone, where that was found out."""
    if request.kind is ChunkKind.SECTIONS:
        for i, section in enumerate(request.sections):
            yield section_input(section, sizes.get(i))
    elif request.kind is ChunkKind.MESSAGES:
        for i, message in enumerate(request.items):
            yield _message_input(message, request.ids[i], sizes.get(i))
        if request.tools:
            yield _tools_input(request)
    else:
        priorities = resolve_priorities(request.items)
        for i, block in enumerate(request.items):
            if not isinstance(block, AnnotationBlock):
                yield block_input(block, request.ids[i], i, priorities[i], sizes.get(i), None)


def _message_input(message: Message, name: str, tokens: int | None) -> Input:
    text = message_text(message)
    data = text.encode()
    return Input(
        id=name,
        kind="message",
        digest=message_digest(message),
        size=len(data),
        tokens=tokens,
        fields={
            "content": hashlib.sha256(data).hexdigest(),
            "role": message.role.value,
            "tool_calls": len(message.tool_calls),
        },
        texts=(data,),
    )


def _tools_input(request: Request) -> Input:
    text = tools_text(request)
    digest = text_digest(text).hex()
    return Input(id="tools", kind="tools", digest=digest, size=len(text.encode()), tokens=None, texts=(text,))
