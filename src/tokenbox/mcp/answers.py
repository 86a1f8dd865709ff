"""Fits an answer into its budget, and keeps its full text, which ``expand`` returns byte for byte."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tokenbox.conversation.record import UnknownHandle
from tokenbox.errors import InvalidBudget
from tokenbox.tokenizers.truncation import truncate

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer


# The total size of all texts in bytes. The least recently used are evicted first.
ROOM: Final = 256 << 20
HANDLE: Final = 16
# The number of folders with identical content that are remembered.
_MAX_FOLDERS: Final = 64


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """A text, and the data behind it.

    ``parts``: full texts of what it shows in part or not at all, by name. ``about``: its explanation.
    ``folders``: where it was read; access to one of them is enough. Empty if it was not read from files.
    """

    text: str
    parts: Mapping[str, bytes] = field(default_factory=dict)
    about: str = ""
    folders: tuple[str, ...] = ()

    @property
    def handle(self) -> str:
        """The first digits of a SHA-256 over the text and its parts."""
        digest = hashlib.sha256(self.text.encode())
        for name, part in self.parts.items():
            named = hashlib.sha256(name.encode("utf-8", "surrogatepass"))
            digest.update(named.digest() + hashlib.sha256(part).digest())
        return digest.hexdigest()[:HANDLE]

    @property
    def size(self) -> int:
        return len(self.text.encode()) + len(self.about) + sum(map(len, self.parts.values()))


class AnswerStore:
    """The texts by handle, in at most ``room`` bytes. Thread-safe."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._used = 0
        self._kept: OrderedDict[str, tuple[StoredAnswer, int]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, kept: StoredAnswer) -> str:
        """Store a text and return its handle. One larger than half the room is stored without its parts."""
        size = kept.size
        if size > self._room // 2 and kept.parts:
            kept = replace(kept, parts={})
            size = kept.size
        handle = kept.handle
        with self._lock:
            same, before = self._kept.pop(handle, (kept, 0))
            folders = dict.fromkeys([*kept.folders, *same.folders][:_MAX_FOLDERS])
            self._kept[handle] = replace(kept, folders=tuple(folders)), size
            self._used += size - before
            while self._used > self._room and len(self._kept) > 1:
                self._used -= self._kept.popitem(last=False)[1][1]
        return handle

    def get(self, handle: str) -> StoredAnswer:
        """Return the text of a handle. Raises ``UnknownHandle``."""
        with self._lock:
            if handle not in self._kept:
                raise UnknownHandle(
                    f"the handle {handle!r:.80} is unknown. Handles end with the server, and the oldest are "
                    "evicted: call pack or select again.",
                    handle=handle[:80],
                )
            self._kept.move_to_end(handle)
            return self._kept[handle][0]


# Common clients cut or refuse answers of more than 25,000 tokens.
DEFAULT_TOKENS: Final = 20_000
# The upper bound of the note after a text, in any vocabulary: figures, handles and a few file names.
NOTE_ROOM: Final = 400
AT: Final = "@"


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def size(blocks: list[str], tokenizer: Tokenizer) -> int:
    """Return the tokens of an answer: of its blocks one by one or joined, whichever is larger.

    Clients count either way.
    """
    return max(sum(map(tokenizer.count, blocks)), tokenizer.count("\n".join(blocks)))


def answered(
    kept: StoredAnswer,
    note: Mapping[str, object],
    max_tokens: int,
    tokenizer: Tokenizer,
    answers: AnswerStore,
    *,
    start: int = 0,
) -> list[str]:
    """Return the text from character ``start`` on and a note, in at most ``max_tokens`` tokens.

    The note's ``rest`` has a handle for what does not fit. The first blocks of an answer and of the answers
    to its handles concatenate to the text, byte for byte. Raises :class:`InvalidBudget` if no character fits.
    """
    handle = answers.put(kept)
    text = kept.text[start:]
    whole = [text, as_json({"handle": handle, **note})]
    if size(whole, tokenizer) <= max_tokens:
        return whole

    def cut(end: int) -> list[str]:
        rest = {"handle": f"{handle}{AT}{end}", "characters": len(kept.text) - end}
        return [kept.text[start:end], as_json({"handle": handle, **note, "rest": rest})]

    room = max_tokens - tokenizer.count(cut(len(kept.text))[1])
    while room > 0:
        part = truncate(text, room, tokenizer)
        if not part:
            break
        blocks = cut(start + len(part))
        over = size(blocks, tokenizer) - max_tokens
        if over <= 0:
            return blocks
        room -= over
    raise InvalidBudget(
        f"max_tokens is {max_tokens:,}, too small for any of the text. Give {NOTE_ROOM:,} or more.",
        budget=max_tokens,
    )
