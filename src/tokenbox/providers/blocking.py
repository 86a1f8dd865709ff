"""The client for synchronous code: the shell, counting functions, scripts.

One background thread runs an event loop for all calls; each call submits a coroutine and waits. So it can be
called from any thread, also inside another event loop. Ctrl-C while waiting cancels the call, which closes
its connection, and is raised.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from tokenbox.providers.counting import TokenCount, as_text, local_count
from tokenbox.providers.memory import SESSION, EndpointMemory
from tokenbox.providers.provider import Provider
from tokenbox.providers.transport import Transport

if TYPE_CHECKING:
    from tokenbox.compose.requests import RequestCounter
    from tokenbox.providers.events import ChatAnswer, Event
    from tokenbox.providers.request import ChatOptions
    from tokenbox.providers.stream import ChatStream
    from tokenbox.providers.target import Target

P = ParamSpec("P")
T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: int | None = None


def _reset_after_fork() -> None:
    """Forget the loop: a forked process does not have the thread that runs it."""
    global _lock, _loop, _thread  # one thread for the process
    _lock, _loop, _thread = threading.Lock(), None, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def _background() -> asyncio.AbstractEventLoop:
    """Return the loop of the background thread, which the first call starts."""
    global _loop, _thread  # noqa: PLW0603  # one thread for the process
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            thread = threading.Thread(target=_loop.run_forever, name="tokenbox-providers", daemon=True)
            thread.start()
            _thread = thread.ident
        return _loop


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` in the background and return its result. An interrupt cancels the work."""
    future = asyncio.run_coroutine_threadsafe(work, _background())
    try:
        return future.result()
    finally:
        future.cancel()  # no effect if it is done


class BlockingStream:
    """A :class:`ChatStream` for a synchronous ``for`` loop.

    After an interrupt ``answer`` has the events so far. ``close`` stops the model.
    """

    def __init__(self, stream: ChatStream) -> None:
        self._stream = stream
        self._waiting: asyncio.Task[Any] | None = None

    @property
    def answer(self) -> ChatAnswer:
        return self._stream.answer

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        event = wait_for(self._next())
        if event is None:
            raise StopIteration
        return event

    def close(self) -> None:
        wait_for(self._close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _next(self) -> Event | None:
        self._waiting = asyncio.current_task()
        return await anext(self._stream, None)

    async def _close(self) -> None:
        # After Ctrl-C the task that waits for the next event may still be running.
        if self._waiting is not None and not self._waiting.done():
            self._waiting.cancel()
            await asyncio.wait([self._waiting])
        await self._stream.aclose()


def _waiting(
    method: Callable[Concatenate[Provider, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingProvider, P], T]:
    """Return the synchronous form of a method."""

    @wraps(method)
    def call(self: BlockingProvider, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._wait(method(self._provider, *args, **kwargs))

    return call


class BlockingProvider:
    """A :class:`Provider` with synchronous methods. ``target`` may be changed at any time.

    You can pass ``token_count`` as a counting function: it always asks the current target. Connections are
    kept until ``close``, garbage collection or the end of the process.
    """

    def __init__(
        self, target: Target, *, counter: RequestCounter | None = None, memory: EndpointMemory = SESSION
    ) -> None:
        self._transport = Transport()
        self._provider = Provider(target, counter=counter, memory=memory, transport=self._transport)
        weakref.finalize(self, _close, self._transport)

    @property
    def target(self) -> Target:
        return self._provider.target

    @target.setter
    def target(self, target: Target) -> None:
        self._provider.target = target

    @property
    def counter(self) -> RequestCounter | None:
        return self._provider.counter

    @counter.setter
    def counter(self, counter: RequestCounter | None) -> None:
        self._provider.counter = counter

    def close(self) -> None:
        """Close the kept connections. The provider can still be used."""
        _close(self._transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return wait_for(self._connected(work))

    async def _connected(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` with connections kept from now on."""
        try:
            await self._transport.open()
        except BaseException:
            work.close()
            raise
        return await work

    kind = _waiting(Provider.kind)
    capabilities = _waiting(Provider.capabilities)
    models = _waiting(Provider.models)
    count = _waiting(Provider.count)
    chat = _waiting(Provider.chat)

    def counted_text(self, text: str | None) -> TokenCount:
        """See :meth:`Provider.counted_text`. Local counts do not start the background thread."""
        if not self.target.counts_on_server:
            return local_count(as_text(text), self.target)
        try:
            return self._wait(self._provider.counted_text(text))
        except Exception:  # noqa: BLE001  # such as httptools missing: a count never raises
            return local_count(as_text(text), self.target)

    def token_count(self, text: str | None) -> int:
        """See :meth:`Provider.token_count`."""
        return self.counted_text(text).value

    def stream(
        self,
        messages: Sequence[Any],
        tools: Sequence[Mapping[str, Any]] | None = None,
        **options: Unpack[ChatOptions],
    ) -> BlockingStream:
        """See :meth:`Provider.stream`."""
        return BlockingStream(self._provider.stream(messages, tools, **options))


def _close(transport: Transport) -> None:
    """Close kept connections: on request, at garbage collection, or at the end of the process."""
    if not transport.is_open:
        return
    future = asyncio.run_coroutine_threadsafe(transport.close(), _background())
    if threading.get_ident() != _thread:  # garbage collection may run in the background thread itself
        with suppress(TimeoutError):
            future.result(timeout=1)
