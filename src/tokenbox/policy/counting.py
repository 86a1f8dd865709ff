"""What a request counts, of whatever kind its chunks are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.policy import messages
from tokenbox.policy.chunks import Kind, Request
from tokenbox.policy.counted import COUNTS
from tokenbox.policy.records import Estimate

if TYPE_CHECKING:
    from tokenbox.compose.block_record import BlockLayout
    from tokenbox.policy.messages import Counts
    from tokenbox.tokenizers.protocol import Tokenizer


def tokens_of(request: Request, counter: Counts) -> int:
    """The count of the whole that would be sent: texts with their separators, blocks in their markup,
    messages as the chat format has them.
    """  # noqa: D205  # one sentence
    if request.kind is Kind.MESSAGES:
        return messages.total_of(request, counter)
    tokenizer = messages.text_counter(counter)
    if request.kind is Kind.BLOCKS:
        return 0 if not request.items else rendered(request, tokenizer).total
    return COUNTS.whole(tokenizer, request.texts, request.separator)


def estimate(request: Request, counter: Counts, model: str | None = None) -> Estimate:
    """What the request counts, whole and each chunk alone."""
    if request.kind is Kind.MESSAGES:
        total, per_chunk = messages.total_of(request, counter), messages.sizes_of(request, counter)
    elif request.kind is Kind.BLOCKS:
        total, per_chunk = _of_blocks(request, messages.text_counter(counter))
    else:
        tokenizer = messages.text_counter(counter)
        per_chunk = COUNTS.each(tokenizer, request.texts)
        total = COUNTS.whole(tokenizer, request.texts, request.separator)
    exact = messages.is_exact(request, counter)
    return Estimate(total, tuple(per_chunk), counter.identity, exact, model, request.ids)


def rendered(request: Request, tokenizer: Tokenizer) -> BlockLayout:
    """All blocks in full, as they would be sent."""
    from tokenbox.compose.render_blocks import render_blocks  # noqa: PLC0415  # only blocks need it

    return render_blocks(request.items, tokenizer, verbosity="full")


def _of_blocks(request: Request, tokenizer: Tokenizer) -> tuple[int, list[int]]:
    if not request.items:
        return 0, []
    shown = rendered(request, tokenizer)
    sizes = {block.index: block.size for block in shown.blocks}
    # An annotation is never sent.
    return shown.total, [sizes.get(i, 0) for i in range(len(request.items))]
