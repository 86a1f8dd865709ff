"""Parsing of queries: words with weights, and the paths, lines and symbols that a query names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import re2

from tokenbox.characters import known, lower
from tokenbox.worth.words import STOP_WORDS, split, stem

# The weight of a word in the title, relative to the body.
TITLE = 4
# The weight of a scope, as in ``fix(parser): ...`` and ``parser: ...``.
SCOPE = 6
MAX_WORDS = 256
# Words that are common in titles of changes and questions. In a title they count as in the body.
_COMMON = frozenset(
    map(
        stem,
        """
        add adds added allow allows avoid bug change correctly ensure error handle implement improve instead
        introduce issue make missing move new prevent properly refactor remove removes rename support supports
        update use used uses using
        """.split(),
    )
)
_PATH = re.compile(
    r"(?<![\w/.@-])(?:\.{0,2}/)?(?:[\w.@+-]+/)*[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,9}(?![\w/])|(?:[\w.@+-]+/)+[\w.@+-]+"
)
# The last one is a path above its findings, as linters print them.
_LINE_AFTER = re.compile(
    r"""["'`]?(?:,? (?:on )?lines? |:(?: ?line | ?[(\[])?|\(|#L|\},\{line,"""
    r"|[ \t]*\n(?:[ -]+\n)?[ \t]+(?=\d+[: ]))(\d{1,6})"
)
_SYMBOL = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|#)[A-Za-z_$][\w$]*)*")
# Names in the frames of a traceback that are neither called nor compound there.
_FRAMES = (
    r", in (<?\w+>?)$",  # Python
    r"^\s+at (?:async |new )?([\w.$<>]+)",  # Java, C#, JavaScript
    r"^\s*([\w.$]+)@[a-z-]+://",  # Firefox
    r"([\w.]+) \(\S+:\d",  # Dart
    r":in [`'](?:[\w ]+ in )?(\w+)[?!]?'",  # Ruby
    r"in (?:function|method|field|local|upvalue) '([\w.:]+)'",  # Lua
    r"0x[0-9a-f]+ in (\w+)",  # debuggers of C
    r"(\w+) \([^)\n]*\) at \S+:\d",
)
_IN_TRACEBACK = re2.compile("(?m)" + "|".join(_FRAMES))
# How tools write places, and what is read in place of that.
_WRITTEN = (
    (re2.compile(r"(\.\w{1,5})\?[\w=&.%-]*(:\d)"), r"\1\2"),  # a development server's module, with a query
    (re2.compile(r"\bpackage:(\w+)/"), r"\1/lib/"),  # Dart's packages have their sources there
    (re2.compile(r"(\.[Rr](?:md)?)#(\d)"), r"\1:\2"),  # a line in R
    # An installed package: its sources may be elsewhere in the repository, as in src/NAME or packages/NAME.
    (re2.compile(r"(?:[\w.@+:-]*[/\\])*(?:(?:site|dist)-packages|node_modules)[/\\](?:@[\w.-]+[/\\])?"), ""),
    (re2.compile(r"(/[\w.]+(?:-[a-z_]\w*)*)[-@]v?\d+(?:\.\d+)+[\w.+-]*/"), r"\1/"),  # with its version
)
# Boilerplate of commit messages and issue trackers, and the hashes of commits.
# re2: the comment of a template has many lines, and ``re`` takes quadratic time where comments do not end.
_NOISE = re2.compile(
    r"(?im)\(?(?:GH-|#)\d+\)?|\[(?:ci[ -]?skip|skip[ -]?ci)\]|^Merge (?:pull request|branch) .*$"
    r"|^(?:[A-Z][a-z]+(?:-[a-z]+)*-by|Change-Id|Reviewed-on|PiperOrigin-RevId|git-svn-id):.*$"
    r"|^(?:Fixes|Closes|Resolves|Refs?):? *(?:GH-|#)?\d*\.?$|<!--(?s:.*?)-->|\b[0-9a-f]{12,64}\b"
)
# Headings of templates of issues and pull requests, such as ``### Steps to reproduce`` and ``**Expected**``.
_HEADING = re2.compile(
    r"(?m)^(?:#{1,6} *|\*\*|__)[A-Z]?[a-z']+(?:[ /-]+[A-Z]?[a-z']+){0,6}[?:]?(?:\*\*|__)?:?"
    r"(?: *:\w+:)?[ \t\r]*$"
)
_KIND = re.compile(
    r"(?:feat|fix|chore|refactor|test|tests|perf|build|ci|docs|style|bug|feature|revert)"
    r"(?:\((?P<scope>[^)]*)\))?!?: *"
    r"|(?P<prefix>[\w./-]+(?:, ?[\w./-]+)*): +(?=\S+ )",
    re.IGNORECASE,
)
_CODE = re.compile(r"`([^`\n]+)`")
# A Windows path. It uses re2, because this pattern takes quadratic time with ``re``.
_BACKSLASHED = re2.compile(r"(?:[A-Za-z]:)?\\?(?:[\w.@+-]+\\)+[\w.@+-]*\.[A-Za-z]\w{0,9}")
# The first line of a traceback. Its last line, or the line after this one, describes the error.
_TRACEBACK = re.compile(
    r"(?:Traceback \(most recent call last\):|[Ss]tack ?[Tt]race:|goroutine \d+ .*|=+ FAILURES =+)\s*\Z"
)
# Runs that are too long for a name: base64, a minified line. The patterns above take quadratic time on them.
_NO_NAME = re.compile(r"[A-Za-z0-9_@+./-]{513,}|[\w@+./-]{2049,}")


@dataclass(frozen=True, slots=True)
class Word:
    """A stem or an identifier to search for. ``whole``: match the identifier as a whole."""

    text: str
    weight: int
    whole: bool = False


@dataclass(frozen=True, slots=True)
class NamedPath:
    """A path that the query names, or the end of one unless ``is_whole``; with the lines that it names."""

    path: str
    lines: tuple[int, ...] = ()
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A query after parsing. ``symbols``: the identifiers that it names, with their weights.

    ``title``: the stems of its first line, with the kind of change. ``members``: names with what they are
    written after, such as ``get`` with ``Session``.
    """

    text: str
    words: tuple[Word, ...]
    places: tuple[NamedPath, ...]
    symbols: dict[str, int]
    title: frozenset[str] = frozenset()
    members: Mapping[str, frozenset[str]] = field(default_factory=dict)


def read_query(text: str) -> Query:
    """Parse an issue, a question, a traceback or a commit message. Its first line is the title."""
    read = _readable(text)
    for pattern, written in _WRITTEN:
        read = pattern.sub(written, read)
    read = _NOISE.sub("", _BACKSLASHED.sub(lambda match: match[0].replace("\\", "/"), read))
    title, _, body = read.strip().partition("\n")
    if _TRACEBACK.match(title):
        title = next((line for line in reversed(body.splitlines()) if re.match(r"\S", line)), title)
    stems = frozenset(map(stem, split(title)))
    body = _HEADING.sub("", body)
    title, scope = _without_kind(title)
    weights: dict[str, int] = {}
    symbols: dict[str, int] = {}
    for part, weight in ((title, TITLE), (body, 1)):
        for word in split(part):
            if word not in STOP_WORDS and (len(word) > 1 or not word.isascii()):
                key = stem(word)
                weights[key] = (
                    max(weights.get(key, 0), weight)
                    if weight == TITLE and key not in _COMMON
                    else min(1 if key in _COMMON else TITLE, weights.get(key, 0) + 1)
                )
        for name, strength in _symbols(part):
            symbols[name] = max(symbols.get(name, 0), weight * strength)
    for word in split(scope):
        weights[stem(word)] = SCOPE
    words = [Word(key, weight) for key, weight in weights.items()]
    words += [Word(name, weight, whole=True) for name, weight in symbols.items() if _is_compound(name)]
    words.sort(key=lambda word: -word.weight)
    return Query(text, tuple(words[:MAX_WORDS]), tuple(_places(read)), symbols, stems, _members(read))


def read_question(text: str) -> Query:
    """Parse a chat message. All words have the same weight; a long message is cut in the middle."""
    read = _readable(text)
    words = [word for word in split(read) if word not in STOP_WORDS and (len(word) > 1 or not word.isascii())]
    found = dict.fromkeys(Word(stem(word), 1) for word in words)
    found |= dict.fromkeys(Word(name, 1, whole=True) for name, _ in _symbols(read) if _is_compound(name))
    listed = list(found)
    if len(listed) > MAX_WORDS:
        listed = [*listed[: MAX_WORDS // 2], *listed[-MAX_WORDS // 2 :]]
    return Query(text, tuple(listed), (), {})


def _readable(text: str) -> str:
    """Remove runs that cannot be names, and lone surrogates, which re2 rejects."""
    return _NO_NAME.sub(" ", known(text.encode("utf-8", "replace").decode()))


def _without_kind(title: str) -> tuple[str, str]:
    """Split off the kind of change, such as ``fix(parser):``. Return the title and the scope."""
    match = _KIND.match(title)
    if match is None or not title[match.end() :].strip():
        return title, ""
    scope = match["scope"] or match["prefix"] or ""
    return f"{scope} {title[match.end() :]}", scope


def _symbols(text: str) -> list[tuple[str, int]]:
    """Return the identifiers in a text, each with weight 2 if it is marked as code or called, else 1."""
    marked = " ".join(_CODE.findall(text))
    found: list[tuple[str, int]] = [
        (name, 2) for dotted in _SYMBOL.findall(marked) for name in _names(dotted)
    ]
    for match in _SYMBOL.finditer(text):
        called = text[match.end() : match.end() + 1] == "("
        names = _names(match[0])
        if called or len(names) > 1 or any(map(_is_compound, names)):
            found += [(name, 2 if called else 1) for name in names]
    for match in _IN_TRACEBACK.finditer(text):
        found += [(name, 2) for name in _names(match[match.lastindex])]
    return [(name, strength) for name, strength in found if len(name) > 1 and lower(name) not in STOP_WORDS]


def _names(dotted: str) -> list[str]:
    return [name for name in re.split(r"\.|::|->|#", dotted) if name]


def _members(text: str) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for match in _SYMBOL.finditer(text):
        for around, name in pairwise(_names(match[0])):
            found.setdefault(name, set()).add(lower(around))
    return {name: frozenset(around) for name, around in found.items()}


def _is_compound(name: str) -> bool:
    """Return whether an identifier consists of several words, so that it is specific."""
    return len(split(name)) > 1


def _places(text: str) -> list[NamedPath]:
    places: dict[str, list[int]] = {}
    for match in _PATH.finditer(text):
        path = match[0].lstrip("./").rstrip(".")
        if not path or path.replace(".", "").isdigit():
            continue
        line = _LINE_AFTER.match(text, match.end())
        lines = places.setdefault(path, [])
        if line and int(line[1]) not in lines:
            lines.append(int(line[1]))
    return [NamedPath(path, tuple(lines)) for path, lines in places.items()]
