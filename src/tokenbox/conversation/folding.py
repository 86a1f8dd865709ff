"""Chat templates in Jinja2 whose loops can be gone through turn by turn.

A loop at the top of a template becomes a macro for one turn, and a call that goes through the turns
(:mod:`tokenbox.conversation.folded`). In a loop, Jinja2 changes no outer variable, only the fields of
namespaces. So a turn can read the outer variables, these fields, the messages and ``loop``, and nothing else.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from tokenbox.conversation.template import Environment

FOLD: Final = "tokenbox_fold"
COMPARE: Final = "tokenbox_compare"
KEEP_PLACE: Final = "tokenbox_keep_place"
BESIDE: Final = "tokenbox_beside"
# Functions of one render, so other objects in the next.
_OF_RENDERS: Final = frozenset((FOLD, COMPARE, KEEP_PLACE, BESIDE, "namespace", "strftime_now"))
LENGTH: Final = "messages | length"
COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "gt": operator.gt, "gteq": operator.ge, "lt": operator.lt, "lteq": operator.le, "eq": operator.eq,
    "ne": operator.ne,
}  # fmt: skip
_TURNED: Final = {"gt": "lt", "lt": "gt", "gteq": "lteq", "lteq": "gteq"}
_PLACES: Final = {"index0": 0, "index": 1}
_INDICES: Final = frozenset((*_PLACES, "revindex", "revindex0", "length"))
NUMBERS: Final = frozenset((*_INDICES, "first", "last"))
"""The attributes of ``loop`` that a tracked loop has, beside its neighbours."""
_NAMES_OF_MACROS: Final = frozenset(("varargs", "kwargs", "caller"))


class FoldedLoop(NamedTuple):
    """The outer names of a loop. ``noted``: those whose values every turn may read."""

    names: tuple[str, ...]
    noted: tuple[str, ...]


class FoldingEnvironment(Environment):
    """A sandbox whose templates call :data:`FOLD` in place of their loops."""

    folded: list[FoldedLoop]

    def rewritten(self, template: nodes.Template) -> nodes.Template:
        self.folded = []
        macros = list(template.find_all(nodes.Macro))
        template.body = list(self._statements(template.body, macros))
        template.set_environment(self)
        return template

    def _statements(self, body: list[nodes.Node], macros: list[nodes.Macro]) -> Iterator[nodes.Node]:
        for node in body:
            if isinstance(node, nodes.If):
                for branch in (node, *node.elif_):
                    branch.body = list(self._statements(branch.body, macros))
                node.else_ = list(self._statements(node.else_, macros))
            if isinstance(node, nodes.For) and _is_foldable(node):
                yield from self._folded(node, macros)
            else:
                yield node

    def _folded(self, loop: Any, macros: list[nodes.Macro]) -> Iterator[nodes.Node]:
        """Yield a macro with the body of a loop, and a call that goes through its turns."""
        _put_indices_in_place(loop.body)
        bodies = _Places()
        body = [bodies.visit(node) for node in loop.body]
        read = [name for part in (*body, *macros) for name in _names(part) if not _is_set(name)]
        names = {name.name for name in read} - {*_OF_RENDERS, "loop"}
        noted = names.intersection(name.name for name in read if id(name) not in bodies.compared)
        place, line = len(self.folded), loop.lineno
        self.folded.append(FoldedLoop(tuple(sorted(names)), tuple(sorted(noted))))
        turn = f"tokenbox_turn_{place}"
        given = [nodes.Name(loop.target.name, "param"), nodes.Name("loop", "param")]
        yield nodes.Macro(turn, given, [], body, lineno=line)
        outer = [nodes.Name(name, "load") for name in self.folded[place].names]
        call = _call(FOLD, nodes.Const(place), loop.iter, nodes.Name(turn, "load"), *outer)
        yield nodes.ExprStmt(call, lineno=line)


def _is_foldable(loop: nodes.For) -> bool:
    """Return True if the body of a loop does the same as a macro."""
    plain = isinstance(loop.target, nodes.Name) and not (loop.test or loop.else_ or loop.recursive)
    names = {name.name for part in loop.body for name in _names(part)}
    return plain and not names & _NAMES_OF_MACROS and not any(map(_leaves_loop, loop.body))


def _leaves_loop(node: nodes.Node) -> bool:
    """Return True for ``break`` and ``continue`` that are not of a loop within, and for a block."""
    if isinstance(node, nodes.Break | nodes.Continue | nodes.Block):
        return True
    return not isinstance(node, nodes.For) and any(map(_leaves_loop, node.iter_child_nodes()))


def _names(node: nodes.Node) -> Iterator[Any]:
    """Yield all names in a part of a template, with those of namespaces whose fields are set."""
    if isinstance(node, nodes.Name | nodes.NSRef):
        yield node
    yield from node.find_all((nodes.Name, nodes.NSRef))


def _is_set(name: object) -> bool:
    return isinstance(name, nodes.Name) and name.ctx == "store"


def _call(name: str, *given: Any) -> nodes.Call:
    return nodes.Call(nodes.Name(name, "load"), list(given), [], None, None)


def _put_indices_in_place(body: list[nodes.Node]) -> None:
    """Put the sum of places and lengths that a variable is set to in place of the variable.

    It is then read only where the variable is, such as in one turn of a hundred.
    """
    for node in list(body):
        if not (isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name)):
            continue
        name = node.target.name
        uses = [one for part in body for one in _names(part) if one.name == name]
        inner = [part for other in body for part in other.find_all((nodes.For, nodes.Macro, nodes.CallBlock))]
        hidden = {id(one) for part in inner for one in _names(part)}
        stores = [one for one in uses if _is_set(one)]
        if _is_index(node.node) and len(stores) == 1 and not any(id(one) in hidden for one in uses):
            body.remove(node)
            replaced = _Replaced(name, node.node)
            body[:] = [replaced.visit(part) for part in body]


class _Replaced(NodeTransformer):
    def __init__(self, name: str, by: nodes.Node) -> None:
        self._name, self._by = name, by

    def visit_Name(self, node: nodes.Name) -> nodes.Node:  # as Jinja2 calls it
        return self._by if node.name == self._name else node


class _Places(NodeTransformer):
    """Replaces what is read and written by a place in the loop, in its body alone.

    ``compared``: the names of variables that are only compared, by identity.
    """

    def __init__(self) -> None:
        self.compared: set[int] = set()

    def visit_For(self, node: nodes.For) -> nodes.Node:  # ``loop`` is another one in it
        node.iter = self.visit(node.iter)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        return node

    visit_CallBlock = visit_Macro  # noqa: N815  # as Jinja2 calls it

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        if len(node.ops) != 1 or node.ops[0].op not in COMPARISONS:
            return node
        how, left, right = node.ops[0].op, node.expr, node.ops[0].expr
        if _place(left) is None:
            left, right, how = right, left, _TURNED.get(how, how)
        offset, field = _place(left), _field(right)
        if offset is None or field is None:
            return node
        name, path, more = field
        if path is None:
            self.compared.add(id(name))
        numbers = nodes.Const(offset - more), nodes.Const(how)
        loop = nodes.Name("loop", "load")
        return _call(COMPARE, loop, *numbers, name, nodes.Const(name.name), nodes.Const(path))

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        """Replace ``messages[place]`` and ``messages[place:]``."""
        self.generic_visit(node)
        arg = node.arg
        is_rest = isinstance(arg, nodes.Slice) and arg.start is not None and not (arg.stop or arg.step)
        offset = _place(arg.start if is_rest else arg)  # type: ignore[attr-defined]
        if offset is None or not isinstance(node.node, nodes.Name):
            return node
        return _call(BESIDE, nodes.Name("loop", "load"), nodes.Const(offset), node.node, nodes.Const(is_rest))

    def visit_Assign(self, node: nodes.Assign) -> nodes.Node:
        self.generic_visit(node)
        offset = _place(node.node)
        if offset is None or not isinstance(node.target, nodes.NSRef):
            return node
        space, field = nodes.Name(node.target.name, "load"), nodes.Const(node.target.attr)
        call = _call(KEEP_PLACE, nodes.Name("loop", "load"), nodes.Const(offset), space, field)
        return nodes.ExprStmt(call, lineno=node.lineno)


def _attribute(node: Any) -> tuple[nodes.Name, str] | None:
    """Return a variable and the name of its attribute."""
    if not isinstance(node, nodes.Getattr | nodes.Getitem) or not isinstance(node.node, nodes.Name):
        return None
    if isinstance(node, nodes.Getattr):
        return node.node, node.attr
    named = node.arg.value if isinstance(node.arg, nodes.Const) else None
    return (node.node, named) if isinstance(named, str) else None


def _added(node: Any) -> tuple[Any, int]:
    """Return what a constant number is added to, and the number."""
    is_sum = isinstance(node, nodes.Add | nodes.Sub) and isinstance(node.right, nodes.Const)
    by = node.right.value if is_sum else None
    if type(by) is not int:
        return node, 0
    inner, number = _added(node.left)
    return inner, number + (by if isinstance(node, nodes.Add) else -by)


def _place(node: Any) -> int | None:
    """Return the offset of a place in the loop from the turn's; None if it is none."""
    inner, number = _added(node)
    attribute = _attribute(inner)
    if attribute is None or attribute[0].name != "loop" or attribute[1] not in _PLACES:
        return None
    return _PLACES[attribute[1]] + number


def _field(node: Any) -> tuple[nodes.Name, str | None, int] | None:
    """Return a variable, the name of its field, and the number that is added to a length."""
    if isinstance(node, nodes.Name):
        return None if node.name == "loop" else (node, None, 0)
    attribute = _attribute(node)
    if attribute is not None:
        return None if attribute[0].name == "loop" else (*attribute, 0)
    inner, number = _added(node)
    return (inner.node, LENGTH, number) if _is_length(inner) else None


def _is_length(node: Any) -> bool:
    """Return True for the length of a variable."""
    is_filter = isinstance(node, nodes.Filter) and node.name in {"length", "count"}
    return is_filter and isinstance(node.node, nodes.Name)


def _is_index(node: Any) -> bool:
    """Return True for a sum of loop indices and lengths, which cannot fail."""
    if isinstance(node, nodes.Const):
        return type(node.value) is int
    if isinstance(node, nodes.Add | nodes.Sub):
        return _is_index(node.left) and _is_index(node.right)
    if _is_length(node):
        return bool(node.node.name == "messages")
    attribute = _attribute(node)
    return attribute is not None and attribute[0].name == "loop" and attribute[1] in _INDICES
