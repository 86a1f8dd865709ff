"""Expressions of llama.cpp's Jinja, compiled to functions (common/jinja/runtime.cpp)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tokenbox.conversation.llama.functions import FUNCTIONS, TESTS, apply_test
from tokenbox.conversation.llama.methods import BUILTINS
from tokenbox.conversation.llama.operations import binary, builtin, equals, invoke, member
from tokenbox.conversation.llama.run import MISSING, Expression, Run, Scope, steps_of
from tokenbox.conversation.llama.syntax import Node, TemplateError
from tokenbox.conversation.llama.values import (
    Function,
    Keyword,
    Undefined,
    byte_length,
    is_number,
    key_of,
    kind,
    take_slice,
    truth,
    written,
)

_ALIASES: Final = {"count": "length", "d": "default", "e": "escape", "trim": "strip"}
# Filters that convert any value to text if they have no arguments.
_OF_TEXT: Final = frozenset({"capitalize", "lower", "replace", "strip", "title", "upper", "wordcount"})


class ExpressionCompiler:
    """A compiler of expressions: each node becomes a function of a run and a scope."""

    def expression(self, node: Node) -> Expression:
        make = getattr(self, f"_{node.kind}", None)
        if make is None:
            return failing(f"cannot exec {node.kind}")
        made: Expression = make(node)
        return made

    def _constant(self, node: Node) -> Expression:
        value = node.value
        return lambda run, env: value

    def _blank(self, _: Node) -> Expression:
        return lambda run, env: Undefined()

    def _name(self, node: Node) -> Expression:
        name = node.name
        handler = FUNCTIONS.get(name)
        if handler is None and name.startswith("test_is_"):
            handler = TESTS.get(name.removeprefix("test_is_"))

        def load(run: Run, env: Scope) -> Any:
            value = env.get(name, MISSING)
            if value is MISSING or isinstance(value, Undefined):
                return Undefined(name) if handler is None else Function(name, handler)
            if run.usage is not None:
                run.used(value)
            return value

        return load

    def _list(self, node: Node) -> Expression:
        items = [self.expression(item) for item in node.parts[0]]
        return lambda run, env: [item(run, env) for item in items]

    def _tuple(self, node: Node) -> Expression:
        items = [self.expression(item) for item in node.parts[0]]
        return lambda run, env: tuple([item(run, env) for item in items])

    def _object(self, node: Node) -> Expression:
        pairs = [(self.expression(key), self.expression(value)) for key, value in node.parts[0]]

        def make(run: Run, env: Scope) -> dict[Any, Any]:
            made: dict[Any, Any] = {}
            for key, value in pairs:
                name, found = key(run, env), value(run, env)
                made[key_of(name)] = found
            return made

        return make

    def _logical(self, node: Node) -> Expression:
        left, right = self._both(node)
        decides = node.kind == "or"

        def either(run: Run, env: Scope) -> Any:
            value = left(run, env)
            return value if truth(value) is decides else right(run, env)

        return either

    _and = _or = _logical

    def _not(self, node: Node) -> Expression:
        value = self.expression(node.parts[0])
        return lambda run, env: not truth(value(run, env))

    def _both(self, node: Node) -> tuple[Expression, Expression]:
        return self.expression(node.parts[0]), self.expression(node.parts[1])

    def _binary(self, node: Node) -> Expression:
        left, right = self._both(node)
        name = node.name
        if name == "==":
            return lambda run, env: equals(run, left(run, env), right(run, env))
        if name == "!=":
            return lambda run, env: not equals(run, left(run, env), right(run, env))

        def combine(run: Run, env: Scope) -> Any:
            return binary(run, name, left(run, env), right(run, env))

        return combine

    def _sign(self, node: Node) -> Expression:
        value, minus = self.expression(node.parts[0]), node.name == "-"

        def signed(run: Run, env: Scope) -> Any:
            found = value(run, env)
            if not is_number(found):
                raise TemplateError(f"Unary {node.name} operator requires numeric operand.")
            return -found if minus else found

        return signed

    def _choose(self, node: Node) -> Expression:
        test, first, second = (self.expression(part) for part in node.parts)
        return lambda run, env: (first if truth(test(run, env)) else second)(run, env)

    def _select(self, node: Node) -> Expression:
        value, test = self._both(node)
        return lambda run, env: value(run, env) if truth(test(run, env)) else Undefined()

    def _test(self, node: Node) -> Expression:
        operand, how = node.parts
        value, negated = self.expression(operand), bool(node.value)
        name, args = self._named_call(how)
        if name is None:
            return failing("Test callee must be an identifier")
        handler = TESTS.get(name)
        operation = f"test_is_{name}"

        def test(run: Run, env: Scope) -> Any:
            found = value(run, env)
            given = args(run, env)
            if handler is None:
                raise TemplateError(f"Unknown test {name!r}.")
            if run.usage is not None:
                run.used(found, operation)
            result = apply_test(run, env, handler, [found, *given])
            return not truth(result) if negated else result

        return test

    def _filter(self, node: Node) -> Expression:
        value, change = self.expression(node.parts[0]), self._filtering(node.parts[1])
        return lambda run, env: change(run, env, value(run, env))

    def _filtering(self, how: Node) -> Callable[[Run, Scope, Any], Any]:
        name, args = self._named_call(how)
        if name is None:
            fail = failing("Filter callee must be an identifier")
            return lambda run, env, value: fail(run, env)
        filter_name = _ALIASES.get(name, name)
        of_text = how.kind == "name" and filter_name in _OF_TEXT

        def change(run: Run, env: Scope, value: Any) -> Any:
            given = args(run, env)
            if of_text and not isinstance(value, str | Undefined):
                value = written(run, value)
            function = builtin(run, filter_name, value)
            if function is None:
                raise TemplateError(f"Unknown (built-in) filter {filter_name!r} for type {kind(value)}.")
            return invoke(run, env, function, given)

        return change

    def _named_call(self, how: Node) -> tuple[str | None, Callable[[Run, Scope], list[Any]]]:
        """Return the name of a filter or test, and its arguments."""
        if how.kind == "name":
            return how.name, lambda run, env: []
        if how.kind == "call" and how.parts[0].kind == "name":
            return how.parts[0].name, self._args(how.parts[1])
        return None, lambda run, env: []

    def _args(self, nodes: Sequence[Node]) -> Callable[[Run, Scope], list[Any]]:
        args = [self.expression(node) for node in nodes]
        return lambda run, env: [arg(run, env) for arg in args]

    def _keyword(self, node: Node) -> Expression:
        key, value = node.parts[0], self.expression(node.parts[1])
        if key.kind != "name":
            return failing("Keyword argument key must be identifiers")
        name = key.name
        return lambda run, env: Keyword(name, value(run, env))

    def _call(self, node: Node) -> Expression:
        callee, args = self.expression(node.parts[0]), self._args(node.parts[1])

        def call(run: Run, env: Scope) -> Any:
            given = args(run, env)
            return invoke(run, env, callee(run, env), given)

        return call

    def _member(self, node: Node) -> Expression:
        owner, key = self.expression(node.parts[0]), node.parts[1]
        if key.kind == "constant" and isinstance(key.value, int):
            place = key.value
            if place < 0:
                return failing("Static member property cannot be negative")
            return lambda run, env: member(run, owner(run, env), place)
        if key.kind != "name":
            return failing("Static member property must be an identifier")
        name = key.name

        def load(run: Run, env: Scope) -> Any:
            found = owner(run, env)
            if run.usage is None and type(found) is dict and name not in BUILTINS[dict]:
                value = found.get(name, MISSING)
                return Undefined("object_property") if value is MISSING else value
            return builtin(run, name, found) or member(run, found, name)

        return load

    def _item(self, node: Node) -> Expression:
        owner, key = self.expression(node.parts[0]), node.parts[1]
        if key.kind == "slice":
            return self._slice_of(owner, key)
        inner = self.expression(key)

        def load(run: Run, env: Scope) -> Any:
            found = owner(run, env)
            return member(run, found, inner(run, env))

        return load

    def _slice_of(self, owner: Expression, key: Node) -> Expression:
        start, stop, step = (self.expression(p) if isinstance(p, Node) else None for p in key.parts)

        def cut(run: Run, env: Scope) -> Any:
            found = owner(run, env)
            size = byte_length(found) if isinstance(found, str) else 0
            if isinstance(found, list | tuple):
                size = len(found)
            stride = step(run, env) if step else 1
            back = is_number(stride) and stride < 0
            first = start(run, env) if start else (size - 1 if back else 0)
            last = stop(run, env) if stop else (-1 if back else size)
            function = builtin(run, "slice", found)
            if function is None:
                raise TemplateError(f"Unknown (built-in) filter 'slice' for type {kind(found)}.")
            run.reads_texts([found])
            taken = take_slice(found, first, last, stride)
            run.steps(len(taken) if isinstance(taken, str) and stride != 1 else steps_of(taken) // 4)
            return taken

        return cut


def failing(why: str) -> Expression:
    def fail(run: Run, env: Scope) -> Any:
        raise TemplateError(f"{why}.")

    return fail
