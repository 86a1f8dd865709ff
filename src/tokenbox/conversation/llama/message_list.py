"""The messages of a session in the order of the request, changed in place: a copy of a long list costs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenbox.content.items import Item


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
                stretches.append((slice(at.start, end), earlier + owners, others + versions))
            else:
                stretches.append((slice(first, end), owners, list(versions)))
            for entry, times in ((before, -1), (after, 1)):
                if entry is not None:
                    self.count(entry, times)
        for at, owners, versions in reversed(stretches):
            self.owners[at] = owners
            self.versions[at] = versions
            self.messages[at] = [one.final for one in versions]
