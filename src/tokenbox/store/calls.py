"""The table of calls, and their totals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum, StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tokenbox.ledger.call import Call, time_text
from tokenbox.ledger.errors import LedgerError
from tokenbox.ledger.totals import SUMMED, Sum, Totals, total
from tokenbox.ledger.usage import FIGURES
from tokenbox.store.database import insert
from tokenbox.store.errors import StoreDamaged

if TYPE_CHECKING:
    from tokenbox.store.database import Database, Transaction, Value

__all__ = ["CallField", "CallSpan", "CallTotals", "Calls"]

# Rows that are read at a time.
PAGE = 1_000

# The columns, and the field of a call in each.
FIELDS = {
    **{name: name for name in "id started finished outcome project session model category exact".split()},
    **{name: f"usage.{name}" for name in FIGURES},
    "cost": "cost.dollars",
    "cost_exact": "cost.exact",
    "priced": "cost.priced",
    "price_source": "cost.source",
    "price_date": "cost.date",
    "predicted_tokens": "predicted.input_tokens",
    "predicted_exact": "predicted.exact",
    "reserved_output": "predicted.reserved_output",
    "at_most": "predicted.at_most",
}
COLUMNS = tuple(FIELDS)
_read = attrgetter(*FIELDS.values())
_FLAGS = {"exact", "priced"}
# Writes are idempotent: a start is written once, an end once, in either order.
WRITE = f"""
    {insert("tokenbox_calls", COLUMNS)}
    ON CONFLICT (id) DO UPDATE SET {", ".join(f"{column} = excluded.{column}" for column in COLUMNS[1:])}
    WHERE tokenbox_calls.finished IS NULL AND excluded.finished IS NOT NULL
"""


class CallField(StrEnum):
    """The fields to group calls by. Days are in UTC, as on the bills of providers."""

    MODEL = "model"
    CATEGORY = "category"
    DAY = "day"
    PROJECT = "project"
    SESSION = "session"


EXPRESSIONS = {**{by: by.value for by in CallField}, CallField.DAY: "substr(started, 1, 10)"}


@dataclass(frozen=True, slots=True)
class CallSpan:
    """A selection of calls: those started from ``since`` until before ``until``, of a project or session."""

    since: datetime | None = None
    until: datetime | None = None
    project: str | None = None
    session: str | None = None

    def condition(self) -> tuple[str, dict[str, Value]]:
        given = {name: _value(found) for name in _CONDITIONS if (found := getattr(self, name)) is not None}
        return " AND ".join(_CONDITIONS[name] for name in given) or "1 = 1", given


_CONDITIONS = {
    "since": "started >= :since",
    "until": "started < :until",
    "project": "project = :project",
    "session": "session = :session",
}
EVERYTHING = CallSpan()


@dataclass(frozen=True, slots=True)
class CallTotals:
    """The totals of the calls that share ``key``: a value or None per :class:`CallField` asked for."""

    key: tuple[str | None, ...]
    totals: Totals


class Calls:
    """The calls in a database. All methods raise :class:`~tokenbox.store.errors.StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, *calls: Call) -> int:
        """Write calls, all or none, and return how many changed the table.

        A call is written when it starts and again when it ends. Every write may be repeated, and may come
        late: a call counts once, and the first end of a call is kept.
        """
        if not calls:
            return 0
        # In the order of ids, so that two processes that write the same calls cannot deadlock.
        ordered = sorted(calls, key=lambda call: call.id)
        return self._database.change_each(
            WRITE, [dict(zip(COLUMNS, map(_value, _read(call)), strict=True)) for call in ordered]
        )

    def get(self, call_id: str) -> Call | None:
        with self._database.reading() as transaction:
            rows = transaction.rows(
                f"SELECT {', '.join(COLUMNS)} FROM tokenbox_calls WHERE id = :id", {"id": call_id}
            )
        return _call(rows[0]) if rows else None

    def rows(self, by: Sequence[CallField] = (), span: CallSpan = EVERYTHING) -> list[CallTotals]:
        """Return the totals of each group of calls, in the order of their keys, None last."""
        keys = [EXPRESSIONS[one] for one in by]
        condition, values = span.condition()
        with self._database.reading() as transaction:
            found = transaction.rows(
                f"SELECT {', '.join([*keys, *_sums(transaction)])} FROM tokenbox_calls WHERE {condition}"
                + (f" GROUP BY {', '.join(keys)}" if keys else ""),
                values,
            )
        rows = [CallTotals(tuple(row[: len(keys)]), _totals(row[len(keys) :])) for row in found]
        return sorted(rows, key=lambda row: [(part is None, part or "") for part in row.key])

    def totals(self, span: CallSpan = EVERYTHING) -> Totals:
        return total(row.totals for row in self.rows(span=span))

    def each(self, span: CallSpan = EVERYTHING) -> Iterator[Call]:
        """Yield every call, in the order of starting. Calls written meanwhile may be among them."""
        condition, values = span.condition()
        statement = (
            f"SELECT {', '.join(COLUMNS)} FROM tokenbox_calls WHERE {condition} "
            "AND (started > :at OR started = :at AND id > :id) ORDER BY started, id LIMIT :page"
        )
        last: Mapping[str, Value] = {"at": "", "id": ""}
        while True:
            with self._database.reading() as transaction:
                page = transaction.rows(statement, {**values, **last, "page": PAGE})
            yield from (_call(row) for row in page)
            if len(page) < PAGE:
                return
            last = {"at": page[-1][1], "id": page[-1][0]}


def _sums(transaction: Transaction) -> Iterable[str]:
    """Yield the columns of totals, in the order in which :func:`_totals` reads them."""
    money_sum = transaction.dialect.money_sum
    yield "COUNT(*)"
    yield "COUNT(*) FILTER (WHERE finished IS NULL)"
    yield "COUNT(*) FILTER (WHERE finished IS NOT NULL AND priced = 0)"
    for column, add_up, exact in (
        *((column, "SUM", "exact") for column in SUMMED),
        ("cost", money_sum, "cost_exact"),
    ):
        yield f"{add_up}({column})"
        yield f"COUNT(*) - COUNT({column})"
        yield f"COUNT({column}) FILTER (WHERE {exact} = 0)"
    yield f"{money_sum}(at_most) FILTER (WHERE cost IS NULL)"
    yield "COUNT(*) FILTER (WHERE cost IS NULL AND at_most IS NULL)"


def _totals(row: Sequence[Any]) -> Totals:
    parts = iter(row)
    return Totals(
        calls=next(parts),
        unfinished=next(parts),
        unpriced=next(parts),
        **{name: Sum(int(next(parts) or 0), next(parts), next(parts)) for name in SUMMED.values()},
        cost=Sum(Decimal(next(parts) or 0), next(parts), next(parts)),
        held=Decimal(next(parts) or 0),
        unheld=next(parts),
    )


def _value(field: object) -> Value:
    match field:
        case bool():
            return int(field)
        case datetime():
            return time_text(field)
        case Enum():
            return field.value
    return field


def _call(row: Sequence[Any]) -> Call:
    record: dict[str, Any] = {"usage": {}, "cost": {}, "predicted": {}}
    for name, value in zip(FIELDS.values(), row, strict=True):
        part, _, field = name.rpartition(".")
        (record[part] if part else record)[field] = bool(value) if field in _FLAGS else value
    try:
        return Call.from_dict(record)
    except LedgerError as error:
        raise StoreDamaged(
            f"the call {record['id']!r} in the database cannot be read: {error} Another program wrote it.",
            id=record["id"],
        ) from error
