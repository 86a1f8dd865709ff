"""Fits an answer into its budget, counted as clients count it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tokenbox.errors import InvalidBudget
from tokenbox.tokenizers.truncation import truncate

if TYPE_CHECKING:
    from tokenbox.mcp.shelf import Kept, Shelf
    from tokenbox.tokenizers.protocol import Tokenizer

# Common clients cut or refuse answers of more than 25,000 tokens.
DEFAULT_TOKENS: Final = 20_000
# The upper bound of the note after a text, in any vocabulary: figures, handles and a few file names.
NOTE_ROOM: Final = 400
AT: Final = "@"


def as_json(value: object) -> str:
    """Return compact JSON for a model."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def size(blocks: list[str], tokenizer: Tokenizer) -> int:
    """Return the tokens of an answer: of its blocks one by one or joined, whichever is larger.

    Clients count either way.
    """
    return max(sum(map(tokenizer.count, blocks)), tokenizer.count("\n".join(blocks)))


def answered(
    kept: Kept,
    note: Mapping[str, object],
    max_tokens: int,
    tokenizer: Tokenizer,
    shelf: Shelf,
    *,
    start: int = 0,
) -> list[str]:
    """Return the text from character ``start`` on and a note, in at most ``max_tokens`` tokens.

    The note's ``rest`` has a handle for what does not fit. The first blocks of an answer and of the answers
    to its handles concatenate to the text, byte for byte. Raises :class:`InvalidBudget` if no character fits.
    """
    handle = shelf.put(kept)
    text = kept.text[start:]
    whole = [text, as_json({"handle": handle, **note})]
    if size(whole, tokenizer) <= max_tokens:
        return whole

    def cut(end: int) -> list[str]:
        rest = {"handle": f"{handle}{AT}{end}", "characters": len(kept.text) - end}
        return [kept.text[start:end], as_json({"handle": handle, **note, "rest": rest})]

    room = max_tokens - tokenizer.count(cut(len(kept.text))[1])
    while room > 0:
        part = truncate(text, room, tokenizer)
        if not part:
            break
        blocks = cut(start + len(part))
        over = size(blocks, tokenizer) - max_tokens
        if over <= 0:
            return blocks
        room -= over
    raise InvalidBudget(
        f"max_tokens is {max_tokens:,}, too small for any of the text. Give {NOTE_ROOM:,} or more.",
        budget=max_tokens,
    )
