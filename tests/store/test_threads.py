"""Questions to a store never take longer than was agreed, whatever the store does."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

from tests.waiting import SECONDS
from tokenbox.store.errors import StoreBusy, StoreUnavailable
from tokenbox.store.threads import StoreThreads


def test_answers_and_errors_come_back() -> None:
    threads = StoreThreads(threads=2)

    def fails() -> None:
        raise StoreBusy("others hold it.")

    async def asked() -> list[int]:
        with pytest.raises(StoreBusy):
            await threads.ask(fails)
        return list(await asyncio.gather(*(threads.ask(pow, number, 2) for number in range(50))))

    assert asyncio.run(asked()) == [number**2 for number in range(50)]
    threads.close()


def test_a_silent_store_holds_nobody() -> None:
    threads = StoreThreads(seconds=0.2, threads=1)
    release = threading.Event()
    asked_late: list[int] = []

    async def answered() -> int:
        while True:  # on a busy machine its thread may need longer than it has to begin
            with suppress(StoreUnavailable):
                return await threads.ask(pow, 3, 2)

    async def asked() -> None:
        with pytest.raises(StoreUnavailable):
            await threads.ask(release.wait)
        # It waits for the only thread, which is not free, and is not asked any more once it was.
        with pytest.raises(StoreUnavailable):
            await threads.ask(asked_late.append, 1)
        release.set()
        async with asyncio.timeout(SECONDS):
            assert await answered() == 9

    asyncio.run(asked())
    assert asked_late == []
    threads.close()


def test_a_cancelled_question_that_already_runs_leaves_its_thread_free() -> None:
    threads = StoreThreads(threads=1)
    started, release = threading.Event(), threading.Event()

    def slow() -> None:
        started.set()
        release.wait()

    async def asked() -> int:
        task = asyncio.create_task(threads.ask(slow))
        await asyncio.to_thread(started.wait, SECONDS)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
        return await threads.ask(pow, 3, 2)

    assert asyncio.run(asked()) == 9
    threads.close()
