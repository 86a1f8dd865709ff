"""Every error of the shell.

    ShellError                      shell_error
    ├── InvalidPrompt               invalid_prompt           a prompt template with a field there is not
    ├── UnknownMeta                 unknown_meta             a ``:`` command there is not
    ├── BadArguments                bad_arguments            arguments that a ``:`` command does not take
    ├── ModelNotConfigured          model_not_configured     a model that no setting has
    ├── NoModel                     no_model                 nobody to talk to is configured
    ├── NoSummary                   no_summary               the model has not summed up what it was given
    ├── KeyNotSent                  key_not_sent             a key that must not go where the settings send it
    ├── NoSuchItem                  no_such_item             an item of the context that is not there
    ├── McpFailed                   mcp_failed               a tool server that cannot be reached or refuses
    └── SessionFailed               session_failed           a session that cannot be saved or loaded

Each is a :class:`~tokenbox.errors.TokenboxError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    from collections.abc import Sequence


class ShellError(TokenboxError):
    """The shell cannot do what a line asks for. Nothing of the conversation is lost."""

    code = "shell_error"


class InvalidPrompt(ShellError):
    """A prompt template names what is not known. ``details["field"]`` is what."""

    code = "invalid_prompt"


class UnknownMeta(ShellError):
    """No meta command has that name; the message names the nearest."""

    code = "unknown_meta"


class BadArguments(ShellError):
    """A meta command does not take these arguments; the message says what it takes."""

    code = "bad_arguments"


class ModelNotConfigured(ShellError):
    """No model of that name is configured; the message names the nearest."""

    code = "model_not_configured"


class NoModel(ShellError):
    """There is no model to talk to. The message is what to write where."""

    code = "no_model"

    @classmethod
    def of(cls, names: Sequence[str]) -> NoModel:
        if names:
            return cls(
                f"no model is chosen, or it has no endpoint. Choose one with :model, of {', '.join(names)}."
            )
        return cls(
            "there is no model to talk to. Write one to your settings, as [models.local] with "
            'endpoint = "http://127.0.0.1:8080", or start with --endpoint URL.'
        )


class NoSummary(ShellError):
    """There is no summary. What it was to be of is as it was."""

    code = "no_summary"


class KeyNotSent(ShellError):
    """A key cannot be read, or a project's own settings would send it to a server of their choice."""

    code = "key_not_sent"


class NoSuchItem(ShellError):
    """The context has no item of that number."""

    code = "no_such_item"


class McpFailed(ShellError):
    """A tool server cannot be started or reached, or does not answer as the protocol has it."""

    code = "mcp_failed"


class SessionFailed(ShellError):
    """A session cannot be saved or loaded."""

    code = "session_failed"
