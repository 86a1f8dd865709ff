"""The state of one render of a template: its limits and what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from tokenbox.conversation.llama.syntax import TemplateError, TemplateTooLarge

if TYPE_CHECKING:
    import datetime as dt

    from tokenbox.conversation.llama.track import Track

Scope = dict[str, Any]
Expression = Callable[["Run", Scope], Any]
Statement = Callable[["Run", Scope, list[Any]], None]

# A step takes about a microsecond: an operation, an item, or as many characters, which are made or read.
CHARACTERS_A_STEP: Final = 32
MAX_STEPS: Final = 10_000_000
# For each of the sixteen small renders by which a template is opened: together a second.
OPENING_STEPS: Final = 100_000
TURN_STEPS: Final = 4  # a turn of a loop
SHORT: Final = 1_000  # characters of a text that is read in no time
MAX_CALLS: Final = 200  # nested macro calls
MISSING: Final = object()


class ValueUsage:
    """The values of a request that a render used, and how. Only used to detect capabilities."""

    def __init__(self) -> None:
        self.used: set[int] = set()
        self.operations: set[tuple[int, str]] = set()


class Run:
    """One render: its limits and its record.

    ``uncertain``: True after an operation whose result is not proven to equal llama.cpp's. ``dated``: the
    formats in which the date was printed.
    """

    __slots__ = ("_calls", "_limit", "_steps", "dated", "now", "track", "uncertain", "usage")

    def __init__(
        self, now: dt.datetime | None = None, usage: ValueUsage | None = None, *, limit: int | None = None
    ) -> None:
        self.now = now
        self.usage = usage
        self.track: Track | None = None
        self.uncertain = False
        self.dated: set[str] = set()
        self._limit = MAX_STEPS if limit is None else limit
        self._steps = self._calls = 0

    # The work. Everything whose time or memory grows with its values is counted here, before it is done.

    def steps(self, number: int = 1) -> None:
        self._steps += number
        if self._steps > self._limit:
            raise TemplateTooLarge(
                f"the chat template took more than {self._limit:,} steps; an operation, an item, or "
                f"{CHARACTERS_A_STEP} characters made or read are one. Use a template that does less."
            )

    def spent(self) -> tuple[int, ...]:
        """Return what this render has added so far to each number that has a limit."""
        return (self._steps,)

    def spend(self, numbers: Sequence[int]) -> None:
        """Add what turns have spent that are not executed again: the whole template would spend it."""
        self.steps(*numbers)

    def grow(self, characters: int) -> None:
        """Count characters that are about to be made."""
        self.steps(characters // CHARACTERS_A_STEP)

    def reads(self, *values: Any) -> None:
        """Count the characters of texts, and the items of lists and objects without what is in them."""
        self.steps(sum(map(steps_of, values)))

    def reads_texts(self, values: Iterable[Any]) -> None:
        """Count the characters of long texts; short ones take no time."""
        for value in values:
            if isinstance(value, str) and len(value) > SHORT:
                self.reads(value)

    def reads_deeply(self, value: Any) -> None:
        """Count everything in a value, which may have another any number of times."""
        waiting = [value]
        while waiting:
            inner = waiting.pop()
            self.steps(1 + steps_of(inner))
            if isinstance(inner, list | tuple):
                waiting += inner
            elif isinstance(inner, dict):
                waiting += [*inner, *inner.values()]

    def enter(self) -> None:
        self._calls += 1
        if self._calls > MAX_CALLS:
            raise TemplateError("the chat template calls itself too deeply.")

    def leave(self) -> None:
        self._calls -= 1

    def date(self, form: str) -> str:
        if self.now is None:
            raise TemplateError("the chat template prints the date. Give `now`, the time of the request.")
        self.dated.add(form)
        if self.track is not None:
            self.track.forget()
        return self.now.strftime(form)

    def changes(self, value: object) -> None:
        """Note that a list or an object is about to change."""
        if self.track is not None:
            self.track.changes(value)

    # Only for the detection of capabilities.

    def used(self, value: object, operation: str = "") -> None:
        if self.usage is not None:
            self.usage.used.add(id(value))
            if operation:
                self.usage.operations.add((id(value), operation))

    def used_deeply(self, value: Any) -> None:
        if self.usage is None:
            return
        seen: set[int] = set()
        stack = [value]
        while stack:  # a value may be in it any number of times
            inner = stack.pop()
            if id(inner) in seen:
                continue
            seen.add(id(inner))
            if isinstance(inner, list | tuple):
                stack += inner
            elif isinstance(inner, dict):
                stack += inner.values()
        self.usage.used |= seen


def steps_of(value: Any) -> int:
    """Return the steps to read a value. The size of a tracked one is not noted as read by the template."""
    if isinstance(value, str):
        return len(value) // CHARACTERS_A_STEP
    if isinstance(value, list):
        return len(getattr(value, "plain", value))  # tracked messages hold nothing themselves
    if isinstance(value, dict):
        return dict.__len__(value)
    return len(value) if isinstance(value, tuple) else 0


class BreakLoop(Exception):  # control flow
    """``{% break %}``."""


class ContinueLoop(Exception):  # control flow
    """``{% continue %}``."""
