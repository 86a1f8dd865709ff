"""The state of one render of a template: its limits and what it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tokenbox.conversation.llama.syntax import TemplateError
from tokenbox.conversation.llama.values import MAX_CHARACTERS

if TYPE_CHECKING:
    import datetime as dt

    from tokenbox.conversation.llama.track import Track

Scope = dict[str, Any]
Expression = Callable[["Run", Scope], Any]
Statement = Callable[["Run", Scope, list[Any]], None]

MAX_STEPS: Final = 2_000_000
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

    __slots__ = ("_calls", "_grown", "_steps", "dated", "now", "track", "uncertain", "usage")

    def __init__(self, now: dt.datetime | None = None, usage: ValueUsage | None = None) -> None:
        self.now = now
        self.usage = usage
        self.track: Track | None = None
        self.uncertain = False
        self.dated: set[str] = set()
        self._steps = self._grown = self._calls = 0

    def steps(self, number: int = 1) -> None:
        self._steps += number
        if self._steps > MAX_STEPS:
            raise TemplateError(f"the chat template took more than {MAX_STEPS:,} steps.")

    def grow(self, characters: int) -> None:
        """Count new characters. Raises before there are too many."""
        self._grown += characters
        if self._grown > 4 * MAX_CHARACTERS:
            raise TemplateError(f"the chat template wrote more than {MAX_CHARACTERS:,} characters.")

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


class BreakLoop(Exception):  # control flow
    """``{% break %}``."""


class ContinueLoop(Exception):  # control flow
    """``{% continue %}``."""
