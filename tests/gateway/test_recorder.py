"""What is recorded of a request: a line before it is sent and one after it, whatever becomes of it."""

from __future__ import annotations

import asyncio
import fcntl
import resource
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.waiting import SECONDS
from tokenbox.catalog import Price, PriceTier
from tokenbox.compose.requests import By, Count
from tokenbox.gateway.admission import Counted
from tokenbox.gateway.recorder import CallRecorder
from tokenbox.gateway.relay import CallOutcome
from tokenbox.gateway.services import GatewayServices, _cached_prices
from tokenbox.gateway.spool import Spool, SpoolError
from tokenbox.ledger.call import Outcome
from tokenbox.ledger.quota import Bucket, Quota, Take
from tokenbox.ledger.usage import Usage
from tokenbox.store.errors import StoreBusy
from tokenbox.store.quotas import QuotaStoreError, SqlQuotas
from tokenbox.store.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tokenbox.ledger.call import Call

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


class Table:
    """The store's table of calls."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.busy = 0
        self.problems: list[Exception] = []

    def record(self, *calls: Call) -> None:
        if self.busy:
            self.busy -= 1
            raise StoreBusy("database is locked")
        self.calls += calls


def books_in(folder: Path, price: Price | None = None) -> tuple[CallRecorder, Table]:
    table = Table()
    recorder = CallRecorder(
        Spool(folder),
        lambda: NOON,
        lambda *_: price,
        lambda: cast("Any", table),
        lambda *_: None,
        lambda _: None,
        table.problems.append,
    )
    return recorder, table


def attempt(key: str, outcome: CallOutcome) -> Any:  # noqa: ANN401  # what the recorder look at of a request
    counted = Counted(Count(7, exact=True, at_most=7, by=By.PUBLISHED), "o200k_base openai")
    return SimpleNamespace(
        key=key,
        began_at=NOON,
        started_at=0.0,
        category="chat",
        call=SimpleNamespace(model="gpt-4o", choices=1, fallbacks=()),
        grant=None,
        overflow_of=None,
        fit_record=None,
        was_sent=True,
        outcome=outcome,
        admission=SimpleNamespace(counted=counted, reserved=5, input_at_most=7),
        line=b"",
    )


def test_a_call_is_in_the_ledger_once_with_its_end(tmp_path: Path) -> None:
    recorder, table = books_in(tmp_path)
    done = CallOutcome(status=200, usage=Usage(7, 3), complete=True)
    for key, outcome in (("a", done), ("b", CallOutcome(left=True)), ("c", CallOutcome(status=502))):
        request = attempt(key, outcome)
        recorder.record_start(request, request.call, request.admission)
        recorder.record_end(request)
    killed = attempt("d", CallOutcome())
    recorder.record_start(killed, killed.call, killed.admission)  # and was killed
    assert recorder.drain() == 7
    assert {call.id: call.outcome for call in table.calls} == {
        "a": Outcome.DONE,
        "b": Outcome.STOPPED,
        "c": Outcome.FAILED,
        "d": Outcome.STARTED,
    }
    assert [call.usage.input_tokens for call in table.calls if call.id == "a"] == [7]


def test_a_call_that_was_larger_than_estimated_costs_the_rates_of_its_size(tmp_path: Path) -> None:
    price = Price(Decimal(1), Decimal(2), tiers=(PriceTier(10, Decimal(3), Decimal(4)),))
    recorder, table = books_in(tmp_path, price)
    request = attempt("a", CallOutcome(status=200, usage=Usage(11, 5, 0), complete=True))
    request.admission.input_at_most, request.call.choices = 14, 2
    recorder.record_start(request, request.call, request.admission)
    recorder.record_end(request)
    recorder.drain()
    (call,) = table.calls
    assert (call.cost.dollars, call.cost.exact) == (Decimal(11 * 3 + 5 * 4) / 10**6, True)
    assert (call.predicted.input_tokens, call.predicted.at_most) == (7, Decimal(7 * 3 + 10 * 4) / 10**6)


def test_what_another_model_may_have_answered_has_an_estimated_cost(tmp_path: Path) -> None:
    recorder, table = books_in(tmp_path, Price(Decimal(1), Decimal(2)))
    request = attempt("a", CallOutcome(status=200, usage=Usage(7, 3), complete=True))
    request.call.fallbacks = ("gpt-4o-mini",)
    recorder.record_start(request, request.call, request.admission)
    recorder.record_end(request)
    recorder.drain()
    (call,) = table.calls
    assert (call.exact, call.cost.exact) == (True, False), "the usage is the server's, the price may not be"


@pytest.mark.parametrize(
    ("prices", "at_most"),
    [
        ({"dear": Price(Decimal(10), Decimal(2))}, 7 * 10 + 5 * 2),
        # One is dear to read, the other to write: each costs 7 tokens in and 5 out.
        ({"dear": Price(Decimal(2), Decimal(3)), "cheap": Price(Decimal(1), Decimal(9))}, 7 * 1 + 5 * 9),
        ({}, None),  # whose price is unknown may cost anything
    ],
)
def test_the_most_that_a_call_may_cost_is_that_of_any_model_that_may_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prices: dict[str, Price], at_most: int | None
) -> None:
    recorder, table = books_in(tmp_path)
    prices = {"gpt-4o": Price(Decimal(1), Decimal(2)), "cheap": Price(Decimal(0), Decimal(0)), **prices}
    monkeypatch.setattr(recorder, "_price", lambda name, _: prices.get(name))
    request = attempt("a", CallOutcome())
    request.call.fallbacks = ("cheap", "dear")
    recorder.record_start(request, request.call, request.admission)
    recorder.drain()
    (call,) = table.calls
    expected = None if at_most is None else Decimal(at_most) / 10**6
    assert (call.predicted.input_tokens, call.predicted.at_most) == (7, expected)


def test_an_entry_of_an_older_version_is_recorded(tmp_path: Path) -> None:
    """It knows nothing of caches that last an hour: its cost is an estimate where that would matter."""
    price = Price(Decimal(1), Decimal(2), Decimal("0.1"), Decimal("1.25"), cache_write_1h=Decimal(2))
    recorder, table = books_in(tmp_path, price)
    request = attempt("a", CallOutcome(status=200, usage=Usage(7, 5, 0, None, 7), complete=True))
    recorder.record_start(request, request.call, request.admission)
    recorder.record_end(request)
    (spooled,) = tmp_path.glob("*")
    lines = spooled.read_bytes()
    assert b',"cache_write_1h_tokens":null' in lines
    spooled.write_bytes(lines.replace(b',"cache_write_1h_tokens":null', b""))
    recorder.drain()
    (call,) = table.calls
    assert (call.cost.dollars, call.cost.exact) == ((7 * Decimal("1.25") + 10) / 10**6, False)


def test_prices_are_those_of_the_hour_and_the_operators_for_any_spelling() -> None:
    mine = Price(Decimal(1), Decimal(2))
    settings: Any = SimpleNamespace(prices={"gpt-4o": mine})
    services: Any = SimpleNamespace(_price_of=_cached_prices(settings))
    for name in ("gpt-4o", "openai/gpt-4o", "openai:gpt-4o"):
        assert GatewayServices.price(services, name, NOON) is mine
    by_day, by_hour = (GatewayServices.price(services, "deepseek-v4-pro", on) for on in (NOON.date(), NOON))
    assert by_day is not None
    assert by_hour is not None
    assert by_day.input is not None
    assert by_hour.input is not None
    assert (by_day.is_bound, by_hour.is_bound) == (True, False)
    assert by_hour.input < by_day.input


def test_of_a_call_that_never_ends_the_books_keep_nothing_in_memory(tmp_path: Path) -> None:
    """The worker may fail between a call and its end: its line is the request's, and goes with it."""
    recorder, _ = books_in(tmp_path)
    before = {name: len(value) for name, value in vars(recorder).items() if hasattr(value, "__len__")}
    for number in range(100):
        request = attempt(str(number), CallOutcome())
        recorder.record_start(request, request.call, request.admission)
    assert {name: len(value) for name, value in vars(recorder).items() if hasattr(value, "__len__")} == before
    assert not any(isinstance(value, dict) for value in vars(recorder).values())


def test_no_other_process_takes_a_file_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gateways share the folder: one may drain it between any two steps of another that begins a file."""
    other = Spool(tmp_path)
    lock = fcntl.flock

    def drained_before(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        other.drain(lambda _: ())
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", drained_before)
    spool = Spool(tmp_path)
    spool.append(b'{"id": "a"}')
    taken: list[dict[str, Any]] = []

    def take(entries: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        taken.extend(entries)
        return ()

    spool.drain(take)
    assert taken == [{"id": "a"}]
    spool.close()
    other.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("busy", "recorded", "left"), [(0, 1, 0), (2, 1, 0), (10**9, 0, 1)])
def test_at_the_end_a_busy_store_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: int, recorded: int, left: int
) -> None:
    monkeypatch.setattr("tokenbox.gateway.recorder.DRAIN_SECONDS", 0.01)
    # No machine is so slow that its speed decides.
    monkeypatch.setattr("tokenbox.gateway.recorder._LAST_TRIES_SECONDS", 0.1 if left else SECONDS)
    monkeypatch.setattr("tokenbox.gateway.recorder._END_SECONDS", SECONDS)
    recorder, table = books_in(tmp_path)
    table.busy = busy
    request = attempt("a", CallOutcome(status=200, complete=True))
    recorder.record_start(request, request.call, request.admission)
    recorder.record_end(request)
    recorder.start()
    assert recorder.stop() == left
    assert len(table.calls) == recorded
    assert [str(problem) for problem in table.problems] == ["database is locked"] * (busy > 0), "once"
    # What stays is recorded by the next gateway that has this folder.
    table.busy = 0
    again, table = books_in(tmp_path)
    again.drain()
    assert len(table.calls) == 1 - recorded


def test_a_call_with_an_absurd_limit_is_in_the_ledger(tmp_path: Path) -> None:
    recorder, table = books_in(tmp_path)
    request = attempt("a", CallOutcome(status=200, usage=Usage(7, 3), complete=True))
    request.admission.reserved = 10**12 + 1
    recorder.record_start(request, request.call, request.admission)
    recorder.record_end(request)
    recorder.drain()
    assert [(call.usage, call.predicted.reserved_output) for call in table.calls] == [(Usage(7, 3), None)]


def test_a_file_is_deleted_when_the_store_has_all_of_its_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then it stays, for when this process is killed; after a failure all of it is taken again."""
    monkeypatch.setattr("tokenbox.gateway.spool.BATCH", 2)
    spool = Spool(tmp_path)
    entries = [{"id": name} for name in "abc"]
    for entry in entries:
        spool.append(b'{"id": "%s"}' % entry["id"].encode())
    (path,) = tmp_path.iterdir()
    taken: list[dict[str, Any]] = []
    is_down = True

    def take(batch: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        assert path.exists()
        if taken and is_down:
            raise StoreBusy("locked")
        taken.extend(batch)
        return ()

    with pytest.raises(StoreBusy):
        spool.drain(take)
    assert (taken, path.exists()) == (entries[:2], True)
    is_down, taken = False, []
    assert spool.drain(take) == 3
    assert (taken, path.exists()) == (entries, False)


def test_a_call_has_its_end_in_the_ledger_though_its_figures_cannot_be_added(tmp_path: Path) -> None:
    recorder, table = books_in(tmp_path)

    class Metrics:
        def observe(self, *_: object) -> None:
            raise ZeroDivisionError

    services = SimpleNamespace(recorder=recorder, metrics=Metrics())
    request = attempt("a", CallOutcome(status=200, usage=Usage(7, 3), complete=True))
    recorder.record_start(request, request.call, request.admission)
    with pytest.raises(ZeroDivisionError):
        GatewayServices.observe(cast("GatewayServices", services), request, None)
    recorder.drain()
    assert [call.outcome for call in table.calls] == [Outcome.DONE]


def test_a_line_that_a_full_disk_cut_off_does_not_take_the_next_one_with_it(tmp_path: Path) -> None:
    """The disk had no room for the end of the line either."""
    spool = Spool(tmp_path)
    spool.append(b'{"id": "a"}')
    (path,) = tmp_path.iterdir()
    with room(path.stat().st_size + 5):
        for _ in range(2):
            with pytest.raises(SpoolError):
                spool.append(b'{"id": "b"}')
    spool.append(b'{"id": "c"}')
    taken: list[dict[str, Any]] = []

    def take(entries: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        taken.extend(entries)
        return ()

    spool.drain(take)
    spool.close()
    assert taken == [{"id": "a"}, {"id": "c"}]
    assert not list(tmp_path.iterdir()), "there is nothing for a person to look at"


def test_whether_the_disk_has_room_is_asked_without_using_any(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(b'{"id": "a"}')
    (path,) = tmp_path.iterdir()
    size = path.stat().st_size
    with room(size + 500), pytest.raises(SpoolError):  # as of the last block of a file
        spool.check()
    spool.check()
    assert path.stat().st_size == size
    spool.append(b'{"id": "b"}')
    assert spool.drain(lambda _: ()) == 2
    spool.close()


def test_after_its_end_nothing_is_written_to_a_file_that_has_its_number_now(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.close()
    with (tmp_path / "other").open("wb"):
        for late in (spool.check, lambda: spool.append(b"{}")):
            with pytest.raises(SpoolError):
                late()
    assert (tmp_path / "other").read_bytes() == b""


@contextmanager
def room(size: int) -> Iterator[None]:
    """Let files have at most that many bytes, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_neither_the_disk_nor_the_store_took_is_not_dropped_silently(tmp_path: Path) -> None:
    recorder, _ = books_in(tmp_path)
    request = attempt("a", CallOutcome(status=200, usage=Usage(7, 3), complete=True))
    recorder.record_start(request, request.call, request.admission)
    logged: list[dict[str, object]] = []

    async def nothing() -> None: ...

    services: Any = SimpleNamespace(
        peers=None,
        quotas=SimpleNamespace(close=nothing),
        recorder=recorder,
        stores=SimpleNamespace(threads=SimpleNamespace(close=int), store=SimpleNamespace(close=int)),
        upstreams=(),
        traces=SimpleNamespace(close=int),
        log=SimpleNamespace(write=lambda _, **fields: logged.append(fields)),
    )
    with room(10), pytest.raises(SpoolError):
        recorder.record_end(request)
    asyncio.run(GatewayServices.close(services))
    assert logged == [{"spool_files_waiting": 1, "entries_lost": 1}]


def test_a_log_that_fails_does_not_end_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tokenbox.gateway.recorder.DRAIN_SECONDS", 0.01)
    monkeypatch.setattr("tokenbox.gateway.recorder._LAST_TRIES_SECONDS", SECONDS)
    recorder, table = books_in(tmp_path)
    monkeypatch.setattr(recorder, "_report", lambda _: (tmp_path / "closed" / "log").read_text())
    table.busy = 1
    request = attempt("a", CallOutcome(status=200, complete=True))
    recorder.record_start(request, request.call, request.admission)
    recorder.start()
    assert recorder.stop() == 0
    assert len(table.calls) == 1


def test_something_else_that_fails_is_reported_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store of quotas fails first; what the ledger says then is not the same problem again."""
    monkeypatch.setattr("tokenbox.gateway.recorder.DRAIN_SECONDS", 0.01)
    monkeypatch.setattr("tokenbox.gateway.recorder._LAST_TRIES_SECONDS", SECONDS)
    recorder, table = books_in(tmp_path)
    failures: list[Exception] = [QuotaStoreError("silent"), QuotaStoreError("silent"), StoreBusy("locked")]

    def settle(*_: object) -> None:
        if failures:
            raise failures.pop(0)

    monkeypatch.setattr(recorder, "_settle", settle)
    recorder.settle_later("a", [Take(Bucket.at("k", Quota.parse("300 tokens/hour"), NOON), 7)])
    recorder.start()
    assert recorder.stop() == 0
    assert [str(problem) for problem in table.problems] == ["silent", "locked"]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (QuotaStoreError("silent"), {"event": "quota_store_failed", "error": "silent"}),
        (SpoolError("full"), {"event": "spool_failed", "error": "full"}),
        (StoreBusy("locked"), {"event": "ledger_failed", "error": "locked"}),
        (KeyError("a client's words"), {"event": "mistake", "error": "KeyError", "where": []}),
    ],
)
def test_the_log_names_what_failed(error: Exception, line: dict[str, object]) -> None:
    logged: list[dict[str, object]] = []
    log = SimpleNamespace(write=lambda event, **fields: logged.append({"event": event, **fields}))
    services: Any = SimpleNamespace(log=log, metrics=SimpleNamespace(count=lambda *_: None))
    services.internal_error = lambda error: GatewayServices.internal_error(services, error)
    GatewayServices._recording_failed(services, error)  # noqa: SLF001  # what the recorder's thread calls
    assert logged == [line]


def test_expired_quotas_that_cannot_be_deleted_are_no_failure_of_the_ledger(tmp_path: Path) -> None:
    with open_store(tmp_path / "ledger.db") as store:
        with store.database.writing() as transaction:
            transaction.change("DROP TABLE tokenbox_quota_levels", {})
        with pytest.raises(QuotaStoreError, match="expired quotas cannot be deleted: "):
            SqlQuotas(store.database).forget_before("2026-11-22T12:00:00.000Z")


@pytest.mark.parametrize("stays_full", [False, True])
def test_the_usage_of_a_call_is_recorded_although_the_disk_was_full_at_its_end(
    tmp_path: Path, stays_full: bool
) -> None:
    recorder, table = books_in(tmp_path)
    request = attempt("a", CallOutcome(status=200, usage=Usage(7, 3), complete=True))
    recorder.record_start(request, request.call, request.admission)
    table.busy = 1
    with room(10):
        with pytest.raises(SpoolError):
            recorder.record_end(request)
        with pytest.raises(StoreBusy):
            recorder.drain()
        if stays_full:
            recorder.drain()
    recorder.drain()
    assert {call.id: call.usage for call in table.calls if call.finished} == {"a": Usage(7, 3)}
    recorder.stop()
    assert not list(tmp_path.iterdir())


def test_an_unusable_entry_stays_for_a_person_and_keeps_no_other_back(tmp_path: Path) -> None:
    """Also on a full disk: only a smaller spool makes room there."""
    (tmp_path / "killed.jsonl").write_bytes(b'{"id": "a"}\n{"id": "b')
    (tmp_path / "other.jsonl").write_bytes(b'{"id": "c"}\n')
    spool = Spool(tmp_path)
    with room(0):
        assert spool.drain(lambda _: ()) == 2
    spool.close()
    assert [path.name for path in tmp_path.iterdir()] == ["killed.bad"]


def test_a_clock_that_is_set_ahead_for_a_while_deletes_no_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tokenbox.gateway.recorder.DRAIN_SECONDS", 0.01)
    monkeypatch.setattr("tokenbox.gateway.recorder.CLEAN_SECONDS", 0.0)
    times = iter((NOON, NOON + timedelta(days=365)))
    cleaned: list[datetime] = []
    is_cleaned = threading.Event()

    def clean(before: datetime) -> None:
        cleaned.append(before)
        is_cleaned.set()

    recorder = CallRecorder(
        Spool(tmp_path),
        lambda: next(times, NOON),
        lambda *_: None,
        lambda: cast("Any", Table()),
        lambda *_: None,
        clean,
        lambda _: None,
    )
    recorder.start()
    assert is_cleaned.wait(SECONDS)
    recorder.stop()
    assert max(cleaned) < NOON + timedelta(days=1)
