"""Summaries of files that do not fit: the outline, or the first lines."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tokenbox.errors import MissingExtra, plural
from tokenbox.tokenizers.estimates import Chars4

# The limits of a summary made of first lines.
_MAX_LINES = 12
_MAX_CHARACTERS = 800


def summary_of(text: str, language: str | None) -> str | None:
    """Return a summary of ``text``; None if there is no shorter one.

    For code in a ``language`` of the ``outline`` lens: its signatures, each with the first line of its
    documentation. For other text, and code without signatures: the first lines.
    """
    outline = None if language is None else _outline_of(language)
    if outline is not None:
        shorter = outline(text)
        if len(shorter) < len(text):
            return shorter
    return _first_lines(text)


@cache
def _outline_of(language: str) -> Callable[[str], str] | None:
    from tokenbox.content.lenses.outline import build_outline  # most packs need none

    try:
        build = build_outline(language=language)
    except MissingExtra:
        return None
    return lambda text: build(text, Chars4())


def _first_lines(text: str) -> str | None:
    lines = text.splitlines()
    kept: list[str] = []
    room = _MAX_CHARACTERS
    for line in lines:
        if len(kept) == _MAX_LINES or len(line) > room:
            break
        kept.append(line)
        room -= len(line) + 1
    while kept and not kept[-1].strip():
        kept.pop()
    left = len(lines) - len(kept)
    if not kept or not left:
        return None
    shorter = "\n".join(kept) + f"\n[{plural(left, 'more line')}]\n"
    return shorter if len(shorter) < len(text) else None
