"""Which characters stick to their neighbours (extended grapheme clusters, UAX #29)."""

from __future__ import annotations

from functools import lru_cache

# Below the first combining mark nothing sticks, and most text is below.
_FIRST_EXTENDER = "\u0300"


def sticks_to_left(character: str) -> bool:
    """Whether a cluster goes on with this character (rules GB9, GB9a). False for the empty text."""
    return character >= _FIRST_EXTENDER and _is_extender(character)


def sticks_to_right(character: str) -> bool:
    """Whether a cluster goes on after this character (rule GB9b). False for the empty text."""
    return character >= _FIRST_EXTENDER and _is_prepend(character)


@lru_cache(maxsize=4096)
def _is_extender(character: str) -> bool:
    import regex  # noqa: PLC0415  # only text with such characters pays for it

    return regex.match(r"[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]", character) is not None


@lru_cache(maxsize=4096)
def _is_prepend(character: str) -> bool:
    import regex  # noqa: PLC0415  # only text with such characters pays for it

    return regex.match(r"\p{GCB=Prepend}", character) is not None
