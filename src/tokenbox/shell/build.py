"""A session put together, from settings and from what was asked for on the command line."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.conversation import Conversation
from tokenbox.providers.blocking import BlockingProvider
from tokenbox.providers.errors import ProviderError
from tokenbox.shell import turn
from tokenbox.shell.commands.sessions import go_on_with
from tokenbox.shell.context import Context
from tokenbox.shell.errors import SessionFailed
from tokenbox.shell.mcp_tools import McpTools
from tokenbox.shell.memory import Memory, find_instructions
from tokenbox.shell.models import CurrentCounter, Models
from tokenbox.shell.record import SessionRecord
from tokenbox.shell.running import WorkingPlace
from tokenbox.shell.session import Session
from tokenbox.shell.settings import PromptTemplate, ShellSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from pathlib import Path

    from tokenbox.config import Config
    from tokenbox.shell.screen import Screen
    from tokenbox.store.stores import Store


# A model of a server that could not be asked what it has. Servers of one model take any name.
NAMELESS = "default"


@dataclass(frozen=True, slots=True)
class Environment:
    """What a session takes from outside. ``open_store`` None: nothing is kept."""

    folder: str
    variables: Mapping[str, str]
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    memory: Path
    open_store: Callable[[], Store] | None = None
    wait: Callable[[float], object] = time.sleep


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """What was asked for beside the settings."""

    endpoint: str | None = None
    name: str | None = None
    resume: bool = False
    must_answer: bool = False  # a server that cannot be asked now ends it


def begin(
    screen: Screen, config: Config, world: Environment, options: ShellOptions = ShellOptions()
) -> Session:
    """A session that is ready for its first line. Raises ``TokenboxError``."""
    settings = ShellSettings.of(config)
    models = Models(config, world.variables, BlockingProvider, options.endpoint)
    try:
        models.use_first()
    except ProviderError as error:
        if options.must_answer:
            raise
        screen.problem(error)
        models.use(NAMELESS)
    conversation = Conversation(
        count=CurrentCounter(models),
        max_turns=settings.max_turns,
        token_budget=settings.token_budget,
        low_water=settings.low_water,
    )
    memory, mcp = Memory(world.memory), McpTools()
    # The session is made of these, and they ask it later.
    context = Context(
        conversation,
        models,
        settings.system,
        lambda: session.tools(),  # noqa: PLW0108
        lambda: memory.notes,
    )
    record = SessionRecord(
        world.open_store,
        world.now,
        world.new_id,
        models.keys.hidden_in,
        screen.notice,
        lambda: models.name or None,
        lambda: session.settings_to_keep(),  # noqa: PLW0108
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
        WorkingPlace(world.folder, dict(world.variables)),
        memory,
        mcp,
        PromptTemplate(settings.prompt),
        world.new_id,
        settings.token_budget,
        world.wait,
        proposals_on=settings.tools,
    )
    if settings.summarize:
        conversation.summarize = turn.summarize_evicted(session)
    if settings.project:
        context.project = find_instructions(world.folder)
    for problem in settings.problems:
        screen.notice(problem)
    if options.resume:
        resume(session, options.name)
    elif options.name is not None and record.kept:
        check_name(session, options.name)
    return session


def check_name(session: Session, name: str) -> None:
    """Raises ``SessionError`` if no new session can have this name: better now than after a question."""
    from tokenbox.store.sessions import verify_name  # noqa: PLC0415  # the store is imported when it is used

    verify_name(name)
    if any(info.name == name for info in session.record.sessions()):
        raise SessionFailed(
            f"there is a session {name!r} already. To go on with it: tokenbox shell --resume {name}",
            name=name,
        )


def resume(session: Session, name: str | None) -> None:
    """Go on with the session of that name, or with the one that was used last."""
    sessions = session.record.store.sessions
    if name is None:
        found = sessions.list(session.record.project) or sessions.list()
        if not found:
            session.screen.notice("[there is no session to go on with; this is a new one]")
            return
        name = found[0].id
    go_on_with(session, sessions.open(name))
