"""The records of calls: a line in the spool before a request is sent, and one after it."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tokenbox.errors import TokenboxError
from tokenbox.gateway.asgi import json_bytes
from tokenbox.gateway.fitting import fit_actions
from tokenbox.gateway.spool import Spool, SpoolError
from tokenbox.ledger.call import Call, Outcome, Prediction, parse_time, time_text
from tokenbox.ledger.cost import cost_of
from tokenbox.ledger.quota import Bucket, Quota, Take
from tokenbox.ledger.usage import UNKNOWN_USAGE, Usage, is_count

if TYPE_CHECKING:
    from tokenbox.catalog import Price
    from tokenbox.gateway.admission import Admission
    from tokenbox.gateway.attempt import Attempt
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.store.calls import Calls

PROJECT = "gateway"
DRAIN_SECONDS = 0.5
# The longest pause after failures of the store; it doubles each time.
LONGEST_PAUSE = 30.0
CLEAN_SECONDS = 3600.0
# At the end: how long the store is tried again, and how long an attempt that is under way is waited for.
_LAST_TRIES_SECONDS = 5.0
_END_SECONDS = 10.0


class CallRecorder:
    """Writes records to the spool, and drains the spool into the store in a thread.

    ``calls`` returns the store's table of calls. ``settle`` settles a reservation of quotas. ``clean``
    deletes data of the store that expired before a time, once an hour. A clock that is set ahead for a while
    deletes nothing: that time is not later than the time since the start makes it. ``report`` gets the error
    when something begins to fail, and again when something else fails.
    """

    def __init__(
        self,
        spool: Spool,
        clock: Callable[[], datetime],
        price: Callable[[str, date], Price | None],
        calls: Callable[[], Calls],
        settle: Callable[[str, Sequence[Take]], None],
        clean: Callable[[datetime], object],
        report: Callable[[Exception], object],
    ) -> None:
        self._spool = spool
        self._clock = clock
        self._price = price
        self._calls = calls
        self._settle = settle
        self._clean = clean
        self._report = report
        self._cleaned_at = self._started_at = time.monotonic()
        self._started = clock()
        self._wake = threading.Event()
        self._stop_by: float | None = None
        self._thread: threading.Thread | None = None
        # Entries that the disk had no room for, of requests that had been sent: no more than were under way.
        self._unwritten: deque[bytes] = deque()
        self.failures = 0
        self._reported: type[Exception] | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="tokenbox-recorder", daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Drain the spool as far as the store takes it, and return the files that stay for the next start."""
        self._stop_by = time.monotonic() + _LAST_TRIES_SECONDS
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_END_SECONDS)
        left = self._spool.waiting
        self._spool.close()
        return left

    @property
    def waiting(self) -> int:
        return self._spool.waiting

    @property
    def unwritten(self) -> int:
        """The number of entries that neither the disk nor the store has."""
        return len(self._unwritten)

    def record_start(self, request: Attempt, call: ApiCall, admission: Admission) -> None:
        """Record a request before it is sent, so that it is known even if this process is killed."""
        request.line = json_bytes(_line(request, call, admission))
        self._spool.append(request.line)

    def record_end(self, request: Attempt) -> None:
        """Record the outcome, and the usage that the upstream reported, None if it reported nothing."""
        outcome = request.outcome
        if outcome.complete:
            result = Outcome.DONE
        elif outcome.left:
            result = Outcome.STOPPED
        else:
            result = Outcome.FAILED
        usage = None if outcome.usage is None else outcome.usage.to_dict()
        ended = {"outcome": result, "finished": time_text(self._clock()), "usage": usage}
        self._append(request.line[:-1] + b"," + json_bytes(ended)[1:])  # one object of both

    def settle_later(self, reservation: str, takes: Sequence[Take]) -> None:
        """Record a settlement that the store of quotas did not take."""
        entry = [
            [take.bucket.key_id, str(take.bucket.quota), take.bucket.starts.isoformat(), take.amount]
            for take in takes
        ]
        with suppress(SpoolError):
            self._append(json_bytes({"settle": reservation, "takes": entry}))

    def drain(self) -> int:
        """Write all finished records to the store, and return their number. Raises the store's errors."""
        while self._unwritten:
            try:
                self._spool.append(self._unwritten[0])
            except SpoolError:
                self._take([json.loads(self._unwritten[0])])
            self._unwritten.popleft()
        return self._spool.drain(self._take)

    def _append(self, entry: bytes) -> None:
        """Append an entry, or keep it until the disk has room for it or the store has it."""
        try:
            self._spool.append(entry)
        except SpoolError:
            self._unwritten.append(entry)
            raise

    def _take(self, entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Write entries to the stores. Returns those that cannot be read, such as another version's."""
        calls: dict[str, Call] = {}
        settlements: list[tuple[str, list[Take]]] = []
        unreadable = []
        ended = {str(entry.get("id")) for entry in entries if "outcome" in entry}
        for entry in entries:
            if "outcome" not in entry and str(entry.get("id")) in ended:
                continue  # the entry at the end of a call repeats the one at its start
            try:
                if "settle" in entry:
                    settlements.append((str(entry["settle"]), [_take(item) for item in entry["takes"]]))
                else:
                    call = self._call(entry)
                    calls[call.id] = call
            except (TokenboxError, KeyError, TypeError, ValueError):
                unreadable.append(entry)
        if calls:
            self._calls().record(*calls.values())
        for reservation, takes in settlements:
            self._settle(reservation, takes)
        return unreadable

    def _call(self, entry: dict[str, Any]) -> Call:
        """Return the call of an entry, with the prices of the time at which it began."""
        began, tokens = parse_time(entry["began"]), entry["tokens"]
        price = self._price(entry["model"], began)
        fallbacks = entry.get("fallbacks") or []
        # An older version's entry has only their number, so their prices are unknown.
        others = [self._price(name, began) for name in fallbacks] if isinstance(fallbacks, list) else [None]
        predictions = [
            Prediction.of(
                _possible(tokens),
                _possible(entry["reserved"]),
                one,
                exact=entry["exact"],
                input_at_most=entry.get("at_most"),  # an older version's entry has none
            )
            for one in (price, *others)
        ]
        ended: dict[str, Any] = {}
        if "outcome" in entry:
            reported = entry["usage"]
            usage = UNKNOWN_USAGE if reported is None else Usage(**reported)
            exact = reported is not None
            ended = {
                "finished": parse_time(entry["finished"]),
                "outcome": Outcome(entry["outcome"]),
                "usage": usage,
                "exact": exact,
                # With fallbacks another model may have answered, at another price.
                "cost": cost_of(usage, price, exact=exact and not fallbacks),
            }
        return Call(
            id=entry["id"],
            started=began,
            model=entry["model"],
            category=entry["category"],
            project=PROJECT,
            session=entry["key"],
            predicted=_costliest(predictions),
            **ended,
        )

    def _run(self) -> None:
        pause = DRAIN_SECONDS
        while True:
            self._wake.wait(pause)
            self._wake.clear()
            stop_by = self._stop_by
            try:
                self.drain()
                now = time.monotonic()
                if now - self._cleaned_at > CLEAN_SECONDS:
                    self._cleaned_at = now
                    passed = timedelta(seconds=now - self._started_at)
                    self._clean(min(self._clock(), self._started + passed))
                pause, self.failures, self._reported = DRAIN_SECONDS, 0, None
            except Exception as error:  # noqa: BLE001  # a thread that ended here would never drain anything again
                self.failures += 1
                if type(error) is not self._reported:
                    self._reported = type(error)
                    with suppress(Exception):  # such as of a log that is closed
                        self._report(error)
                pause = min(LONGEST_PAUSE, pause * 2) if stop_by is None else DRAIN_SECONDS
            if stop_by is not None and (self.failures == 0 or time.monotonic() >= stop_by):
                return


def _line(request: Attempt, call: ApiCall, admission: Admission) -> dict[str, object]:
    """Return what is known of a request when it is sent."""
    return {
        "id": request.key,
        "began": time_text(request.began_at),
        "model": call.model,
        "category": _category(request),
        "key": None if request.grant is None else request.grant.key_id,
        "tokens": admission.counted.tokens,
        "exact": admission.counted.exact,
        "at_most": admission.input_at_most,
        "reserved": admission.reserved * call.choices,
        "fallbacks": list(call.fallbacks),
    }


def _category(request: Attempt) -> str:
    """Return the route, with the model that was too small, and with how the request was made to fit."""
    category = request.category
    if request.overflow_of is not None:
        category += f", overflow of {request.overflow_of}"
    if request.fit_record is not None:
        category += f", fitted by {fit_actions(request.fit_record)}"
    return category


def _costliest(predictions: Sequence[Prediction]) -> Prediction:
    """Return the prediction by the price of the model that costs most, or by one that is unknown."""
    return max(predictions, key=lambda one: Decimal("inf") if one.at_most is None else one.at_most)


def _possible(tokens: int) -> int | None:
    """Return a prediction; None if it is absurd, as an output limit of a client may be."""
    return tokens if is_count(tokens) else None


def _take(item: Sequence[Any]) -> Take:
    key_id, quota, starts, amount = item
    return Take(Bucket(key_id, Quota.parse(quota), datetime.fromisoformat(starts)), int(amount))
