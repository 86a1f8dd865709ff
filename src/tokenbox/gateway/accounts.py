"""Quotas of a request: reserved before it is sent, settled with the usage that the upstream reports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from tokenbox.content.message import PartKind, media_kind
from tokenbox.content.request import Api
from tokenbox.content.unseen import parts_in
from tokenbox.errors import plural, toml_key
from tokenbox.gateway.asgi import Headers, json_bytes
from tokenbox.gateway.refusals import Refusal, unavailable
from tokenbox.gateway.settings import WhenAway
from tokenbox.integers import MAX_INTEGER
from tokenbox.ledger.cost import cost_at_most, cost_of, money_text
from tokenbox.ledger.quota import Bucket, Quota, QuotaLevel, QuotaUnit, Take, dollars_of, nanodollars
from tokenbox.providers.shapes import at
from tokenbox.store.owners import OwnerKind
from tokenbox.store.quotas import QuotaExceeded, QuotaStoreError

if TYPE_CHECKING:
    from decimal import Decimal

    from tokenbox.catalog import Price
    from tokenbox.gateway.admission import Admission
    from tokenbox.gateway.attempt import Attempt
    from tokenbox.gateway.authentication import Grant
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.ledger.usage import Usage
    from tokenbox.store.leases import LeasedQuotas

# OpenAI's clients wait at most this long for a retry.
_PATIENCE_SECONDS = 60
# How long prompt caches are kept at the listed price, by the paths of the fields that say so.
_USUAL_TTLS = {
    "cache_control.ttl": "5m",
    "prompt_cache_breakpoint.ttl": "30m",
    "prompt_cache_options.ttl": "30m",
}
# Cached windows: computing one takes as long as everything else that a quota costs a request.
_MOST_BUCKETS = 10_000


@dataclass(slots=True)
class Account:
    """The reservation of one request. ``levels`` are those after it."""

    takes: list[Take]
    levels: list[QuotaLevel]
    now: datetime

    def headers(self) -> Headers:
        """Return ``x-ratelimit-*`` for the token quota with the least left."""
        tokens = [level for level in self.levels if level.bucket.quota.unit is QuotaUnit.TOKENS]
        if not tokens:
            return []
        tightest = min(tokens, key=lambda level: level.left)
        return limit_headers(tightest, self.now)


_NO_ACCOUNT = Account([], [], datetime.min.replace(tzinfo=UTC))


class QuotaAccounts:
    """Reserves the most that a request may use, in one step, atomically across processes.

    ``price`` returns the price of a model on a day.
    """

    def __init__(
        self,
        store: LeasedQuotas,
        clock: Callable[[], datetime],
        price: Callable[[str, date], Price | None],
        when_away: WhenAway = WhenAway.CLOSED,
    ) -> None:
        self._store = store
        self._clock = clock
        self._price = price
        self._when_away = when_away
        # The current window of each quota, by owner.
        self._buckets: dict[tuple[str, Quota], Bucket] = {}

    @asynccontextmanager
    async def reserved(
        self, request: Attempt, call: ApiCall, admission: Admission, grant: Grant
    ) -> AsyncIterator[Account]:
        """Hold a reservation as a context. Raises :class:`Refusal` (429) if a quota is used up."""
        if not grant.quotas:
            yield _NO_ACCOUNT
            return
        now = self._clock()
        prices: list[Price | None] = []
        if any(quota.unit is not QuotaUnit.TOKENS for _, quota in grant.quotas):
            prices = [self._price(model, now.date()) for model in call.models]  # any of them may answer
        takes = self._takes(call, admission, grant, prices, now)
        account = Account(takes, await self._take(request.key, takes, now), now)
        try:
            yield account
        finally:
            await self._store.settle(request.key, self._used(request, account, prices))

    def _takes(
        self,
        call: ApiCall,
        admission: Admission,
        grant: Grant,
        prices: Sequence[Price | None],
        now: datetime,
    ) -> list[Take]:
        """Return the most that the request may use, for each quota."""
        output, runs = admission.reserved * call.choices, _most_runs(call)
        takes = []
        for owner, quota in grant.quotas:
            bucket = self._bucket(owner, quota, now)
            if quota.unit is QuotaUnit.TOKENS:
                takes.append(Take(bucket, min(MAX_INTEGER, runs * (admission.input_at_most + output))))
                continue
            if _has_own_prices(call, prices):
                raise Refusal(
                    403,
                    "model_unpriced",
                    "The prices of sound, of images that a model makes or of longer caches are unknown, "
                    f"and this key may spend {quota}.",
                )
            # OpenAI charges as output what it predicted in vain.
            predicted = len(json_bytes(call.body["prediction"])) if call.body.get("prediction") else 0
            # The usage of several runs is reported, and priced, as one.
            sizes = runs * admission.input_at_most, runs * (output + predicted)
            at_most = _highest([cost_at_most(*sizes, price) for price in prices])
            if at_most is None:
                raise Refusal(
                    403,
                    "model_unpriced",
                    f"The model {call.model!r} has no price here, and this key may spend {quota}. "
                    "The operator sets price_input and price_output, in dollars per million tokens, in "
                    f"[{toml_key(('catalog', call.model))}]; they may be 0.",
                    "model",
                )
            takes.append(Take(bucket, min(MAX_INTEGER, nanodollars(at_most))))
        return takes

    def _bucket(self, owner: str, quota: Quota, now: datetime) -> Bucket:
        bucket = self._buckets.get((owner, quota))
        if bucket is None or not bucket.starts <= now < bucket.ends:
            if len(self._buckets) >= _MOST_BUCKETS:
                self._buckets.clear()
            bucket = self._buckets[owner, quota] = Bucket.at(owner, quota, now)
        return bucket

    async def _take(self, reservation: str, takes: list[Take], now: datetime) -> list[QuotaLevel]:
        try:
            return await self._store.take(reservation, takes)
        except QuotaExceeded as error:
            raise exceeded(error, now) from None
        except QuotaStoreError as error:
            if self._when_away is WhenAway.OPEN:
                return []
            message = "Quotas cannot be checked now. Try again shortly."
            raise unavailable(error.code, message, 2, error.message) from None

    def _used(self, request: Attempt, account: Account, prices: Sequence[Price | None]) -> list[Take]:
        """Return what the request used: nothing if refused, everything reserved if the usage is unknown."""
        outcome = request.outcome
        if not request.was_sent or outcome.used_nothing:
            return [Take(take.bucket, 0) for take in account.takes]
        usage = outcome.usage
        if usage is None or usage.input_tokens is None or usage.output_tokens is None:
            return account.takes
        return [Take(take.bucket, self._amount(take, usage, prices)) for take in account.takes]

    @staticmethod
    def _amount(take: Take, usage: Usage, prices: Sequence[Price | None]) -> int:
        if take.bucket.quota.unit is QuotaUnit.TOKENS:
            return (usage.input_tokens or 0) + (usage.output_tokens or 0)
        if usage.cache_write_1h_tokens is None:  # all that was written may be kept for an hour
            usage = replace(usage, cache_write_1h_tokens=usage.cache_write_tokens)
        dollars = _highest([cost_of(usage, price).dollars for price in prices])
        return take.amount if dollars is None else min(MAX_INTEGER, nanodollars(dollars))


def _highest(costs: Sequence[Decimal | None]) -> Decimal | None:
    """Return the highest cost of the models that may answer; None if one of them is unknown."""
    known = [cost for cost in costs if cost is not None]
    return max(known) if len(known) == len(costs) else None


def _has_own_prices(call: ApiCall, prices: Sequence[Price | None]) -> bool:
    """Whether some of its tokens cost more than those of text, at prices that are unknown."""
    has_hour = all(price is not None and price.cache_write_1h is not None for price in prices)
    hour = ("cache_control.ttl", "1h") if has_hour else None
    if call.body.get("modalities") not in (None, ["text"]):
        return True
    return any(
        media_kind(part.get("type")) is PartKind.AUDIO
        or any(
            (ttl := at(part, path)) not in (None, usual) and (path, ttl) != hour
            for path, usual in _USUAL_TTLS.items()
        )
        for part in parts_in(call.body)
    )


def _most_runs(call: ApiCall) -> int:
    """Return how many times the models may read the input and answer: for one more run of each of these.

    A server that compacts the conversation summarizes it first, and may then answer. Anthropic's API also
    charges for a model that declines, before a fallback answers.
    """
    fallbacks = len(call.fallbacks) if call.protocol.api is Api.MESSAGES else 0
    return 1 + fallbacks + _is_compacted(call)


def _is_compacted(call: ApiCall) -> bool:
    """Whether the server may compact the conversation (Anthropic's fields, then OpenAI's)."""
    last = call.input[-1] if isinstance(call.input, list) and call.input else None
    steps = parts_in(call.body.get("context_management"))
    return (
        bool(call.body.get("compaction"))
        or any(str(step.get("type")).startswith("compact") for step in steps)
        or at(last, "type") == "compaction_trigger"
    )


def exceeded(error: QuotaExceeded, now: datetime) -> Refusal:
    """Return the 429 for a quota with too little left, and tell when a retry helps, if it ever does."""
    level, quota = error.level, error.level.bucket.quota
    never = error.amount > quota.limit
    wait = max(1, -int((now - level.bucket.ends).total_seconds() // 1))
    headers = limit_headers(level, now)
    if not never:
        headers.append((b"retry-after", str(wait).encode()))
    if never or wait > _PATIENCE_SECONDS:
        headers.append((b"x-should-retry", b"false"))
    owner = level.bucket.key_id.partition(":")[0]
    whose = owner if owner in set(OwnerKind) else "key"
    left, needs = (_shown(amount, quota.unit) for amount in (level.left, error.amount))
    advice = f"Try again in {plural(wait, 'second')}, or ask for less"
    if never:
        advice = "It can never fit, however long you wait: shorten the input or lower the output limit"
    return Refusal(
        429,
        "quota_exceeded",
        f"Rate limit reached: the quota of this {whose} is {quota}, with {left} left, and the request "
        f"may use {needs} in all. {advice}.",
        None,
        {
            "quota": str(quota),
            "limit": quota.limit,
            "left": level.left,
            "needs": error.amount,
            "unit": quota.unit.value,
            **({} if never else {"resets_in": wait}),
        },
        headers=tuple(headers),
    )


def limit_headers(level: QuotaLevel, now: datetime) -> Headers:
    """Return the headers that OpenAI's clients know."""
    seconds = max(0, -int((now - level.bucket.ends).total_seconds() // 1))
    unit = level.bucket.quota.unit.value.encode()
    return [
        (b"x-ratelimit-limit-" + unit, str(level.bucket.quota.limit).encode()),
        (b"x-ratelimit-remaining-" + unit, str(level.left).encode()),
        (b"x-ratelimit-reset-" + unit, f"{seconds}s".encode()),
    ]


def _shown(amount: int, unit: QuotaUnit) -> str:
    return plural(amount, "token") if unit is QuotaUnit.TOKENS else f"${money_text(dollars_of(amount))}"
