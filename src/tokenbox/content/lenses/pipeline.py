r"""The parser of pipelines such as ``squeeze |> head(lines=40)``.

    pipeline = lens { "|>" lens }
    lens     = name [ "(" [ argument { "," argument } [ "," ] ] ")" ]
    argument = [ name "=" ] value
    value    = integer | "text" | 'text' | true | false

White space is allowed between tokens. Positional arguments come first. A text may contain the escapes
``\\ \" \' \n \r \t \xHH \uHHHH \UHHHHHHHH``; any other backslash is literal, so that ``"\d+"`` is a regular
expression.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from tokenbox.content.lenses.lens import ArgumentProblem, Lens, LensKind, Value
from tokenbox.content.lenses.registry import find_kind, lens_names
from tokenbox.errors import LensSyntaxError, UnknownLens

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer

# (?!) as a last branch: Python before 3.11.5 keeps what a round of a possessive group read that then failed.
_TOKEN = re.compile(
    r"""(?P<blank>\s+)
      | (?P<pipe>\|>)
      | (?P<punct>[(),=])
      | (?P<name>[A-Za-z_][A-Za-z0-9_-]*)
      | (?P<integer>[+-]?[0-9]+(?![0-9A-Za-z_.]))
      | (?P<text>"(?:[^"\\]|\\.|(?!))*+"|'(?:[^'\\]|\\.|(?!))*+')""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"""\\(?:(?P<plain>[\\"'nrt])|x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8}))"""
)
_PLAIN_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_WORDS = {"true": True, "false": False}
_MAX_DIGITS = 18
_LAST_CODE_POINT = 0x10FFFF
# The number of characters of a long pipeline that an error shows on each side of the position.
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A sequence of lenses. ``str()`` is canonical and parses to an equal pipeline."""

    lenses: tuple[Lens, ...]

    def apply(self, text: str, tokenizer: Tokenizer) -> str:
        """Apply all lenses to the text, in order. Raises the errors of :meth:`Lens.apply`."""
        for lens in self.lenses:
            text = lens.apply(text, tokenizer)
        return text

    @property
    def identity(self) -> str:
        """The text of the pipeline with versions, for a digest: ``squeeze@1 |> head@1(lines=40)``."""
        return " |> ".join(lens.identity for lens in self.lenses)

    def __str__(self) -> str:
        return " |> ".join(map(str, self.lenses))


@lru_cache(maxsize=1024)
def parse_pipeline(text: str) -> Pipeline:
    """Parse a pipeline.

    Raises ``LensSyntaxError`` or ``UnknownLens`` with the position (``details["position"]``, characters from
    0) and ``MissingExtra`` if a lens needs a package that is not installed.
    """
    return _Parser(text).pipeline()


class _Token(NamedTuple):
    kind: str  # a group of _TOKEN, or "end"
    text: str
    start: int
    end: int


_Argument = tuple[str | None, Value, _Token]
"""The name and the value of an argument, and its place."""


class _Parser:
    """A recursive-descent parser with one method per rule of the grammar above."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.token = self.read()

    def pipeline(self) -> Pipeline:
        lenses = [self.lens()]
        while self.token.kind != "end":
            if self.token.kind != "pipe":
                self.fail("expected '|>' or the end", self.token)
            self.advance()
            lenses.append(self.lens())
        return Pipeline(tuple(lenses))

    def lens(self) -> Lens:
        name = self.token
        if name.kind != "name":
            self.fail("expected the name of a lens", name)
        kind = find_kind(name.text)
        if kind is None:
            self.fail_unknown(name)
        self.advance()
        arguments: list[_Argument] = []
        end = name.end
        if self.token.text == "(":
            arguments, end = self.arguments()
        return self.build(kind, arguments, _Token("name", self.text[name.start : end], name.start, end))

    def arguments(self) -> tuple[list[_Argument], int]:
        opening = self.token
        self.advance()
        arguments: list[_Argument] = []
        while self.token.text != ")":
            arguments.append(self.argument())
            if self.token.text == ",":
                self.advance()
            elif self.token.kind == "end":
                self.fail("this '(' is not closed", opening)
            elif self.token.text != ")":
                self.fail("expected ',' or ')'", self.token)
        end = self.token.end
        self.advance()
        return arguments, end

    def argument(self) -> _Argument:
        first = self.token
        if first.kind == "end":
            self.fail("expected a value or ')'", first)
        if first.kind == "name" and first.text not in _WORDS:
            self.advance()
            if self.token.text != "=":
                self.expected_value(first)
            self.advance()
            last = self.token
            return first.text, self.value(), first._replace(end=last.end)
        return None, self.value(), first

    def value(self) -> Value:
        token = self.token
        value: Value
        if token.kind == "text":
            value = self.unescape(token)
        elif token.kind == "integer":
            if len(token.text) > _MAX_DIGITS:
                self.fail(f"a number has at most {_MAX_DIGITS} digits", token)
            value = int(token.text)
        elif token.text in _WORDS:
            value = _WORDS[token.text]
        else:
            self.expected_value(token)
        self.advance()
        return value

    def expected_value(self, token: _Token) -> NoReturn:
        example = f', such as "{token.text}"' if token.kind == "name" else ""
        self.fail(f"expected a value: a number, true or false, or a text in quotes{example}", token)

    def unescape(self, token: _Token) -> str:
        def character(match: re.Match[str]) -> str:
            if match["plain"]:
                return _PLAIN_ESCAPES.get(match["plain"], match["plain"])
            code = int(match["x"] or match["u"] or match["U"], 16)
            if code > _LAST_CODE_POINT:
                start = token.start + 1 + match.start()
                place = token._replace(start=start, end=start + len(match[0]))
                self.fail("no character has that code", place)
            return chr(code)

        return _ESCAPE.sub(character, token.text[1:-1])

    def build(self, kind: LensKind, arguments: list[_Argument], call: _Token) -> Lens:
        positional = [p.name for p in kind.parameters if not p.keyword_only]
        places: dict[str, _Token] = {}
        values: dict[str, Value] = {}
        named = False
        for i, (given, value, place) in enumerate(arguments):
            if given is None:
                if named:
                    self.fail("a value without a name comes before the named ones", place)
                if i >= len(positional):
                    self.fail(f"one value too many: {kind.name} is written {kind.takes}", place)
            named = given is not None
            name = positional[i] if given is None else given
            if name in values:
                self.fail(f"{name} is given twice: {kind.name} is written {kind.takes}", place)
            values[name], places[name] = value, place
        try:
            return kind.make(values)
        except ArgumentProblem as problem:
            where = places.get(problem.parameter or "", call)
            self.fail(f"{kind.name}: {problem}; it is written {kind.takes}", where)

    def advance(self) -> None:
        self.token = self.read()

    def read(self) -> _Token:
        while self.place < len(self.text):
            match = _TOKEN.match(self.text, self.place)
            if match is None:
                self.fail_unreadable()
            start, self.place = self.place, match.end()
            kind = match.lastgroup or "end"
            if kind != "blank":
                return _Token(kind, match[0], start, self.place)
        return _Token("end", "", self.place, self.place)

    def fail(self, message: str, token: _Token) -> NoReturn:
        raise LensSyntaxError(
            f"{message}.\n{_shown(self.text, token.start, token.end)}",
            position=token.start,
            pipeline=self.text,
        )

    def fail_unreadable(self) -> NoReturn:
        start = self.place
        character = self.text[start]
        place = _Token("end", character, start, start + 1)
        if character in "\"'":
            self.fail("this text has no closing quote", place)
        if character in "0123456789+-":
            self.fail("a number is a whole number in digits, such as 40", place)
        if character == "|":
            self.fail("lenses are joined by '|>'", place)
        self.fail(f"{character!r} has no meaning here", place)

    def fail_unknown(self, name: _Token) -> NoReturn:
        near = difflib.get_close_matches(name.text, lens_names(), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(lens_names())}."
        raise UnknownLens(
            f"no lens is called {name.text!r}; {hint}\n{_shown(self.text, name.start, name.end)}",
            name=name.text,
            nearest=near[0] if near else None,
            position=name.start,
            pipeline=self.text,
        )


def _shown(text: str, start: int, end: int) -> str:
    """Return the line of the pipeline with the position, and a line of carets under it."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    last = len(text) if last < 0 else last
    left, right = max(first, start - _SHOWN), min(last, max(start, min(end, last)) + _SHOWN)
    end = min(max(end, start + 1), right + 1)
    before = ("..." if left > first else "") + text[left:start]
    line = before + text[start:right] + ("..." if right < last else "")
    line = "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in line)
    pad = "".join("\t" if c == "\t" else " " for c in before)
    return f"  {line}\n  {pad}{'^' * min(end - start, _SHOWN)}"
