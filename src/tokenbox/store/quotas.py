"""The usage of quotas, in SQL: a process holds an amount of a bucket, and settles it once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from tokenbox.ledger.call import time_text
from tokenbox.ledger.quota import QuotaLevel
from tokenbox.store.errors import StoreError
from tokenbox.store.threads import StoreThreads

if TYPE_CHECKING:
    from tokenbox.ledger.quota import Bucket, Take
    from tokenbox.store.database import Database, Transaction

T = TypeVar("T")

_OPEN = """
    INSERT INTO tokenbox_quota_levels (bucket, used, ends) VALUES (:bucket, 0, :ends)
    ON CONFLICT (bucket) DO NOTHING
"""
_TAKE = """
    UPDATE tokenbox_quota_levels SET used = used + :amount
    WHERE bucket = :bucket AND used + :amount <= :limit
"""
_RESERVED = """
    SELECT bucket, amount FROM tokenbox_quota_reservations WHERE reservation = :reservation AND amount >= 0
"""
_FORGET = "DELETE FROM tokenbox_quota_reservations WHERE reservation = :reservation AND bucket = :bucket"
# The row of a reservation that may not be held again has this amount.
_FENCED = -1
_FENCE = """
    INSERT INTO tokenbox_quota_reservations (reservation, bucket, amount)
    VALUES (:reservation, :bucket, :amount)
    ON CONFLICT (reservation, bucket) DO NOTHING
"""
_GIVE_BACK = "UPDATE tokenbox_quota_levels SET used = used + :difference WHERE bucket = :bucket"
_HELD = "SELECT amount FROM tokenbox_quota_reservations WHERE reservation = :reservation AND bucket = :bucket"
_HOLD = """
    INSERT INTO tokenbox_quota_reservations (reservation, bucket, amount)
    VALUES (:reservation, :bucket, :amount)
    ON CONFLICT (reservation, bucket) DO UPDATE SET amount = :amount
    WHERE tokenbox_quota_reservations.amount >= 0
"""
_USED = "SELECT used FROM tokenbox_quota_levels WHERE bucket = :bucket"


class QuotaStoreError(StoreError, code="quota_store_unavailable"):
    """The store of quotas does not answer, so that no quota can be checked."""


class QuotaExceeded(StoreError, code="quota_exceeded"):
    """A quota has too little left for a request. Nothing was taken from any quota."""

    def __init__(self, level: QuotaLevel, amount: int) -> None:
        self.level, self.amount = level, amount
        quota = level.bucket.quota
        super().__init__(
            f"the quota of {quota} has {level.left:,} {quota.unit} left, and the request may use {amount:,}.",
            quota=str(quota),
            left=level.left,
            amount=amount,
        )


class QuotaStore(Protocol):
    """Levels of quotas that processes share. ``reservation`` identifies what a process holds."""

    async def settle(self, reservation: str, takes: Sequence[Take], *, fence: bool = False) -> None:
        """Replace the amounts held by those used. Idempotent; an unknown reservation is ignored.

        With ``fence``, a hold of it is refused from then on: one that did not answer may be executed late.
        """
        ...

    async def hold(self, reservation: str, take: Take, *, check: bool = True) -> QuotaLevel:
        """Set the amount that a reservation has of a bucket; with ``check`` not beyond the quota's limit.

        Idempotent. Raises :class:`QuotaExceeded` and :class:`QuotaStoreError`.
        """
        ...

    async def levels(self, buckets: Sequence[Bucket]) -> list[QuotaLevel]: ...

    async def ping(self) -> None:
        """Raise :class:`QuotaStoreError` if the store does not answer, or cannot be written."""
        ...

    async def close(self) -> None: ...


class SqlQuotas:
    """Quotas in a database. Its statements run in ``threads``."""

    def __init__(self, database: Database, threads: StoreThreads | None = None) -> None:
        self._database = database
        self._threads = StoreThreads() if threads is None else threads

    async def settle(self, reservation: str, takes: Sequence[Take], *, fence: bool = False) -> None:
        await self._ask(self.settle_now, reservation, takes, fence)

    async def hold(self, reservation: str, take: Take, *, check: bool = True) -> QuotaLevel:
        return await self._ask(self.hold_now, reservation, take, check)

    async def levels(self, buckets: Sequence[Bucket]) -> list[QuotaLevel]:
        return await self._ask(self.levels_now, buckets)

    async def ping(self) -> None:
        await self._ask(self._database.change_each, _GIVE_BACK, [{"bucket": "", "difference": 0}])

    async def close(self) -> None:
        """Do nothing: the database is closed by its owner."""

    def settle_now(self, reservation: str, takes: Sequence[Take], fence: bool = False) -> None:  # noqa: FBT001, FBT002  # through a thread
        used = {take.bucket.name: take.amount for take in takes}
        with self._database.writing() as transaction:
            for take in takes if fence else ():
                self._open(transaction, take.bucket)
                # It waits for a hold that is being executed, and keeps others waiting.
                transaction.change(_GIVE_BACK, {"bucket": take.bucket.name, "difference": 0})
            rows = transaction.rows(_RESERVED, {"reservation": reservation})
            reserved = [(str(bucket), int(amount)) for bucket, amount in rows]
            for bucket, amount in sorted(reserved):
                # Only the process that deletes the row settles it.
                if transaction.change(_FORGET, {"reservation": reservation, "bucket": bucket}):
                    difference = used.get(bucket, 0) - amount
                    transaction.change(_GIVE_BACK, {"bucket": bucket, "difference": difference})
            for bucket in used if fence else ():
                transaction.change(_FENCE, {"reservation": reservation, "bucket": bucket, "amount": _FENCED})

    def hold_now(self, reservation: str, take: Take, check: bool = True) -> QuotaLevel:  # noqa: FBT001, FBT002  # through a thread
        bucket = take.bucket
        named = {"reservation": reservation, "bucket": bucket.name}
        with self._database.writing() as transaction:
            self._open(transaction, bucket)
            rows = transaction.rows(_HELD, named)
            difference = take.amount - (int(rows[0][0]) if rows else 0)
            if difference > 0 and check:
                more = {"bucket": bucket.name, "amount": difference, "limit": bucket.quota.limit}
                if not transaction.change(_TAKE, more):
                    raise QuotaExceeded(self._level(transaction, bucket), difference)
            elif difference:
                transaction.change(_GIVE_BACK, {"bucket": bucket.name, "difference": difference})
            if (difference or not rows) and not transaction.change(_HOLD, {**named, "amount": take.amount}):
                raise QuotaStoreError("the quotas cannot be checked: this reservation has been settled.")
            return self._level(transaction, bucket)

    def levels_now(self, buckets: Sequence[Bucket]) -> list[QuotaLevel]:
        with self._database.reading() as transaction:
            return [self._level(transaction, bucket) for bucket in buckets]

    def forget_before(self, moment: str) -> int:
        """Delete the levels of windows that ended before ``moment``, a ``time_text``; return their number.

        Raises :class:`QuotaStoreError`.
        """
        when = {"moment": moment}
        try:
            with self._database.writing() as transaction:
                transaction.change(
                    "DELETE FROM tokenbox_quota_reservations WHERE bucket IN "
                    "(SELECT bucket FROM tokenbox_quota_levels WHERE ends < :moment)",
                    when,
                )
                return transaction.change("DELETE FROM tokenbox_quota_levels WHERE ends < :moment", when)
        except StoreError as error:
            raise QuotaStoreError(f"expired quotas cannot be deleted: {error.message}") from error

    @staticmethod
    def _open(transaction: Transaction, bucket: Bucket) -> None:
        transaction.change(_OPEN, {"bucket": bucket.name, "ends": time_text(bucket.ends)})

    @staticmethod
    def _level(transaction: Transaction, bucket: Bucket) -> QuotaLevel:
        rows = transaction.rows(_USED, {"bucket": bucket.name})
        return QuotaLevel(bucket, int(rows[0][0]) if rows else 0)

    async def _ask(self, query: Callable[..., T], *arguments: object) -> T:
        try:
            return await self._threads.ask(query, *arguments)
        except QuotaExceeded:
            raise
        except StoreError as error:
            raise QuotaStoreError(f"the quotas cannot be checked: {error.message}") from error
