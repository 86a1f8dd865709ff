"""What compiling a row gives: its columns, and figures for the summary."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tokenbox.errors import ContextCriticalOverflow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenbox.errors import TokenboxError


class RowOutcome(StrEnum):
    """The outcome of a row."""

    WHOLE = "whole"
    """All of the input is in the result."""
    CUT = "cut"
    """Something was shortened or left out."""
    REFUSED = "refused"
    """The critical parts do not fit, or the policy refuses the request."""
    FAILED = "failed"
    """Another error."""


@dataclass(frozen=True, slots=True)
class RowResult:
    """The result of a row: its columns, without those kept from the input, and figures for the summary.

    ``saved``: input tokens that are not in the result; None if they were not counted.
    """

    columns: Mapping[str, object]
    outcome: RowOutcome
    total: int | None = None
    exact: bool = True
    saved: int | None = None

    @classmethod
    def failed(cls, error: TokenboxError) -> RowResult:
        refused = isinstance(error, ContextCriticalOverflow)
        return cls({"error": error.to_dict()}, RowOutcome.REFUSED if refused else RowOutcome.FAILED)
