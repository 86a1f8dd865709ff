"""An answer within its tokens: what the client is told, counted as the client counts it, block by block."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tokenbox.errors import InvalidBudget
from tokenbox.tokenizers.truncation import truncate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenbox.mcp.shelf import Kept, Shelf
    from tokenbox.tokenizers.protocol import Tokenizer

# Common clients cut, or refuse, answers of more than 25,000 tokens.
DEFAULT_TOKENS: Final = 20_000
# What the note after a text counts at most, in any vocabulary: figures, handles and a few file names.
NOTE_ROOM: Final = 400
AT: Final = "@"


def as_json(value: object) -> str:
    """What a model reads: no spaces that say nothing."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def size(blocks: list[str], tokenizer: Tokenizer) -> int:
    """The tokens of an answer: its blocks one by one, or joined, whichever is more.

    A client may count them either way.
    """
    return max(sum(map(tokenizer.count, blocks)), tokenizer.count("\n".join(blocks)))


def answered(  # the text, where it starts, and what it must fit
    kept: Kept,
    note: Mapping[str, object],
    max_tokens: int,
    tokenizer: Tokenizer,
    shelf: Shelf,
    *,
    start: int = 0,
) -> list[str]:
    """The text from character ``start`` on and a note, in at most ``max_tokens`` tokens.

    What does not fit stays behind the handle in the note's ``rest``. The first blocks of an answer and of the
    answers for its rests, one after the other, are the text, byte for byte. Raises :class:`InvalidBudget`
    where not one character fits.
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
        f"max_tokens is {max_tokens:,}, which holds none of the text. Give {NOTE_ROOM:,} or more.",
        budget=max_tokens,
    )
