"""The application: it loads commands, runs one, and turns every error into a message and an exit status."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import pairwise

import typer

from tokenbox import named_code
from tokenbox.__about__ import __version__
from tokenbox.cli import streams, terminal
from tokenbox.cli.listing import COMMANDS, SUMMARY, help_text
from tokenbox.cli.options import DocumentedCommand
from tokenbox.cli.outcome import COMMAND_LINE, Exit, report, reported
from tokenbox.errors import TokenboxError
from tokenbox.render.lines import printable

# Commands that are not defined in the module of their own name.
MODULES = {"ask": "shell", "init": "config", "serve": "gateway"}
# Groups of commands, and the groups inside them.
GROUPS = {"lcp": (), "proof": (), "gateway": ("keys", "users", "teams")}
# Options whose value may be `module:function`.
_CODE_OPTIONS = frozenset({"--tokenizer", "-t", "--strategy", "--scorer"})
# Thresholds of the garbage collector: rare collections, as a command creates few cycles.
_GC_THRESHOLDS = (10_000, 20, 20)
_COMPLETION = "_TOKENBOX_COMPLETE"
"""The environment variable with which a shell asks for completions; it passes no arguments."""


def build_app(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    """Build the application with these ``commands``; it loads no module of another command.

    Help is plain text: typer's boxes leave 19 of 80 columns for what an option does.
    """
    app = typer.Typer(
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(help=SUMMARY)(options)
    for name in commands:
        module = import_module(f"tokenbox.cli.{MODULES.get(name, name)}")
        if name in GROUPS:
            app.add_typer(module.build_app(), name=name)
        else:
            app.command(name, cls=DocumentedCommand)(reported(getattr(module, name)))
    return app


def show_version(asked: bool) -> None:
    if asked:
        streams.write_text(f"tokenbox {__version__}\n")
        raise typer.Exit


def options(
    version: bool = typer.Option(  # how typer reads it
        False, "--version", is_eager=True, callback=show_version, help="Print the version."
    ),
) -> None:
    """Declare the options that stand before a command. Their callbacks do the work."""


def run(arguments: list[str]) -> int:
    """Run a command and return its exit status. Bad input gives a message, never a traceback."""
    gc.set_threshold(*_GC_THRESHOLDS)
    try:
        streams.check_streams()
        COMMAND_LINE.set(arguments)
        status = _invoke(_normalized(arguments))
        streams.finish_output()
    except streams.ReaderGoneError:
        # The reader closed the pipe, as `| head` does: not an error.
        streams.abandon(sys.stdout)
        return Exit.OK
    except TokenboxError as error:
        # Commands report their own errors; what arrives here is a failure to write the output.
        streams.abandon(sys.stdout)
        return report(error)
    except KeyboardInterrupt:
        streams.abandon(sys.stdout)
        return Exit.INTERRUPTED
    return status


def _allow_code(arguments: Sequence[str]) -> None:
    """Allow the code that options name. Its module may be in the current folder, as for `python -m`."""
    for option, given in pairwise([*arguments, ""]):
        name, equals, value = option.partition("=")
        if name in _CODE_OPTIONS:
            named_code.allow(value if equals else given, folder=os.path.abspath(""))  # a string


def _invoke(arguments: list[str]) -> int:
    if arguments == ["--help"]:
        streams.write_text(help_text(bold=terminal.is_seen() and terminal.has_colours()))
        return Exit.OK
    try:
        _allow_code(arguments)
        app = build_app(_needed(arguments))
        status = app(args=arguments, prog_name="tokenbox", standalone_mode=False)
    except (streams.ReaderGoneError, TokenboxError):
        raise
    except SystemExit as ended:
        # typer raises this when the reader of its help closes the pipe.
        if isinstance(ended.__context__, BrokenPipeError):
            raise streams.ReaderGoneError from None
        raise
    except OSError as error:
        if error.filename is None and "--help" in arguments:  # typer writes it, not our streams
            streams.output_failed(error)
        if error.filename is None:
            return report(_FOLDER_GONE) if not _folder_exists() else _failed(error, arguments)
        name = str(error.filename)[:200]  # such as a name longer than the file system allows
        return report(streams.UnreadableInput(f"{name} cannot be read: {error.strerror}.", file=name))
    except Exception as error:  # noqa: BLE001  # the last line of defence
        if isinstance(error.__cause__, KeyboardInterrupt):  # Python 3.11 has other errors for it in a class
            raise error.__cause__ from None
        status = _failed(error, arguments)
    return int(status or 0)


_FOLDER_GONE = streams.UnreadableInput(
    "the current folder was deleted. Go to one that exists: cd ~", file="."
)

_NO_MEMORY = streams.UnreadableInput(
    "the command needs more memory than this process may use. Give it more: ulimit -v unlimited"
)


def _folder_exists() -> bool:
    try:
        return bool(os.getcwd())  # one call, which fails
    except FileNotFoundError:
        return False


def _needed(arguments: Sequence[str]) -> Sequence[str]:
    """Return the commands to load: the one that is named, else all of them."""
    first = arguments[0] if arguments else ""
    if first == "--version":
        return ()
    return [first] if first in COMMANDS else tuple(COMMANDS)


def _normalized(arguments: list[str]) -> list[str]:
    """Return the arguments in the form that typer understands."""
    if not arguments and _COMPLETION in os.environ:
        return arguments
    if arguments in ([], ["-h"], ["help"]):
        return ["--help"]
    if arguments[0] in ("help", "-h", "--help"):
        arguments = [*arguments[1:], "--help"]
    group = GROUPS.get(arguments[0])
    if group is not None and (len(arguments) == 1 or (len(arguments) == 2 and arguments[1] in group)):
        return [*arguments, "--help"]
    if arguments[0] != "pack":
        return arguments
    from tokenbox.cli.pack import with_revision

    return with_revision(arguments)


def _failed(error: Exception, arguments: Sequence[str]) -> Exit:
    if isinstance(error, MemoryError):
        error.__traceback__ = None  # frees what its frames hold
        return report(_NO_MEMORY)
    # typer does not export the class of its usage errors; these attributes identify one.
    describe = getattr(error, "format_message", None)
    context = getattr(error, "ctx", None)
    hint = None
    if describe is None:
        code, message = "internal_error", f"{type(error).__name__}: {error}"
    else:
        from tokenbox.cli.hints import improved

        command = None if context is None else context.command
        params = () if command is None else command.params
        known = {option for param in params for option in param.opts}
        commands = tuple(getattr(command, "commands", ()))
        code = "usage"
        message, hint = improved(str(describe()), arguments, known, commands)
    if "--json" in arguments:
        remedies = {} if hint is None else {"remedies": [hint]}
        streams.write_record("error", {"error": {"code": code, "message": message, **remedies}})
    streams.write_error(f"error: {printable(message)} ({code})\n")
    if describe is None:
        streams.write_error(f"This is a bug in tokenbox; please report it.\n{traceback.format_exc()}")
        return Exit.BUG
    if hint is not None:
        streams.write_error(f"Try: {printable(hint)}\n")
    path = f"tokenbox {arguments[0]}" if arguments[0] in COMMANDS else "tokenbox"
    streams.write_error(f"Help: {path if context is None else context.command_path} --help\n")
    return Exit.BAD_INPUT
