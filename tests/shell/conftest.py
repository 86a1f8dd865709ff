"""Sessions of the shell without a terminal, with a screen that records the output."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import pytest

from tokenbox.config import load
from tokenbox.providers.memory import SESSION
from tokenbox.render.lines import UNICODE, Charset, plain
from tokenbox.shell.build import Environment, ShellOptions, begin
from tokenbox.shell.screen import Approval
from tokenbox.store.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tokenbox.errors import TokenboxError
    from tokenbox.render.lines import Line
    from tokenbox.shell.session import Session

START = datetime(2026, 11, 21, 12, tzinfo=UTC)


@dataclass
class RecordingScreen:
    """A screen that records. After ``interrupt_after`` pieces of an answer, it simulates Ctrl-C."""

    results: list[str] = field(default_factory=list)
    tables: list[list[list[str]]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    problems: list[TokenboxError] = field(default_factory=list)
    output: bytearray = field(default_factory=bytearray)
    pieces: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    approvals: list[Approval] = field(default_factory=list)  # in order; then NO
    choices: list[str] = field(default_factory=list)  # in order; then None
    interrupt_waiting: bool = False
    interrupt_after: int | None = None
    keyboard: None = None
    width: int = 80
    charset: Charset = UNICODE
    waits: list[float] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)

    def lines(self, lines: Sequence[Line]) -> None:
        self.results.append(plain(lines))

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.tables.append([list(heads), *map(list, rows)])

    def text(self, text: str) -> None:
        self.results.append(text)

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def problem(self, error: TokenboxError) -> None:
        self.problems.append(error)

    def command_output(self, data: bytes) -> None:
        self.output += data

    def answer(self, text: str) -> None:
        self.pieces.append(text)
        if self.interrupt_after is not None and len(self.pieces) >= self.interrupt_after:
            self.interrupt_after = None
            raise KeyboardInterrupt

    def reasoning(self, text: str) -> None: ...

    def answer_ends(self) -> None: ...

    def waiting(self, what: str) -> None:
        if self.interrupt_waiting:
            raise KeyboardInterrupt

    def approves(self, what: str, question: str, *, always: bool = True) -> Approval:
        self.asked.append(f"{what} {question}")
        return self.approvals.pop(0) if self.approvals else Approval.NO

    def choose(self, problem: str, choices: Mapping[str, str]) -> str | None:
        self.asked.append("\n".join([problem, *(f"{key}  {choice}" for key, choice in choices.items())]))
        return self.choices.pop(0) if self.choices else None

    def copy(self, text: str) -> bool:
        self.copied.append(text)
        return True

    @property
    def everything(self) -> str:
        """All recorded output."""
        errors = [f"{error.message} {error.details}" for error in self.problems]
        return "\n".join(
            [*self.results, str(self.tables), *self.notices, *errors, *self.pieces, self.output.decode()]
        )


class Begin(Protocol):
    def __call__(
        self,
        endpoint: str | None = None,
        settings: str = "",
        *,
        flags: Mapping[str, object] | None = None,
        variables: Mapping[str, str] | None = None,
        name: str | None = None,
        resume: bool = False,
        keep: bool = True,
    ) -> tuple[Session, RecordingScreen]: ...


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Begin]:
    """Start sessions in an empty folder, with their store and settings in ``tmp_path``.

    ``settings`` is the text of the user's file. The tests' model never stops, so answers are limited to 12
    tokens by default.
    """
    begun: list[Session] = []
    folder = tmp_path / "folder"
    folder.mkdir()
    SESSION.forget()  # the capabilities of endpoints, known per session
    ids = itertools.count()
    moments = itertools.count()

    def begin_session(
        endpoint: str | None = None,
        settings: str = "",
        *,
        flags: Mapping[str, object] | None = None,
        variables: Mapping[str, str] | None = None,
        name: str | None = None,
        resume: bool = False,
        keep: bool = True,
    ) -> tuple[Session, RecordingScreen]:
        user_file = tmp_path / "user.toml"
        user_file.write_text(settings)
        env = {"PATH": "/usr/bin:/bin", "TOKENBOX_USER_CONFIG": str(user_file), **(variables or {})}
        config = load(folder, env, {"policy.reserve_out": 12, **(flags or {})})
        opened: Callable[[], object] | None = (
            (lambda: open_store(tmp_path / "data" / "tokenbox.db")) if keep else None
        )
        environment = Environment(
            str(folder),
            env,
            lambda: START + timedelta(seconds=next(moments)),
            lambda: f"id{next(ids):04}",
            tmp_path / "data" / "memory.txt",
            opened,  # type: ignore[arg-type]
            lambda seconds: screen.waits.append(seconds),  # noqa: PLW0108  # defined below
        )
        screen = RecordingScreen()
        session = begin(screen, config, environment, ShellOptions(endpoint, name, resume))
        begun.append(session)
        return session, screen

    yield begin_session
    for session in begun:
        session.close()
