"""The soak's own count, kept by its clients and its upstream alone, beside the ledger and the quotas."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

from soaking.asks import IN_STREAM, KEYS, REFUSED
from soaking.words import PRICE_IN, PRICE_OUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

COLUMNS = (
    *("session", "category", "model", "reserved_output", "predicted_tokens", "predicted_exact"),
    *("outcome", "finished", "input_tokens", "output_tokens", "cost"),
)
NANO_IN, NANO_OUT = 1_000 * PRICE_IN, 1_000 * PRICE_OUT


class Fate(StrEnum):
    """What became of a request, as its client saw it."""

    WHOLE = "a whole answer"
    ERROR = "an error"
    BROKEN = "a stream that ends with an error"
    LEFT = "the client left"
    HALF = "the client left before it had sent all"
    KILLED = "its gateway was killed"
    LOST = "no answer"

    @property
    def is_open(self) -> bool:
        """Whether the client cannot know how far it came."""
        return self in (Fate.LEFT, Fate.KILLED, Fate.LOST)


@dataclass(slots=True)
class Lived:
    """A request after its end. ``tokens`` and ``reserved`` as asked, not as they may have been fitted.

    ``was_cut``: its client had just left when its gateway was killed.
    """

    number: int
    kind: str
    api: str
    key: str
    tokens: int
    reserved: int
    fate: Fate
    status: int
    code: str | None
    began: float
    was_cut: bool = False

    @property
    def may_have_no_end(self) -> bool:
        """Whether its gateway was killed before it could record the end."""
        return self.fate is Fate.KILLED or self.was_cut


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request as it came to the upstream."""

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
    """By what entries are told apart: the output they reserve; embeddings, without one, by their input."""
    return key, category, reserved or tokens


@dataclass(slots=True)
class Ledger:
    """What comes of the comparison: each a list of what is wrong, in words."""

    lost: list[str]
    twice: list[str]
    invented: list[str]
    different: list[str]
    unfinished: int
    checked: int
    estimated: int


def compare(
    lives: Mapping[int, Lived], arrivals: Sequence[Arrival], rows: Sequence[Row], names: Mapping[str, str]
) -> Ledger:
    """``names``: those of the keys by their ids."""
    expected: Counter[Mark] = Counter()
    arrived: dict[Mark, Arrival] = {}
    for arrival in arrivals:
        key = lives[arrival.number].key
        mark = _mark(key, arrival.api, arrival.reserved, arrival.tokens)
        expected[mark] += 1
        arrived[mark] = arrival
    found: Counter[Mark] = Counter()
    entries: dict[Mark, Row] = {}
    for row in rows:
        key = names.get(row.session, row.session)
        route = row.category.partition(",")[0]  # behind it, how it was made to fit
        mark = _mark(key, route, row.reserved_output, row.predicted_tokens)
        found[mark] += 1
        entries[mark] = row
    may_be = _recorded_and_not_sent(lives, arrivals)
    twice: list[str] = []
    invented: list[str] = []
    for mark, times in (found - expected).items():
        # Recorded right before it was sent, and then not sent: the client left, the gateway was killed.
        if times > may_be[mark]:
            where = twice if expected[mark] else invented
            where.append(f"{mark}: {found[mark]} times, {expected[mark]} sent")
    once = [mark for mark, times in found.items() if times == 1 == expected[mark]]
    different = [wrong for mark in once if (wrong := _different(lives, arrived[mark], entries[mark]))]
    lost = [f"{mark}: {found[mark]} times, {times} sent" for mark, times in (expected - found).items()]
    unfinished = [row for row in rows if row.finished is None]
    estimated = sum(not row.predicted_exact for row in rows)
    return Ledger(lost, twice, invented, different, len(unfinished), len(once), estimated)


def _recorded_and_not_sent(lives: Mapping[int, Lived], arrivals: Sequence[Arrival]) -> Counter[Mark]:
    came = {arrival.number for arrival in arrivals if arrival.api != "summarize"}
    summed_up = {arrival.number for arrival in arrivals if arrival.api == "summarize"}
    found: Counter[Mark] = Counter()
    for lived in lives.values():
        if not lived.fate.is_open:
            continue
        if lived.number not in came:
            found[_mark(lived.key, lived.api, lived.reserved, lived.tokens)] += 1
        if lived.kind == "made to fit" and lived.number not in summed_up:
            found[lived.key, "summarize", 512] += 1
    return found


def _different(lives: Mapping[int, Lived], arrival: Arrival, row: Row) -> str | None:
    """What an entry says that its client and the upstream know better."""
    lived = lives[arrival.number]
    if lived.fate is Fate.KILLED or (lived.was_cut and row.finished is None):
        return None
    # What a stream says of its input before it breaks off is not the soak's word: the fault's own.
    input_tokens = row.input_tokens if arrival.fault and arrival.api == "messages" else None
    usages: list[tuple[int | None, int | None]] = [(arrival.tokens, arrival.output)]
    outcomes = {"done"}
    if lived.fate is Fate.LEFT:
        usages += [(input_tokens, None)]
        outcomes |= {"stopped"}
    elif arrival.api != "summarize" and lived.fate is not Fate.WHOLE:
        usages, outcomes = [(input_tokens, None)], {"failed"}
    if row.outcome not in outcomes or (row.input_tokens, row.output_tokens) not in usages:
        return f"{lived}: {row}"
    if row.model == "soak" and row.predicted_exact and row.predicted_tokens != arrival.tokens:
        return f"{lived}: {row}, and the upstream counted {arrival.tokens}"
    if row.model == "soak" and row.output_tokens is not None:
        nano = NANO_IN * arrival.tokens + NANO_OUT * arrival.output
        if row.cost is None or row.cost * 10**9 != nano:
            return f"{lived}: {nano} nanodollars are {row}"
    return None


@dataclass(slots=True)
class Charged:
    """What a key was charged, as Redis has it; and what it must have been, at least and at most."""

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


# A gateway that is killed leaves two blocks charged at most, each what it took in the last second.
_BLOCKS = 2
_TAKEN_SECONDS = 2.0


def charged(
    lives: Mapping[int, Lived],
    arrivals: Sequence[Arrival],
    levels: Mapping[str, Mapping[str, int]],
    killed_at: float | None,
) -> list[Charged]:
    """Per key with a quota. ``levels``: by key, then by bucket. ``killed_at``: when a gateway was killed."""
    came: defaultdict[int, list[Arrival]] = defaultdict(list)
    for arrival in arrivals:
        came[arrival.number].append(arrival)
    of_keys: defaultdict[str, list[Lived]] = defaultdict(list)
    for lived in lives.values():
        of_keys[lived.key].append(lived)
    found = []
    for key, (_, quota) in KEYS.items():
        if quota is None:
            continue
        limit = _limit(quota)
        in_tokens = "tokens" in quota
        least = most = 0
        # By window: what surely belongs to it, because it was asked and sent within it.
        sure: Counter[int] = Counter()
        for lived in of_keys[key]:
            if killed_at is not None and killed_at - _TAKEN_SECONDS <= lived.began <= killed_at:
                most += _BLOCKS * _worth(lived.tokens, lived.reserved, in_tokens=in_tokens)
            for low, high, at in _charges(lived, came[lived.number], in_tokens=in_tokens):
                least, most = least + low, most + high
                if lived.began // 60 == at // 60:
                    sure[int(lived.began // 60)] += low
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
    lived: Lived, arrivals: Sequence[Arrival], *, in_tokens: bool
) -> Iterator[tuple[int, int, float]]:
    """Least and most of each thing that a request was charged for, and when it was sent at the latest."""
    for arrival in arrivals:
        used, all_of_it = (
            _worth(arrival.tokens, output, in_tokens=in_tokens)
            for output in (arrival.output, arrival.reserved)
        )
        if lived.fate in (Fate.KILLED, Fate.LOST):
            yield 0, all_of_it, arrival.at
        elif lived.fate is Fate.LEFT:
            yield (all_of_it if arrival.fault else used), all_of_it, arrival.at
        elif arrival.api == "summarize" or lived.fate is Fate.WHOLE:
            yield used, used, arrival.at
        elif arrival.fault in REFUSED:
            yield 0, 0, arrival.at
        else:
            yield all_of_it, all_of_it, arrival.at
    if lived.fate.is_open and not any(arrival.api != "summarize" for arrival in arrivals):
        yield 0, _worth(lived.tokens, lived.reserved, in_tokens=in_tokens), 0.0


def _worth(tokens: int, output: int, *, in_tokens: bool) -> int:
    return tokens + output if in_tokens else NANO_IN * tokens + NANO_OUT * output


def fate_of(fault: str | None, status: int) -> Fate:
    """Of a request that was answered to the end."""
    if status != 200:
        return Fate.ERROR
    return Fate.BROKEN if fault in IN_STREAM else Fate.WHOLE
