"""The in-memory cache of what endpoints support, shared by all clients of the process.

Rule 1: *unsupported* (404, 405, 501 for a missing route, an answer of another shape) is cached for a few
minutes; *not now* (timeout, refused, 429, 5xx) is not cached, so the next call asks again.
Rule 2: concurrent callers from any thread or event loop share one probe. If it is cancelled, the next caller
probes.
Rule 3: after two timeouts in a row, a server gets a rest before the next question, doubling up to a minute.
Otherwise each message of a conversation would wait in vain. Questions asked at the same time count once.
Rule 4: an endpoint is what answers for itself. To the gateway, each model of an upstream is one: a router may
have a server for each, and a slow one must not stop the counts of the others.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, TypeVar, cast

T = TypeVar("T")

_MAX_TIMEOUTS: Final = 2  # in a row, before a rest
_MAX_REST: Final = 60.0
# The most cached outcomes. The names of a gateway's models are its clients' and must not fill the memory.
_MOST: Final = 10_000
# How long *unsupported* is cached: a server may be updated or replaced.
_UNSUPPORTED_SECONDS: Final = 300.0


class ProbeOutcome(Enum):
    """The outcome of a question."""

    ANSWERED = "answered"
    UNSUPPORTED = "unsupported"
    NOT_NOW = "not now"
    TIMED_OUT = "timed out"
    NOT_THIS = "not this"  # the endpoint supports it, but not for this question


_WORTH_ASKING: Final = {ProbeOutcome.ANSWERED, ProbeOutcome.NOT_THIS}


@dataclass(frozen=True, slots=True)
class ProbeReply(Generic[T]):
    """An outcome, with the value of an answer."""

    outcome: ProbeOutcome
    value: T | None = None


class EndpointMemory:
    """The cache of what endpoints support. Thread-safe. ``clock`` and ``longest_rest`` are in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, longest_rest: float = _MAX_REST) -> None:
        self._clock = clock
        self._longest_rest = longest_rest
        self._lock = threading.Lock()
        self._supported: dict[tuple[str, str], tuple[bool, float]] = {}  # with the time of expiry
        self._facts: dict[tuple[str, str], object] = {}
        self._pending: dict[tuple[str, str], Future[ProbeReply[Any] | None]] = {}
        self._timeouts: dict[str, tuple[int, float]] = {}  # in a row, and the end of the rest

    def supported(self, endpoint: str, what: str) -> bool | None:
        """Return whether ``endpoint`` supports ``what``; None if unknown."""
        known = self._supported.get((endpoint, what))
        return None if known is None or known[1] < self._clock() else known[0]

    def fact(self, endpoint: str, what: str) -> object:
        """Return a cached fact about ``endpoint``; None if unknown."""
        return self._facts.get((endpoint, what))

    def forget(self) -> None:
        """Clear the cache."""
        with self._lock:
            for known in (self._supported, self._facts, self._timeouts):
                known.clear()

    def resting(self, endpoint: str) -> bool:
        """Return whether ``endpoint`` is not asked for a while after timeouts."""
        in_a_row, until = self._timeouts.get(endpoint, (0, 0.0))
        return in_a_row >= _MAX_TIMEOUTS and self._clock() < until

    async def ask(
        self, endpoint: str, what: str, question: Callable[[], Awaitable[ProbeReply[T]]]
    ) -> ProbeReply[T]:
        """Ask ``question`` by the rules above, and return the answer, or the reason why it is missing."""
        key = (endpoint, what)
        with self._lock:
            supported = self.supported(endpoint, what)
            if supported is False:
                return ProbeReply(ProbeOutcome.UNSUPPORTED)
            if self.resting(endpoint):
                return ProbeReply(ProbeOutcome.NOT_NOW)
            pending = None if supported else self._pending.get(key)
            if not supported and pending is None:
                self._pending[key] = Future()
        if supported:
            return await self._asked(key, question, self._save_support)
        if pending is None:
            return await self._probe(key, question, self._save_support)
        probe = await _result(pending)
        if probe is not None and probe.outcome not in _WORTH_ASKING:
            return ProbeReply(probe.outcome)
        return await self.ask(endpoint, what, question)

    async def know(
        self, endpoint: str, what: str, question: Callable[[], Awaitable[ProbeReply[T]]]
    ) -> T | None:
        """Return a fact about ``endpoint``, asked once. Only an ANSWERED reply is cached."""
        key = (endpoint, what)
        with self._lock:
            if key in self._facts:
                return cast("T", self._facts[key])
            pending = self._pending.get(key)
            if pending is None:
                self._pending[key] = Future()
        if pending is None:
            return (await self._probe(key, question, self._save_fact)).value
        shared = await _result(pending)
        return (await question() if shared is None else shared).value

    async def _probe(
        self,
        key: tuple[str, str],
        question: Callable[[], Awaitable[ProbeReply[T]]],
        save: Callable[[tuple[str, str], ProbeReply[Any]], None],
    ) -> ProbeReply[T]:
        """Ask for all who wait. They are woken even if this is cancelled."""
        reply: ProbeReply[T] | None = None
        try:
            reply = await self._asked(key, question, save)
        finally:
            with self._lock:
                self._pending.pop(key).set_result(reply)
        return reply

    async def _asked(
        self,
        key: tuple[str, str],
        question: Callable[[], Awaitable[ProbeReply[T]]],
        save: Callable[[tuple[str, str], ProbeReply[Any]], None],
    ) -> ProbeReply[T]:
        began = self._clock()
        reply = await question()
        save(key, reply)
        self._count_timeouts(key[0], reply.outcome, began)
        return reply

    def _save_fact(self, key: tuple[str, str], reply: ProbeReply[Any]) -> None:
        if reply.outcome is ProbeOutcome.ANSWERED:
            self._facts[key] = reply.value

    def _save_support(self, key: tuple[str, str], reply: ProbeReply[Any]) -> None:
        if len(self._supported) >= _MOST:
            self._supported.clear()
        if reply.outcome is ProbeOutcome.ANSWERED:
            self._supported[key] = True, float("inf")
        elif reply.outcome is ProbeOutcome.UNSUPPORTED:
            self._supported[key] = False, self._clock() + _UNSUPPORTED_SECONDS

    def _count_timeouts(self, endpoint: str, outcome: ProbeOutcome, began: float) -> None:
        with self._lock:
            if outcome is not ProbeOutcome.TIMED_OUT:
                self._timeouts.pop(endpoint, None)
                return
            in_a_row, until = self._timeouts.get(endpoint, (0, began))
            if began < until:  # it was asked before the last timeout, and tells nothing more
                return
            in_a_row += 1
            rest = 0.0
            if in_a_row >= _MAX_TIMEOUTS:
                rest = min(self._longest_rest, 2.0 ** (in_a_row - _MAX_TIMEOUTS + 1))
            if len(self._timeouts) >= _MOST:
                self._timeouts.clear()
            self._timeouts[endpoint] = (in_a_row, self._clock() + rest)


async def _result(future: Future[ProbeReply[Any] | None]) -> ProbeReply[Any] | None:
    """Wait for ``future``. Cancelling this does not cancel the shared question."""
    return await asyncio.shield(asyncio.wrap_future(future))


# The cache of the process.
SESSION: Final = EndpointMemory()
