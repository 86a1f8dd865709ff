"""The record of a call of a model: its prediction, usage and cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tokenbox.errors import shown
from tokenbox.ledger.cost import (
    MOST_COST_DIGITS,
    UNPRICED,
    Cost,
    cost_at_most,
    cost_of,
    money,
    money_text,
)
from tokenbox.ledger.errors import InvalidCall
from tokenbox.ledger.usage import UNKNOWN_USAGE, Usage, is_count
from tokenbox.records import to_record

if TYPE_CHECKING:
    from decimal import Decimal

    from tokenbox.catalog import Price

MAX_NAME = 500  # characters of the name of a model, project or session


class Category(StrEnum):
    """The purpose of calls. Any other name is valid, too."""

    MAIN = "main"
    SUMMARIZE = "summarize"
    TOOL = "tool"


class Outcome(StrEnum):
    """How a call ended. One that stays ``STARTED`` was cut off: its usage is unknown."""

    STARTED = "started"
    DONE = "done"
    STOPPED = "stopped"  # by the caller
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Prediction:
    """The figures before sending. ``at_most`` is the cost in dollars if all reserved output is used."""

    input_tokens: int | None = None
    exact: bool = False
    reserved_output: int | None = None
    at_most: Decimal | None = None

    def __post_init__(self) -> None:
        for name in ("input_tokens", "reserved_output"):
            value = getattr(self, name)
            if value is not None and not is_count(value):
                raise InvalidCall(
                    f"the predicted {name} is {shown(value)}, and must be a whole number from 0.", field=name
                )

    @classmethod
    def of(
        cls,
        input_tokens: int | None,
        reserved_output: int | None,
        price: Price | None,
        *,
        exact: bool,
        input_at_most: int | None = None,
    ) -> Prediction:
        """Return a prediction. ``exact`` means that the input was counted as the server will count it.

        ``input_at_most`` is the upper bound of an estimate, which may cost the rates of a longer request.
        """
        at_most = (
            None
            if input_tokens is None or reserved_output is None
            else cost_at_most(input_tokens, reserved_output, price, input_at_most=input_at_most)
        )
        return cls(input_tokens, exact, reserved_output, at_most)

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self,
            "input_tokens exact reserved_output at_most",
            at_most=None if self.at_most is None else money_text(self.at_most),
        )


@dataclass(frozen=True, slots=True)
class Call:
    """The record of a call, without any content.

    ``id`` is the caller's, and makes recording idempotent. Times are aware and kept in UTC. ``exact`` means
    that the usage is the server's own. Names are cut to 500 characters; characters that a database cannot
    store (NUL, lone surrogates) become U+FFFD. Raises :class:`InvalidCall`.
    """

    id: str
    started: datetime
    model: str
    category: str = Category.MAIN
    project: str | None = None
    session: str | None = None
    predicted: Prediction = Prediction()
    finished: datetime | None = None
    outcome: Outcome = Outcome.STARTED
    usage: Usage = UNKNOWN_USAGE
    exact: bool = False
    cost: Cost = UNPRICED

    def __post_init__(self) -> None:
        for name in ("id", "model", "category"):
            object.__setattr__(self, name, _name(getattr(self, name), name))
        for name in ("project", "session"):
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None else _name(given, name))
        object.__setattr__(self, "started", _in_utc(self.started, "started"))
        if self.finished is not None:
            object.__setattr__(self, "finished", _in_utc(self.finished, "finished"))
        if (self.finished is None) != (self.outcome is Outcome.STARTED):
            raise InvalidCall(
                f"the call is {self.outcome.value} with finished={self.finished}: "
                "a call has an end if and only if it ended.",
                field="outcome",
            )

    def end(
        self,
        at: datetime,
        usage: Usage,
        price: Price | None,
        *,
        exact: bool = True,
        outcome: Outcome = Outcome.DONE,
    ) -> Call:
        """Return the record of the ended call. ``exact`` means that ``usage`` is the server's own."""
        cost = cost_of(usage, price, exact=exact)
        return replace(self, finished=at, outcome=outcome, usage=usage, exact=exact, cost=cost)

    def to_dict(self) -> dict[str, object]:
        """Return plain data, equal for equal calls, that :meth:`from_dict` reads."""
        return to_record(
            self,
            "id started finished outcome project session model category usage exact cost predicted",
            started=time_text(self.started),
            finished=None if self.finished is None else time_text(self.finished),
        )

    @classmethod
    def from_dict(cls, record: object) -> Call:
        """Read the data of :meth:`to_dict`. Raises :class:`LedgerError` for anything else."""
        whole = _mapping(record, "the record")
        try:
            cost, predicted = _mapping(whole["cost"], "cost"), _mapping(whole["predicted"], "predicted")
            usage = _mapping(whole["usage"], "usage")
            return cls(
                id=whole["id"],
                started=parse_time(whole["started"]),
                finished=None if whole["finished"] is None else parse_time(whole["finished"]),
                outcome=Outcome(whole["outcome"]),
                project=whole["project"],
                session=whole["session"],
                model=whole["model"],
                category=whole["category"],
                usage=Usage(**usage),
                exact=_flag(whole, "exact"),
                cost=Cost(
                    None if cost["dollars"] is None else money(cost["dollars"], MOST_COST_DIGITS),
                    exact=_flag(cost, "exact"),
                    priced=_flag(cost, "priced"),
                    source=_text(cost, "source"),
                    date=_text(cost, "date"),
                ),
                predicted=Prediction(
                    predicted["input_tokens"],
                    _flag(predicted, "exact"),
                    predicted["reserved_output"],
                    None if predicted["at_most"] is None else money(predicted["at_most"], MOST_COST_DIGITS),
                ),
            )
        except KeyError as error:
            raise InvalidCall(f"the record of a call lacks {error.args[0]!r}.", field=error.args[0]) from None
        except (TypeError, ValueError) as error:
            raise InvalidCall(f"the record of a call cannot be used: {error}.", field=None) from None


def _name(value: object, field: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidCall(f"{field} of a call is {shown(value)}, and must be a text.", field=field)
    kept = storable(value)
    if field == "id" and kept != value:  # two ids must not become one
        raise InvalidCall(
            f"the id of a call must be 1 to {MAX_NAME} characters of valid Unicode without NUL.", field=field
        )
    return kept


def _in_utc(moment: object, field: str) -> datetime:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise InvalidCall(
            f"{field} of a call is {shown(moment)}, and must be a time with its zone.", field=field
        )
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InvalidCall(
            f"{field} of a call is {moment}, outside of all years in UTC.", field=field
        ) from None


def storable(text: str) -> str:
    """Return the text as every database can store it."""
    cut = text[:MAX_NAME].replace("\0", "\ufffd")
    return cut.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if _has_surrogate(cut) else cut


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def time_text(moment: datetime) -> str:
    """Return the time in UTC, with a fixed length, so that texts sort as times do."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return utc.isoformat(timespec="microseconds")[:26] + "Z"


def parse_time(text: object) -> datetime:
    """Read the text of :func:`time_text`. Raises :class:`InvalidCall`."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        if moment is not None and moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidCall(
        f"{shown(text)[:60]} is not a time such as 2026-11-21T09:30:00.000000Z.", field="started"
    )


def _mapping(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidCall(f"{name} of a call must be an object, not {type(value).__name__}.", field=name)
    return value


def _flag(record: Mapping[str, Any], name: str) -> bool:
    value = record[name]
    if not isinstance(value, bool):
        raise InvalidCall(f"{name} in the record of a call must be true or false.", field=name)
    return value


def _text(record: Mapping[str, Any], name: str) -> str | None:
    value = record[name]
    if value is not None and not isinstance(value, str):
        raise InvalidCall(f"{name} in the record of a call must be a text or null.", field=name)
    return None if value is None else storable(value)
