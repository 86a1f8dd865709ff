"""Commands on past messages: ``:retry``, ``:undo``, ``:edit``, ``:copy`` and ``:export``."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Final

from tokenbox.errors import plural
from tokenbox.integers import digits
from tokenbox.shell import turn
from tokenbox.shell.commands.sessions import write
from tokenbox.shell.errors import BadArguments, NoSuchItem, SessionFailed
from tokenbox.shell.screen import in_tokens

if TYPE_CHECKING:
    from tokenbox.shell.session import Session

_FENCE: Final = re.compile(r"(`{3,}(?=[^`]*$)|~{3,})(.*)")
_SHOWN: Final = 60


def retry(session: Session, arguments: str) -> None:
    numbers = _last_exchange(session)
    if arguments:
        session.models.use(arguments)
        session.record.settings_changed()
    turn.say_again(session, numbers)


def undo(session: Session, _: str) -> None:
    numbers = _last_exchange(session)
    question = " ".join(_question(session, numbers[0]).split())[:_SHOWN]
    before = session.context.total(offered=True)
    session.context.drop(numbers)
    session.record.mark(numbers, "dropped")
    after = session.context.total(offered=True)
    session.screen.notice(f"[removed: {question}; {before} -> {in_tokens(after)}]")


def edit(session: Session, arguments: str) -> None:
    """Ask another question in place of the last one; without a text, put the last one at the prompt."""
    numbers = _last_exchange(session)
    if arguments:
        turn.say_again(session, numbers, arguments)
    else:
        session.begun = f":edit {_question(session, numbers[0])}"


def copy(session: Session, arguments: str) -> None:
    words = arguments.split()
    number = digits(words[1]) if len(words) == 2 else 0
    if (words and words[0] != "code") or len(words) > 2 or number is None:
        raise BadArguments(":copy takes no arguments, code, or code NUMBER.")
    answer = _last_answer(session)
    if words:
        blocks = code_blocks(answer)
        if not blocks:
            raise NoSuchItem("the last answer has no block of code. :copy copies all of it.")
        if len(words) == 2 and not 1 <= number <= len(blocks):
            raise NoSuchItem(f"the last answer has only {plural(len(blocks), 'block')} of code.")
        answer = blocks[number - 1]
    if session.screen.copy(answer):
        lines = plural(answer.count("\n") + 1, "line")
        session.screen.notice(f"[copied {lines}, {in_tokens(session.models.count_text(answer))}]")


def code_blocks(text: str) -> list[str]:
    """Return the contents of fenced blocks of code. One that is not closed is not a block."""
    blocks, opening, begun = [], "", 0
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        fence = _FENCE.fullmatch(line.rstrip())
        if fence is None:
            continue
        if not opening:
            opening, begun = fence[1], number + 1
        elif fence[1].startswith(opening) and not fence[2]:
            blocks.append("".join(lines[begun:number]))
            opening = ""
    return blocks


def export(session: Session, arguments: str) -> None:
    """Write the conversation to a file: .md for people, .json as the next request."""
    words = arguments.split()
    force = "--force" in words
    names = [word for word in words if word != "--force"]
    if len(names) != 1 or not names[0].endswith((".md", ".json")):
        raise BadArguments(":export takes FILE.md or FILE.json, and --force to overwrite a file.")
    path = session.place.path(names[0])
    if os.path.lexists(path) and not force:
        raise SessionFailed(f"{names[0]} exists already. To overwrite it: :export {names[0]} --force")
    write(path, _as_request(session) if path.endswith(".json") else _as_markdown(session))
    session.screen.notice(f"[written to {names[0]}]")


def _last_exchange(session: Session) -> list[int]:
    window = session.context.window
    asked = [number for number, message in window.items() if message.role.value == "user"]
    if not asked:
        raise NoSuchItem("there is no question yet.")
    return session.context.exchange(asked[-1])


def _question(session: Session, number: int) -> str:
    """Return a question as it was typed, or as it was sent by another process."""
    asked = session.context.asked.get(number)
    return session.context.window[number].text if asked is None else asked.text


def _last_answer(session: Session) -> str:
    answers = [m.text for m in session.context.window.values() if m.role.value == "assistant" and m.text]
    if not answers:
        raise NoSuchItem("there is no answer yet.")
    return answers[-1]


def _as_request(session: Session) -> str:
    body: dict[str, object] = {
        "model": session.models.target.model,
        "messages": session.context.messages(),
    }
    tools = session.context.conversation.tools
    if tools:
        body["tools"] = list(tools)
    return json.dumps(body, ensure_ascii=False, indent=2) + "\n"


def _as_markdown(session: Session) -> str:
    from tokenbox.render.markdown import fence_for  # only for an export

    parts = []
    # The stored history includes what left the context to make room, but not what a full disk refused.
    history = [message for message, _ in session.record.history()]
    stored = session.record.positions
    for message in [*history, *(m for number, m in session.context.window.items() if number not in stored)]:
        calls = [f"`{call.name}({call.arguments})`" for call in message.tool_calls]
        body = "\n\n".join([*([message.text] if message.text else []), *calls])
        if message.role in message.RESULT_ROLES:
            fence = fence_for(body, 3)
            body = f"{fence}\n{body}\n{fence}"
        parts.append(f"## {message.role.value}\n\n{body}\n")
    return "\n".join(parts)
