"""The interface through which a session writes, and the formats of its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from tokenbox.errors import plural

if TYPE_CHECKING:
    from tokenbox.errors import TokenboxError
    from tokenbox.providers.counting import TokenCount
    from tokenbox.render.lines import Charset, Line


class Approval(Enum):
    """The user's answer to an action that the model wants."""

    NO = "no"
    ONCE = "once"
    ALWAYS = "always"  # for this action, in this session


class Screen(Protocol):
    """A terminal, a pipe, or a test double."""

    def lines(self, lines: Sequence[Line]) -> None:
        """Show the result of a ``:`` command."""

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Show a result in columns."""

    def text(self, text: str) -> None:
        """Show a result unchanged, such as JSON."""

    def notice(self, text: str) -> None:
        """Show one line about a side effect."""

    def problem(self, error: TokenboxError) -> None: ...

    def command_output(self, data: bytes) -> None:
        """Show output of a running command."""

    def answer(self, text: str) -> None:
        """Show a piece of the model's answer."""

    def reasoning(self, text: str) -> None:
        """Show a piece of the model's reasoning."""

    def answer_ends(self) -> None: ...

    def waiting(self, what: str) -> None:
        """Show that the model has not answered yet."""

    def approves(self, what: str, question: str, *, always: bool = True) -> Approval:
        """Ask the user. The answer is no if nobody can be asked."""

    def choose(self, problem: str, choices: Mapping[str, str]) -> str | None:
        """Ask the user for one of the ``choices``, by their keys. None if nobody chooses."""

    def copy(self, text: str) -> bool:
        """Copy a text to the user's clipboard. Return False without a clipboard."""

    @property
    def width(self) -> int:
        """The number of columns for a picture."""

    @property
    def charset(self) -> Charset:
        """The characters for a picture."""

    @property
    def keyboard(self) -> int | None:
        """The descriptor of the user's terminal, which commands may use."""


def in_tokens(count: TokenCount) -> str:
    """Return ``412 tokens``, ``1 token``, or ``~412 tokens`` for an estimate."""
    return f"{'' if count.exact else '~'}{plural(count.value, 'token')}"


def percent(part: int, whole: int) -> str:
    """Return whole percent, rounded half up; ``<1%`` for a little, and ``-`` if the whole is 0."""
    if whole == 0:
        return "-"
    rounded = (200 * part + whole) // (2 * whole)
    return f"{rounded}%" if rounded or part <= 0 else "<1%"
