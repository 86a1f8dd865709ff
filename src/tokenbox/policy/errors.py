"""The errors of the policy.

TokenboxError
└── PolicyError                   policy_error
    ├── InvalidPolicy             invalid_policy           an invalid window, reserve or headroom
    ├── InvalidChunks             invalid_chunks           chunks of an unknown kind, or of several
    ├── UnknownWindow             unknown_window           the context window is unknown
    ├── UnknownStrategy           unknown_strategy
    └── StrategyFailed            strategy_failed          a user's strategy raised, or broke its contract
"""

from __future__ import annotations

from tokenbox.catalog import nearest
from tokenbox.errors import TokenboxError
from tokenbox.tokenizers.ownership import key_of_model


class PolicyError(TokenboxError):
    """The policy cannot decide."""

    code = "policy_error"


class InvalidPolicy(PolicyError):
    """A window, reserve, headroom or mode is not valid. ``details["field"]`` names it."""

    code = "invalid_policy"


class InvalidChunks(PolicyError):
    """Chunks are of an unknown kind, or of kinds that do not go together."""

    code = "invalid_chunks"


class UnknownWindow(PolicyError):
    """The context window of a model is unknown. ``details["remedies"]`` are commands that set it."""

    code = "unknown_window"


class UnknownStrategy(PolicyError):
    """No strategy has that name, or it is not for chunks of this kind."""

    code = "unknown_strategy"


class StrategyFailed(PolicyError):
    """A user's strategy raised (its error is the cause), is not deterministic, or broke its contract."""

    code = "strategy_failed"


def unknown_window(model: str | None) -> PolicyError:
    """Return the error for a model with an unknown context window, with commands that set it."""
    if model is None:
        return InvalidPolicy("the context window is unknown: name a model, or give max_ctx.", field="max_ctx")
    key = key_of_model(model, "max_ctx")
    remedies = [f"tokenbox config set {key} 8192", "tokenbox config set policy.max_ctx 8192"]
    near = nearest(model)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return UnknownWindow(
        f"the context window of the model {model!r} is unknown.{meant} Set it to its server's, such as "
        f"8192, or give the call max_ctx or a budget.\nRun: {remedies[0]}",
        model=model,
        nearest=near,
        remedies=remedies,
    )
