"""Commands on stored sessions, and on the evidence of the last call."""

from __future__ import annotations

import json
import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tokenbox.config.keys import MAX_TOKENS
from tokenbox.config.setting import Level
from tokenbox.config.trust import own_paths
from tokenbox.content.message import Message
from tokenbox.errors import TokenboxError, plural
from tokenbox.files import OWN, open_regular, read_at_most, replace
from tokenbox.shell.errors import BadArguments, NoSuchItem, SessionFailed
from tokenbox.shell.memory import find_instructions
from tokenbox.shell.screen import in_tokens
from tokenbox.store.bundles import Bundles, bundles_of
from tokenbox.store.key_files import read_signer
from tokenbox.store.sessions import SAVED, StoredSession

if TYPE_CHECKING:
    from tokenbox.shell.session import Session

FILE_ENDING = ".json"
_DONE = {"evict": "evicted", "mask": "masked", "cut": "cut", "restore": "restored"}
MAX_BYTES = 256 * 1024 * 1024


def save(session: Session, arguments: str) -> None:
    stored = session.record.stored
    if stored is None and not session.context.conversation.window:
        raise SessionFailed("there are no messages yet, so there is nothing to save.")
    if stored is None:
        raise SessionFailed("this session is not stored. To write it to a file: :export talk.md")
    if arguments.endswith(FILE_ENDING):
        path = session.place.path(arguments)
        if os.path.exists(path) and not _is_saved(path):
            raise SessionFailed(f"{path} exists, and is no saved session. Name another file.", file=path)
        write(path, json.dumps(stored.saved(), ensure_ascii=False, indent=1) + "\n")
        session.screen.notice(f"[saved to {path}]")
        return
    if arguments:
        session.record.rename(arguments)
    session.screen.notice(f"[saved as {session.record.name!r}, and again after every message]")


def load(session: Session, arguments: str) -> None:
    if not arguments:
        raise BadArguments(":load takes a name of :sessions, or a FILE.json of :save.")
    sessions = session.record.store.sessions
    if arguments.endswith(FILE_ENDING):
        record = _read(session.place.path(arguments))
        now, session_id = session.record.now(), session.new_id()
        name = f"{Path(arguments).stem} {now:%Y-%m-%d %H:%M:%S}"
        if any(info.name == name for info in session.record.sessions()):  # loaded twice in one second
            name = f"{name} {session_id[:6]}"
        stored = sessions.load(record, session_id, name, now)
    else:
        stored = sessions.open(arguments)
    continue_session(session, stored)


def continue_session(session: Session, stored: StoredSession) -> None:
    """Load the messages, pins, summary, model and budget of a stored session."""
    info, conversation = stored.info, session.context.conversation
    messages = [(turn, Message.of(turn.message)) for turn in stored.turns()]
    session.record.resume(stored)
    conversation.reset()
    session.context.offers = []
    for turn, message in messages:
        if message.role.value == "system":
            conversation.summary = message.text
            session.record.summary_position = turn.position
            continue
        number = conversation.add(message, pinned=turn.pinned)
        if turn.position is not None:
            session.record.positions[number] = turn.position
    _restore(session, info.settings, info.model)
    _take_back_unanswered(session)
    size = f"{plural(len(conversation.window), 'message')}, {in_tokens(session.context.total())}"
    session.screen.notice(f"[continuing {info.name!r}: {size}]")


def _restore(session: Session, settings: object, model: str | None) -> None:
    """Restore the model, budget, tools and project instructions of the session, as far as they are valid.

    The options of the command line take precedence. The folder stays: the user is told of another one.
    """
    if model and model != session.models.name and not _is_flag(session, "model"):
        try:
            session.models.use(model)
        except TokenboxError as error:
            session.screen.notice(f"[its model was {model}, which cannot be used: {error.message}]")
    if not isinstance(settings, dict):
        return
    budget = settings.get("token_budget")
    if type(budget) is int and 0 <= budget <= MAX_TOKENS and not _is_flag(session, "shell.token_budget"):
        session.set_budget(budget)
    session.proposals_on = settings.get("tools") is True
    project = settings.get("project", "")
    if project is None or (isinstance(project, str) and project):
        _restore_project(session, project)
    folder = settings.get("folder")
    if isinstance(folder, str) and folder != session.place.folder:
        session.screen.notice(f"[its folder was {folder}; to change to it: !cd {shlex.quote(folder)}]")


def _restore_project(session: Session, path: str | None) -> None:
    """Restore the project instructions that are those of the current folder.

    Others are only named: a session may come from a file, which must not choose what is read and sent.
    """
    found = None
    if path is not None:
        with suppress(NoSuchItem):
            found = find_instructions(session.place.folder)
        if found is None or found.path != path:
            session.screen.notice(f"[its project instructions were {path}; to send them: :project {path}]")
            return
    session.context.project = found


def _is_flag(session: Session, key: str) -> bool:
    return session.config.setting(key).origin.level is Level.FLAG


def _take_back_unanswered(session: Session) -> None:
    """Remove a last question without an answer, and show it, so that the user can ask it again."""
    window = session.context.window
    if not window:
        return
    last = list(window)[-1]
    role = window[last].role.value
    if role == "assistant" and not window[last].tool_calls:
        return
    numbers = session.context.exchange(last)
    answered = [n for n in numbers if window[n].role.value == "assistant" and not window[n].tool_calls]
    if answered:
        return
    session.context.drop(numbers)
    session.record.mark(numbers, "dropped")
    asked = next((window[n].text for n in numbers if window[n].role.value == "user"), "")
    shown = " ".join(asked.split())
    session.screen.notice(f"[your last question was not answered; ask again: {shown[-200:]}]")


def sessions(session: Session, arguments: str) -> None:
    """List the stored sessions, or delete one, which must be named in full: it cannot be brought back."""
    action, _, name = arguments.partition(" ")
    name = name.strip()
    if action == "delete" and name:
        _delete(session, name)
        return
    if arguments:
        raise BadArguments(":sessions takes no arguments, or delete NAME.")
    found = session.record.sessions()
    if not found:
        session.screen.text("no saved sessions")
        return
    rows = [
        (
            "*" if info.id == session.record.session_id else "",
            info.name,
            f"{info.updated:%Y-%m-%d %H:%M}",
            f"{info.turns:,}",
            info.model or "",
            info.project or "",
        )
        for info in found
    ]
    session.screen.table(("", "name", "last used (UTC)", "messages", "model", "project"), rows)


def _delete(session: Session, name: str) -> None:
    stored = session.record.store.sessions
    found = stored.find(name)
    if name not in {found.name, found.id}:
        raise NoSuchItem(
            f"there is no session {name!r}. To delete {found.name!r}, give its name in full.", name=name
        )
    if found.id == session.record.session_id:
        raise SessionFailed("this is the session that you are in. To leave it first: :reset")
    stored.delete(found.id)
    messages = plural(found.turns, "message")
    session.screen.notice(f"[deleted {found.name!r} with {messages}; its calls stay in tokenbox cost]")


def proof(session: Session, arguments: str) -> None:
    """Show what the last call sent and why, or write it as a bundle for ``tokenbox proof``."""
    if arguments not in {"", "write"}:
        raise BadArguments(":proof takes no arguments, or write.")
    evidence = session.last_call
    if evidence is None:
        raise NoSuchItem("no call was sent yet, so there is nothing to prove.")
    if arguments:
        root = Path(session.place.folder) if session.config.root is None else session.config.root
        signers = [read_signer(path) for path in own_paths(session.config.setting("proof.sign_with"))]
        texts = session.config.value("proof.texts") is True
        written = Bundles(bundles_of(root), texts=texts, signers=signers)(evidence)
        session.screen.notice(f"[{written.path}; tokenbox proof verify {written.id[:12]}]")
        return
    about = "" if evidence.figures["exact"] else "~"
    rows = [
        ("model", evidence.model or ""),
        (
            "sent",
            f"{plural(len(evidence.inputs), 'message')}, {about}{plural(evidence.figures['total'], 'token')}",
        ),
        ("budget", f"{evidence.arguments['budget']:,}"),
        ("limit", f"{evidence.budget.tokens.value:,} ({evidence.budget.tokens.source})"),
        ("counted by", f"{evidence.tokenizer.name} {evidence.tokenizer.fingerprint[:12]}"),
        ("SHA-256", evidence.digest or ""),
        # What was done with how many messages, and why.
        *((f"{_DONE[s['action']]} {len(s['messages'])}", str(s["why"])) for s in evidence.decisions[1:]),
    ]
    session.screen.table(("the last call", ""), rows)


def write(path: str, text: str) -> None:
    """Write a file that only its owner can read; a failure leaves one that exists as it was."""
    try:
        replace(Path(os.path.realpath(path)), text.encode(errors="replace"), new=OWN)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise SessionFailed(f"{path} cannot be written: {why}.") from None


def _is_saved(path: str) -> bool:
    try:
        found = _read(path)
    except SessionFailed:
        return False
    return isinstance(found, dict) and SAVED in found


def _read(path: str) -> object:
    try:
        with open_regular(path) as file:
            return json.loads(read_at_most(file, MAX_BYTES))
    except OSError as error:
        raise SessionFailed(f"{path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError):
        raise SessionFailed(f"{path} is not a saved session: it is not JSON.") from None
