"""Lines of styled text for a terminal with fixed-width cells.

A picture consists of lines of spans. Without styles it is plain text; a terminal maps styles to colours.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import Final, NamedTuple

from tokenbox.characters import category

# The newest table of character widths, independent of the environment.
_WIDTHS = "latest"
_ZERO_WIDTH_JOINER = "\u200d"
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


class Style(StrEnum):
    """The meaning of a span. A terminal chooses the colour."""

    PLAIN = "plain"
    STRONG = "strong"
    FAINT = "faint"
    CRITICAL = "critical"
    KEPT = "kept"
    EXPANDED = "expanded"
    COMPRESSED = "compressed"
    TRUNCATED = "truncated"
    DROPPED = "dropped"
    FREE = "free"


class Span(NamedTuple):
    text: str
    style: Style = Style.PLAIN


Line = Sequence[Span]


@dataclass(frozen=True, slots=True)
class Charset:
    """The characters of a picture."""

    ascii: bool
    bars: dict[Style, str]
    sliver: str
    wall: str
    arrow: str
    minus: str
    critical: str
    dropped: str
    because: str
    dot: str
    ellipsis: str


# The characters of Unicode, and those of ASCII.
_BARS: Final = {
    Style.CRITICAL: ("█", "#"),
    Style.KEPT: ("█", "#"),
    Style.EXPANDED: ("█", "#"),
    Style.COMPRESSED: ("▓", "="),
    Style.TRUNCATED: ("▒", "="),
    Style.FREE: ("░", "."),
}
_MARKS: Final = {
    "sliver": ("▏", "'"),
    "wall": ("│", "|"),
    "arrow": ("→", "->"),
    "minus": ("−", "-"),
    "critical": ("●", "*"),
    "dropped": ("×", "x"),
    "because": ("└", "\\"),
    "dot": ("·", "-"),
    "ellipsis": ("…", ">"),
}
UNICODE, ASCII = (
    Charset(
        ascii=bool(column),
        bars={style: both[column] for style, both in _BARS.items()},
        **{name: both[column] for name, both in _MARKS.items()},
    )
    for column in (0, 1)
)


def cells(text: str) -> int:
    """Return the number of terminal cells of ``text``."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # only for text beyond ASCII

    return cell_len(text, _WIDTHS)


def printable(text: str, charset: Charset = UNICODE) -> str:
    """Return ``text`` on one line. Characters that could move, reorder or hide others are escaped."""
    if text.isascii() and text.isprintable():
        return text
    shown = []
    for i, c in enumerate(text):
        visible = category(c) not in _INVISIBLE or _joins_emoji(text, i)
        is_shown = visible and (c.isascii() or not charset.ascii)
        shown.append(c if is_shown else c.encode("unicode_escape").decode("ascii"))
    return "".join(shown)


def clip(text: str, width: int, charset: Charset = UNICODE) -> str:
    """Cut ``text`` to at most ``width`` cells, with an ellipsis if it is longer."""
    if cells(text) <= width:
        return text
    if width < 1:
        return ""
    return cut_cells(text, width - 1) + charset.ellipsis


def pad(text: str, width: int, charset: Charset = UNICODE) -> str:
    """Cut or pad ``text`` to exactly ``width`` cells."""
    text = clip(text, width, charset)
    return text + " " * (width - cells(text))


def cut_cells(text: str, width: int) -> str:
    """Return the longest prefix of at most ``width`` cells. A wide character is not split."""
    if text.isascii():
        return text[:width]
    from rich.cells import split_graphemes  # only for text beyond ASCII

    used = end = 0
    for _, stop, size in split_graphemes(text, _WIDTHS)[0]:
        if used + size > width:
            break
        used, end = used + size, stop
    return text[:end]


def fit_line(line: Line, width: int, charset: Charset = UNICODE) -> Line:
    """Remove trailing blanks and cut the line to at most ``width`` cells."""
    spans = list(line)
    while spans and not spans[-1].text.strip(" "):
        spans.pop()
    if spans:
        spans[-1] = Span(spans[-1].text.rstrip(" "), spans[-1].style)
    if sum(cells(span.text) for span in spans) <= width:
        return spans
    fitted: list[Span] = []
    for span in spans:
        room = width - sum(cells(done.text) for done in fitted)
        if cells(span.text) >= room:
            # This span or one after it is cut, so the ellipsis goes here.
            fitted.append(Span(cut_cells(span.text, room - 1) + charset.ellipsis, span.style))
            break
        fitted.append(span)
    return fitted


def wrap(text: str, width: int) -> list[str]:
    """Wrap ``text`` at blanks to lines of at most ``width`` cells. A longer word is split."""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if cells(longer) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        *full, line = _pieces(word, width)
        lines += full
    return [*lines, line] if line else lines


def _pieces(word: str, width: int) -> list[str]:
    """Split a word into pieces of at most ``width`` cells. A character that is wider is a piece."""
    if word.isascii():
        size = max(width, 1)
        return [word[at : at + size] for at in range(0, len(word), size)] or [""]
    from rich.cells import split_graphemes  # only for text beyond ASCII

    pieces, start, used = [], 0, 0
    for begin, _, size in split_graphemes(word, _WIDTHS)[0]:
        if used + size > width and begin > start:
            pieces.append(word[start:begin])
            start, used = begin, 0
        used += size
    return [*pieces, word[start:]]


# A column of a table is never made narrower.
MIN_COLUMN: Final = 8
GAP: Final = "  "
"""The blanks between two columns."""


def column_widths(rows: Iterable[Sequence[str]], width: int | None = None) -> list[int]:
    """Return the widths of a table's columns, in cells, so that a row fits into ``width``. None: no limit.

    The column gives way in which the fewest rows have a word that must be split, and of these the widest.
    Columns that cannot fit keep :data:`MIN_COLUMN`.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(cells, column)) for column in columns]
    over = 0 if width is None else sum(widths) + len(GAP) * (len(widths) - 1) - width
    if over <= 0:
        return widths
    # The lengths of the longest words of the rows, by column.
    words = [sorted(max(map(cells, text.split(" "))) for text in column) for column in columns]
    while over > 0:
        wide = [at for at, size in enumerate(widths) if size > MIN_COLUMN]
        if not wide:
            break
        least = min(
            wide, key=lambda at: (len(words[at]) - bisect_left(words[at], widths[at]), -widths[at], -at)
        )
        widths[least] -= 1
        over -= 1
    return widths


def in_columns(row: Sequence[str], widths: Sequence[int]) -> list[tuple[str, ...]]:
    """Return the lines of a table's row: each text wrapped in its column."""
    pairs = zip(row, widths, strict=True)
    wrapped = [wrap(text, size) if cells(text) > size else [text] for text, size in pairs]
    return list(zip_longest(*wrapped, fillvalue=""))


def plain(lines: Iterable[Line]) -> str:
    """Return the lines as text, each with a line end."""
    return "".join(f"{''.join(span.text for span in line)}\n" for line in lines)


def _joins_emoji(text: str, i: int) -> bool:
    """Return whether the character is a joiner inside an emoji sequence, where it takes no cell."""
    if text[i] != _ZERO_WIDTH_JOINER or not 0 < i < len(text) - 1:
        return False
    before = text[i - 2] if text[i - 1] == "\ufe0f" and i > 1 else text[i - 1]
    return category(before) in {"So", "Sk"} and category(text[i + 1]) == "So"
