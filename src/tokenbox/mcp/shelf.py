"""What an answer left out, kept for as long as there is room: ``expand`` gives it back byte for byte."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tokenbox.conversation.record import UnknownHandle

if TYPE_CHECKING:
    from collections.abc import Mapping

# Bytes of all texts together. The least recently used go first.
ROOM: Final = 256 << 20
HANDLE: Final = 16
# Copies of one folder that are remembered as such.
_FOLDERS: Final = 64


@dataclass(frozen=True, slots=True)
class Kept:
    """A text, and what belongs to it.

    ``parts``: the whole texts of what it shows in part or not at all, by name. ``about``: how it came to be.
    ``folders``: where it was read, one of them enough; none if it was given.
    """

    text: str
    parts: Mapping[str, bytes] = field(default_factory=dict)
    about: str = ""
    folders: tuple[str, ...] = ()

    @property
    def handle(self) -> str:
        """The first characters of a SHA-256 over the text and its parts."""
        digest = hashlib.sha256(self.text.encode())
        for name, part in self.parts.items():
            digest.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(part).digest())
        return digest.hexdigest()[:HANDLE]

    @property
    def size(self) -> int:
        return len(self.text.encode()) + len(self.about) + sum(map(len, self.parts.values()))


class Shelf:
    """The texts, by handle, in at most ``room`` bytes. Thread-safe."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._used = 0
        self._kept: OrderedDict[str, tuple[Kept, int]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, kept: Kept) -> str:
        """Keep it: its handle. What would not leave half the room to others is kept without its parts."""
        size = kept.size
        if size > self._room // 2 and kept.parts:
            kept = replace(kept, parts={})
            size = kept.size
        handle = kept.handle
        with self._lock:
            same, before = self._kept.pop(handle, (kept, 0))
            folders = dict.fromkeys([*kept.folders, *same.folders][:_FOLDERS])
            self._kept[handle] = replace(kept, folders=tuple(folders)), size
            self._used += size - before
            while self._used > self._room and len(self._kept) > 1:
                self._used -= self._kept.popitem(last=False)[1][1]
        return handle

    def get(self, handle: str) -> Kept:
        """What was kept. Raises ``UnknownHandle``."""
        with self._lock:
            if handle not in self._kept:
                raise UnknownHandle(
                    f"nothing is kept under the handle {handle!r:.80}. Handles end with the server, and the "
                    "oldest make room for new ones: ask for the pack or selection again.",
                    handle=handle[:80],
                )
            self._kept.move_to_end(handle)
            return self._kept[handle][0]
