"""What a request asks of the gateway: who may enter, who answers, what fits, what it costs."""

from __future__ import annotations

import hashlib
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from tokenbox.gateway.configured import is_loopback
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.settings import Mode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from tokenbox.compose.requests import Count
    from tokenbox.gateway.admission import Admission, Counted
    from tokenbox.gateway.asgi import Headers, Incoming
    from tokenbox.gateway.bodies import Bodies
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.gateway.protocols import Protocol as Api
    from tokenbox.gateway.relay import CallOutcome
    from tokenbox.gateway.settings import GatewaySettings
    from tokenbox.gateway.traces import Tracing
    from tokenbox.gateway.upstream import Upstream
    from tokenbox.ledger.quota import Quota
    from tokenbox.models import ModelUse
    from tokenbox.store.keys import GatewayKey


@dataclass(frozen=True, slots=True)
class Grant:
    """What whoever asks may do.

    ``key_id`` is None without keys; ``client_auth`` is the client's own key, in the headers it came in: they
    go to an upstream that has none of its own, and nowhere else. ``quotas``: of the key, its user and its
    team, each with the id under which it is counted.
    """

    key_id: str | None = None
    modes: frozenset[Mode] = frozenset(Mode)
    mode: Mode | None = None
    client_auth: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    quotas: tuple[tuple[str, Quota], ...] = ()
    key: GatewayKey | None = None

    def allows(self, model: str) -> bool:
        """Whether the key may use the model."""
        return self.key is None or self.key.allows(model)

    def may_observe(self, own: Mode) -> bool:
        """Whether a header may ask for the mode that refuses nothing, where ``own`` holds without it."""
        return own is Mode.OBSERVE or (self.key is not None and Mode.OBSERVE in self.key.modes)

    def check(self, model: str) -> None:
        """Raises :class:`Refusal` (403) for a model that the key may not use."""
        if not self.allows(model):
            raise Refusal(
                403, "model_not_allowed", f"This key may not use the model {model[:100]!r}.", "model"
            )


@dataclass(frozen=True, slots=True)
class FittedCall:
    """A call made to fit: with what was done, as plain data for the client and the record."""

    call: ApiCall
    verdict: Admission
    record: dict[str, object]


def how_fitted(record: Mapping[str, Any]) -> str:
    """The steps of what was done, in order: ``mask, evict``."""
    words: list[str] = []
    for step in record["steps"] if record["action"] == "several" else [record]:
        inner = [one["action"] for one in step.get("steps", ())]
        words += (
            inner
            if step["action"] == "evict"
            else [*(one for one in inner if one != "evict"), step["action"]]
        )
    return ", ".join(dict.fromkeys(words))


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """What a model made of what left. ``request_id``: of its call, in the log."""

    text: str = field(repr=False)
    model: str
    request_id: str

    def to_dict(self) -> dict[str, object]:
        """For the record: the text is only its digest."""
        digest = hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()
        return {"model": self.model, "request_id": self.request_id, "sha256": digest}


@dataclass(frozen=True, slots=True)
class ProofDecision:
    """What was decided of a request, for its proof.

    ``asked`` as it came, and its count; ``sent`` as it goes on. ``done`` is what ``fit`` did, ``tried`` the
    count of each body that it counted on the way, by its SHA-256.
    """

    asked: ApiCall
    count: Count
    sent: ApiCall | None
    verdict: Admission
    done: Mapping[str, object] | None
    tried: Mapping[str, Count]
    refusal: Refusal | None


class Attempt(Protocol):
    """A request as metrics, log, quotas and ledger see it: a client's, or one of our own."""

    key: str
    category: str
    protocol: Api
    verdict: Admission | None
    upstream: Upstream | None
    outcome: CallOutcome
    was_sent: bool
    began_at: datetime
    started_at: float
    done: dict[str, object] | None
    parent: str | None
    overflow_of: str | None
    span: object
    line: bytes
    """What the books have of it since it was sent."""

    @property
    def call(self) -> ApiCall | None: ...
    @property
    def grant(self) -> Grant | None: ...
    @property
    def request_id(self) -> str: ...


class Summaries(Protocol):
    """Summing up what leaves a request."""

    async def summary_of(self, text: str, at_most: int, call: ApiCall, grant: Grant) -> ModelSummary | None:
        """At most so many tokens. None where there is none, whatever the reason."""
        ...


class Authenticator(Protocol):
    """Who may enter."""

    async def admit(self, incoming: Incoming) -> Grant:
        """Raises a refusal (401) for no key or a wrong one."""
        ...


class ModelService(Protocol):
    """Who answers for a model, and what it can take."""

    async def upstream_of(self, model: str) -> Upstream:
        """Raises a refusal (404) where nobody serves it."""
        ...

    async def use(self, upstream: Upstream, model: str) -> ModelUse:
        """How much the model can take, and who counts for it."""
        ...


class CountingService(Protocol):
    """What a request counts, as the upstream will count it."""

    async def count(self, call: ApiCall, upstream: Upstream, use: ModelUse) -> Counted: ...

    async def parts(self, call: ApiCall, use: ModelUse) -> tuple[int, ...]:
        """About what each message or prompt is alone."""
        ...


class FittingService(Protocol):
    """Making a request fit."""

    async def fit(
        self,
        call: ApiCall,
        upstream: Upstream,
        use: ModelUse,
        verdict: Admission,
        grant: Grant,
        tried: dict[str, Count],
    ) -> FittedCall | None:
        """None where what must be kept does not fit.

        ``tried`` takes the count of each body that is counted on the way, by its SHA-256.
        """
        ...


class Reservation(Protocol):
    """What one request takes of its quotas."""

    def headers(self) -> Headers:
        """``x-ratelimit-*``."""
        ...


class Accounts(Protocol):
    """Quotas: reserved before a request is sent, settled by what the upstream reports."""

    def reserved(self, request: Attempt, grant: Grant) -> AbstractAsyncContextManager[Reservation]:
        """Raises a refusal (429) where a quota is used up."""
        ...


class Asking(Protocol):
    """What is sent in place of the client's bytes."""

    def body_for(self, call: ApiCall, upstream: Upstream) -> tuple[bytes, bool]:
        """The body, and whether usage was asked for on our own account."""
        ...


class Services(Protocol):
    """All of it."""

    settings: GatewaySettings

    @property
    def authenticator(self) -> Authenticator: ...
    @property
    def models(self) -> ModelService: ...
    @property
    def counting(self) -> CountingService: ...
    @property
    def fitting(self) -> FittingService: ...
    @property
    def accounts(self) -> Accounts: ...
    @property
    def asking(self) -> Asking: ...
    @property
    def bodies(self) -> Bodies: ...
    @property
    def traces(self) -> Tracing: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def began(self, request: Attempt) -> None:
        """Right before a request is sent. Raises a refusal where it cannot be recorded."""
        ...

    async def prove(self, decision: ProofDecision) -> str | None:
        """The id of the bundle that proves a decision; None where none is asked for.

        Raises a refusal (503) where it cannot be kept, except for what is refused anyway.
        """
        ...

    def mistake(self, error: Exception) -> Refusal:
        """Logs where a mistake of ours happened, without its text; the answer for it (500)."""
        ...

    def observe(self, request: Attempt, refusal: Refusal | None) -> None:
        """Metrics, log and ledger, once per request, whatever came of it. Never fails, never waits."""
        ...


# Where clients of OpenAI's, Anthropic's and Azure's API send their keys. Anthropic takes some only with a
# word in the last.
AUTH_HEADERS = (b"authorization", b"x-api-key", b"api-key", b"anthropic-beta")


class LocalAuthenticator:
    """No keys: everybody who reaches the port may do everything. Only on loopback.

    But pages of other sites reach it, too, through a browser on this machine, which says where they are from.
    """

    def __init__(self, origins: Collection[str] = ()) -> None:
        """``origins``: sites whose pages may ask."""
        self._origins = origins

    async def admit(self, incoming: Incoming) -> Grant:
        given = incoming.headers
        if b"origin" in given and not self._may(given[b"origin"]):
            raise Refusal(
                403,
                "foreign_origin",
                "A page of another site asks, and without keys only this machine may. Start the gateway with "
                "--keys to let it.",
            )
        return Grant(client_auth=tuple((name, given[name]) for name in AUTH_HEADERS if name in given))

    def _may(self, origin: bytes) -> bool:
        # A star lets pages read answers of a gateway with keys; without keys it would open this machine.
        return origin.decode("latin-1") in self._origins or not _is_elsewhere(origin)


def _is_elsewhere(origin: bytes) -> bool:
    """Whether it is a site, and none of this machine."""
    parts = urlsplit(origin.decode("latin-1"))
    return parts.scheme in ("http", "https") and not is_loopback(parts.hostname or "")


class NoAccounts:
    """No quotas."""

    def reserved(self, request: Attempt, grant: Grant) -> AbstractAsyncContextManager[Reservation]:
        return nullcontext(self)

    def headers(self) -> Headers:
        return []


def bearer(incoming: Incoming) -> str | None:
    """The key a client sends, as OpenAI's clients or as Anthropic's do."""
    given = incoming.header(b"authorization")
    if given is not None and given[:7].lower() == "bearer ":
        return given[7:].strip() or None
    return incoming.header(b"x-api-key") or incoming.header(b"api-key")
