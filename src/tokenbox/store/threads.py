"""Run queries of a store from an event loop, in threads of their own, with a time limit.

A database driver may wait forever for a server that is stopped but still connected. The query then fails
after ``seconds``. Its thread, which ends with the process, is free again once the server answers or the
connection is lost. As the threads are few and separate, other work in threads is not starved.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from tokenbox.store.errors import StoreUnavailable

T = TypeVar("T")

THREADS = 8


class StoreThreads:
    """Threads that run queries. ``seconds`` limits a query, including its wait for a thread."""

    def __init__(self, *, seconds: float = 5.0, threads: int = THREADS) -> None:
        self._seconds = seconds
        self._max_threads = threads
        self._queries: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0

    async def ask(self, query: Callable[..., T], *arguments: object) -> T:
        """Run ``query``. Raises its errors, and ``StoreUnavailable`` if it takes too long.

        A query that was cancelled before it began is not run.
        """
        future: Future[T] = Future()
        if not self._idle.acquire(blocking=False) and self._started < self._max_threads:
            self._started += 1
            threading.Thread(target=self._run, name="tokenbox-store", daemon=True).start()
        self._queries.put((future, partial(query, *arguments)))
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise StoreUnavailable(
                f"the store did not answer within {self._seconds:g} seconds. Check that it runs."
            ) from None

    def close(self) -> None:
        """Let the threads end when they are idle, without waiting for them."""
        for _ in range(self._started):
            self._queries.put(None)

    def _run(self) -> None:
        while (query := self._queries.get()) is not None:
            _answer(*query)
            del query
            self._idle.release()


def _answer(future: Future[T], query: Callable[[], T]) -> None:
    # The future is not marked as running, so that it can be cancelled while the query runs.
    if future.cancelled():
        return
    with suppress(InvalidStateError):  # it was cancelled meanwhile
        try:
            found = query()
        except BaseException as error:  # noqa: BLE001  # raised in the task that waits for it
            future.set_exception(error)
        else:
            future.set_result(found)
