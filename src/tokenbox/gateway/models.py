"""Who answers for a model, and how much it can take: the operator's figures, the server's, the catalog's."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tokenbox.content.weight import weight_text
from tokenbox.errors import TokenboxError
from tokenbox.gateway.admission import Room, limit_of
from tokenbox.gateway.refusals import Refusal
from tokenbox.providers import Key, Kind, Provider, Target
from tokenbox.providers.memory import EndpointMemory
from tokenbox.providers.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.gateway.settings import ModelSettings, Settings
    from tokenbox.gateway.upstream import Upstream
    from tokenbox.providers.capabilities import Capabilities

# What a server says of a model is asked again after so long: it may have another window by then.
FRESH_SECONDS = 60.0
# If it does not answer, what it said last still counts; without that, it is asked again after so long.
RETRY_SECONDS = 5.0


@dataclass(slots=True)
class _Known:
    at: float
    found: Capabilities | None
    room: tuple[Capabilities | None, Room] | None = None
    asking: asyncio.Task[None] | None = None


class UpstreamModels:
    """The upstreams of the settings, and what they say."""

    def __init__(self, settings: Settings, upstreams: Sequence[Upstream]) -> None:
        self.settings = settings
        self.upstreams = upstreams
        self._transport = Transport()
        self._known: dict[tuple[str, str], _Known] = {}
        self._listed: dict[str, tuple[float, tuple[str, ...]]] = {}

    async def open(self) -> None:
        await self._transport.open()

    async def close(self) -> None:
        await self._transport.close()

    def become(self, settings: Settings, upstreams: Sequence[Upstream]) -> None:
        """Other settings; what servers said is asked for anew."""
        self.settings, self.upstreams = settings, upstreams
        self._known.clear()
        self._listed.clear()

    async def upstream_of(self, model: str) -> Upstream:
        """The first upstream whose patterns have the model; else the one without patterns that lists it.

        Raises :class:`Refusal` (404).
        """
        for upstream in self.upstreams:
            if upstream.settings.serves(model):
                return await self.with_kind(upstream)
        free = [upstream for upstream in self.upstreams if not upstream.settings.models]
        if len(free) == 1:
            return await self.with_kind(free[0])
        for upstream in free:
            if model in await self.listed(upstream):
                return await self.with_kind(upstream)
        raise not_served(model)

    async def room(self, upstream: Upstream, model: str) -> Room:
        """How much the model can take."""
        known = await self._capabilities(upstream, model)
        if known.room is None or known.room[0] is not known.found:
            known.room = known.found, room_of(self.settings.model(model), known.found)
        return known.room[1]

    async def listed(self, upstream: Upstream) -> tuple[str, ...]:
        """The models that the upstream lists; those it listed last, if it does not answer."""
        at, names = self._listed.get(upstream.name, (float("-inf"), ()))
        now = time.monotonic()
        if now - at > RETRY_SECONDS:
            with contextlib.suppress(TokenboxError):
                names = await self._provider(upstream, "").models()
            self._listed[upstream.name] = (now, names)
        return names

    async def _capabilities(self, upstream: Upstream, model: str) -> _Known:
        """What is known; asked for at the first time, and then again in the background."""
        key = (upstream.name, model)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:  # names are the clients': they must not fill the memory
                self._known.clear()
            known = self._known[key] = _Known(float("-inf"), None)
        age = time.monotonic() - known.at
        if age < (RETRY_SECONDS if known.found is None or not known.found.complete else FRESH_SECONDS):
            return known
        if known.asking is None or known.asking.done():
            known.asking = asyncio.get_running_loop().create_task(self._ask(upstream, model, known))
        if known.found is None:
            await asyncio.shield(known.asking)
        return known

    async def _ask(self, upstream: Upstream, model: str, known: _Known) -> None:
        try:
            found = await self._provider(upstream, model).capabilities()
            # Half an answer does not replace a whole one.
            if found.complete or known.found is None:
                known.found = found
        except TokenboxError:
            pass
        known.at = time.monotonic()

    async def with_kind(self, upstream: Upstream) -> Upstream:
        """The upstream, once it is known what software it is, if it says."""
        if upstream.kind is Kind.AUTO:
            try:
                memory = EndpointMemory()
                provider = self._provider(upstream, "", memory)
                await provider.kind()
                known = memory.fact(provider.target.root, "kind")
                # A guess, made because the server is away, is not kept.
                upstream.kind = known if isinstance(known, Kind) else Kind.AUTO
            except TokenboxError:
                pass
        return upstream

    def _provider(self, upstream: Upstream, model: str, memory: EndpointMemory | None = None) -> Provider:
        settings = upstream.settings
        target = Target(
            settings.url,
            model,
            kind=upstream.kind,
            key=None if settings.key is None else Key(settings.key),
            use_tokenize_endpoint=True,
        )
        # A memory of its own: what a server said before is not to be believed for ever.
        own = EndpointMemory() if memory is None else memory
        return Provider(target, memory=own, transport=self._transport)


def not_served(model: str) -> Refusal:
    """The refusal of a model that nobody has."""
    return Refusal(
        404,
        "model_not_found",
        f"The model {model[:100]!r} is served by none of the upstreams here. GET /v1/models lists those "
        "that are.",
        "model",
    )


_MOST_KNOWN = 10_000


def room_of(settings: ModelSettings, found: Capabilities | None) -> Room:
    """The operator's figures first, then what the server or the catalog says."""
    figures: dict[str, int | None] = {}
    sources: dict[str, str] = {}
    for name, configured, discovered in (
        ("context_window", settings.max_ctx, None if found is None else found.context_window),
        ("max_input_tokens", settings.max_input, None if found is None else found.max_input_tokens),
        ("max_output_tokens", settings.max_output, None if found is None else found.max_output_tokens),
    ):
        if configured is not None:
            figures[name], sources[name] = configured, "configured"
        else:
            figures[name] = None if discovered is None else discovered.value
            if discovered is not None and discovered.value is not None:
                sources[name] = discovered.source
    window = figures["context_window"]
    headroom = Fraction(0) if settings.headroom is None else Fraction(settings.headroom)
    return Room(
        window=window,
        limit=limit_of(window, headroom),
        max_input=figures["max_input_tokens"],
        max_output=figures["max_output_tokens"],
        reserve=0 if settings.reserve_out is None else settings.reserve_out,
        headroom=weight_text(headroom),
        sources=sources,
    )
