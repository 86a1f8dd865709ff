"""The ``:`` commands, as a table. What they show is for the person and never reaches the model."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tokenbox.shell.commands import again, context, models, sessions, settings, system
from tokenbox.shell.errors import BadArguments, UnknownMeta

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tokenbox.shell.session import Session


@dataclass(frozen=True, slots=True)
class MetaCommand:
    """``:name arguments``. ``words`` are what may stand first among the arguments, for completion."""

    name: str
    arguments: str
    help: str
    handler: Callable[[Session, str], None]
    words: Callable[[Session], Iterable[str]] = lambda _: ()

    @property
    def usage(self) -> str:
        return f":{self.name} {self.arguments}".rstrip()


def show_help(session: Session, arguments: str) -> None:
    """All of the table, or one row of it."""
    if arguments:
        command = find(arguments.removeprefix(":"))
        session.screen.table(("command", "what it does"), [(command.usage, command.help)])
        return
    session.screen.table(("line", "what it does"), LINES)
    session.screen.text("")
    session.screen.table(("command", "what it does"), [(c.usage, c.help) for c in COMMANDS])


def quit_shell(session: Session, arguments: str) -> None:
    if arguments:
        raise BadArguments(":quit takes nothing.")
    session.ended = True


LINES: Final = (
    ("TEXT", "talk to the model; Ctrl-C stops an answer and keeps what came"),
    ("!COMMAND", "run a command; its output is offered to the context"),
    ("COMMAND |> QUESTION", "run a command and ask about its output"),
    ("TEXT with @PATH", "a file or folder, as far as the question needs it; images too"),
    ("\\TEXT", "text as it is, whatever it begins with"),
    ("LINE\\", "goes on in the next line (or Alt-Enter)"),
)

COMMANDS: Final[tuple[MetaCommand, ...]] = (
    MetaCommand("help", "[COMMAND]", "these lines", show_help, lambda _: [c.name for c in COMMANDS]),
    MetaCommand(
        "model", "[NAME]", "the model, or another from now on", models.model, lambda s: s.model_names
    ),
    MetaCommand("models", "", "the models in your settings, and those that the server has", models.models),
    MetaCommand(
        "file", "PATH [QUERY]", "a file or folder for the next question, within the budget", context.file
    ),
    MetaCommand("retry", "[MODEL]", "ask the last question again", again.retry, lambda s: s.model_names),
    MetaCommand("undo", "", "take the last question back, with its answer", again.undo),
    MetaCommand("edit", "[TEXT]", "change the last question and ask it again", again.edit),
    MetaCommand(
        "copy",
        "[code [NUMBER]]",
        "the last answer to the clipboard, or code in it",
        again.copy,
        lambda _: ["code"],
    ),
    MetaCommand("export", "FILE.md|FILE.json", "write the conversation to a file", again.export),
    MetaCommand(
        "set",
        "[NAME [VALUE]]",
        "the settings of the shell, or one for this session",
        settings.change,
        settings.names,
    ),
    MetaCommand("context", "[--json]", "what the next call sends, item by item", context.context),
    MetaCommand("tokens", "TEXT", "how many tokens a text has", context.tokens),
    MetaCommand("budget", "[TOKENS]", "the token budget, or another for this session", context.budget),
    MetaCommand("compact", "[--yes] [FOCUS]", "put a summary in the place of what was said", context.compact),
    MetaCommand("expand", "[HANDLE]", "tool results that are shown shorter, or one in full", context.expand),
    MetaCommand("pin", "NUMBER", "keep an item from leaving; again: let it go", context.pin),
    MetaCommand("drop", "NUMBER|last", "take an item out of the context", context.drop),
    MetaCommand("reset", "", "forget what was said; settings stay", context.reset),
    MetaCommand("cost", "[detail]", "what this session has cost", context.cost, lambda _: ["detail"]),
    MetaCommand(
        "project",
        "[on|off|FILE]",
        "instructions of the project in the system prompt",
        system.project,
        lambda _: ["on", "off"],
    ),
    MetaCommand(
        "memory",
        "[add TEXT|drop NUMBER]",
        "notes that every session is told",
        system.memory,
        lambda _: ["add", "drop"],
    ),
    MetaCommand(
        "tools",
        "[on|off]",
        "whether the model may propose commands, which you approve",
        system.tools,
        lambda _: ["on", "off"],
    ),
    MetaCommand(
        "mcp",
        "[ACTION ...]",
        "tools of MCP servers: connect NAME COMMAND-or-URL, disconnect NAME, list",
        system.mcp,
        lambda _: ["connect", "disconnect", "list"],
    ),
    MetaCommand(
        "tokenize",
        "[probe|TEXT]",
        "who counts for this model; ask its server again; the tokens of a text",
        models.tokenize,
        lambda _: ["probe"],
    ),
    MetaCommand(
        "proof",
        "[write]",
        "what the last call sent and why, as evidence",
        sessions.proof,
        lambda _: ["write"],
    ),
    MetaCommand("save", "[NAME|FILE.json]", "give the session a name, or write it to a file", sessions.save),
    MetaCommand(
        "load", "NAME|FILE.json", "go on with a saved session", sessions.load, lambda s: s.session_names
    ),
    MetaCommand("sessions", "", "the saved sessions", sessions.sessions),
    MetaCommand("config", "", "the settings in force, and where each comes from", models.config),
    MetaCommand("quit", "", "end (or Ctrl-D)", quit_shell),
)
_ALIASES: Final = {"q": "quit", "exit": "quit", "?": "help", "h": "help"}
_BY_NAME: Final = {command.name: command for command in COMMANDS}


def find(name: str) -> MetaCommand:
    """The command of that name. Raises :class:`UnknownMeta`."""
    command = _BY_NAME.get(_ALIASES.get(name, name))
    if command is not None:
        return command
    near = difflib.get_close_matches(name, _BY_NAME, 1)
    hint = f"Did you mean :{near[0]}?" if near else "See :help."
    raise UnknownMeta(f"there is no command :{name[:40]}. {hint}", name=name)


def completions(session: Session, words: Sequence[str]) -> list[tuple[str, str]]:
    """What may stand where the last of ``words`` does, with what it is."""
    if len(words) == 1:
        return [(f":{command.name}", command.help) for command in COMMANDS]
    command = _BY_NAME.get(words[0].removeprefix(":"))
    if command is None or len(words) > 2:  # noqa: PLR2004  # :name and its first argument
        return []
    return [(word, "") for word in command.words(session)]
