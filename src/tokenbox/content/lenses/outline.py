"""``outline``: the signatures of source code, each with the first line of its documentation, by tree-sitter.

An outline has functions without their bodies, classes and other containers with their members, and fields,
constants, enum members and type aliases. Code with a syntax error is parsed as far as possible.

Text is returned unchanged if its language is not recognized, if it has no signatures, if it is already an
outline, or if the outline would not be shorter.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import re2

from tokenbox.characters import known
from tokenbox.content.lenses.definition import DefinitionRole
from tokenbox.content.lenses.definitions import MAX_INDENT, definitions
from tokenbox.content.lenses.languages import BY_NAME, LANGUAGES
from tokenbox.content.lenses.lens import ArgumentProblem, LensKind, Parameter, register
from tokenbox.errors import MissingExtra

if TYPE_CHECKING:
    from tokenbox.content.lenses.definition import Definition
    from tokenbox.content.lenses.languages import Language
    from tokenbox.tokenizers.protocol import Tokenizer

# A line that holds nothing but annotations.
_ANNOTATION = re.compile(r"\s*(?:@[\w.:]+(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*|#?\[[^\[\]]*\]\s*)+$")
_HEADER = re.compile(r"\[outline of [a-z]+ source, [0-9]+ lines?\]\n")
# All that it tells, the path of the file tells as well, or the signatures in it.
_NAMESPACE = re.compile(
    r"\s*(?:defmodule|(?:bare|sub)?module|namespace|package|library) [\w.:]+(?: do| where| is|;| *\{)?\s*"
)
# The language is recognized from this many characters: enough for its imports and first definitions.
_SAMPLE_LENGTH = 20_000
_MIN_SIGNS = 2
# A language, and the subset of it that has a grammar too.
_SUBSETS = {"typescript": "javascript", "cpp": "c"}
# The maximum length of a member's line, and of a signature. A value is cut after its first line.
MAX_LINE, _MAX_SIGNATURE = 160, 640
# A signature is read no further; and the comments in one of C's family, on lines of their own.
_MAX_COMMENTED = 10_000
_COMMENT_LINES: re.Pattern[str] = re2.compile(
    r"(?m)^[ \t]*(?:/\*[^*]*\*+(?:[^/*][^*]*\*+)*/[ \t]*|//[^\n]*)\n"
)
# The comments with which the fields of a type end: they belong to its first member.
_LAST_COMMENTS: re.Pattern[str] = re2.compile(
    r"(?:\n[ \t]*(?:/\*[^*]*\*+(?:[^/*][^*]*\*+)*/|//[^\n]*)?[ \t\r]*)+\z"
)
# The number of consecutive functions of the same name to show.
OVERLOADS = 3


def build_outline(*, language: str | None = None) -> Callable[[str, Tokenizer], str]:
    """Build ``outline``. Raises ``MissingExtra``, or :class:`ArgumentProblem` for an unknown language."""
    if language is None:
        _require({"tree_sitter", *(one.module for one in LANGUAGES if one.signs)})
        return lambda text, _: _outline(text, _recognized(text))
    named = BY_NAME.get(language.lower())
    if named is None:
        near = difflib.get_close_matches(language.lower(), BY_NAME, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(x.name for x in LANGUAGES)}"
        raise ArgumentProblem(f"no outlines of {language!r}: {hint}", "language")
    _require(set(named.modules))
    return lambda text, _: _outline(text, named)


class Signature(NamedTuple):
    """The lines that show a definition without its body.

    ``start``: the byte offset of the definition. ``depth``: the number of definitions around it.
    """

    start: int
    text: str
    name: str
    depth: int


def signatures(
    source: bytes, found: Sequence[Definition], language: Language, depth: int = 0
) -> Iterator[Signature]:
    """Yield the signatures of ``found``, ``depth`` definitions deep, and of what is inside.

    From a list of overloads it shows the first :data:`OVERLOADS`, and the number of the others.
    """
    for _, group in groupby(found, lambda one: (one.role, one.name)):
        same = list(group)
        first = same[0]
        shown = OVERLOADS if first.role is DefinitionRole.FUNCTION and first.name else len(same)
        for one in same[:shown]:
            definition = replace(one, is_signature=True) if _is_on_one_line(source, one) else one
            if text := "".join(_shown(source, definition, language)):
                yield Signature(definition.start, text, definition.name, depth)
            if not definition.is_signature:
                yield from signatures(source, definition.inside, language, depth + 1)
        if len(same) > shown:
            text = f"{_indent(source, same[shown])}... {len(same) - shown} more {first.name}\n"
            yield Signature(same[shown].start, text, first.name, depth)


def is_namespace(signature: Signature) -> bool:
    """Return whether a signature is only the name of a namespace."""
    return _NAMESPACE.fullmatch(signature.text) is not None


def _is_on_one_line(source: bytes, definition: Definition) -> bool:
    """Return whether a definition with members, and no functions, is so short that all of it is shown."""
    return (
        bool(definition.inside)
        and definition.last - definition.start <= MAX_LINE
        and b"\n" not in source[definition.start : definition.last].rstrip()
        and all(one.role is DefinitionRole.MEMBER for one in definition.inside)
    )


def _require(modules: set[str]) -> None:
    if any(find_spec(module) is None for module in modules):
        raise MissingExtra.of("the lens outline", "outline")


def _recognized(text: str) -> Language | None:
    """Return the language with the most signs in ``text``, if it has at least two and there is no tie."""
    start = known(text[:_SAMPLE_LENGTH])
    found = {x.name: sum(sign.search(start) is not None for sign in x.signs) for x in LANGUAGES}
    for larger, smaller in _SUBSETS.items():
        own = found[larger] - (found[smaller] if larger == "typescript" else 0)
        if found[larger] >= _MIN_SIGNS and own > 0:
            found[smaller] = 0
        else:
            found[larger] = 0
    highest = max(found.values())
    best = [name for name, signs in found.items() if signs == highest]
    return BY_NAME[best[0]] if highest >= _MIN_SIGNS and len(best) == 1 else None


def _outline(text: str, language: Language | None) -> str:
    if language is None or _HEADER.match(text):
        return text
    try:
        source = text.encode()
    except UnicodeEncodeError:
        return text
    found = definitions(source, language)
    if not found:
        return text
    count = source.count(b"\n") + (not source.endswith(b"\n"))
    header = f"[outline of {language.name} source, {count} line{'' if count == 1 else 's'}]\n"
    result = header + "".join(one.text for one in signatures(source, found, language))
    return result if len(result) < len(text) else text


def _shown(source: bytes, definition: Definition, language: Language) -> Iterator[str]:
    """Yield the lines of one definition: its documentation and its signature."""
    indent = _indent(source, definition)
    end = definition.last if definition.is_signature else definition.body
    words = source[definition.start : end].decode("utf-8", "replace").rstrip()
    if not words:  # a node that the parser made up for what is missing
        return
    if definition.role is DefinitionRole.CONTAINER and definition.inside:
        words = _LAST_COMMENTS.sub("", words)
    if definition.role is DefinitionRole.MEMBER and not definition.is_signature:
        words = _cut(words)
    elif len(words) > _MAX_SIGNATURE:
        words = _shortened(words, language)
    if definition.role is DefinitionRole.CONTAINER and definition.name not in words:
        after = source[definition.start : definition.last].rpartition(b"}")[2]
        if definition.name.encode() in after:  # as in C's ``typedef struct { } name``
            words += f" ... {definition.name}"
    if definition.note and not language.docstrings:
        begins, _, ends = language.comment.partition(" ")
        yield f"{indent}{begins} {definition.note}{ends and f' {ends}'}\n"
    yield f"{indent}{words}\n"
    if definition.note and language.docstrings:
        yield f'{indent}    """{definition.note}"""\n'


def _shortened(words: str, language: Language) -> str:
    """Return a long signature without the comments on lines of their own, cut if it is still long."""
    begin = words[:_MAX_COMMENTED]
    bare = _COMMENT_LINES.sub("", begin) if language.comment == "//" else begin
    if len(bare) <= _MAX_SIGNATURE and begin == words:
        return bare
    return bare[: bare.rfind("\n", 0, _MAX_SIGNATURE) + 1 or _MAX_SIGNATURE].rstrip() + " ..."


def _indent(source: bytes, definition: Definition) -> str:
    near = source[max(0, definition.start - MAX_INDENT) : definition.start]
    *_, before = near.rsplit(b"\n", 1)
    is_blank = not before.strip() and (before != near or len(near) < MAX_INDENT)
    return before.decode() if is_blank else ""


def _cut(words: str) -> str:
    """Return the first line of a member below its annotations, ``...`` in place of the rest of its value."""
    lines = words.splitlines()
    at = next((n for n, line in enumerate(lines) if _ANNOTATION.match(line) is None), len(lines) - 1)
    if at + 1 < len(lines) or len(lines[at]) > MAX_LINE:
        lines[at] = f"{lines[at][:MAX_LINE].rstrip()} ..."
    return "\n".join(lines[: at + 1])


register(
    LensKind(
        "outline",
        "17",
        build_outline,
        (Parameter("language", str, optional=True),),
        usage='outline or outline("python")',
        description="signatures of source code, each with the first line of its docstring (extra outline)",
        example='outline("python")',
    )
)
