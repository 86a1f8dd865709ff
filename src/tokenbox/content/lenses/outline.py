"""``outline``: the signatures of source code, each with the first line of what documents it, by tree-sitter.

Grammars: the single ``tree-sitter-<language>`` wheels, because each carries its compiled grammar, while
``tree-sitter-language-pack`` from 1.0 on downloads them when it runs.
No Bash: tree-sitter-bash 0.25.1 reads memory that is not its own on odd text and takes the process down.

Text is returned unchanged if its language is not recognized, if it does not parse without an error, if
nothing in it has a signature, if it is an outline already, or if the outline would not be shorter.
"""

from __future__ import annotations

import difflib
import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.content.lenses.languages import LANGUAGES, Language
from tokenbox.content.lenses.lens import ArgumentProblem
from tokenbox.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable

    from tree_sitter import Language as Grammar
    from tree_sitter import Node, Query

    from tokenbox.tokenizers.protocol import Tokenizer

_HEADER = re.compile(r"\[outline of [a-z]+ source, [0-9]+ lines?\]\n")
_BY_NAME = {name: language for language in LANGUAGES for name in (language.name, *language.aliases)}
# A language is recognized from this many characters: enough for its imports and first definitions.
_LOOKED_AT = 20_000
_SIGNS_WANTED = 2
# What supports its subset too: C++ parses C, TypeScript parses JavaScript.
_SUBSETS = {"typescript": "javascript", "cpp": "c"}
_COMMENT_MARKS = re.compile(r"^[\s/*#!]+|[\s*/]+$")


def build_outline(*, language: str | None = None) -> Callable[[str, Tokenizer], str]:
    """The function for ``outline``. Raises ``MissingExtra``; :class:`ArgumentProblem`: unknown language."""
    if language is None:
        _need({"tree_sitter", *(known.module for known in LANGUAGES)})
        return lambda text, _: _outline(text, _recognized(text))
    known = _BY_NAME.get(language.lower())
    if known is None:
        near = difflib.get_close_matches(language.lower(), _BY_NAME, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(x.name for x in LANGUAGES)}"
        raise ArgumentProblem(f"no outlines of {language!r}: {hint}", "language")
    _need({"tree_sitter", known.module})
    return lambda text, _: _outline(text, known)


def _need(modules: set[str]) -> None:
    if any(find_spec(module) is None for module in modules):
        raise MissingExtra.of("the lens outline", "outline")


def _recognized(text: str) -> Language | None:
    """The language of ``text``, if two signs of it are there and no other language has as many."""
    start = text[:_LOOKED_AT]
    found = {x.name: sum(sign.search(start) is not None for sign in x.signs) for x in LANGUAGES}
    for larger, smaller in _SUBSETS.items():
        own = found[larger] - (found[smaller] if larger == "typescript" else 0)
        if found[larger] >= _SIGNS_WANTED and own > 0:
            found[smaller] = 0
        else:
            found[larger] = 0
    most = max(found.values())
    best = [name for name, signs in found.items() if signs == most]
    return _BY_NAME[best[0]] if most >= _SIGNS_WANTED and len(best) == 1 else None


class _Signature(NamedTuple):
    first: int  # bytes: where it starts, where its body starts, where it ends
    body: int
    last: int
    opens: bool  # whether the body is looked into
    node: Node


def _outline(text: str, language: Language | None) -> str:
    if language is None or _HEADER.match(text):
        return text
    try:
        source = text.encode()
    except UnicodeEncodeError:
        return text
    root = _parsed(language, source)
    if root.has_error:
        return text
    signatures, notes = _signatures(language, root)
    if not signatures:
        return text
    count = source.count(b"\n") + (not source.endswith(b"\n"))
    parts = [f"[outline of {language.name} source, {count} line{'' if count == 1 else 's'}]\n"]
    parts += [_shown(source, signature, notes, language) for signature in _outermost(signatures)]
    result = "".join(parts)
    return result if len(result) < len(text) else text


@cache
def _grammar(language: Language) -> tuple[Grammar, Query]:
    import tree_sitter  # noqa: PLC0415  # an extra

    grammar = tree_sitter.Language(getattr(import_module(language.module), language.factory)())
    return grammar, tree_sitter.Query(grammar, language.query)


def _parsed(language: Language, source: bytes) -> Node:
    import tree_sitter  # noqa: PLC0415  # an extra

    return tree_sitter.Parser(_grammar(language)[0]).parse(source).root_node


def _signatures(language: Language, root: Node) -> tuple[list[_Signature], dict[int, Node]]:
    """What has a signature, in order, and by the row it ends in what may document one."""
    import tree_sitter  # noqa: PLC0415  # an extra

    signatures: dict[int, _Signature] = {}
    notes: dict[int, Node] = {}
    for _, captures in tree_sitter.QueryCursor(_grammar(language)[1]).matches(root):
        for note in (*captures.get("comment", ()), *captures.get("skip", ())):
            row, column = note.end_point
            notes[row if column else row - 1] = note
        for node in captures.get("def", ()):
            outer = node
            while outer.parent is not None and outer.parent.type in language.wrappers:
                outer = outer.parent
            opens = "inner" in captures
            bodies = captures.get("inner" if opens else "body", ())
            body = _start(bodies[0]) if bodies else outer.end_byte
            signatures.setdefault(
                node.start_byte,
                _Signature(outer.start_byte, body, outer.end_byte, opens or not bodies, outer),
            )
    return sorted(signatures.values(), key=lambda s: (s.first, -s.last)), notes


def _start(body: Node) -> int:
    """Where a body starts, with the comments that some grammars put before it."""
    while body.prev_sibling is not None and "comment" in body.prev_sibling.type:
        body = body.prev_sibling
    return body.start_byte


def _outermost(signatures: list[_Signature]) -> list[_Signature]:
    """Those that are not inside the body of a function or another part that is left out."""
    shown: list[_Signature] = []
    hidden_until = 0
    for signature in signatures:
        if signature.first >= hidden_until:
            shown.append(signature)
            hidden_until = signature.body if signature.opens else signature.last
    return shown


def _shown(source: bytes, signature: _Signature, notes: dict[int, Node], language: Language) -> str:
    node = signature.node
    start_of_line = source.rfind(b"\n", 0, signature.first) + 1
    before = source[start_of_line : signature.first]
    indent = before.decode() if not before.strip() else ""
    words = source[signature.first : signature.body].decode().rstrip()
    note = _docstring(source, signature) if language.docstrings else _comment(node, notes)
    line = f"{indent}{words}\n"
    if not note:
        return line
    if language.docstrings:
        return f'{line}{indent}    """{note}"""\n'
    mark = "#" if language.name == "ruby" else "//"
    return f"{indent}{mark} {note}\n{line}"


def _comment(node: Node, notes: dict[int, Node]) -> str:
    """The first line with words of the comment right above."""
    row = node.start_point[0] - 1
    above: list[Node] = []
    while note := notes.get(row):
        if "comment" in note.type:
            above.append(note)
        row = note.start_point[0] - 1
    for note in reversed(above):
        for line in (note.text or b"").decode().splitlines():
            if words := _COMMENT_MARKS.sub("", line):
                return words
    return ""


def _docstring(source: bytes, signature: _Signature) -> str:
    """The first line with words of a Python docstring."""
    definition = signature.node.child_by_field_name("definition") or signature.node
    body = definition.child_by_field_name("body")
    first = body.named_children[0] if body is not None and body.named_children else None
    if first is None or first.type != "expression_statement" or not first.named_children:
        return ""
    string = first.named_children[0]
    if string.type != "string":
        return ""
    content = [child for child in string.named_children if child.type == "string_content"]
    if not content:
        return ""
    lines = source[content[0].start_byte : content[0].end_byte].decode().splitlines()
    return next((line.strip() for line in lines if line.strip()), "")
