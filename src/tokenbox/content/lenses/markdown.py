"""``strip_markdown``: the words of a Markdown text without its marks.

Removed: heading and block quote marks, rules, emphasis and strike-through, the targets of links and images
(their words stay), link definitions, HTML comments, the second line of a table, the fences of code blocks,
the backticks of code without signs in it. Kept: the words, list bullets, the cells of tables, backslash
escapes, HTML tags, addresses. A fenced block becomes an indented one, which is Markdown for the same thing,
so that its code stays as it is.

The rules are applied until nothing changes; what does not settle (marks nested very deep) is left as it was.
Each pass is linear. CommonMark names the rules; where it is ambiguous for plain text, the text wins.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from tokenbox.content.lenses.inline_markdown import link_name, strip_inline
from tokenbox.content.lenses.lines import split_lines

_MAX_PASSES = 8
# No mark of Markdown that begins a line begins with one of these; nor with a letter or digit.
_PLAIN_SIGNS = frozenset(".,;?!()\"'$%&/@{}]\\")

_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})([^\r\n]*)")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)[ \t]*[^\s]")
_RULE = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}+[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_DEFINITION = re.compile(
    r" {0,3}\[((?!\^)[^\[\]\r\n]+)\]:[ \t]*\S+"
    r"(?:[ \t]+(?:\"[^\"]*\"|'[^']*'|\([^()]*\)))?[ \t]*"
)
_TABLE_RULE = re.compile(r" {0,3}(?=[^\r\n]*\|)\|?(?:[ \t]*+:?-+:?[ \t]*+(?:\||$))++[ \t]*")
_QUOTE = re.compile(r"(?: {0,3}>[ \t]?)++")
_HEADING = re.compile(r"(?: {0,3}#{1,6}(?:[ \t]++|$))++")
_COMMENT = re.compile(r" {0,3}<!--")


class _Before(Enum):
    """What the line before was."""

    BLANK = 0
    TEXT = 1
    CODE = 2


class _Line(NamedTuple):
    words: str
    end: str


def strip_markdown(text: str) -> str:
    """The text without Markdown marks."""
    current = text
    for _ in range(_MAX_PASSES):
        following = _strip_once(current)
        if following == current:
            return current
        current = following
    return text


def _strip_once(text: str) -> str:
    return _Pass(text).result()


class _Pass:
    """One pass over the lines: code and blank lines as they are, the text between them without its marks."""

    def __init__(self, text: str) -> None:
        self.lines = [_parted(line) for line in split_lines(text)]
        self.out: list[str] = []
        self.paragraph: list[str] = []  # lines of text whose inline marks are still there
        self.before = _Before.BLANK
        self.comments_end = True  # whether a comment may still be closed somewhere below
        self.fences_end: dict[str, int] = {}  # by mark: from which length on none is closed below
        found = (_DEFINITION.fullmatch(line.words) for line in self.lines if "]:" in line.words)
        self.names = frozenset(link_name(definition[1]) for definition in found if definition)

    def result(self) -> str:
        i = 0
        while i < len(self.lines):
            i = self.line(i)
        self.flush()
        return "".join(self.out)

    def line(self, i: int) -> int:
        """Deal with line ``i``, and what it opens. The number of the next line."""
        words, end = self.lines[i]
        if words[:1].isalnum() or words[:1] in _PLAIN_SIGNS:
            self.paragraph.append(words + end)
            self.before = _Before.TEXT
        elif not words or words.isspace():
            self.keep(words + end, _Before.BLANK)
        elif self.before is not _Before.TEXT and _INDENTED.match(words):
            self.keep(words + end, _Before.CODE)
        elif fence := _FENCE.fullmatch(words):
            return self.fenced(i, fence)
        elif quote := _QUOTE.match(words):
            # What is quoted may be code: it is looked at in the next pass.
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
            # Not code, or code that never ends: as it stands, it is text.
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
        # A fence that is not closed below this line is not closed below a later one either.
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
    """A heading without the ``##`` that may close it."""
    bare = words.rstrip(" \t")
    closed = bare.rstrip("#")
    if closed == bare or not closed.endswith((" ", "\t")) or not closed.strip(" \t#"):
        return words
    return closed.rstrip(" \t")
