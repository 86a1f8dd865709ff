"""Exit statuses, and errors as messages or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import update_wrapper
from inspect import signature
from typing import Any, get_type_hints

import typer

from tokenbox.cli import terminal
from tokenbox.cli.streams import write_error, write_record
from tokenbox.errors import ContextCriticalOverflow, TokenboxError
from tokenbox.render.lines import printable


class Exit(IntEnum):
    """The exit statuses, which docs/cli.md documents."""

    OK = 0
    BUG = 1
    DIFFERENT = 1  # `diff --exit-code`, as in diff(1)
    BAD_INPUT = 2
    DOES_NOT_FIT = 3
    REFUSED = 4  # `enforce`, and a call that could exceed the cap in dollars
    ROWS_FAILED = 5  # `batch`: the other rows are written
    INTERRUPTED = 130


class UsageProblem(TokenboxError, code="usage"):
    """Options that exclude each other, or an invalid value."""


def status_of(error: TokenboxError) -> Exit:
    from tokenbox.ledger.cap import CostCapError

    if isinstance(error, ContextCriticalOverflow):
        return Exit.DOES_NOT_FIT
    return Exit.REFUSED if isinstance(error, CostCapError) else Exit.BAD_INPUT


@contextmanager
def reporting(*, as_json: bool = False) -> Iterator[None]:
    """Turn an error inside into a message on standard error and, if ``as_json``, a record as the result."""
    try:
        yield
    except TokenboxError as error:
        if as_json:
            write_record("error", {"error": error.to_dict()})
        raise typer.Exit(report(error)) from None


def reported(command: Callable[..., Any]) -> Callable[..., int]:
    """Return a command for typer: its errors are reported, and its status is 0 unless it returns another.

    A command is a function of its options, or a class of them whose ``run`` does the work.
    """

    def run(**options: object) -> int:
        with reporting(as_json=options.get("as_json") is True):
            found = command(**options)
            return (found.run() if isinstance(command, type) else found) or Exit.OK

    update_wrapper(run, command, updated=())
    run.__signature__ = signature(command)  # type: ignore[attr-defined]
    run.__annotations__ = get_type_hints(command)
    return run


def report(error: TokenboxError) -> Exit:
    """Write the error to standard error; a terminal also shows a picture of what does not fit."""
    if isinstance(error, ContextCriticalOverflow) and terminal.errors_are_seen():
        terminal.show_overflow(error)
    first, *rest = error.message.split("\n")  # an error in a pipeline has a line of carets
    lines = [f"{printable(first)} ({error.code})", *map(printable, rest)]
    remedies = error.details.get("remedies")
    shown = [str(remedy) for remedy in remedies] if isinstance(remedies, list) else []
    lines += [f"or: {printable(remedy)}" for remedy in shown if remedy not in error.message]
    write_error("error: " + "\n".join(lines) + "\n")
    return status_of(error)
