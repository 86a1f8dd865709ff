"""The same client for code that is not asynchronous: the shell, a closure that counts, a script.

One background thread runs an event loop for all of them; each call hands its coroutine over and waits. So it
can be called from any thread, also where another event loop runs, and needs no ``asyncio.run``. Ctrl-C while
waiting cancels the call, which closes its connection, and is raised on.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tokenbox.providers.counting import TokenCount, as_text, local_count
from tokenbox.providers.memory import SESSION, EndpointMemory
from tokenbox.providers.provider import Provider
from tokenbox.providers.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence
    from types import TracebackType

    from tokenbox.compose.requests import RequestCounter
    from tokenbox.providers.capabilities import Capabilities
    from tokenbox.providers.events import ChatAnswer, Event
    from tokenbox.providers.stream import ChatStream
    from tokenbox.providers.target import Target

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: int | None = None


def _begin_anew() -> None:
    """A forked process has the loop, but not the thread that runs it."""
    global _lock, _loop, _thread  # one thread for the process
    _lock, _loop, _thread = threading.Lock(), None, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def _background() -> asyncio.AbstractEventLoop:
    """The loop of the background thread, which is started by the first call."""
    global _loop, _thread  # noqa: PLW0603  # one thread for the process
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            thread = threading.Thread(target=_loop.run_forever, name="tokenbox-providers", daemon=True)
            thread.start()
            _thread = thread.ident
        return _loop


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, run in the background. Whatever interrupts the waiting cancels the work."""
    future = asyncio.run_coroutine_threadsafe(work, _background())
    try:
        return future.result()
    finally:
        future.cancel()  # nothing, if it is done


class BlockingStream:
    """A :class:`ChatStream` for a plain ``for``.

    Interrupted, it keeps what came; ``close`` stops the model.
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _next(self) -> Event | None:
        self._waiting = asyncio.current_task()
        return await anext(self._stream, None)

    async def _close(self) -> None:
        # What waits for the next event may be on its way out still, if Ctrl-C was what stopped it.
        if self._waiting is not None and not self._waiting.done():
            self._waiting.cancel()
            await asyncio.wait([self._waiting])
        await self._stream.aclose()


class BlockingProvider:
    """A :class:`Provider` whose methods wait. ``target`` may be changed at any time, as there.

    ``token_count`` can be handed to whatever wants a counting function: it follows the target. Connections
    are kept until ``close``, or until this is collected or the process ends.
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return wait_for(self._connected(work))

    async def _connected(self, work: Coroutine[Any, Any, T]) -> T:
        """``work``, with connections kept from here on."""
        try:
            await self._transport.open()
        except BaseException:
            work.close()
            raise
        return await work

    def kind(self) -> str:
        """See :meth:`Provider.kind`."""
        return self._wait(self._provider.kind())

    def capabilities(self) -> Capabilities:
        """See :meth:`Provider.capabilities`."""
        return self._wait(self._provider.capabilities())

    def models(self) -> tuple[str, ...]:
        """See :meth:`Provider.models`."""
        return self._wait(self._provider.models())

    def counted_text(self, text: str | None) -> TokenCount:
        """See :meth:`Provider.counted_text`. Where no server is to be asked, nothing is started for it."""
        if not self.target.counts_on_server:
            return local_count(as_text(text), self.target)
        try:
            return self._wait(self._provider.counted_text(text))
        except Exception:  # noqa: BLE001  # httptools not installed; whatever it is, a count must not stop the flow
            return local_count(as_text(text), self.target)

    def token_count(self, text: str | None) -> int:
        """See :meth:`Provider.token_count`."""
        return self.counted_text(text).value

    def count(self, messages: Sequence[Any], tools: Sequence[Mapping[str, Any]] | None = None) -> TokenCount:
        """See :meth:`Provider.count`."""
        return self._wait(self._provider.count(messages, tools))

    def chat(
        self,
        messages: Sequence[Any],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: Sequence[str] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> ChatAnswer:
        """See :meth:`Provider.chat`."""
        return self._wait(
            self._provider.chat(
                messages, tools, max_tokens=max_tokens, temperature=temperature, stop=stop, extra=extra
            )
        )

    def stream(
        self,
        messages: Sequence[Any],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: Sequence[str] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> BlockingStream:
        """See :meth:`Provider.stream`."""
        return BlockingStream(
            self._provider.stream(
                messages, tools, max_tokens=max_tokens, temperature=temperature, stop=stop, extra=extra
            )
        )


def _close(transport: Transport) -> None:
    """Close kept connections, if any: on request, when a provider is collected, at the end of the process."""
    if not transport.is_open:
        return
    future = asyncio.run_coroutine_threadsafe(transport.close(), _background())
    if threading.get_ident() != _thread:  # the collector may run in the very thread that has to do it
        with suppress(TimeoutError):
            future.result(timeout=1)
