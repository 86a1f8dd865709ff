"""The messages of a session in the order of the request, changed in place: a copy of a long list costs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise, takewhile
from operator import is_
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenbox.content.items import Item
    from tokenbox.conversation.llama.families import TemplateFamily


@dataclass(slots=True)
class MessageVersions:
    """A message as given by the caller, as parsed by the server, as adapted, and as the template sees it."""

    given: dict[str, Any]
    read: dict[str, Any]
    sent: dict[str, Any]
    final: dict[str, Any]


@dataclass(slots=True)
class SessionItem:
    """An item of the conversation. ``at``: the number of its first message, counting removed ones.

    ``media``: the tokens of its images and files. ``is_verbatim``: its messages are sent as they are here.
    """

    item: Item
    versions: list[MessageVersions]
    media: int
    at: int
    is_verbatim: bool
    bound: int | None = None
    removed: bool = False


class MessageList:
    """The messages of a request. ``owners``: the numbers of their items, ascending."""

    def __init__(self) -> None:
        self.owners: list[int] = []
        self.versions: list[MessageVersions] = []
        self.messages: list[dict[str, Any]] = []
        self.media = self.changed = 0

    def add(self, number: int, entry: SessionItem) -> None:
        self.owners += [number] * len(entry.versions)
        self.versions += entry.versions
        self.messages += [versions.final for versions in entry.versions]
        self.count(entry, 1)

    def count(self, entry: SessionItem, times: int) -> None:
        self.media += times * entry.media
        self.changed += times * (not entry.is_verbatim)

    def change(self, changes: Mapping[int, tuple[SessionItem | None, SessionItem | None]]) -> None:
        """Replace, remove or insert items, as before and after, in place."""
        stretches: list[tuple[slice, list[int], list[MessageVersions]]] = []
        for number in sorted(changes):
            before, after = changes[number]
            first = bisect_left(self.owners, number)
            end = first + (0 if before is None else len(before.versions))
            versions = [] if after is None else after.versions
            owners = [number] * len(versions)
            if stretches and stretches[-1][0].stop == first:  # one stretch, moved once
                at, earlier, others = stretches.pop()
                earlier += owners
                others += versions
                stretches.append((slice(at.start, end), earlier, others))
            else:
                stretches.append((slice(first, end), owners, list(versions)))
            for entry, times in ((before, -1), (after, 1)):
                if entry is not None:
                    self.count(entry, times)
        for at, owners, versions in reversed(stretches):
            self.owners[at] = owners
            self.versions[at] = versions
            self.messages[at] = [one.final for one in versions]


Messages = list[dict[str, Any]]


class Rewriting:
    """Messages that a family rewrites together, part by part: each part once while it is the same."""

    def __init__(self, family: TemplateFamily, rewrite: Callable[[Messages], Messages]) -> None:
        self._begins, self._rewrite = family.parts, rewrite
        self._given: Messages = []
        self._shown: Messages = []
        self._starts: list[int] = []  # where each part begins, in the given messages
        self._ends: list[int] = []  # and where it ends, in the rewritten ones

    def of(self, messages: Messages) -> tuple[Messages, int, Messages]:
        """Return the rewritten messages, the place of the first that is new, and those that are no more."""
        same = sum(1 for _ in takewhile(bool, map(is_, self._given, messages)))
        if same == len(self._given) == len(messages):
            return self._shown, len(self._shown), []
        kept = max(0, bisect_left(self._starts, same) - 1)  # the last of the same may end elsewhere now
        first, changed = (self._starts[kept], self._ends[kept - 1]) if kept else (0, 0)
        known, before = self._parts_from(kept), self._shown[changed:]
        self._given, self._shown = list(messages), self._shown[:changed]
        del self._starts[kept:], self._ends[kept:]
        rest = range(first, len(messages))
        starts = [place for place in rest if place == first or self._begins(messages[place])]
        for start, end in pairwise([*starts, len(messages)]):
            part = messages[start:end]
            given, made = known.get(id(part[0]), ([], []))
            is_known = len(given) == len(part) and all(map(is_, given, part))
            self._shown += made if is_known else self._rewrite(part)
            self._starts.append(start)
            self._ends.append(len(self._shown))
        present = set(map(id, chain(self._shown[changed:], messages)))
        return self._shown, changed, [message for message in before if id(message) not in present]

    def _parts_from(self, kept: int) -> dict[int, tuple[Messages, Messages]]:
        """Return the later parts, as given and as rewritten, by the identity of their first message."""
        starts = [*self._starts[kept:], len(self._given)]
        ends = [self._ends[kept - 1] if kept else 0, *self._ends[kept:]]
        return {
            id(self._given[start]): (self._given[start:stop], self._shown[begin:end])
            for (start, stop), (begin, end) in zip(pairwise(starts), pairwise(ends), strict=True)
        }
