"""Where a session writes. It knows what it says, never how that looks."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from tokenbox.ledger.money import dollars

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.errors import TokenboxError
    from tokenbox.ledger import Totals
    from tokenbox.providers.counting import TokenCount
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

    def copy(self, text: str) -> bool:
        """Put a text into the person's clipboard: whether there is one."""

    @property
    def width(self) -> int:
        """Columns that a picture may take."""

    @property
    def keyboard(self) -> Keyboard | None:
        """The terminal that commands are run on behalf of."""


def figure(count: TokenCount) -> str:
    """``412``, or ``~412`` for an estimate."""
    return f"{'' if count.exact else '~'}{count.value:,}"


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(part: int, whole: int) -> str:
    """In whole percent, rounded half up; nothing has no part."""
    return "-" if whole == 0 else f"{(200 * part + whole) // (2 * whole)}%"


def cost_text(totals: Totals) -> str:
    """What calls cost, as far as is known: ``$0.0123``, ``~$0.0123``, ``$0.0123 + ?``, ``unpriced``."""
    known, unknown = totals.cost.known, totals.cost.unknown
    if not totals.calls:
        return "$0"
    if unknown == totals.calls:
        return "unpriced" if totals.unpriced == totals.calls else "$?"
    about = "~" if totals.cost.estimated else ""
    return f"{about}{dollars(known)}{' + ?' if unknown else ''}"
