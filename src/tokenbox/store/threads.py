"""Questions to a store from an event loop: in threads of their own, and never for longer than was agreed.

A database driver may wait for ever for a server that is stopped but still there. Nobody waits with it: the
question fails after ``seconds``, and its thread, which ends with the process, is free again once the server
answers or the connection is gone. The threads are few, so what else runs in threads is never out of them.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from tokenbox.store.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")

THREADS = 8


class StoreThreads:
    """Threads that ask a store. ``seconds``: how long a question may take, its wait for a thread included."""

    def __init__(self, *, seconds: float = 5.0, threads: int = THREADS) -> None:
        self._seconds = seconds
        self._most = threads
        self._questions: queue.SimpleQueue[_Question | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0

    async def ask(
        self,
        question: Callable[..., Answer],
        *arguments: object,
        undo: Callable[[], object] | None = None,
    ) -> Answer:
        """The answer. Raises what ``question`` raises, and ``StoreUnavailable`` if it takes too long.

        A question that nobody waits for any more is not asked; if it was under way, ``undo`` takes back what
        it did.
        """
        future: Future[Answer] = Future()
        if not self._idle.acquire(blocking=False) and self._started < self._most:
            self._started += 1
            threading.Thread(target=self._run, name="tokenbox-store", daemon=True).start()
        self._questions.put(_Question(future, question, arguments, undo))
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise StoreUnavailable(
                f"the store did not answer within {self._seconds:g} seconds. Check that it runs."
            ) from None

    def close(self) -> None:
        """The threads end when they are done; nobody waits for one that never is."""
        for _ in range(self._started):
            self._questions.put(None)

    def _run(self) -> None:
        while (question := self._questions.get()) is not None:
            question.answer()
            del question
            self._idle.release()


class _Question:
    def __init__(
        self,
        future: Future[Any],
        question: Callable[..., Any],
        arguments: tuple[object, ...],
        undo: Callable[[], object] | None,
    ) -> None:
        self._future = future
        self._question = question
        self._arguments = arguments
        self._undo = undo

    def answer(self) -> None:
        # Not marked as running: then it can still be given up while it runs, and that can be seen after.
        if self._future.cancelled():
            return
        try:
            found = self._question(*self._arguments)
        except BaseException as error:  # noqa: BLE001  # raised where it is waited for
            with suppress(InvalidStateError):
                self._future.set_exception(error)
            return
        try:
            self._future.set_result(found)
        except InvalidStateError:
            if self._undo is not None:
                with suppress(Exception):  # whoever gave up settles it later too
                    self._undo()
