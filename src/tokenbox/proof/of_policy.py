"""The records of estimates, plans and enforcements in a bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from tokenbox.catalog import Figure
from tokenbox.content.blocks import AnnotationBlock, resolve_priorities
from tokenbox.content.message import freeze_object, thaw
from tokenbox.content.request import Api
from tokenbox.content.weight import weight_text
from tokenbox.conversation.markers import MarkersFormat
from tokenbox.models.resolve import REQUESTED_RESERVE, default_reserve, is_default_reserve
from tokenbox.policy import GuardLimits, enforce, estimate, pack, read_chunks
from tokenbox.policy.chunks import ChunkKind
from tokenbox.policy.enforcement import checked_mode
from tokenbox.policy.guard import tokens
from tokenbox.policy.override import allow_over_context
from tokenbox.proof.bundle import INPUTS
from tokenbox.proof.calls import MESSAGES, RecordedFunction, broken, plain, ratio
from tokenbox.proof.errors import BundleInvalid
from tokenbox.proof.evidence import Budget, EvidenceKind, EvidenceOutcome, EvidenceStatus, Input, Sourced
from tokenbox.proof.of_blocks import block_input, recorded_blocks
from tokenbox.proof.of_messages import MESSAGE, TOOLS, message_input, recorded_items, tools_input
from tokenbox.proof.of_sections import recorded_sections, section_input

if TYPE_CHECKING:
    from tokenbox.policy import Chunks, Enforcement, Estimate, PackPlan
    from tokenbox.policy.override import Override
    from tokenbox.proof.calls import Arguments, Recorded

OVER_CONTEXT: Final = "over_context"
_APART: Final = frozenset({"request", "limits", "counter", "model"})
_WHOLE: Final = ("fields", "head", "api")
_ALSO: Final = frozenset({"separator", MESSAGES, *_WHOLE})


def budget_of(limits: GuardLimits) -> Budget:
    """Return the limits of the guard with their sources. ``tokens`` may be negative: then nothing passes."""
    sources = limits.sources
    return Budget(
        tokens=Sourced(limits.input_limit, sources.get("max_input" if limits.max_input_binds else "max_ctx")),
        context_window=Sourced(limits.max_ctx, sources.get("max_ctx")),
        output_reserve=Sourced(limits.reserve_out, sources.get("reserve_out")),
        headroom=Sourced(weight_text(limits.headroom), sources.get("headroom")),
        max_input=Sourced(limits.max_input, sources.get("max_input")),
    )


def _beside(arguments: Arguments) -> dict[str, object]:
    """Return what the request has beside its chunks."""
    request: Chunks = arguments["request"]
    found: dict[str, object] = {"separator": request.separator}
    if request.kind is ChunkKind.SECTIONS and isinstance(arguments["counter"], MarkersFormat):
        found[MESSAGES] = True  # its identity is that of the vocabulary
    if request.fields or request.head or request.api is not Api.CHAT:
        found |= {"fields": plain(thaw(request.fields)), "head": request.head, "api": request.api.value}
    return found


def _inputs(request: Chunks, sizes: Mapping[int, int]) -> Iterator[Input]:
    """Yield every chunk. ``sizes``: the tokens of each chunk alone, if counted."""
    if request.kind is ChunkKind.SECTIONS:
        for i, section in enumerate(request.sections):
            yield section_input(section, sizes.get(i))
    elif request.kind is ChunkKind.MESSAGES:
        for i, message in enumerate(request.items):
            yield message_input(message, request.ids[i], sizes.get(i))
        if request.tools:
            yield tools_input(request.tools)
    else:
        priorities = resolve_priorities(request.items)
        for i, block in enumerate(request.items):
            if not isinstance(block, AnnotationBlock):
                yield block_input(block, request.ids[i], i, priorities[i], sizes.get(i))


def _planned_inputs(arguments: Arguments, plan: PackPlan | None) -> Iterator[Input]:
    chunks = () if plan is None else (*plan.packed, *plan.dropped)
    return _inputs(arguments["request"], {chunk.index: chunk.base_size for chunk in chunks})


def _plan(_: Arguments, plan: PackPlan) -> dict[str, Any]:
    """Return the decision on every chunk, and the text to send."""
    chunks = sorted((*plan.packed, *plan.dropped), key=lambda chunk: chunk.index)
    return {
        "decisions": (
            *(chunk.to_dict() for chunk in chunks),
            *({"summarize": op.to_dict()} for op in plan.summary_ops),
        ),
        "emitted": plan.emitted,
        "digest": plan.layout.digest,
        "figures": {"total": plan.total, "exact": plan.exact, "strategy": plan.strategy},
    }


def _enforcement(_: Arguments, verdict: Enforcement) -> dict[str, Any]:
    """Return the rule with its figures, and the remedies of a denial. Nothing is emitted."""
    why = verdict.why
    refused = EvidenceOutcome(
        EvidenceStatus.REFUSED, OVER_CONTEXT, {"over": why.over, "input_limit": verdict.limits.input_limit}
    )
    return {
        "decisions": (
            {"decision": "allowed" if verdict.ok else "denied", "why": why.say, "notes": list(why.notes)},
            *({"remedy": remedy.to_dict()} for remedy in verdict.plan),
        ),
        "outcome": EvidenceOutcome() if verdict.ok else refused,
        "figures": {
            "tokens_in": why.tokens_in,
            "at_most": why.verdict.count.at_most,
            "counted_by": why.verdict.count.by.value,
            # The figure compared with the limit, and its kind.
            "decided_on": why.verdict.tokens,
            "basis": why.verdict.basis.value,
            "over": why.over,
            "exact": why.exact,
            "binding": why.binding.value,
            "overridden": why.overridden,
        },
    }


def _estimate(_: Arguments, found: Estimate) -> dict[str, Any]:
    count = found.count
    figures = {
        "tokens_in": count.total,
        "exact": count.exact,
        "at_most": count.at_most,
        "counted_by": count.by.value,
    }
    return {"decisions": (), "figures": figures}


def _read(recorded: Recorded) -> dict[str, Any]:
    return {"request": _request(recorded), "model": recorded.predicate["model"]}


def _read_plan(recorded: Recorded) -> dict[str, Any]:
    return {**_read(recorded), "limits": recorded_limits(recorded)}


def _read_enforcement(recorded: Recorded) -> dict[str, Any]:
    """Return the arguments. Larger models depend on catalog and settings, so the bundle's are used."""
    remedies = [record["remedy"] for record in recorded.contents.decisions if "remedy" in record]
    models = next(
        (
            _texts_in(remedy.get("models"))
            for remedy in remedies
            if isinstance(remedy, dict) and remedy.get("change") == "larger_window"
        ),
        (),
    )
    # An allowed request does not use the strategy.
    strategy = {} if remedies or isinstance(recorded.arguments.get("strategy"), str) else {"strategy": None}
    return {
        **_read_plan(recorded),
        "limits": _enforced_limits(recorded),
        **strategy,
        "override": _override(recorded),
        "notes": _texts_in(recorded.arguments.get("notes")),
        "alternatives": lambda _: models,
    }


def recorded_limits(recorded: Recorded) -> GuardLimits:
    """Return the limits in the bundle, validated like those of a caller."""
    names = ("context_window", "output_reserve", "headroom", "max_input")
    window, reserve, headroom, max_input = map(recorded.figure, names)
    return GuardLimits.of(window, reserve, ratio(headroom), max_input)


def _enforced_limits(recorded: Recorded) -> GuardLimits:
    """Return the limits in the bundle, with the output reserve that follows from the arguments.

    A reserve of the settings follows from no argument.
    """
    limits = recorded_limits(recorded)
    source = cast("str | None", recorded.budget("output_reserve")["source"])
    requested, longest = (
        None if value is None else tokens(value, name)
        for name in ("max_tokens_request", "max_output")
        for value in (recorded.arguments.get(name),)
    )
    if requested is not None:
        return replace(limits, reserve_out=requested)
    if source == REQUESTED_RESERVE:
        raise broken("arguments.max_tokens_request", "is null, but the reserve is that of the request.")
    if not is_default_reserve(source):
        return limits
    figure = None if longest is None else Figure(longest, "")
    mode = checked_mode(recorded.arguments.get("output_mode"))
    reserve = default_reserve(figure, limits.max_ctx, limits.headroom, mode).value
    return limits if reserve is None else replace(limits, reserve_out=reserve)


def _request(recorded: Recorded) -> Chunks:
    """Return the recorded chunks. Raises ``ReplayImpossible`` if a text is missing."""
    separator = recorded.arguments.get("separator")
    if not isinstance(separator, str):
        raise broken("arguments.separator", "is not text.")
    kinds = {str(record["kind"]) for record in recorded.inputs}
    if kinds <= {"section"}:
        return read_chunks(recorded_sections(recorded), separator)
    if kinds == {"block"}:
        return read_chunks(recorded_blocks(recorded), separator)
    if kinds <= {MESSAGE, TOOLS}:
        items, tools = recorded_items(recorded)
        return _with_fields(read_chunks(items, separator, tools), recorded.arguments)
    raise BundleInvalid("has inputs of several kinds.", file=INPUTS)


def _with_fields(request: Chunks, arguments: Mapping[str, Any]) -> Chunks:
    """Return the request with its recorded fields. Raises ``BundleInvalid``."""
    if arguments.keys().isdisjoint(_WHOLE):
        return request
    fields, head, api = (arguments.get(name) for name in _WHOLE)
    if not isinstance(fields, dict):
        raise broken("arguments.fields", "is not a mapping.")
    if type(head) is not int or not 0 <= head <= len(request.items):
        raise broken("arguments.head", "is not a number of messages.")
    if not isinstance(api, str) or api not in set(Api):
        raise broken("arguments.api", "is not the name of an API.")
    return replace(request, fields=freeze_object(fields, "fields"), head=head, api=Api(api))


def _override(recorded: Recorded) -> Override | None:
    given = cast("Mapping[str, str | None] | None", recorded.predicate["override"])
    return None if given is None else allow_over_context(given.get("reason"))


def _texts_in(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


ESTIMATE = RecordedFunction(
    name="estimate",
    kind=EvidenceKind.ESTIMATE,
    algorithm="context-estimate/1",
    call=estimate,
    apart=_APART,
    inputs=lambda arguments, found: _inputs(
        arguments["request"], dict(enumerate(() if found is None else found.per_chunk))
    ),
    result=_estimate,
    read=_read,
    budget=lambda _: Budget(),
    also=_beside,
    also_names=_ALSO,
)
PLAN = RecordedFunction(
    name="plan",
    kind=EvidenceKind.PLAN,
    algorithm="context-plan/1",
    call=pack,
    apart=_APART,
    inputs=_planned_inputs,
    result=_plan,
    read=_read_plan,
    budget=lambda arguments: budget_of(arguments["limits"]),
    also=_beside,
    also_names=_ALSO,
)
ENFORCE = RecordedFunction(
    name="enforce",
    kind=EvidenceKind.ENFORCEMENT,
    algorithm="context-guard/1",
    call=enforce,
    apart=_APART | {"override", "alternatives"},
    inputs=lambda arguments, _: _inputs(arguments["request"], {}),
    result=_enforcement,
    read=_read_enforcement,
    budget=lambda arguments: budget_of(arguments["limits"]),
    also=_beside,
    also_names=_ALSO,
)
