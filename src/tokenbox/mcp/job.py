"""A call that runs in a thread: its progress, and whether it was cancelled."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from tokenbox.compose.counting import DEFAULT_CACHE
from tokenbox.tokenizers.cache import CountCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.tokenizers.protocol import Tokenizer

# Texts that are counted between two looks at whether the call is still wanted.
_AT_ONCE: Final = 64


class Stopped(Exception):  # not a failure: the client took the call back
    """The call was cancelled."""


class CallProgress:
    """How far a call is. One thread works, another looks."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self.done = 0
        self.total = 0

    def begin(self, total: int) -> None:
        self.total = total

    def advance(self, number: int = 1) -> None:
        """So many steps more. Raises :class:`Stopped`."""
        if self._stop.is_set():
            raise Stopped
        self.done = min(self.done + number, self.total)

    def stop(self) -> None:
        """Nobody waits for the result."""
        self._stop.set()

    def finish(self) -> None:
        self.done = self.total


class JobCounts(CountCache):
    """The counts of the process, made for one call: it ends between two of them once it is not wanted."""

    def __init__(self, job: CallProgress, counts: CountCache = DEFAULT_CACHE) -> None:
        super().__init__(1)
        self._job = job
        self._shared = counts

    def count_batch(
        self, tokenizer: Tokenizer, texts: Sequence[str], digests: Sequence[bytes] | None = None
    ) -> list[int]:
        found: list[int] = []
        for start in range(0, len(texts), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            self._job.advance(len(texts[some]))
            known = None if digests is None else digests[some]
            found += self._shared.count_batch(tokenizer, texts[some], known)
        return found
