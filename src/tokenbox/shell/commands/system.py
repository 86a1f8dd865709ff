"""Commands on the rest of a request: project instructions, notes and tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.errors import plural
from tokenbox.integers import digits
from tokenbox.shell import memory as texts
from tokenbox.shell.errors import BadArguments, NoSuchItem
from tokenbox.shell.screen import in_tokens

if TYPE_CHECKING:
    from tokenbox.shell.session import Session


def project(session: Session, arguments: str) -> None:
    """Add the project's instructions to the system prompt, show them, or remove them."""
    context = session.context
    if arguments == "off":
        context.project = None
    elif arguments == "on" or (not arguments and context.project is None):
        found = texts.find_instructions(session.place.folder)
        if found is None:
            raise NoSuchItem(
                f"no {', '.join(texts.NAMES)} was found in {session.place.folder} or its parents, up to the "
                "root of its repository. To use another file: :project FILE"
            )
        context.project = found
    elif arguments:
        context.project = texts.read_instructions(session.place.path(arguments))
    session.record.settings_changed()
    if context.project is None:
        session.screen.text("no project instructions in the system prompt")
        return
    size = session.models.count_text(context.project.text)
    session.screen.text(f"{context.project.path}: {in_tokens(size)} in the system prompt; :project off")


def memory(session: Session, arguments: str) -> None:
    action, _, rest = arguments.partition(" ")
    if action == "add" and rest.strip():
        note = session.models.keys.hidden_in(rest.strip())
        session.memory.add(note)
        session.screen.notice(f"[noted for every session: {in_tokens(session.models.count_text(note))}]")
    elif action == "drop" and (number := digits(rest.strip())) is not None:
        session.screen.notice(f"[forgotten: {session.memory.drop(number)}]")
    elif arguments:
        raise BadArguments(":memory takes no arguments, add TEXT, or drop NUMBER.")
    elif not session.memory.notes:
        session.screen.text("no notes; :memory add TEXT adds one for every session")
    else:
        rows = [
            (str(number), str(session.models.count_text(note)), note)
            for number, note in enumerate(session.memory.notes, 1)
        ]
        session.screen.table(("#", "tokens", "note"), rows)


def tools(session: Session, arguments: str) -> None:
    """Let the model propose commands. You approve each, except those in your own shell.allow."""
    if arguments not in {"", "on", "off"}:
        raise BadArguments(":tools takes no arguments, on or off.")
    if arguments:
        session.proposals_on = arguments == "on"
        session.record.settings_changed()
    allowed = ", ".join(session.settings.allow) or "none"
    if session.proposals_on:
        session.screen.text(f"the model may propose commands; you approve each. Always allowed: {allowed}")
    else:
        session.screen.text("the model cannot propose commands; :tools on allows it")


def mcp(session: Session, arguments: str) -> None:
    """Connect or disconnect tool servers, and show the tokens that their tools add to every request."""
    action, _, rest = arguments.partition(" ")
    name, _, where = rest.strip().partition(" ")
    if action == "connect" and name and where.strip():
        variables = session.models.keys.without(session.place.variables)
        session.mcp.connect(name, where.strip(), variables, session.place.folder)
        _show(session, name)
    elif action == "disconnect" and name and not where:
        session.mcp.disconnect(name)
        session.screen.notice(f"[{name} is disconnected; its tools are no longer sent]")
    elif action in {"", "list"} and not rest:
        if not session.mcp.servers:
            session.screen.text("no tool servers; :mcp connect NAME COMMAND or URL connects one")
        for server in session.mcp.servers:
            _show(session, server)
    else:
        raise BadArguments(":mcp takes connect NAME COMMAND-or-URL, disconnect NAME, or list.")


def _show(session: Session, server: str) -> None:
    """Show a server, its tools, and the tokens that they add to a request."""
    tools = session.mcp.servers[server]
    messages, count = session.context.messages(offered=True), session.models.count_request
    others = [tool for tool in session.tools() if tool not in [mine.schema for mine in tools]]
    whole, without = count(messages, session.tools()), count(messages, others)
    about = "" if whole.exact and without.exact else "~"
    session.screen.text(
        f"{server}: {plural(len(tools), 'tool')}, {about}{plural(whole.value - without.value, 'token')} "
        f"in every request ({session.mcp.where(server)})"
    )
    session.screen.table(
        ("tool", "what it does"),
        [(tool.name, str(tool.schema["function"].get("description", ""))[:200]) for tool in tools],
    )
