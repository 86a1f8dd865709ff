"""The usage and the cost of calls. Pure: prices, dates and figures are arguments."""

from __future__ import annotations

from tokenbox.ledger.call import Call, Category, Outcome, Prediction
from tokenbox.ledger.cap import CostCapError, CostCapExceeded, CostCapUnknown, Unpriced, cap_at_dollars
from tokenbox.ledger.cost import Cost, cost_at_most, cost_of
from tokenbox.ledger.errors import (
    InvalidCall,
    InvalidMoney,
    InvalidTime,
    InvalidUsage,
    LedgerError,
)
from tokenbox.ledger.totals import Ledger, Sum, Totals
from tokenbox.ledger.usage import UNKNOWN_USAGE, Usage

__all__ = [
    "UNKNOWN_USAGE",
    "Call",
    "Category",
    "Cost",
    "CostCapError",
    "CostCapExceeded",
    "CostCapUnknown",
    "InvalidCall",
    "InvalidMoney",
    "InvalidTime",
    "InvalidUsage",
    "Ledger",
    "LedgerError",
    "Outcome",
    "Prediction",
    "Sum",
    "Totals",
    "Unpriced",
    "Usage",
    "cap_at_dollars",
    "cost_at_most",
    "cost_of",
]
