"""Renders of chat templates in Jinja2 that execute only the turns that changed.

A folded template (:mod:`tokenbox.conversation.folding`) calls these functions, which record what each turn
reads and writes, and apply the records of turns that would do the same
(:mod:`tokenbox.conversation.llama.track`). What cannot be tracked raises ``NotLocal``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from jinja2.exceptions import TemplateRuntimeError
from jinja2.runtime import LoopContext, Macro, Undefined
from jinja2.utils import Namespace

from tokenbox.conversation.folding import (
    BESIDE,
    COMPARE,
    FOLD,
    KEEP_PLACE,
    LENGTH,
    NUMBERS,
    PLACES_TO_END,
    FoldingSandbox,
)
from tokenbox.conversation.llama.fold import Fold
from tokenbox.conversation.llama.run import MISSING, Run, Scope
from tokenbox.conversation.llama.tracked import NEIGHBOURS, TrackedLoop, TrackedMessages, TrackedNamespace
from tokenbox.conversation.llama.turns import (
    ANY,
    COMPARISONS,
    MANY,
    NEAR,
    OPAQUE,
    START,
    Key,
    NotLocal,
    Placed,
    Within,
    with_bounds,
)
from tokenbox.conversation.sent import only_days
from tokenbox.conversation.template import ChatTemplate

if TYPE_CHECKING:
    import datetime as dt

    from tokenbox.conversation.llama.segments import Segment
    from tokenbox.conversation.llama.track import Track
    from tokenbox.conversation.sandbox import Sandbox


# The values of all outer names of a loop together, beside each of them.
_NAMES: Final = "outer names"


class FoldedTemplate(ChatTemplate):
    """A chat template that is rendered in pieces: texts, and segments of turns rendered before."""

    sandbox = FoldingSandbox

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.environment.tests["sameas"] = _is_same

    def spent(self) -> tuple[int, ...]:
        return self._steps, self._written, self._fixed, self._made, self._shown, self._read

    def spend(self, numbers: Sequence[int]) -> None:
        steps, written, fixed, made, shown, read = numbers
        self._steps += steps - 1
        self._written += written
        self._made += made
        self._shown += shown
        self._tick(fixed)
        self._reads(read)
        self._show(self._output(None, self._count("")))

    def execute(self, turn: Macro, *given: object) -> str:
        """Return the text of a turn."""
        return self._show(turn(*given))

    def _count(self, value: Any) -> Any:
        super()._count(value.__wrapped__.plain if value.__class__ is ShownMessages else value)
        return value

    def pieces(
        self, variables: Mapping[str, object], messages: list[Any], track: Track, now: dt.datetime | None
    ) -> list[str | Segment]:
        """Return the prompt. Raises :class:`TemplateError`, or ``NotLocal``."""
        render = _Render(self, track, now)
        made: dict[str, object] = {
            FOLD: render.fold,
            COMPARE: render.compare,
            KEEP_PLACE: render.keep_place,
            BESIDE: render.beside,
            PLACES_TO_END: render.places_to_end,
            "namespace": render.namespace,
            "strftime_now": render.run.date,
            **variables,
            "messages": ShownMessages(TrackedMessages(messages, track)),
        }
        for text in self.generate(made):
            render.pieces.append(text)
        track.certain = only_days(render.run.dated)  # else it may be another in a minute
        return render.pieces


class _FoldedRun(Run):
    """A render by Jinja2, whose numbers are its template's."""

    def __init__(self, template: FoldedTemplate, now: dt.datetime | None) -> None:
        super().__init__(now)
        self._template = template

    def spent(self) -> tuple[int, ...]:
        return self._template.spent()

    def spend(self, numbers: Sequence[int]) -> None:
        self._template.spend(numbers)


class _Render:
    """One render: the functions that a folded template calls. ``pieces``: what it has written so far."""

    def __init__(self, template: FoldedTemplate, track: Track, now: dt.datetime | None) -> None:
        self._template = template
        self._environment: FoldingSandbox = template.environment  # type: ignore[assignment]  # its sandbox
        self._track = track
        self.run = _FoldedRun(template, now)
        self.run.track = track
        self.pieces: list[Any] = []

    def fold(self, place: int, values: object, macro: Macro, *outer: object) -> None:
        """Go through a loop: of messages by records of their turns, of anything else as Jinja2 does."""
        folded, track = self._environment.folded[place], self._track
        items = values.__wrapped__.plain if isinstance(values, ShownMessages) else []
        if not items or any(id(items[end]) not in track.messages for end in (0, -1)):
            for item, loop in LoopContext(values, self._environment.undefined):  # type: ignore[arg-type]  # anything that a template has
                self.pieces.append(self._template.execute(macro, item, loop))
            return
        named = zip(folded.names, outer, strict=True)
        given = {name: _kept(value) for name, value in named if not isinstance(value, Undefined)}
        noted = tuple(given.get(name, MISSING) for name in folded.noted)
        given[_NAMES] = track.known_names(folded, noted)

        def bind(item: Any, scope: Scope) -> None:
            dict.__setitem__(scope, "", item)

        def turn(_: Run, scope: Scope, out: list[Any]) -> None:
            scope.get(_NAMES)  # noted as read
            shown = ShownLoop(dict.__getitem__(scope, "loop"), self._environment)
            out.append(self._template.execute(macro, dict.__getitem__(scope, ""), shown))

        Fold(self.run, track, track.memory(folded), bind, turn).run(given, self.pieces, items)

    def namespace(self, *given: Any, **named: Any) -> Namespace:
        made = Namespace(*given, **named)
        if self._track.record is not None:  # of this turn alone
            return made
        fields = {name: _plain(value) for name, value in _fields(made).items()}
        return _namespace(self._track.space(fields, _Fields))  # type: ignore[arg-type]  # of the kind given

    def compare(
        self, loop: object, offset: int, how: str, value: object, name: str, field: str | None
    ) -> bool:
        """Compare a place in the loop with a variable, its field or its length.

        Only the bounds between which the number has this result are noted as read.
        """
        track, compare = self._track, COMPARISONS[how]
        key, number = self._number(value, name, field)
        if isinstance(loop, ShownLoop) and key is not None and type(number) is int:
            start = loop.__wrapped__.at
            found, numbers = with_bounds(compare, start + offset, number)
            track.note(("w", *key), ANY.both(numbers, -start))
            return found
        if field == LENGTH:
            number = len(value)  # type: ignore[arg-type]  # as the filter does
        elif field is not None:
            number = self._environment.getattr(value, field)
        else:
            track.note(("v", name), MISSING if isinstance(value, Undefined) else _kept(value))
            number = value
        return compare(self._at(loop, offset), number)

    def _number(self, value: object, name: str, field: str | None) -> tuple[Key | None, object]:
        """Return under which key a value is read, and the value; None if it is not tracked."""
        if field is None:
            return ("v", name), value
        if field == LENGTH and isinstance(value, ShownMessages):
            return ("len", self._track.key_of(value.__wrapped__)), len(value.__wrapped__.plain)
        fields = _fields(value)
        if field != LENGTH and isinstance(fields, _Fields):
            return ("n", fields.key, field), dict.get(fields, field)
        return None, None

    def keep_place(self, loop: object, offset: int, space: object, field: str) -> None:
        """Set a field of a namespace to a place in the loop, recorded relative to the turn's place."""
        fields, record = _fields(space), self._track.record
        if isinstance(loop, ShownLoop) and isinstance(fields, _Fields) and record is not None:
            fields[field] = loop.__wrapped__.at + offset
            record.writes["n", fields.key, field] = Placed(offset)
        elif isinstance(space, Namespace):
            space[field] = self._at(loop, offset)
        else:
            raise TemplateRuntimeError("cannot assign attribute on non-namespace object")

    def beside(self, loop: object, offset: int, values: object, is_rest: bool) -> object:  # noqa: FBT001  # as templates call it
        """Read a message, or the rest of the messages, by the place in the loop, noted by its distance."""
        track = self._track
        if isinstance(loop, ShownLoop) and isinstance(values, ShownMessages):
            at = loop.__wrapped__.at + offset
            if at >= 0 and values.__wrapped__.plain is track.items:
                if is_rest:
                    return ShownMessages(TrackedMessages(track.items[at:], track, after=offset))
                found = track.near(at)
                return self._environment.undefined(obj=values, name=str(at)) if found is MISSING else found
        place = self._at(loop, offset)
        # As Jinja2 does: what cannot be cut is an error, not undefined.
        return values[place:] if is_rest else self._environment.getitem(values, place)  # type: ignore[index]

    def places_to_end(self, places: Any, start: object, values: Any) -> Iterable[int]:
        """Return the places of messages from one on, by ``places``, which is ``range``.

        If a loop ends before the last of them, only that there are so many is noted as read.
        """
        record = self._track.record
        is_own = self._environment.globals["range"] is places
        is_near = isinstance(values, ShownMessages) and record is not None and START in record.reads
        if not is_own or not is_near or type(start) is not int:
            found: Iterable[int] = places(start, len(values))
            return found
        return self._noted(places(start, len(values.__wrapped__.plain)), values)

    def _noted(self, places: Iterable[int], values: ShownMessages) -> Iterator[int]:
        track = self._track
        size = "w", "len", track.key_of(values.__wrapped__)
        for place in places:
            track.note(size, Within(place + 1 - track.start, math.inf))
            yield place
        len(values)

    def _at(self, loop: object, offset: int) -> Any:  # undefined where there is no loop
        return self._environment.getattr(loop, "index0") + offset


def _refuse(*_: object) -> Any:
    raise NotLocal


class ShownMessages(Sequence[Any]):
    """Tracked messages as Jinja2 sees them: a list. Raises ``NotLocal`` for what cannot be tracked."""

    def __init__(self, given: TrackedMessages) -> None:
        self.__wrapped__ = given

    def __len__(self) -> int:
        return len(self.__wrapped__)

    def __bool__(self) -> bool:
        return bool(self.__wrapped__)

    def __getitem__(self, place: Any) -> Any:
        given = self.__wrapped__
        if isinstance(place, int) and 0 <= place < len(given.plain):
            return given.at(place)
        found = given[place]
        return ShownMessages(found) if isinstance(place, slice) else found

    def __iter__(self) -> Iterator[Any]:
        """Note messages beside the turn when they are taken, since a loop may end before the last."""
        given = self.__wrapped__
        if given.after is None:
            yield from given
            return
        for place, message in enumerate(given.plain):
            if place < MANY:
                given.track.note((NEAR, given.after + place), message)
            else:
                given.track.forget()
            yield message
        given.track.note((NEAR, given.after + len(given.plain)), MISSING)

    def __reversed__(self) -> Iterator[Any]:
        self.__wrapped__.track.forget()
        return iter(self.__wrapped__.plain[::-1])

    def __contains__(self, value: object) -> bool:
        self.__wrapped__.track.forget()
        return value in self.__wrapped__.plain

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("_") else NotLocal

    index = count = __eq__ = __repr__ = __hash__ = _refuse


class ShownLoop:
    """The variable ``loop`` of one turn, as Jinja2 sees it."""

    def __init__(self, given: TrackedLoop, environment: Sandbox) -> None:
        self.__wrapped__ = given
        self._record = given.track.record
        self._undefined = environment.undefined

    def __getattr__(self, name: str) -> Any:
        track = self.__wrapped__.track
        if track.record is self._record and name in NUMBERS:
            return self.__wrapped__.get(name)
        if track.record is self._record and name in NEIGHBOURS:
            found = track.near(self.__wrapped__.at + NEIGHBOURS[name])
            return self._undefined(f"there is no {name}") if found is MISSING else found
        raise AttributeError(name) if name.startswith("_") else NotLocal

    __call__ = __iter__ = __len__ = __eq__ = __repr__ = __hash__ = _refuse


class _Space(Namespace):
    """A tracked namespace as Jinja2 sees it: one object for each read."""

    __eq__ = __repr__ = __hash__ = _refuse


class _Fields(TrackedNamespace):
    """The fields of a namespace of a template."""

    def __getitem__(self, name: Any) -> Any:
        found = self.get(name, MISSING)
        if found is MISSING:
            raise KeyError(name)
        return _shown(found)

    def __setitem__(self, name: Any, value: Any) -> None:
        kept = _plain(value)
        super().__setitem__(name, kept)
        is_fixed = isinstance(kept, str | int | float | TrackedMessages | TrackedNamespace) or kept is None
        if not is_fixed and id(kept) not in self.track.messages:  # another render has another one
            self.track.wrote(("n", self.key, name), OPAQUE)


def _is_same(value: object, other: object) -> bool:
    """Return True for the same constant. Equal values may be one object in one render and two in another."""
    if other is not None and not isinstance(other, bool):
        raise NotLocal
    return value is other


def _fields(space: object) -> Any:  # a dictionary, or None
    return object.__getattribute__(space, "_Namespace__attrs") if isinstance(space, Namespace) else None


def _namespace(fields: _Fields) -> Namespace:
    made = _Space()
    object.__setattr__(made, "_Namespace__attrs", fields)
    return made


def _plain(value: object) -> object:
    """Return a value of a template as it is tracked: in the next render, other objects may be the same."""
    if value.__class__ is ShownMessages:
        return value.__wrapped__
    fields = _fields(value)
    return fields if isinstance(fields, _Fields) else value


def _kept(value: object) -> object:
    """Return the value of an outer variable as it is tracked: of a macro, what it does."""
    return value._func.__code__ if isinstance(value, Macro) else _plain(value)  # noqa: SLF001  # its name may have several


def _shown(value: object) -> object:
    """Return a tracked value as a template sees it."""
    if isinstance(value, TrackedMessages):
        return ShownMessages(value)
    return _namespace(value) if isinstance(value, _Fields) else value
