"""Lines of styled text for a screen of fixed-width cells.

A picture is drawn once, as lines of spans. Without its styles it is plain text; a terminal gives the
styles colours. Nothing here knows what is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tokenbox.characters import category

# Newest table of character widths, whatever the environment says: a picture is a function of its arguments.
_WIDTHS = "latest"
_ZERO_WIDTH_JOINER = "\u200d"
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


class Style(StrEnum):
    """What a span is; a terminal decides how that looks."""

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
    """The characters a picture is drawn with."""

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
    rule: str


UNICODE = Charset(
    ascii=False,
    bars={
        Style.CRITICAL: "█",
        Style.KEPT: "█",
        Style.EXPANDED: "█",
        Style.COMPRESSED: "▓",
        Style.TRUNCATED: "▒",
        Style.FREE: "░",
    },
    sliver="▏",
    wall="│",
    arrow="→",
    minus="−",
    critical="●",
    dropped="×",
    because="└",
    dot="·",
    ellipsis="…",
    rule="─",
)
ASCII = Charset(
    ascii=True,
    bars={
        Style.CRITICAL: "#",
        Style.KEPT: "#",
        Style.EXPANDED: "#",
        Style.COMPRESSED: "=",
        Style.TRUNCATED: "=",
        Style.FREE: ".",
    },
    sliver="'",
    wall="|",
    arrow="->",
    minus="-",
    critical="*",
    dropped="x",
    because="\\",
    dot="-",
    ellipsis=">",
    rule="-",
)


def cells(text: str) -> int:
    """How many cells of a terminal ``text`` takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415  # only text beyond ASCII pays for it

    return cell_len(text, _WIDTHS)


def printable(text: str, charset: Charset = UNICODE) -> str:
    """``text`` on one line, with every character that could move, reorder or hide others escaped."""
    if text.isascii() and text.isprintable():
        return text
    shown = []
    for i, c in enumerate(text):
        visible = category(c) not in _INVISIBLE or _joins_emoji(text, i)
        shown.append(c if visible and (c.isascii() or not charset.ascii) else _escaped(c))
    return "".join(shown)


def clip(text: str, width: int, charset: Charset = UNICODE) -> str:
    """``text`` cut to at most ``width`` cells, with a mark where something was cut off."""
    if cells(text) <= width:
        return text
    if width < 1:
        return ""
    return cut_cells(text, width - 1) + charset.ellipsis


def pad(text: str, width: int, charset: Charset = UNICODE) -> str:
    """``text`` in exactly ``width`` cells."""
    text = clip(text, width, charset)
    return text + " " * (width - cells(text))


def cut_cells(text: str, width: int) -> str:
    """The longest prefix of at most ``width`` cells; a wide character is not halved."""
    if text.isascii():
        return text[:width]
    from rich.cells import split_graphemes  # noqa: PLC0415

    used = end = 0
    for _, stop, size in split_graphemes(text, _WIDTHS)[0]:
        if used + size > width:
            break
        used, end = used + size, stop
    return text[:end]


def fit_line(line: Line, width: int, charset: Charset = UNICODE) -> Line:
    """The line without trailing blanks, cut to at most ``width`` cells."""
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
            # Something is cut off here or behind here, so the mark is due in either case.
            fitted.append(Span(cut_cells(span.text, room - 1) + charset.ellipsis, span.style))
            break
        fitted.append(span)
    return fitted


def wrap(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width`` cells, broken at blanks; a longer word is broken inside."""
    lines: list[str] = []
    line = ""
    for given in text.split(" "):
        word = given
        longer = f"{line} {word}" if line else word
        if cells(longer) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        while cells(word) > width:
            head = cut_cells(word, width) or word[:1]
            lines.append(head)
            word = word[len(head) :]
        line = word
    return [*lines, line] if line else lines


def plain(lines: Iterable[Line]) -> str:
    """The lines as text, each with its end."""
    return "".join(f"{''.join(span.text for span in line)}\n" for line in lines)


def _joins_emoji(text: str, i: int) -> bool:
    """Whether the character is a joiner inside a joined emoji, where it takes no cell of its own."""
    if text[i] != _ZERO_WIDTH_JOINER or not 0 < i < len(text) - 1:
        return False
    before = text[i - 2] if text[i - 1] == "\ufe0f" and i > 1 else text[i - 1]
    return category(before) in {"So", "Sk"} and category(text[i + 1]) == "So"


def _escaped(c: str) -> str:
    return c.encode("unicode_escape").decode("ascii")
