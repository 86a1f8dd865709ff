"""Every error of the shell.

    ShellError                      shell_error
    ├── InvalidPrompt               invalid_prompt           an unknown field in a prompt template
    ├── UnknownMeta                 unknown_meta             an unknown ``:`` command
    ├── BadArguments                bad_arguments            invalid arguments of a ``:`` command
    ├── ModelNotConfigured          model_not_configured     a model that is not in the settings
    ├── NoModel                     no_model                 no model is chosen, or it has no endpoint
    ├── NoRoom                      no_room                  the whole window is reserved for the answer
    ├── NoSummary                   no_summary               the model did not write a summary
    ├── KeyNotSent                  key_not_sent             a missing key, or one that must not be sent
    ├── NoSuchItem                  no_such_item             an item, file or handle that does not exist
    ├── McpFailed                   mcp_failed               a tool server that fails
    └── SessionFailed               session_failed           a session that cannot be saved or loaded

Each is a :class:`~tokenbox.errors.TokenboxError`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tokenbox.errors import TokenboxError


class ShellError(TokenboxError, code="shell_error"):
    """The shell cannot execute a line. The conversation is unchanged."""


class InvalidPrompt(ShellError, code="invalid_prompt"):
    """A prompt template has an unknown field, which is in ``details["field"]``."""


class UnknownMeta(ShellError, code="unknown_meta"):
    """No ``:`` command has that name. The message suggests the nearest one."""


class BadArguments(ShellError, code="bad_arguments"):
    """A ``:`` command does not accept these arguments. The message lists those it accepts."""


class ModelNotConfigured(ShellError, code="model_not_configured"):
    """No model of that name is configured. The message suggests the nearest one."""


class NoModel(ShellError, code="no_model"):
    """No model is chosen, or it has no endpoint. The message shows how to configure one."""

    @classmethod
    def of(cls, names: Sequence[str]) -> NoModel:
        """``names``: the configured models."""
        if names:
            return cls(
                f"no model is chosen, or it has no endpoint. Name its server with --endpoint URL or in your "
                f"settings, or choose a configured model, in the shell with :model: {', '.join(names)}."
            )
        return cls(
            "no model is configured. Name a server with --endpoint http://127.0.0.1:8080, or save one: "
            "tokenbox config set models.local.endpoint http://127.0.0.1:8080"
        )


class NoRoom(ShellError, code="no_room"):
    """The context window is not larger than what is reserved for the answer. The message has a fix."""


class NoSummary(ShellError, code="no_summary"):
    """The model did not write a summary. The messages are unchanged."""


class KeyNotSent(ShellError, code="key_not_sent"):
    """A key cannot be read, or a project's settings would send it to a server of their choice."""


class NoSuchItem(ShellError, code="no_such_item"):
    """The item, file or handle does not exist."""


class McpFailed(ShellError, code="mcp_failed"):
    """A tool server cannot be started or reached, or violates the protocol."""


class SessionFailed(ShellError, code="session_failed"):
    """A session cannot be saved or loaded."""
