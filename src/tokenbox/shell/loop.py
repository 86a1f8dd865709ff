"""Executes a line: a ``:`` command, a command of the user, or a message to the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.errors import TokenboxError
from tokenbox.shell import commands, lines, turn
from tokenbox.shell.offers import has_output
from tokenbox.shell.running import run

if TYPE_CHECKING:
    from tokenbox.shell.session import Session


def take(session: Session, line: str) -> None:
    """Execute a line. Errors are reported on the screen, and the session continues."""
    try:
        match lines.parse(line, session.place.has):
            case lines.Meta(name, arguments):
                session.answered = None  # the command may change what is sent
                commands.find(name).handler(session, arguments)
            case lines.Command(text, question):
                run_command(session, text, asked=bool(question))
                if question:
                    turn.say(session, question)
            case lines.Say(text, literal):
                turn.say(session, text, literal=literal)
    except TokenboxError as error:
        session.screen.problem(error)


def run_command(session: Session, command: str, *, asked: bool = False) -> None:
    """Run a command of the user, and offer its output if it has any or if a question is about it."""
    ran = run(command, session.place, session.screen.command_output, session.screen.keyboard)
    session.place = ran.place
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
