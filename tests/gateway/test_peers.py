"""The figures of several workers: of those that run and that ended, and not of one that was killed."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from tests.loops import in_loop
from tokenbox.gateway.metrics import Metrics
from tokenbox.gateway.workers import Peers

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: the name of a socket has 107 bytes at most."""
    with TemporaryDirectory(prefix="peers-") as name:
        yield Path(name)


def worker(mistakes: int, running: int) -> Metrics:
    metrics = Metrics("1")
    for _ in range(mistakes):
        metrics.count("mistakes", 1)
    metrics.gauge("upstream_running", lambda: {("one",): running})
    return metrics


def figures(page: bytes) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in page.decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


@in_loop
async def test_a_page_has_the_sums_of_all_workers_and_no_moment_of_one_that_is_gone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = worker(1, 10), worker(2, 20), worker(4, 40)
    asked = Peers(folder, first.snapshot)
    await asked.open()
    others = []
    for number, metrics in enumerate((second, third), 1):
        monkeypatch.setattr(os, "getpid", lambda number=number: number)
        others.append(Peers(folder, metrics.snapshot))
        await others[-1].open()
    together = figures(first.page(await asked.snapshots()))
    assert together["tokenbox_mistakes_total"] == 7
    assert together['tokenbox_upstream_running{upstream="one"}'] == 70

    others[0].close()  # it ended as asked: what it counted stays, what it had under way does not
    later = figures(first.page(await asked.snapshots()))
    assert later["tokenbox_mistakes_total"] == 7
    assert later['tokenbox_upstream_running{upstream="one"}'] == 50
    others[1].close()
    asked.close()


@in_loop
async def test_a_worker_that_was_killed_is_left_out_of_the_page(folder: Path) -> None:
    """It leaves its socket behind, and nobody answers there."""
    own = worker(1, 10)
    asked = Peers(folder, own.snapshot)
    await asked.open()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "1.sock"))
        dead.listen()
    assert (folder / "1.sock").exists()
    page = figures(own.page(await asked.snapshots()))
    assert page["tokenbox_mistakes_total"] == 1
    assert page['tokenbox_upstream_running{upstream="one"}'] == 10
    asked.close()
