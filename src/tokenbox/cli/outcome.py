"""Exit statuses, and errors as messages or as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from functools import update_wrapper
from inspect import Signature, signature
from typing import Any, TypeAlias, get_type_hints

import typer

from tokenbox.cli import terminal
from tokenbox.cli.options import DocumentedCommand
from tokenbox.cli.streams import write_error, write_record
from tokenbox.errors import ContextCriticalOverflow, NothingFits, TokenboxError
from tokenbox.render.lines import printable

COMMAND_LINE: ContextVar[Sequence[str]] = ContextVar("command_line", default=())
"""The arguments of the command that runs."""


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
    """Options exclude each other, or a value is invalid."""


def only_one(given: Mapping[str, object]) -> str | None:
    """Return the option that is given, or None if none is. Raises :class:`UsageProblem` for two."""
    named = [option for option, value in given.items() if value]
    if len(named) > 1:
        raise UsageProblem(f"{named[0]} and {named[1]} do not go together. Give one of them.")
    return named[0] if named else None


Commands: TypeAlias = Mapping[str, Callable[..., Any]]


def group(about: str, commands: Commands) -> typer.Typer:
    """Return a group of commands by their names."""
    app = typer.Typer(help=about, rich_markup_mode=None, no_args_is_help=True)
    for name, command in commands.items():
        app.command(name, cls=DocumentedCommand)(reported(command))
    return app


def status_of(error: TokenboxError) -> Exit:
    from tokenbox.ledger.cap import CostCapError

    if isinstance(error, ContextCriticalOverflow | NothingFits):
        return Exit.DOES_NOT_FIT
    return Exit.REFUSED if isinstance(error, CostCapError) else Exit.BAD_INPUT


@contextmanager
def reporting(*, as_json: bool = False, takes_budget: bool = False) -> Iterator[None]:
    """Turn an error inside into a message on standard error and, if ``as_json``, a record as the result."""
    try:
        yield
    except TokenboxError as error:
        if as_json:
            write_record("error", {"error": error.to_dict()})
        raise typer.Exit(report(error, takes_budget=takes_budget)) from None


def reported(command: Callable[..., Any]) -> Callable[..., int]:
    """Return a command for typer: its errors are reported, and its status is 0 unless it returns another.

    A command is a function of its options, or a class of them whose ``run`` does the work. With
    ``overrides_budget``, its --budget overrides any other, so that an overflow can always be answered by it.
    """
    declared = signature(command)
    overrides = getattr(command, "overrides_budget", False)

    def run(**options: object) -> int:
        takes_budget = overrides or options.get("budget") is not None
        with reporting(as_json=options.get("as_json") is True, takes_budget=takes_budget):
            _refuse_empty_names(declared, options)
            found = command(**options)
            return (found.run() if isinstance(command, type) else found) or Exit.OK

    update_wrapper(run, command, updated=())
    run.__signature__ = declared  # type: ignore[attr-defined]
    run.__annotations__ = get_type_hints(command)
    return run


# The placeholders of files and folders. An empty path would be the current folder.
_PATHS = frozenset("FILE FILE.pub DOC LAYOUT PATH DIR FOLDER MANIFEST BUNDLE".split())


def _refuse_empty_names(declared: Signature, given: Mapping[str, object]) -> None:
    """Raise :class:`UsageProblem` for an empty name of a file or folder, as of a variable that is not set."""
    for name, value in given.items():
        if value == "" or (isinstance(value, list) and "" in value):
            parameter = declared.parameters[name].default
            placeholder = parameter.metavar.removesuffix("...").partition("[")[0]
            if placeholder in _PATHS:
                shown = (*(parameter.param_decls or ()), placeholder)[0]
                raise UsageProblem(f"{shown} is empty. Is a variable unset?")


def report(error: TokenboxError, *, takes_budget: bool = False) -> Exit:
    """Write the error to standard error; a terminal also shows a picture of what does not fit.

    ``takes_budget``: the command that runs can raise the budget by an option. The default of another command
    may be a model's limit, which cannot be raised.
    """
    if isinstance(error, ContextCriticalOverflow) and terminal.errors_are_seen():
        terminal.show_overflow(error)
    first, *rest = error.message.split("\n")  # an error in a pipeline has a line of carets
    lines = [f"{printable(first)} ({error.code})", *map(printable, rest)]
    remedies = error.details.get("remedies")
    shown = [str(remedy) for remedy in remedies] if isinstance(remedies, list) else []
    lines += [f"or: {printable(remedy)}" for remedy in shown if remedy not in error.message]
    enough = error.details.get("fixed_load", error.details.get("minimum_budget"))
    if takes_budget and isinstance(error, ContextCriticalOverflow | NothingFits) and enough is not None:
        lines.append(f"Run: {printable(_with_enough(enough))}")
    write_error("error: " + "\n".join(lines) + "\n")
    return status_of(error)


def _with_enough(budget: object) -> str:
    """Return the command that runs, with this budget."""
    words = iter(COMMAND_LINE.get())
    kept = []
    for word in words:
        if word in ("--budget", "-b"):
            next(words, None)
        elif not word.startswith(("--budget=", "-b")):
            kept.append(word)
    return shlex.join(["tokenbox", *kept, "--budget", str(budget)])
