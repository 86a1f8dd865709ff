"""Compare the ledger and the quotas with the records of the soak's own clients and upstream."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

from soaking.request_mix import IN_STREAM, KEYS, REFUSED
from soaking.words import PRICE_IN, PRICE_OUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

COLUMNS = (
    "session",
    "category",
    "model",
    "reserved_output",
    "predicted_tokens",
    "predicted_exact",
    "outcome",
    "finished",
    "input_tokens",
    "output_tokens",
    "cost",
)
NANO_IN, NANO_OUT = 1_000 * PRICE_IN, 1_000 * PRICE_OUT


class Ending(StrEnum):
    """How a request ended, from the view of its client."""

    WHOLE = "a whole answer"
    ERROR = "an error"
    BROKEN = "a stream that ends with an error"
    LEFT = "the client left"
    HALF = "the client left before it had sent all"
    KILLED = "its gateway was killed"
    LOST = "no answer"

    @property
    def is_open(self) -> bool:
        """True if the client cannot know what the gateway did."""
        return self in (Ending.LEFT, Ending.KILLED, Ending.LOST)


@dataclass(slots=True)
class FinishedRequest:
    """A request after its end. ``tokens`` and ``reserved`` are those before it was made to fit.

    ``was_cut``: its client had just disconnected when its gateway was killed.
    """

    number: int
    kind: str
    api: str
    key: str
    tokens: int
    reserved: int
    ending: Ending
    status: int
    code: str | None
    began: float
    was_cut: bool = False

    @property
    def may_be_unfinished(self) -> bool:
        """True if its gateway may have been killed before it recorded the end."""
        return self.ending is Ending.KILLED or self.was_cut


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request as it arrived at the upstream."""

    number: int
    at: float
    api: str
    model: str
    tokens: int
    reserved: int
    output: int
    fault: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """A call in the ledger."""

    session: str
    category: str
    model: str
    reserved_output: int
    predicted_tokens: int
    predicted_exact: int
    outcome: str
    finished: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost: Decimal | None


Mark = tuple[str, str, int]


def _mark(key: str, category: str, reserved: int, tokens: int) -> Mark:
    """Return the key that identifies a call: its reserved output, or the input of embeddings."""
    return key, category, reserved or tokens


@dataclass(slots=True)
class Ledger:
    """The result of the comparison: descriptions of what is wrong, and totals."""

    lost: list[str]
    twice: list[str]
    invented: list[str]
    different: list[str]
    unfinished: int
    checked: int
    estimated: int


def compare(
    requests: Mapping[int, FinishedRequest],
    arrivals: Sequence[Arrival],
    rows: Sequence[Row],
    names: Mapping[str, str],
) -> Ledger:
    """Compare the ledger with the requests that arrived. ``names``: of the keys, by id."""
    expected: Counter[Mark] = Counter()
    arrived: dict[Mark, Arrival] = {}
    for arrival in arrivals:
        key = requests[arrival.number].key
        mark = _mark(key, arrival.api, arrival.reserved, arrival.tokens)
        expected[mark] += 1
        arrived[mark] = arrival
    found: Counter[Mark] = Counter()
    entries: dict[Mark, Row] = {}
    for row in rows:
        key = names.get(row.session, row.session)
        route = row.category.partition(",")[0]  # the rest is how it was made to fit
        mark = _mark(key, route, row.reserved_output, row.predicted_tokens)
        found[mark] += 1
        entries[mark] = row
    may_be = _recorded_and_not_sent(requests, arrivals)
    twice: list[str] = []
    invented: list[str] = []
    for mark, times in (found - expected).items():
        # Calls are recorded before they are sent, which a disconnect or the kill of the gateway prevents.
        if times > may_be[mark]:
            where = twice if expected[mark] else invented
            where.append(f"{mark}: {found[mark]} times, {expected[mark]} sent")
    once = [mark for mark, times in found.items() if times == 1 == expected[mark]]
    different = [wrong for mark in once if (wrong := _different(requests, arrived[mark], entries[mark]))]
    lost = [f"{mark}: {found[mark]} times, {times} sent" for mark, times in (expected - found).items()]
    unfinished = [row for row in rows if row.finished is None]
    estimated = sum(not row.predicted_exact for row in rows)
    return Ledger(lost, twice, invented, different, len(unfinished), len(once), estimated)


def _recorded_and_not_sent(
    requests: Mapping[int, FinishedRequest], arrivals: Sequence[Arrival]
) -> Counter[Mark]:
    came = {arrival.number for arrival in arrivals if arrival.api != "summarize"}
    summed_up = {arrival.number for arrival in arrivals if arrival.api == "summarize"}
    found: Counter[Mark] = Counter()
    for request in requests.values():
        if not request.ending.is_open:
            continue
        if request.number not in came:
            found[_mark(request.key, request.api, request.reserved, request.tokens)] += 1
        if request.kind == "made to fit" and request.number not in summed_up:
            found[request.key, "summarize", 512] += 1
    return found


def _different(requests: Mapping[int, FinishedRequest], arrival: Arrival, row: Row) -> str | None:
    """Return the difference between an entry and what client and upstream recorded."""
    request = requests[arrival.number]
    if request.ending is Ending.KILLED or (request.was_cut and row.finished is None):
        return None
    # The input tokens at the beginning of a broken stream are made up by the fault.
    input_tokens = row.input_tokens if arrival.fault and arrival.api == "messages" else None
    usages: list[tuple[int | None, int | None]] = [(arrival.tokens, arrival.output)]
    outcomes = {"done"}
    if request.ending is Ending.LEFT:
        usages += [(input_tokens, None)]
        outcomes |= {"stopped"}
    elif arrival.api != "summarize" and request.ending is not Ending.WHOLE:
        usages, outcomes = [(input_tokens, None)], {"failed"}
    if row.outcome not in outcomes or (row.input_tokens, row.output_tokens) not in usages:
        return f"{request}: {row}"
    if row.model == "soak" and row.predicted_exact and row.predicted_tokens != arrival.tokens:
        return f"{request}: {row}, and the upstream counted {arrival.tokens}"
    if row.model == "soak" and row.output_tokens is not None:
        nano = NANO_IN * arrival.tokens + NANO_OUT * arrival.output
        if row.cost is None or row.cost * 10**9 != nano:
            return f"{request}: {nano} nanodollars are {row}"
    return None


@dataclass(slots=True)
class Charged:
    """The charges of a key in Redis, with their lower and upper bounds."""

    key: str
    quota: str
    found: int
    least: int
    most: int
    windows: int
    over: list[str]

    @property
    def unit(self) -> str:
        return "tokens" if "tokens" in self.quota else "nanodollars"

    @property
    def is_right(self) -> bool:
        return self.least <= self.found <= self.most and not self.over


# A killed gateway leaves at most two leases charged, each taken in the last seconds.
_LEASES = 2
_LEASE_SECONDS = 2.0


def charged(
    requests: Mapping[int, FinishedRequest],
    arrivals: Sequence[Arrival],
    levels: Mapping[str, Mapping[str, int]],
    killed_at: float | None,
) -> list[Charged]:
    """Return the charges per key with a quota. ``levels``: by key and bucket. ``killed_at``: of a gateway."""
    came: defaultdict[int, list[Arrival]] = defaultdict(list)
    for arrival in arrivals:
        came[arrival.number].append(arrival)
    of_keys: defaultdict[str, list[FinishedRequest]] = defaultdict(list)
    for request in requests.values():
        of_keys[request.key].append(request)
    found = []
    for key, (_, quota) in KEYS.items():
        if quota is None:
            continue
        limit = _limit(quota)
        in_tokens = "tokens" in quota
        least = most = 0
        # Lower bounds per minute, of requests that began and were sent in the same minute.
        sure: Counter[int] = Counter()
        for request in of_keys[key]:
            if killed_at is not None and killed_at - _LEASE_SECONDS <= request.began <= killed_at:
                most += _LEASES * _worth(request.tokens, request.reserved, in_tokens=in_tokens)
            for low, high, at in _charges(request, came[request.number], in_tokens=in_tokens):
                least, most = least + low, most + high
                if request.began // 60 == at // 60:
                    sure[int(request.began // 60)] += low
        over = [f"{bucket}: {used:,} of {limit:,}" for bucket, used in levels[key].items() if used > limit]
        if quota.endswith("minute"):
            over += [f"minute {at}: {used:,} of {limit:,}" for at, used in sure.items() if used > limit]
        used = sum(levels[key].values())
        found.append(Charged(key, quota, used, least, most, len(levels[key]), over))
    return found


def _limit(quota: str) -> int:
    amount = quota.partition("/")[0]
    return int(Decimal(amount[1:]) * 10**9) if amount.startswith("$") else int(amount.split()[0])


def _charges(
    request: FinishedRequest, arrivals: Sequence[Arrival], *, in_tokens: bool
) -> Iterator[tuple[int, int, float]]:
    """Yield lower bound, upper bound and time of each charge of a request."""
    for arrival in arrivals:
        used, all_of_it = (
            _worth(arrival.tokens, output, in_tokens=in_tokens)
            for output in (arrival.output, arrival.reserved)
        )
        if request.ending in (Ending.KILLED, Ending.LOST):
            yield 0, all_of_it, arrival.at
        elif request.ending is Ending.LEFT:
            yield (all_of_it if arrival.fault else used), all_of_it, arrival.at
        elif arrival.api == "summarize" or request.ending is Ending.WHOLE:
            yield used, used, arrival.at
        elif arrival.fault in REFUSED:
            yield 0, 0, arrival.at
        else:
            yield all_of_it, all_of_it, arrival.at
    if request.ending.is_open and not any(arrival.api != "summarize" for arrival in arrivals):
        yield 0, _worth(request.tokens, request.reserved, in_tokens=in_tokens), 0.0


def _worth(tokens: int, output: int, *, in_tokens: bool) -> int:
    return tokens + output if in_tokens else NANO_IN * tokens + NANO_OUT * output


def ending_of(fault: str | None, status: int) -> Ending:
    """Return the ending of a request with a complete response."""
    if status != 200:
        return Ending.ERROR
    return Ending.BROKEN if fault in IN_STREAM else Ending.WHOLE
