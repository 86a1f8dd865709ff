"""The entry of a layout of sections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tokenbox.content.section import Keep, Section, Text
from tokenbox.content.weight import weight_text
from tokenbox.engine.result import Action
from tokenbox.errors import ContextCriticalOverflow
from tokenbox.inspect.record import (
    PageEntry,
    PageForm,
    PageFrame,
    PageItem,
    PageState,
    PageStep,
    boundaries_of,
    check_items,
)
from tokenbox.inspect.slider import slider_of

if TYPE_CHECKING:
    from tokenbox.compose.counting import Counter
    from tokenbox.compose.layout import Layout
    from tokenbox.engine.result import Step
    from tokenbox.tokenizers.protocol import TokenizerIdentity


def layout_entry(layout: Layout, title: str, *, stops: int | None = None, small: bool = False) -> PageEntry:
    """Return the entry of a layout.

    ``stops``: the number of other budgets, which need its tokenizer. ``small``: without other budgets, token
    boundaries and the texts of forms, which take time.
    """
    check_items(len(layout.inputs))
    counter = None if small else layout.counter
    items = tuple(
        section_item(section, base, counter)
        for section, base in zip(layout.inputs, layout.base_sizes, strict=True)
    )
    budgets = None
    if counter is not None and items:
        grown = sum(counter.count(text) for section in layout.inputs for text in section.extra)
        budgets = slider_of(
            lambda budget: outcome_frame(layout.whatif([budget])[0], ""),
            low=max(0, layout.fixed_load - 1),
            high=max(layout.budget, sum(layout.base_sizes) + grown + _joins(layout)),
            own=layout.budget,
            items=len(items),
            characters=sum(len(section.content) for section in layout.inputs),
            stops=stops,
        )
    return PageEntry(
        title,
        "layout",
        items,
        (layout_frame(layout, ""),),
        facts=(
            *tokenizer_facts(layout.tokenizer),
            ("Policy", layout.policy.value),
            ("Reclaim", "on" if layout.reclaim else "off"),
            ("Joins priced", layout.pricing),
            ("Digest", layout.digest),
        ),
        notes=tuple(warned.message for warned in layout.warnings),
        separator=layout.separator,
        slider=budgets,
        boundaries=None if counter is None else boundaries_of(layout.text, counter.tokenizer),
    )


def tokenizer_facts(tokenizer: TokenizerIdentity) -> tuple[tuple[str, str], ...]:
    """Return the name and fingerprint of the tokenizer as facts."""
    kind = "exact" if tokenizer.exact else "estimate"
    named = ("Tokenizer", f"{tokenizer.name} {tokenizer.version}".rstrip() + f" ({kind})")
    return (named, ("Fingerprint", tokenizer.fingerprint)) if tokenizer.fingerprint else (named,)


def section_item(section: Section, base: int | None, counter: Counter | None = None) -> PageItem:
    """Return the original section with its forms. Only a counter can apply a pipeline and give its text."""
    return PageItem(
        section.id,
        section.role or "section",
        section.content,
        base,
        section.content_digest.hex(),
        section.critical,
        tuple(_fields(section)),
        tuple(_forms(section, counter)),
    )


def _fields(section: Section) -> Iterator[tuple[str, str]]:
    yield "priority", str(section.priority)
    yield "min", f"{section.min:,}"
    yield "grow", weight_text(section.grow)
    yield "shrink", weight_text(section.shrink)
    if section.keep is not Keep.HEAD:
        yield "keep", section.keep.value
    for name, value in section.degrading().items():
        if name != "forms":
            yield name, str(value)
    if section.extra:
        yield "extra items", f"{len(section.extra):,}"


def _forms(section: Section, counter: Counter | None) -> Iterator[PageForm]:
    for number, form in enumerate(section.alternatives):
        name = f"text {number + 1}" if isinstance(form, Text) else str(form)
        if counter is None:
            yield PageForm(name, form.text if isinstance(form, Text) else None)
        else:
            yield PageForm(name, *counter.form(section, number))


def outcome_frame(outcome: Layout | ContextCriticalOverflow, label: str) -> PageFrame:
    """Return the frame of a layout, or of the error at its budget."""
    if not isinstance(outcome, ContextCriticalOverflow):
        return layout_frame(outcome, label)
    return PageFrame(
        label,
        outcome.budget,
        None,
        bool(outcome.details.get("exact")),
        (),
        outcome.fixed_load,
        error=outcome.message,
    )


def layout_frame(layout: Layout, label: str) -> PageFrame:
    """Return a frame with a state for every section."""
    return PageFrame(
        label,
        layout.budget,
        layout.total,
        layout.tokenizer.exact if layout.count is None else layout.count.exact,
        tuple(
            PageState(i, section.decision.value, section.size, section.text, section.form)
            for i, section in enumerate(layout.sections)
        ),
        layout.fixed_load,
        tuple(_steps(layout)),
    )


def _steps(layout: Layout) -> Iterator[PageStep]:
    last = {step.section: number for number, step in enumerate(layout.log)}
    for number, step in enumerate(layout.log):
        text = layout.texts[step.section] if last[step.section] == number else _text_between(layout, step)
        yield PageStep((step.section,), step.action.value, step.why, step.before, step.after, text=text)


def _text_between(layout: Layout, step: Step) -> str | None:
    """Return the text after a step that another step follows; for a compression, the form of its size."""
    section, counter = layout.inputs[step.section], layout.counter
    if step.action is Action.DROP:
        return ""
    if step.action is not Action.COMPRESS or counter is None:
        return None
    forms = (counter.form(section, number) for number in range(len(section.alternatives)))
    return next((text for text, size in forms if size == step.after), None)


def _joins(layout: Layout) -> int:
    """Return an upper bound for the separators between all sections."""
    assert layout.counter is not None  # noqa: S101  # the caller has checked it
    return layout.counter.small(layout.separator) * max(0, len(layout.inputs) - 1) if layout.separator else 0
