"""The errors of the ledger.

    LedgerError                     ledger_error
    ├── InvalidUsage                invalid_usage               an impossible number of tokens
    ├── InvalidMoney                invalid_money               an impossible amount
    ├── InvalidCall                 invalid_call                an invalid record of a call
    ├── InvalidTime                 invalid_time                a moment that does not parse
    └── CostCapError                cost_cap                    in cap.py
        ├── CostCapExceeded         cost_cap_exceeded           the call could cost more than is left
        └── CostCapUnknown          cost_cap_unknown            the cost is unknown, and the policy refuses

Each is a :class:`~tokenbox.errors.TokenboxError`.
"""

from __future__ import annotations

from tokenbox.errors import TokenboxError


class LedgerError(TokenboxError, code="ledger_error"):
    """The usage or the cost of a call cannot be determined."""


class InvalidUsage(LedgerError, code="invalid_usage"):
    """A number of tokens is not a whole number from 0, or a part exceeds its total."""


class InvalidMoney(LedgerError, code="invalid_money"):
    """An amount is not a finite decimal number from 0. Floats are refused, because they are not exact."""


class InvalidCall(LedgerError, code="invalid_call"):
    """A record of a call lacks a field or has an invalid one. ``details["field"]`` names it."""


class InvalidTime(LedgerError, code="invalid_time"):
    """A time such as 2026-11-01, 7d or today does not parse."""
