"""What is in a node of a syntax tree, and around it: its name, its body, the node that it defines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tokenbox.content.lenses import node_types as types

if TYPE_CHECKING:
    from tree_sitter import Node

# A call with a function as argument (``describe(...)``, ``define(...)``) is read if it has this many lines.
LONG_CALL = 30


def with_comments(nodes: Iterable[Node]) -> Iterator[tuple[Node, list[Node]]]:
    """Yield each named node that is no comment, with the comments and attributes before it."""
    comments: list[Node] = []
    before: Node | None = None
    for node in nodes:
        kind = node.type
        if "comment" in kind:
            if before is not None and node.start_point[0] == _last_row(before):
                continue  # a comment at the end of a line belongs to that line
            if comments and node.start_point[0] > comments[-1].end_point[0] + 1:
                comments = []
            comments.append(node)
        elif kind in types.ABOVE:
            comments.append(node)
        elif node.is_named:
            yield node, comments
            comments = []
        before = node


def _last_row(node: Node) -> int:
    row, column = node.end_point
    return row - (column == 0)


def inner_nodes(node: Node) -> Sequence[Node]:
    """Return the children of a transparent node, without the condition of an ``if`` or ``#if``."""
    kind = node.type
    condition = node.child_by_field_name("condition")
    if condition is None and kind.startswith("preproc_"):
        condition = node.child_by_field_name("name")
    inner: list[Node] = []
    for child in node.children:
        if child.type == "compound_statement" and kind.endswith(("_statement", "_clause")):
            # Of PHP. Its variables are shown in an "if" only, as constants are.
            inner += child.children if kind == "if_statement" else filter(_defines, child.children)
        elif child != condition:
            inner.append(child)
    if kind in types.BRANCHING:
        return [child for child in inner if child.type in types.TRANSPARENT or _defines(child)]
    return inner


def _defines(node: Node) -> bool:
    """Return whether a node defines a function or a type, and is no expression."""
    kind = node.type
    return kind.endswith(("_definition", "_declaration")) and (
        types.is_function(kind) or types.is_container(kind)
    )


def unwrapped(node: Node) -> Node:
    """Return the node that a statement defines: the class in an export, the function in an assignment."""
    for _ in range(8):
        if node.type == "call":
            return _defined_method(node) or node
        if node.type not in types.AROUND:
            return node
        inner = first_field(node, ("definition", "declaration", "value", "right", "type"))
        if inner is None or (node.type == "declaration" and body_of(inner) is None):
            named = [child for child in node.named_children if "comment" not in child.type]
            named = [child for child in named if child.type in types.AROUND or body_of(child) is not None]
            if node.type == "export_statement" or len(named) != 1:
                inner = named[-1] if named else None
            else:
                inner = named[0]
        if inner is None:
            return node
        node = inner
    return node


def _defined_method(call: Node) -> Node | None:
    """Return the method that is the argument of a call in Ruby, as in ``private def total``."""
    arguments = call.child_by_field_name("arguments")
    last = None if arguments is None or not arguments.named_children else arguments.named_children[-1]
    return last if last is not None and last.type in types.METHODS else None


def body_of(node: Node) -> Node | None:
    if node.type in types.OBJECT or node.type in types.TYPE_LITERALS:
        return next((c for c in node.named_children if c.type == "field_declaration_list"), node)
    body = (
        node.child_by_field_name("body")
        or node.child_by_field_name("accessors")
        or node.child_by_field_name("computed_value")
    )
    if body is not None:
        # The types in a tuple struct are no members to list.
        if body.type == "ordered_field_declaration_list":
            return None
        if node.type != "given_definition" or types.is_body(body.type):
            return body
        node = body  # the value of an instance in Scala, which may have members
    found = next((child for child in node.named_children if types.is_body(child.type)), None)
    if (
        node.type == "at_rule"
        and found is not None
        and types.RULES.isdisjoint(c.type for c in found.named_children)
    ):
        return None  # of CSS: it declares properties, as ``@font-face`` does
    last = node.children[-1] if found is None and node.type in types.CLOSED_BY_END else None
    if last is not None and last.type == "end":
        return last  # of Lua: an empty function has no body
    return found


def is_forward(node: Node) -> bool:
    """Return whether a node only says that a type is defined elsewhere, or that it is a friend."""
    node = _templated(node)
    if node.type == "friend_declaration":
        return all(child.type not in types.FRIENDS for child in node.named_children)
    return node.type in types.FORWARD and body_of(node) is None


def _templated(node: Node) -> Node:
    """Return what a template declares, which is after its parameters, or the node itself."""
    while node.type == "template_declaration":
        inner = [child for child in node.named_children if "comment" not in child.type]
        if not inner:
            break
        node = inner[-1]
    return node


def _comments_before(body: Node, holder: Node) -> list[Node]:
    """Return the comments that some grammars put before the body of ``holder``."""
    found: list[Node] = []
    for child in holder.children:
        if child.start_byte >= body.start_byte:
            break
        if "comment" in child.type:
            found.append(child)
        else:
            found.clear()
    return found


def children_in(body: Node, holder: Node) -> list[Node]:
    """Return the nodes in the body of ``holder``, with the comments before it."""
    inner = body.children
    if holder.type == "extension_definition":  # of Scala: its functions are in no node
        inner = [child for child in holder.children if child.start_byte >= body.start_byte]
    return [*_comments_before(body, holder), *inner]


def body_start(body: Node, holder: Node) -> int:
    """Return the start of the body of ``holder``, including the comments before it."""
    if body.type == "interface_type":
        holder, body = body, next((child for child in body.children if child.type == "{"), body)
    return next(iter(_comments_before(body, holder)), body).start_byte


def rows(node: Node) -> int:
    return int(node.end_point[0] - node.start_point[0] + 1)


def symbol_of(node: Node) -> Node | None:
    """Return the symbol that a call in Ruby is about, as ``path`` in ``newparam(:path) do``."""
    arguments = node.child_by_field_name("arguments") if node.type == "call" else None
    if arguments is None or not arguments.named_children:
        return None
    first = arguments.named_children[0]
    first = first.child_by_field_name("key") or first
    return first if first.type in types.SYMBOLS else None


def declaring_block(node: Node) -> Node | None:
    """Return the body of a block in Ruby if its call declares a symbol, or it defines methods or a value."""
    call: Node | None = node
    if node.type == "assignment":
        left = node.child_by_field_name("left")
        is_constant = left is not None and left.type in ("constant", "scope_resolution")
        call = node.child_by_field_name("right") if is_constant else None
    block = None if call is None or call.type != "call" else call.child_by_field_name("block")
    body = None if block is None else block.child_by_field_name("body")
    if body is None or call is not node or symbol_of(node) is not None:
        return body
    return body if any(child.type in types.METHODS for child in body.named_children) else None


def long_call(node: Node) -> Node | None:
    """Return the body of the function that is the last argument of a long call."""
    if node.type not in types.LONG_CALLS or rows(node) < LONG_CALL:
        return None
    for _ in range(6):
        if node.type in types.FUNCTION_VALUES:
            body = node.child_by_field_name("body") or (node if node.type in types.BLOCKS else None)
            return body if body is not None and body.named_child_count else None
        field = node.child_by_field_name("arguments") or node.child_by_field_name("function")
        inner = field if field is not None and rows(field) >= LONG_CALL - 2 else None
        if inner is None:
            inner = next(
                (child for child in reversed(node.named_children) if rows(child) >= LONG_CALL - 2), None
            )
        if inner is None:
            return None
        node = inner
    return None


def is_signature(node: Node) -> bool:
    """Return whether all lines of a member are its signature, so that none is a value to cut."""
    while node.type in types.AROUND_SIGNATURE and node.named_children:
        node = node.named_children[-1]
    if node.type in types.DECLARED:
        return not any(child.type in types.VALUED for child in node.named_children)
    return types.is_signature(node.type) or _is_alias(node)


def _is_alias(node: Node) -> bool:
    """Return whether the value of an assignment is a type with parameters, as in ``Key = Union[...]``."""
    assigned = node.named_children[0] if node.type == "expression_statement" else node
    value = assigned.child_by_field_name("right")
    return value is not None and value.type == "subscript"


def is_member(node: Node, *, within: bool) -> bool:
    if node.type in ("expression_statement", "assignment_statement", "assignment"):
        target = node if node.type != "expression_statement" else (node.named_children or [node])[0]
        return target.type.startswith("assignment") and (within or rows(node) < LONG_CALL)
    if node.type in types.TRANSPARENT:
        return False
    if node.type == "global_statement":  # of C#: most are calls
        return node.named_child_count == 1 and node.named_children[0].type == "local_declaration_statement"
    if within:
        is_statement = node.type.endswith("_statement") and node.type not in types.MEMBER_STATEMENTS
        return not is_statement and node.type not in ("call", "string")
    return types.is_member(node.type) or node.type in types.WRAPPERS


def first_field(node: Node, names: Iterable[str]) -> Node | None:
    """Return the first of these fields that the node has."""
    for name in names:
        found = node.child_by_field_name(name)
        if found is not None:
            return found
    return None


def name_of(node: Node) -> Node | None:
    """Return the name that a node defines."""
    node = _templated(node)
    for _ in range(8):
        if types.is_name(node.type) or not node.named_child_count:
            return node
        inner = first_field(node, types.NAME_FIELDS)
        if inner is None:
            children = [
                child
                for child in node.named_children
                if "comment" not in child.type and "modifier" not in child.type
            ]
            inner = (
                next((child for child in children if types.holds_name(child.type)), None)
                or first_field(node, ("type", "target"))
                or next((child for child in children if types.is_name(child.type)), None)
                or next((child for child in children if child.type == "object_reference"), None)  # SQL
                or next(iter(children), None)
            )
        if inner is None:
            return None
        node = inner
    return None
