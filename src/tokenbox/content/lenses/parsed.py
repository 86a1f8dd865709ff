"""The definitions in a source file whose language has a grammar, from its syntax tree.

A node with a syntax error is read as far as possible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tokenbox.content.lenses import node_types as types
from tokenbox.content.lenses.definition import COMMENT_TAGS, Definition, DefinitionRole
from tokenbox.content.lenses.nodes import (
    LONG_CALL,
    body_of,
    body_start,
    children_in,
    declaring_block,
    first_field,
    inner_nodes,
    is_forward,
    is_member,
    is_signature,
    long_call,
    name_of,
    rows,
    symbol_of,
    unwrapped,
    with_comments,
)
from tokenbox.content.lenses.syntax import as_parsed, syntax_tree

if TYPE_CHECKING:
    from tree_sitter import Node

    from tokenbox.content.lenses.languages import Language


# Calls that declare: members in Ruby, constants in PHP, in pages the interface of a component.
_DECLARING_CALLS = {
    "ruby": re.compile(
        rb"(?:attr_\w+|has_\w+|belongs_to|validates?|scope|enum|delegate|include|extend|field|attribute|alias_method"
        rb"|property|option|argument|before_\w+|after_\w+|around_\w+|define_method|helper_method)[ (]"
    ),
    "php": re.compile(rb"define ?\(|use "),
    "vue": re.compile(
        rb"(?:(?:const|let) [^=]{1,200}= *)?(?:withDefaults\( *)?"
        rb"define(?:Props|Emits|Models?|Slots|Expose|Options)\b|\$: "
    ),
}
_COMMENT_MARKS = re.compile(r"^[\s/*#!;-]+(?:@[{}])?|(?<![\s*/-])[\s*/-]+$")
# Tags of documentation that say nothing about what it documents.
_NO_NOTE = re.compile(
    r"@(?:group|since|author|version|see|param|returns?|ingroup|api|inheritdoc)\b|<inheritdoc|\{@inheritdoc",
    re.IGNORECASE,
)
# A parenthesis in SQL, or a string or comment, which may contain some; and how far they are counted.
_PARENTHESIS = re.compile(rb"[()]|'[^']*'|--[^\n]*")
_MAX_COLUMNS = 20_000
_MAX_DEPTH = 12
_MAX_NAME = 120


def parsed_definitions(
    source: bytes, language: Language
) -> tuple[tuple[Definition, ...], list[tuple[int, int]]]:
    """Return the definitions, in order, and the parts of the source with errors, which may hide others."""
    source = as_parsed(source, language)
    root = syntax_tree(source, language)
    if root is None:
        return (), [(0, len(source))]
    reader = _Reader(source, language)
    found = reader.level([root] if root.type == "ERROR" else root.children, within=False, depth=0)
    return found, reader.broken


class _Reader:
    def __init__(self, source: bytes, language: Language) -> None:
        self.broken: list[tuple[int, int]] = []
        self._source = source
        self._docstrings = language.docstrings
        self._has_prototypes = language.has_prototypes
        self._declaring = _DECLARING_CALLS.get(language.name)

    def level(self, nodes: Iterable[Node], *, within: bool, depth: int) -> tuple[Definition, ...]:
        """Return the definitions among ``nodes``, without prototypes of functions that are among them."""
        found = tuple(self.read(nodes, within=within, depth=depth))
        if not self._has_prototypes:
            return found
        defined = {one.name for one in found if one.role is DefinitionRole.FUNCTION}
        return tuple(one for one in found if not (one.is_signature and one.name in defined))

    def read(self, nodes: Iterable[Node], *, within: bool, depth: int) -> Iterator[Definition]:
        """Yield the definitions among ``nodes``.

        ``within``: the nodes are in a container, so every named node is a member.
        """
        for node, comments in with_comments(nodes):
            kind = node.type
            found = self._grouped(node, comments, depth) if kind in types.GROUPS else None
            is_skipped = types.is_skipped(kind) and not self._declares(node)
            if found is None and depth <= _MAX_DEPTH and not is_skipped:
                found = self._definition(node, comments, within=within, depth=depth)
            if node.has_error and _may_hide(node, found):
                self.broken.append((node.start_byte, node.end_byte))
            if found is not None:
                yield found
            elif kind in types.TRANSPARENT and depth < _MAX_DEPTH:
                within_it = within and kind not in types.LOOSE
                inside = self.read(inner_nodes(node), within=within_it, depth=depth + 1)
                yield from _not_members(inside) if kind in types.LOCAL else inside

    def _grouped(self, node: Node, comments: Sequence[Node], depth: int) -> Definition | None:
        """Return a container for the declarations between parentheses, as in Go's ``const (``."""
        holder = next((child for child in node.named_children if child.type.endswith("_spec_list")), node)
        opening = next((child for child in holder.children if child.type == "("), None)
        if opening is None:
            return None
        specs = self.read(holder.children, within=True, depth=depth + 1)
        note = self._note(node, None, comments)
        return _made(node, DefinitionRole.CONTAINER, "", opening.end_byte, comments, note, tuple(specs))

    def _definition(
        self, node: Node, comments: Sequence[Node], *, within: bool, depth: int
    ) -> Definition | None:
        if is_forward(node) or (node.type == "preproc_def" and self._is_guard(node)):
            return None
        inner = unwrapped(node)
        body = body_of(inner)
        role = _role_of(inner, has_body=body is not None)
        if role is None:
            if (call := declaring_block(node) or long_call(node)) is not None:
                return self._call(node, call, comments, depth)
            if not self._declares(node) and not is_member(
                inner if node.type == "call" else node, within=within
            ):
                return None
        note = self._note(inner, body, comments)
        if role is None or role is DefinitionRole.MEMBER:
            return self._member(node, comments, note)
        assert body is not None  # noqa: S101  # containers and functions have one
        inside = self._inside(inner, body, role, depth)
        role = DefinitionRole.CONTAINER if inside else role
        is_named = (
            inner.type not in types.OBJECT and first_field(inner, ("name", "declarator", "type")) is not None
        )
        name = self._words(name_of(inner if is_named else node))
        return _made(node, role, name, body_start(body, inner), comments, note, inside)

    def _member(self, node: Node, comments: Sequence[Node], note: str) -> Definition:
        """Return a member. It is all signature, except for the block of a call that declares something."""
        is_whole = node.child_by_field_name("block") is None if self._declares(node) else is_signature(node)
        name = "" if types.is_skipped(node.type) else self._words(name_of(node))  # PHP's traits
        end = self._end_of_columns(node) if node.type == "create_table" else node.end_byte
        return _made(node, DefinitionRole.MEMBER, name, end, comments, note, is_signature=is_whole)

    def _inside(self, inner: Node, body: Node, role: DefinitionRole, depth: int) -> tuple[Definition, ...]:
        """Return the members of a container, and the variables that a rule of CSS defines."""
        if role is DefinitionRole.CONTAINER:
            members = children_in(body, inner)
        elif inner.type == "rule_set":
            members = [
                child
                for child in body.children
                if child.type == "comment" or self._source.startswith(b"--", child.start_byte)
            ]
        else:
            return ()
        return self.level(members, within=True, depth=depth + 1)

    def _end_of_columns(self, table: Node) -> int:
        """Return the end of a table in SQL, whose node ends at a column that the grammar does not know."""
        columns = next((child for child in table.children if child.type == "column_definitions"), None)
        if columns is None:
            return table.end_byte
        depth, start = 0, columns.start_byte
        for match in _PARENTHESIS.finditer(self._source, start, start + _MAX_COLUMNS):
            depth += {b"(": 1, b")": -1}.get(match[0], 0)
            if not depth:
                return max(match.end(), table.end_byte)
        return table.end_byte

    def _is_guard(self, macro: Node) -> bool:
        """Return whether a macro only says that a header was read, which is in its ``#ifndef``."""
        around = macro.parent
        if around is None or around.parent is None or around.parent.parent is not None:
            return False  # not at the top
        if around.named_child_count <= 2 or macro.child_by_field_name("value") is not None:
            return False
        condition = around.child_by_field_name("name") or around.child_by_field_name("condition")
        words = {"", "defined", *re.split(r"\W+", self._words(condition))}
        return words == {"", "defined", self._words(name_of(macro))}

    def _declares(self, node: Node) -> bool:
        """Return whether the node is a call that declares something, such as ``attr_reader`` in Ruby."""
        return (
            self._declaring is not None
            and node.type in types.CALLS
            and self._declaring.match(self._source, node.start_byte) is not None
        )

    def _call(self, node: Node, body: Node, comments: Sequence[Node], depth: int) -> Definition:
        """Return a container for a call that declares something, or with a long function as last argument."""
        holder = body.parent or body
        inside = self.read(children_in(body, holder), within=False, depth=depth + 1)
        if rows(node) < LONG_CALL:  # its variables are not of interest outside
            inside = _not_members(inside)
        named = name_of(node) if node.type == "assignment" else symbol_of(node)
        name = self._words(named).strip(":")
        start, note = body_start(body, holder), self._note(node, None, comments)
        return _made(node, DefinitionRole.CONTAINER, name, start, comments, note, tuple(inside))

    def _note(self, inner: Node, body: Node | None, comments: Sequence[Node]) -> str:
        """Return the first non-empty line of the docstring or the comments of a definition."""
        if self._docstrings:
            return "" if body is None else self._docstring(body)
        for comment in _above(inner, comments):
            if "comment" in comment.type:
                for line in self._text(comment.start_byte, comment.end_byte).splitlines():
                    words = _COMMENT_MARKS.sub("", COMMENT_TAGS.sub("", line))
                    if words and _NO_NOTE.match(words) is None:
                        return words
        return ""

    def _docstring(self, body: Node) -> str:
        first = body.named_children[0] if body.named_children else None
        if first is not None and first.type == "expression_statement" and first.named_children:
            first = first.named_children[0]
        if first is None or first.type != "string":
            return ""
        parts = [child for child in first.named_children if child.type == "string_content"]
        if not parts:
            return ""
        lines = self._text(parts[0].start_byte, parts[-1].end_byte).splitlines()
        return next((line.strip() for line in lines if line.strip()), "")

    def _words(self, node: Node | None) -> str:
        """Return the first line of a name."""
        if node is None:
            return ""
        text = self._text(node.start_byte, min(node.end_byte, node.start_byte + _MAX_NAME)).strip()
        return text.splitlines()[0] if text else ""

    def _text(self, start: int, end: int) -> str:
        return self._source[start:end].decode("utf-8", "replace")


def _role_of(node: Node, *, has_body: bool) -> DefinitionRole | None:
    """Return the role that the type of a node alone decides; None if it decides none."""
    if has_body and types.is_container(node.type):
        return DefinitionRole.CONTAINER
    if has_body and node.type in types.OBJECT:
        return DefinitionRole.CONTAINER if rows(node) > 1 else DefinitionRole.MEMBER
    if has_body and types.is_function(node.type):
        return DefinitionRole.FUNCTION
    return DefinitionRole.CONTAINER if node.type in types.TYPE_LITERALS else None


def _made(
    node: Node,
    role: DefinitionRole,
    name: str,
    body: int,
    comments: Sequence[Node],
    note: str,
    inside: tuple[Definition, ...] = (),
    *,
    is_signature: bool = False,
) -> Definition:
    """Return the definition that a node is, with the comments directly above it."""
    start = node.start_byte
    first = next(iter(_above(node, comments)), node).start_byte
    last = max(body, node.end_byte)
    return Definition(name, role, first, start, body, last, note, inside, is_signature)


def _not_members(found: Iterable[Definition]) -> Iterator[Definition]:
    return (one for one in found if one.role is not DefinitionRole.MEMBER)


def _may_hide(node: Node, found: Definition | None) -> bool:
    """Return whether the error in a node may hide definitions, because its children are not read."""
    if found is not None:
        return found.role is not DefinitionRole.CONTAINER
    return node.type == "ERROR" or node.type not in types.TRANSPARENT


def _above(node: Node, comments: Sequence[Node]) -> list[Node]:
    """Return those of the comments and attributes that are directly above a node."""
    row, found = node.start_point[0], []
    for comment in reversed(comments):
        if comment.end_point[0] + (comment.end_point[1] > 0) < row:
            break
        row = comment.start_point[0]
        found.append(comment)
    return found[::-1]
