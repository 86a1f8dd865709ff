"""What calls used and what they cost. Pure: prices, days and figures are arguments."""

from __future__ import annotations

from tokenbox.ledger.errors import InvalidUsage, LedgerError
from tokenbox.ledger.usage import UNKNOWN_USAGE, Usage

__all__ = ["UNKNOWN_USAGE", "InvalidUsage", "LedgerError", "Usage"]
