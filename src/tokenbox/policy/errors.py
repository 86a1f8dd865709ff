"""What can be wrong with a question to the policy.

TokenboxError
└── PolicyError                   policy_error
    ├── InvalidPolicy             invalid_policy           a window, reserve or headroom that is none
    ├── InvalidChunks             invalid_chunks           chunks of no kind, or of several
    ├── UnknownWindow             unknown_window           nobody knows what the model holds
    ├── UnknownStrategy           unknown_strategy
    └── StrategyFailed            strategy_failed          a user's strategy raised, or broke its promise
"""

from __future__ import annotations

from tokenbox.errors import TokenboxError


class PolicyError(TokenboxError):
    """A question to the policy cannot be answered."""

    code = "policy_error"


class InvalidPolicy(PolicyError):
    """A window, reserve, headroom or mode that is none. ``details["field"]`` says which."""

    code = "invalid_policy"


class InvalidChunks(PolicyError):
    """Chunks that are of no kind we know, or of kinds that do not go together."""

    code = "invalid_chunks"


class UnknownWindow(PolicyError):
    """Nobody knows how much the model holds. ``details["remedies"]`` are commands that say it."""

    code = "unknown_window"


class UnknownStrategy(PolicyError):
    """No strategy has that name, or it is not for chunks of this kind."""

    code = "unknown_strategy"


class StrategyFailed(PolicyError):
    """A user's strategy raised (its error is the cause), is not deterministic, or broke its promise."""

    code = "strategy_failed"
