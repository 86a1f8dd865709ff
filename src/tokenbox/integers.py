"""Whole numbers as callers give them: Python's own, and the integers of any library."""

from __future__ import annotations

import operator
from typing import Final

from tokenbox.errors import InvalidBudget

MAX_INTEGER: Final = 2**53 - 1
"""The largest whole number that every reader of JSON has exactly (RFC 8785)."""


def whole(value: object) -> int | None:
    """``value`` as a Python integer; None if it is not a whole number, as ``True`` and ``False`` are not."""
    if type(value) is int:
        return value
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # it says
    except TypeError:
        return None


def token_budget(value: object) -> int:
    """``value`` as a budget in tokens. Raises :class:`InvalidBudget`."""
    number = whole(value)
    if number is None or not 0 <= number <= MAX_INTEGER:
        raise InvalidBudget(
            f"a budget is a whole number of tokens, 0 or more, not {value!r}.", budget=repr(value)
        )
    return number
