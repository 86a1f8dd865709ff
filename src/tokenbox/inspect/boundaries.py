"""The boundaries of the tokens of a text, for a page that has no tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tokenbox.errors import TokenizerError, UnsupportedOperation
from tokenbox.inspect.record import utf16

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer

# A longer text is shown without its tokens, which would make the page too large.
MAX_CHARACTERS: Final = 2_000_000
# The upper bound of the tokens that share one character.
_MAX_SHARED: Final = 8


def boundaries_of(text: str, tokenizer: Tokenizer) -> tuple[int, ...] | None:
    """Return the length of each token in UTF-16 units, or None if the tokenizer estimates or cannot encode.

    If tokens share a character, the last one has its length and the others have 0.
    """
    if len(text) > MAX_CHARACTERS:
        return None
    try:
        tokens = tokenizer.encode(text)
        return _lengths(text, tokens, tokenizer)
    except (UnsupportedOperation, TokenizerError):
        return None


def _lengths(text: str, tokens: list[int], tokenizer: Tokenizer) -> tuple[int, ...] | None:
    ascii_only = text.isascii()
    decoded: dict[int, str] = {}
    found: list[int] = []
    place, waiting = 0, list[int]()
    for token in tokens:
        waiting.append(token)
        if len(waiting) == 1:
            piece = decoded.get(token)
            if piece is None:
                piece = decoded[token] = tokenizer.decode([token])
        else:
            piece = tokenizer.decode(waiting)
        if text.startswith(piece, place):
            found += [0] * (len(waiting) - 1)
            found.append(len(piece) if ascii_only else utf16(piece))
            place += len(piece)
            waiting.clear()
        elif len(waiting) > _MAX_SHARED:
            return None  # a tokenizer that normalizes: its tokens are not those of the text
    return tuple(found) if place == len(text) and not waiting else None
