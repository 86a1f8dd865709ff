"""Count texts in other threads while files are read, so that the layout finds the counts in the cache."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tokenbox.tokenizers.cache import is_worth_remembering

if TYPE_CHECKING:
    from typing import Self

    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer

# Characters per job.
_JOB = 500_000
_THREADS = 2
# The limit of unfinished jobs, because their texts are held in memory.
_MAX_JOBS = 8


class CountAhead:
    """A context manager that counts texts in other threads, into ``cache``.

    Errors are ignored here: the layout counts such a text again, and reports them.
    """

    def __init__(self, tokenizer: Tokenizer, cache: CountCache) -> None:
        self._tokenizer = tokenizer
        self._cache = cache
        self._worthwhile = is_worth_remembering(tokenizer)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="tokenbox-ahead")
        self._free = threading.BoundedSemaphore(_MAX_JOBS)
        self._texts: list[str] = []
        self._characters = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        """Wait for all counts; after a failure only for those that have started."""
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
        """Count the added texts without waiting for more."""
        texts, self._texts, self._characters = self._texts, [], 0
        if texts:
            self._free.acquire()
            self._threads.submit(self._count, texts)

    def _count(self, texts: list[str]) -> None:
        try:
            self._cache.count_batch(self._tokenizer, texts)
        finally:
            self._free.release()
