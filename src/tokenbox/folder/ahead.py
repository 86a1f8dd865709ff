"""Counting while reading: the counts are in the cache by the time the layout asks for them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tokenbox.tokenizers.cache import is_worth_remembering

if TYPE_CHECKING:
    from typing import Self

    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer

# Characters per job, and jobs at a time: counting lets other threads run, reading mostly does not.
_JOB = 500_000
_THREADS = 2
# Jobs that may wait: decoded texts are held until then.
_WAITING = 8


class CountAhead:
    """Counts texts in other threads, into ``cache``.

    What cannot be counted is left to the next counter.
    """

    def __init__(self, tokenizer: Tokenizer, cache: CountCache) -> None:
        self._tokenizer = tokenizer
        self._cache = cache
        self._worthwhile = is_worth_remembering(tokenizer)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="tokenbox-ahead")
        self._free = threading.BoundedSemaphore(_WAITING)
        self._texts: list[str] = []
        self._characters = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        """Wait for all counts; after a failure only for those being made."""
        if failure is None:
            self.submit()
        self._threads.shutdown(cancel_futures=failure is not None)

    def add(self, text: str) -> None:
        """Count ``text`` soon."""
        if not self._worthwhile:
            return
        self._texts.append(text)
        self._characters += len(text)
        if self._characters >= _JOB:
            self.submit()

    def submit(self) -> None:
        """Count what was added, without waiting for more."""
        texts, self._texts, self._characters = self._texts, [], 0
        if texts:
            self._free.acquire()
            self._threads.submit(self._count, texts)

    def _count(self, texts: list[str]) -> None:
        try:
            self._cache.count_batch(self._tokenizer, texts)
        finally:
            self._free.release()
