"""Output for people: colours on a terminal, plain text elsewhere, and progress bars for slow commands."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from tokenbox.cli.streams import write_text
from tokenbox.render.lines import (
    ASCII,
    GAP,
    UNICODE,
    Charset,
    Line,
    Span,
    Style,
    cells,
    column_widths,
    in_columns,
    plain,
    printable,
)

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tokenbox.errors import ContextCriticalOverflow
    from tokenbox.tokenizers.protocol import TokenizerIdentity

# Of the 256 colours, because these can be read on white and on black; yellow and cyan cannot on white.
COLOURS = {
    Style.PLAIN: "",
    Style.STRONG: "bold",
    Style.FAINT: "dim",
    Style.CRITICAL: "color(133)",
    Style.KEPT: "color(31)",
    Style.EXPANDED: "color(28)",
    Style.COMPRESSED: "color(136)",
    Style.TRUNCATED: "color(130)",
    Style.DROPPED: "color(160)",
    Style.FREE: "dim color(28)",
}
# The delay before a progress bar appears.
PATIENCE_SECONDS = 1.0


def width() -> int:
    """Return the number of columns: that of COLUMNS, else the terminal's, else 80."""
    return shutil.get_terminal_size((80, 24)).columns


def charset(stream: TextIO | None = None) -> Charset:
    """Return the characters that the stream (default: standard output) can encode."""
    stream = sys.stdout if stream is None else stream
    drawn = "".join(
        [*UNICODE.bars.values(), UNICODE.arrow, UNICODE.minus, UNICODE.critical, UNICODE.ellipsis]
    )
    try:
        drawn.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return ASCII
    return UNICODE


def has_colours() -> bool:
    """Return whether a terminal is to have colours: NO_COLOR and terminals without them turn them off."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in {"dumb", "unknown"}


def is_seen() -> bool:
    return sys.stdout.isatty()


def errors_are_seen() -> bool:
    return sys.stderr.isatty()


def show(lines: Sequence[Line]) -> None:
    if is_seen():
        _colour(lines, sys.stdout)
    else:
        write_text(plain(lines))


def show_overflow(error: ContextCriticalOverflow) -> None:
    """Draw the critical sections against the budget, on standard error."""
    from tokenbox.render.explain import overflow_picture

    _colour(overflow_picture(error, width(), charset(sys.stderr)), sys.stderr)


def figure(tokens: int, *, exact: bool) -> str:
    """Return a count: ``~`` marks an estimate; a terminal gets thousands separators, a pipe does not."""
    return f"{'' if exact else '~'}{tokens:{',' if is_seen() else ''}}"


def show_counts(rows: Sequence[tuple[int, bool, str]], tokenizer: TokenizerIdentity, about: str = "") -> None:
    """Show rows of tokens, exactness and name; a terminal adds the tokenizer and ``about``."""
    figures = [figure(tokens, exact=exact) for tokens, exact, _ in rows]
    size = max(map(len, figures), default=0)
    lines: list[Line] = [
        (Span(f"{count:>{size}}", Style.KEPT), Span(f"  {printable(name)}"))
        for count, (_, _, name) in zip(figures, rows, strict=True)
    ]
    if is_seen():
        kind = "exact" if tokenizer.exact else "estimate"
        lines.append((Span(f"tokens of {tokenizer.name} ({kind}){about}", Style.FAINT),))
    show(lines)


def show_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    show(table(heads, rows))


def show_lines(texts: Iterable[str]) -> None:
    drawn = charset()
    show([(Span(printable(text, drawn)),) for text in texts])


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Line]:
    """Return aligned columns. They wrap at the edge of a terminal, and never in a pipe.

    A terminal that is too narrow for them, or for the words of most rows, gets a block of lines for each row.
    """
    drawn = charset()
    texts = [[printable(text, drawn) for text in row] for row in rows]
    room = width() if is_seen() else None
    widths = column_widths([heads, *texts], room)
    if room is not None and (
        sum(widths) + len(GAP) * (len(widths) - 1) > room
        or sum(_splits_a_word(row, widths) for row in texts) > len(texts) / 2
    ):
        return [line for row in texts for line in _block(heads, row, room)]
    lines = [_row(part, widths, Style.FAINT, Style.FAINT) for part in in_columns(heads, widths)]
    return lines + [_row(part, widths) for row in texts for part in in_columns(row, widths)]


def _splits_a_word(row: Sequence[str], widths: Sequence[int]) -> bool:
    return any(max(map(cells, text.split(" "))) > size for text, size in zip(row, widths, strict=True))


def _block(heads: Sequence[str], row: Sequence[str], room: int) -> Iterator[Line]:
    """Yield a row as lines: the first text with a head, after the marks before it, and the others below."""
    first = next(at for at, head in enumerate(heads) if head) + 1
    yield [Span(" ".join(filter(None, row[:first])), Style.STRONG)]
    widest = max(map(cells, heads[first:]), default=0)
    widths = [widest, max(1, room - widest - 2 * len(GAP))]
    for pair in zip(heads[first:], row[first:], strict=True):
        for part in in_columns(pair, widths):
            yield [Span(GAP), *_row(part, widths, Style.PLAIN)]


def _row(
    texts: Sequence[str], widths: Sequence[int], first: Style = Style.STRONG, style: Style = Style.PLAIN
) -> Line:
    *padded, last = texts
    spans = [
        Span(f"{text}{' ' * (size - cells(text))}{GAP}", style)
        for text, size in zip(padded, widths, strict=False)
    ]
    spans.append(Span(last, style))
    return [spans[0]._replace(style=first), *spans[1:]]


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[], None]]:
    """Show a progress bar on a terminal, after a delay. Yields a function to call after each step."""
    if not errors_are_seen():
        yield lambda: None
        return
    meter = _Meter(what, total)
    timer = threading.Timer(PATIENCE_SECONDS, meter.start)
    timer.daemon = True
    timer.start()
    try:
        yield meter.advance
    finally:
        timer.cancel()
        meter.stop()


class _Meter:
    """A progress bar. Its library is imported only if the bar is shown."""

    def __init__(self, what: str, total: int | None) -> None:
        self._what, self._total, self._done = what, total, 0
        self._lock = threading.Lock()
        self._ended = False
        self._task: TaskID | None = None
        self._bar: Progress | None = None

    def start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

        with self._lock, suppress(OSError):
            if self._ended:
                return
            counted = self._total is not None and self._total > 1
            bar = (BarColumn(), MofNCompleteColumn()) if counted else ()
            text = TextColumn("{task.description}")
            console = Console(file=sys.stderr)
            self._bar = Progress(SpinnerColumn(), text, *bar, console=console, transient=True)
            self._task = self._bar.add_task(self._what, total=self._total, completed=self._done)
            self._bar.start()
            console.show_cursor()  # the bar hides it, and SIGTERM or Ctrl-Z would leave it so

    def advance(self) -> None:
        with self._lock:
            self._done += 1
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, completed=self._done)

    def stop(self) -> None:
        with self._lock, suppress(OSError):
            self._ended = True
            if self._bar is not None:
                self._bar.stop()


def _colour(lines: Sequence[Line], stream: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    # Rich respects NO_COLOR and TERM. The lines fit the width already, so Rich must not wrap or crop them.
    console = Console(file=stream, highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((span.text, COLOURS[span.style]) for span in line)))
