"""The table of ``:`` commands. Their output is for the user and never reaches the model."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tokenbox.errors import TokenboxError
from tokenbox.shell.commands import again, context, models, sessions, system
from tokenbox.shell.errors import BadArguments, UnknownMeta

if TYPE_CHECKING:
    from tokenbox.shell.session import Session


@dataclass(frozen=True, slots=True)
class MetaCommand:
    """A ``:`` command. ``words``: the completions of its first argument."""

    name: str
    arguments: str
    help: str
    handler: Callable[[Session, str], None]
    words: Callable[[Session], Iterable[str]] | tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        return f":{self.name} {self.arguments}".rstrip()


def show_help(session: Session, arguments: str) -> None:
    if arguments:
        command = find(arguments.removeprefix(":"))
        session.screen.table(("command", "what it does"), [(command.usage, command.help)])
        return
    session.screen.table(("line", "what it does"), LINES)
    session.screen.text("")
    session.screen.table(("command", "what it does"), [(c.usage, c.help) for c in COMMANDS])


def quit_shell(session: Session, _: str) -> None:
    session.ended = True


def model_names(session: Session) -> Iterable[str]:
    return session.models.names


def session_names(session: Session) -> Iterable[str]:
    """Return the names of stored sessions; none if the store fails."""
    try:
        return [info.name for info in session.record.sessions()]
    except TokenboxError:
        return []


LINES: Final = (
    ("TEXT", "send a message to the model; Ctrl-C stops the answer and keeps the partial one"),
    ("!COMMAND", "run a command; its output is offered to the context"),
    ("COMMAND |> QUESTION", "run a command and ask about its output"),
    ("TEXT with @PATH", "attach the relevant parts of a file or folder, or an image"),
    ("\\TEXT", "send literal text"),
    ("LINE\\", "continue in the next line (or press Alt-Enter)"),
)

_ON_OFF: Final = ("on", "off")
COMMANDS: Final[tuple[MetaCommand, ...]] = (
    MetaCommand("help", "[COMMAND]", "show this list", show_help, lambda _: [c.name for c in COMMANDS]),
    MetaCommand("model", "[NAME]", "show the model, or switch to another", models.model, model_names),
    MetaCommand("models", "", "list the models of your settings and of the server", models.models),
    MetaCommand("file", "PATH [QUERY]", "attach a file or folder to the next question", context.file),
    MetaCommand("retry", "[MODEL]", "ask the last question again", again.retry, model_names),
    MetaCommand("undo", "", "remove the last question and its answer", again.undo),
    MetaCommand("edit", "[TEXT]", "ask another question in place of the last one", again.edit),
    MetaCommand(
        "copy",
        "[code [NUMBER]]",
        "copy the last answer, or code in it, to the clipboard",
        again.copy,
        ("code",),
    ),
    MetaCommand("export", "FILE.md|FILE.json", "write the conversation to a file", again.export),
    MetaCommand(
        "set",
        "[NAME [VALUE]]",
        "list the settings of the shell, or change one for this session",
        models.change,
        models.setting_names,
    ),
    MetaCommand("context", "[--json]", "list what the next call sends", context.context),
    MetaCommand("tokens", "TEXT", "count the tokens of a text", context.tokens),
    MetaCommand("budget", "[TOKENS]", "show the token budget, or set it for this session", context.budget),
    MetaCommand("compact", "[--yes] [FOCUS]", "replace the conversation by a summary", context.compact),
    MetaCommand("expand", "[HANDLE]", "list what was left out, or show one text in full", context.expand),
    MetaCommand("pin", "NUMBER", "keep an item from being evicted; again: unpin it", context.pin),
    MetaCommand("drop", "NUMBER|last", "remove an item from the context", context.drop),
    MetaCommand("reset", "", "start a new conversation with the same settings", context.reset),
    MetaCommand("cost", "[detail]", "show the cost of this session", context.cost, ("detail",)),
    MetaCommand(
        "project",
        "[on|off|FILE]",
        "add the project's instructions to the system prompt",
        system.project,
        _ON_OFF,
    ),
    MetaCommand(
        "memory",
        "[add TEXT|drop NUMBER]",
        "list or change the notes for every session",
        system.memory,
        ("add", "drop"),
    ),
    MetaCommand(
        "tools", "[on|off]", "let the model propose commands, which you approve", system.tools, _ON_OFF
    ),
    MetaCommand(
        "mcp",
        "[ACTION ...]",
        "use MCP servers: connect NAME COMMAND-or-URL, disconnect NAME, list",
        system.mcp,
        ("connect", "disconnect", "list"),
    ),
    MetaCommand(
        "tokenize",
        "[probe|TEXT]",
        "show the counter of this model; probe its server again; show the tokens of a text",
        models.tokenize,
        ("probe",),
    ),
    MetaCommand(
        "proof",
        "[write]",
        "show what the last call sent and why, or write a proof bundle",
        sessions.proof,
        ("write",),
    ),
    MetaCommand("save", "[NAME|FILE.json]", "name the session, or write it to a file", sessions.save),
    MetaCommand("load", "NAME|FILE.json", "continue a saved session", sessions.load, session_names),
    MetaCommand(
        "sessions", "[delete NAME]", "list the saved sessions, or delete one", sessions.sessions, ("delete",)
    ),
    MetaCommand("config", "", "list all settings and their sources", models.config),
    MetaCommand("quit", "", "leave (or press Ctrl-D)", quit_shell),
)
_ALIASES: Final = {"q": "quit", "exit": "quit", "?": "help", "h": "help"}
# Words of other shells, each with our command: offered, not executed.
_MEANT: Final = {
    **dict.fromkeys(("add", "read", "read-only", "attach"), "file"),
    **dict.fromkeys(("clear", "new"), "reset"),
    **dict.fromkeys(("summarize", "summary"), "compact"),
    **dict.fromkeys(("usage", "price", "stats"), "cost"),
    **dict.fromkeys(("history", "ls", "messages", "status"), "context"),
    **dict.fromkeys(("write", "dump"), "export"),
    "system": "set shell.system",
}
_BY_NAME: Final = {command.name: command for command in COMMANDS}


def find(name: str) -> MetaCommand:
    """Return the command of that name. Raises :class:`UnknownMeta`."""
    command = _BY_NAME.get(_ALIASES.get(name, name))
    if command is not None:
        return command
    near = [_MEANT[name]] if name in _MEANT else difflib.get_close_matches(name, _BY_NAME, 1)
    hint = f"Did you mean :{near[0]}?" if near else "See :help."
    raise UnknownMeta(f"there is no command :{name[:40]}. {hint}", name=name)


def check_slash(text: str) -> None:
    """Raise :class:`UnknownMeta` for a message that is a command of other shells, such as ``/help``."""
    name = text.removeprefix("/").lower()
    if name != text.lower() and _ALIASES.get(name, name) in _BY_NAME:
        raise UnknownMeta(f"a command begins with a colon: :{name}. To send the text: \\{text}", name=name)


def execute(session: Session, name: str, arguments: str) -> None:
    """Execute a command. Raises what it raises, and :class:`BadArguments` if it takes none."""
    command = find(name)
    if arguments and not command.arguments:
        raise BadArguments(f":{command.name} takes no arguments.")
    command.handler(session, arguments)


def completions(session: Session, words: Sequence[str]) -> list[tuple[str, str]]:
    """Return the completions of the last word, with their descriptions."""
    if len(words) == 1:
        return [(f":{command.name}", command.help) for command in COMMANDS]
    command = _BY_NAME.get(words[0].removeprefix(":"))
    if command is None or len(words) > 2:  # :name and its first argument
        return []
    return [(word, "") for word in (command.words(session) if callable(command.words) else command.words)]
