"""Several processes, and processes that are killed at any moment."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.ledger.calls import NOON
from tokenbox.ledger import Call
from tokenbox.store.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

# Says each line after what it says is committed.
TALKER = """
import sys
from datetime import UTC, datetime
from tokenbox.catalog import Price
from tokenbox.ledger import Call, Prediction, Usage
from tokenbox.store.stores import open_store
from tokenbox.store.turns import Turn
from decimal import Decimal
at, price = datetime(2026, 11, 21, 12, tzinfo=UTC), Price(Decimal(1), Decimal(5))
where, name = sys.argv[1:3]
with open_store(where) as store:
    session = store.sessions.create(name, name, at)
    print("ready", flush=True)
    for i in range(100_000):
        call = Call(f"{name}-{i}", at, "m", session=name, predicted=Prediction.of(10, 20, price, exact=True))
        session.append(Turn({"role": "user", "content": f"question {i} " + "x" * (i * 37 % 5000)}, at))
        store.calls.record(call)
        print(f"started {i}", flush=True)
        session.append(Turn({"role": "assistant", "content": f"answer {i}"}, at))
        store.calls.record(call.end(at, Usage(10, 5, 0), price))
        print(f"ended {i}", flush=True)
"""


def talk(where: str, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", TALKER, where, name], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("seed", range(3))
def test_a_kill_loses_at_most_the_call_in_flight(where: str, seed: int) -> None:
    chance = random.Random(seed)
    for attempt in range(2):
        name = f"s{attempt}"
        with talk(where, name) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline().strip() for _ in range(chance.randint(1, 60))]
            process.kill()
            lines += process.stdout.read().split("\n")
            assert process.wait() == -signal.SIGKILL
        seen = [line for line in lines if line]
        started = sum(line.startswith("started") for line in seen)
        ended = sum(line.startswith("ended") for line in seen)
        with open_store(where) as store:
            session = store.sessions.open(name)
            texts = [str(turn.message["content"]).split("x")[0].strip() for turn in session.turns()]
            # Everything that was said is there, in order, and at most what was being said beside it.
            spoken = [text for i in range(started + 1) for text in (f"question {i}", f"answer {i}")]
            assert texts == spoken[: len(texts)]
            assert started + ended <= len(texts) <= started + ended + 1
            found = [call for call in store.calls.each() if call.session == name]
            assert started <= len(found) <= started + 1
            unfinished = [call for call in found if call.finished is None]
            assert len(unfinished) <= 1
            assert ended <= len(found) - len(unfinished) <= ended + 1
            # A call that never ended is unknown, not nothing.
            assert all(call.usage.input_tokens is None and call.cost.dollars is None for call in unfinished)
            assert all(call.predicted.at_most is not None for call in unfinished)
            # And the session goes on.
            session.append(*session.turns()[:0])


STARTER = """
import sys
from datetime import UTC, datetime
from tokenbox.ledger import Call
from tokenbox.store import calls, postgresql, sqlite
from tokenbox.store.stores import open_store
print("up", flush=True)
sys.stdin.readline()
with open_store(sys.argv[1], patience=30) as store:
    for i in range(25):
        assert store.calls.record(Call(f"{sys.argv[2]}-{i}", datetime(2026, 11, 21, tzinfo=UTC), "m")) == 1
        store.calls.record(Call(f"shared-{i}", datetime(2026, 11, 21, tzinfo=UTC), "m"))
print("done")
"""


def test_four_processes_may_start_and_write_at_once(where: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", STARTER, where, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate() for process in processes] == [("done\n", "")] * 4
    with open_store(where) as store:
        assert store.calls.totals().calls == 5 * 25


def test_a_process_that_was_killed_holds_no_lock(where: str) -> None:
    holding = (
        "import sys\nfrom tokenbox.store.stores import open_store\n"
        "with open_store(sys.argv[1]) as store, store.database.writing() as transaction:\n"
        "    transaction.change('DELETE FROM tokenbox_calls')\n"
        "    print('holding', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with open_store(where) as store:
        store.calls.record(Call("a", NOON, "m"))
        with subprocess.Popen(
            [sys.executable, "-c", holding, where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "holding\n"
            process.kill()
        assert store.calls.record(Call("b", NOON, "m"), Call("a", NOON, "m")) == 1


def test_no_key_of_an_address_is_in_the_database(new_postgres: Callable[[], str]) -> None:
    address = new_postgres().replace("postgres@", "postgres:hunter2@")
    with open_store(address) as store:
        assert "hunter2" not in store.name
        assert "hunter2" not in repr(store)
    with psycopg.connect(address) as server:
        names = server.execute("SELECT application_name FROM pg_stat_activity").fetchall()
    assert not [name for (name,) in names if "hunter2" in name]
