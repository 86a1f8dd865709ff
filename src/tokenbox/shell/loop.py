r"""Executes a line: a ``:`` command, a command of the user, or a message to the model.

    :name ARGUMENTS        a command of the shell; the model never sees it
    !command               a command, run as in a shell
    command |> question    a command, and a question about its output
    \text                  literal text
    text                   a message to the model
    exit, quit             leave, as in other shells

Without ``!``, text around ``|>`` is a command only if its first word is a program: people write about ``|>``
too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tokenbox.errors import TokenboxError
from tokenbox.shell import commands, turn
from tokenbox.shell.outputs import has_output
from tokenbox.shell.running import run

if TYPE_CHECKING:
    from tokenbox.shell.session import Session


ASK: Final = "|>"
LITERAL: Final = "\\"
_CONFIG_SET: Final = re.compile(r"tokenbox config set (?:--user )?(?=(?:shell|cost)\.)")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_META: Final = re.compile(r":([A-Za-z?][\w-]*)(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Meta:
    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run, and perhaps a question about its output."""

    text: str
    question: str | None = None


@dataclass(frozen=True, slots=True)
class Say:
    """A message to the model. ``literal``: an @ in it has no meaning."""

    text: str
    literal: bool = False


Input = Meta | Command | Say | None
# Complete lines: nothing, and what people type who know other shells.
_WORDS: Final[Mapping[str, Input]] = {"": None, "exit": Meta("quit"), "quit": Meta("quit"), ":": Meta("help")}


def parse(line: str, is_command: Callable[[str], bool]) -> Input:
    """Parse a line; None if it is empty. ``is_command`` returns True for the name of a program."""
    text = line.strip()
    if text in _WORDS:
        return _WORDS[text]
    if text.startswith(LITERAL):
        return Say(text[1:].strip(), literal=True) if text[1:].strip() else None
    if (meta := _META.fullmatch(text)) is not None:
        return Meta(meta[1].lower(), (meta[2] or "").strip())
    if text.startswith("!"):
        command, question = _split(text[1:].strip())
        return Command(command, question) if command else None
    command, question = _split(text)
    program = next((word for word in command.split() if not _ASSIGNMENT.match(word)), "")
    if question is not None and is_command(program):
        return Command(command, question)
    return Say(text)


def _split(text: str) -> tuple[str, str | None]:
    """Split a text into command and question at the last ``|>`` outside quotes."""
    place = _last_unquoted(text)
    if place is None:
        return text, None
    return text[:place].strip(), text[place + len(ASK) :].strip()


def _last_unquoted(text: str) -> int | None:
    """Return the index of the last ``|>`` outside quotes. An apostrophe in the question is not a quote."""
    quote, found = "", None
    skip = False
    for i, c in enumerate(text):
        if skip:
            skip = False
        elif c == "\\" and quote != "'":
            skip = True
        elif quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            # After the first |> the question may begin, and "what's" opens no quotation there.
            quote = c if found is None or text.find(c, i + 1) >= 0 else ""
        elif text.startswith(ASK, i):
            found = i
    return found


def take(session: Session, line: str) -> None:
    """Execute a line. Errors are reported on the screen, and the session continues."""
    try:
        match parse(line, session.place.has):
            case Meta(name, arguments):
                session.answered = None  # the command may change what is sent
                commands.execute(session, name, arguments)
            case Command(text, question):
                run_command(session, text, asked=bool(question))
                if question:
                    turn.say(session, question)
            case Say(text, literal):
                if not literal:
                    commands.check_slash(text)
                turn.say(session, text, literal=literal)
    except TokenboxError as error:
        _advise_set(error)
        session.screen.problem(error)


def _advise_set(error: TokenboxError) -> None:
    """Name ``:set`` in place of a command line, for the settings that it changes."""
    error.message = _CONFIG_SET.sub(":set ", error.message)
    remedies = error.details.get("remedies")
    if isinstance(remedies, list):
        here = [_CONFIG_SET.sub(":set ", remedy) for remedy in remedies]
        error.details = {**error.details, "remedies": here}


def run_command(session: Session, command: str, *, asked: bool = False) -> None:
    """Run a command of the user, and offer its output if it has any or if a question is about it."""
    ran = run(command, session.place, session.screen.command_output, session.screen.keyboard)
    moved = ran.place.folder != session.place.folder
    session.place = ran.place
    if moved:
        session.record.settings_changed()
    session.models.keys.learn(ran.place.variables)
    session.typed += ran.typed.decode("utf-8", "replace")
    notices = [f"exit status {ran.status}"] if ran.status else []
    if session.settings.output_tokens and (asked or has_output(ran)):
        offer = session.offered(ran)
        removed = session.context.offer(offer)
        notices.append(session.describe(offer))
        if removed:
            notices.append(f"no longer on offer: {', '.join(each.command for each in removed)}")
    if notices:
        session.screen.notice(f"[{'; '.join(notices)}]")
