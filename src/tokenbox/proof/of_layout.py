"""The evidence of a layout of sections, and of one that was refused or failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.compose.record import ALGORITHM, section_digest
from tokenbox.content.weight import weight_text
from tokenbox.errors import ContextCriticalOverflow
from tokenbox.proof.evidence import Budget, Evidence, Input, Kind, Outcome, Sourced, Status
from tokenbox.tokenizers.cache import text_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tokenbox.compose.record import Layout
    from tokenbox.content.section import Section
    from tokenbox.errors import TokenboxError
    from tokenbox.proof.evidence import Record
    from tokenbox.tokenizers.protocol import TokenizerIdentity


def of_layout(layout: Layout, budget: Budget | None = None, source: str | None = None) -> Evidence:
    """The evidence of a finished layout.

    ``budget`` says where the figures are from (default: it was given as it is); ``source``, where the
    sections are from.
    """
    return Evidence(
        kind=Kind.LAYOUT,
        algorithm=ALGORITHM,
        options={"separator": layout.separator, "reclaim": layout.reclaim},
        budget=budget or given_budget(layout.budget),
        tokenizer=layout.tokenizer,
        inputs=tuple(
            section_input(section, tokens, source)
            for section, tokens in zip(layout.inputs, layout.base_sizes, strict=True)
        ),
        decisions=tuple(_decisions(layout)),
        emitted=layout.text,
        digest=layout.digest,
        figures={
            "total": layout.total,
            "joins": layout.joins,
            "fixed_load": layout.fixed_load,
            "pricing": layout.pricing,
        },
    )


def of_layout_error(
    error: TokenboxError,
    sections: Sequence[Section],
    budget: int | Budget,
    tokenizer: TokenizerIdentity,
    separator: str,
    *,
    reclaim: bool,
    source: str | None = None,
) -> Evidence:
    """The evidence of sections that could not be laid out: refused if they do not fit, else failed."""
    sizes = dict(error.critical) if isinstance(error, ContextCriticalOverflow) else {}
    return Evidence(
        kind=Kind.LAYOUT,
        algorithm=ALGORITHM,
        options={"separator": separator, "reclaim": reclaim},
        budget=budget if isinstance(budget, Budget) else given_budget(budget),
        tokenizer=tokenizer,
        inputs=tuple(section_input(section, sizes.get(section.id), source) for section in sections),
        decisions=tuple(critical_decisions(sizes)),
        outcome=outcome_of(error),
    )


def given_budget(tokens: int | None) -> Budget:
    """A budget that was given as it is."""
    return Budget(Sourced(tokens, "given"))


def outcome_of(error: TokenboxError) -> Outcome:
    """Refused with the smallest change that would make it fit, or failed."""
    if not isinstance(error, ContextCriticalOverflow):
        return Outcome.of(error)
    refused = Outcome.of(error, Status.REFUSED)
    change = {name: value for name, value in error.smallest_change.items() if name != "say"}
    return Outcome(refused.status, refused.code, {**refused.figures, "smallest_change": change})


def critical_decisions(sizes: Mapping[str, int]) -> Iterator[Record]:
    """A refusal decides nothing but this: each of these had to be kept, and together they do not fit."""
    return ({"id": name, "decision": "critical", "size": size} for name, size in sizes.items())


def section_input(section: Section, tokens: int | None, source: str | None = None) -> Input:
    """``tokens``: what its content counts, None where that was not found out."""
    texts = (section.content, *section.extra)
    return Input(
        id=section.id,
        kind="section",
        digest=section_digest(section),
        size=sum(len(text) if text.isascii() else len(text.encode()) for text in texts),
        tokens=tokens,
        source=source,
        fields={
            "content": section.content_digest.hex(),
            "priority": section.priority,
            "min": section.min,
            "grow": weight_text(section.grow),
            "shrink": weight_text(section.shrink),
            "strategy": None if section.strategy is None else str(section.strategy),
            "lenses": None if section.strategy is None else section.strategy.identity,
            "role": section.role,
            "keep": section.keep.value,
            "extra": [text_digest(text).hex() for text in section.extra],
        },
        texts=texts,
    )


def _decisions(layout: Layout) -> Iterator[Record]:
    """What became of each section, then the steps in their order."""
    for section in layout.sections:
        yield {
            "id": section.id,
            "decision": section.decision.value,
            "base_size": section.base_size,
            "size": section.size,
        }
    for step in layout.log:
        yield {
            "id": layout.inputs[step.section].id,
            "action": step.action.value,
            "before": step.before,
            "after": step.after,
            "why": step.why,
        }
