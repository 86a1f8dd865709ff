"""Leased quotas: each process holds a block of a bucket ahead, so that requests need not ask the store.

The block of a process is one reservation in the store. If the answer of the store is lost, the lease is
abandoned: a new one replaces it, and the old one is settled with the usage of its requests once the store
answers.

A block is at most what was taken in the last second, and at most a 32nd of what is left, or nothing if that
is less than a request. So a bucket that is nearly used up is asked for each request, is used to its last
token, and never exceeded. Unused blocks are returned within a second, and more than two blocks at once. A
killed process leaves charged what its open requests had taken, and at most two blocks.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tokenbox.ledger.quota import QuotaLevel, Take
from tokenbox.store.quotas import QuotaExceeded, QuotaStoreError

if TYPE_CHECKING:
    from tokenbox.ledger.quota import Bucket
    from tokenbox.store.quotas import QuotaStore

SECOND: Final = 1.0
# The largest share of what is left that a process holds ahead, as a divisor.
SHARE: Final = 32
# Seconds for which a store that did not answer is not asked again.
RETRY_SECONDS: Final = 0.25
# Takes in the last second from which on blocks of a bucket are held.
FREQUENT: Final = 8


@dataclass(slots=True)
class Lease:
    """The share of a bucket that this process holds, in units of the quota.

    ``held`` is the lower bound of what the store has reserved for it; ``used`` by requests that ended,
    ``open`` by those in progress. ``level`` is the usage of all processes when the store was last asked.
    ``rate`` is what was taken in the last second, as listed in ``recent``. ``request`` is the present request
    to the store. ``is_unsure``: the answer to one was lost, and the store may still execute it.
    """

    bucket: Bucket
    name: str
    held: int = 0
    used: int = 0
    open: int = 0
    level: int = 0
    recent: deque[tuple[float, int]] = field(default_factory=deque)
    rate: int = 0
    request: asyncio.Task[None] | None = None
    is_unsure: bool = False

    @property
    def free(self) -> int:
        return self.held - self.used - self.open

    @property
    def left(self) -> QuotaLevel:
        """The level of the bucket, as far as this process knows."""
        return QuotaLevel(self.bucket, self.level - max(0, self.free))

    @property
    def is_busy(self) -> bool:
        """Whether a request to the store is in progress. One that has ended may still be set."""
        return self.request is not None and not self.request.done()

    @property
    def spent(self) -> int:
        """What requests have taken or used."""
        return self.used + self.open

    def take(self, amount: int, now: float) -> None:
        self.open += amount
        self.recent.append((now, amount))
        self.rate += amount

    def is_frequent(self, now: float) -> bool:
        """Whether enough was taken in the last second to hold a block ahead."""
        recent = self.recent
        while recent and now - recent[0][0] > SECOND:
            self.rate -= recent.popleft()[1]
        return len(recent) >= FREQUENT

    def block(self, now: float) -> int:
        """Return how much to hold ahead: nothing, unless many requests come."""
        if not self.is_frequent(now):
            return 0
        share = max(0, self.bucket.quota.limit - self.level) // SHARE
        if share >= self.rate:
            return self.rate
        # Less than a request needs is useless here, and missing in other processes.
        return share if share >= max(amount for _, amount in self.recent) else 0


class LeasedQuotas:
    """The quotas of requests, in front of a shared :class:`QuotaStore`, for one event loop.

    ``clock`` is monotonic, in seconds. ``later`` records a settlement that the store did not accept before
    the process ends.
    """

    def __init__(
        self,
        store: QuotaStore,
        clock: Callable[[], float],
        later: Callable[[str, Sequence[Take]], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._later = later
        self._leases: dict[str, Lease] = {}
        self._open: dict[str, list[tuple[Lease, int]]] = {}
        # Abandoned leases, until they are settled, and the time until which the store is not asked.
        self._lost: list[Lease] = []
        self._away_until = float("-inf")
        self._cleaner: asyncio.Task[None] | None = None

    async def take(self, reservation: str, takes: Sequence[Take]) -> list[QuotaLevel]:
        """Take all or none. Raises :class:`QuotaExceeded` and :class:`QuotaStoreError`."""
        if self._cleaner is None:
            self._cleaner = asyncio.get_running_loop().create_task(self._return_idle())
        taken = self._open[reservation] = []
        try:
            # First what can never fit, as a client is told of one quota: waiting for another does not help.
            for take in sorted(takes, key=lambda take: take.amount <= take.bucket.quota.limit):
                lease = await self._with_free(take)
                lease.take(take.amount, self._clock())
                taken.append((lease, take.amount))
        except BaseException:
            await self.settle(reservation, ())
            raise
        return [lease.left for lease, _ in taken]

    async def settle(self, reservation: str, takes: Sequence[Take]) -> None:
        """Replace the amounts taken by those used. More than two spare blocks are returned at once."""
        used = {take.bucket.name: take.amount for take in takes}
        taken = self._open.pop(reservation, ())
        for lease, amount in taken:
            lease.open -= amount
            lease.used += used.get(lease.bucket.name, 0)
        for lease, _ in taken:
            await self._return_spare(lease)

    async def close(self) -> None:
        """Settle all leases. What the store does not accept now is recorded for later."""
        if self._cleaner is not None:
            self._cleaner.cancel()
            with suppress(asyncio.CancelledError):
                await self._cleaner
        answers = True  # a store that does not is not waited for again
        for lease in (*self._leases.values(), *self._lost):
            answers = answers and await self._settle(lease)
            if not answers:
                self._later(lease.name, [Take(lease.bucket, lease.spent)])
        await self._store.close()

    async def _with_free(self, take: Take) -> Lease:
        """Return the lease of a bucket, with the amount free."""
        while (lease := self._lease(take.bucket)).free < take.amount:
            if self._clock() < self._away_until:
                raise QuotaStoreError("the store of quotas does not answer. Try again shortly.")
            if lease.request is None or lease.request.done():
                await self._request(lease, self._grow(lease, take.amount))
            else:
                with suppress(QuotaStoreError, QuotaExceeded):  # it is raised to its own caller
                    await asyncio.shield(lease.request)
        return lease

    def _lease(self, bucket: Bucket) -> Lease:
        lease = self._leases.get(bucket.name)
        if lease is None:
            lease = self._leases[bucket.name] = Lease(bucket, uuid.uuid4().hex)
        lease.bucket = bucket  # the operator may have changed its limit
        return lease

    async def _request(self, lease: Lease, work: Coroutine[Any, Any, None]) -> None:
        """Make the one request for a lease. If its caller is cancelled, the answer serves the next one."""
        task = lease.request = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda done: _end_request(lease, done))
        await asyncio.shield(task)

    async def _grow(self, lease: Lease, amount: int) -> None:
        """Hold the amount and a block ahead; only the amount if there is no more."""
        block = lease.block(self._clock())
        if block:
            with suppress(QuotaExceeded):
                await self._hold(lease, lease.spent + amount + block)
                return
        try:
            await self._hold(lease, lease.spent + amount)
        except QuotaExceeded:  # of a difference that others' settling may have changed
            raise QuotaExceeded(lease.left, amount) from None

    async def _shrink(self, lease: Lease, ahead: int = 0) -> None:
        """Hold what is spent and ``ahead``; usage beyond what was taken counts, too."""
        await self._hold(lease, lease.spent + ahead, check=False)

    async def _return_spare(self, lease: Lease) -> None:
        """Return what is spare beyond two blocks, or charge usage beyond what was taken.

        A request to the store in progress may have been made before the spare was: another one follows it.
        """
        while self._leases.get(lease.bucket.name) is lease and (now := self._clock()) >= self._away_until:
            ahead = lease.block(now)
            if 0 <= lease.free <= 2 * ahead:
                return
            with suppress(QuotaStoreError, QuotaExceeded):  # after an error of the store the lease is lost
                if lease.request is None or lease.request.done():
                    await self._request(lease, self._shrink(lease, ahead))
                else:
                    await asyncio.shield(lease.request)

    async def _hold(self, lease: Lease, amount: int, *, check: bool = True) -> None:
        # While the store has not answered, only the smaller amount is certain.
        lease.held = min(lease.held, amount)
        try:
            level = await self._store.hold(lease.name, Take(lease.bucket, amount), check=check)
        except QuotaExceeded as error:  # nothing has changed in the store
            lease.level = error.level.used
            raise
        except BaseException:
            self._away_until = self._clock() + RETRY_SECONDS
            lease.is_unsure = True
            del self._leases[lease.bucket.name]  # it exists, as a lease has one request at a time
            self._lost.append(lease)
            raise
        lease.held, lease.level = amount, level.used

    async def _return_idle(self) -> None:
        """Return unused blocks and forget ended leases, once a second."""
        while True:
            await asyncio.sleep(SECOND)
            for lease in [lease for lease in self._leases.values() if not lease.is_busy]:
                await self._return_spare(lease)
                is_idle = not (lease.recent or lease.is_busy or lease.open or lease.free)
                if is_idle and self._leases.get(lease.bucket.name) is lease:
                    # Its usage is settled; the next request makes a new lease.
                    self._lost.append(self._leases.pop(lease.bucket.name))
            for lease in [lease for lease in self._lost if not lease.open]:
                if not await self._settle(lease):
                    break
                self._lost.remove(lease)

    async def _settle(self, lease: Lease) -> bool:
        """Charge what the lease spent; False if the store does not answer."""
        try:
            takes = [Take(lease.bucket, lease.spent)]
            await self._store.settle(lease.name, takes, fence=lease.is_unsure)
        except QuotaStoreError:
            return False
        return True


def _end_request(lease: Lease, done: asyncio.Task[None]) -> None:
    if lease.request is done:
        lease.request = None
    if not done.cancelled():
        done.exception()  # mark it as retrieved: its caller may have been cancelled
