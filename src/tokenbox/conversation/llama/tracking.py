"""Incremental rendering: loops over messages whose unchanged turns are not executed again.

Each turn of a loop over messages records what it reads (variables, fields of namespaces, its place in the
loop) and what it writes (variables, fields, text). A turn, or a run of turns, with the same messages and the
same values to read has the same effect, so its record is applied instead. Nothing is assumed about a
template: its reads decide.

Operations that cannot be tracked make a turn not reusable (:meth:`Track.forget`) or end the attempt
(:class:`NotLocal`); then the caller renders the entire prompt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from tokenbox.conversation.llama.compiler import Compiler, LoopNames
from tokenbox.conversation.llama.fold import Fold
from tokenbox.conversation.llama.run import MISSING, Expression, Run, Scope, Statement
from tokenbox.conversation.llama.track import LARGE, apart
from tokenbox.conversation.llama.tracked import (
    LoopAhead,
    Taken,
    TrackedMessages,
    TrackedNamespace,
    TrackedRange,
    TrackedScope,
)
from tokenbox.conversation.llama.turns import (
    ANY,
    COMPARISONS,
    START,
    TURNED,
    Placed,
    TurnRun,
    with_bounds,
)
from tokenbox.conversation.llama.values import Function, Loop, Undefined

if TYPE_CHECKING:
    from tokenbox.conversation.llama.syntax import Node


Values = TrackedMessages | TrackedRange


class TrackingCompiler(Compiler):
    """A compiler that tracks loops over messages."""

    def _turns(
        self, node: Node, bind: LoopNames, turn: Statement
    ) -> Callable[[Run, Scope, list[Any], list[Any]], bool]:
        plain = super()._turns(node, bind, turn)
        selects = node.parts[1].kind == "select"

        def within_a_turn(run: Run, values: Values, scope: Scope, out: list[Any], chosen: list[Any]) -> bool:
            """Execute a loop of a turn. Of messages or places, only those that it takes are noted as read."""
            taken = Taken(chosen, values.track)
            ended = plain(run, scope, out, taken)
            if values.plain is not chosen:
                values.track.forget()
            else:
                values.note_taken(taken.number, all_of_them=taken.all_of_them)
            return ended

        def turns(run: Run, scope: Scope, out: list[Any], chosen: list[Any]) -> bool:
            track = run.track
            if track is None:
                return plain(run, scope, out, chosen)
            values, track.unread = track.unread, None
            if track.record is not None and values is not None:
                return within_a_turn(run, values, scope, out, chosen)
            if track.record is not None or track.caught or selects or not chosen:
                return plain(run, scope, out, chosen)
            items, places = chosen, None
            if isinstance(values, TrackedRange) and values.plain is chosen:
                items, places = values.messages.plain, chosen
            first = len(items) - len(chosen)
            if id(items[first]) not in track.messages or id(items[-1]) not in track.messages:
                return plain(run, scope, out, chosen)
            return Fold(run, track, track.memory(node), bind, turn, places).run(scope, out, items, first)

        return turns

    def _loop_variables(self, items: list[Any], place: int) -> Loop:
        if isinstance(items, Taken):
            return LoopAhead(items, place, items.track)
        return super()._loop_variables(items, place)

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
        name = node.name
        if _is_place(right) and _is_field(left):
            left, right, name = right, left, TURNED.get(name, name)
        if name not in COMPARISONS or not (_is_place(left) and _is_field(right)):
            return compare
        place, field = self.expression(left), self.expression(right)

        def outcome(run: Run, env: Scope) -> Any:
            track = run.track
            record = None if track is None else track.record
            if track is None or record is None:
                return compare(run, env)
            at, start = _place(record, place, run, env)
            number, noted = apart(record, field, run, env)
            key = next(reversed(noted), None)
            known = type(at) is int and type(number) is int and all(one[0] != "p" for one in noted)
            if not known or start is None or key is None or noted.pop(key) is not number:
                return compare(run, env)
            found, numbers = with_bounds(COMPARISONS[name], at, number)
            track.note_all(noted)
            track.note(("w", *key), ANY.both(numbers, -start))
            return found

        return outcome

    def _place_statement(self, node: Node, assign: Statement) -> Statement:
        """Set a field of a namespace to a place in the loop, recorded relative to the turn's place."""
        field, key = cast("Node", node.parts[0]).nodes()
        owner, name = self.expression(field), key.name

        def place_it(run: Run, env: Scope, out: list[Any]) -> None:
            track = run.track
            record = None if track is None else track.record
            if track is None or record is None:
                assign(run, env, out)
                return
            space = owner(run, env)
            _, noted = apart(record, assign, run, env, out)
            key = ("n", space.key, name) if isinstance(space, TrackedNamespace) else None
            if key is not None and START in noted and type(record.writes.get(key)) is int:
                record.writes[key] = Placed(record.writes[key] - noted.pop(START))
            track.note_all(noted)

        return place_it

    def _item(self, node: Node) -> Expression:
        """Read a message, or the rest of the messages, by the place in the loop, noted by its distance."""
        load = super()._item(node)
        owner, key = node.nodes()
        is_rest = key.kind == "slice" and key.parts[1:] == (None, None)
        at_place = key.parts[0] if is_rest else key
        if owner.kind != "name" or at_place is None or not _is_place(at_place):
            return load
        given, place = self.expression(owner), self.expression(at_place)

        def beside(run: Run, env: Scope) -> Any:
            track = run.track
            record = None if track is None else track.record
            found = None if record is None else given(run, env)
            if track is None or record is None or not isinstance(found, TrackedMessages):
                return load(run, env)
            at, start = _place(record, place, run, env)
            if start is None or at < 0 or found.plain is not track.items:
                return load(run, env)
            if is_rest:
                rest = found.plain[at:]
                run.steps(len(rest) // 4)
                return TrackedMessages(rest, track, after=at - start)
            message = track.near(at)
            return Undefined("object_property") if message is MISSING else message

        return beside

    def _for_statement(self, node: Node) -> Statement:
        target, items, *bodies = node.parts
        if _is_range_to_end(items):
            node = replace(node, parts=(target, replace(items, kind="range_to_end"), *bodies))
        return super()._for_statement(node)

    def _range_to_end(self, node: Node) -> Expression:
        load = super()._call(node)
        *starts, end = node.parts[1]
        start = self.expression(starts[0]) if starts else None
        owner = self.expression(end.nodes()[0])

        def places(run: Run, env: Scope) -> Any:
            track = run.track
            shown = None if track is None else owner(run, env)
            if not isinstance(shown, TrackedMessages) or dict.get(env, "range", MISSING) is not MISSING:
                return load(run, env)
            first = 0 if start is None else start(run, env)
            if type(first) is not int or first < 0:
                return load(run, env)
            record = shown.track.record
            if record is None:
                return TrackedRange(load(run, env), shown, first)
            found, noted = apart(record, load, run, env)
            noted.pop(("len", shown.track.key_of(shown)), None)
            shown.track.note_all(noted)
            return TrackedRange(found, shown, first)

        return places

    def _list(self, node: Node) -> Expression:
        return _making(node, super()._list(node))

    def _object(self, node: Node) -> Expression:
        return _making(node, super()._object(node))

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
            found, pending = apart(record, value, run, env)
            env[name] = found
            env.pending[name] = pending

        return defer


def _place(record: TurnRun, place: Expression, run: Run, env: Scope) -> tuple[Any, int | None]:
    """Return a place in the loop, and the place of the turn, which is not noted as read; None if unknown."""
    at, noted = apart(record, place, run, env)
    return at, noted.get(START)


def _making(node: Node, make: Expression) -> Expression:
    """Make a list or an object. One of many constants, such as names of languages, is made once for all.

    A render that would change it counts as one that cannot be tracked.
    """
    if len(node.parts[0]) > LARGE and all(part.kind == "constant" for part in node.nodes()):
        known: list[Any] = []

        def constant(run: Run, env: Scope) -> Any:
            if not known:
                known.append(make(run, env))
            return known[0]

        return constant

    def made(run: Run, env: Scope) -> Any:
        found = make(run, env)
        return found if run.track is None else run.track.made(found)

    return made


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
    return _is_length(node) and node.nodes()[0].name == "messages"


def _is_range_to_end(node: Node) -> bool:
    """Return True for the places of a list, all or from one on: ``range(start, messages | length)``."""
    if node.kind != "call" or node.parts[0].kind != "name" or node.parts[0].name != "range":
        return False
    arguments = node.parts[1]
    return len(arguments) in {1, 2} and _is_length(arguments[-1])


def _is_length(node: Node) -> bool:
    """Return True for the length of a variable."""
    if node.kind != "filter":
        return False
    owner, how = node.nodes()
    return owner.kind == how.kind == "name" and how.name in {"length", "count"}
