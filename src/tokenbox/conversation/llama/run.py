"""llama.cpp's Jinja, executed (common/jinja/runtime.cpp).

Every node of the tree becomes a function once; a render calls them. Scopes are copied as llama.cpp copies
them: a loop has one scope for all its turns, and a macro sees the variables of its caller.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from tokenbox.conversation.llama.syntax import Node, TemplateError, parse
from tokenbox.conversation.llama.values import (
    BUILTINS,
    FUNCTIONS,
    MAX_CHARACTERS,
    TESTS,
    Failed,
    Function,
    Keyword,
    Loop,
    Undefined,
    cast_int,
    contains,
    equal,
    index_text,
    is_number,
    key_of,
    kind,
    take_slice,
    text_of,
    truth,
)

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Mapping, Sequence

    from tokenbox.conversation.llama.fold import Track

    Scope = dict[str, Any]
    Expression = Callable[["Run", Scope], Any]
    Statement = Callable[["Run", Scope, list[Any]], None]

MAX_STEPS: Final = 2_000_000
MAX_CALLS: Final = 200  # macros within macros
_GLOBALS: Final[Mapping[str, Any]] = {
    "true": True, "True": True, "false": False, "False": False, "none": None, "None": None,
}  # fmt: skip
_ALIASES: Final = {"count": "length", "d": "default", "e": "escape", "trim": "strip"}
# Filters that take any value's text, where they stand without arguments.
_OF_TEXT: Final = frozenset({"capitalize", "lower", "replace", "strip", "title", "upper", "wordcount"})
_SAME: Final = frozenset({"default", "safe"})
MISSING: Final = object()


class Seen:
    """What a render did with the values of a request; only abilities are found out by it."""

    def __init__(self) -> None:
        self.used: set[int] = set()
        self.operations: set[tuple[int, str]] = set()


class Run:
    """One render: what it may still do, and what it did.

    ``uncertain``: something was done whose result is not proven to be llama.cpp's. ``dated``: the forms
    in which the date was printed.
    """

    __slots__ = ("_calls", "_grown", "_steps", "dated", "now", "seen", "track", "uncertain")

    def __init__(self, now: dt.datetime | None = None, seen: Seen | None = None) -> None:
        self.now = now
        self.seen = seen
        self.track: Track | None = None
        self.uncertain = False
        self.dated: set[str] = set()
        self._steps = self._grown = self._calls = 0

    def steps(self, number: int = 1) -> None:
        self._steps += number
        if self._steps > MAX_STEPS:
            raise Failed(f"the chat template took more than {MAX_STEPS:,} steps.")

    def grow(self, characters: int) -> None:
        """Count characters that are made. Raises before there are too many."""
        self._grown += characters
        if self._grown > 4 * MAX_CHARACTERS:
            raise Failed(f"the chat template wrote more than {MAX_CHARACTERS:,} characters.")

    def enter(self) -> None:
        self._calls += 1
        if self._calls > MAX_CALLS:
            raise Failed("the chat template calls itself too deeply.")

    def leave(self) -> None:
        self._calls -= 1

    def date(self, form: str) -> str:
        if self.now is None:
            raise Failed("the chat template prints the date. Give `now`, the time of the request.")
        self.dated.add(form)
        if self.track is not None:
            self.track.forget()
        return self.now.strftime(form)

    def changes(self, value: object) -> None:
        """A list or an object is about to change."""
        if self.track is not None:
            self.track.changes(value)

    # Only where abilities are found out

    def used(self, value: object, operation: str = "") -> None:
        if self.seen is not None:
            self.seen.used.add(id(value))
            if operation:
                self.seen.operations.add((id(value), operation))

    def used_deeply(self, value: Any) -> None:
        if self.seen is None:
            return
        self.seen.used.add(id(value))
        if isinstance(value, list | tuple):
            for item in value:
                self.used_deeply(item)
        elif isinstance(value, dict):
            for item in value.values():
                self.used_deeply(item)


class Broken(Exception):  # a jump
    """``{% break %}``."""


class Continued(Exception):  # a jump
    """``{% continue %}``."""


def is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def fork(env: Scope) -> Scope:
    """A scope within another one, which it begins as a copy of."""
    return dict(env) if type(env) is dict else env.fork()  # type: ignore[attr-defined]


def print_value(value: Any, out: list[Any]) -> None:
    """Lists print their items one after another; objects and nothing print nothing."""
    if isinstance(value, str):
        if value:
            out.append(value)
    elif isinstance(value, list | tuple):
        for item in value:
            print_value(item, out)
    elif isinstance(value, bool | int | float):
        out.append(text_of(value))


def builtin(run: Run, name: str, value: Any) -> Function | None:
    if run.seen is not None:
        run.used(value, name)
    table = BUILTINS.get(type(value))
    if table is None:
        raise Failed(f"{kind(value)} has no builtins.")
    handler = table.get(name)
    return None if handler is None else Function(name, handler, (value,))


def invoke(run: Run, env: Scope, function: Any, args: list[Any]) -> Any:
    if not isinstance(function, Function):
        raise Failed(f"Callee is not a function: got {kind(function)}.")
    result = function.call(run, env, [*function.bound, *args])
    if (
        run.seen is not None
        and isinstance(result, str)
        and function.bound
        and result is function.bound[0]
        and function.name not in _SAME
    ):
        # A new value to llama.cpp, where Python gives the same.
        return result.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    return result


def member(run: Run, owner: Any, key: Any) -> Any:
    """``owner[key]``, and ``owner.key`` where that is not a built-in function."""
    if isinstance(key, Undefined):
        return Undefined("object_property")
    found: Any = MISSING
    if isinstance(owner, dict):
        found = owner.get(key_of(key), MISSING)
        if found is MISSING or isinstance(found, Undefined):
            found = builtin(run, text_of(key), owner) or Undefined("object_property")
    elif isinstance(owner, Undefined):
        key_of_any(key)
        return Undefined("object_property")
    elif isinstance(owner, str | list | tuple):
        key_of_any(key)
        found = Undefined("object_property")
        if isinstance(key, int):
            at: Callable[[Any, int, Any], Any] = index_text if isinstance(owner, str) else item_at
            found = at(owner, int(key), found)
        elif isinstance(key, str):
            found = builtin(run, key, owner) or found
    else:
        key_of_any(key)
        if not isinstance(key, str):
            raise Failed(f"Cannot access property with non-string: got {kind(key)}.")
        found = builtin(run, key, owner) or Undefined("object_property")
    if run.seen is not None:
        run.used(found)
        by_place = isinstance(key, int) and not isinstance(owner, dict)
        run.used(owner, "array_access" if by_place else "object_access")
    return found


def items_of(owner: Any) -> list[Any]:
    """The items to go through; of a history, which cannot change meanwhile, its own list."""
    plain: list[Any] | None = getattr(owner, "plain", None)
    if plain is None:
        return list(owner)
    owner.track.forget()
    return plain


def item_at(owner: Any, place: int, default: Any) -> Any:
    follow = getattr(owner, "at", None)
    if follow is not None:
        found = follow(place)
        return default if found is None else found
    place += len(owner) if place < 0 else 0
    return owner[place] if 0 <= place < len(owner) else default


def key_of_any(key: Any) -> None:
    """Lists and objects may be keys if nothing in them can change."""
    if isinstance(key, Function):
        raise Failed(f"Type: {kind(key)} is not allowed as object key.")


class Program:
    """A template, compiled."""

    def __init__(self, source: str, compiler: Compiler | None = None) -> None:
        self.source = source
        self.tree = parse(source)
        try:
            self._body = (compiler or Compiler()).body(self.tree)
        except RecursionError:
            raise TemplateError("the chat template does not parse: it is nested too deeply.") from None

    def names(self) -> frozenset[str]:
        """All names that the template has."""
        return frozenset(
            node.name for part in self.tree for node in part.walk() if node.kind == "name" and node.name
        )

    def render(self, variables: Mapping[str, Any], run: Run) -> str:
        """The text. Raises :class:`TemplateError`."""
        return "".join(self.pieces(variables, run))

    def pieces(self, variables: Mapping[str, Any], run: Run) -> list[Any]:
        """The texts that a render prints, in order. Raises :class:`TemplateError`."""
        out: list[Any] = []
        try:
            self._body(run, {**_GLOBALS, **variables}, out)
        except TemplateError:
            raise
        except (Broken, Continued):
            raise Failed("a break or continue outside of a loop.") from None
        except RecursionError:
            raise Failed("the chat template calls itself too deeply.") from None
        except (ValueError, TypeError, OverflowError, ArithmeticError) as error:
            raise Failed(f"the chat template failed: {error}.") from error
        return out


class Compiler:
    """Functions from nodes."""

    def body(self, nodes: Sequence[Node]) -> Statement:
        steps = [self.statement(node) for node in nodes if node.kind != "nothing"]
        if len(steps) == 1:
            return steps[0]

        def body(run: Run, env: Scope, out: list[Any]) -> None:
            for step in steps:
                step(run, env, out)

        return body

    def statement(self, node: Node) -> Statement:
        made: Statement = getattr(self, f"_{node.kind.replace(' ', '_')}_statement")(node)
        return made

    def expression(self, node: Node) -> Expression:
        make = getattr(self, f"_{node.kind}", None)
        if make is None:
            return _failing(f"cannot exec {node.kind}")
        made: Expression = make(node)
        return made

    # Statements

    def _nothing_statement(self, _: Node) -> Statement:
        return lambda run, env, out: None

    def _text_statement(self, node: Node) -> Statement:
        text = node.value

        def print_text(run: Run, env: Scope, out: list[Any]) -> None:
            out.append(text)

        return print_text

    def _print_statement(self, node: Node) -> Statement:
        value = self.expression(node.parts[0])  # type: ignore[arg-type]

        def print_it(run: Run, env: Scope, out: list[Any]) -> None:
            found = value(run, env)
            if isinstance(found, str):
                run.grow(len(found))
                out.append(found)
            else:
                print_value(found, out)

        return print_it

    def _if_statement(self, node: Node) -> Statement:
        test = self.expression(node.parts[0])  # type: ignore[arg-type]
        body, other = self.body(node.parts[1]), self.body(node.parts[2])  # type: ignore[arg-type]

        def branch(run: Run, env: Scope, out: list[Any]) -> None:
            mark = len(out)
            try:
                (body if truth(test(run, env)) else other)(run, env, out)
            except (Broken, Continued):
                del out[mark:]  # llama.cpp loses what a branch has printed before it jumps
                raise

        return branch

    def _break_statement(self, _: Node) -> Statement:
        def jump(run: Run, env: Scope, out: list[Any]) -> None:
            raise Broken

        return jump

    def _continue_statement(self, _: Node) -> Statement:
        def jump(run: Run, env: Scope, out: list[Any]) -> None:
            raise Continued

        return jump

    def _set_statement(self, node: Node) -> Statement:
        target, given, inner = node.parts
        value = self._caught(inner) if given is None else self.expression(given)  # type: ignore[arg-type]
        assign = self._assign(target)  # type: ignore[arg-type]

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
        if target.kind == "member" and target.parts[1].kind == "name":  # type: ignore[attr-defined]
            owner, key = self.expression(target.parts[0]), target.parts[1].name  # type: ignore[arg-type, attr-defined]

            def set_member(run: Run, env: Scope, value: Any) -> None:
                found = owner(run, env)
                if not isinstance(found, dict):
                    raise Failed("Cannot assign to member of non-object.")
                run.changes(found)
                found[key] = value

            return set_member

        def fail(run: Run, env: Scope, value: Any) -> None:
            raise Failed("Invalid LHS inside assignment expression.")

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
        if items.kind == "select":  # type: ignore[attr-defined]
            items, condition = items.parts  # type: ignore[attr-defined]
            test = self.expression(condition)
        values, turn = self.expression(items), self.body(body)  # type: ignore[arg-type]
        otherwise = self.body(other)  # type: ignore[arg-type]
        bind = LoopNames(target)  # type: ignore[arg-type]
        turns = self._turns(node, bind, turn)

        def loop(run: Run, env: Scope, out: list[Any]) -> None:
            scope = fork(env)
            found = values(run, scope)
            if run.seen is not None:
                run.used(found, "array_access")
            if isinstance(found, dict):
                if run.seen is not None:
                    run.used(found, "object_access")
                single = bind.single
                chosen = list(found) if single else list(found.items())
            elif isinstance(found, list | tuple):
                chosen = items_of(found)
            elif isinstance(found, Undefined):
                chosen = []
            else:
                raise Failed(f"Expected iterable or object type in for loop: got {kind(found)}.")
            if bind.fails and chosen:
                raise Failed("Invalid loop variable(s).")
            if not bind.single:
                for item in chosen:
                    _check_unpack(bind.names, item)
            if test is not None:
                kept = []
                for item in chosen:
                    inner = fork(scope)
                    bind(item, inner)
                    run.steps()
                    if truth(test(run, inner)):
                        kept.append(item)
                chosen = kept
            if not turns(run, scope, out, chosen):
                otherwise(run, env, out)

        return loop

    def _turns(
        self, _node: Node, bind: LoopNames, turn: Statement
    ) -> Callable[[Run, Scope, list[Any], list[Any]], bool]:
        """The turns of a loop; whether one of them came to its end."""

        def turns(run: Run, scope: Scope, out: list[Any], chosen: list[Any]) -> bool:
            ended = False
            run.steps(len(chosen))
            for place, item in enumerate(chosen):
                scope["loop"] = loop_facts(chosen, place)
                bind(item, scope)
                try:
                    turn(run, scope, out)
                except Continued:
                    continue
                except Broken:
                    break
                ended = True
            return ended

        return turns

    def _macro_statement(self, node: Node) -> Statement:
        name, arguments, body = node.name, node.parts[0], self._caught(node.parts[1])  # type: ignore[arg-type]
        bind = self._parameters(name, arguments)  # type: ignore[arg-type]

        def macro(run: Run, env: Scope, args: list[Any]) -> str:
            inner = fork(env)
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
            elif node.kind == "keyword" and node.parts[0].kind == "name":  # type: ignore[attr-defined]
                default = self.expression(node.parts[1])  # type: ignore[arg-type]
                parameters.append((node.parts[0].name, default))  # type: ignore[attr-defined]
            else:
                parameters.append(("", _failing(f"Invalid parameter type in {name!r}")))

        def bind(run: Run, env: Scope, args: list[Any], inner: Scope) -> None:
            for place, (parameter, default) in enumerate(parameters):
                if place < len(args):
                    if not parameter:
                        raise Failed(f"Invalid parameter type in {name!r}.")
                    inner[parameter] = _named(args, parameter, place)
                elif default is None:
                    raise Failed(f"Not enough arguments provided to {name!r}.")
                else:
                    inner[parameter] = default(run, env)

        return bind

    def _call_block_statement(self, node: Node) -> Statement:
        callee, arguments, caller, body = node.parts
        function = self.expression(callee)  # type: ignore[arg-type]
        args = self._args(arguments)  # type: ignore[arg-type]
        bind, inside = self._parameters("caller", caller), self._caught(body)  # type: ignore[arg-type]

        def call(run: Run, env: Scope, out: list[Any]) -> None:
            found = function(run, env)
            if not isinstance(found, Function):
                raise Failed(f"Callee is not a function: got {kind(found)}.")
            kept = fork(env)

            def block(run: Run, inner_env: Scope, given: list[Any]) -> str:
                inner = fork(kept)
                bind(run, inner_env, given, inner)
                text: str = inside(run, inner)
                return text

            outer = fork(env)
            outer["caller"] = Function("caller", block)
            print_value(invoke(run, outer, found, args(run, env)), out)

        return call

    def _filter_block_statement(self, node: Node) -> Statement:
        how, body = node.parts
        text, change = self._caught(body), self._filtering(how)  # type: ignore[arg-type]

        def filter_it(run: Run, env: Scope, out: list[Any]) -> None:
            print_value(change(run, env, text(run, env)), out)

        return filter_it

    # Expressions

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
            if run.seen is not None:
                run.used(value)
            return value

        return load

    def _list(self, node: Node) -> Expression:
        items = [self.expression(item) for item in node.parts[0]]  # type: ignore[attr-defined]
        return lambda run, env: [item(run, env) for item in items]

    def _tuple(self, node: Node) -> Expression:
        items = [self.expression(item) for item in node.parts[0]]  # type: ignore[attr-defined]
        return lambda run, env: tuple([item(run, env) for item in items])

    def _object(self, node: Node) -> Expression:
        pairs = [(self.expression(key), self.expression(value)) for key, value in node.parts[0]]  # type: ignore[attr-defined]

        def make(run: Run, env: Scope) -> dict[Any, Any]:
            made: dict[Any, Any] = {}
            for key, value in pairs:
                name, found = key(run, env), value(run, env)
                made[key_of(name)] = found
            return made

        return make

    def _and(self, node: Node) -> Expression:
        left, right = self._both(node)

        def both(run: Run, env: Scope) -> Any:
            value = left(run, env)
            return right(run, env) if truth(value) else value

        return both

    def _or(self, node: Node) -> Expression:
        left, right = self._both(node)

        def either(run: Run, env: Scope) -> Any:
            value = left(run, env)
            return value if truth(value) else right(run, env)

        return either

    def _not(self, node: Node) -> Expression:
        value = self.expression(node.parts[0])  # type: ignore[arg-type]
        return lambda run, env: not truth(value(run, env))

    def _both(self, node: Node) -> tuple[Expression, Expression]:
        return self.expression(node.parts[0]), self.expression(node.parts[1])  # type: ignore[arg-type]

    def _binary(self, node: Node) -> Expression:
        left, right = self._both(node)
        name = node.name
        if name == "==":
            return lambda run, env: equal(left(run, env), right(run, env))
        if name == "!=":
            return lambda run, env: not equal(left(run, env), right(run, env))

        def combine(run: Run, env: Scope) -> Any:
            return binary(run, name, left(run, env), right(run, env))

        return combine

    def _sign(self, node: Node) -> Expression:
        value, minus = self.expression(node.parts[0]), node.name == "-"  # type: ignore[arg-type]

        def signed(run: Run, env: Scope) -> Any:
            found = value(run, env)
            if not is_number(found):
                raise Failed(f"Unary {node.name} operator requires numeric operand.")
            return -found if minus else found

        return signed

    def _choose(self, node: Node) -> Expression:
        test, first, second = (self.expression(part) for part in node.parts)  # type: ignore[arg-type]
        return lambda run, env: (first if truth(test(run, env)) else second)(run, env)

    def _select(self, node: Node) -> Expression:
        value, test = self._both(node)
        return lambda run, env: value(run, env) if truth(test(run, env)) else Undefined()

    def _test(self, node: Node) -> Expression:
        operand, how = node.parts
        value, negated = self.expression(operand), bool(node.value)  # type: ignore[arg-type]
        name, args = self._named_call(how)  # type: ignore[arg-type]
        if name is None:
            return _failing("Test callee must be an identifier")
        handler = TESTS.get(name)
        operation = f"test_is_{name}"

        def test(run: Run, env: Scope) -> Any:
            found = value(run, env)
            given = args(run, env)
            if handler is None:
                raise Failed(f"Unknown test {name!r}.")
            if run.seen is not None:
                run.used(found, operation)
            result = handler(run, env, [found, *given])
            return not truth(result) if negated else result

        return test

    def _filter(self, node: Node) -> Expression:
        value, change = self.expression(node.parts[0]), self._filtering(node.parts[1])  # type: ignore[arg-type]
        return lambda run, env: change(run, env, value(run, env))

    def _filtering(self, how: Node) -> Callable[[Run, Scope, Any], Any]:
        name, args = self._named_call(how)
        if name is None:
            failing = _failing("Filter callee must be an identifier")
            return lambda run, env, value: failing(run, env)
        filter_name = _ALIASES.get(name, name)
        of_text = how.kind == "name" and filter_name in _OF_TEXT

        def change(run: Run, env: Scope, value: Any) -> Any:
            given = args(run, env)
            if of_text and not isinstance(value, str | Undefined):
                value = text_of(value)
            function = builtin(run, filter_name, value)
            if function is None:
                raise Failed(f"Unknown (built-in) filter {filter_name!r} for type {kind(value)}.")
            return invoke(run, env, function, given)

        return change

    def _named_call(self, how: Node) -> tuple[str | None, Callable[[Run, Scope], list[Any]]]:
        """The name of a filter or test, and its arguments."""
        if how.kind == "name":
            return how.name, lambda run, env: []
        if how.kind == "call" and how.parts[0].kind == "name":  # type: ignore[attr-defined]
            return how.parts[0].name, self._args(how.parts[1])  # type: ignore[attr-defined, arg-type]
        return None, lambda run, env: []

    def _args(self, nodes: Sequence[Node]) -> Callable[[Run, Scope], list[Any]]:
        args = [self.expression(node) for node in nodes]
        return lambda run, env: [arg(run, env) for arg in args]

    def _keyword(self, node: Node) -> Expression:
        key, value = node.parts[0], self.expression(node.parts[1])  # type: ignore[arg-type]
        if key.kind != "name":  # type: ignore[attr-defined]
            return _failing("Keyword argument key must be identifiers")
        name = key.name  # type: ignore[attr-defined]
        return lambda run, env: Keyword(name, value(run, env))

    def _call(self, node: Node) -> Expression:
        callee, args = self.expression(node.parts[0]), self._args(node.parts[1])  # type: ignore[arg-type]

        def call(run: Run, env: Scope) -> Any:
            given = args(run, env)
            return invoke(run, env, callee(run, env), given)

        return call

    def _member(self, node: Node) -> Expression:
        owner, key = self.expression(node.parts[0]), node.parts[1]  # type: ignore[arg-type]
        if key.kind == "constant" and isinstance(key.value, int):  # type: ignore[attr-defined]
            place = key.value  # type: ignore[attr-defined]
            if place < 0:
                return _failing("Static member property cannot be negative")
            return lambda run, env: member(run, owner(run, env), place)
        if key.kind != "name":  # type: ignore[attr-defined]
            return _failing("Static member property must be an identifier")
        name = key.name  # type: ignore[attr-defined]

        def load(run: Run, env: Scope) -> Any:
            found = owner(run, env)
            if run.seen is None and type(found) is dict and name not in BUILTINS[dict]:
                value = found.get(name, MISSING)
                return Undefined("object_property") if value is MISSING else value
            return builtin(run, name, found) or member(run, found, name)

        return load

    def _item(self, node: Node) -> Expression:
        owner, key = self.expression(node.parts[0]), node.parts[1]  # type: ignore[arg-type]
        if key.kind == "slice":  # type: ignore[attr-defined]
            return self._slice_of(owner, key)  # type: ignore[arg-type]
        inner = self.expression(key)  # type: ignore[arg-type]

        def load(run: Run, env: Scope) -> Any:
            found = owner(run, env)
            return member(run, found, inner(run, env))

        return load

    def _slice_of(self, owner: Expression, key: Node) -> Expression:
        start, stop, step = (self.expression(p) if isinstance(p, Node) else None for p in key.parts)

        def cut(run: Run, env: Scope) -> Any:
            found = owner(run, env)
            size = 0
            if isinstance(found, list | tuple):
                size = len(found)
            elif isinstance(found, str):
                size = len(found) if found.isascii() else len(found.encode("utf-8", "surrogateescape"))
            stride = step(run, env) if step else 1
            back = is_number(stride) and stride < 0
            first = start(run, env) if start else (size - 1 if back else 0)
            last = stop(run, env) if stop else (-1 if back else size)
            function = builtin(run, "slice", found)
            if function is None:
                raise Failed(f"Unknown (built-in) filter 'slice' for type {kind(found)}.")
            return take_slice(found, first, last, stride)

        return cut


def binary(run: Run, name: str, left: Any, right: Any) -> Any:
    """All operators but ``and``, ``or``, ``==`` and ``!=``."""
    if isinstance(left, Undefined) or isinstance(right, Undefined) or left is None or right is None:
        return _with_nothing(name, left, right)
    if is_number(left) and is_number(right):
        found = _arithmetic(name, left, right)
        if found is not None:
            return found
    if isinstance(left, list | tuple) and isinstance(right, list | tuple) and name == "+":
        run.steps(len(left) + len(right))
        return [*left, *right]
    if (isinstance(left, str) or isinstance(right, str)) and name in {"~", "+"}:
        text = text_of(left) + text_of(right)
        run.grow(len(text))
        return text
    if name == "*":
        text, times = (left, right) if isinstance(left, str) else (right, left)
        if isinstance(text, str) and type(times) is int:
            run.grow(len(text) * max(0, times))
            return text * times
    both_texts = isinstance(left, str) and isinstance(right, str)
    is_member = both_texts or isinstance(right, dict) or (is_list(right) and not is_list(left))
    if name in {"in", "not in"} and is_member:
        return contains(left, right) is (name == "in")
    raise Failed(f"Unknown operator {name!r} between {kind(left)} and {kind(right)}.")


def _with_nothing(name: str, left: Any, right: Any) -> Any:
    undefined = isinstance(left, Undefined) or isinstance(right, Undefined)
    if name in {"in", "not in"}:
        if isinstance(right, Undefined):
            return name == "not in"
        if not undefined and right is not None:
            return contains(left, right) is (name == "in")
    if name in {"+", "~"}:
        if isinstance(left, str):
            return left
        if isinstance(right, str):
            return right
    raise Failed(f"Cannot perform operation {name} on undefined or null values.")


def _arithmetic(name: str, left: Any, right: Any) -> Any:
    a, b = _double(left), _double(right)
    if name in {"+", "-", "*", "%"}:
        if name == "%":
            found = math.fmod(a, b) if b and math.isfinite(a) else math.nan
        else:
            found = a + b if name == "+" else a - b if name == "-" else a * b
        return found if isinstance(left, float) or isinstance(right, float) else cast_int(found)
    if name == "/":
        return a / b if b else math.nan if not a or math.isnan(a) else math.copysign(math.inf, a)
    if name in {"<", ">", "<=", ">="}:
        return a < b if name == "<" else a > b if name == ">" else a <= b if name == "<=" else a >= b
    return None


def _double(value: Any) -> float:
    found = float(value)
    if isinstance(value, int) and int(found) != value:
        return -math.inf if value < 0 else math.inf
    return found


def loop_facts(items: list[Any], place: int) -> Loop:
    size = len(items)
    return Loop(
        index=place + 1,
        index0=place,
        revindex=size - place,
        revindex0=size - place - 1,
        first=place == 0,
        last=place == size - 1,
        length=size,
        previtem=items[place - 1] if place else Undefined("previtem"),
        nextitem=items[place + 1] if place < size - 1 else Undefined("nextitem"),
    )


class LoopNames:
    """How a loop names its items."""

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
    return [part.name if part.kind == "name" else "" for part in target.parts[0]]  # type: ignore[attr-defined]


def _check_unpack(names: list[str], value: Any) -> None:
    if not isinstance(value, list | tuple):
        raise Failed(f"Cannot unpack non-iterable type: {kind(value)}.")
    if len(names) != len(value):
        raise Failed(f"Too {'few' if len(names) > len(value) else 'many'} items to unpack.")


def _unpack(names: list[str], value: Any, env: Scope) -> None:
    _check_unpack(names, value)
    for name, item in zip(names, value, strict=True):
        if not name:
            raise Failed("Cannot unpack to non-identifier.")
        env[name] = item


def _named(args: list[Any], name: str, place: int) -> Any:
    for arg in args:
        if isinstance(arg, Keyword) and arg.name == name and not isinstance(arg.value, Undefined):
            return arg.value
    return Undefined() if isinstance(args[place], Keyword) else args[place]


def _failing(why: str) -> Expression:
    def fail(run: Run, env: Scope) -> Any:
        raise Failed(f"{why}.")

    return fail
