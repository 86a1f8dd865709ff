"""Every error of the ledger.

    LedgerError                     ledger_error
    ├── InvalidUsage                invalid_usage               a number of tokens that cannot be one
    ├── InvalidMoney                invalid_money               an amount that cannot be one
    ├── InvalidCall                 invalid_call                a record of a call that is none
    ├── InvalidTime                 invalid_time                a moment that does not parse
    └── CostCapError                cost_cap                    in cap.py
        ├── CostCapExceeded         cost_cap_exceeded           the call could cost more than is left
        └── CostCapUnknown          cost_cap_unknown            it cannot be said, and the policy is to refuse

Each is a :class:`~tokenbox.errors.TokenboxError`.
"""

from __future__ import annotations

from tokenbox.errors import TokenboxError


class LedgerError(TokenboxError):
    """What a call used or costs cannot be said."""

    code = "ledger_error"


class InvalidUsage(LedgerError):
    """A number of tokens is not a whole number from 0, or a part is more than its whole."""

    code = "invalid_usage"


class InvalidMoney(LedgerError):
    """An amount is not a finite decimal number from 0. Floats are refused: they are not what they print."""

    code = "invalid_money"


class InvalidCall(LedgerError):
    """A record of a call lacks something or says what cannot be. ``details["field"]`` is where."""

    code = "invalid_call"


class InvalidTime(LedgerError):
    """A moment such as 2026-11-01, 7d or today does not parse."""

    code = "invalid_time"
