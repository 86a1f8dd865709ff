"""What can be wrong with figures of a call.

TokenboxError
└── LedgerError                   ledger_error
    └── InvalidUsage              invalid_usage            a number of tokens that cannot be one
"""

from __future__ import annotations

from tokenbox.errors import TokenboxError


class LedgerError(TokenboxError):
    """What a call used or costs cannot be said."""

    code = "ledger_error"


class InvalidUsage(LedgerError):
    """A number of tokens is no whole number from 0, or a part is more than its whole."""

    code = "invalid_usage"
