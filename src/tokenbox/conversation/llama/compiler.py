"""Statements and programs of llama.cpp's Jinja, compiled to functions (common/jinja/runtime.cpp).

Every node of the tree becomes a function once; a render calls them. Scopes are copied as in llama.cpp: a loop
has one scope for all its turns, and a macro sees the variables of its caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tokenbox.conversation.llama.expressions import ExpressionCompiler, failing
from tokenbox.conversation.llama.functions import named
from tokenbox.conversation.llama.operations import fork, invoke, items_of, loop_variables, print_value
from tokenbox.conversation.llama.parser import parse
from tokenbox.conversation.llama.run import (
    TURN_STEPS,
    BreakLoop,
    ContinueLoop,
    Expression,
    Run,
    Scope,
    Statement,
)
from tokenbox.conversation.llama.syntax import Node, TemplateError
from tokenbox.conversation.llama.values import Function, Loop, Undefined, kind, truth

_GLOBALS: Final[Mapping[str, Any]] = {
    "true": True, "True": True, "false": False, "False": False, "none": None, "None": None,
}  # fmt: skip


class Program:
    def __init__(self, source: str, compiler: Compiler | None = None) -> None:
        self.source = source
        self.tree = parse(source)
        try:
            self._body = (compiler or Compiler()).body(self.tree)
        except RecursionError:
            raise TemplateError("the chat template does not parse: it is nested too deeply.") from None

    def names(self) -> frozenset[str]:
        return frozenset(
            node.name for part in self.tree for node in part.walk() if node.kind == "name" and node.name
        )

    def render(self, variables: Mapping[str, Any], run: Run) -> str:
        """Return the text. Raises :class:`TemplateError`."""
        return "".join(self.pieces(variables, run))

    def pieces(self, variables: Mapping[str, Any], run: Run) -> list[Any]:
        """Return the texts that a render prints, in order. Raises :class:`TemplateError`."""
        out: list[Any] = []
        try:
            self._body(run, {**_GLOBALS, **variables}, out)
        except TemplateError:
            raise
        except (BreakLoop, ContinueLoop):
            raise TemplateError("a break or continue outside of a loop.") from None
        except RecursionError:
            raise TemplateError("the chat template calls itself too deeply.") from None
        except (ValueError, TypeError, OverflowError, ArithmeticError) as error:
            raise TemplateError(f"the chat template failed: {error}.") from error
        return out


class Compiler(ExpressionCompiler):
    """A compiler of statements: each node becomes a function of a run, a scope and the output."""

    def body(self, nodes: Sequence[Node]) -> Statement:
        steps = [self.statement(node) for node in nodes if node.kind != "nothing"]
        weight = sum(map(_weight, nodes))

        def body(run: Run, env: Scope, out: list[Any]) -> None:
            run.steps(weight)
            for step in steps:
                step(run, env, out)

        return body

    def statement(self, node: Node) -> Statement:
        made: Statement = getattr(self, f"_{node.kind.replace(' ', '_')}_statement")(node)
        return made

    def _text_statement(self, node: Node) -> Statement:
        text = node.value

        def print_text(run: Run, env: Scope, out: list[Any]) -> None:
            out.append(text)

        return print_text

    def _print_statement(self, node: Node) -> Statement:
        value = self.expression(node.parts[0])

        def print_it(run: Run, env: Scope, out: list[Any]) -> None:
            found = value(run, env)
            if isinstance(found, str):
                run.grow(len(found))
                out.append(found)
            else:
                print_value(run, found, out)

        return print_it

    def _if_statement(self, node: Node) -> Statement:
        test = self.expression(node.parts[0])
        body, other = self.body(node.parts[1]), self.body(node.parts[2])

        def branch(run: Run, env: Scope, out: list[Any]) -> None:
            mark = len(out)
            try:
                (body if truth(test(run, env)) else other)(run, env, out)
            except (BreakLoop, ContinueLoop):
                del out[mark:]  # llama.cpp loses the output of a branch before a jump
                raise

        return branch

    def _jump_statement(self, node: Node) -> Statement:
        signal = BreakLoop if node.kind == "break" else ContinueLoop

        def jump(run: Run, env: Scope, out: list[Any]) -> None:
            raise signal

        return jump

    _break_statement = _continue_statement = _jump_statement

    def _set_statement(self, node: Node) -> Statement:
        target, given, inner = node.parts
        value = self._caught(inner) if given is None else self.expression(given)
        assign = self._assign(target)

        def set_it(run: Run, env: Scope, out: list[Any]) -> None:
            assign(run, env, value(run, env))

        return set_it

    def _assign(self, target: Node) -> Callable[[Run, Scope, Any], None]:
        if target.kind == "name":
            name = target.name

            def set_name(run: Run, env: Scope, value: Any) -> None:
                env[name] = value

            return set_name
        if target.kind == "tuple":
            names = _names(target)

            def unpack(run: Run, env: Scope, value: Any) -> None:
                _unpack(names, value, env)

            return unpack
        if target.kind == "member" and target.parts[1].kind == "name":
            owner, key = self.expression(target.parts[0]), target.parts[1].name

            def set_member(run: Run, env: Scope, value: Any) -> None:
                found = owner(run, env)
                if not isinstance(found, dict):
                    raise TemplateError("Cannot assign to member of non-object.")
                run.changes(found)
                found[key] = value

            return set_member

        def fail(run: Run, env: Scope, value: Any) -> None:
            raise TemplateError("Invalid LHS inside assignment expression.")

        return fail

    def _caught(self, nodes: Sequence[Node]) -> Expression:
        body = self.body(nodes)

        def caught(run: Run, env: Scope) -> str:
            out: list[Any] = []
            body(run, env, out)
            text = "".join(out)
            run.grow(len(text))
            return text

        return caught

    def _for_statement(self, node: Node) -> Statement:
        target, items, body, other = node.parts
        test = None
        if items.kind == "select":
            items, condition = items.parts
            test = self.expression(condition)
        values, turn = self.expression(items), self.body(body)
        otherwise = self.body(other)
        bind = LoopNames(target)
        turns = self._turns(node, bind, turn)

        def loop(run: Run, env: Scope, out: list[Any]) -> None:
            scope = fork(run, env)
            chosen = _looped_over(run, values(run, scope), bind)
            if bind.fails and chosen:
                raise TemplateError("Invalid loop variable(s).")
            if not bind.single:
                for item in chosen:
                    _check_unpack(bind.names, item)
            if test is not None:
                kept = []
                for item in chosen:
                    inner = fork(run, scope)
                    bind(item, inner)
                    if truth(test(run, inner)):
                        kept.append(item)
                chosen = kept
            if not turns(run, scope, out, chosen):
                otherwise(run, env, out)

        return loop

    def _turns(
        self, node: Node, bind: LoopNames, turn: Statement
    ) -> Callable[[Run, Scope, list[Any], list[Any]], bool]:
        """Return a function that executes the turns of a loop and returns True if any was completed."""
        idle, settles = self._idle(node.parts[2], bind.names), self._settles(node.parts[2], bind.names)
        variables = self._loop_variables

        def turns(run: Run, scope: Scope, out: list[Any], chosen: list[Any]) -> bool:
            ended = False
            for place, item in enumerate(chosen):
                if idle is not None and idle(run, scope):
                    return True
                run.steps(TURN_STEPS)
                scope["loop"] = variables(chosen, place)
                bind(item, scope)
                is_last = settles is not None and run.usage is None and truth(settles(run, scope))
                try:
                    turn(run, scope, out)
                except ContinueLoop:
                    continue
                except BreakLoop:
                    break
                ended = True
                if is_last:
                    break
            return ended

        return turns

    def _loop_variables(self, items: list[Any], place: int) -> Loop:
        return loop_variables(items, place)

    def _idle(self, body: Sequence[Node], names: Sequence[str]) -> Expression | None:
        """Return a test that is true once no further turn of a loop can have an effect; None if unknown.

        Templates search the messages for the nearest one of a kind by a loop over all of them, whose body is
        an ``if`` on a flag. Each loop would take all its turns otherwise, so a render as many as n * n.
        """
        test, then, other = _only_if(body)
        changing = {"loop", *names}
        if test is None or any(p.kind not in _UNCHANGING or p.name in changing for p in test.walk()):
            return None
        value = self.expression(test)
        if not other:
            return lambda run, env: not truth(value(run, env))
        return None if then else lambda run, env: truth(value(run, env))

    def _settles(self, body: Sequence[Node], names: Sequence[str]) -> Expression | None:
        """Return the test of a body that only sets fields to constants if it is true; None for any other.

        Templates use such a loop to look for a message among all that follow. Once the test is true, no
        further turn has an effect, so the loop need not take all its turns.
        """
        test, then, other = _only_if(body)
        if test is None or other or not all(_sets_a_constant(node, names) for node in then):
            return None
        return self.expression(test) if all(_cannot_fail(part, names) for part in test.walk()) else None

    def _macro_statement(self, node: Node) -> Statement:
        name, arguments, body = node.name, node.parts[0], self._caught(node.parts[1])
        bind = self._parameters(name, arguments)

        def macro(run: Run, env: Scope, args: list[Any]) -> str:
            inner = fork(run, env)
            bind(run, env, args, inner)
            run.enter()
            found: str = body(run, inner)
            run.leave()
            return found

        def define(run: Run, env: Scope, out: list[Any]) -> None:
            env[name] = Function(name, macro)

        return define

    def _parameters(self, name: str, nodes: Sequence[Node]) -> Callable[[Run, Scope, list[Any], Scope], None]:
        parameters: list[tuple[str, Expression | None]] = []
        for node in nodes:
            if node.kind == "name":
                parameters.append((node.name, None))
            elif node.kind == "keyword" and node.parts[0].kind == "name":
                default = self.expression(node.parts[1])
                parameters.append((node.parts[0].name, default))
            else:
                parameters.append(("", failing(f"Invalid parameter type in {name!r}")))

        weight = sum(map(_weight, nodes))

        def bind(run: Run, env: Scope, args: list[Any], inner: Scope) -> None:
            run.steps(weight)
            for place, (parameter, default) in enumerate(parameters):
                if place < len(args):
                    if not parameter:
                        raise TemplateError(f"Invalid parameter type in {name!r}.")
                    inner[parameter] = named(args, parameter, place)
                elif default is None:
                    raise TemplateError(f"Not enough arguments provided to {name!r}.")
                else:
                    inner[parameter] = default(run, env)

        return bind

    def _call_block_statement(self, node: Node) -> Statement:
        callee, arguments, caller, body = node.parts
        function = self.expression(callee)
        args = self._args(arguments)
        bind, inside = self._parameters("caller", caller), self._caught(body)

        def call(run: Run, env: Scope, out: list[Any]) -> None:
            found = function(run, env)
            if not isinstance(found, Function):
                raise TemplateError(f"Callee is not a function: got {kind(found)}.")
            kept = fork(run, env)

            def block(run: Run, inner_env: Scope, given: list[Any]) -> str:
                inner = fork(run, kept)
                bind(run, inner_env, given, inner)
                text: str = inside(run, inner)
                return text

            outer = fork(run, env)
            outer["caller"] = Function("caller", block)
            print_value(run, invoke(run, outer, found, args(run, env)), out)

        return call

    def _filter_block_statement(self, node: Node) -> Statement:
        how, body = node.parts
        text, change = self._caught(body), self._filtering(how)

        def filter_it(run: Run, env: Scope, out: list[Any]) -> None:
            print_value(run, change(run, env, text(run, env)), out)

        return filter_it


_STATEMENTS: Final = frozenset(
    [*"text print set if for macro break continue nothing".split(), "call block", "filter block"]
)
# Expressions of these have the same value until a statement is executed.
_UNCHANGING: Final = frozenset("name member constant not and or binary".split())


def _cannot_fail(node: Node, names: Sequence[str]) -> bool:
    """Return True for a part of a test that fails for no message: a later one may be refused."""
    if node.kind != "binary" or node.name in {"==", "!="}:
        return node.kind in _UNCHANGING
    key, owner = node.nodes()
    is_key = key.kind == "constant" and isinstance(key.value, str)
    return node.name in {"in", "not in"} and is_key and owner.kind == "name" and owner.name in names


def _only_if(body: Sequence[Node]) -> tuple[Node | None, list[Node], list[Node]]:
    """Return the test of a body that is one ``if``, and the statements of its branches."""
    statements = [node for node in body if node.kind != "nothing"]
    if len(statements) != 1 or statements[0].kind != "if":
        return None, [], []
    test, *branches = statements[0].parts
    then, other = ([node for node in branch if node.kind != "nothing"] for branch in branches)
    return test, then, other


def _sets_a_constant(node: Node, names: Sequence[str]) -> bool:
    """Return True for a statement that sets a field of a variable outside of the loop to a constant."""
    if node.kind != "set" or node.parts[0].kind != "member" or node.parts[1] is None:
        return False
    owner, value = node.parts[0].parts[0], node.parts[1]
    is_constant = value.kind == "constant" or (value.kind == "name" and value.name in _GLOBALS)
    return is_constant and owner.kind == "name" and owner.name not in {"loop", *names}


def _weight(node: Node) -> int:
    """Return the steps to execute a statement: the nodes of it, without those of the statements in it."""
    weight, waiting = 0, [node]
    while waiting:
        weight += 1
        waiting += [inner for inner in waiting.pop().nodes() if inner.kind not in _STATEMENTS]
    return weight


class LoopNames:
    """The variables of a loop for its items."""

    def __init__(self, target: Node) -> None:
        self.single = target.kind == "name"
        self.names = [target.name] if self.single else _names(target) if target.kind == "tuple" else []
        self.fails = not self.names

    def __call__(self, item: Any, scope: Scope) -> None:
        if self.single:
            scope[self.names[0]] = item
        else:
            _unpack(self.names, item, scope)


def _names(target: Node) -> list[str]:
    return [part.name if part.kind == "name" else "" for part in target.parts[0]]


def _looped_over(run: Run, value: Any, bind: LoopNames) -> list[Any]:
    """Return the items of a value that a loop takes: of a mapping its keys, or its pairs for two names."""
    run.used(value, "array_access")
    if isinstance(value, dict):
        run.used(value, "object_access")
        return list(value) if bind.single else list(value.items())
    if isinstance(value, list | tuple):
        return items_of(value)
    if isinstance(value, Undefined):
        return []
    raise TemplateError(f"Expected iterable or object type in for loop: got {kind(value)}.")


def _check_unpack(names: list[str], value: Any) -> None:
    if not isinstance(value, list | tuple):
        raise TemplateError(f"Cannot unpack non-iterable type: {kind(value)}.")
    if len(names) != len(value):
        raise TemplateError(f"Too {'few' if len(names) > len(value) else 'many'} items to unpack.")


def _unpack(names: list[str], value: Any, env: Scope) -> None:
    _check_unpack(names, value)
    for name, item in zip(names, value, strict=True):
        if not name:
            raise TemplateError("Cannot unpack to non-identifier.")
        env[name] = item
