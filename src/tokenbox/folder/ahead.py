"""Count texts in another thread while files are read."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from tokenbox.compose.counting import cache_of
from tokenbox.tokenizers.cache import is_worth_remembering
from tokenbox.tokenizers.protocol import BaseTokenizer

if TYPE_CHECKING:
    from typing import Self

    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer

# Bytes per job: so few that a tokenizer counts them in one thread. The reader needs the other processors.
_JOB = 100_000


class CountAhead:
    """A context manager that counts texts in another thread, into ``cache``.

    Errors in that thread are ignored: the layout counts such a text again, and reports them.
    """

    def __init__(self, tokenizer: Tokenizer, cache: CountCache | None = None, expected: int = 0) -> None:
        """``cache``: None for that of all layouts. ``expected``: the size of all texts in bytes."""
        if isinstance(tokenizer, BaseTokenizer):
            tokenizer.expect(expected)
        self.tokenizer = tokenizer
        self.cache = cache_of(cache)
        self._worthwhile = is_worth_remembering(tokenizer)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tokenbox-ahead")
        self._begun: list[Future[None]] = []
        self._jobs: deque[list[bytes]] = deque()
        self._texts: list[bytes] = []
        self._size = 0
        self.counts: dict[bytes, int] = {}
        """The counts of the added texts, as far as they are known."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        """Wait for all counts; after a failure only for those that have started."""
        if failure is None:
            self.wait()
        self._thread.shutdown(cancel_futures=failure is not None)

    def add(self, text: bytes) -> None:
        """Count ``text``, in UTF-8, soon. The caller keeps it anyway, so the queue takes no memory."""
        if not self._worthwhile:
            return
        self._texts.append(text)
        self._size += len(text)
        if self._size >= _JOB:
            self.submit()

    def submit(self) -> None:
        """Count the added texts without waiting for more."""
        texts, self._texts, self._size = self._texts, [], 0
        if texts:
            self._jobs.append(texts)
            self._begun.append(self._thread.submit(self._count_next))

    def wait(self) -> None:
        """Return when all added texts are counted. This thread takes part."""
        self.submit()
        while self._jobs:
            self._count_next()
        wait(self._begun)

    def _count_next(self) -> None:
        try:
            texts = self._jobs.popleft()
        except IndexError:  # another thread took the last job
            return
        counts = self.cache.count_batch(self.tokenizer, [text.decode() for text in texts])
        self.counts.update(zip(texts, counts, strict=True))
