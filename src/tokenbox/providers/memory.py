"""What has been learned of endpoints in this session: in memory only, shared by all clients of the process.

Two rules. *Unsupported* (404, 405, 501 for a missing route, an answer of another shape) is remembered for a
few minutes; *not now* (time-out, refused, 429, 5xx) is not, so the next call asks again. And whoever comes
while a first question is under way waits for its answer and asks nothing: there is one probe, however many
begin at once, from any thread or event loop. If the first is cancelled, the next asks.

A server that has let two questions in a row time out is given a rest before the next, doubling up to a
minute. Otherwise each message of a conversation would wait in vain.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

_PATIENCE: Final = 2  # time-outs in a row before a rest
_LONGEST_REST: Final = 60.0
# A server may be updated, or another may come in its place.
_UNSUPPORTED_SECONDS: Final = 300.0


class ProbeOutcome(Enum):
    """What became of a question."""

    ANSWERED = "answered"
    UNSUPPORTED = "unsupported"
    NOT_NOW = "not now"
    TIMED_OUT = "timed out"  # a not-now that cost time
    NOT_THIS = "not this"  # the endpoint can, but not for this question


_WORTH_ASKING: Final = {ProbeOutcome.ANSWERED, ProbeOutcome.NOT_THIS}


@dataclass(frozen=True, slots=True)
class ProbeReply(Generic[T]):
    """An outcome; the value where there was an answer."""

    outcome: ProbeOutcome
    value: T | None = None


class EndpointMemory:
    """What endpoints can do. Thread-safe. ``clock`` gives seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._supported: dict[tuple[str, str], tuple[bool, float]] = {}  # and until when
        self._facts: dict[tuple[str, str], object] = {}
        self._under_way: dict[tuple[str, str], Future[ProbeReply[Any] | None]] = {}
        self._slow: dict[str, tuple[int, float]] = {}  # endpoint: time-outs in a row, resting until

    def supported(self, endpoint: str, what: str) -> bool | None:
        """Whether ``endpoint`` can do ``what``; None if that is not known."""
        known = self._supported.get((endpoint, what))
        return None if known is None or known[1] < self._clock() else known[0]

    def fact(self, endpoint: str, what: str) -> object:
        """What is known of ``endpoint``, None if nothing."""
        return self._facts.get((endpoint, what))

    def forget(self) -> None:
        """Begin a new session."""
        with self._lock:
            for known in (self._supported, self._facts, self._slow):
                known.clear()

    def resting(self, endpoint: str) -> bool:
        """Whether ``endpoint`` is being left alone for a while, having timed out too often."""
        in_a_row, until = self._slow.get(endpoint, (0, 0.0))
        return in_a_row >= _PATIENCE and self._clock() < until

    async def ask(
        self, endpoint: str, what: str, question: Callable[[], Awaitable[ProbeReply[T]]]
    ) -> ProbeReply[T]:
        """The answer to ``question``, or why there is none, as the rules above have it."""
        key = (endpoint, what)
        with self._lock:
            supported = self.supported(endpoint, what)
            if supported is False:
                return ProbeReply(ProbeOutcome.UNSUPPORTED)
            if self.resting(endpoint):
                return ProbeReply(ProbeOutcome.NOT_NOW)
            under_way = None if supported else self._under_way.get(key)
            if not supported and under_way is None:
                self._under_way[key] = Future()
        if supported:
            reply = await question()
            self._learn(key, reply)
            return reply
        if under_way is None:
            return await self._first(key, question, self._learn)
        probe = await _result(under_way)
        if probe is not None and probe.outcome not in _WORTH_ASKING:
            return ProbeReply(probe.outcome)
        return await self.ask(endpoint, what, question)

    async def know(
        self, endpoint: str, what: str, question: Callable[[], Awaitable[ProbeReply[T]]]
    ) -> T | None:
        """A fact about ``endpoint``, asked for once. What is not ANSWERED is given, but not remembered."""
        key = (endpoint, what)
        with self._lock:
            if key in self._facts:
                return cast("T", self._facts[key])
            under_way = self._under_way.get(key)
            if under_way is None:
                self._under_way[key] = Future()
        if under_way is None:
            return (await self._first(key, question, self._note)).value
        shared = await _result(under_way)
        return (await question() if shared is None else shared).value

    async def _first(
        self,
        key: tuple[str, str],
        question: Callable[[], Awaitable[ProbeReply[T]]],
        settle: Callable[[tuple[str, str], ProbeReply[Any]], None],
    ) -> ProbeReply[T]:
        """Ask for all who wait. They learn of it even if this is cancelled."""
        reply: ProbeReply[T] | None = None
        try:
            reply = await question()
            settle(key, reply)
        finally:
            with self._lock:
                self._under_way.pop(key).set_result(reply)
        return reply

    def _note(self, key: tuple[str, str], reply: ProbeReply[Any]) -> None:
        if reply.outcome is ProbeOutcome.ANSWERED:
            self._facts[key] = reply.value
        self._time(key[0], reply.outcome)

    def _learn(self, key: tuple[str, str], reply: ProbeReply[Any]) -> None:
        if reply.outcome is ProbeOutcome.ANSWERED:
            self._supported[key] = True, float("inf")
        elif reply.outcome is ProbeOutcome.UNSUPPORTED:
            self._supported[key] = False, self._clock() + _UNSUPPORTED_SECONDS
        self._time(key[0], reply.outcome)

    def _time(self, endpoint: str, outcome: ProbeOutcome) -> None:
        """Whatever came in time ends a row of time-outs."""
        with self._lock:
            if outcome is not ProbeOutcome.TIMED_OUT:
                self._slow.pop(endpoint, None)
                return
            in_a_row = self._slow.get(endpoint, (0, 0.0))[0] + 1
            rest = 0.0 if in_a_row < _PATIENCE else min(_LONGEST_REST, 2.0 ** (in_a_row - _PATIENCE + 1))
            self._slow[endpoint] = (in_a_row, self._clock() + rest)


async def _result(future: Future[ProbeReply[Any] | None]) -> ProbeReply[Any] | None:
    """The result of ``future``. Being cancelled here cancels nobody else's question."""
    return await asyncio.shield(asyncio.wrap_future(future))


# One process is one session.
SESSION: Final = EndpointMemory()
