"""``tokenbox shell``: a conversation with a model, and the commands around it."""

from __future__ import annotations

import os
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tokenbox.cli.outcome import Exit, reporting
from tokenbox.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenbox.config import Config
    from tokenbox.shell.build import Environment
    from tokenbox.shell.session import Session

MODEL = typer.Option("--model", "-m", metavar="NAME", help="A NAME of [models.NAME], or an id at --endpoint.")
ENDPOINT = typer.Option("--endpoint", metavar="URL", help="A server, whatever the settings have.")
BUDGET = typer.Option("--budget", "-b", metavar="TOKENS", min=0, help="The token budget.")
SYSTEM = typer.Option("--system", metavar="TEXT", help="The system prompt.")


def shell(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The name of the session.")] = None,
    model: Annotated[str | None, MODEL] = None,
    endpoint: Annotated[str | None, ENDPOINT] = None,
    budget: Annotated[int | None, BUDGET] = None,
    system: Annotated[str | None, SYSTEM] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the session NAME, or with the one used last.")
    ] = False,
    no_save: Annotated[bool, typer.Option("--no-save", help="Keep nothing of the session.")] = False,
) -> int:
    """Talk to a model, with commands beside it.

    You see what the model is told and what that costs. Plain text talks to it; !COMMAND runs a command and
    offers its output to the context; COMMAND |> QUESTION asks about it; :help lists the commands of the shell
    itself. In a pipe it reads lines and writes plain text, and the exit status is 2 if a line failed.

    Example: tokenbox shell --endpoint http://127.0.0.1:8080
    """
    with reporting():
        from tokenbox.cli import screens  # on use: it is the heaviest command
        from tokenbox.shell.build import ShellOptions, begin

        on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        screen = screens.TerminalScreen() if on_terminal else screens.PipeScreen()
        config = configured(model, budget, system)
        session = begin(screen, config, world(keep=not no_save), ShellOptions(endpoint, name, resume))
        try:
            (_talk if on_terminal else _read)(session)
        finally:
            session.close()
    return Exit.OK if on_terminal else screen.status


def configured(model: str | None, budget: int | None, system: str | None) -> Config:
    """The settings, with those of the command line. Raises ``ConfigError``."""
    from tokenbox.config import load

    flags = {"model": model, "shell.token_budget": budget, "shell.system": system}
    return load(Path.cwd(), os.environ, flags)


def world(*, keep: bool) -> Environment:
    """This process: its folder, environment, clock, and the places of the user's data."""
    import platformdirs

    from tokenbox.shell.build import Environment

    def open_store():  # type: ignore[no-untyped-def]  # noqa: ANN202  # its type takes half a second
        from tokenbox.store.stores import open_store as opened

        return opened()

    return Environment(
        _folder(),
        dict(os.environ),
        lambda: datetime.now(UTC),
        lambda: uuid.uuid4().hex,
        platformdirs.user_data_path("tokenbox", appauthor=False) / "memory.txt",
        open_store if keep else None,
    )


def _folder() -> str:
    """The folder as the user sees it, links and all, as shells have it in PWD."""
    said = os.environ.get("PWD", "")
    try:
        return said if said and Path(said).samefile(".") else str(Path.cwd())
    except OSError:
        return str(Path.cwd())


def _talk(session: Session) -> None:
    """On a terminal, with a line editor."""
    import platformdirs

    try:
        from tokenbox.shell.editor import Editor  # on use: it needs an extra
    except ImportError:
        raise MissingExtra.of("the shell on a terminal", "shell") from None

    from tokenbox.shell.commands import completions  # on use
    from tokenbox.shell.loop import take  # on use

    history = platformdirs.user_state_path("tokenbox", appauthor=False) / "shell_history"
    editor = Editor(
        history,
        lambda words: completions(session, words),
        lambda: session.place.folder,
        session.models.keys.hidden_in,
    )
    session.screen.notice(_greeting(session))
    while not session.ended:
        try:
            begun, session.typed = first_line(session.typed)
            if session.begun:
                begun, session.begun = session.begun.rstrip("\r\n"), ""
            take(session, editor.read(session.prompt(), begun))
        except EOFError:
            break
        except KeyboardInterrupt:
            continue
    if session.record.name is not None and session.record.stored is not None:
        session.screen.notice(f"[kept as {session.record.name!r}; go on with: tokenbox shell --resume]")


def first_line(text: str) -> tuple[str, str]:
    """The first line of ``text`` with its end, and the rest."""
    line = (text.splitlines(keepends=True) or [""])[0]
    return line, text[len(line) :]


def _greeting(session: Session) -> str:
    from tokenbox.__about__ import __version__

    target = session.models.target
    talks = f"{session.models.label} at {target.endpoint}" if target.endpoint else "no model to talk to yet"
    return f"tokenbox {__version__}: {talks}. :help for help, Ctrl-D to leave."


def _read(session: Session) -> None:
    """In a pipe: line after line; one that ends with a backslash goes on in the next."""
    from tokenbox.shell.loop import take  # on use

    for line in _lines():
        take(session, line)
        if session.ended:
            return


def _lines() -> Iterator[str]:
    whole: list[str] = []
    for data in sys.stdin.buffer:
        line = data.decode("utf-8", "replace").rstrip("\r\n")
        whole.append(line.removesuffix("\\"))
        if not line.endswith("\\"):
            yield "\n".join(whole)
            whole = []
    if whole:
        yield "\n".join(whole)
