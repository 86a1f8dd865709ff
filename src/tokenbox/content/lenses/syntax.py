"""Syntax trees of source code by tree-sitter, within limits that count steps and not seconds."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tokenbox.content.lenses.languages import BY_NAME

if TYPE_CHECKING:
    from tree_sitter import Language as Grammar
    from tree_sitter import Node

    from tokenbox.content.lenses.languages import Language

# The steps of tree-sitter's parser. Real source takes at most 3 per byte, source with many errors up to 5.
_STEPS_PER_BYTE = 10
_STEPS_OF_ANY_FILE = 5_000
_STEPS_PER_CALL = 100  # of the progress callback, a constant of tree-sitter
_CHUNK = 1 << 12  # bytes
# How often each chunk may be read on average; real source has been seen at 245. Some scanners read a comment
# without an end to the end of the file at each try.
_READINGS = 300
# On open angle brackets a parser's step can take as long as their number. The ends of statements close all.
_ANGLES = re.compile(rb"(?<![=-])>|<")
_STATEMENT_END = re.compile(rb"[;{}]")
_MAX_ANGLES = 200
# The beginning of a script in a page, in Astro also of the page itself; and every byte that begins no line.
_SCRIPT = re.compile(rb"<script\b[^>]{0,300}>|\A---(?=\r?\n)", re.IGNORECASE)
_NO_BREAK = re.compile(rb"[^\n]")


@cache
def works(language: str) -> bool:
    """Return whether ``language`` (a name or an alias) needs no grammar, or its grammar is installed."""
    known = BY_NAME.get(language)
    return known is not None and all(find_spec(name) is not None for name in known.modules)


# A macro before the name of a type, with which Qt and LLVM export it. To the grammar it is the name. Before a
# declaration, ``struct TIMEVAL now;``, it may be one, so there only a class is taken to be exported.
_EXPORTED = re.compile(
    rb"(\b(?:(class)|struct|union)\s++)([A-Z][A-Z0-9_]{2,}+(?:\([^()\n]{0,80}\))?)"
    rb"(?=\s++[A-Za-z_]\w*+(?:::\w++)*(?:\s++final)?\s*+(?::(?!:)|\{|(?(2);|(?!))))"
)
# Lines with a macro in place of the braces of a namespace or of ``extern "C"``. To the grammar it is a type.
_BRACE_MACRO = re.compile(
    rb"(?m)^[ \t]*(?=\w*(?:NAMESPACE|DECLS|EXPORT))(?=\w*(?:BEGIN|END|OPEN|CLOSE|ENTER|LEAVE|START|STOP))"
    rb"[A-Z_][A-Z0-9_]*+(?:[ \t]*\([^()\n]{0,80}\))?[ \t]*;?[ \t]*\r?$"
)


# The head of a block of extensions in C# 14, which the grammar reads as a class of the same length.
_EXTENDED = re.compile(
    rb"(?m)(^[ \t]*|[{};] ?)(extension(?:<[^<>(){};]{0,200}>)?\s*\([^(){};]{1,300}\))"
    rb"(?=(?:\s+where\s[^{};]{1,300})?\s*\{)"
)
_CLASS = b"class extension"


def _as_class(match: re.Match[bytes]) -> bytes:
    before, head = match[1], match[2]
    if len(head) < len(_CLASS) or b"\n" in head[: len(_CLASS)]:
        return match[0]
    return before + _CLASS + _NO_BREAK.sub(b" ", head[len(_CLASS) :])


def has_grammar(language: str) -> bool:
    """Return whether the grammar of ``language`` (a name or an alias) is installed."""
    return works(language) and BY_NAME[language].heads is None


@cache
def grammar(language: Language) -> Grammar:
    """Return the compiled grammar. Raises ``ImportError`` without the extra ``outline``."""
    import tree_sitter  # an extra

    return tree_sitter.Language(getattr(import_module(language.module), language.factory)())


def as_parsed(source: bytes, language: Language) -> bytes:
    """Return what the parser gets in place of ``source``, which has the same length and lines."""
    if language.is_script_in_page:
        return _scripts(source)
    if language.name in ("c", "cpp"):
        source = _BRACE_MACRO.sub(lambda match: b" " * len(match[0]), source)
    if language.name == "cpp":
        return _EXPORTED.sub(lambda match: match[1] + b" " * len(match[3]), source)
    if language.name == "csharp" and b"extension" in source:
        return _EXTENDED.sub(_as_class, source)
    return source


def syntax_tree(source: bytes, language: Language) -> Node | None:
    """Return the root of the syntax tree, or None if that takes too many steps, or reads of the source.

    ``source``: as :func:`as_parsed` returns it. Slice the text of a node from it: ``node.text`` is slow.

    Recovering from errors takes quadratic time on some input: without a limit, 8 KB can take 10 s. The limits
    count steps and chunks and not seconds, so that the result is the same on every machine.
    """
    import tree_sitter  # an extra

    if language.has_slow_angles and _opens_many_angles(source):
        return None
    calls_left = (_STEPS_PER_BYTE * len(source) + _STEPS_OF_ANY_FILE) // _STEPS_PER_CALL
    chunks_left = _READINGS * (len(source) // _CHUNK + 4)
    # tree-sitter's release 0.26.1 never frees what ``read`` returns: views have no bytes of their own.
    # A short source is read as it is, which takes less than a view of it.
    text: bytes | memoryview = source if len(source) <= _CHUNK else memoryview(source)

    def read(start: int, _: object) -> bytes | memoryview:
        nonlocal chunks_left
        chunks_left -= 1
        return text[start : start + _CHUNK] if chunks_left >= 0 else b""

    def is_over(_start: int, _has_error: bool) -> bool:  # noqa: FBT001  # tree-sitter's signature
        nonlocal calls_left
        calls_left -= 1
        return calls_left < 0 or chunks_left < 0

    # tree-sitter ignores the callback if it gets the bytes themselves.
    try:
        tree = tree_sitter.Parser(grammar(language)).parse(read, progress_callback=is_over)
    except ValueError:
        return None
    if chunks_left < 0:
        return None
    # ``node.text`` calls ``read`` again: it would wait for ever for the text, and views crash it.
    text, chunks_left = source, sys.maxsize
    return tree.root_node


def _opens_many_angles(source: bytes) -> bool:
    """Return whether a statement opens many angle brackets that it does not close."""
    statements = _STATEMENT_END.split(source) if source.count(b"<") > _MAX_ANGLES else []
    for statement in statements:
        if statement.count(b"<") <= _MAX_ANGLES:
            continue
        opened = 0
        for sign in _ANGLES.findall(statement):
            opened = opened + 1 if sign == b"<" else max(0, opened - 1)
            if opened > _MAX_ANGLES:
                return True
    return False


def _scripts(page: bytes) -> bytes:
    """Return the scripts of a page, with blanks in place of everything else, so that positions stay."""
    parts: list[bytes] = []
    done = 0
    for match in _SCRIPT.finditer(page):
        if match.end() < done:
            continue
        end = page.find(b"\n---" if match[0] == b"---" else b"</script", match.end())
        end = len(page) if end < 0 else end
        parts += [_NO_BREAK.sub(b" ", page[done : match.end()]), page[match.end() : end]]
        done = end
    return b"".join([*parts, _NO_BREAK.sub(b" ", page[done:])])
