"""The entries of layouts of sections, of rendered blocks, and of a packed folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tokenbox.compose.blocks import BlockLayout, BlockResult, block_digest
from tokenbox.content.block_kinds import Priority
from tokenbox.content.section import Keep, Section, Text
from tokenbox.content.weight import weight_text
from tokenbox.engine.ladder import Form
from tokenbox.engine.result import Action, Step
from tokenbox.errors import ContextCriticalOverflow
from tokenbox.inspect.record import (
    PageEntry,
    PageForm,
    PageFrame,
    PageItem,
    PageSlider,
    PageState,
    PageStep,
    boundaries_of,
    check_items,
    with_hidden,
)
from tokenbox.inspect.slider import slider_of
from tokenbox.render.templates import block_body

if TYPE_CHECKING:
    from tokenbox.compose.counting import Counter
    from tokenbox.compose.layout import Layout
    from tokenbox.content.blocks import Block
    from tokenbox.folder import PackedFolder
    from tokenbox.tokenizers.protocol import Tokenizer, TokenizerIdentity


def layout_entry(layout: Layout, title: str, *, stops: int | None = None, small: bool = False) -> PageEntry:
    """Return the entry of a layout.

    ``stops``: the number of other budgets, which need its tokenizer. ``small``: without other budgets, token
    boundaries and the texts of forms, which take time.
    """
    check_items(len(layout.inputs))
    counter = None if small else layout.counter
    items = tuple(
        _section_item(section, base, counter)
        for section, base in zip(layout.inputs, layout.base_sizes, strict=True)
    )
    budgets = None
    if counter is not None and items:
        grown = sum(counter.count(text) for section in layout.inputs for text in section.extra)
        budgets = slider_of(
            lambda budget: _outcome_frame(layout.whatif([budget])[0]),
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
        (_layout_frame(layout),),
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
    named = ("Tokenizer", f"{tokenizer.name} {tokenizer.version}".rstrip())
    return (named, ("Fingerprint", tokenizer.fingerprint)) if tokenizer.fingerprint else (named,)


def _section_item(section: Section, base: int | None, counter: Counter | None) -> PageItem:
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


def _outcome_frame(outcome: Layout | ContextCriticalOverflow) -> PageFrame:
    """Return the frame of a layout, or of the error at its budget."""
    if not isinstance(outcome, ContextCriticalOverflow):
        return _layout_frame(outcome)
    exact = bool(outcome.details.get("exact"))
    return PageFrame(outcome.budget, None, exact, (), outcome.fixed_load, error=outcome.message)


def _layout_frame(layout: Layout) -> PageFrame:
    """Return a frame with a state for every section."""
    return PageFrame(
        layout.budget,
        layout.total,
        layout.exact,
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


def blocks_entry(
    layout: BlockLayout,
    title: str,
    tokenizer: Tokenizer | None = None,
    slider: PageSlider | None = None,
    kind: str = "blocks",
) -> PageEntry:
    """Return the entry of rendered blocks. ``tokenizer``: for the boundaries of the tokens."""
    check_items(len(layout.blocks))
    pairs = list(zip(layout.inputs, layout.blocks, strict=True))
    return PageEntry(
        title,
        kind,
        tuple(_block_item(block, result) for block, result in pairs),
        (blocks_frame(layout),),
        facts=(
            *tokenizer_facts(layout.tokenizer),
            ("Rendered as", layout.mode),
            ("Verbosity", layout.verbosity.value),
            ("Joins priced", layout.pricing),
            ("Digest", layout.digest),
        ),
        notes=tuple(
            f"One line stands for {line.blocks:,} {line.priority.display} blocks of {line.tokens:,} tokens."
            for line in layout.merged
        ),
        slider=slider,
        boundaries=None if tokenizer is None else boundaries_of(layout.text, tokenizer),
    )


def pack_entry(pack: PackedFolder, title: str, tokenizer: Tokenizer | None = None) -> PageEntry:
    """Return the entry of a packed folder: its rendering, and the files that are not shown."""
    entry = blocks_entry(pack.rendering, title, tokenizer)
    known = {item.id for item in entry.items}
    facts = [("Files", f"{len(pack.files):,}"), ("Order", pack.options.order.value)]
    if pack.options.query is not None:
        facts.append(("Query", pack.options.query))
    if pack.gap_permille is not None:
        facts.append(("Below the best choice by at most", f"{pack.gap_permille / 10:.1f} %"))
    hidden = [file for file in pack.files if file.path not in known]
    items = [
        PageItem(
            file.path,
            "file",
            None,
            file.tokens,
            fields=(("bytes", f"{file.size:,}"),)
            + (() if file.worth is None else (("worth", f"{file.worth:,}"),)),
        )
        for file in hidden
    ]
    return replace(
        with_hidden(entry, items, [file.shown.name.lower() for file in hidden]),
        facts=(*facts, *entry.facts),
        notes=(*entry.notes, *map(str, pack.notes)),
    )


def blocks_frame(layout: BlockLayout) -> PageFrame:
    """Return a frame with a state for every block."""
    return PageFrame(
        layout.budget,
        layout.total,
        layout.tokenizer.exact,
        tuple(
            PageState(i, result.form.value, result.size, _shown(block, result.form))
            for i, (block, result) in enumerate(zip(layout.inputs, layout.blocks, strict=True))
        ),
        sum(result.size for result in layout.blocks if result.priority is Priority.CRITICAL),
        tuple(_block_steps(layout)),
        prompt=layout.text,
    )


def _block_item(block: Block, result: BlockResult) -> PageItem:
    return PageItem(
        result.description or f"block {result.index}",
        result.type,
        block_body(block),
        result.base_size,
        block_digest(block),
        result.priority is Priority.CRITICAL,
        (("priority", result.priority.display), ("block", str(result.index))),
    )


def _shown(block: Block, form: Form) -> str | None:
    """Return the content that a form shows, without markup; None for a placeholder."""
    if form is Form.FULL:
        return block_body(block)
    if form is Form.SUMMARY:
        return block.summary
    return "" if form in (Form.OMITTED, Form.MERGED) else None


def _block_steps(layout: BlockLayout) -> Iterator[PageStep]:
    for i, result in enumerate(layout.blocks):
        for sentence in result.why:
            yield PageStep((i,), result.form.value, sentence, result.base_size, result.size)
