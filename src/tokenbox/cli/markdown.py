"""Renders streamed Markdown on a terminal. Words wrap at the edge; code is not wrapped, so it can be copied.

A word is written once it is complete, and a table once it ends, so nothing on the screen is ever rewritten.
Supported are headings, lists, quotes, tables, ``**strong**``, ``*emphasis*``, `` `code` `` and fenced code;
everything else is plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tokenbox.render.lines import GAP, UNICODE, Charset, cells, column_widths, in_columns

_BOLD, _FAINT, _CODE, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"
_STYLES: Final = {"**": _BOLD, "__": _BOLD, "*": "\x1b[3m"}
_FENCE: Final = re.compile(r"\s{0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$")
_HEADING: Final = re.compile(r"(#{1,6})\s+")
_ITEM: Final = re.compile(r"(\s*)([-*+]|\d{1,9}[.)])\s+")
_QUOTE: Final = re.compile(r"\s{0,3}>\s?")
_RULE: Final = re.compile(r"\s{0,3}([-*_])(?:\s*\1){2,}\s*$")
_MARK: Final = re.compile(r"`+|\*\*|__|\*")
_ROW: Final = re.compile(r"\s{0,3}\|")
_DASHES: Final = re.compile(r"\s{0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_BAR: Final = re.compile(r"(?<!\\)\|")
# The most characters that wait for the end of a word, or for what decides on a line. A longer word fits on no
# line.
_LONGEST: Final = 2_000
# The beginning of a line that may still become a heading, a list item or a fence.
_UNDECIDED: Final = re.compile(
    r"\s*(?:#{1,6}|[-*+]|\d{1,9}[.)]?|>|`{1,2}|~{1,2}|(?:`{3,}|~{3,})[^`]*|[-*_ ]+)?\s*$"
)


class Markdown:
    """A streaming renderer: takes pieces of a text and writes to ``show``. ``width`` is called per line.

    ``charset``: the characters that can be shown.
    """

    def __init__(
        self,
        show: Callable[[str], object],
        width: Callable[[], int],
        *,
        colours: bool,
        charset: Charset = UNICODE,
    ) -> None:
        self._show, self._width, self._colours = show, width, colours
        self._dash = "-" if charset.ascii else "─"
        self._draws = colours and not charset.ascii
        self._held: list[str] = []  # the end of the line so far: undecided, or not a complete word
        self._is_whole = False  # this line is shown once it has ended: code, or a row of a table
        self._fence = ""
        self._table: list[str] = []
        self._begin()

    def _begin(self) -> None:
        """Reset the state for a new line of the text."""
        self._decided = False
        self._column = 0
        self._indent = ""
        self._heading = False
        self._styles: list[str] = []
        self._gap = ""
        self._in_word = False  # a word so long that its beginning is written already

    def feed(self, piece: str) -> None:
        self._held.append(piece)
        if self._is_whole and "\n" not in piece:
            return
        *lines, rest = "".join(self._held).split("\n")
        for line in lines:
            self._line(line, ended=True)
        self._is_whole = bool(self._fence) or self._is_row(rest)
        self._held = [rest if self._is_whole else self._line(rest, ended=False)]

    def end(self) -> None:
        """Render what is left at the end of the text."""
        if rest := "".join(self._held):
            self._line(rest, ended=True, newline=False)
        self._held.clear()
        self._table_ends()
        self._styled(_PLAIN if self._styles or self._heading else "")

    def _line(self, line: str, *, ended: bool, newline: bool = True) -> str:
        """Write what can be shown of a line, and return the rest, which must wait for more input."""
        if self._is_row(line):
            self._table.append(line)
            return ""
        if self._table and (ended or line.strip()):
            self._table_ends()
        return self._text(line, ended=ended, newline=newline)

    def _is_row(self, line: str) -> bool:
        return not (self._fence or self._decided) and _ROW.match(line) is not None

    def _text(self, line: str, *, ended: bool, newline: bool) -> str:
        """Write what can be shown of a line that is not in a table, and return the rest."""
        if ended and (self._fence or (not self._decided and _FENCE.match(line))):
            self._code(line)
            if newline:
                self._show("\n")
            self._begin()
            return ""
        if not self._decided:
            if not ended and len(line) <= _LONGEST and _UNDECIDED.match(line):
                return line
            if ended and _RULE.match(line):
                self._styled(_FAINT)
                self._show(self._dash * min(40, self._width()))
                line = ""
            line = self._opened(line)
        rest = self._words(line, ended=ended)
        if ended:
            self._styled(_PLAIN if self._styles or self._heading else "")
            if newline:
                self._show("\n")
            self._begin()
        return rest

    def _table_ends(self) -> None:
        """Write the table, if there is one. Without a line of dashes, or room for the columns, it is text."""
        lines, self._table = self._table, []
        is_table = len(lines) > 1 and _DASHES.match(lines[1]) is not None
        heads = _cells(lines[1]) if is_table else []
        cut = [(_cells(line) + [""] * len(heads))[: len(heads)] for line in (*lines[:1], *lines[2:])]
        rows = [[self._unmarked(cell) for cell in row] for row in cut]
        widths = column_widths(rows, self._width())
        if not is_table or sum(widths) + len(GAP) * (len(widths) - 1) > self._width():
            for line in lines:
                self._words(line, ended=True)
                self._show("\n")
                self._begin()
            return
        to_right = [cell.endswith(":") and not cell.startswith(":") for cell in heads]
        for number, row in enumerate(rows):
            for parts in in_columns(row, widths):
                blanks = [" " * (size - cells(part)) for part, size in zip(parts, widths, strict=True)]
                padded = [
                    blank + part if right else part + blank
                    for part, blank, right in zip(parts, blanks, to_right, strict=True)
                ]
                self._styled(_PLAIN if number else _BOLD)
                self._show(GAP.join(padded).rstrip())
                self._styled("" if number else _PLAIN)
                self._show("\n")
            if not number:
                self._styled(_FAINT)
                self._show(GAP.join((self._dash if self._colours else "-") * size for size in widths))
                self._styled(_PLAIN)
                self._show("\n")

    def _unmarked(self, text: str) -> str:
        """Return a cell without the marks of styles."""
        words = ["".join(piece for piece, _ in self._pieces(word)) for word in text.split()]
        self._styles.clear()
        return " ".join(words)

    def _code(self, line: str) -> None:
        """Write a line of code, or a fence."""
        found = _FENCE.match(line)
        if found is not None and (not self._fence or (found[1].startswith(self._fence) and not found[2])):
            self._fence = "" if self._fence else found[1]
            self._styled(_FAINT)
            self._show(line)
            self._styled(_PLAIN)
            return
        self._styled(_CODE)
        self._show(line)
        self._styled(_PLAIN)

    def _opened(self, line: str) -> str:
        """Write the mark at the beginning of a line, and return the rest of the line."""
        self._decided = True
        heading, item, quote = _HEADING.match(line), _ITEM.match(line), _QUOTE.match(line)
        if heading is not None:
            self._heading = True
            self._styled(_BOLD)
            return line[heading.end() :]
        if item is not None:
            mark = "•" if item[2] in "-*+" and self._draws else item[2]
            opening = f"{item[1]}{mark} "
            self._indent = " " * cells(opening)
            self._put(opening)
            return line[item.end() :]
        if quote is not None and quote[0].strip():
            self._indent = "│ " if self._draws else "> "
            self._put(self._indent)
            return line[quote.end() :]
        return line

    def _words(self, text: str, *, ended: bool) -> str:
        """Write the complete words of a text, and return the rest."""
        parts = re.findall(r"\s+|\S+", text)
        rest = "" if ended or not parts or parts[-1].isspace() else parts.pop()
        for part in parts:
            if part.isspace():
                gap = self._gap + part
                self._gap = " " * min(len(gap), 2) if self._column else gap
                self._in_word = False
            else:
                self._word(part)
        if len(rest) <= _LONGEST:
            return rest
        # The end is held back: it may be a part of a mark, or decide on the one that follows.
        begin = rest[:-2].rstrip("`*_") or rest[:-2]
        self._word(begin)
        self._in_word = True
        return rest[len(begin) :]

    def _word(self, word: str) -> None:
        pieces = self._pieces(word)
        size = sum(cells(text) for text, _ in pieces)
        room = self._width()
        wraps = self._column > len(self._indent) and self._column + len(self._gap) + size > room
        if wraps and not self._in_word:
            self._show(f"\n{self._indent}")
            self._column = len(self._indent)
        else:
            self._put(self._gap)
        self._gap, self._in_word = "", False
        for text, style in pieces:
            self._styled(style)
            self._put(text)

    def _pieces(self, word: str) -> list[tuple[str, str]]:
        """Split a word at its marks, and return each text with the style code that precedes it."""
        if not self._colours:
            return [(word, "")]
        pieces: list[tuple[str, str]] = []
        at, style = 0, ""
        for mark in _MARK.finditer(word):
            if not self._changes_style(mark[0], word, mark.start(), mark.end()):
                continue
            pieces.append((word[at : mark.start()], style))
            at, style = mark.end(), self._toggled(mark[0])
        return [*pieces, (word[at:], style)]

    def _changes_style(self, mark: str, word: str, start: int, end: int) -> bool:
        """Return True if a mark begins or ends a style; the marks in 2*3 and snake__case do not."""
        if mark[0] == "`":
            return True
        if "`" in "".join(self._styles):
            return False
        if mark in self._styles:
            return True
        before, after = word[start - 1 : start], word[end : end + 1]
        return bool(after) and not before.isalnum()

    def _toggled(self, mark: str) -> str:
        """Begin or end the style of a mark, and return the code of all styles that are now on."""
        if mark in self._styles:
            self._styles.remove(mark)
        else:
            self._styles.append(mark)
        codes = "".join(_CODE if style[0] == "`" else _STYLES[style] for style in self._styles)
        return _PLAIN + (_BOLD if self._heading else "") + codes

    def _put(self, text: str) -> None:
        self._show(text)
        self._column += cells(text)

    def _styled(self, code: str) -> None:
        if code and self._colours:
            self._show(code)


def _cells(line: str) -> list[str]:
    text = line.strip().removeprefix("|")
    text = text[:-1] if text.endswith("|") and not text.endswith("\\|") else text
    return [cell.strip().replace("\\|", "|") for cell in _BAR.split(text)]
