"""``head``, ``tail``, ``middle``, ``ends`` in tokens.

No tokenizer can count a lone surrogate, so in these lenses it becomes U+FFFD first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tokenbox.content.lenses.lines import left_out

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer

_SURROGATE = re.compile("[\ud800-\udfff]")


def cut_tokens(text: str, count: int, tokenizer: Tokenizer, keep: str) -> str:
    """The longest cut of at most ``count`` tokens; ``keep`` is head, tail or middle."""
    from tokenbox.tokenizers.truncation import truncate  # noqa: PLC0415  # only these lenses need it

    return truncate(_SURROGATE.sub("\ufffd", text), count, tokenizer, keep)


def ends_tokens(text: str, count: int, tokenizer: Tokenizer) -> str:
    """The start and the end of the text, and between them a line that says how much is left out.

    ``count`` tokens in all, with that line; where there is no room for it, the start alone.
    """
    text = _SURROGATE.sub("\ufffd", text)
    whole = tokenizer.count(text)
    if whole <= count:
        return text
    room = count - tokenizer.count(f"\n{_missing(whole, tokenizer)}\n")
    while room > 0:
        first = cut_tokens(text, room - room // 2, tokenizer, "head")
        last = cut_tokens(text[len(first) :], room // 2, tokenizer, "tail")
        missing = whole - tokenizer.count(first) - tokenizer.count(last)
        result = f"{first}\n{_missing(missing, tokenizer)}\n{last}"
        over = tokenizer.count(result) - count
        if over <= 0:
            return result
        room -= over
    return cut_tokens(text, count, tokenizer, "head")


def _missing(count: int, tokenizer: Tokenizer) -> str:
    return left_out(max(0, count), "token", about=not tokenizer.identity.exact)
