"""What a line does: a ``:`` command, a command of the user's, or something said to the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.errors import TokenboxError
from tokenbox.shell import commands, lines, turn
from tokenbox.shell.attaching import Attached, attach, mentioned
from tokenbox.shell.offers import has_output
from tokenbox.shell.running import run

if TYPE_CHECKING:
    from tokenbox.shell.session import Session


def take(session: Session, line: str) -> None:
    """Do what ``line`` means. Bad input and failing servers are reported, and end nothing."""
    try:
        match lines.parse(line, session.place.has):
            case lines.Meta(name, arguments):
                session.answered = None  # it may change what is sent
                commands.find(name).handler(session, arguments)
            case lines.Command(text, question):
                run_command(session, text, asked=bool(question))
                if question:
                    turn.say(session, question)
            case lines.Say(text, literal):
                say(session, text, literal=literal)
    except TokenboxError as error:
        session.screen.problem(error)


def say(session: Session, text: str, *, literal: bool) -> None:
    """Say a text, with the files that it mentions by ``@path``. If that fails, they are not on offer."""
    names = [] if literal else mentioned(text, session)
    attached = attach(session, names, text) if names else Attached()
    for made in attached.offers:
        session.screen.notice(f"[{made.command}: {session.told(made)}]")
    offered = list(session.context.offers)
    session.context.offers += attached.offers
    try:
        turn.say(session, text, attached.images)
    finally:
        if session.context.offers:
            session.context.offers = offered


def run_command(session: Session, command: str, *, asked: bool = False) -> None:
    """Run a command of the user's and offer its output, if it has any or is asked about."""
    ran = run(command, session.place, session.screen.command_output, session.screen.keyboard)
    session.place = ran.place
    session.typed += ran.typed.decode("utf-8", "replace")
    told = [f"exit status {ran.status}"] if ran.status else []
    if session.settings.output_tokens and (asked or has_output(ran)):
        made = session.offered(ran)
        gone = session.context.offer(made)
        told.append(session.told(made))
        if gone:
            told.append(f"no longer on offer: {', '.join(one.command for one in gone)}")
    if told:
        session.screen.notice(f"[{'; '.join(told)}]")
