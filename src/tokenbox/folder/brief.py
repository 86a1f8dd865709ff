"""Shorten an outline to what most of the code refers to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tokenbox.content.lenses.outline import Signature

# A signature stays if its worth is at least this percentage of the best one. The shortened outline is used if
# it has at most this percentage of the characters.
_WORTH, _SIZE = 50, 70


class Brief(NamedTuple):
    """The best signatures of an outline: their text, and the worths of the best of them and of the rest."""

    text: str
    best: int
    rest: int


class _Entry(NamedTuple):
    """A definition with what has no name in it. ``around``: the place of the entry it is inside of, or -1."""

    depth: int
    around: int
    worth: int
    lines: list[str]


def brief(signatures: Sequence[Signature], worth: Callable[[str], int]) -> Brief | None:
    """Return the signatures whose names are worth most, with those around them; None if these are most.

    ``worth``: of a name.
    """
    entries = _entries(signatures, worth)
    best = max((entry.worth for entry in entries), default=0)
    stays = [entry.worth * 100 >= best * _WORTH for entry in entries]
    shown = set[int]()
    for at, stay in enumerate(stays):
        around = at if stay else -1
        while around >= 0 and around not in shown:
            shown.add(around)
            around = entries[around].around
    text = "".join(line for at, entry in enumerate(entries) if at in shown for line in entry.lines)
    size = sum(len(one.text) for one in signatures)
    if not best or len(text) * 100 > size * _SIZE:
        return None
    rest = max((entry.worth for entry, stay in zip(entries, stays, strict=True) if not stay), default=0)
    return Brief(text, best, rest)


def _entries(signatures: Sequence[Signature], worth: Callable[[str], int]) -> list[_Entry]:
    entries: list[_Entry] = []
    for one in signatures:
        around = len(entries) - 1
        while around >= 0 and entries[around].depth >= one.depth:
            around = entries[around].around
        if one.name or around < 0:
            entries.append(_Entry(one.depth, around, worth(one.name) if one.name else 0, [one.text]))
        else:
            entries[around].lines.append(one.text)
    return entries
