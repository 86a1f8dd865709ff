"""The definitions in a source file whose language has no grammar, by the beginnings of lines and indents.

A definition begins at its head (``heads``). It ends before the next line that is indented as far as the
head or less, and is another head, or comes after a blank line and closes nothing. Comments, attributes and
documentation directly above the head belong to it. No line of a comment or string over several lines is a
head: documentation is full of examples. Every step is linear in the source.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import re2

from tokenbox.content.lenses.definition import COMMENT_TAGS, Definition, DefinitionRole

if TYPE_CHECKING:
    from tokenbox.content.lenses.heads import Heads

# The beginnings of lines above a head that belong to it: comments, attributes, specifications.
_ABOVE = re.compile(rb"[ \t]*(?:[/#;%!@'*-]|\|#|\|\|\||\(\*|\[<|\[[A-Z]|\{-|<#|[a-z_]\w*'* +::)")
# Lines that say nothing about where a definition ends: comments and directives.
_COMMENT = re.compile(rb"[ \t]*(?:[/#;%!`*]|\(\*|--|\{-)")
# The beginnings of lines that never end a definition: they close or continue a block.
_NEUTRAL = re.compile(
    rb"[ \t]*(?:[}\])>|]|(?:end|done|fi|esac|endif|in|where|then|else|elseif|elsif|elif|rescue"
    rb"|catch|finally|after|begin|do|contains|private|public|protected)\b)",
    re.IGNORECASE,
)
_DIRECTIVE = re.compile(
    r"[ \t]*(?:\{-#|#[ \t]*(?:if|ifn?def|el(?:se|if)|endif|define|undef|include|pragma|error|line"
    r"|(?:end)?region)\b)"
)
# Blocks of documentation above a head, by their last line and their first.
_BLOCKS = (
    (re.compile(rb'[ \t]*"""[ \t]*\r?$'), re.compile(rb'[^\n]*"""')),
    (re.compile(rb"[^\n]*\*/[ \t]*\r?$"), re.compile(rb"[ \t]*/\*")),
    (re.compile(rb"[^\n]*\+/[ \t]*\r?$"), re.compile(rb"[ \t]*/\+")),
    (re.compile(rb"[^\n]*\*\)[ \t]*\r?$"), re.compile(rb"[ \t]*\(\*")),
    (re.compile(rb"[^\n]*-\}[ \t]*\r?$"), re.compile(rb"[ \t]*\{-")),
    (re.compile(rb"[^\n]*-/[ \t]*\r?$"), re.compile(rb"[ \t]*/-")),
    (re.compile(rb"[ \t]*#>[ \t]*\r?$"), re.compile(rb"[ \t]*<#")),
)
_MAX_ABOVE = 600  # lines
_MAX_SIGNATURE = 40  # lines
_MAX_CONTINUED = 8  # lines
_MAX_SPECIFICATION = 40  # lines
_MAX_DEPTH = 12
_MAX_NAME = 120
# Words that begin statements, where a declaration of C's family would begin with a type.
_STATEMENTS = re.compile(
    rb"(?:return|if|else|for|foreach|while|switch|case|throw|new|await|yield|assert|delete|goto|import|using"
    rb"|elseif|elif|until|unless|when|catch|try|do|static (?:assert|if|foreach))\b"
)
_PACKAGE = re.compile(rb"package\b")  # begins a statement in some languages, and a type in others
# A member in Objective-C, Pascal (after its type) or Julia (of another module), and an addition to a type
# that is defined elsewhere.
_MEMBER = re.compile(
    rb"[-+] *\(|@property\b|@(?:interface|implementation)\b[^(:\n]*\("
    rb"|(?i:(?:class +)?(?:function|procedure|constructor|destructor)) +\w+(?:<[^>\n]*>)?\.\w"
)
_PARENTHESIS = re.compile(rb"[()]")
_CLOSES = re.compile(rb"[ \t]*[)}\]]")
_QUOTES = re.compile(rb"\\.")  # and all else after a backslash
_SECOND = re.compile(rb"[ \t]*\)[ \t]*\([ \t]*\r?$")  # the ports after the parameters of a module in Verilog
# Types whose members are as good as at the top.
_MODULE = re.compile(rb"(?:def|bare|sub)?module\b|namespace\b|package\b|library\b|program\b", re.IGNORECASE)
_NOTE = re.compile(r"^[\s/*+#!;%'\"(|^<>{-]+|(?<![\s/*+#-])(?:[\s/+]|\*\)?|-\}?|#>?)+$")
# The beginning of a license in a definition, which may be long.
_NOTICE = re.compile(rb"(?i)(?<![ \t])[ \t]*/\*(?:(?!\*/)[^\0]){0,200}?(?:copyright|licen[cs]e)")
# The tags of documentation before its first sentence.
_DOC = re.compile(r"""[@\\](?:brief|title|description|summary) +|@\w*doc\w* *(?:~?\w+)?["']+""")
# A note has at least two words, and is no attribute, field of a header, directive or license.
_NO_NOTE = re.compile(
    r"\S*$|@[\w\[]|[=-]|\[<|\[[^\n]*\]$|\w+ *: {2}|(?:.* )?(?:©|\([cC]\)|[12][0-9]{3} [A-Z])"
    r"|(?:pragma|template|macro|inheritdoc|SPDX|Copyright|Licensed|no critic)\b"
)
# How comments and strings over several lines begin: in each case one group is their mark.
_TEXT: re.Pattern[bytes] = re2.compile(
    rb"""(?m)^[ \t]*(?:(/\*)[\s*!/]|(/\+)[\s+]|(/-)[\s!-]|(\(\*)[\s*=#|!-]|(\{-)|(<#)|(#=)\s|(#\[)\s|(#\|)"""
    rb"""|[@\w~ ]*(\"\"\"))|(\"\"\")[ \t]*\r?$|~[A-Za-z](''')|^(=(?:head1|pod|encoding))\b"""
)
# How the text of each group ends.
_TEXT_ENDS = (
    b"*/",
    b"+/",
    b"-/",
    b"*)",
    b"-}",
    b"#>",
    b"=#",
    b"]#",
    b"|#",
    b'"""',
    b'"""',
    b"'''",
    b"\n=cut",
)
_POD = len(_TEXT_ENDS)  # the group of Perl's documentation, which may last to the end of the file
_ML = 1 + _TEXT_ENDS.index(b"*)")  # in Lisp, ``(*`` multiplies
_NO_TEXT = sys.maxsize, sys.maxsize


class _Head(NamedTuple):
    """The head of a definition. ``start``: of its line."""

    start: int
    indent: int
    name: str
    is_type: bool


@dataclass(slots=True)
class _Open:
    """A definition as far as it has been read. ``last`` is the end of its last line that is not blank."""

    name: str
    is_type: bool
    indent: int
    first: int
    start: int
    signature: int
    note: str
    last: int = 0
    inside: list[_Open] = field(default_factory=list)


def headed_definitions(source: bytes, heads: Heads) -> tuple[Definition, ...]:
    """Return the definitions in ``source``, in order, members inside their containers."""
    return tuple(_Reader(source, heads).read())


def names(source: bytes, heads: Heads) -> list[str]:
    """Return the names of types, and of what is in no type, or only in a module."""
    found = [
        head for head in _found(source, heads) if _MEMBER.match(source, head.start + head.indent) is None
    ]
    in_module = any(_MODULE.match(source, head.start + head.indent) is not None for head in found)
    least = min((head.indent for head in found if not head.is_type), default=0) if in_module else 0
    return [
        head.name
        for head in found
        if head.name
        and (head.is_type or head.indent <= least)
        and (heads.unnamed is None or heads.unnamed.match(source, head.start + head.indent) is None)
    ]


def _found(source: bytes, heads: Heads) -> Iterator[_Head]:
    """Yield the heads in ``source``."""
    pattern, of_type = _pattern(heads)
    has_packages = "package" in f"{heads.types} {heads.others}"
    texts = _texts(source, heads)
    first, end = next(texts, _NO_TEXT)
    for match in pattern.finditer(source):
        indent, *groups = match.groups()
        start, begin = match.start(), match.start() + len(indent)
        while end <= start:
            first, end = next(texts, _NO_TEXT)
        is_package = not has_packages and _PACKAGE.match(source, begin) is not None
        is_import = heads.imports is not None and heads.imports.match(source, begin) is not None
        if start > first or is_package or is_import or _STATEMENTS.match(source, begin) is not None:
            continue
        name = next(filter(None, groups), b"")
        if name == b"constructor" and not indent:
            continue  # Kotlin's primary constructor belongs to the class above
        text = name[:_MAX_NAME].decode("utf-8", "replace").strip(" `").rstrip(":").replace('" "', ".")
        yield _Head(start, len(indent), text, of_type > 0 and groups[of_type - 1] is not None)


def _texts(source: bytes, heads: Heads) -> Iterator[tuple[int, int]]:
    """Yield where each comment or string over several lines begins and ends."""
    end = 0
    unclosed = {_ML} if heads.comment == ";" else set()
    for match in _TEXT.finditer(source):
        kind = match.lastindex or 0
        if match.start() < end or kind in unclosed:
            continue
        mark = _TEXT_ENDS[kind - 1]
        closed = source.find(mark, match.end(kind))
        if closed < 0 and kind == _POD:
            closed = len(source)
        if closed < 0:
            unclosed.add(kind)
        else:
            end = closed + len(mark)
            yield match.start(kind), end


@cache
def _pattern(heads: Heads) -> tuple[re.Pattern[bytes], int]:
    """Return the pattern of all heads, and its group that matches, empty, after the head of a type.

    The first group is the indent, the others are names.
    """
    parts = [f"(?:{part}){mark}" for part, mark in ((heads.types, "()"), (heads.others, "")) if part]
    compiled: re.Pattern[bytes] = re2.compile(rb"(?m)^([ \t]*)(?:" + "|".join(parts).encode() + b")")
    return compiled, re.compile(heads.types).groups + 1 if heads.types else 0


@cache
def _lines_like(pattern: str) -> re.Pattern[bytes]:
    """Return the pattern of lines that begin so; of none if it is empty."""
    compiled: re.Pattern[bytes] = re2.compile(rb"[ \t]*(?:" + (pattern or "$.").encode() + b")")
    return compiled


def _note(line: str) -> str:
    """Return a line of documentation without its marks."""
    text = _NOTE.sub("", COMMENT_TAGS.sub("", line.strip()))
    tag = _DOC.match(text)
    return text if tag is None else text[tag.end() :].rstrip("\"'")


def indent_of(line: bytes) -> int:
    """Return the column at which a line begins. Tabs go to every 8th: GNU's sources mix them with blanks."""
    blank = line[: len(line) - len(line.lstrip(b" \t"))]
    return len(blank.expandtabs()) if b"\t" in blank else len(blank)


def _close(stack: list[_Open], indent: int, last: int, *, same: bool) -> None:
    """Close, at ``last``, the definitions indented deeper; ``same``: also those indented alike."""
    while stack and (indent < stack[-1].indent or (same and indent == stack[-1].indent)):
        stack.pop().last = last


class _Reader:
    def __init__(self, source: bytes, heads: Heads) -> None:
        self._source = source
        self._heads = heads
        ends = [match.end() for match in re.finditer(rb"\n", source)]
        if not ends or ends[-1] < len(source):
            ends.append(len(source))
        self._ends = ends

    def read(self) -> Iterator[Definition]:
        """Yield the definitions at the top, with those in them."""
        found = {head.start: head for head in _found(self._source, self._heads)}
        top: list[_Open] = []
        stack: list[_Open] = []
        is_after_blank = False
        free = start = last = 0  # the end of the last line that belongs to the open definitions
        for n, end in enumerate(self._ends):
            line = self._source[start:end]
            head, begin, start = found.get(start), start, end
            if not line.strip():
                is_after_blank = True
                continue
            if head is None and _COMMENT.match(line) is not None:
                last = last if is_after_blank else end
                continue
            indent = indent_of(line)
            closes = bool(stack) and indent <= stack[-1].indent
            if closes and (head is not None or _NEUTRAL.match(line) is None):
                _close(stack, indent, last, same=head is not None or is_after_blank)
            is_after_blank = False
            if head is not None and len(stack) < _MAX_DEPTH and (not stack or stack[-1].is_type):
                opened = self._open(n, begin + len(line) - len(line.lstrip(b" \t")), head, free)
                stack.append(self._added(stack[-1].inside if stack else top, opened))
                free = n + 1 if head.name else free
            last = end
        _close(stack, -1, last, same=False)
        yield from map(self._definition, top)

    def _added(self, siblings: list[_Open], opened: _Open) -> _Open:
        """Add a definition to its siblings; return the one before it if it is another clause of that."""
        if self._continues(siblings, opened):
            return siblings[-1]
        if siblings and not siblings[-1].name and siblings[-1].first >= opened.first:
            siblings.pop()  # a mark directly above
        if siblings:
            siblings[-1].last = min(siblings[-1].last, opened.first)
        siblings.append(opened)
        return opened

    def _open(self, n: int, start: int, head: _Head, free: int) -> _Open:
        """Return the definition whose head is line ``n``; lines before ``free`` belong to others."""
        first = n
        is_open = False
        while first > free and n - first < _MAX_ABOVE:
            line = self._line(first - 1)
            ends_block = not is_open and any(ends.match(line) is not None for ends, _ in _BLOCKS)
            begin = self._block_start(first - 1, free, line) if ends_block else None
            is_open |= ends_block and begin is None  # further searches would read the same lines
            if begin is None and _ABOVE.match(line) is None:
                break
            first = first - 1 if begin is None else begin
        above = b"".join(self._line(k) for k in range(first, n)).decode("utf-8", "replace")
        has_directives = self._heads.comment != "#"
        lines = (line for line in above.splitlines() if not (has_directives and _DIRECTIVE.match(line)))
        notes = map(_note, lines)
        note = next((line for line in notes if line and _NO_NOTE.match(line) is None), "")
        signature = self._ends[n] if head.is_type and self._heads.calls else self._signature(n)
        below = self._heads.note_below
        if below is not None and not note and not head.is_type:  # a type shows its documentation anyway
            line = self._source[signature : self._source.find(b"\n", signature) + 1].strip()
            note = _note(line.decode("utf-8", "replace")) if line.startswith(below) else ""
        indent = indent_of(self._line(n))
        return _Open(head.name, head.is_type, indent, self._begin(first), start, signature, note)

    def _block_start(self, n: int, free: int, line: bytes) -> int | None:
        """Return the first line of the block of documentation that ends in line ``n``, if one does."""
        for ends, begins in _BLOCKS:
            if ends.match(line) is not None:
                for k in range(n, max(free, n - _MAX_ABOVE) - 1, -1):
                    if begins.match(self._line(k)) is not None and (k < n or ends is not _BLOCKS[0][0]):
                        return k
        return None

    def _signature(self, n: int) -> int:
        """Return the end of the signature whose first line is ``n``."""
        if _lines_like(self._heads.specifications).match(self._line(n)) is not None:
            return self._ends[self._last_deeper(n)]
        last = self._continued(n, self._closed(n)) if self._heads.spans_lines else n
        return self._ends[self._last_argued(last)]

    def _last_argued(self, n: int) -> int:
        """Return the line below line ``n``, or its documentation, that names the arguments; or ``n``."""
        arguments, is_text = self._heads.arguments, False
        if arguments is None:
            return n
        for k in range(n + 1, min(n + 1 + _MAX_CONTINUED, len(self._ends))):
            line = self._line(k)
            if not is_text and arguments.match(line) is not None:
                return k
            if not (is_text or line.lstrip().startswith(b'"')):
                return n
            is_text ^= _QUOTES.sub(b"", line).count(b'"') % 2 == 1
        return n

    def _closed(self, n: int) -> int:
        """Return the line in which the parentheses are closed that are opened from line ``n`` on."""
        depth, last, ends = 0, n, self._heads.ends
        for k in range(n, min(n + _MAX_SIGNATURE, len(self._ends))):
            line, free = self._line(k), 0
            for mark in _PARENTHESIS.finditer(line):
                if depth == 0 and ends is not None and ends.search(line, free, mark.start()):
                    return k  # the others are those of the body: ``let f (x) = g (fun``
                depth, free = depth + (1 if mark[0] == b"(" else -1), mark.end()
                if depth == 0 and k > n:
                    last = k
                    # what follows on the same line opens other parentheses: ``) : this.of(``
                    if _SECOND.match(line) is None:
                        return k
            if depth <= 0:
                return k
        return last

    def _continued(self, n: int, last: int) -> int:
        """Return the last line of a signature whose lines ``n`` to ``last`` have no mark that ends it.

        Deeper lines continue it, up to one with such a mark, or up to a line that begins with one.
        """
        ends = self._heads.ends
        if ends is None or any(ends.search(self._line(k)) is not None for k in range(n, last + 1)):
            return last
        indent = indent_of(self._line(n))
        k = last + 1
        while k < min(last + 1 + _MAX_CONTINUED, len(self._ends)):
            line = self._line(k)
            if not line.strip() or indent_of(line) <= indent:
                return k - 1 if ends.match(line.lstrip()) is not None else last
            k = self._closed(k)
            if ends.search(self._line(k)) is not None:
                return k
            k += 1
        return last

    def _last_deeper(self, n: int) -> int:
        """Return the last of the lines after line ``n`` that are indented deeper, up to a blank one.

        Lines that close a bracket may be indented alike.
        """
        indent = indent_of(self._line(n))
        for k in range(n, min(n + _MAX_SPECIFICATION, len(self._ends) - 1)):
            line = self._line(k + 1)
            if not line.strip() or indent_of(line) < indent + (_CLOSES.match(line) is None):
                return k
        return k if n < len(self._ends) - 1 else n

    def _continues(self, siblings: list[_Open], opened: _Open) -> bool:
        """Return whether it is another clause of the definition before it."""
        return (
            self._heads.clauses
            and bool(siblings)
            and opened.name != ""
            and siblings[-1].name == opened.name
            and not (siblings[-1].is_type or opened.is_type)  # instances for several types are several
            and siblings[-1].indent == opened.indent
        )

    def _definition(self, found: _Open) -> Definition:
        last = max(found.last, found.start)
        inside = tuple(map(self._definition, found.inside))
        body = min(found.signature, last) if found.name or found.is_type else found.start
        if found.is_type and inside:
            is_module = _MODULE.match(self._source, found.start) is not None
            body = min(body, inside[0].first) if is_module else inside[0].first  # with its fields
            if (notice := _NOTICE.search(self._source, found.signature, body)) is not None:
                body = notice.start()
        is_whole = _lines_like(self._heads.wholes).match(self._source, found.start) is not None
        is_signature = found.is_type and (is_whole or not inside)
        role = DefinitionRole.CONTAINER if found.is_type else DefinitionRole.FUNCTION
        return Definition(
            found.name, role, found.first, found.start, body, last, found.note, inside, is_signature
        )

    def _begin(self, n: int) -> int:
        return self._ends[n - 1] if n else 0

    def _line(self, n: int) -> bytes:
        return self._source[self._begin(n) : self._ends[n]]
