"""Quotas that cost a request nothing: each process holds a block of a bucket, and takes from that.

What a process holds is one reservation in the store. If the answer of a question is lost, the lease is given
up: another takes its place, and it is settled by what its requests used once the store answers.

A block is at most what was taken in the last second, and at most a 32nd of what is left, or nothing where
that is less than a request: a bucket that is nearly used up is asked for each request, is used to its last
token, and never over. What nobody takes goes back within a second, and more than two blocks at once. A
process that is killed leaves charged what its requests had under way, and at most two blocks.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tokenbox.ledger.quota import QuotaLevel, Take
from tokenbox.store.quotas import QuotaExceeded, QuotaStoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from tokenbox.ledger.quota import Bucket
    from tokenbox.store.quotas import QuotaStore

SECOND: Final = 1.0
# Of what is left, no process holds more than this part ahead of its requests.
PART: Final = 32
# A store that did not answer is not asked again for so long.
AWAY: Final = 0.25
# So many takes in the last second make a bucket one that blocks are held of.
BUSY: Final = 8


@dataclass(slots=True)
class Lease:
    """What this process holds of a bucket. All figures are units of the quota.

    ``held``: the least that the store has for it. ``used`` by requests that ended, ``open`` by those under
    way; ``level`` what all processes had together when the store was last asked. ``rate``: what was taken in
    the last second, each time of which is in ``recent``.
    """

    bucket: Bucket
    name: str
    held: int = 0
    used: int = 0
    open: int = 0
    level: int = 0
    recent: deque[tuple[float, int]] = field(default_factory=deque)
    rate: int = 0
    asking: asyncio.Task[None] | None = None

    @property
    def free(self) -> int:
        return self.held - self.used - self.open

    @property
    def left(self) -> QuotaLevel:
        """What is left for everybody, as far as this process knows."""
        return QuotaLevel(self.bucket, self.level - max(0, self.free))

    @property
    def is_asked(self) -> bool:
        """Whether a question about it is under way. One that has ended may not have been taken off yet."""
        return self.asking is not None and not self.asking.done()

    @property
    def spent(self) -> int:
        """What is not free, whichever process has it."""
        return self.used + self.open

    def take(self, amount: int, now: float) -> None:
        self.open += amount
        self.recent.append((now, amount))
        self.rate += amount

    def is_busy(self, now: float) -> bool:
        recent = self.recent
        while recent and now - recent[0][0] > SECOND:
            self.rate -= recent.popleft()[1]
        return len(recent) >= BUSY

    def block(self, now: float) -> int:
        """How much to hold ahead: nothing, unless many requests come."""
        if not self.is_busy(now):
            return 0
        part = max(0, self.bucket.quota.limit - self.level) // PART
        if part >= self.rate:
            return self.rate
        # Less than a request needs is of no use here, and is missing elsewhere.
        return part if part >= max(amount for _, amount in self.recent) else 0


class LeasedQuotas:
    """Fulfils :class:`~tokenbox.store.quotas.QuotaStore` in front of one that processes share.

    Of one event loop. ``clock`` gives seconds that only grow; ``later`` keeps a settlement that the store did
    not take when the process ends.
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
        # Those whose answer was lost, until they are settled; and until when the store is left alone.
        self._lost: list[Lease] = []
        self._away_until = float("-inf")
        self._returning: asyncio.Task[None] | None = None

    async def take(self, reservation: str, takes: Sequence[Take]) -> list[QuotaLevel]:
        """Take all or none. Raises :class:`QuotaExceeded` and :class:`QuotaStoreError`."""
        if self._returning is None:
            self._returning = asyncio.get_running_loop().create_task(self._return_what_is_idle())
        taken: list[tuple[Lease, int]] = []
        try:
            for take in takes:
                lease = await self._with_free(take)
                lease.take(take.amount, self._clock())
                taken.append((lease, take.amount))
        except BaseException:
            for lease, amount in taken:
                lease.open -= amount
            raise
        self._open[reservation] = taken
        return [lease.left for lease, _ in taken]

    async def settle(self, reservation: str, takes: Sequence[Take]) -> None:
        """Set what was taken to what was used. What is spare goes back at once, unless it is soon taken."""
        used = {take.bucket.name: take.amount for take in takes}
        now = self._clock()
        spare = []
        for lease, amount in self._open.pop(reservation, ()):
            lease.open -= amount
            lease.used += used.get(lease.bucket.name, 0)
            ahead = lease.block(now)
            if lease.free > 2 * ahead or lease.free < 0:
                spare.append((lease, ahead))
        for lease, ahead in spare:
            if not lease.is_asked and self._leases.get(lease.bucket.name) is lease:
                with suppress(QuotaStoreError, QuotaExceeded):  # then within a second
                    await self._asked(lease, self._shrink(lease, ahead))

    async def hold(self, lease: str, take: Take, *, check: bool = True) -> QuotaLevel:
        return await self._store.hold(lease, take, check=check)

    async def levels(self, buckets: Sequence[Bucket]) -> list[QuotaLevel]:
        return await self._store.levels(buckets)

    async def ping(self) -> None:
        await self._store.ping()

    async def close(self) -> None:
        """Settle what was used. What the store does not take now is kept for later."""
        if self._returning is not None:
            self._returning.cancel()
            with suppress(asyncio.CancelledError):
                await self._returning
        for lease in (*self._leases.values(), *self._lost):
            if not await self._settled(lease):
                self._later(lease.name, [Take(lease.bucket, lease.spent)])
        await self._store.close()

    async def _with_free(self, take: Take) -> Lease:
        """The lease of a bucket, with so much of it free."""
        while (lease := self._lease(take.bucket)).free < take.amount:
            if self._clock() < self._away_until:
                raise QuotaStoreError("the store of quotas did not answer just now. Try again shortly.")
            if lease.asking is None or lease.asking.done():
                await self._asked(lease, self._grow(lease, take.amount))
            else:
                with suppress(QuotaStoreError, QuotaExceeded):  # of another's question
                    await asyncio.shield(lease.asking)
        return lease

    def _lease(self, bucket: Bucket) -> Lease:
        lease = self._leases.get(bucket.name)
        if lease is None:
            lease = self._leases[bucket.name] = Lease(bucket, uuid.uuid4().hex)
        lease.bucket = bucket  # the operator may have changed its limit
        return lease

    async def _asked(self, lease: Lease, work: Coroutine[Any, Any, None]) -> None:
        """One question about a lease at a time. The answer for a caller that has left serves the next."""
        task = lease.asking = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda done: _over(lease, done))
        await asyncio.shield(task)

    async def _grow(self, lease: Lease, amount: int) -> None:
        """Hold what is needed, and a block ahead; only what is needed where that is all there is."""
        block = lease.block(self._clock())
        if block:
            with suppress(QuotaExceeded):
                await self._hold(lease, lease.spent + amount + block)
                return
        await self._hold(lease, lease.spent + amount)

    async def _shrink(self, lease: Lease, ahead: int = 0) -> None:
        """Hold what is spent, and so much ahead; what is spent beyond what was taken counts, too."""
        await self._hold(lease, lease.spent + ahead, check=False)

    async def _hold(self, lease: Lease, amount: int, *, check: bool = True) -> None:
        # What may be gone is not taken from; what may have come, not yet.
        lease.held = min(lease.held, amount)
        try:
            level = await self._store.hold(lease.name, Take(lease.bucket, amount), check=check)
        except QuotaExceeded as error:  # the store has what it had
            lease.level = error.level.used
            raise QuotaExceeded(lease.left, amount - lease.spent) from None
        except BaseException:
            self._away_until = self._clock() + AWAY
            del self._leases[lease.bucket.name]  # one question at a time: it is still there
            self._lost.append(lease)
            raise
        lease.held, lease.level = amount, level.used

    async def _return_what_is_idle(self) -> None:
        """Once a second: what was not taken in that time goes back; what is over is forgotten."""
        while True:
            await asyncio.sleep(SECOND)
            now = self._clock()
            for lease in list(self._leases.values()):
                if not lease.is_asked:
                    with suppress(QuotaStoreError, QuotaExceeded):
                        await self._tidied(lease, now)
            for lease in [lease for lease in self._lost if not lease.open]:
                if await self._settled(lease):
                    self._lost.remove(lease)

    async def _tidied(self, lease: Lease, now: float) -> None:
        ahead = lease.block(now)
        if lease.free > 2 * ahead or lease.free < 0:
            await self._asked(lease, self._shrink(lease, ahead))
        is_idle = not lease.recent and not lease.is_asked
        if is_idle and not lease.open and not lease.free and self._leases.get(lease.bucket.name) is lease:
            # What was used stays used; the next request makes another lease.
            self._leases.pop(lease.bucket.name)
            self._lost.append(lease)

    async def _settled(self, lease: Lease) -> bool:
        """What the lease spent is charged, for good; False if the store does not answer."""
        try:
            await self._store.settle(lease.name, [Take(lease.bucket, lease.spent)])
        except QuotaStoreError:
            return False
        return True


def _over(lease: Lease, done: asyncio.Task[None]) -> None:
    if lease.asking is done:
        lease.asking = None
    if not done.cancelled():
        done.exception()  # whoever asked has it, if he is still there
