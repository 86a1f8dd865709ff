"""A turn of the conversation: sends a question, runs the tools that the model calls, keeps the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tokenbox.errors import TokenboxError
from tokenbox.ledger import Category, Outcome
from tokenbox.providers.errors import AuthenticationFailed, ContextExceeded
from tokenbox.shell import proposals
from tokenbox.shell.attaching import attach, mentioned
from tokenbox.shell.calls import call, check_cap, report_end
from tokenbox.shell.errors import NoModel
from tokenbox.shell.room import fit_window, make_room, warn_if_full
from tokenbox.shell.running import run, uninterrupted
from tokenbox.shell.screen import Approval

if TYPE_CHECKING:
    from tokenbox.content.message import ToolCall
    from tokenbox.shell.outputs import OutputOffer
    from tokenbox.shell.session import Session

# The limit of tool rounds for one question; a model that reaches it is in a loop.
MAX_ROUNDS: Final = 25


def say(session: Session, text: str, *, literal: bool = False) -> None:
    """Send ``text`` with the offered outputs and the files that it mentions by ``@path``, and add the answer.

    ``literal``: an @ has no meaning. If the request cannot be sent, or the answer is empty, the context stays
    as it was.
    """
    prepare(session)
    question = ask(session, text, literal=literal)
    answer_to(session, question, session.context.asked[question].offers)


def say_again(session: Session, numbers: Sequence[int], text: str | None = None) -> None:
    """Replace the last exchange by asking its question again, or ``text`` with the outputs offered for it.

    Without an answer, the exchange is restored.
    """
    prepare(session)
    context, record, asked = session.context, session.record, session.context.asked
    conversation, window = context.conversation, context.window
    offers, first = context.offers, numbers[0]
    pinned = {item.number for item in conversation.items() if item.pinned}
    before = {number: window[number] for number in numbers}
    context.drop(numbers)
    others = set(conversation.window)
    try:
        if text is None:
            question = conversation.add(before[first])
            if first in asked:
                asked[question] = asked[first]
        else:
            context.offers = [*(asked[first].offers if first in asked else ()), *offers]
            question = ask(session, text)
        answer_to(session, question, ())
    finally:
        if others.issuperset(conversation.window):  # the question was taken back
            context.offers = offers
            for number, message in before.items():
                restored = conversation.add(message, pinned=number in pinned)
                if number in record.positions:
                    record.positions[restored] = record.positions[number]
                if number in asked:
                    asked[restored] = asked[number]
        else:
            record.mark(numbers, "dropped")


def ask(session: Session, text: str, *, literal: bool = False) -> int:
    """Add a question, with what is attached to it, to the conversation. Return its number."""
    attached = attach(session, [] if literal else mentioned(text, session), text)
    for offer in attached.offers:
        session.screen.notice(f"[{offer.command}: {session.describe(offer)}]")
    return session.context.ask(session.models.keys.hidden_in(text), attached)


def prepare(session: Session) -> None:
    """Check that the model can be asked, and set the budget that its window allows. Raises ``ShellError``."""
    if session.models.target.endpoint is None:
        raise NoModel.of(session.models.names)
    session.models.check_key()
    fit_window(session)


def answer_to(session: Session, question: int, offers: Sequence[OutputOffer]) -> None:
    """Send the request that ends with ``question``, and run tools until the model has answered."""
    context, session.answered = session.context, None
    try:
        question = make_room(session, question)
        check_cap(session, Category.MAIN)
        keep(session, [question])
    except BaseException as error:
        context.take_back(next(reversed(context.conversation.window)), offers)
        if isinstance(error, KeyboardInterrupt):
            session.screen.notice("[stopped before anything was sent; the question is taken back]")
        raise
    category = Category.MAIN
    for _ in range(MAX_ROUNDS):
        if session.ended:  # by a signal, which interrupted a command or a summary
            return
        ended = call(session, category)
        answer, done = ended.answer, ended.outcome is Outcome.DONE
        calls = answer.tool_calls if done else ()
        if answer.text or calls:
            message = answer.message if done else {"role": "assistant", "content": answer.text}
            with uninterrupted():
                keep(session, [context.conversation.add(message)])
        elif category is Category.MAIN:
            context.take_back(question, offers)
            session.record.mark([question], "dropped")
        report_end(session, ended)
        if ended.error is not None:
            advise(session, ended.error)
            raise ended.error
        if not calls:
            session.answered = session.record.last_call
            warn_if_full(session)
            return
        keep(session, [context.conversation.add(answer_call(session, one)) for one in calls])
        category = Category.TOOL
        make_room(session, question)
        check_cap(session, category)
    session.screen.notice(f"[stopped: the model called tools {MAX_ROUNDS} times for one question]")


def advise(session: Session, error: TokenboxError) -> None:
    """Say how the question can be asked again, if the key or the window is the problem."""
    how = session.models.how_to_set_key()
    if isinstance(error, AuthenticationFailed) and how is not None:
        session.screen.notice(f"[to set another key: {how}]")
    if isinstance(error, ContextExceeded):
        budget, window = session.context.budget, error.details["context_window"]
        fit_window(session)  # the server may have a smaller window than before, and say so
        if session.context.budget < budget:
            session.screen.notice("[ask again: the request will fit this budget]")
        elif isinstance(window, int):
            room = window - (session.models.output_reserve or window // 4)
            session.screen.notice(f"[to keep to its window of {window:,} tokens: :budget {max(1, room)}]")


def keep(session: Session, numbers: Sequence[int]) -> None:
    window = session.context.window
    session.record.append({number: window[number] for number in numbers}, session.models.count_here)


def answer_call(session: Session, called: ToolCall) -> dict[str, Any]:
    """Return the message with the result of a tool call. Every call gets one, even if it failed."""
    try:
        result = _result(session, called)
    except TokenboxError as error:
        session.screen.problem(error)
        result = f"error: {error.message}"
    except KeyboardInterrupt:
        session.screen.notice("[interrupted]")
        result = "The user interrupted this."
    hidden = session.models.keys.hidden_in(result)
    return {"role": "tool", "tool_call_id": called.id, "content": hidden}


def _result(session: Session, called: ToolCall) -> str:
    arguments = proposals.arguments_of(called.arguments)
    if arguments is None:
        return f"error: the arguments are not a JSON object: {called.arguments[:200]}"
    if called.name == proposals.NAME and session.proposals_on:
        command = arguments.get("command")
        if not isinstance(command, str) or not command.strip():
            return "error: the argument command is missing."
        return _proposed(session, command)
    if session.mcp.knows(called.name):
        if not _approved(session, f"{called.name}({called.arguments})", called.name):
            return "The user did not allow this."
        return session.cut(session.mcp.call(called.name, arguments))
    return f"error: there is no tool {called.name!r}."


def _proposed(session: Session, command: str) -> str:
    if not proposals.is_allowed(command, session.settings.allow) and not _approved(session, command, command):
        return "The user did not run this command."
    # The command must not see the shell's keys, and its cd and export must not affect the user's commands.
    place = replace(session.place, variables=session.models.keys.without(session.place.variables))
    ran = run(command, place, session.screen.command_output, session.screen.keyboard)
    return session.offered(ran).text


def _approved(session: Session, shown: str, what: str) -> bool:
    if what in session.approved:
        return True
    approval = session.screen.approves(f"The model wants to run: {shown}", "Run it?")
    if approval is Approval.ALWAYS:
        session.approved.add(what)
    return approval is not Approval.NO
