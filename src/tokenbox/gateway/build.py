"""The gateway put together from its settings."""

from __future__ import annotations

import asyncio
import os
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from tokenbox.__about__ import __version__
from tokenbox.catalog import price as catalog_price
from tokenbox.compose.remembered import COUNTS
from tokenbox.conversation.calibration import Calibration
from tokenbox.errors import TokenboxError
from tokenbox.gateway.accounts import QuotaAccounts
from tokenbox.gateway.app import Application, Gateway
from tokenbox.gateway.asking import AskForUsage
from tokenbox.gateway.authentication import KeyAuthenticator
from tokenbox.gateway.bodies import Bodies
from tokenbox.gateway.books import Books
from tokenbox.gateway.counting import RequestCounting
from tokenbox.gateway.endpoints import add_offered
from tokenbox.gateway.fitting import PolicyFitting
from tokenbox.gateway.metrics import Metrics
from tokenbox.gateway.models import UpstreamModels
from tokenbox.gateway.peers import Peers
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.routes import Routes
from tokenbox.gateway.services import LocalAuthenticator, NoAccounts
from tokenbox.gateway.spool import Spool, SpoolError
from tokenbox.gateway.summaries import ModelSummaries
from tokenbox.gateway.traces import traces_from
from tokenbox.gateway.upstream import Upstream
from tokenbox.ledger.call import time_text
from tokenbox.providers.kinds import UNKNOWN
from tokenbox.store.leases import LeasedQuotas
from tokenbox.store.quotas import SqlQuotas
from tokenbox.store.redis_quotas import RedisQuotas
from tokenbox.store.stores import open_store
from tokenbox.store.threads import StoreThreads

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from tokenbox.catalog import Price
    from tokenbox.gateway.log import RequestLog
    from tokenbox.gateway.services import Accounts, Attempt, Authenticator, Grant, ProofDecision
    from tokenbox.gateway.settings import GatewaySettings
    from tokenbox.ledger.quota import Take
    from tokenbox.models import ModelUse
    from tokenbox.store.bundles import Bundles
    from tokenbox.store.quotas import QuotaStore
    from tokenbox.store.stores import Store


@dataclass(frozen=True, slots=True)
class Stores:
    """What outlives the process: keys and the ledger, levels of quotas, what is not in the ledger yet."""

    store: Store
    quotas: QuotaStore
    spool: Spool
    threads: StoreThreads

    @classmethod
    def open(cls, settings: GatewaySettings) -> Stores:
        """Raises :class:`~tokenbox.store.errors.StoreError` and :class:`SpoolError`."""
        store, threads = open_store(settings.database), StoreThreads()
        try:
            quotas: QuotaStore = (
                SqlQuotas(store.database, threads) if settings.redis is None else RedisQuotas(settings.redis)
            )
            return cls(store, quotas, Spool(settings.state), threads)
        except BaseException:
            store.close()
            raise


# Characters of texts whose counts a worker remembers: some 15,000 messages of conversations under way.
REMEMBERED = 8_000_000
# How long what ``/readyz`` found holds.
READY_SECONDS = 1.0


def now() -> datetime:
    return datetime.now(UTC)


class GatewayServices:
    """The services of a running gateway. Fulfils :class:`~tokenbox.gateway.services.Services`."""

    def __init__(
        self, settings: GatewaySettings, stores: Stores, log: RequestLog, workers_folder: Path | None = None
    ) -> None:
        """``workers_folder``: where the workers of one gateway find each other; None for the only one."""
        self.workers_folder = workers_folder
        self.settings = settings
        self.stores = stores
        self.log = log
        self.metrics = Metrics(__version__)
        self.traces = traces_from(os.environ)
        self.counting = RequestCounting(settings.limits, Calibration())
        self.fitting = PolicyFitting(self.counting, ModelSummaries(self), settings.fit, settings.low_water)
        self.bundles = bundles_of(settings)
        self.asking = AskForUsage()
        self.bodies = Bodies(settings.limits.bodies)
        self.peers: Peers | None = None
        self._ready: tuple[float, dict[str, dict[str, Any]]] | None = None
        self._checking: asyncio.Task[dict[str, dict[str, Any]]] | None = None
        self.upstreams: Sequence[Upstream] = ()
        self.models: UpstreamModels
        self.authenticator: Authenticator = LocalAuthenticator(settings.cors_origins)
        self.accounts: Accounts = NoAccounts()
        self.books: Books
        self.quotas: LeasedQuotas
        self._loop: asyncio.AbstractEventLoop

    async def open(self) -> None:
        """Connections, and the thread that drains the books. Runs in the server's event loop."""
        self.upstreams = [Upstream(settings, self.settings.limits) for settings in self.settings.upstreams]
        self.models = UpstreamModels(self.settings, self.upstreams)
        await self.models.open()
        self._loop = asyncio.get_running_loop()
        store = self.stores.store
        self.books = Books(self.stores.spool, now, self.price, lambda: store.calls, self._settle, self._tidy)
        self.books.start()
        if self.settings.keys_required:
            self.authenticator = KeyAuthenticator(store.keys, now, self.stores.threads)
        self.quotas = LeasedQuotas(self.stores.quotas, time.monotonic, self.books.settle_later)
        self.accounts = QuotaAccounts(self.quotas, now, self.price, self.settings.when_away)
        self._gauges()
        self.log.write("started", upstreams=[upstream.name for upstream in self.upstreams])

        if self.workers_folder is not None:
            self.peers = Peers(self.workers_folder, self.metrics.snapshot)
            await self.peers.open()

    async def close(self) -> None:
        """After the last request: everything that was recorded is drained, as far as the store takes it."""
        if self.peers is not None:
            self.peers.close()
        with suppress(TokenboxError):
            await self.quotas.close()
        await asyncio.to_thread(self.books.stop)
        await self.models.close()
        self.stores.threads.close()
        self.fitting.close()
        self.stores.store.close()
        for upstream in self.upstreams:
            upstream.close()
        await asyncio.to_thread(self.traces.close)
        self.log.write("stopped")

    def reload(self, settings: GatewaySettings) -> None:
        """Other policies, from the next request on. Upstreams keep their connections and their places."""
        known = {upstream.name: upstream for upstream in self.upstreams}
        upstreams = []
        for new in settings.upstreams:
            upstream = known.get(new.name)
            if upstream is None or not upstream.can_become(new):
                upstream = Upstream(new, settings.limits)
            else:
                upstream.settings = new
            upstreams.append(upstream)
        self.settings = settings
        self.upstreams = upstreams
        self.models.become(settings, upstreams)
        self.fitting.become(settings.fit, settings.low_water)
        self._gauges()
        self.log.write("reloaded", upstreams=[upstream.name for upstream in upstreams])

    # What requests ask.

    def price(self, model: str, at: datetime, input_tokens: int) -> Price | None:
        """What the model costs on that day, for a request of that size."""
        found = self.settings.prices.get(model)
        if found is None:
            found = _price(model, at.date())
        return None if found is None else found.at(input_tokens)

    def began(self, request: Attempt) -> None:
        """Before it is sent. Raises :class:`Refusal` where not even this machine's disk takes the record."""
        try:
            self.books.began(request)
        except SpoolError as error:
            self.log.write("spool_failed", error=error.message)
            raise Refusal(503, error.code, "Nothing can be recorded just now, so nothing is sent.") from None

    async def prove(self, decision: ProofDecision) -> str | None:
        """The id of the bundle that proves a decision; None where none is asked for."""
        settings, bundles = self.settings, self.bundles
        if bundles is None:
            return None
        from tokenbox.gateway.evidence import of_request  # noqa: PLC0415  # only where it is asked for

        try:
            written = await asyncio.to_thread(
                lambda: bundles.write(of_request(decision, settings.fit, settings.low_water))
            )
        except TokenboxError as error:
            self.log.write("proof_failed", error=error.message)
            if decision.refusal is not None:
                return None
            raise Refusal(503, error.code, "No proof can be kept just now, so nothing is sent.") from None
        return written.id

    def mistake(self, error: Exception) -> Refusal:
        """Where it happened is logged; its text may have words of a client, and is not."""
        self.metrics.mistake()
        self.log.write("mistake", error=type(error).__name__, where=_places(error))
        return Refusal(500, "internal_error", "The gateway made a mistake. Its log says where.")

    def observe(self, request: Attempt, refusal: Refusal | None) -> None:
        """Metrics, log and ledger, once per request, whatever came of it."""
        seconds = time.monotonic() - request.started_at
        if request.was_sent:  # first, so that nothing that fails keeps a call from its end
            try:
                self.books.ended(request)
            except TokenboxError as error:
                self.log.write("spool_failed", error=error.message)
        self.metrics.observe(request, refusal, seconds)
        self._calibrate(request)
        self.log.request(request, refusal, seconds)
        self.traces.request(request, refusal)

    def _calibrate(self, request: Attempt) -> None:
        """Say what was admitted on an estimate, and which exact count was not what the upstream reported."""
        verdict, call, upstream = request.verdict, request.call, request.upstream
        if not request.was_sent or verdict is None or call is None or upstream is None:
            return
        count, guarded = verdict.counted.count, verdict.guarded
        if not count.exact:
            basis = "unknown" if guarded is None else guarded.basis.value
            self.metrics.estimated(upstream.name, count.by.value, basis)
            self.log.write(
                "admitted_on_estimate",
                id=request.request_id,
                model=call.model[:200],
                upstream=upstream.name,
                by=count.by.value,
                basis=basis,
                input_tokens=count.total,
                at_most=count.at_most,
            )
        usage = request.outcome.usage
        if usage is not None and usage.input_tokens is not None:
            said = self.counting.reported(upstream, call, verdict.counted, usage.input_tokens)
            if said is not None:
                self.metrics.miscounted(upstream.name)
                self.log.write("count_differs", id=request.request_id, message=said)

    # What its own routes ask.

    async def checks(self) -> dict[str, dict[str, Any]]:
        """Whether what it needs is there, as of this second: however many ask, each is asked once."""
        if self._ready is not None and time.monotonic() - self._ready[0] < READY_SECONDS:
            return self._ready[1]
        if self._checking is None or self._checking.done():
            self._checking = asyncio.get_running_loop().create_task(self._checked())
        return await asyncio.shield(self._checking)

    def drain(self) -> None:
        """It is about to stop: whoever asks whether it is ready hears that it is not."""
        self._ready = (float("inf"), {"stopping": {"ok": False}})

    async def page(self) -> bytes:
        """The figures of all workers, for Prometheus."""
        return self.metrics.page(() if self.peers is None else await self.peers.snapshots())

    async def _checked(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for upstream in self.upstreams:
            status, _ = await upstream.look("/v1/models")
            found[f"upstream {upstream.name}"] = {"ok": status is not None and status < 500, "status": status}  # noqa: PLR2004
        try:
            await self.stores.quotas.ping()
            found["quotas"] = {"ok": True}
        except TokenboxError as error:
            found["quotas"] = {"ok": False, "error": error.code}
        found["ledger"] = {"ok": self.books.failures == 0, "files_waiting": self.books.waiting}
        self._ready = (time.monotonic(), found)
        return found

    async def upstream_models(self, upstream: Upstream, grant: Grant) -> list[dict[str, Any]]:
        """The upstream's own list; where it has none now, the models that the settings name.

        Of them those that the key may use.
        """
        await self.models.with_kind(upstream)
        status, answer = await upstream.look("/v1/models", grant.client_auth)
        items = answer.get("data") if status == 200 and isinstance(answer, dict) else None  # noqa: PLR2004
        listed = [item for item in items or [] if isinstance(item, dict) and isinstance(item.get("id"), str)]
        if upstream.settings.models:
            named = [pattern for pattern in upstream.settings.models if not set(pattern) & set("*?[")]
            known = {item["id"] for item in listed}
            listed = [item for item in listed if upstream.settings.serves(item["id"])] + [
                {"id": name, "object": "model", "owned_by": upstream.name}
                for name in named
                if name not in known
            ]
        return [item for item in listed if grant.allows(item["id"])]

    def tokenizer_of(self, upstream: Upstream, use: ModelUse) -> str | None:
        """Where the upstream tokenizes, else the name of what counts for a model here."""
        kind = upstream.kind
        tokenizes = kind is not None and kind.text_count is not None and kind.name != UNKNOWN
        if tokenizes and not use.exact:
            return f"{upstream.name}:/tokenize"
        return None if use.tokenizer is None else use.tokenizer.identity.name

    def speaks_tokenize(self, upstream: Upstream) -> bool:
        return upstream.kind is not None and upstream.kind.tokenizes

    def _settle(self, reservation: str, takes: Sequence[Take]) -> None:
        """From the books' thread; the store's connections belong to the event loop."""
        question = self.stores.quotas.settle(reservation, takes)
        asyncio.run_coroutine_threadsafe(question, self._loop).result()

    def _tidy(self) -> None:
        """From the books' thread: quotas' windows that ended a day ago. Redis forgets by itself."""
        if isinstance(self.stores.quotas, SqlQuotas):
            self.stores.quotas.forget_before(time_text(now() - timedelta(days=1)))

    def _gauges(self) -> None:
        for upstream in self.upstreams:
            self.metrics.gauge("upstream_running", partial(_running, upstream), upstream.name)
            self.metrics.gauge("upstream_waiting", partial(_waiting, upstream), upstream.name)
        self.metrics.gauge("spool_files_waiting", lambda: self.books.waiting)
        self.metrics.gauge("bodies_bytes", lambda: self.bodies.used)
        self.metrics.gauge("tasks", lambda: len(asyncio.all_tasks(self._loop)))


def bundles_of(settings: GatewaySettings) -> Bundles | None:
    """Where proofs go, and the keys that sign them; None where none is asked for. Raises ``KeyInvalid``."""
    if settings.proof is None:
        return None
    from tokenbox.store import bundles  # noqa: PLC0415  # only where proof is asked for
    from tokenbox.store.key_files import read_signer  # noqa: PLC0415

    signers = [read_signer(Path(path)) for path in settings.proof_keys]
    return bundles.Bundles(settings.proof, texts=settings.proof_texts, signers=signers)


def _places(error: Exception) -> list[str]:
    """The innermost places of a traceback: files and lines."""
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    return [f"{PurePath(frame.filename).name}:{frame.lineno}" for frame in frames]


def _running(upstream: Upstream) -> float:
    return upstream.running


def _waiting(upstream: Upstream) -> float:
    return upstream.waiting


@lru_cache(maxsize=4096)
def _price(model: str, on: date) -> Price | None:
    return catalog_price(model, on=on)


def gateway_of(
    settings: GatewaySettings, stores: Stores, log: RequestLog, workers_folder: Path | None = None
) -> tuple[Gateway, GatewayServices]:
    """The application and its services."""
    COUNTS.limit(REMEMBERED)
    standing = GatewayServices(settings, stores, log, workers_folder)
    gateway = Gateway(standing)
    Routes(standing).add_to(gateway, operating=settings.admin_port is None)
    add_offered(gateway, standing)
    return gateway, standing


def admin_of(standing: GatewayServices) -> Application:
    """What the operator asks, as an application of its own."""
    from tokenbox.gateway.admin import Admin  # noqa: PLC0415  # where there is a port for it

    app = Application(standing)
    Routes(standing).add_operating_to(app)
    Admin(standing).add_to(app)
    return app
