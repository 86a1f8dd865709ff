"""The screens of the shell: a terminal with colours and a keyboard, and a pipe with neither.

Results go to standard output, notices and errors to standard error.
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Final

from tokenbox.cli import terminal
from tokenbox.cli.markdown import Markdown
from tokenbox.cli.outcome import Exit, report
from tokenbox.cli.streams import write_bytes, write_error, write_text
from tokenbox.errors import TokenboxError
from tokenbox.render.lines import Charset, Line, plain, printable, wrap
from tokenbox.shell.running import hide_keys
from tokenbox.shell.screen import Approval

# Control characters from a model, which could move the cursor, change colours or hide text; and the overrides
# U+202D and U+202E, which show text in another order than it has.
_UNSAFE: Final = re.compile(r"[^\n\t\x20-\x7e\xa0-\u202c\u202f-\U0010ffff]")
_ANSWERS: Final = dict.fromkeys(("y", "yes"), Approval.ONCE) | dict.fromkeys(("a", "always"), Approval.ALWAYS)
_FAINT, _RED, _PLAIN = "\x1b[2m", "\x1b[31m", "\x1b[0m"


def safe(text: str) -> str:
    """Return the text of a model with every control character and override of direction made visible."""
    return _UNSAFE.sub(lambda match: printable(match[0]), text)


class PipeScreen:
    """Plain text, for scripts and transcripts. Nobody can answer questions, so nothing is approved."""

    keyboard: int | None = None

    def __init__(self) -> None:
        self.status = Exit.OK
        """The exit status, that of the last error."""
        self._at_line_start = True

    def lines(self, lines: Sequence[Line]) -> None:
        self._write(plain(lines))

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.lines(terminal.table(heads, rows))

    def text(self, text: str) -> None:
        self._write(text if text.endswith("\n") else f"{text}\n")

    def notice(self, text: str) -> None:
        self._finish_line()
        write_error(f"{printable(text)}\n")

    def problem(self, error: TokenboxError) -> None:
        self._finish_line()
        self.status = report(error)

    def command_output(self, data: bytes) -> None:
        self._at_line_start = data.endswith(b"\n")
        write_bytes(data, flush=True)

    def answer(self, text: str) -> None:
        self._write(safe(text), flush=True)

    def reasoning(self, text: str) -> None:
        """Show nothing: reasoning is not part of the answer."""

    def answer_ends(self) -> None:
        self._finish_line()

    def waiting(self, what: str) -> None:
        """Show nothing: nobody watches a pipe."""

    def copy(self, text: str) -> bool:
        """Print the text, as a pipe has no clipboard."""
        self.text(text)
        return False

    @property
    def width(self) -> int:
        return terminal.width()

    @property
    def charset(self) -> Charset:
        return terminal.charset()

    def approves(self, what: str, question: str, *, always: bool = True) -> Approval:
        self.notice(f"{what} Not approved: nobody can be asked in a pipe.")
        return Approval.NO

    def choose(self, problem: str, choices: Mapping[str, str]) -> str | None:
        """Choose nothing; the error that follows says what to do."""
        return None

    def _write(self, text: str, *, flush: bool = False) -> None:
        if text:
            self._at_line_start = text.endswith("\n")  # before writing, which may be interrupted
            write_text(text)
            if flush:
                write_bytes(b"", flush=True)

    def _finish_line(self) -> None:
        if not self._at_line_start:
            self._write("\n", flush=True)


class QuietScreen(PipeScreen):
    """Notices and errors only, for a result that is printed as JSON at the end."""

    def answer(self, text: str) -> None:
        """Show nothing: the answer is part of the result."""

    def answer_ends(self) -> None:
        """Show nothing: no answer was shown."""


class TerminalScreen(PipeScreen):
    """A terminal. Notices are faint, errors red; NO_COLOR turns colours off."""

    def __init__(self) -> None:
        super().__init__()
        self._colours = terminal.has_colours()
        self._waiting = False
        self._thinking = False
        self._show_keys: Callable[[], object] | None = None
        self._page: Markdown | None = None
        self.keyboard: int = sys.stdin.fileno()

    def lines(self, lines: Sequence[Line]) -> None:
        terminal.show(lines)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Show a result in columns, without those that are empty."""
        shown = [at for at in range(len(heads)) if not rows or any(row[at] for row in rows)]
        super().table([heads[at] for at in shown], [[row[at] for at in shown] for row in rows])

    def text(self, text: str) -> None:
        """Show a text; a sentence wraps at words, and a text of several lines does not.

        A model or a tool may have written it, as what ``:expand`` shows.
        """
        text = safe(text)
        line = text.removesuffix("\n")
        super().text(text if "\n" in line else "\n".join(wrap(line, terminal.width())))

    def notice(self, text: str) -> None:
        self._done_waiting()
        self._finish_line()
        for line in wrap(printable(text), terminal.width()):
            write_text(f"{self._coloured(line, _FAINT)}\n")
        write_bytes(b"", flush=True)  # a wait may follow

    def problem(self, error: TokenboxError) -> None:
        self._done_waiting()
        self._finish_line()
        text = "\n".join(wrap(f"error: {printable(error.message)} ({error.code})", terminal.width()))
        write_text(f"{self._coloured('error:', _RED)}{text.removeprefix('error:')}\n")

    def answer(self, text: str) -> None:
        self._done_waiting()
        if self._thinking:
            self._thinking = False
            self._finish_line()
        if self._page is None:
            self._page = Markdown(self._piece, terminal.width, colours=self._colours, charset=self.charset)
        self._page.feed(safe(text))
        write_bytes(b"", flush=True)

    def _piece(self, text: str) -> None:
        if not text.startswith("\x1b"):  # a colour code does not move the cursor
            self._at_line_start = text.endswith("\n")
        write_text(text)

    def reasoning(self, text: str) -> None:
        self._done_waiting()
        self._thinking = True
        self._write(self._coloured(safe(text), _FAINT), flush=True)
        self._at_line_start = text.endswith("\n")

    def answer_ends(self) -> None:
        self._done_waiting()
        self._thinking = False
        if self._page is not None:
            page, self._page = self._page, None
            page.end()
        super().answer_ends()
        if self._show_keys is not None:
            self._show_keys()
            self._show_keys = None

    def waiting(self, what: str) -> None:
        """Show a faint line, which the answer replaces. Typed keys are not shown until the answer ends."""
        self._show_keys = self._show_keys or hide_keys(self.keyboard)
        if self._colours:
            self._waiting = True
            write_text(self._coloured(f"{printable(what)} ...", _FAINT))
            write_bytes(b"", flush=True)

    def approves(self, what: str, question: str, *, always: bool = True) -> Approval:
        more = ", [a]lways in this session" if always else ""
        return _ANSWERS.get(self._asked(what, f"{question} [y]es, [N]o{more}: "), Approval.NO)

    def choose(self, problem: str, choices: Mapping[str, str]) -> str | None:
        listed = [f"  {key}  {choice}" for key, choice in choices.items()]
        answer = self._asked("\n".join([problem, *listed]), f"{', '.join(choices)}, or Enter to cancel: ")
        return answer if answer in choices else None

    def _asked(self, text: str, question: str) -> str:
        """Show the text, and return the answer to the question in lower case. No answer is an empty text."""
        self._done_waiting()
        self._finish_line()
        texts = map(printable, (*text.split("\n"), question))
        *lines, prompt = chain.from_iterable(wrap(line, terminal.width()) for line in texts)
        write_text("".join(f"{line}\n" for line in lines))
        try:
            return input(prompt).strip().lower()
        except (EOFError, KeyboardInterrupt):
            write_text("\n")
            return ""

    def copy(self, text: str) -> bool:
        """Copy with the terminal's own sequence (OSC 52), which works over ssh too."""
        encoded = base64.b64encode(text.encode("utf-8", "replace")).decode()
        write_text(f"\x1b]52;c;{encoded}\x07")
        write_bytes(b"", flush=True)
        return True

    def _done_waiting(self) -> None:
        if self._waiting:
            self._waiting = False
            write_text("\r\x1b[K")

    def _coloured(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_PLAIN}" if self._colours and text else text
