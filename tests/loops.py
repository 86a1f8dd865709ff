"""Event loops of servers that a test runs in its own process."""

from __future__ import annotations

import asyncio
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tests.waiting import SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

P = ParamSpec("P")
T = TypeVar("T")

# A connection is accepted in a few turns of the loop.
_TURNS = 5


class EndingLoop(asyncio.SelectorEventLoop):
    """A loop whose connections end with it.

    asyncio leaves a connection open that is accepted while its server closes, or whose client does not read.
    Python reports it whenever the transport is collected, which fails any test.
    """

    def close(self) -> None:
        if not self.is_closed():
            transports: Mapping[int, asyncio.Transport] = self._transports  # type: ignore[attr-defined]
            for _ in range(_TURNS):
                for transport in list(transports.values()):  # with those below TLS
                    transport.abort()
                self.run_until_complete(asyncio.sleep(0))
        super().close()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` as ``asyncio.run`` does; connections that are open at its end are closed."""
    with asyncio.Runner(loop_factory=EndingLoop) as runner:
        return runner.run(main)


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an asynchronous test."""

    @wraps(test)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        run(asyncio.wait_for(test(*args, **kwargs), SECONDS))

    return call
