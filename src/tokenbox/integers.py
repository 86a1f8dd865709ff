"""Validation of integers from callers, including the integer types of other libraries."""

from __future__ import annotations

import operator
from typing import Final

from tokenbox.errors import InvalidBudget, shown

MAX_INTEGER: Final = 2**53 - 1
"""The largest integer that every JSON parser represents exactly (RFC 8785)."""


def whole(value: object) -> int | None:
    """Return ``value`` as a Python integer, or None if it is not an integer. A bool is not one."""
    if type(value) is int:
        return value
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # raises if it has no __index__
    except TypeError:
        return None


def token_budget(value: object) -> int:
    """Return ``value`` as a budget in tokens. Raises :class:`InvalidBudget`."""
    return limit("a budget", value, at_least=0, unit="tokens")


def limit(name: str, value: object, *, at_least: int, unit: str) -> int:
    """Return ``value`` as an integer of at least ``at_least``. Raises :class:`InvalidBudget`."""
    number = whole(value)
    if number is None or not at_least <= number <= MAX_INTEGER:
        too_large = number is not None and number > MAX_INTEGER
        allowed = f"at most {MAX_INTEGER:,}" if too_large else f"{at_least} or more"
        given = shown(value)
        raise InvalidBudget(f"{name} is a whole number of {unit}, {allowed}, not {given}.", given=given)
    return number
