"""The marks inside a paragraph of Markdown: emphasis, links, images, code, comments, addresses in ``<>``."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from tokenbox.content.lenses.graphemes import sticks_to_left

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
# What may follow the ']' of a link: a target in parentheses, which may hold one level of them.
_TARGET = re.compile(
    r"""\([ \t]*+(?:<[^<>\r\n]*+>|[^()\s]*+(?:\([^()\s]*+\)[^()\s]*+)*+)
        (?:\s++(?:"[^"]*+"|'[^']*+'))?+\s*+\)""",
    re.VERBOSE,
)
_NAME = re.compile(r"\[([^\[\]]*+)\]")
_LONGEST_NAME = 999
# Code that reads the same without its backticks, whatever stands around it: a word in it, and no sign of
# Markdown but an underscore between letters or digits.
_INERT = re.compile(r"(?=[^\w]*+[^\W_])(?:[^\W_]++(?:_++(?=[^\W_]))?+|[^\w*`\[\]<>#~!\\|\r\n]++)++")
_STRIKE = 2


@dataclass(slots=True)
class _Run:
    """A run of ``*``, ``_`` or ``~`` that may open emphasis. ``piece`` is its place in the output."""

    mark: str
    length: int
    piece: int


def strip_inline(text: str, names: frozenset[str]) -> str:
    """One paragraph without the marks inside it; ``names`` are those that link definitions define.

    Linear: every mark is looked at once.
    """
    return _Paragraph(text, names).result() if _TOKEN.search(text) else text


def link_name(words: str) -> str:
    """The name of a link definition as names are compared: without case, each run of blanks as one."""
    return " ".join(words.casefold().split())


class _Paragraph:
    def __init__(self, text: str, names: frozenset[str]) -> None:
        self.text = text
        self.names = names
        self.pieces: list[str] = []
        self.runs: list[_Run] = []  # may still be closed
        self.waiting = {"*": 0, "_": 0, "~": 0}  # how many of each are in runs
        self.brackets: list[tuple[int, int]] = []  # of '[' and '![': place in pieces, end in the text
        self.ticks: dict[int, list[int]] = {}  # by length of a run of backticks: its places, last first
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
        """Write what stands for the mark. Where to read on."""
        kind = match.lastgroup
        words, end = match[0], match.end()
        if sticks_to_left(self.text[end : end + 1]):
            kind = "literal"  # the last sign carries a combining mark: it is a letter, not a mark of Markdown
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
        places = self.ticks.get(len(match[0]), [])  # none for what an escape has cut short
        while places and places[-1] < match.end():
            places.pop()
        if not places:
            self.pieces.append(match[0])
            return match.end()
        end = places[-1] + len(match[0])
        words = self.text[match.end() : places[-1]]
        bare = _INERT.fullmatch(words) and not words[0].isspace() and not words[-1].isspace()
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
        """The ``]`` that ends at ``end``. It goes, and its ``[``, if it is a link."""
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
        """Take the marks that this run closes from the runs before it. How many of its own are left."""
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
    """Whether a run may open and may close emphasis (CommonMark, delimiter runs)."""
    if _is_ascii_word(before) and _is_ascii_word(after):
        return False, False  # a*b*c and 2**3 are sums, not emphasis
    blank_before, blank_after = not before or before.isspace(), not after or after.isspace()
    sign_before, sign_after = _is_sign(before), _is_sign(after)
    left = not blank_after and (not sign_after or blank_before or sign_before)
    right = not blank_before and (not sign_before or blank_after or sign_after)
    if mark == "_":
        return left and (not right or sign_before), right and (not left or sign_after)
    return left, right


def _is_sign(character: str) -> bool:
    return bool(character) and unicodedata.category(character)[0] in "PS"


def _is_ascii_word(character: str) -> bool:
    return character.isascii() and character.isalnum()
