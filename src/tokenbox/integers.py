"""Numbers from callers, including the number types of other libraries."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Any, Final, cast

from tokenbox.errors import InvalidBudget, TokenizerError, shown

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


def plain(value: object) -> Any:  # noqa: ANN401  # the caller's
    """Return a number of another library, such as ``numpy.float32(0.5)`` or a tensor of one, as Python's own.

    Any other value is returned as it is.
    """
    item = getattr(value, "item", None)
    if isinstance(value, int | float) or not callable(item):
        return value
    try:
        return item()
    except (TypeError, ValueError, RuntimeError):  # an array of several
        return value


def digits(text: str) -> int | None:
    """Return the number in a text of at most 100 digits, or None for any other text."""
    return int(text) if len(text) <= 100 and text.isascii() and text.isdigit() else None


_FIGURE = re.compile(r"(?P<whole>\d[\d,_ ]*(?:\.\d+)?)(?P<unit>[km]?) ?(?:tokens?)?")
_ZEROS = {"": 0, "k": 3, "m": 6}


def written_figure(text: str) -> int | None:
    """Return ``50k``, ``50,000`` or ``1.5M`` as a whole number, or None for any other text."""
    figure = _FIGURE.fullmatch(text.strip().lower())
    if figure is None:
        return None
    before, _, after = re.sub(r"[,_ ]", "", figure["whole"]).partition(".")
    zeros = _ZEROS[figure["unit"]]
    return None if len(before) > 16 or len(after) > zeros else int(before + after.ljust(zeros, "0"))


def meant_figure(value: object) -> str:
    """Return ``" Write 8000."`` for ``"8k"``, ``"8,000"`` or ``8000.0``, and nothing for any other value.

    A number that begins with 0 may be meant as octal.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_INTEGER:
        return f" Write {int(value)}."
    figure = written_figure(value) if isinstance(value, str) and not value.startswith("0") else None
    return "" if figure is None else f" Write {figure}."


def given_count(value: object, who: str) -> int:
    """Return a count that a caller's code, named ``who``, gave. Raises ``TokenizerError``."""
    number = whole(value)
    if number is None or not 0 <= number <= MAX_INTEGER:
        allowed = f"at most {MAX_INTEGER:,}" if number is not None and number > 0 else "0 or more"
        raise TokenizerError(f"{who} gave {shown(value)}; a count is an integer, {allowed}.")
    return number


def given_counts(values: Sequence[object], who: str) -> list[int]:
    """Return the counts that a caller's code, named ``who``, gave. Raises ``TokenizerError``."""
    counts = cast("list[int]", values)
    if set(map(type, counts)) == {int} and min(counts) >= 0 and max(counts) <= MAX_INTEGER:
        return counts  # the usual case, together
    return [given_count(value, who) for value in values]


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
        raise InvalidBudget(
            f"{name} is a whole number of {unit}, {allowed}, not {given}.{meant_figure(value)}", given=given
        )
    return number
