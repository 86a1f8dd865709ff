"""Summaries that the user could write: with one, packing again would keep more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tokenbox.compose.blocks import BlockLayout, render_blocks
from tokenbox.compose.remembered import COUNTS
from tokenbox.compose.requests import is_request_counter
from tokenbox.content.items import read_item
from tokenbox.engine.ladder import Form
from tokenbox.engine.result import Decision
from tokenbox.errors import TokenboxError
from tokenbox.integers import MAX_INTEGER
from tokenbox.policy.estimate import ChunkCounter, counted_sections, sizes_of_messages
from tokenbox.policy.records import SummaryOp

if TYPE_CHECKING:
    from tokenbox.compose.layout import Layout
    from tokenbox.conversation.record import Fitted
    from tokenbox.policy.chunks import Chunks
    from tokenbox.tokenizers.protocol import Tokenizer

# The most summaries that are proposed.
MAX_PROPOSALS: Final = 8
# Tokens by which a text may count more inside its markup, or a message among others, than alone.
SLACK: Final = 4


def of_sections(request: Chunks, made: Layout, counter: ChunkCounter) -> list[SummaryOp]:
    """Propose summaries that would bring back the sections that were cut or dropped last.

    Sections come back in reverse order of loss, so the k-th proposal brings back the last k. It summarizes
    the largest flexible section of those that would then be there.
    """
    lost = [step.section for step in made.log if step.after < step.before]
    order = [i for i in dict.fromkeys(lost) if made.sections[i].decision is not Decision.KEPT]
    ops: list[SummaryOp] = []
    present = {i for i, one in enumerate(made.sections) if one.decision is not Decision.DROPPED}
    sizes = made.base_sizes
    flexible = [i for i, section in enumerate(made.inputs) if section.shrink != 0]
    by_size = sorted(flexible, key=lambda i: (-sizes[i], i))
    for count in range(1, min(len(order), MAX_PROPOSALS) + 1):
        back = order[-count:]
        kept = present.union(back)
        largest = next((i for i in by_size if i in kept), None)
        if largest is None:
            break
        at_most = _room(request, made, sorted(kept), largest, counter)
        if not 0 < at_most < sizes[largest]:
            break
        names = tuple(made.inputs[i].id for i in sorted(back) if i != largest)
        summarized = (made.inputs[largest].id,)
        ops.append(SummaryOp(summarized, sizes[largest], at_most, names or summarized))
    return ops


def _room(request: Chunks, made: Layout, kept: Sequence[int], without: int, counter: ChunkCounter) -> int:
    """Return the tokens left for a text in place of ``without`` if all others of ``kept`` are whole.

    How its borders merge with its neighbors is unknown: each costs the separator and a token, or as a message
    some slack.
    """
    if is_request_counter(counter):
        texts = ["x" if i == without else request.texts[i] for i in kept]
        return made.budget - counted_sections(request, kept, texts, counter)[0] - SLACK
    others = [request.texts[i] for i in kept if i != without]
    join = COUNTS.each(counter, [request.separator])[0] + 1
    return made.budget - COUNTS.whole(counter, others, request.separator) - 2 * join


def of_blocks(request: Chunks, made: BlockLayout, tokenizer: Tokenizer) -> list[SummaryOp]:
    """Propose summaries for blocks that are shown as less than a summary."""
    ops: list[SummaryOp] = []
    if made.budget is None:
        return ops
    for one in made.blocks:
        lesser = one.form in (Form.PLACEHOLDER, Form.MERGED, Form.OMITTED)
        block = request.items[one.index]
        if not lesser or not one.steps or block.summary is not None or one.priority.display == "background":
            continue
        free = made.budget - made.total + (one.size if one.form is Form.PLACEHOLDER else 0)
        at_most = free - _markup(block, tokenizer)
        if 0 < at_most < one.base_size:
            name = (request.ids[one.index],)
            ops.append(SummaryOp(name, one.base_size, at_most, name))
        if len(ops) == MAX_PROPOSALS:
            break
    return ops


def _markup(block: object, tokenizer: Tokenizer) -> int:
    """Return the tokens of a block's summary beside its own text, with some slack for merging."""
    summarized = replace(block, summary="x")  # type: ignore[type-var]  # every block is a dataclass
    try:
        alone = render_blocks([summarized], tokenizer, verbosity="summary")  # type: ignore[list-item]
    except TokenboxError:
        return MAX_INTEGER
    return alone.total + SLACK


def of_messages(request: Chunks, made: Fitted[Any], counter: ChunkCounter) -> list[SummaryOp]:
    """Propose one summary of all evicted messages, as a system message in the room that is left."""
    evicted = sorted(made.gone)
    if not evicted or made.budget is None:
        return []
    try:
        frame = sizes_of_messages(counter, [read_item({"role": "system", "content": "x"})])[0] + SLACK
    except TokenboxError:  # a format without system messages
        return []
    at_most = made.budget - made.total - frame
    size = sum(made.sizes[i] for i in evicted)
    if not 0 < at_most < size:
        return []
    names = tuple(request.ids[i] for i in evicted)
    return [SummaryOp(names, size, at_most, names)]
