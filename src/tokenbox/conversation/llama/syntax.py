"""The tokens of llama.cpp's Jinja and their lexer (common/jinja/lexer.cpp), the tree, and the errors.

Unlike in Jinja2, blocks always trim as with ``trim_blocks`` and ``lstrip_blocks``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from tokenbox.errors import TokenboxError

MAX_SOURCE: Final = 1024 * 1024
MAX_TOKENS: Final = 100_000  # which take a second; the largest known templates have 15,000
MAX_NESTING: Final = 120


class TemplateError(TokenboxError, code="chat_template_error"):
    """A chat template cannot be used, or refuses these messages; the message has the template's own words."""


class TemplateTooLarge(TemplateError, code="chat_template_too_large"):
    """A chat template is longer, or does more, than any that is meant for a model."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A node of the tree: its kind, its parts by position, and its name or constant value."""

    kind: str
    parts: tuple[Any, ...] = ()
    name: str = ""
    value: Any = None

    def nodes(self) -> list[Node]:
        found: list[Node] = []
        for part in self.parts:
            if isinstance(part, Node):
                found.append(part)
            elif isinstance(part, tuple):
                for item in part:
                    if isinstance(item, Node):
                        found.append(item)
                    elif isinstance(item, tuple):
                        found += [inner for inner in item if isinstance(inner, Node)]
        return found

    def walk(self) -> list[Node]:
        found, waiting = [], [self]
        while waiting:
            node = waiting.pop()
            found.append(node)
            waiting += node.nodes()
        return found


# The lexer

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v"} | {c: c for c in "\\'\""}
_SYMBOLS: Final = {
    "{%-": "open", "-%}": "close", "{{-": "print", "-}}": "printed",
    "{%": "open", "%}": "close", "{{": "print", "}}": "printed",
    **{sign: sign for sign in "(){}[],.:|="},
    **dict.fromkeys(("<=", ">=", "==", "!=", "<", ">"), "compare"),
    **dict.fromkeys("+-~", "add"), **dict.fromkeys("*/%", "multiply"),
}  # fmt: skip
_SYMBOL: Final = re.compile("|".join(map(re.escape, sorted(_SYMBOLS, key=len, reverse=True))))
_SPACE: Final = " \t\n\r\f\v"
_WORD: Final = re.compile(r"[A-Za-z0-9_]+")
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
# A quoted text; without a closing quote, it extends to the end of the source.
_STRING: Final = re.compile(r"""(['"])((?:(?!\1)[^\\]|\\.?)*)(\1?)""", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.?)", re.DOTALL)
_BLOCK: Final = re.compile(r"\{[%{#]")
# After these tokens a sign is an operator; after any other it belongs to the next number.
_OPERANDS: Final = frozenset({"name", "number", "string", ")", "]"})


def tokenize(source: str) -> list[Token]:
    """Return the tokens of a template. Raises :class:`TemplateError`."""
    if len(source) > MAX_SOURCE:
        raise TemplateTooLarge(
            f"the chat template has {len(source):,} characters, more than {MAX_SOURCE:,}. Use a shorter one."
        )
    return _Lexer(normalized(source)).run()


def normalized(source: str) -> str:
    """Return the source as it is read: every line ends with a line feed, and a final one is removed."""
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    return text[:-1] if source.endswith("\n") else text


class _Lexer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._tokens: list[Token] = []
        self._depth = 0

    def run(self) -> list[Token]:
        while self._place < len(self._text):
            last = self._tokens[-1].kind if self._tokens else "close"
            if last in {"close", "printed", "comment"} and self._plain():
                continue
            if self._at("{#"):
                end = self._text.find("#}", self._place + 2)
                if end < 0:
                    raise TemplateError("the chat template does not parse: a comment has no end.")
                self._add("comment", "")
                self._place = end + 2
                continue
            if last in {"open", "print"} and self._at("-"):
                self._place += 1
            self._code()
        return self._tokens

    def _at(self, text: str, offset: int = 0) -> bool:
        return self._text.startswith(text, self._place + offset)

    def _add(self, kind: str, text: str) -> None:
        if len(self._tokens) >= MAX_TOKENS:
            raise TemplateTooLarge(
                f"the chat template has more than {MAX_TOKENS:,} words and signs. Use a shorter one."
            )
        self._tokens.append(Token(kind, text))

    def _plain(self) -> bool:
        """Add the text up to the next block, trimmed by the blocks around it. Return False if it is empty."""
        text, start = self._text, self._place
        block = _BLOCK.search(text, start)
        self._place = end = block.start() if block else len(text)
        before, after = text[start - 3 : start] if start > 3 else "", text[end : end + 3]
        found = text[start : self._line_start(start, end) if after[1:2] in {"%", "#"} else end]
        if before[1:] in {"#}", "%}", "-}"} and found.startswith("\n"):
            found = found[1:]
        if before in {"-%}", "-}}", "-#}"}:
            found = found.lstrip(" \t\r\n")
        if after[2:] == "-":
            found = found.rstrip(" \t\r\n")
        if found:
            self._add("text", found)
        return bool(found)

    def _line_start(self, start: int, end: int) -> int:
        """Return the start of the line if only white space precedes the block at ``end``, else ``end``."""
        line = self._text[start:end].rstrip(" \t\r\f\v")
        if not start and len(line) <= 1:  # the first character of a source counts as white space
            return 0
        return start + len(line) if line.endswith("\n") else end

    def _code(self) -> None:
        text = self._text
        while self._place < len(text) and text[self._place] in _SPACE:
            self._place += 1
        if self._place >= len(text):
            return
        letter = text[self._place]
        closing = letter == "-" and text[self._place + 1 : self._place + 2] in {"%", "}"}
        if letter in "+-" and not closing and self._sign(letter):
            return
        if match := _SYMBOL.match(text, self._place):
            symbol = "}" if match[0] == "}}" and self._depth > 0 else match[0]
            kind = _SYMBOLS[symbol]
            self._depth = 0 if kind == "print" else self._depth + (kind == "{") - (kind == "}")
            self._add(kind, symbol)
            self._place += len(symbol)
            return
        if match := _STRING.match(text, self._place):
            self._add("string", _ESCAPE.sub(_unescaped, match[2]))
            if not match[3]:
                raise TemplateError("the chat template does not parse: a text has no end.")
        elif match := _NUMBER.match(text, self._place):
            self._add("number", match[0])
        elif match := _WORD.match(text, self._place):
            self._add("name", match[0])
        else:
            raise TemplateError(f"the chat template does not parse: unexpected {letter!r}.")
        self._place = match.end()

    def _sign(self, letter: str) -> bool:
        last = self._tokens[-1].kind if self._tokens else "text"
        if last == "text":
            raise TemplateError(f"the chat template does not parse: unexpected {letter!r}.")
        if last in _OPERANDS:
            return False
        self._place += 1
        match = _NUMBER.match(self._text, self._place)
        if match:
            self._place = match.end()
            self._add("number", letter + match[0])
        else:
            self._add("sign", letter)
        return True


def _unescaped(match: re.Match[str]) -> str:
    if match[1] not in _ESCAPES:
        raise TemplateError("the chat template does not parse: an unknown escape in a text.")
    return _ESCAPES[match[1]]
