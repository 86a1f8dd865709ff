"""``strip_markdown``: Markdown without its markup.

Removed: heading and block quote markers, thematic breaks, emphasis and strikethrough, the targets of links
and images (their text is kept), link definitions, HTML comments, the delimiter row of a table, the fences of
code blocks, the backticks of code without punctuation. Kept: the text, list bullets, table cells, backslash
escapes, HTML tags, URLs. A fenced code block becomes an indented one, so that its code is not stripped.

The rules are applied until nothing changes. A text that does not settle (markup nested very deeply) is
returned unchanged. Each pass takes linear time. The rules are CommonMark's; in doubt, characters are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from tokenbox.characters import casefold, category, known
from tokenbox.content.lenses.lens import lens
from tokenbox.content.lenses.lines import split_lines
from tokenbox.tokenizers.graphemes import sticks_to_left

_MAX_PASSES = 8
# A line that begins with one of these, or with a letter or digit, begins with no markup.
_PLAIN_STARTS = frozenset(".,;?!()\"'$%&/@{}]\\")

_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})([^\r\n]*)")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)[ \t]*[^\s]")
# (?!) as a last branch: Python before 3.11.5 keeps what a round of a possessive group read that then failed.
_RULE = re.compile(r" {0,3}([-*_])(?:[ \t]*\1|(?!)){2,}+[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_DEFINITION = re.compile(
    r" {0,3}\[((?!\^)[^\[\]\r\n]+)\]:[ \t]*\S+"
    r"(?:[ \t]+(?:\"[^\"]*\"|'[^']*'|\([^()]*\)))?[ \t]*"
)
_TABLE_RULE = re.compile(r" {0,3}(?=[^\r\n]*\|)\|?(?:[ \t]*+:?-+:?[ \t]*+(?:\||$)|(?!))++[ \t]*")
_QUOTE = re.compile(r"(?: {0,3}>[ \t]?|(?!))++")
_HEADING = re.compile(r"(?: {0,3}#{1,6}(?:[ \t]++|$)|(?!))++")
_COMMENT = re.compile(r" {0,3}<!--")


class _Before(Enum):
    """The kind of the preceding line."""

    BLANK = 0
    TEXT = 1
    CODE = 2


class _Line(NamedTuple):
    words: str
    end: str


@lens("1", "Markdown without its markup")
def strip_markdown(text: str) -> str:
    """Return the text without Markdown markup."""
    current = text
    for _ in range(_MAX_PASSES):
        following = _Pass(current).result()
        if following == current:
            return current
        current = following
    return text


class _Pass:
    """One pass over the lines. It keeps code and blank lines, and strips the text between them."""

    def __init__(self, text: str) -> None:
        self.lines = [_parted(line) for line in split_lines(text)]
        self.out: list[str] = []
        self.paragraph: list[str] = []  # lines of text, not yet stripped of inline markup
        self.before = _Before.BLANK
        self.comments_end = True  # False once a comment was found that is never closed
        self.fences_end: dict[str, int] = {}  # by character: the least length without a closing fence below
        found = (_DEFINITION.fullmatch(line.words) for line in self.lines if "]:" in line.words)
        self.names = frozenset(link_name(definition[1]) for definition in found if definition)

    def result(self) -> str:
        i = 0
        while i < len(self.lines):
            i = self.line(i)
        self.flush()
        return "".join(self.out)

    def line(self, i: int) -> int:
        """Process line ``i`` and the block that it opens. Return the number of the next line."""
        words, end = self.lines[i]
        if known(words[:1]).isalnum() or words[:1] in _PLAIN_STARTS:
            self.paragraph.append(words + end)
            self.before = _Before.TEXT
        elif not words or words.isspace():
            self.keep(words + end, _Before.BLANK)
        elif self.before is not _Before.TEXT and _INDENTED.match(words):
            self.keep(words + end, _Before.CODE)
        elif fence := _FENCE.fullmatch(words):
            return self.fenced(i, fence)
        elif quote := _QUOTE.match(words):
            # The quoted text may be code. The next pass strips it.
            self.keep(words[quote.end() :] + end, _Before.TEXT)
        elif _COMMENT.match(words) and self.comments_end:
            return self.comment(i)
        elif _RULE.fullmatch(words):
            self.keep(end, _Before.BLANK)
        elif (
            (self.before is _Before.TEXT and _UNDERLINE.fullmatch(words))
            or (self.before is _Before.TEXT and _TABLE_RULE.fullmatch(words))
            or (self.before is not _Before.TEXT and _DEFINITION.fullmatch(words))
        ):
            pass
        else:
            self.text(words, end)
        return i + 1

    def text(self, words: str, end: str) -> None:
        if heading := _HEADING.match(words):
            words = _without_closing_marks(words[heading.end() :])
        self.paragraph.append(words + end)
        self.before = _Before.TEXT

    def fenced(self, i: int, fence: re.Match[str]) -> int:
        indent, mark, info = fence[1], fence[2], fence[3]
        close = None if mark[0] in info else self.closing_fence(i, mark)
        if close is None:
            # Not a fence, or one that is never closed: this is text.
            self.text(*self.lines[i])
            return i + 1
        self.flush()
        if self.before is _Before.TEXT:
            self.keep(self.lines[i].end, _Before.BLANK)
        for words, end in self.lines[i + 1 : close]:
            inner = words[len(indent) :] if words.startswith(indent) else words.lstrip(" ")
            self.out.append((f"    {inner}" if inner and not inner.isspace() else inner) + end)
        self.before = _Before.CODE
        return close + 1

    def closing_fence(self, i: int, mark: str) -> int | None:
        # A fence that is not closed below this line is not closed below a later line either.
        if self.fences_end.get(mark[0], len(mark) + 1) <= len(mark):
            return None
        closing = re.compile(rf" {{0,3}}{re.escape(mark)}{re.escape(mark[0])}*[ \t]*")
        for j in range(i + 1, len(self.lines)):
            if closing.fullmatch(self.lines[j].words):
                return j
        self.fences_end[mark[0]] = len(mark)
        return None

    def comment(self, i: int) -> int:
        for j in range(i, len(self.lines)):
            start = self.lines[j].words.find("-->", 0 if j > i else self.lines[i].words.find("<!--") + 4)
            if start >= 0:
                rest = self.lines[j].words[start + 3 :]
                if rest and not rest.isspace():
                    self.text(rest, self.lines[j].end)
                return j + 1
        self.comments_end = False
        return self.line(i)

    def keep(self, line: str, kind: _Before) -> None:
        self.flush()
        self.out.append(line)
        self.before = kind

    def flush(self) -> None:
        if self.paragraph:
            self.out.append(strip_inline("".join(self.paragraph), self.names))
            self.paragraph.clear()


def _parted(line: str) -> _Line:
    words = line.rstrip("\r\n")
    return _Line(words, line[len(words) :])


def _without_closing_marks(words: str) -> str:
    """Return a heading without a closing ``##``."""
    bare = words.rstrip(" \t")
    closed = bare.rstrip("#")
    if closed == bare or not closed.endswith((" ", "\t")) or not closed.strip(" \t#"):
        return words
    return closed.rstrip(" \t")


_ADDRESS = r"[a-zA-Z][a-zA-Z0-9+.-]{1,15}://[^\s<>()\[\]*`\\]++"
_TOKEN = re.compile(
    rf"""(?P<escape>\\[!-/:-@\[-`{{-~])
      | (?P<ticks>`++)
      | (?P<comment><!--)
      | (?P<auto><(?P<target>{_ADDRESS})>)
      | (?P<address>(?<![a-zA-Z0-9+.-]){_ADDRESS})
      | (?P<open>!?\[)
      | (?P<close>\])
      | (?P<run>\*++|_++|~++)""",
    re.VERBOSE,
)
# The target of a link after its ']': in parentheses, which may contain one more level of parentheses.
_TARGET = re.compile(
    r"""\([ \t]*+(?:<[^<>\r\n]*+>|[^()\s]*+(?:\([^()\s]*+\)[^()\s]*+|(?!))*+)
        (?:\s++(?:"[^"]*+"|'[^']*+')|(?!))?+\s*+\)""",
    re.VERBOSE,
)
_NAME = re.compile(r"\[([^\[\]]*+)\]")
_LONGEST_NAME = 999
# Code that is unambiguous without its backticks in any context: it contains a word, and no Markdown character
# except an underscore between letters or digits.
_INERT = re.compile(r"(?=[^\w]*+[^\W_])(?:[^\W_]++(?:_++(?=[^\W_])|(?!))?+|[^\w*`\[\]<>#~!\\|\r\n]++|(?!))++")
_STRIKE = 2


@dataclass(slots=True)
class _Run:
    """A run of ``*``, ``_`` or ``~`` that may open emphasis. ``piece``: its index in the output."""

    mark: str
    length: int
    piece: int


def strip_inline(text: str, names: frozenset[str]) -> str:
    """Return a paragraph without inline markup. ``names``: the names of all link definitions.

    It takes linear time: each marker is processed once.
    """
    return _Paragraph(text, names).result() if _TOKEN.search(text) else text


def link_name(words: str) -> str:
    """Normalize the name of a link definition for comparison: case and runs of white space do not matter."""
    return " ".join(casefold(words).split())


class _Paragraph:
    def __init__(self, text: str, names: frozenset[str]) -> None:
        self.text = text
        self.names = names
        self.pieces: list[str] = []
        self.runs: list[_Run] = []  # runs that may still be closed
        self.waiting = {"*": 0, "_": 0, "~": 0}  # the number of runs of each character
        self.brackets: list[
            tuple[int, int]
        ] = []  # each '[' or '![': its index in pieces, its end in the text
        self.ticks: dict[int, list[int]] = {}  # by length of a run of backticks: its positions, last first
        self.comments_end = True

    def result(self) -> str:
        for match in re.finditer(r"`+", self.text):
            self.ticks.setdefault(len(match[0]), []).append(match.start())
        for places in self.ticks.values():
            places.reverse()
        place = 0
        while token := _TOKEN.search(self.text, place):
            self.pieces.append(self.text[place : token.start()])
            place = self.token(token)
        self.pieces.append(self.text[place:])
        return "".join(self.pieces)

    def token(self, match: re.Match[str]) -> int:
        """Process one marker. Return the position after it."""
        kind = match.lastgroup
        words, end = match[0], match.end()
        if sticks_to_left(self.text[end : end + 1]):
            kind = "literal"  # its last character has a combining mark, so it is not markup
        if kind == "ticks":
            return self.code(match)
        if kind == "comment":
            return self.comment(match)
        if kind == "auto":
            self.pieces.append(match["target"])
        elif kind == "open":
            self.brackets.append((len(self.pieces), end))
            self.pieces.append(words)
        elif kind == "close" and self.brackets:
            return self.link(end)
        elif kind == "run":
            self.run(match)
        else:
            self.pieces.append(words)
        return end

    def code(self, match: re.Match[str]) -> int:
        places = self.ticks.get(len(match[0]), [])  # empty if an escape shortened the run
        while places and places[-1] < match.end():
            places.pop()
        if not places:
            self.pieces.append(match[0])
            return match.end()
        end = places[-1] + len(match[0])
        words = self.text[match.end() : places[-1]]
        bare = _INERT.fullmatch(known(words)) and not words[0].isspace() and not words[-1].isspace()
        whole = self.text[match.start() : end]
        self.pieces.append(words if bare and not sticks_to_left(self.text[end : end + 1]) else whole)
        return end

    def comment(self, match: re.Match[str]) -> int:
        close = self.text.find("-->", match.end()) if self.comments_end else -1
        if close < 0:
            self.comments_end = False
            self.pieces.append(match[0])
            return match.end()
        return close + 3

    def link(self, end: int) -> int:
        """Process the ``]`` that ends at ``end``. Remove it and its ``[`` if they enclose a link."""
        piece, start = self.brackets.pop()
        after = self.link_end(start, end)
        if after is None or sticks_to_left(self.text[after : after + 1]):
            self.pieces.append("]")
            return end
        self.pieces[piece] = ""
        return after

    def link_end(self, start: int, end: int) -> int | None:
        if target := _TARGET.match(self.text, end):
            return target.end()
        if not self.names or end - start > _LONGEST_NAME:
            return None
        name = _NAME.match(self.text, end, end + _LONGEST_NAME)
        if name and link_name(name[1] or self.text[start : end - 1]) in self.names:
            return name.end()
        return end if link_name(self.text[start : end - 1]) in self.names else None

    def run(self, match: re.Match[str]) -> None:
        mark, length = match[0][0], len(match[0])
        before = self.text[match.start() - 1 : match.start()] if match.start() else ""
        after = self.text[match.end() : match.end() + 1]
        opens, closes = _flanks(mark, before, after)
        if mark == "~" and length != _STRIKE:
            opens = closes = False
        if closes:
            length = self.close(mark, length)
        piece = len(self.pieces)
        self.pieces.append(mark * length)
        if length and opens:
            self.runs.append(_Run(mark, length, piece))
            self.waiting[mark] += 1

    def close(self, mark: str, length: int) -> int:
        """Remove the markers that this run closes from earlier runs. Return how many of its own remain."""
        while length and self.waiting[mark]:
            run = self.runs[-1]
            if run.mark == mark:
                closed = min(run.length, length)
                run.length -= closed
                length -= closed
                self.pieces[run.piece] = mark * run.length
            if run.mark != mark or not run.length:
                self.waiting[run.mark] -= 1
                self.runs.pop()
        return length


def _flanks(mark: str, before: str, after: str) -> tuple[bool, bool]:
    """Return whether a run may open and whether it may close emphasis (CommonMark, delimiter runs)."""
    if _is_ascii_word(before) and _is_ascii_word(after):
        return False, False  # a*b*c and 2**3 are formulas, not emphasis
    blank_before, blank_after = not before or before.isspace(), not after or after.isspace()
    punctuation_before, punctuation_after = _is_punctuation(before), _is_punctuation(after)
    left = not blank_after and (not punctuation_after or blank_before or punctuation_before)
    right = not blank_before and (not punctuation_before or blank_after or punctuation_after)
    if mark == "_":
        return left and (not right or punctuation_before), right and (not left or punctuation_after)
    return left, right


def _is_punctuation(character: str) -> bool:
    return bool(character) and category(character)[0] in "PS"


def _is_ascii_word(character: str) -> bool:
    return character.isascii() and character.isalnum()
