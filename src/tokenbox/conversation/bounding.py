"""The calls that are added to a chat template, by which its sandbox bounds what it does.

Loops, macros and blocks count their steps. Joins, slices and new values are checked as they are made, and the
operands of comparisons as they are read. :mod:`tokenbox.conversation.sandbox` has the bounds.
"""

from __future__ import annotations

from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.visitor import NodeTransformer

# The functions and the filter that are called, by their names in a template.
TICK: Final = "tokenbox_tick"
JOIN: Final = "tokenbox_join"
MADE: Final = "tokenbox_made"
CUT: Final = "tokenbox_cut"
READ: Final = "tokenbox_read"
# The call of a macro or a block takes as long as so many turns of a loop, and so do many expressions in one.
_CALL_STEPS: Final = 8
_NODES_A_STEP: Final = 32


class Bounding(NodeTransformer):
    """A transformer that adds a step counter to loops and macros, and bounds to the operations."""

    def __init__(self, environment: jinja2.Environment) -> None:
        self._environment = environment

    def visit_For(self, node: nodes.For) -> nodes.Node:  # as Jinja calls it
        idle = _idle(node)
        node.body.insert(0, self._tick(node))
        if idle is not None:
            node.body.insert(0, nodes.If(idle, [nodes.Break()], [], [], lineno=node.lineno))
        return self.generic_visit(node)

    def _called(self, node: nodes.Macro | nodes.CallBlock | nodes.Block) -> nodes.Node:
        node.body.insert(0, self._tick(node, _CALL_STEPS))
        return self.generic_visit(node)

    visit_Macro = visit_CallBlock = visit_Block = _called  # noqa: N815  # as Jinja calls them

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        return self.generic_visit(self._call(JOIN, node.nodes, node))

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return self._call(CUT, [node], node) if isinstance(node.arg, nodes.Slice) else node

    def _made(self, node: nodes.Expr) -> nodes.Node:
        self.generic_visit(node)
        is_constant = all(isinstance(child, nodes.Const) for child in node.iter_child_nodes())
        if is_constant or getattr(node, "ctx", "load") != "load":
            return node
        return self._call(MADE, [node], node)

    visit_List = visit_Tuple = visit_Dict = _made  # noqa: N815  # as Jinja calls them

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        """Count what is read: a comparison ends with the shorter value, and ``in`` with the right one."""
        self.generic_visit(node)
        operands: list[Any] = [node, *node.ops]
        fixed = [_is_fixed(one.expr) for one in operands]
        if fixed[-1] if node.ops[-1].op in {"in", "notin"} else any(fixed):
            return node
        for one in operands:
            one.expr = self._read(one.expr)
        return node

    def visit_Sub(self, node: nodes.Sub) -> nodes.Node:  # of the keys of two objects, too
        self.generic_visit(node)
        if not (_is_fixed(node.left) or _is_fixed(node.right)):
            node.left, node.right = self._read(node.left), self._read(node.right)
        return node

    def _read(self, node: nodes.Expr) -> nodes.Expr:
        if _is_fixed(node) or (isinstance(node, nodes.Filter) and node.name == READ):
            return node
        made = nodes.Filter(node, READ, [], [], None, None, lineno=node.lineno)
        made.set_environment(self._environment)
        return made

    def _tick(
        self, node: nodes.For | nodes.Macro | nodes.CallBlock | nodes.Block, steps: int = 1
    ) -> nodes.Node:
        steps += sum(map(_longest, node.body)) // _NODES_A_STEP
        fixed = sum(len(text.data) for text in node.find_all(nodes.TemplateData))
        call = self._call(TICK, [nodes.Const(fixed), nodes.Const(steps)], node)
        return nodes.ExprStmt(call, lineno=node.lineno).set_environment(self._environment)

    def _call(self, name: str, args: list[nodes.Expr], node: nodes.Node) -> nodes.Node:
        call = nodes.Call(nodes.Name(name, "load"), args, [], None, None, lineno=node.lineno)
        return call.set_environment(self._environment)


def _is_fixed(node: nodes.Node) -> bool:
    """Return True for a constant, or a list of constants: how long it is depends on the template alone."""
    parts = node.items if isinstance(node, nodes.List | nodes.Tuple) else [node]
    return all(isinstance(part, nodes.Const) for part in parts)


def _longest(node: nodes.Node) -> int:
    """Return the most nodes that are executed, without the bodies that count their own steps."""
    if isinstance(node, nodes.If):
        branches = [node, *node.elif_]
        ways = [*(one.body for one in branches), node.else_]
        tests = sum(_longest(one.test) for one in branches)
        return tests + max(sum(map(_longest, way)) for way in ways)
    counts_itself = isinstance(node, nodes.For | nodes.Macro | nodes.CallBlock | nodes.Block)
    return 1 + sum(map(_longest, node.iter_child_nodes(exclude=("body",) if counts_itself else ())))


def _idle(loop: nodes.For) -> nodes.Node | None:
    """Return a test that is true once no further turn of a loop can have an effect; None if unknown.

    See ``_idle`` in :mod:`tokenbox.conversation.llama.compiler`. A jump would execute the ``else`` of a loop.
    """
    body = loop.body
    if len(body) != 1 or not isinstance(body[0], nodes.If) or loop.else_:
        return None
    test, parts = body[0].test, _walk(body[0].test)
    changing = {"loop", *(part.name for part in _walk(loop.target) if isinstance(part, nodes.Name))}
    if not all(isinstance(part, _UNCHANGING) for part in parts):
        return None
    if any(isinstance(part, nodes.Name) and part.name in changing for part in parts):
        return None
    if not body[0].elif_ and not body[0].else_:
        return nodes.Not(test)
    return None if body[0].body else test


def _walk(node: nodes.Node) -> list[nodes.Node]:
    return [node, *node.find_all(nodes.Node)]


# Expressions of these have the same value until a statement is executed.
_UNCHANGING: Final = (
    nodes.Name, nodes.Getattr, nodes.Const, nodes.Not, nodes.And, nodes.Or, nodes.Compare, nodes.Operand,
)  # fmt: skip
