"""What may stand for a file that does not fit: its outline, or how it begins."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tokenbox.errors import MissingExtra
from tokenbox.tokenizers.estimates import Chars4

if TYPE_CHECKING:
    from collections.abc import Callable


# How a text begins: so many lines with words, so many characters.
_LINES = 12
_CHARACTERS = 800


def summary_of(text: str, language: str | None) -> str | None:
    """A shorter text for ``text``; None where there is none.

    Code whose ``language`` the lens ``outline`` knows has its signatures, each with the first line of what
    documents it; all other text, and code that has none, its first lines.
    """
    outline = None if language is None else _outline_of(language)
    if outline is not None:
        shorter = outline(text)
        if len(shorter) < len(text):
            return shorter
    return _beginning(text)


@cache
def _outline_of(language: str) -> Callable[[str], str] | None:
    from tokenbox.content.lenses.outline import build_outline  # noqa: PLC0415  # most packs need none

    try:
        build = build_outline(language=language)
    except MissingExtra:
        return None
    return lambda text: build(text, Chars4())


def _beginning(text: str) -> str | None:
    lines = text.splitlines()
    kept: list[str] = []
    room = _CHARACTERS
    for line in lines:
        if len(kept) == _LINES or len(line) > room:
            break
        kept.append(line)
        room -= len(line) + 1
    while kept and not kept[-1].strip():
        kept.pop()
    left = len(lines) - len(kept)
    if not kept or not left:
        return None
    shorter = "\n".join(kept) + f"\n[{left:,} more line{'' if left == 1 else 's'}]\n"
    return shorter if len(shorter) < len(text) else None
