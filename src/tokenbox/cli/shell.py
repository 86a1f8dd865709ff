"""``tokenbox shell``: an interactive conversation with a model; ``tokenbox ask``: one question."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

import tokenbox
from tokenbox.__about__ import __version__
from tokenbox.cli import clock, screens
from tokenbox.cli.options import AS_JSON, argument, flag, option
from tokenbox.cli.outcome import Exit, UsageProblem
from tokenbox.cli.streams import STDIN, abandon, read_bytes, same_file, standard_input, write_record
from tokenbox.config import Config
from tokenbox.errors import needing

if TYPE_CHECKING:
    from tokenbox.shell.build import Environment
    from tokenbox.shell.session import Session
    from tokenbox.store.stores import Store

MODEL = option("--model -m NAME", "A NAME of [models.NAME], or a model id.")
ENDPOINT = option("--endpoint URL", "The server; overrides the settings.")
BUDGET = option("--budget -b TOKENS", "The token budget.", min=0)
SYSTEM = option("--system TEXT", "The system prompt.")


def shell(
    name: str | None = argument("NAME", "The name of the session.", None),
    model: str | None = MODEL,
    endpoint: str | None = ENDPOINT,
    budget: int | None = BUDGET,
    system: str | None = SYSTEM,
    resume: bool = flag("--resume", "Continue the session NAME, or the last one."),
    no_save: bool = flag("--no-save", "Do not store the session."),
) -> int:
    """Chat with a model, and see what it receives and what that costs.

    Plain text is a message. !COMMAND runs a command and offers its output to the context. COMMAND |> QUESTION
    asks about its output. :help lists the commands of the shell. In a pipe, it reads lines and writes plain
    text, and the exit status is that of the last error.

    Example: tokenbox shell --endpoint http://127.0.0.1:8080
    """
    from tokenbox.shell.build import ShellOptions, begin

    on_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    screen = screens.TerminalScreen() if on_terminal else screens.PipeScreen()
    config = configured(model, budget, system)
    around = environment(config, keep=not no_save)
    with (
        closing(begin(screen, config, around, ShellOptions(endpoint, name, resume))) as session,
        _ended_by_signals(session),
    ):
        (_talk if on_terminal else _read)(session)
    return Exit.OK if on_terminal else screen.status


@contextmanager
def _ended_by_signals(session: Session) -> Iterator[None]:
    """Let SIGTERM and a closed terminal end the shell like Ctrl-C and Ctrl-D, so that no answer is lost."""
    from tokenbox.shell.running import Hangup

    received = 0

    def end(number: int, _: object) -> None:
        nonlocal received
        received, session.ended = number, True
        signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
        if number != signal.SIGTERM and session.screen.keyboard is not None:
            for stream in (sys.stdout, sys.stderr):
                abandon(stream)  # the terminal is gone
        raise Hangup

    numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]  # by nohup
    before = {number: signal.signal(number, end) for number in heeded}
    try:
        with suppress(Hangup):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        session.close()
        signal.signal(received, signal.SIG_DFL)
        os.kill(os.getpid(), received)  # so that the parent process sees how it ended


def ask(
    question: list[str] = argument("QUESTION...", "The question."),
    model: str | None = MODEL,
    endpoint: str | None = ENDPOINT,
    budget: int | None = BUDGET,
    system: str | None = SYSTEM,
    as_json: bool = AS_JSON,
) -> int:
    """Ask a model one question.

    Standard input becomes the context of the question, cut to the token budget: of a text that is too long,
    the beginning and the end are kept, and a note tells the model and you that the middle was left out.

    Example: git diff | tokenbox ask "Is there a bug in this?"
    """
    from tokenbox.shell.asking import ask as ask_model
    from tokenbox.shell.build import ShellOptions, begin

    text = " ".join(question).strip()
    if not text:
        raise UsageProblem("the question is empty.")
    piped = b"" if sys.stdin is None or sys.stdin.isatty() else read_bytes(STDIN)
    screen = screens.QuietScreen() if as_json else screens.PipeScreen()
    config = configured(model, budget, system)
    options = ShellOptions(endpoint, must_answer=True)
    with closing(begin(screen, config, environment(config, keep=True), options)) as session:
        result = ask_model(session, text, piped)
    if as_json:
        write_record("answer", result.to_dict())
    return Exit.INTERRUPTED if result.stopped else Exit.OK


def configured(model: str | None, budget: int | None, system: str | None) -> Config:
    """Load the settings, overridden by the options. Raises ``ConfigError``."""
    flags = {"model": model, "shell.token_budget": budget, "shell.system": system}
    return tokenbox.config.load(Path.cwd(), os.environ, flags)


def environment(config: Config, *, keep: bool) -> Environment:
    """Return the environment of a session: folder, variables, clock, ids, and the files of the user."""
    from tokenbox.shell.build import Environment

    def open_configured_store() -> Store:
        from tokenbox.store.stores import open_store

        return open_store(config.value("store.database"))

    return Environment(
        _folder(),
        dict(os.environ),
        clock.now,
        lambda: uuid.uuid4().hex,
        platformdirs.user_data_path("tokenbox", appauthor=False) / "memory.txt",
        open_configured_store if keep else None,
    )


def _folder() -> str:
    """Return the current folder with its symbolic links, as in PWD."""
    folder = os.environ.get("PWD", "")
    return folder if folder and same_file(folder, ".") else str(Path.cwd())


def _talk(session: Session) -> None:
    with needing("the shell on a terminal", "shell"):
        from tokenbox.shell.editor import Editor
    from tokenbox.shell.commands import completions
    from tokenbox.shell.loop import take

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
    if session.record.stored is not None:
        session.screen.notice(f"[saved as {session.record.name!r}; continue with: tokenbox shell --resume]")


def first_line(text: str) -> tuple[str, str]:
    """Split ``text`` after its first line."""
    line = (text.splitlines(keepends=True) or [""])[0]
    return line, text[len(line) :]


def _greeting(session: Session) -> str:
    target = session.models.target
    model = f"{session.models.label} at {target.endpoint}" if target.endpoint else "no model yet"
    return f"tokenbox {__version__}: {model}. :help for help, Ctrl-D to leave."


def _read(session: Session) -> None:
    """Run the lines of a pipe; a line that ends with a backslash continues in the next."""
    from tokenbox.shell.loop import take

    for line in _lines():
        take(session, line)
        if session.ended:
            return


def _lines() -> Iterator[str]:
    whole: list[str] = []
    for data in standard_input():
        line = data.decode("utf-8", "replace").rstrip("\r\n")
        whole.append(line.removesuffix("\\"))
        if not line.endswith("\\"):
            yield "\n".join(whole)
            whole = []
    if whole:
        yield "\n".join(whole)
