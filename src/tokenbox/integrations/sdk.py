"""The shared part of the clients of OpenAI and Anthropic: a guarded ``create`` that reads the usage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from tokenbox.integrations.fitting import Guarding

Report = Callable[[int | None], None]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method of a client. ``key``: the argument with the messages. ``head``: the messages before them.

    ``used``: returns the input tokens in an answer or an event, or None.
    """

    key: str
    head: Callable[[dict[str, Any]], Sequence[Any]]
    used: Callable[[Any], int | None]

    def guard(self, resource: Any, guarding: Guarding, *, is_async: bool) -> None:
        """Replace ``resource.create`` by a function that sends only requests that fit."""
        create = resource.create

        def checked(request: dict[str, Any]) -> tuple[dict[str, Any], Report]:
            sent, count = guarding.checked(request, self.key, self.head(request))
            return sent, lambda used: guarding.answered(sent, count, used)

        @wraps(create)
        def guarded(**request: Any) -> Any:
            sent, report = checked(request)
            return self._observed(create(**sent), report)

        @wraps(create)
        async def guarded_async(**request: Any) -> Any:
            sent, report = checked(request)
            return self._observed(await create(**sent), report)

        resource.create = guarded_async if is_async else guarded

    def _observed(self, answer: Any, report: Report) -> Any:
        """Report the usage of an answer, or that of a stream at its end. Return the answer itself."""
        events = getattr(answer, "_iterator", None)
        if events is None:
            report(self.used(answer))
        elif hasattr(events, "__anext__"):
            answer._iterator = self._tapped_async(events, report)  # noqa: SLF001  # the same in both SDKs
        else:
            answer._iterator = self._tapped(events, report)  # noqa: SLF001  # the same in both SDKs
        return answer

    def _tapped(self, events: Iterator[Any], report: Report) -> Iterator[Any]:
        found = None
        for event in events:
            used = self.used(event)
            found = found if used is None else used
            yield event
        report(found)

    async def _tapped_async(self, events: AsyncIterator[Any], report: Report) -> AsyncIterator[Any]:
        found = None
        async for event in events:
            used = self.used(event)
            found = found if used is None else used
            yield event
        report(found)
