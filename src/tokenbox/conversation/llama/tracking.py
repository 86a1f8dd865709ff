"""A compiler whose programs reuse recorded turns of loops over messages."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from tokenbox.conversation.llama.compiler import Compiler, LoopNames
from tokenbox.conversation.llama.fold import Fold
from tokenbox.conversation.llama.track import TrackedMessages, TrackedNamespace, TrackedScope
from tokenbox.conversation.llama.turns import ANY, LoopPlace, Placed, Within
from tokenbox.conversation.llama.values import Function

if TYPE_CHECKING:
    from tokenbox.conversation.llama.run import Expression, Run, Scope, Statement
    from tokenbox.conversation.llama.syntax import Node


class TrackingCompiler(Compiler):
    """A compiler that tracks loops over messages."""

    def _turns(
        self, node: Node, bind: LoopNames, turn: Statement
    ) -> Callable[[Run, Scope, list[Any], list[Any]], bool]:
        plain = super()._turns(node, bind, turn)
        selects = node.parts[1].kind == "select"

        def turns(run: Run, scope: Scope, out: list[Any], chosen: list[Any]) -> bool:
            track = run.track
            if track is None or track.record is not None or track.caught or selects or not chosen:
                return plain(run, scope, out, chosen)
            if id(chosen[0]) not in track.messages or id(chosen[-1]) not in track.messages:
                return plain(run, scope, out, chosen)
            return Fold(run, track, track.memory(node), bind, turn).run(scope, out, chosen)

        return turns

    def _caught(self, nodes: Any) -> Expression:
        caught = super()._caught(nodes)

        def counted(run: Run, env: Scope) -> Any:
            track = run.track
            if track is None:
                return caught(run, env)
            track.caught += 1
            try:
                return caught(run, env)
            finally:
                track.caught -= 1

        return counted

    def _name(self, node: Node) -> Expression:
        load = super()._name(node)
        if node.name not in {"namespace", "dict"}:
            return load

        def make(run: Run, env: Scope) -> Any:
            found = load(run, env)
            if run.track is None or not isinstance(found, Function):
                return found
            handler = found.call
            space = run.track.space
            return Function(found.name, lambda run, env, args: space(handler(run, env, args)))

        return make

    def _binary(self, node: Node) -> Expression:
        """Compare a place in the loop with a number, recording only the bounds that decide the result."""
        compare = super()._binary(node)
        left, right = node.nodes()
        if node.name not in _OUTCOMES or not (_is_place(left) and _is_field(right)):
            if node.name not in _OUTCOMES or not (_is_place(right) and _is_field(left)):
                return compare
            left, right = right, left
            name = _TURNED.get(node.name, node.name)
        else:
            name = node.name
        place, field = self.expression(left), self.expression(right)

        def outcome(run: Run, env: Scope) -> Any:
            track = run.track
            record = None if track is None else track.record
            if track is None or record is None:
                return compare(run, env)
            reads, its_place = record.reads, record.place
            record.reads, record.place = {}, LoopPlace()
            try:
                at = place(run, env)
                start, record.place = record.place.start, LoopPlace()
                number = field(run, env)
                noted, placed = record.reads, record.place
            finally:
                record.reads, record.place = reads, its_place
            key = next(reversed(noted), None)
            known = type(at) is int and type(number) is int and not placed.is_read()
            if not known or start is None or key is None or noted.pop(key) is not number:
                return compare(run, env)
            found, numbers = _OUTCOMES[name](at, number)
            for one, value in noted.items():
                track.note(one, value)
            track.note(("w", *key), ANY.both(numbers, -start))
            return found

        return outcome

    def _place_statement(self, node: Node, assign: Statement) -> Statement:
        """Set a field of a namespace to a place in the loop, recorded relative to the turn's place."""
        field, key = cast("Node", node.parts[0]).nodes()
        owner, name = self.expression(field), key.name

        def place_it(run: Run, env: Scope, out: list[Any]) -> None:
            record = None if run.track is None else run.track.record
            if record is None:
                assign(run, env, out)
                return
            space, place = owner(run, env), record.place
            record.place = LoopPlace()
            try:
                assign(run, env, out)
                start = record.place.start
            finally:
                place, record.place = record.place, place
            key = ("n", space.key, name) if isinstance(space, TrackedNamespace) else None
            if key is None or start is None or type(record.writes.get(key)) is not int:
                record.place.take(place)
            else:
                record.writes[key] = Placed(record.writes[key] - start)

        return place_it

    def _item(self, node: Node) -> Expression:
        """Read the previous or next message by index, recorded as ``previtem`` or ``nextitem``."""
        load = super()._item(node)
        owner, key = node.nodes()
        if owner.kind != "name" or not _is_place(key):
            return load
        given, place = self.expression(owner), self.expression(key)

        def beside(run: Run, env: Scope) -> Any:
            track = run.track
            record = None if track is None else track.record
            found = None if record is None else given(run, env)
            if track is None or record is None or not isinstance(found, TrackedMessages):
                return load(run, env)
            read, record.place = record.place, LoopPlace()
            try:
                at, start = place(run, env), record.place.start
            finally:
                record.place = read
            items = found.plain
            near = start is not None and at - start in {-1, 1} and 0 <= at < len(items)
            if not near or start is None or items is not track.items:
                return load(run, env)
            track.note(("loop", found.key), True)  # noqa: FBT003  # it is the list of the loop
            read.read("previtem" if at < start else "nextitem", items, start)
            return items[at]

        return beside

    def _list(self, node: Node) -> Expression:
        return _making(super()._list(node))

    def _object(self, node: Node) -> Expression:
        return _making(super()._object(node))

    def _set_statement(self, node: Node) -> Statement:
        assign = super()._set_statement(node)
        target, given, _ = node.parts
        is_member = target.kind == "member"
        if is_member and given is not None and _is_place(given):
            return self._place_statement(node, assign)
        if target.kind != "name" or given is None or not _is_index(given):
            return assign
        name, value = target.name, self.expression(given)

        def defer(run: Run, env: Scope, out: list[Any]) -> None:
            """Defer the reads of an index's operands until the index itself is read."""
            record = None if run.track is None else run.track.record
            if record is None or not isinstance(env, TrackedScope):
                assign(run, env, out)
                return
            reads, place = record.reads, record.place
            record.reads, record.place = {}, LoopPlace()
            try:
                found = value(run, env)
                pending = record.reads, record.place
            finally:
                record.reads, record.place = reads, place
            env[name] = found
            env.pending[name] = pending

        return defer


def _making(make: Expression) -> Expression:
    def made(run: Run, env: Scope) -> Any:
        found = make(run, env)
        return found if run.track is None else run.track.made(found)

    return made


def _greater(at: int, number: int) -> tuple[bool, Within]:
    return (True, Within(-math.inf, at - 1)) if at > number else (False, Within(at, math.inf))


def _not_less(at: int, number: int) -> tuple[bool, Within]:
    return (True, Within(-math.inf, at)) if at >= number else (False, Within(at + 1, math.inf))


def _equal(at: int, number: int) -> tuple[bool, Within]:
    if at == number:
        return True, Within(at, at)
    return False, Within(at + 1, math.inf) if number > at else Within(-math.inf, at - 1)


def _opposite(
    compare: Callable[[int, int], tuple[bool, Within]],
) -> Callable[[int, int], tuple[bool, Within]]:
    def opposite(at: int, number: int) -> tuple[bool, Within]:
        found, numbers = compare(at, number)
        return not found, numbers

    return opposite


# The result of comparing a place with a number, and the bounds of numbers with the same result.
_OUTCOMES: Final = {
    ">": _greater, ">=": _not_less, "<": _opposite(_not_less), "<=": _opposite(_greater),
    "==": _equal, "!=": _opposite(_equal),
}  # fmt: skip
_TURNED: Final = {">": "<", "<": ">", ">=": "<=", "<=": ">="}


def _is_place(node: Node) -> bool:
    """Return True for a sum of a loop index and constants, the index first."""
    if node.kind == "member":
        owner, key = node.nodes()
        return owner.name == "loop" and key.name in {"index", "index0"}
    if node.kind == "binary":
        left, right = node.nodes()
        return node.name in {"+", "-"} and _is_place(left) and right.kind == "constant" and _is_index(right)
    return False


def _is_field(node: Node) -> bool:
    """Return True for a variable or a field of one."""
    if node.kind == "member":
        return all(part.kind == "name" for part in node.nodes()) and node.nodes()[0].name != "loop"
    return node.kind == "name"


def _is_index(node: Node) -> bool:
    """Return True for a sum of loop indices and lengths, which cannot fail."""
    if node.kind == "constant":
        return type(node.value) is int
    if node.kind == "binary":
        return node.name in {"+", "-"} and all(_is_index(part) for part in node.nodes())
    if node.kind == "member":
        owner, key = node.nodes()
        return owner.name == "loop" and key.name in {"index", "index0", "revindex", "revindex0", "length"}
    if node.kind == "filter":
        owner, how = node.nodes()
        return (
            owner.kind == how.kind == "name" and owner.name == "messages" and how.name in {"length", "count"}
        )
    return False
