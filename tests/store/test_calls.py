"""Calls are recorded exactly once, in whatever order, and add up as the slow sums say."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.ledger.calls import HAIKU, NOON, calls
from tokenbox.catalog import Price
from tokenbox.ledger import Call, Outcome, Totals, Usage
from tokenbox.ledger.call import time_text
from tokenbox.ledger.totals import NOTHING, total
from tokenbox.store import calls as module
from tokenbox.store.calls import CallField, CallSpan
from tokenbox.store.errors import StoreDamaged
from tokenbox.store.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from random import Random

    from tokenbox.store.stores import Store

STARTED = Call("a", NOON, "haiku", project="/home/ada", session="s1")
ENDED = STARTED.end(NOON + timedelta(seconds=2), Usage(7, 3, 0), HAIKU)


def test_a_call_is_written_when_it_starts_and_when_it_ends(store: Store) -> None:
    assert store.calls.record(STARTED) == 1
    assert store.calls.get("a") == STARTED
    assert store.calls.totals() == Totals.of(STARTED)
    assert store.calls.record(ENDED) == 1
    assert store.calls.get("a") == ENDED
    assert store.calls.totals() == Totals.of(ENDED)
    assert store.calls.get("b") is None


def test_writing_again_changes_nothing(store: Store) -> None:
    other_end = replace(ENDED, usage=Usage(9, 9), outcome=Outcome.FAILED)
    for call, news in ((STARTED, 1), (STARTED, 0), (ENDED, 1), (ENDED, 0), (STARTED, 0), (other_end, 0)):
        assert store.calls.record(call) == news
        assert store.calls.totals().calls == 1
    assert store.calls.get("a") == ENDED


def test_an_end_may_come_before_its_start(store: Store) -> None:
    assert store.calls.record(ENDED, STARTED) == 1
    assert store.calls.get("a") == ENDED


def test_money_stays_exact(store: Store) -> None:
    tenth = replace(ENDED.cost, dollars=Decimal("0.1"))
    odd = replace(ENDED.cost, dollars=Decimal("123456789012345678.000000000000000001"))
    many = [replace(ENDED, id=str(i), cost=tenth) for i in range(30)]
    store.calls.record(*many, replace(ENDED, cost=odd))
    assert store.calls.totals().cost.known == Decimal("123456789012345681.000000000000000001")
    assert store.calls.get("a") == replace(ENDED, cost=odd)


@pytest.mark.parametrize("rate", ["1e-30", "9e30"])
def test_costs_by_any_price_have_a_sum(store: Store, rate: str) -> None:
    price = Price(Decimal(rate), Decimal(rate))
    call = Call("a", STARTED.started, "m").end(STARTED.started, Usage(10**12 - 1, 1), price)
    store.calls.record(call, replace(call, id="b"))
    assert store.calls.get("a") == call
    assert call.cost.dollars is not None
    assert store.calls.totals().cost.known == 2 * call.cost.dollars


def test_an_empty_store(store: Store) -> None:
    assert store.calls.totals() == NOTHING
    assert store.calls.rows([CallField.MODEL, CallField.DAY]) == []
    assert list(store.calls.each()) == []


def expected(recorded: list[Call], by: list[CallField]) -> list[tuple[tuple[str | None, ...], Totals]]:
    """Grouped the slow way."""

    def key(call: Call) -> tuple[str | None, ...]:
        return tuple(
            time_text(call.started)[:10] if one is CallField.DAY else getattr(call, one.value) for one in by
        )

    keys = {key(call) for call in recorded}
    return [
        (one, total(Totals.of(call) for call in recorded if key(call) == one))
        for one in sorted(keys, key=lambda one: [(part is None, part or "") for part in one])
    ]


@settings(max_examples=examples(40))
@given(
    recorded=st.lists(calls(), max_size=8, unique_by=lambda call: call.id),
    by=st.lists(st.sampled_from(CallField), max_size=3, unique=True),
    bounds=st.tuples(*[st.none() | st.integers(-2_000, 2_000)] * 2),
    project=st.none() | st.sampled_from(["/home/ada/engine", "notes"]),
    session=st.none() | st.just("s1"),
    chance=st.randoms(use_true_random=False),
)
@pytest.mark.slow
def test_sums_are_those_of_the_ledger(
    shared_stores: list[Store],
    recorded: list[Call],
    by: list[CallField],
    bounds: tuple[int | None, int | None],
    project: str | None,
    session: str | None,
    chance: Random,
) -> None:
    since, until = (None if one is None else NOON + timedelta(minutes=one) for one in bounds)
    span = CallSpan(since, until, project, session)
    inside = [
        call
        for call in recorded
        if (since is None or call.started >= since)
        and (until is None or call.started < until)
        and project in {None, call.project}
        and session in {None, call.session}
    ]
    written = [*recorded, *recorded[:2]]
    chance.shuffle(written)
    for store in shared_stores:
        with store.database.writing() as transaction:
            transaction.change("DELETE FROM tokenbox_calls")
        assert store.calls.record(*written) == len(recorded)
        assert [(row.key, row.totals) for row in store.calls.rows(by, span)] == (
            expected(inside, by) if by or inside else [((), NOTHING)]
        )
        assert store.calls.totals(span) == total(Totals.of(call) for call in inside)
        assert list(store.calls.each(span)) == sorted(inside, key=lambda call: (call.started, call.id))


@pytest.fixture(scope="module")
def shared_stores(
    tmp_path_factory: pytest.TempPathFactory, new_postgres: Callable[[], str]
) -> Iterator[list[Store]]:
    file = tmp_path_factory.mktemp("calls") / "a.db"
    with open_store(file) as in_file, open_store(new_postgres()) as on_server:
        yield [in_file, on_server]


def test_all_pages_are_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 3)
    recorded = [replace(STARTED, id=str(i), started=NOON + timedelta(seconds=i // 4)) for i in range(12)]
    store.calls.record(*recorded)
    assert list(store.calls.each()) == sorted(recorded, key=lambda call: (call.started, call.id))


def test_what_somebody_else_wrote_is_an_error_of_ours(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        store.calls.record(STARTED)
        with store.database.writing() as transaction:
            transaction.change("UPDATE tokenbox_calls SET outcome = 'perhaps'")
        with pytest.raises(StoreDamaged, match="Another program wrote it"):
            store.calls.get("a")


def test_nothing_of_a_failed_batch_is_kept(store: Store) -> None:
    impossible = replace(ENDED, id="b")
    object.__setattr__(impossible, "model", None)
    with pytest.raises(Exception, match=r"tokenbox\.db|postgresql"):
        store.calls.record(STARTED, impossible)
    assert store.calls.get("a") is None
    assert store.calls.record(STARTED) == 1
