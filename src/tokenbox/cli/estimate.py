"""``tokenbox estimate``: counts a request, and each of its chunks, for a model."""

from __future__ import annotations

import tokenbox
from tokenbox.cli import request, terminal
from tokenbox.cli.options import AS_JSON
from tokenbox.cli.streams import write_json


def estimate(
    files: list[str] | None = request.FILES,
    model: str | None = request.MODEL,
    tokenizer: str | None = request.TOKENIZER,
    messages: str | None = request.MESSAGES,
    document: str | None = request.DOCUMENT,
    pack: str | None = request.PACK,
    as_json: bool = AS_JSON,
) -> None:
    """Count what would be sent to a model: each chunk alone, and the whole request.

    The whole request includes separators, markup or chat format, so the chunks do not add up to it.
    A ~ marks an estimate.

    Example: tokenbox estimate --model gpt-4o -t o200k_base rules.md notes.md
    """
    given = request.read(files or (), messages, document, pack)

    config = request.settings()
    with terminal.progress("counting"):
        found = tokenbox.ctx.estimate(
            request.model_of(model, given, config), given.chunks, tokenizer=tokenizer, config=config
        )
    if as_json:
        write_json(found.to_dict())
    else:
        rows = [*zip(found.per_chunk, found.ids, strict=True), (found.tokens_in, "the request")]
        terminal.show_counts([(tokens, found.exact, name) for tokens, name in rows], found.tokenizer)
