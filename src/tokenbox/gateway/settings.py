"""The settings of the operator: upstreams, modes, limits. They are read once, and again on a reload."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from tokenbox.policy.guard import Uncertain

if TYPE_CHECKING:
    from decimal import Decimal

    from tokenbox.catalog import Price
    from tokenbox.conversation.low_water import LowWater


class Mode(StrEnum):
    """What happens to a request that does not fit. Later modes do more."""

    OBSERVE = "observe"
    ENFORCE = "enforce"
    FIT = "fit"


class Fit(StrEnum):
    """A step of the mode ``fit``."""

    EVICT = "evict"
    TRUNCATE = "truncate"
    COMPACT = "compact"


class WhenAway(StrEnum):
    """What happens to requests with a quota while its store is unavailable: refused, or sent uncharged."""

    CLOSED = "closed"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits of one request. Sizes are in bytes, times in seconds."""

    body: int = 32 << 20
    headers: int = 64 << 10
    messages: int = 20_000
    depth: int = 100
    values: int = 1_000_000
    bodies: int = 256 << 20
    head_seconds: float = 20.0
    body_seconds: float = 60.0
    send_seconds: float = 60.0
    connect_seconds: float = 5.0
    idle_seconds: float = 300.0
    total_seconds: float = 3600.0
    count_seconds: float = 30.0
    grace_seconds: float = 30.0
    drain_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """The settings of an upstream.

    ``models`` are patterns of the models it serves; without any, it serves what it lists and what no other
    upstream serves. ``replicas`` are addresses of more servers with the same models. ``key`` is never shown.
    """

    name: str
    url: str
    kind: str = "auto"
    models: tuple[str, ...] = ()
    key: str | None = field(default=None, repr=False)
    concurrency: int = 64
    queue: int = 256
    queue_seconds: float = 30.0
    ask_usage: bool = True
    cache_marks: bool = False
    replicas: tuple[str, ...] = ()

    def serves(self, model: str) -> bool:
        return any(fnmatchcase(model, pattern) for pattern in self.models)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The operator's policy for a model. None means not set."""

    max_ctx: int | None = None
    reserve_out: int | None = None
    headroom: Decimal | None = None
    tokenizer: str | None = None
    mode: Mode | None = None
    alias_of: str | None = None
    overflow: tuple[str, ...] = ()


# What a name may have beside that of the model: a quantization, a variant of the service, a date.
_BESIDE_NAME = re.compile(r"(?:@[^/]*|:[a-z]+|-(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8}|[0-9]{3,4}|latest))+\Z")


def _names_in(name: str) -> Iterator[str]:
    """Yield the names that servers and proxies may know a model by: ``x/tiny@q4`` may be ``tiny``."""
    while True:
        yield name
        yield _BESIDE_NAME.sub("", name)
        _, slash, name = name.partition("/")
        if not slash:
            return


def short_name(name: str) -> str:
    """Return a model's name without what Ollama adds to it if it is missing."""
    name = name.removeprefix("https://").removeprefix("http://").removeprefix("registry.ollama.ai/")
    return name.removeprefix("library/").removesuffix(":latest")


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """All settings of the gateway. ``modes`` are by route, such as ``/v1/embeddings``.

    ``files``: those that the settings were read from.
    """

    upstreams: tuple[UpstreamSettings, ...]
    mode: Mode = Mode.ENFORCE
    modes: Mapping[str, Mode] = field(default_factory=dict)
    models: Mapping[str, ModelSettings] = field(default_factory=dict)
    default_model: ModelSettings = field(default_factory=ModelSettings)
    limits: RequestLimits = field(default_factory=RequestLimits)
    host: str = "127.0.0.1"
    port: int = 8640
    workers: int = 1
    admin_host: str = "127.0.0.1"
    admin_port: int | None = None
    admin_key: str | None = field(default=None, repr=False)
    low_water: LowWater = 1
    fit: tuple[Fit, ...] = (Fit.EVICT,)
    summary_model: str | None = None
    proof: str | None = None
    proof_texts: bool = False
    proof_keys: tuple[str, ...] = ()
    database: str | None = None
    redis: str | None = field(default=None, repr=False)
    state: str = ""
    keys_required: bool = False
    cors_origins: tuple[str, ...] = ()
    when_away: WhenAway = WhenAway.CLOSED
    uncertain: Uncertain = Uncertain.MARGIN
    prices: Mapping[str, Price] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    def served_as(self, name: str) -> str:
        """Return the model to which requests for ``name`` go."""
        own = self.models.get(name)
        return name if own is None or own.alias_of is None else own.alias_of

    def own_model(self, name: str) -> ModelSettings:
        """Return the settings of a model, by its name or a pattern."""
        own = self.models.get(name)
        if own is None and self.models:
            # Ollama and others ignore the case of a name.
            folded = name.casefold()
            names = (folded, short_name(folded))
            own = next(
                (
                    found
                    for pattern, found in self.models.items()
                    if any(fnmatchcase(one, pattern.casefold()) for one in names)
                    or short_name(pattern.casefold()) == names[1]
                ),
                None,
            )
        return _UNSET if own is None else own

    def window_cap(self, name: str) -> int | None:
        """Return the largest window that any model may have; for a variant of a known model, its window."""
        known = {pattern.casefold(): found for pattern, found in self.models.items()}
        own = next((known[one] for one in _names_in(name.casefold()) if one in known), _UNSET)
        caps = [cap for cap in (self.default_model.max_ctx, own.max_ctx) if cap is not None]
        return min(caps, default=None)

    def of_worker(self, number: int, workers: int) -> GatewaySettings:
        """Return the settings of one worker: its share of the slots at each upstream, and of the memory.

        ``workers`` is the number that run. ``self.workers`` may have changed since they were started.
        """
        if workers == 1:
            return self
        shares = [
            replace(
                upstream,
                concurrency=_share(upstream.concurrency, number, workers),
                queue=_share(upstream.queue, number, workers),
            )
            for upstream in self.upstreams
        ]
        bodies = max(self.limits.body, self.limits.bodies // workers)
        return replace(self, upstreams=tuple(shares), limits=replace(self.limits, bodies=bodies))


def _share(whole: int, number: int, workers: int) -> int:
    return whole // workers + (number < whole % workers)


_UNSET = ModelSettings()
