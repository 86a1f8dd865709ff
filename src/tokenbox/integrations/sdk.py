"""What the wrapped clients of OpenAI and Anthropic share: a guarded ``create``, and usage read back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from tokenbox.integrations.fitting import Guarding

Tell = Callable[[int | None], None]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method of a client. ``key``: the argument that has the messages.

    ``head``: what a request says before them. ``used``: the input tokens in an answer or an event, or None.
    """

    key: str
    head: Callable[[dict[str, Any]], Sequence[Any]]
    used: Callable[[Any], int | None]

    def guard(self, resource: Any, guarding: Guarding, *, is_async: bool) -> None:
        """Replace ``resource.create`` by one that sends only what fits."""
        create = resource.create

        def checked(request: dict[str, Any]) -> tuple[dict[str, Any], Tell]:
            sent, count = guarding.checked(request, self.key, self.head(request))
            return sent, lambda used: guarding.answered(sent, count, used)

        @wraps(create)
        def ask(**request: Any) -> Any:
            sent, tell = checked(request)
            return self._read(create(**sent), tell)

        @wraps(create)
        async def ask_async(**request: Any) -> Any:
            sent, tell = checked(request)
            return self._read(await create(**sent), tell)

        resource.create = ask_async if is_async else ask

    def _read(self, answer: Any, tell: Tell) -> Any:
        """The answer itself. A stream tells once it ended, for its events pass by here."""
        events = getattr(answer, "_iterator", None)
        if events is None:
            tell(self.used(answer))
        elif hasattr(events, "__anext__"):
            answer._iterator = self._tapped_async(events, tell)  # noqa: SLF001  # of both SDKs
        else:
            answer._iterator = self._tapped(events, tell)  # noqa: SLF001  # of both SDKs
        return answer

    def _tapped(self, events: Iterator[Any], tell: Tell) -> Iterator[Any]:
        found = None
        for event in events:
            used = self.used(event)
            found = found if used is None else used
            yield event
        tell(found)

    async def _tapped_async(self, events: AsyncIterator[Any], tell: Tell) -> AsyncIterator[Any]:
        found = None
        async for event in events:
            used = self.used(event)
            found = found if used is None else used
            yield event
        tell(found)
