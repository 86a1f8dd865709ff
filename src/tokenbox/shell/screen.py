"""Where a session writes. It knows what it says, never how that looks."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.errors import TokenboxError
    from tokenbox.render.lines import Line
    from tokenbox.shell.running import Keyboard


class Approval(Enum):
    """What a person says to a thing that the model wants done."""

    NO = "no"
    ONCE = "once"
    ALWAYS = "always"  # for this thing, in this session


class Screen(Protocol):
    """A terminal, a pipe, or a test that remembers."""

    def lines(self, lines: Sequence[Line]) -> None:
        """The result of a meta command."""

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A result in columns."""

    def text(self, text: str) -> None:
        """A result as it is, such as JSON."""

    def notice(self, text: str) -> None:
        """What happened beside what was asked for, in one line."""

    def problem(self, error: TokenboxError) -> None: ...

    def command_output(self, data: bytes) -> None:
        """What a running command writes."""

    def answer(self, text: str) -> None:
        """A piece of the model's answer."""

    def reasoning(self, text: str) -> None:
        """A piece of what the model says to itself."""

    def answer_ends(self) -> None: ...

    def waiting(self, what: str) -> None:
        """The model was asked and has not said anything yet."""

    def approves(self, what: str, question: str, *, always: bool = True) -> Approval:
        """Ask the person. Where there is nobody to ask, it is no."""

    @property
    def keyboard(self) -> Keyboard | None:
        """The terminal that commands are run on behalf of."""
