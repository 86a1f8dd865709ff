"""What is recorded of a request: a line before it is sent and one after it, whatever becomes of it."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tokenbox.compose.requests import By, Count
from tokenbox.gateway.admission import Counted
from tokenbox.gateway.books import Books
from tokenbox.gateway.build import GatewayServices
from tokenbox.gateway.relay import CallOutcome
from tokenbox.gateway.spool import Spool
from tokenbox.ledger.call import Outcome
from tokenbox.ledger.usage import Usage

if TYPE_CHECKING:
    from pathlib import Path

    from tokenbox.ledger.call import Call

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


class Table:
    """The store's table of calls."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def record(self, *calls: Call) -> None:
        self.calls += calls


def books_in(folder: Path) -> tuple[Books, Table]:
    table = Table()
    books = Books(
        Spool(folder),
        lambda: NOON,
        lambda *_: None,
        lambda: cast("Any", table),
        lambda *_: None,
        lambda: None,
    )
    return books, table


def attempt(key: str, outcome: CallOutcome) -> Any:  # noqa: ANN401  # what the books look at of a request
    counted = Counted(Count(7, exact=True, at_most=7, by=By.PUBLISHED), "o200k_base openai")
    return SimpleNamespace(
        key=key,
        began_at=NOON,
        started_at=0.0,
        category="chat",
        call=SimpleNamespace(model="gpt-4o", choices=1),
        grant=None,
        overflow_of=None,
        done=None,
        was_sent=True,
        outcome=outcome,
        verdict=SimpleNamespace(counted=counted, reserved=5),
        line=b"",
    )


def test_a_call_is_in_the_ledger_once_with_its_end(tmp_path: Path) -> None:
    books, table = books_in(tmp_path)
    done = CallOutcome(status=200, usage=Usage(7, 3), complete=True)
    for key, outcome in (("a", done), ("b", CallOutcome(left=True)), ("c", CallOutcome(status=502))):
        request = attempt(key, outcome)
        books.began(request)
        books.ended(request)
    books.began(attempt("d", CallOutcome()))  # and was killed
    assert books.drain() == 7
    assert {call.id: call.outcome for call in table.calls} == {
        "a": Outcome.DONE,
        "b": Outcome.STOPPED,
        "c": Outcome.FAILED,
        "d": Outcome.STARTED,
    }
    assert [call.usage.input_tokens for call in table.calls if call.id == "a"] == [7]


def test_of_a_call_that_never_ends_the_books_keep_nothing_in_memory(tmp_path: Path) -> None:
    """The worker may fail between a call and its end: its line is the request's, and goes with it."""
    books, _ = books_in(tmp_path)
    before = {name: len(value) for name, value in vars(books).items() if hasattr(value, "__len__")}
    for number in range(100):
        books.began(attempt(str(number), CallOutcome()))
    assert {name: len(value) for name, value in vars(books).items() if hasattr(value, "__len__")} == before
    assert not any(isinstance(value, dict) for value in vars(books).values())


def test_a_call_has_its_end_in_the_ledger_though_its_figures_cannot_be_added(tmp_path: Path) -> None:
    books, table = books_in(tmp_path)

    class Metrics:
        def observe(self, *_: object) -> None:
            raise ZeroDivisionError

    services = SimpleNamespace(books=books, metrics=Metrics())
    request = attempt("a", CallOutcome(status=200, usage=Usage(7, 3), complete=True))
    books.began(request)
    with pytest.raises(ZeroDivisionError):
        GatewayServices.observe(cast("GatewayServices", services), request, None)
    books.drain()
    assert [call.outcome for call in table.calls] == [Outcome.DONE]
