"""Questions to a store never take longer than was agreed, whatever the store does."""

from __future__ import annotations

import asyncio
import threading

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


def test_a_silent_store_holds_nobody_and_what_it_does_too_late_is_undone() -> None:
    threads = StoreThreads(seconds=0.2, threads=1)
    release, undone = threading.Event(), threading.Event()
    asked_late: list[int] = []

    async def asked() -> None:
        with pytest.raises(StoreUnavailable):
            await threads.ask(release.wait, undo=undone.set)
        # It waits for the only thread, which is not free, and is not asked any more once it was.
        with pytest.raises(StoreUnavailable):
            await threads.ask(asked_late.append, 1)
        assert not undone.is_set()
        release.set()
        assert await threads.ask(pow, 3, 2) == 9

    asyncio.run(asked())
    assert undone.wait(SECONDS)
    assert asked_late == []
    threads.close()


def test_a_cancelled_question_is_undone() -> None:
    threads = StoreThreads(threads=1)
    started, release, undone = threading.Event(), threading.Event(), threading.Event()

    def slow() -> None:
        started.set()
        release.wait()

    async def asked() -> None:
        task = asyncio.create_task(threads.ask(slow, undo=undone.set))
        await asyncio.to_thread(started.wait, SECONDS)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asked())
    release.set()
    assert undone.wait(SECONDS)
    threads.close()
