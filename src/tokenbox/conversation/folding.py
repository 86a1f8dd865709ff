"""Chat templates in Jinja2 whose loops can be gone through turn by turn.

A loop at the top of a template becomes a macro for one turn, and a call that goes through the turns
(:mod:`tokenbox.conversation.folded`). In a loop, Jinja2 changes no outer variable, only the fields of
namespaces. So a turn can read the outer variables, these fields, the messages and ``loop``, and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from jinja2 import nodes
from jinja2.compiler import operators
from jinja2.visitor import NodeTransformer

from tokenbox.conversation.llama.turns import COMPARISONS, TURNED, NotLocal
from tokenbox.conversation.sandbox import Sandbox

FOLD: Final = "tokenbox_fold"
COMPARE: Final = "tokenbox_compare"
KEEP_PLACE: Final = "tokenbox_keep_place"
BESIDE: Final = "tokenbox_beside"
PLACES_TO_END: Final = "tokenbox_places_to_end"
_OURS: Final = "tokenbox_"
# Functions of one render, so other objects in the next, and what our calls read.
_KEPT: Final = frozenset(("namespace", "strftime_now", "loop"))
# A call has all outer names, and a name may stand for a sum of places: more would be millions of nodes.
_MANY_NAMES: Final = 1_000
_MANY_LOOPS: Final = 50
_MANY_TERMS: Final = 8
LENGTH: Final = "messages | length"
_PLACES: Final = {"index0": 0, "index": 1}
_INDICES: Final = frozenset((*_PLACES, "revindex", "revindex0", "length"))
NUMBERS: Final = frozenset((*_INDICES, "first", "last"))
"""The attributes of ``loop`` that a tracked loop has, beside its neighbours."""
_NAMES_OF_MACROS: Final = frozenset(("varargs", "kwargs", "caller"))


class FoldedLoop(NamedTuple):
    """The outer names of a loop. ``noted``: those whose values every turn may read."""

    names: tuple[str, ...]
    noted: tuple[str, ...]


class FoldingSandbox(Sandbox):
    """A sandbox whose templates call :data:`FOLD` in place of their loops."""

    folded: list[FoldedLoop]

    def rewritten(self, template: nodes.Template) -> nodes.Template:
        """Return the template with folded loops. Raises ``NotLocal`` for names that none should have."""
        self.folded = []
        macros = list(template.find_all(nodes.Macro))
        names = [*_names(template), *macros]
        self._set = {one.name for one in names if _is_set(one)}
        all_of_them = {one.name for one in names}
        changed = {one.name for one in names if _is_stored(one) or isinstance(one, nodes.Macro)}
        is_usual = "loop" not in self._set and not changed & _KEPT and not any(map(_is_ours, all_of_them))
        if not is_usual or len(all_of_them) > _MANY_NAMES:
            raise NotLocal
        self._of_macros = {one.name for macro in macros for one in _names(macro) if not _is_stored(one)}
        template.body = list(self._statements(template.body))
        template.set_environment(self)
        return template

    def _statements(self, body: list[nodes.Node]) -> Iterator[nodes.Node]:
        for node in body:
            if isinstance(node, nodes.If):
                for branch in (node, *node.elif_):
                    branch.body = list(self._statements(branch.body))
                node.else_ = list(self._statements(node.else_))
            if isinstance(node, nodes.For) and len(self.folded) < _MANY_LOOPS and _is_foldable(node):
                yield from self._folded(node)
            else:
                yield node

    def _folded(self, loop: Any) -> Iterator[nodes.Node]:
        """Yield a macro with the body of a loop, and a call that goes through its turns."""
        bodies = _Places({one.name for one in _names(loop) if _is_set(one)})
        body = [bodies.visit(node) for node in _with_indices_in_place(loop.body, self._set)]
        read = [one for node in body for one in _names(node) if not _is_stored(one)]
        names = {one.name for one in read if not _is_ours(one.name)} | self._of_macros
        names -= _KEPT
        noted = self._of_macros | {one.name for one in read if id(one) not in bodies.compared}
        noted &= names
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


def _is_stored(name: object) -> bool:
    return isinstance(name, nodes.Name) and name.ctx == "store"


def _is_set(name: object) -> bool:
    """Return True for a variable that is set, and for a parameter or the name of a macro."""
    return isinstance(name, nodes.Macro) or (isinstance(name, nodes.Name) and name.ctx != "load")


def _is_ours(name: str) -> bool:
    return name.startswith(_OURS)


def _call(name: str, *given: Any) -> nodes.Call:
    return nodes.Call(nodes.Name(name, "load"), list(given), [], None, None)


def _with_indices_in_place(body: list[nodes.Node], set_anywhere: Collection[str]) -> list[nodes.Node]:
    """Return the body of a loop with the sums of places and lengths in place of variables set to them.

    They are then read only where the variable is, such as in one turn of a hundred.
    """
    uses: defaultdict[str, list[tuple[int, Any]]] = defaultdict(list)
    for place, part in enumerate(body):
        for one in _names(part):
            uses[one.name].append((place, one))
    scopes = (nodes.For, nodes.Macro, nodes.CallBlock)
    inner = [node for part in body for node in (part, *part.find_all(scopes)) if isinstance(node, scopes)]
    hidden = {id(one) for node in inner for one in _names(node)}
    by: dict[str, nodes.Node] = {}
    replaced, made = _Replaced(by), []
    for place, part in enumerate(body):
        node = replaced.visit(part)
        is_sum = isinstance(node, nodes.Assign) and 0 < _terms(node.node, set_anywhere) <= _MANY_TERMS
        if (
            is_sum
            and isinstance(node.target, nodes.Name)
            and all(
                at > place and isinstance(one, nodes.Name) and not _is_set(one) and id(one) not in hidden
                for at, one in uses[node.target.name]
                if one is not node.target
            )
        ):
            by[node.target.name] = node.node
        else:
            made.append(node)
    return made


class _Replaced(NodeTransformer):
    def __init__(self, by: Mapping[str, nodes.Node]) -> None:
        self._by = by

    def visit_Name(self, node: nodes.Name) -> nodes.Node:  # as Jinja2 calls it
        return self._by.get(node.name, node)


class _Places(NodeTransformer):
    """Replaces what is read and written by a place in the loop, in its body alone.

    ``own``: the variables that the loop sets. ``compared``: the names of others, only compared, by identity.
    """

    def __init__(self, own: Collection[str]) -> None:
        self._own = own
        self.compared: set[int] = set()

    def visit_For(self, node: nodes.For) -> nodes.Node:  # ``loop`` is another one in it
        node.iter = self.visit(node.iter)
        if _is_to_end(node.iter):
            *starts, end = node.iter.args  # type: ignore[attr-defined]  # of a call
            start = starts[0] if starts else nodes.Const(0)
            node.iter = _call(PLACES_TO_END, node.iter.node, start, end.node)  # type: ignore[attr-defined]  # of a call
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        return node

    visit_CallBlock = visit_Macro  # noqa: N815  # as Jinja2 calls it

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        left, right, how = node.expr, node.ops[0].expr, operators[node.ops[0].op]
        if len(node.ops) != 1 or how not in COMPARISONS:
            return node
        if _place(left) is None:
            left, right, how = right, left, TURNED.get(how, how)
        offset, field = _place(left), _field(right)
        if offset is None or field is None:
            return node
        name, path, more = field
        if path is None and name.name in self._own:
            return node
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
    """Return how far a place in the loop is from the turn's own; None for any other node."""
    inner, number = _added(node)
    attribute = _attribute(inner)
    if attribute is None or attribute[0].name != "loop" or attribute[1] not in _PLACES:
        return None
    return _PLACES[attribute[1]] + number


def _field(node: Any) -> tuple[nodes.Name, str | None, int] | None:
    """Return a variable, the name of its field, and the number that is added to a length."""
    if isinstance(node, nodes.Name):
        return None if node.name == "loop" else (node, None, 0)
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
        is_field = node.node.name != "loop" and not node.attr.startswith("_")
        return (node.node, node.attr, 0) if is_field else None
    inner, number = _added(node)
    return (inner.node, LENGTH, number) if _is_length(inner) else None


def _is_length(node: Any) -> bool:
    """Return True for the length of a variable."""
    is_filter = isinstance(node, nodes.Filter) and node.name in {"length", "count"}
    return is_filter and isinstance(node.node, nodes.Name)


def _is_to_end(node: Any) -> bool:
    """Return True for the places of a list, all or from one on: ``range(start, messages | length)``."""
    if not isinstance(node, nodes.Call) or not isinstance(node.node, nodes.Name) or node.node.name != "range":
        return False
    is_plain = not (node.kwargs or node.dyn_args or node.dyn_kwargs)
    return is_plain and len(node.args) in {1, 2} and _is_length(node.args[-1])


def _terms(node: Any, set_anywhere: Collection[str]) -> int:
    """Count the terms of a sum of loop indices and lengths, which cannot fail; 0 for any other node."""
    if isinstance(node, nodes.Add | nodes.Sub):
        left, right = _terms(node.left, set_anywhere), _terms(node.right, set_anywhere)
        return left + right if left and right else 0
    if isinstance(node, nodes.Const):
        return int(type(node.value) is int)
    if _is_length(node):
        return int(node.node.name == "messages" and "messages" not in set_anywhere)
    attribute = _attribute(node)
    return int(attribute is not None and attribute[0].name == "loop" and attribute[1] in _INDICES)
