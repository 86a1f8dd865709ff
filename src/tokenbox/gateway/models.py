"""The upstream and the limits of a model: by the operator's settings, the server, and the catalog."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from tokenbox.catalog import Figure
from tokenbox.errors import TokenboxError
from tokenbox.gateway.refusals import Refusal
from tokenbox.models import (
    NO_LIMITS,
    Counting,
    ModelFigures,
    ModelUse,
    Stated,
    is_openai,
    resolve,
    resolve_figures,
)
from tokenbox.providers.kinds import UNKNOWN, find_kind
from tokenbox.providers.kinds.kind import listed_names
from tokenbox.providers.memory import ProbeOutcome
from tokenbox.providers.server import Capabilities, detect, discover

if TYPE_CHECKING:
    from decimal import Decimal

    from tokenbox.gateway.calls import Headers
    from tokenbox.gateway.log import RequestLog
    from tokenbox.gateway.settings import GatewaySettings, ModelSettings
    from tokenbox.gateway.upstream import Upstream

T = TypeVar("T")

# A model's figures from its server are refreshed after this time, as its window may change.
FRESH_SECONDS = 60.0
# If the server does not answer, its last figures stay valid; without any, it is asked again after this time.
RETRY_SECONDS = 5.0
# The statuses of a server that has no list of its models, and the longest that it is waited for.
_NO_LIST = (404, 405, 501)
_LIST_SECONDS = 10.0
_OK = 200
# Cached models. Their names are the clients' and must not fill the memory.
_MOST_KNOWN = 10_000
# A name that no catalog has, so that only settings and servers supply figures.
_NO_PUBLIC_NAME = "(private)"


@dataclass(slots=True)
class _Known:
    """The cached figures of a model. ``use`` is resolved from ``found``, which it keeps for comparison."""

    at: float = float("-inf")
    found: Capabilities | None = None
    use: tuple[Capabilities | None, ModelUse] | None = None
    refresh: asyncio.Task[None] | None = None


class UpstreamModels:
    """The upstreams of the settings, and the cached figures of their models."""

    def __init__(self, settings: GatewaySettings, upstreams: Sequence[Upstream], log: RequestLog) -> None:
        self.settings = settings
        self._log = log
        self.upstreams = upstreams
        self._known: dict[tuple[str, str], _Known] = {}
        self._listed: dict[str, tuple[float, tuple[str, ...] | None]] = {}

    async def upstream_of(self, model: str, client_auth: Headers) -> Upstream:
        """Return the first upstream whose patterns match; else the one without patterns that lists the model.

        Raises :class:`Refusal` (404).
        """
        for upstream in self.upstreams:
            if upstream.settings.serves(model):
                return await self.with_kind(upstream)
        free = [upstream for upstream in self.upstreams if not upstream.settings.models]
        if len(free) == 1:
            return await self.with_kind(free[0])
        for upstream in free:
            if model in (await self._listed_by(upstream, client_auth) or ()):
                return await self.with_kind(upstream)
        raise not_served(model)

    async def use(self, upstream: Upstream, model: str, client_auth: Headers) -> ModelUse:
        """Return the limits of the model, and its counter.

        ``client_auth``: the client's own key, to ask an upstream for which the gateway has none.
        """
        known = await self._capabilities(upstream, model)
        if known.use is not None and known.use[0] is known.found:
            return known.use[1]
        own, default = self.settings.own_model(model), self.settings.default_model
        is_public = await self._is_public(upstream, model, client_auth)
        cap = self.settings.window_cap(model)
        at_openai = is_openai(upstream.settings.url, "" if upstream.kind is None else upstream.kind.name)
        use = use_of(model, own, default, known.found, cap, is_public=is_public is True, at_openai=at_openai)
        known.use = None if is_public is None else (known.found, use)
        return use

    async def _is_public(self, upstream: Upstream, model: str, client_auth: Headers) -> bool | None:
        """Whether the catalog's limits of this name apply at the upstream; None if it does not tell now.

        A server of an unknown kind may run one model under any name that it is asked for. If it lists its
        models, only those of the list are what they are called.
        """
        if upstream.kind is not None and upstream.kind.name != UNKNOWN:
            return upstream.kind.in_catalog
        names = await self._listed_by(upstream, client_auth)
        if names is None:
            return None
        return not names or any(name == model or name.endswith(f"/{model}") for name in names)

    async def _listed_by(self, upstream: Upstream, client_auth: Headers) -> tuple[str, ...] | None:
        """Return the models that the upstream lists, or listed last.

        The result is empty if it has no list, and None if it does not tell, now or without another key.
        """
        at, names = self._listed.get(upstream.name, (float("-inf"), None))
        now = time.monotonic()
        if now - at > RETRY_SECONDS:
            path = find_kind(UNKNOWN).models_path if upstream.kind is None else upstream.kind.models_path
            status, answer = await upstream.json(path, None, client_auth, _LIST_SECONDS)
            if status == _OK:
                names = listed_names(answer)
            elif status in _NO_LIST:
                names = names or ()
            if names is not None or not client_auth:  # another client's key may be a better one
                self._listed[upstream.name] = (now, names)
        return names

    async def _capabilities(self, upstream: Upstream, model: str) -> _Known:
        """Return the figures: the server's at first, then cached ones, renewed in the background."""
        key = (upstream.name, model)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[key] = _Known()
        age = time.monotonic() - known.at
        if age < (RETRY_SECONDS if known.found is None or not known.found.complete else FRESH_SECONDS):
            return known
        if known.refresh is None or known.refresh.done():
            known.refresh = asyncio.get_running_loop().create_task(self._refresh(upstream, model, known))
        if known.found is None:
            await asyncio.shield(known.refresh)
        return known

    async def _refresh(self, upstream: Upstream, model: str, known: _Known) -> None:
        try:
            kind = find_kind(UNKNOWN) if upstream.kind is None else upstream.kind
            found = (await discover(model, kind, upstream.get)).value
            # An incomplete answer does not replace a complete one.
            if found is not None and (found.complete or known.found is None):
                known.found = found
        except TokenboxError as error:  # of the kind of server: the operator mends it
            self._log.write(
                "figures_failed",
                upstream=upstream.name,
                model=model[:200],
                error=error.message,
                code=error.code,
            )
        known.at = time.monotonic()

    async def with_kind(self, upstream: Upstream) -> Upstream:
        """Return the upstream after its kind was detected, if it can be."""
        if upstream.kind is None:
            found = await detect(upstream.settings.url, upstream.get)
            # A guess, made because the server is unavailable, is not kept.
            upstream.kind = found.value if found.outcome is ProbeOutcome.ANSWERED else None
            upstream.is_silent = found.outcome in (ProbeOutcome.NOT_NOW, ProbeOutcome.TIMED_OUT)
        return upstream


def not_served(model: str) -> Refusal:
    """Return the refusal of a model that no upstream serves."""
    return Refusal(
        404,
        "model_not_found",
        f"No upstream serves the model {model[:100]!r}. GET /v1/models lists the models.",
        "model",
    )


def use_of(
    model: str,
    settings: ModelSettings,
    default: ModelSettings,
    found: Capabilities | None,
    cap: int | None,
    *,
    is_public: bool,
    at_openai: bool,
) -> ModelUse:
    """Resolve a model: by the settings, then its server, then the catalog if the server's models are public.

    ``cap``: an upper bound of its window, unless its own settings state one. ``at_openai``: as in
    :class:`~tokenbox.models.Counting`.

    Raises :class:`Refusal` (503) if the tokenizer that the settings name cannot be used.
    """
    stated = Stated(
        context_window=_figure(settings.max_ctx),
        output_reserve=_figure(_first(settings.reserve_out, default.reserve_out)),
        window_cap=_figure(cap),
        headroom=_headroom(_first(settings.headroom, default.headroom)),
    )
    server = NO_LIMITS if found is None else found.discovered
    try:
        use = resolve(
            model,
            settings=stated,
            server=server,
            counting=Counting(named=settings.tokenizer, at_openai=at_openai),
        )
    except TokenboxError as error:
        raise Refusal(
            503, error.code, f"The model {model[:100]!r} cannot be counted: {error.message}"
        ) from None
    if is_public:
        return use
    # A private server may run a model under a public name with a smaller window.
    private = resolve_figures(_NO_PUBLIC_NAME, settings=stated, server=server)
    figures = {one.name: getattr(private, one.name) for one in fields(ModelFigures)}
    return replace(use, **{**figures, "model": model})


def _figure(value: int | None) -> Figure | None:
    return None if value is None else Figure(value, "configured")


def _headroom(value: Decimal | None) -> tuple[Fraction, str] | None:
    return None if value is None else (Fraction(value), "configured")


def _first(own: T | None, default: T | None) -> T | None:
    return default if own is None else own
