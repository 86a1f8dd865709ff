"""Builds a session from the settings and the command line."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.conversation import Conversation
from tokenbox.providers.errors import ProviderError
from tokenbox.shell.commands.sessions import continue_session
from tokenbox.shell.context import Context
from tokenbox.shell.errors import NoSuchItem, SessionFailed
from tokenbox.shell.mcp_tools import McpTools
from tokenbox.shell.memory import Memory, find_instructions
from tokenbox.shell.models import CurrentCounter, Models
from tokenbox.shell.record import SessionRecord
from tokenbox.shell.room import summarizer
from tokenbox.shell.running import WorkingPlace
from tokenbox.shell.session import Session
from tokenbox.shell.settings import PromptTemplate, ShellSettings
from tokenbox.store.sessions import verify_name

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from tokenbox.config import Config
    from tokenbox.shell.screen import Screen
    from tokenbox.store.stores import Store


DEFAULT_MODEL = "default"
"""The model name if the server cannot list its models. A server of one model accepts any name."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The process around a session. ``memory``: the file of notes. ``open_store``: None stores nothing."""

    folder: str
    variables: Mapping[str, str]
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    memory: Path
    open_store: Callable[[], Store] | None = None
    wait: Callable[[float], object] = time.sleep


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """The options of the command line that are not settings.

    ``must_answer``: a server that cannot be reached is an error, not a problem to report.
    """

    endpoint: str | None = None
    name: str | None = None
    resume: bool = False
    must_answer: bool = False


def begin(
    screen: Screen, config: Config, environment: Environment, options: ShellOptions = ShellOptions()
) -> Session:
    """Return a session that is ready for its first line. Raises ``TokenboxError``."""
    settings = ShellSettings.of(config)
    models = Models(config, environment.variables, options.endpoint)
    try:
        models.use_first()
    except ProviderError as error:
        if options.must_answer:
            raise
        screen.problem(error)
        models.use(DEFAULT_MODEL)
    conversation = Conversation(
        count=CurrentCounter(models),
        max_turns=settings.max_turns,
        token_budget=settings.token_budget,
        low_water=settings.low_water,
    )
    memory, mcp = Memory(environment.memory), McpTools()
    # The context and the record need the session later, which needs them now: hence the functions.
    context = Context(
        conversation,
        models,
        settings.system,
        lambda: session.tools(),  # noqa: PLW0108  # made below
        lambda: memory.notes,
    )
    record = SessionRecord(
        environment.open_store,
        environment.now,
        environment.new_id,
        screen.notice,
        lambda: models.name or None,
        lambda: session.settings_to_keep(),  # noqa: PLW0108  # made below
        project=None if config.root is None else str(config.root),
        name=None if options.resume else options.name,
    )
    session = Session(
        screen,
        config,
        settings,
        models,
        context,
        record,
        WorkingPlace(environment.folder, dict(environment.variables)),
        memory,
        mcp,
        PromptTemplate(settings.prompt, config.source("shell.prompt")),
        environment.new_id,
        settings.token_budget,
        environment.wait,
        proposals_on=settings.tools,
    )
    if settings.summarize:
        conversation.summarize = summarizer(session)
    if settings.project:
        try:
            context.project = find_instructions(environment.folder)
        except NoSuchItem as error:
            screen.problem(error)
    for problem in settings.problems:
        screen.notice(problem)
    try:
        if options.resume:
            resume(session, options.name)
        elif options.name is not None and record.kept:
            check_name(session, options.name)
    except BaseException:
        session.close()
        raise
    return session


def check_name(session: Session, name: str) -> None:
    """Raise ``SessionError`` if no new session can have this name: now, and not after a question."""
    verify_name(name)
    if any(info.name == name for info in session.record.sessions()):
        raise SessionFailed(
            f"a session {name!r} exists already. To continue it: tokenbox shell --resume {name}",
            name=name,
        )


def resume(session: Session, name: str | None) -> None:
    """Continue the session of that name, or the one that was used last."""
    sessions = session.record.store.sessions
    if name is None:
        found = sessions.list(session.record.project)
        if not found:
            session.screen.notice("[there is no session of this project to continue; this is a new one]")
            return
        name = found[0].id
    continue_session(session, sessions.open(name))
