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


class PolicyError(TokenboxError, code="policy_error"):
    """The policy cannot decide."""


class InvalidPolicy(PolicyError, code="invalid_policy"):
    """A window, reserve, headroom or mode is not valid. ``details["field"]`` names it."""


class InvalidChunks(PolicyError, code="invalid_chunks"):
    """Chunks are of an unknown kind, or of kinds that do not go together."""


class UnknownWindow(PolicyError, code="unknown_window"):
    """The context window of a model is unknown.

    ``details["nearest"]``: known models of a similar name. Without one, ``details["remedies"]`` are commands
    that set the window.
    """


class UnknownStrategy(PolicyError, code="unknown_strategy"):
    """No strategy has that name, or it is not for chunks of this kind."""


class StrategyFailed(PolicyError, code="strategy_failed"):
    """A user's strategy raised (its error is the cause), is not deterministic, or broke its contract."""


def unknown_window(model: str | None) -> PolicyError:
    """Return the error for a model with an unknown context window.

    A name that is nearly that of a known model is probably misspelt: then the error suggests the known name,
    and no settings for the misspelt one.
    """
    if model is None:
        return InvalidPolicy(
            "the context window is unknown: name a model, or give max_ctx or a budget.", field="max_ctx"
        )
    key = key_of_model(model, "max_ctx")
    unknown = f"the context window of the model {model!r} is unknown."
    near = nearest(model)
    remedies = [] if near else [f"tokenbox config set {key} 8192", "tokenbox config set policy.max_ctx 8192"]
    if near:
        help_ = (
            f"Did you mean {near[0]}? For a model of your own, set its window: tokenbox config set {key} 8192"
        )
    else:
        help_ = "Set it to that of its server, such as 8192, or give max_ctx or a budget.\n"
        help_ += f"Run: {remedies[0]}"
    return UnknownWindow(f"{unknown} {help_}", model=model, nearest=near, remedies=remedies)
