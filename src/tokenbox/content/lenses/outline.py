"""``outline``: the signatures of source code, each with the first line of what documents it, by tree-sitter.

Shown are functions without their bodies, classes and other containers with their members, and fields,
constants, enum members and type aliases. What a syntax error is in is read as far as it can be.

Text is returned unchanged if its language is not recognized, if nothing in it has a signature, if it is an
outline already, or if the outline would not be shorter.
"""

from __future__ import annotations

import difflib
import re
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING

from tokenbox.characters import known
from tokenbox.content.lenses.definitions import DefinitionRole, definitions
from tokenbox.content.lenses.languages import BY_NAME, LANGUAGES
from tokenbox.content.lenses.lens import ArgumentProblem, LensKind, Parameter, register
from tokenbox.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tokenbox.content.lenses.definitions import Definition
    from tokenbox.content.lenses.languages import Language
    from tokenbox.tokenizers.protocol import Tokenizer

_HEADER = re.compile(r"\[outline of [a-z]+ source, [0-9]+ lines?\]\n")
# A language is recognized from this many characters: enough for its imports and first definitions.
_LOOKED_AT = 20_000
_SIGNS_WANTED = 2
# What supports its subset too: C++ parses C, TypeScript parses JavaScript.
_SUBSETS = {"typescript": "javascript", "cpp": "c"}
# A member or signature longer than this is cut; so is a value that goes over several lines.
MAX_LINE = 160
# Functions of one name that follow each other and are shown.
OVERLOADS = 3


def build_outline(*, language: str | None = None) -> Callable[[str, Tokenizer], str]:
    """The function for ``outline``. Raises ``MissingExtra``; :class:`ArgumentProblem`: unknown language."""
    if language is None:
        _need({"tree_sitter", *(known.module for known in LANGUAGES if known.signs)})
        return lambda text, _: _outline(text, _recognized(text))
    known = BY_NAME.get(language.lower())
    if known is None:
        near = difflib.get_close_matches(language.lower(), BY_NAME, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(x.name for x in LANGUAGES)}"
        raise ArgumentProblem(f"no outlines of {language!r}: {hint}", "language")
    _need({"tree_sitter", known.module})
    return lambda text, _: _outline(text, known)


def signatures(source: bytes, found: Sequence[Definition], language: Language) -> Iterator[tuple[int, str]]:
    """The lines that show ``found`` without bodies, each with the byte it stands for.

    Of a list of overloads the first are shown, and how many more there are.
    """
    for _, group in groupby(found, lambda one: (one.role, one.name)):
        same = list(group)
        first = same[0]
        shown = OVERLOADS if first.role is DefinitionRole.FUNCTION and first.name else len(same)
        for definition in same[:shown]:
            for line in _shown(source, definition, language):
                yield definition.start, line
            yield from signatures(source, definition.inside, language)
        if len(same) > shown:
            indent = _indent(source, same[shown])
            yield same[shown].start, f"{indent}... {len(same) - shown} more {first.name}\n"


def _need(modules: set[str]) -> None:
    if any(find_spec(module) is None for module in modules):
        raise MissingExtra.of("the lens outline", "outline")


def _recognized(text: str) -> Language | None:
    """The language of ``text``, if two signs of it are there and no other language has as many."""
    start = known(text[:_LOOKED_AT])
    found = {x.name: sum(sign.search(start) is not None for sign in x.signs) for x in LANGUAGES}
    for larger, smaller in _SUBSETS.items():
        own = found[larger] - (found[smaller] if larger == "typescript" else 0)
        if found[larger] >= _SIGNS_WANTED and own > 0:
            found[smaller] = 0
        else:
            found[larger] = 0
    most = max(found.values())
    best = [name for name, signs in found.items() if signs == most]
    return BY_NAME[best[0]] if most >= _SIGNS_WANTED and len(best) == 1 else None


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
    result = header + "".join(line for _, line in signatures(source, found, language))
    return result if len(result) < len(text) else text


def _shown(source: bytes, definition: Definition, language: Language) -> Iterator[str]:
    """The lines of one definition: its note, its signature."""
    indent = _indent(source, definition)
    words = source[definition.start : definition.body].decode("utf-8", "replace").rstrip()
    if definition.role is DefinitionRole.MEMBER:
        words = _cut(words)
    elif len(words) > 4 * MAX_LINE:
        words = words[: 4 * MAX_LINE] + " ..."
    if not words:
        return
    if definition.note and not language.docstrings:
        yield f"{indent}{language.comment} {definition.note}\n"
    yield f"{indent}{words}\n"
    if definition.note and language.docstrings:
        yield f'{indent}    """{definition.note}"""\n'


def _indent(source: bytes, definition: Definition) -> str:
    line_start = source.rfind(b"\n", 0, definition.start) + 1
    before = source[line_start : definition.start].decode("utf-8", "replace")
    return before if not before.strip() else ""


def _cut(words: str) -> str:
    """A member on one line, with ``...`` for the rest of a long value."""
    first, *rest = words.splitlines()
    if not rest and len(first) <= MAX_LINE:
        return first
    return f"{first[:MAX_LINE].rstrip()} ..."


register(
    LensKind(
        "outline",
        "3",
        build_outline,
        (Parameter("language", str, optional=True),),
        usage='outline or outline("python")',
        description="signatures of source code, each with the first line of what documents it (extra)",
        example='outline("python")',
    )
)
