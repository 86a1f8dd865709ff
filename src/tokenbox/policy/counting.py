"""What a request counts, of whatever kind its chunks are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.policy.chunks import Kind, Request
from tokenbox.policy.counted import COUNTS
from tokenbox.policy.records import Estimate

if TYPE_CHECKING:
    from tokenbox.compose.block_record import BlockLayout
    from tokenbox.tokenizers.protocol import Tokenizer


def tokens_of(request: Request, tokenizer: Tokenizer) -> int:
    """The count of the whole that would be sent: texts with their separators, blocks in their markup."""
    if request.kind is Kind.BLOCKS:
        return 0 if not request.items else rendered(request, tokenizer).total
    return COUNTS.whole(tokenizer, request.texts, request.separator)


def estimate(request: Request, tokenizer: Tokenizer, model: str | None = None) -> Estimate:
    """What the request counts, whole and each chunk alone."""
    if request.kind is Kind.BLOCKS:
        shown = rendered(request, tokenizer) if request.items else None
        sizes = {} if shown is None else {block.index: block.size for block in shown.blocks}
        per_chunk = [sizes.get(i, 0) for i in range(len(request.items))]  # an annotation is never sent
        total = 0 if shown is None else shown.total
    else:
        per_chunk = COUNTS.each(tokenizer, request.texts)
        total = COUNTS.whole(tokenizer, request.texts, request.separator)
    identity = tokenizer.identity
    return Estimate(total, tuple(per_chunk), identity, identity.exact, model, request.ids)


def rendered(request: Request, tokenizer: Tokenizer) -> BlockLayout:
    """All blocks in full, as they would be sent."""
    from tokenbox.compose.render_blocks import render_blocks  # noqa: PLC0415  # only blocks need it

    return render_blocks(request.items, tokenizer, verbosity="full")
