"""The evidence of blocks that were rendered, and of such that could not be."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from tokenbox.compose.block_record import ALGORITHM, block_digest
from tokenbox.content.block_kinds import Priority
from tokenbox.content.blocks import (
    AnnotationBlock,
    DiffBlock,
    FileTreeBlock,
    ImageBlock,
    PayloadBlock,
    resolve_priorities,
)
from tokenbox.errors import ContextCriticalOverflow
from tokenbox.proof.evidence import Evidence, Input, Kind, Summary
from tokenbox.proof.of_layout import given_budget, outcome_of
from tokenbox.render.placeholders import block_description, block_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tokenbox.compose.block_record import BlockLayout
    from tokenbox.content.blocks import Block
    from tokenbox.errors import TokenboxError
    from tokenbox.proof.evidence import Budget, Record
    from tokenbox.tokenizers.protocol import TokenizerIdentity


def of_blocks(result: BlockLayout, budget: Budget | None = None, source: str | None = None) -> Evidence:
    """The evidence of rendered blocks. ``source`` says where they are from."""
    names = block_names(result.inputs)
    index_names = {block.index: name for block, name in zip(result.blocks, names, strict=True)}
    made = set(result.summarized)
    return Evidence(
        kind=Kind.BLOCKS,
        algorithm=ALGORITHM,
        options={"mode": result.mode.value, "verbosity": result.verbosity.value, "soft": result.soft},
        budget=budget or given_budget(result.budget),
        tokenizer=result.tokenizer,
        inputs=tuple(
            block_input(block, name, found.index, found.priority, found.base_size, source)
            for block, name, found in zip(result.inputs, names, result.blocks, strict=True)
        ),
        decisions=tuple(_decisions(result, names)),
        emitted=result.pieces,
        digest=result.digest,
        figures={"total": result.total, "over": result.over, "pricing": result.pricing},
        summaries=tuple(
            Summary((index_names[found.index],), block.summary)
            for block, found in zip(result.inputs, result.blocks, strict=True)
            if found.index in made and block.summary is not None
        ),
    )


def of_blocks_error(
    error: TokenboxError,
    blocks: Sequence[Block],
    budget: Budget,
    tokenizer: TokenizerIdentity,
    options: Record,
    source: str | None = None,
) -> Evidence:
    """The evidence of blocks that could not be rendered. ``options``: mode, verbosity and soft."""
    shown = [
        (i, block, priority)
        for i, (block, priority) in enumerate(zip(blocks, resolve_priorities(blocks), strict=True))
        if not isinstance(block, AnnotationBlock)
    ]
    names = block_names([block for _, block, _ in shown])
    sizes = [size for _, size in error.critical] if isinstance(error, ContextCriticalOverflow) else []
    critical = [
        name for name, (_, _, p) in zip(names, shown, strict=True) if sizes and p is Priority.CRITICAL
    ]
    return Evidence(
        kind=Kind.BLOCKS,
        algorithm=ALGORITHM,
        options=options,
        budget=budget,
        tokenizer=tokenizer,
        inputs=tuple(
            block_input(block, name, i, priority, None, source)
            for name, (i, block, priority) in zip(names, shown, strict=True)
        ),
        decisions=tuple(
            {"id": name, "decision": "critical", "size": size}
            for name, size in zip(critical, sizes, strict=False)
        ),
        outcome=outcome_of(error),
    )


def block_names(blocks: Iterable[Block]) -> list[str]:
    """What each block is called in a bundle: its label and path, title or name; numbered if not unique.

    The alternative text of an image is a text that a model is told, so it is no name.
    """
    names = [
        block_label(block)
        if isinstance(block, ImageBlock)
        else f"{block_label(block)} {block_description(block)}"
        for block in blocks
    ]
    total, seen = Counter(names), Counter[str]()
    for place, name in enumerate(names):
        if total[name] > 1:
            seen[name] += 1
            names[place] = f"{name} #{seen[name]}"
    return names


def block_input(
    block: Block, name: str, index: int, priority: Priority, tokens: int | None, source: str | None
) -> Input:
    """``index``: its place in the list that was given, annotations counted."""
    return Input(
        id=name,
        kind="block",
        digest=block_digest(block),
        size=_size(block),
        tokens=tokens,
        source=source or getattr(block, "path", None),
        fields={"index": index, "type": block.type_name, "priority": priority.display},
        texts=(partial(_encoded, block),),
    )


def _size(block: Block) -> int:
    """Bytes of content."""
    if isinstance(block, PayloadBlock):
        return len(block.payload)
    if isinstance(block, DiffBlock):
        return sum(len(hunk.lines) for hunk in block.hunks)
    if isinstance(block, FileTreeBlock):
        return len(_encoded(block))
    return 0


def _encoded(block: Block) -> bytes:
    """The block as a pack of one."""
    from tokenbox.lcp import encode  # noqa: PLC0415  # only where texts are kept

    return encode([block])


def _decisions(result: BlockLayout, names: Sequence[str]) -> Iterator[Record]:
    """What became of each block and each class that was merged, then the steps in their order."""
    for name, block in zip(names, result.blocks, strict=True):
        yield {"id": name, "decision": block.form.value, "base_size": block.base_size, "size": block.size}
    for line in result.merged:
        yield {"id": f"the {line.priority.display} blocks", "decision": "line", **line.to_dict()}
    for step in result.log:
        yield {
            "id": names[step.block],
            "action": step.form.value,
            "after": step.size,
            "why": step.why(result.blocks[step.block].priority.display),
        }
