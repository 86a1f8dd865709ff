"""The progress and the cancellation of a call that runs in a thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tokenbox.compose.counting import DEFAULT_CACHE
from tokenbox.tokenizers.cache import CountCache

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer

# Texts that are counted between two checks for cancellation.
_BATCH: Final = 64


class Stopped(Exception):  # not an error: the client cancelled the call
    """The call was cancelled."""


class CallProgress:
    """The progress of a call. One thread updates it, another reads it."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self.done = 0
        self.total = 0

    def begin(self, total: int) -> None:
        self.total = total

    def advance(self, number: int = 1) -> None:
        """Add completed steps. Raises :class:`Stopped`."""
        if self._stop.is_set():
            raise Stopped
        self.done = min(self.done + number, self.total)

    def stop(self) -> None:
        self._stop.set()

    def finish(self) -> None:
        self.done = self.total


class JobCounts(CountCache):
    """The shared cache of counts, used by one call. Counting stops if the call is cancelled."""

    def __init__(self, job: CallProgress, counts: CountCache = DEFAULT_CACHE) -> None:
        super().__init__(1)
        self._job = job
        self._shared = counts

    def count_batch(
        self, tokenizer: Tokenizer, texts: Sequence[str], digests: Sequence[bytes] | None = None
    ) -> list[int]:
        found: list[int] = []
        for start in range(0, len(texts), _BATCH):
            batch = slice(start, start + _BATCH)
            self._job.advance(len(texts[batch]))
            known = None if digests is None else digests[batch]
            found += self._shared.count_batch(tokenizer, texts[batch], known)
        return found
