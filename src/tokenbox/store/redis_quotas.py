"""Quotas in Redis, shared by many processes: each change is a script, so that none is done by half."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from tokenbox.errors import needing
from tokenbox.ledger.quota import QuotaLevel
from tokenbox.store.quotas import QuotaExceeded, QuotaStoreError

if TYPE_CHECKING:
    from tokenbox.ledger.quota import Bucket, Take

_PREFIX = "tokenbox:quota:"
# Concurrent commands. Each has a connection, which the pool keeps. Others wait, within the time limit of a
# command.
CONNECTIONS = 32
# A bucket is kept for the length of its window after its last use, and for reservations still to be settled.
# No moment is given: if the clock of Redis were ahead, it would forget at once what was taken.
_GRACE_SECONDS = 3600

# KEYS: the reservation, then the buckets. ARGV: for each bucket the amount used, then the seconds for which
# the reservation may not be held again (0: none). A reservation is settled once, and deleted.
_SETTLE = """
for i = 2, #KEYS do
  local reserved = redis.call('HGET', KEYS[1], KEYS[i])
  if reserved and redis.call('EXISTS', KEYS[i]) == 1 then
    redis.call('INCRBY', KEYS[i], string.format('%.0f', tonumber(ARGV[i - 1]) - tonumber(reserved)))
  end
end
redis.call('DEL', KEYS[1])
if ARGV[#KEYS] ~= '0' then
  redis.call('HSET', KEYS[1], 'fenced', 1)
  redis.call('EXPIRE', KEYS[1], ARGV[#KEYS])
end
"""

# KEYS: the reservation, the bucket. ARGV: the amount that the reservation is to have, the limit (-1: none),
# the seconds until both expire. Returns {0, used} or {1, used}.
_HOLD = """
if redis.call('HEXISTS', KEYS[1], 'fenced') == 1 then return redis.error_reply('FENCED it is settled') end
local had = tonumber(redis.call('HGET', KEYS[1], KEYS[2]) or '0')
local used = tonumber(redis.call('GET', KEYS[2]) or '0')
local more = tonumber(ARGV[1]) - had
local limit = tonumber(ARGV[2])
if limit >= 0 and more > 0 and used + more > limit then return {1, used} end
used = redis.call('INCRBY', KEYS[2], string.format('%.0f', more))
redis.call('EXPIRE', KEYS[2], ARGV[3])
redis.call('HSET', KEYS[1], KEYS[2], ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return {0, used}
"""


class RedisQuotas:
    """Fulfils :class:`~tokenbox.store.quotas.QuotaStore`. ``seconds`` limits a command."""

    def __init__(self, url: str, *, seconds: float = 1.0) -> None:
        with needing("quotas in Redis", "gateway"):
            import redis.asyncio as redis
            import redis.exceptions as errors
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        try:
            self._redis: Any = redis.Redis.from_url(
                url,
                # A password in the address takes precedence.
                password=os.environ.get("REDISCLI_AUTH"),
                # The limit below covers the whole command. The library's own uses asyncio.wait_for, which in
                # Python 3.11 can lose a cancellation: a disconnected client would go unnoticed.
                socket_timeout=None,
                socket_connect_timeout=seconds,
                decode_responses=True,
                # One immediate retry, because a connection of the pool may have been closed meanwhile. The
                # scripts are idempotent.
                retry=Retry(NoBackoff(), 1),
            )
        except ValueError:
            # The address is not repeated, nor the error, which has parts of it: it may have a password.
            raise QuotaStoreError(
                "the address of Redis does not parse. Give one as redis://host:6379/0, and the password in "
                "REDISCLI_AUTH."
            ) from None
        self._seconds = 2 * seconds
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._errors: tuple[type[Exception], ...] = (errors.RedisError, OSError, TimeoutError)
        self._settle = self._redis.register_script(_SETTLE)
        self._hold = self._redis.register_script(_HOLD)

    async def settle(self, reservation: str, takes: Sequence[Take], *, fence: bool = False) -> None:
        ordered = sorted(takes, key=lambda take: take.bucket.name)
        keys = [self._reservation(reservation), *(self._key(take.bucket) for take in ordered)]
        arguments = [*(take.amount for take in ordered), _GRACE_SECONDS if fence else 0]
        await self._ask(lambda: self._settle(keys=keys, args=arguments))

    async def hold(self, reservation: str, take: Take, *, check: bool = True) -> QuotaLevel:
        bucket = take.bucket
        keys = [self._reservation(reservation), self._key(bucket)]
        kept = int((bucket.ends - bucket.starts).total_seconds()) + _GRACE_SECONDS
        arguments = [take.amount, bucket.quota.limit if check else -1, kept]
        answer = await self._ask(lambda: self._hold(keys=keys, args=arguments))
        if answer[0]:
            raise QuotaExceeded(QuotaLevel(bucket, int(answer[1])), take.amount)
        return QuotaLevel(bucket, int(answer[1]))

    async def levels(self, buckets: Sequence[Bucket]) -> list[QuotaLevel]:
        if not buckets:
            return []
        used = await self._ask(lambda: self._redis.mget([self._key(bucket) for bucket in buckets]))
        return [QuotaLevel(bucket, int(value or 0)) for bucket, value in zip(buckets, used, strict=True)]

    async def ping(self) -> None:
        # A write: one that is a replica, or has no memory left, answers PING.
        await self._ask(lambda: self._redis.set(f"{_PREFIX}ready", 1, ex=_GRACE_SECONDS))

    async def close(self) -> None:
        await self._redis.aclose()

    async def _ask(self, command: Callable[[], Coroutine[Any, Any, Any]]) -> Any:  # noqa: ANN401  # what the command returns
        try:
            async with asyncio.timeout(self._seconds), self._slots:
                return await command()
        except self._errors as error:
            raise QuotaStoreError(
                f"Redis did not execute a command ({type(error).__name__}), so quotas cannot be checked. "
                "Try again shortly."
            ) from error

    @staticmethod
    def _key(bucket: Bucket) -> str:
        return f"{_PREFIX}{bucket.name}"

    @staticmethod
    def _reservation(name: str) -> str:
        return f"{_PREFIX}reserved:{name}"
