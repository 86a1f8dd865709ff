"""The commands put together, and every way in which one of them can end."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer

from tokenbox import named_code
from tokenbox.cli.listing import COMMANDS, help_text
from tokenbox.cli.outcome import Exit, report
from tokenbox.cli.streams import (
    ReaderGoneError,
    UnreadableInput,
    abandon_output,
    check_streams,
    finish_output,
    write_error,
    write_record,
    write_text,
)
from tokenbox.errors import TokenboxError
from tokenbox.render.lines import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# A command is the function of its name in the module of its name.
MODULES = {"init": "config"}
# These have commands of their own, and some of those have too.
GROUPS = {"lcp": (), "proof": (), "gateway": ("keys", "users", "teams")}
# Options whose value may be `module:function`.
_NAME_CODE = frozenset({"--tokenizer", "-t", "--strategy", "--scorer"})


def build_app(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    """The application. On a terminal the help of a command has colours, elsewhere it is plain text.

    It has just these ``commands``; the modules of the others are not loaded.
    """
    app = typer.Typer(
        rich_markup_mode="markdown" if sys.stdout.isatty() else None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(options)
    for name in commands:
        module = import_module(f"tokenbox.cli.{MODULES.get(name, name)}")
        if name in GROUPS:
            app.add_typer(module.build_app(), name=name)
        else:
            app.command()(getattr(module, name))
    return app


def show_version(asked: bool) -> None:
    if asked:
        from tokenbox.__about__ import __version__

        write_text(f"tokenbox {__version__}\n")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=show_version, help="Print the version.")
    ] = False,
) -> None:
    """What comes before a command; a callback has done it by now."""


def run(arguments: list[str]) -> int:
    """Run a command and return its exit status. Bad input ends in a message, never in a traceback."""
    try:
        check_streams()
        _allow_code(arguments)
        status = _invoke(_spelled(arguments))
        finish_output()
    except ReaderGoneError:
        # As with `| head`: whoever reads has seen enough, so nothing is wrong.
        abandon_output()
        return Exit.OK
    except TokenboxError as error:
        # Only the output itself fails out here.
        abandon_output()
        return report(error)
    except KeyboardInterrupt:
        abandon_output()
        return Exit.INTERRUPTED
    return status


def _allow_code(arguments: Sequence[str]) -> None:
    """Let the code run that options name; its module may be in the current folder, as for `python -m`."""
    for option, given in pairwise([*arguments, ""]):
        name, equals, value = option.partition("=")
        if name in _NAME_CODE:
            named_code.allow(value if equals else given, folder=os.path.abspath(""))  # noqa: PTH100  # a text


def _invoke(arguments: list[str]) -> int:
    if arguments == ["--help"]:
        write_text(help_text(bold=sys.stdout.isatty() and not os.environ.get("NO_COLOR")))
        return Exit.OK
    try:
        status = build_app(_needed(arguments[0]))(args=arguments, prog_name="tokenbox", standalone_mode=False)
    except (ReaderGoneError, TokenboxError):
        raise
    except SystemExit as ended:
        # How typer ends when nobody reads its help.
        if isinstance(ended.__context__, BrokenPipeError):
            raise ReaderGoneError from None
        raise
    except OSError as error:
        if error.filename is None:
            return _failed(error, arguments)
        # Such as a name that is longer than names may be, wherever it was looked up.
        name = str(error.filename)[:200]
        return report(UnreadableInput(f"{name} cannot be read: {error.strerror}.", file=name))
    except Exception as error:  # noqa: BLE001  # the last line of defence
        status = _failed(error, arguments)
    return int(status or 0)


def _needed(first: str) -> Sequence[str]:
    """The commands to load for arguments that begin so: all for help, and for what is not a command."""
    if first == "--version":
        return ()
    return [first] if first in COMMANDS else tuple(COMMANDS)


def _spelled(arguments: list[str]) -> list[str]:
    """The arguments as typer understands them."""
    if arguments in ([], ["-h"], ["help"]):
        return ["--help"]
    if arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    group = GROUPS.get(arguments[0])
    if group is not None and (len(arguments) == 1 or (len(arguments) == 2 and arguments[1] in group)):  # noqa: PLR2004
        return [*arguments, "--help"]
    if arguments[0] != "pack":
        return arguments
    from tokenbox.cli.pack import with_revision

    return with_revision(arguments)


def _failed(error: Exception, arguments: Sequence[str]) -> Exit:
    """Say what is wrong with the usage, or, as it should never be, with tokenbox."""
    # typer keeps the class of its usage errors to itself; this is what makes one.
    describe = getattr(error, "format_message", None)
    context = getattr(error, "ctx", None)
    hint = None
    if describe is None:
        code, message = "internal_error", f"{type(error).__name__}: {error}"
    else:
        from tokenbox.cli.hints import Known, improved  # only once something is wrong

        command = None if context is None else context.command
        params = () if command is None else command.params
        words = Known({o for param in params for o in param.opts}, tuple(getattr(command, "commands", ())))
        code = "usage"
        message, hint = improved(str(describe()), arguments, words)
    if "--json" in arguments:
        remedies = {} if hint is None else {"remedies": [hint]}
        write_record("error", {"error": {"code": code, "message": message, **remedies}})
    write_error(f"error: {printable(message)} ({code})\n")
    if describe is None:
        write_error(f"This is a bug in tokenbox; please report it.\n{traceback.format_exc()}")
        return Exit.BUG
    if hint is not None:
        write_error(f"Try: {printable(hint)}\n")
    of_command = f"tokenbox {arguments[0]}" if arguments[0] in COMMANDS else "tokenbox"
    write_error(f"Help: {of_command if context is None else context.command_path} --help\n")
    return Exit.BAD_INPUT
