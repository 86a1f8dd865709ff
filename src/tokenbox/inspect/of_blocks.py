"""The entries of rendered blocks and of a packed folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tokenbox.compose.blocks import block_digest
from tokenbox.content.block_kinds import Priority
from tokenbox.engine.ladder import Form
from tokenbox.inspect.of_layout import tokenizer_facts
from tokenbox.inspect.record import (
    PageEntry,
    PageFrame,
    PageItem,
    PageState,
    PageStep,
    boundaries_of,
    check_items,
)
from tokenbox.render.templates import block_body

if TYPE_CHECKING:
    from tokenbox.compose.blocks import BlockLayout, BlockResult
    from tokenbox.content.blocks import Block
    from tokenbox.folder import PackedFolder
    from tokenbox.inspect.record import PageSlider
    from tokenbox.tokenizers.protocol import Tokenizer


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
        tuple(_item(block, result) for block, result in pairs),
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
    entry = blocks_entry(pack.rendering, title, tokenizer, kind="pack")
    known = {item.id for item in entry.items}
    facts = [("Files", f"{len(pack.files):,}"), ("Order", pack.options.order.value)]
    if pack.options.query is not None:
        facts.append(("Query", pack.options.query))
    if pack.gap_permille is not None:
        facts.append(("Below the best choice by at most", f"{pack.gap_permille / 10:.1f} %"))
    hidden = [file for file in pack.files if file.path not in known]
    check_items(len(entry.items) + len(hidden))
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
    states = [
        PageState(len(entry.items) + number, "omitted", 0, "", form=file.shown.name.lower())
        for number, file in enumerate(hidden)
    ]
    (frame,) = entry.frames
    return replace(
        entry,
        items=(*entry.items, *items),
        frames=(replace(frame, changes=(*frame.changes, *states)),),
        facts=(*facts, *entry.facts),
        notes=(*entry.notes, *map(str, pack.notes)),
    )


def blocks_frame(layout: BlockLayout) -> PageFrame:
    """Return a frame with a state for every block."""
    return PageFrame(
        "",
        layout.budget,
        layout.total,
        layout.tokenizer.exact,
        tuple(
            PageState(i, result.form.value, result.size, _shown(block, result.form))
            for i, (block, result) in enumerate(zip(layout.inputs, layout.blocks, strict=True))
        ),
        sum(result.size for result in layout.blocks if result.priority is Priority.CRITICAL),
        tuple(_steps(layout)),
        prompt=layout.text,
    )


def _item(block: Block, result: BlockResult) -> PageItem:
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


def _steps(layout: BlockLayout) -> Iterator[PageStep]:
    for i, result in enumerate(layout.blocks):
        for sentence in result.why:
            yield PageStep((i,), result.form.value, sentence, result.base_size, result.size)
