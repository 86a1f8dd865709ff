"""Runs commands one after the other, as a shell does: folder, environment and status carry over.

Each command runs in a new shell, which reports its folder and exported variables when it ends. So ``cd``,
``export``, ``unset`` and ``VAR=x command`` behave as in that shell. Unexported variables, functions and
aliases last for one line.

On a terminal, the command gets a pseudo-terminal: it can use colours and pagers and ask for passwords, and
Ctrl-C reaches only the command. Elsewhere it gets a pipe and no input.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from tokenbox.shell.outputs import Capture

T = TypeVar("T")

# Shells that can run the script below; the user's own may be another, such as fish.
_POSIX_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "mksh", "ash"})
# $1 command, $2 previous status, $3 descriptor of the report, $4 path of env(1), $5 terminal or empty.
# The report is written to /dev/fd, because dash cannot redirect to descriptors over 9.
_SCRIPT: Final = """\
if [ -n "$5" ]; then exec <"$5" >"$5" 2>&1; fi
trap '__status=$?; { printf "%s\\0" "$PWD"; "$4" -0; } >"/dev/fd/$3" 2>/dev/null; exit $__status' EXIT
__restore() { return "$1"; }
__restore "$2"
eval "$1"
"""
_SHELL_VARIABLES: Final = frozenset({"_", "SHLVL", "__status"})  # of the reporting shell, not of the user
_CHUNK: Final = 65_536
_POLL_SECONDS: Final = 0.05  # the interval of checks whether a command with background children has ended
# Windows has no SIGKILL. Nothing here runs there, but `tokenbox ask` imports it.
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)
_INTERRUPTS: Final = (signal.SIGINT, signal.SIGINT, signal.SIGTERM, _KILL)
_NOT_FOUND, _SIGNALLED = 127, 128


class Hangup(KeyboardInterrupt):
    """An interrupt that ends the shell: its terminal was closed, or it got SIGTERM."""


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C in a short step: a second one must not lose the answer that the first has stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(frozen=True, slots=True)
class WorkingPlace:
    """The state between commands: the folder, the exported variables, and the status of the last command."""

    folder: str
    variables: Mapping[str, str]
    status: int = 0

    def path(self, name: str) -> str:
        """Resolve the name of a file, relative to this folder; ``~`` is the home folder."""
        return os.path.join(self.folder, os.path.expanduser(name))  # never raises

    def has(self, program: str) -> bool:
        if program in _BUILTINS:
            return True
        path = os.path.join(self.folder, program) if "/" in program else program  # as the shell does
        return bool(program) and shutil.which(path, path=self.variables.get("PATH")) is not None


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has ended. ``place``: the state for the next one.

    ``typed``: input that was typed meanwhile and that the command did not read, for the next prompt.
    """

    command: str
    output: Capture
    place: WorkingPlace
    seconds: float
    typed: bytes = b""

    @property
    def status(self) -> int:
        return self.place.status


# Commands that are part of the shell.
_BUILTINS: Final = frozenset(
    {".", "{", "(", "alias", "cd", "command", "echo", "eval", "exit", "export", "for", "if", "printf", "pwd"}
    | {"read", "set", "source", "test", "time", "trap", "type", "ulimit", "umask", "unset", "until", "while"}
)


def run(command: str, place: WorkingPlace, show: Callable[[bytes], None], keyboard: int | None = None) -> Ran:
    """Run ``command`` and pass its output, both streams in order, to ``show`` as it arrives.

    ``keyboard``: the descriptor of the user's terminal, which the command may use; None for a pipe.
    A command that fails is not an error: its status says so. Ctrl-C interrupts the command; from the third
    one on, it is terminated and then killed.
    """
    started = time.monotonic()
    output, report = Capture(), bytearray()
    if not os.path.isdir(place.folder):
        return _not_run(command, place, show, f"{place.folder} no longer exists: cd to another folder.\n")
    ours, theirs = os.pipe()
    source, other = _terminal() if keyboard is not None else os.pipe()
    try:
        terminal = os.ttyname(other) if keyboard is not None else ""
        if keyboard is not None:
            _resize(source)
        arguments = [command, str(place.status), str(theirs), shutil.which("env") or "/usr/bin/env", terminal]
        try:
            process = subprocess.Popen(  # noqa: S603  # the user's own command, in the user's own shell
                [_shell(place), "-c", _SCRIPT, "tokenbox", *arguments],
                cwd=place.folder,
                env=dict(place.variables),
                stdin=subprocess.DEVNULL,
                stdout=other,
                stderr=other,
                pass_fds=(theirs,),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return _not_run(command, place, show, f"the command cannot be run: {error}.\n")
        os.close(theirs)
        theirs = -1
        if keyboard is None:
            os.close(other)
            other = -1

        def take(data: bytes) -> None:
            output.add(data)
            show(data)

        with _raw(keyboard, source):
            _Pump(process, {source: take, ours: report.extend}, keyboard, source).run()
        typed = b"" if keyboard is None else _unread(other)
    finally:
        for descriptor in (ours, theirs, source, other):
            if descriptor >= 0:
                os.close(descriptor)
    after = _reported(bytes(report), place)
    status = process.returncode
    status = _SIGNALLED - status if status < 0 else status
    return Ran(command, output, replace(after, status=status), time.monotonic() - started, typed)


def _terminal() -> tuple[int, int]:
    import pty  # not on Windows

    return pty.openpty()


def _shell(place: WorkingPlace) -> str:
    """Return the user's shell if it is compatible with sh, else sh."""
    shell = place.variables.get("SHELL", "")
    return shell if os.path.basename(shell) in _POSIX_SHELLS and os.access(shell, os.X_OK) else "/bin/sh"


def _not_run(command: str, place: WorkingPlace, show: Callable[[bytes], None], message: str) -> Ran:
    """Show a message in place of the output of a command that cannot be run."""
    output, data = Capture(), message.encode("utf-8", "replace")
    output.add(data)
    show(data)
    return Ran(command, output, replace(place, status=_NOT_FOUND), 0.0)


def _reported(report: bytes, before: WorkingPlace) -> WorkingPlace:
    """Parse the report of the shell. After ``exec`` or a kill the report is missing, and the state stays."""
    folder, *items = report.split(b"\x00")
    if not folder or not items or items[-1]:  # each field ends with a NUL
        return before
    variables = dict(os.fsdecode(item).split("=", 1) for item in items if b"=" in item)
    kept = {name: value for name, value in variables.items() if name not in _SHELL_VARIABLES}
    kept |= {name: before.variables[name] for name in _SHELL_VARIABLES if name in before.variables}
    return WorkingPlace(os.fsdecode(folder), kept)


class _Pump:
    """Passes input and output on until the command has ended and all of its output has been read."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        sinks: Mapping[int, Callable[[bytes], object]],
        keyboard: int | None,
        source: int,
    ) -> None:
        self._process, self._sinks, self._keyboard, self._source = process, sinks, keyboard, source
        self._interrupts = iter(_INTERRUPTS)
        self._open = set(sinks)

    def run(self) -> None:
        # Unlike epoll, select asks the terminal itself, which then hands over what a command wrote last.
        with selectors.SelectSelector() as selector:
            for descriptor in self._sinks:
                os.set_blocking(descriptor, False)
                selector.register(descriptor, selectors.EVENT_READ)
            if self._keyboard is not None:
                selector.register(self._keyboard, selectors.EVENT_READ)
            while self._uninterrupted(lambda: self._step(selector)):
                pass
        self._uninterrupted(self._process.wait)

    def _step(self, selector: selectors.BaseSelector) -> bool:
        """Pass on what is available. Return True if there may be more."""
        ended = self._process.poll() is not None
        ready = [key.fd for key, _ in selector.select(0 if ended else _POLL_SECONDS)]
        more = False
        for descriptor in ready:
            if descriptor == self._keyboard:
                if not _type(descriptor, self._source):
                    selector.unregister(descriptor)
                continue
            more = True
            data = _read(descriptor)
            if data:
                self._sinks[descriptor](data)
            else:
                selector.unregister(descriptor)
                self._open.discard(descriptor)
        return bool(self._open) and (more or not ended)

    def _uninterrupted(self, work: Callable[[], T]) -> T:
        """Run ``work``, and again after an interrupt, which is sent to the command instead."""
        while True:
            try:
                return work()
            except Hangup:
                with suppress(OSError):
                    os.killpg(self._process.pid, signal.SIGHUP)
                raise
            except KeyboardInterrupt:
                with suppress(OSError):
                    os.killpg(self._process.pid, next(self._interrupts, _KILL))


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return b""
    except OSError:  # a pseudo-terminal whose other end is closed
        return b""


def _type(keyboard: int, source: int) -> bool:
    """Pass on typed input. Return True if there may be more."""
    typed = _read(keyboard)
    with suppress(OSError):
        os.write(source, typed)
    return bool(typed)


@contextmanager
def _raw(keyboard: int | None, source: int) -> Iterator[None]:
    """Put the user's terminal into raw mode while the command uses its pseudo-terminal."""
    if keyboard is None:
        yield
        return
    import termios  # not on Windows
    import tty

    before = termios.tcgetattr(keyboard)
    handler = signal.signal(signal.SIGWINCH, lambda *_: _resize(source))
    try:
        # Not TCSAFLUSH, the default: it discards what was typed before the command started.
        tty.setraw(keyboard, termios.TCSADRAIN)
        yield
    finally:
        with suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, handler)


def hide_keys(terminal: int) -> Callable[[], object]:
    """Stop showing typed keys on a terminal. Return the function that shows them again."""
    try:
        import termios  # not on Windows
    except ImportError:
        return lambda: None
    try:
        before = termios.tcgetattr(terminal)
        termios.tcsetattr(terminal, termios.TCSANOW, [*before[:3], before[3] & ~termios.ECHO, *before[4:]])
    except (OSError, termios.error):
        return lambda: None

    def show() -> None:
        with suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(terminal, termios.TCSANOW, before)

    return show


def _unread(terminal: int) -> bytes:
    """Return the input left unread in a terminal, including an incomplete line, without Ctrl-D."""
    import termios

    with suppress(OSError, termios.error):
        modes = termios.tcgetattr(terminal)
        modes[3] &= ~termios.ICANON
        termios.tcsetattr(terminal, termios.TCSANOW, modes)
        os.set_blocking(terminal, False)
        return os.read(terminal, _CHUNK).replace(b"\0", b"")  # as Linux keeps a Ctrl-D
    return b""


def _resize(source: int) -> None:
    """Give a pseudo-terminal the size of the user's terminal."""
    import fcntl
    import termios

    columns, lines = shutil.get_terminal_size()
    with suppress(OSError):
        fcntl.ioctl(source, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
