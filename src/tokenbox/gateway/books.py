"""What is recorded of each request: a line in the spool before it is sent, and one after it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from tokenbox.errors import TokenboxError
from tokenbox.gateway.asgi import json_bytes
from tokenbox.gateway.services import how_fitted
from tokenbox.ledger.call import Call, Outcome, Prediction, parse_time, time_text
from tokenbox.ledger.cost import cost_of
from tokenbox.ledger.quota import Bucket, Quota, Take
from tokenbox.ledger.usage import UNKNOWN_USAGE, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from tokenbox.catalog import Price
    from tokenbox.gateway.services import Attempt
    from tokenbox.gateway.spool import Spool
    from tokenbox.store.calls import Calls

PROJECT = "gateway"
DRAIN_SECONDS = 0.5
# After a failure of the store: twice as long each time, up to this.
LONGEST_REST = 30.0
TIDY_SECONDS = 3600.0
_OK = 200


class Books:
    """Writes lines, and drains them in a thread of its own.

    ``calls`` opens the store's table of calls, anew after each failure; ``settle`` takes a settlement
    of a quota. ``tidy`` forgets what is over, now and then.
    """

    def __init__(
        self,
        spool: Spool,
        clock: Callable[[], datetime],
        price: Callable[[str, datetime, int], Price | None],
        calls: Callable[[], Calls],
        settle: Callable[[str, Sequence[Take]], None],
        tidy: Callable[[], object],
    ) -> None:
        self._spool = spool
        self._clock = clock
        self._price = price
        self._calls = calls
        self._settle = settle
        self._tidy = tidy
        self._tidied = float("-inf")
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self.failures = 0

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="tokenbox-books", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Drain what there is, as far as the store takes it; the rest stays in the spool."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
        self._spool.close()

    @property
    def waiting(self) -> int:
        return self._spool.waiting

    def began(self, request: Attempt) -> None:
        """Before it is sent: what it may cost is known even if this process does not see the answer."""
        request.line = json_bytes(_line(request))
        self._spool.append(request.line)

    def ended(self, request: Attempt) -> None:
        """After it: what the upstream reported, which is None where it reported nothing."""
        outcome = request.outcome
        if outcome.complete and outcome.status == _OK:
            how = Outcome.DONE
        elif outcome.left:
            how = Outcome.STOPPED
        else:
            how = Outcome.FAILED
        usage = None if outcome.usage is None else outcome.usage.to_dict()
        ended = {"outcome": how.value, "finished": time_text(self._clock()), "usage": usage}
        self._spool.append(request.line[:-1] + b"," + json_bytes(ended)[1:])  # one object of both

    def settle_later(self, reservation: str, takes: Sequence[Take]) -> None:
        """A settlement that the store of quotas did not take."""
        entry = [
            [take.bucket.key_id, str(take.bucket.quota), take.bucket.starts.isoformat(), take.amount]
            for take in takes
        ]
        self._spool.append(json_bytes({"settle": reservation, "takes": entry}))

    def drain(self) -> int:
        """Everything that is finished goes to the store. Raises what the store raises."""
        return self._spool.drain(self._take)

    def _take(self, entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Into the stores; the entries that nobody can read, such as those of another version."""
        calls: dict[str, Call] = {}
        settlements: list[tuple[str, list[Take]]] = []
        unreadable = []
        ended = {str(entry.get("id")) for entry in entries if "outcome" in entry}
        for entry in entries:
            if "outcome" not in entry and str(entry.get("id")) in ended:
                continue  # the end of a call says all that its beginning did
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
        """The record of a line: with the prices of the day on which it began."""
        began, tokens = parse_time(entry["began"]), entry["tokens"]
        price = self._price(entry["model"], began, tokens)
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
                "cost": cost_of(usage, price, exact=exact),
            }
        return Call(
            id=entry["id"],
            started=began,
            model=entry["model"],
            category=entry["category"],
            project=PROJECT,
            session=entry["key"],
            predicted=Prediction.of(tokens, entry["reserved"], price, exact=entry["exact"]),
            **ended,
        )

    def _tidy_up(self) -> None:
        now = time.monotonic()
        if now - self._tidied > TIDY_SECONDS:
            self._tidied = now
            self._tidy()

    def _run(self) -> None:
        rest = DRAIN_SECONDS
        while True:
            self._wake.wait(rest)
            stopping = self._stopping
            try:
                self.drain()
                self._tidy_up()
                rest, self.failures = DRAIN_SECONDS, 0
            except Exception:  # noqa: BLE001  # a thread that ends here would never drain anything again
                self.failures += 1
                rest = min(LONGEST_REST, rest * 2)
            if stopping:
                return


def _line(request: Attempt) -> dict[str, object]:
    """What is known of a request when it is sent."""
    call, verdict = request.call, request.verdict
    assert call is not None and verdict is not None  # noqa: S101, PT018  # it is recorded once it was judged
    return {
        "id": request.key,
        "began": time_text(request.began_at),
        "model": call.model,
        "category": _category(request),
        "key": None if request.grant is None else request.grant.key_id,
        "tokens": verdict.counted.tokens,
        "exact": verdict.counted.exact,
        "reserved": verdict.reserved * call.choices,
    }


def _category(request: Attempt) -> str:
    """The route; of what a larger model took, which one it was too large for; and how it was made to fit."""
    found = request.category
    if request.overflow_of is not None:
        found += f", overflow of {request.overflow_of}"
    if request.done is not None:
        found += f", fitted by {how_fitted(request.done)}"
    return found


def _take(item: Sequence[Any]) -> Take:
    from datetime import datetime  # noqa: PLC0415  # only for what was left over

    key_id, quota, starts, amount = item
    return Take(Bucket(key_id, Quota.parse(quota), datetime.fromisoformat(starts)), int(amount))
