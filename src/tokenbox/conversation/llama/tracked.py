"""Values of a template that record every access: scopes, namespaces, messages and loop variables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from tokenbox.conversation.llama.methods import BUILTINS
from tokenbox.conversation.llama.operations import loop_variables
from tokenbox.conversation.llama.run import MISSING
from tokenbox.conversation.llama.turns import MANY, NEAR, OPAQUE, PLACES, START, Key, NotLocal, Within
from tokenbox.conversation.llama.values import Loop

if TYPE_CHECKING:
    from tokenbox.conversation.llama.track import Track


class TrackedScope(dict[str, Any]):
    """The variables of a tracked loop, or of a scope within it."""

    def __init__(self, given: Mapping[str, Any], track: Track, parent: TrackedScope | None = None) -> None:
        super().__init__(given)
        self.track = track
        self.parent = parent
        self.own: set[str] = set()
        self.pending: dict[str, dict[Key, Any]] = {}

    def get(self, name: str, default: Any = None) -> Any:
        value = dict.get(self, name, default)
        if value is OPAQUE:
            raise NotLocal
        self.note(name, value)
        return value

    def note(self, name: str, value: Any) -> None:
        if name in self.pending:
            self.track.note_all(self.pending[name])
        elif name not in self.own:
            if self.parent is None:
                self.track.note(("v", name), value)
            else:
                self.parent.note(name, value)

    def __setitem__(self, name: str, value: Any) -> None:
        self.own.add(name)
        self.pending.pop(name, None)
        dict.__setitem__(self, name, value)

    def fork(self) -> TrackedScope:
        return TrackedScope(self, self.track, self)


class TrackedNamespace(dict[Any, Any]):
    def __init__(self, given: Mapping[Any, Any], track: Track, key: int) -> None:
        super().__init__(given)
        self.track = track
        self.key = key

    def get(self, name: Any, default: Any = None) -> Any:
        value = dict.get(self, name, default)
        if value is OPAQUE:
            raise NotLocal
        self.track.note(("n", self.key, name), value)
        return value

    def __setitem__(self, name: Any, value: Any) -> None:
        dict.__setitem__(self, name, value)
        self.track.wrote(("n", self.key, name), value)

    def __contains__(self, name: object) -> bool:
        self.get(name)
        return dict.__contains__(self, name)

    def __len__(self) -> int:
        self.track.forget()
        return dict.__len__(self)

    def __iter__(self) -> Iterator[Any]:
        self.track.forget()
        return dict.__iter__(self)

    def items(self) -> Any:
        self.track.forget()
        return dict.items(self)

    def values(self) -> Any:
        self.track.forget()
        return dict.values(self)


class TrackedMessages(list[Any]):
    """A view of a list of messages, ``plain``, that tracks what is read.

    It is a list for templates, and holds nothing itself: every render would copy a long list. ``after``: the
    distance from the turn at which these begin, if they are the rest of the loop's messages; else None.
    """

    def __init__(self, given: list[Any], track: Track, after: int | None = None) -> None:
        super().__init__()
        self.plain = given
        self.track = track
        self.after = after
        self.key = track.add_history(self)

    def __len__(self) -> int:
        size = len(self.plain)
        self.track.note(("len", self.track.key_of(self)), size)
        return size

    def __bool__(self) -> bool:
        full = len(self.plain) > 0
        self.track.note(("any", self.track.key_of(self)), full)
        return full

    def __iter__(self) -> Iterator[Any]:
        self.track.forget()
        return iter(self.plain)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            self.track.forget()
            return TrackedMessages(self.plain[place], self.track)
        key = "at", self.track.key_of(self), place
        try:
            found = self.plain[place]
        except IndexError:
            self.track.note(key, MISSING)
            raise
        self.track.note(key, found)
        return found

    def at(self, place: int) -> Any:
        """Return the message at a place; None if no message stands there."""
        if place < 0:
            place += len(self)
        there = 0 <= place < len(self.plain)
        found = self.plain[place] if there else None
        self.track.note_at(self, place, found if there else MISSING)
        return found

    def note_taken(self, number: int, *, all_of_them: bool) -> None:
        """Note what a loop over these messages has read: its first messages, or the end, too."""
        track = self.track
        if self.after is None or number > MANY:
            track.forget()
            return
        for place in range(number):
            track.note((NEAR, self.after + place), self.plain[place])
        if all_of_them:
            track.note((NEAR, self.after + len(self.plain)), MISSING)


class Taken(list[Any]):
    """Items of a loop that may end before the last of them. ``number``: how many it has taken."""

    def __init__(self, items: list[Any], track: Track) -> None:
        super().__init__(items)
        self.track = track
        self.number = 0
        self.all_of_them = False

    def __iter__(self) -> Iterator[Any]:
        for item in list.__iter__(self):
            self.number += 1
            yield item
        self.all_of_them = True


class TrackedRange(list[int]):
    """The places from ``first`` to the end of ``messages``, which only a loop has.

    Within a turn, the number of messages is not noted as read if the loop ends before the last place.
    """

    def __init__(self, places: list[int], messages: TrackedMessages, first: int) -> None:
        super().__init__()
        self.plain = places
        self.track = messages.track
        self.messages, self.first = messages, first

    def note_taken(self, number: int, *, all_of_them: bool) -> None:
        track = self.track
        if all_of_them or track.record is None or START not in track.record.reads:
            len(self.messages)  # noted as read
        else:  # the place of the turn is noted, and so the first of these
            size = "w", "len", track.key_of(self.messages)
            track.note(size, Within(self.first + number - track.start, math.inf))


class TrackedLoop(Loop):
    def __init__(self, items: list[Any], at: int, track: Track) -> None:
        super().__init__(loop_variables(items, at))
        self.track = track
        self.its = items
        self.at = at

    def get(self, name: Any, default: Any = None) -> Any:
        place = _READ_AS.get(name, name)
        if place in PLACES:
            self.track.note(("p", place), PLACES[place](self.at, self.at + 1, self.its))
        elif place in NEIGHBOURS:
            self.track.near(self.at + NEIGHBOURS[place])
        return dict.get(self, name, default)

    def items(self) -> Any:
        self.track.forget()
        return dict.items(self)


class LoopAhead(TrackedLoop):
    """The variable of a loop that may end early. A turn that reads by it what follows is not reused."""

    def get(self, name: Any, default: Any = None) -> Any:
        if name in _AHEAD:
            self.track.forget()
        return dict.get(self, name, default)


_AHEAD: Final = frozenset(("last", "length", "nextitem", "revindex", "revindex0"))
NEIGHBOURS: Final = {"previtem": -1, "nextitem": 1}
"""The attributes of ``loop`` that are messages, by their distance from the turn's."""
_READ_AS: Final = {"index": "start", "index0": "start", "revindex": "left", "revindex0": "left"}


# They have the methods of objects and lists.
BUILTINS.update(
    {TrackedLoop: {}, LoopAhead: {}, TrackedNamespace: BUILTINS[dict], TrackedMessages: BUILTINS[list]}
)
