"""The services of a running gateway: who may enter, which upstream answers, what fits, what is recorded."""

from __future__ import annotations

import asyncio
import os
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from tokenbox.__about__ import __version__
from tokenbox.catalog import price as catalog_price
from tokenbox.conversation.calibration import Calibration
from tokenbox.errors import TokenboxError
from tokenbox.gateway.accounts import QuotaAccounts
from tokenbox.gateway.authentication import Grant, KeyAuthenticator, LocalAuthenticator
from tokenbox.gateway.body_memory import BodyMemory
from tokenbox.gateway.calls import ApiCall, is_name
from tokenbox.gateway.counting import RequestCounting
from tokenbox.gateway.metrics import Metrics
from tokenbox.gateway.models import UpstreamModels
from tokenbox.gateway.recorder import CallRecorder
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.spool import Spool, SpoolError
from tokenbox.gateway.traces import traces_from
from tokenbox.gateway.upstream import Upstream
from tokenbox.gateway.workers import Peers
from tokenbox.ledger.call import time_text
from tokenbox.models import ModelUse, is_openai
from tokenbox.providers.kinds import UNKNOWN
from tokenbox.providers.shapes import items_at
from tokenbox.store import bundles
from tokenbox.store.key_files import read_signer
from tokenbox.store.leases import LeasedQuotas
from tokenbox.store.quotas import QuotaStore, QuotaStoreError, SqlQuotas
from tokenbox.store.redis_quotas import RedisQuotas
from tokenbox.store.stores import Store, open_store
from tokenbox.store.threads import StoreThreads
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from tokenbox.catalog import Price
    from tokenbox.gateway.admission import Admission
    from tokenbox.gateway.attempt import Attempt, RequestDecision
    from tokenbox.gateway.log import RequestLog
    from tokenbox.gateway.settings import GatewaySettings
    from tokenbox.ledger.quota import Take
    from tokenbox.store.bundles import Bundles


# The settings that need a restart.
_FIXED = tuple(
    """
    host port workers admin_host admin_port admin_key limits database redis state keys_required cors_origins
    when_away proof proof_texts proof_keys
    """.split()
)
# How long an upstream may take to answer, for ``/readyz`` and ``/v1/models``.
_ANSWER_SECONDS = 2.0
# How long ``/readyz`` answers from its last check.
READY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Stores:
    """What outlives the process: keys, ledger, levels of quotas, and records not in the ledger yet."""

    store: Store
    quotas: QuotaStore
    spool: Spool
    threads: StoreThreads

    @classmethod
    def open(cls, settings: GatewaySettings) -> Stores:
        """Open them. Raises :class:`~tokenbox.store.errors.StoreError` and :class:`SpoolError`."""
        store, threads = open_store(settings.database), StoreThreads()
        try:
            quotas: QuotaStore = (
                SqlQuotas(store.database, threads) if settings.redis is None else RedisQuotas(settings.redis)
            )
            return cls(store, quotas, Spool(settings.state), threads)
        except BaseException:
            store.close()
            raise


def now() -> datetime:
    return datetime.now(UTC)


class GatewayServices:
    """The services that requests share. The attributes without a value are set by :meth:`open`."""

    models: UpstreamModels
    recorder: CallRecorder
    quotas: LeasedQuotas
    accounts: QuotaAccounts
    _loop: asyncio.AbstractEventLoop
    _loading: asyncio.Task[None]  # kept, as the event loop does not

    def __init__(
        self, settings: GatewaySettings, stores: Stores, log: RequestLog, workers_folder: Path | None = None
    ) -> None:
        """``workers_folder`` is where the workers of one gateway find each other; None for one worker."""
        self.workers_folder = workers_folder
        self.settings = settings
        self.stores = stores
        self.log = log
        self._price_of = _cached_prices(settings)
        self.metrics = Metrics(__version__)
        self.traces = traces_from(os.environ)
        self.counting = RequestCounting(settings.limits, Calibration())
        self.bundles = bundles_of(settings)
        self.body_memory = BodyMemory(settings.limits.bodies)
        self.peers: Peers | None = None
        # The last checks of /readyz, and when they were made.
        self._ready: tuple[float, dict[str, dict[str, Any]]] | None = None
        self._checking: asyncio.Task[dict[str, dict[str, Any]]] | None = None
        self._is_draining = False
        self.upstreams: Sequence[Upstream] = ()
        self.authenticator: LocalAuthenticator | KeyAuthenticator = LocalAuthenticator(settings.cors_origins)

    async def open(self) -> None:
        """Open connections, and start the thread of the recorder. Runs in the server's event loop."""
        self._loop = asyncio.get_running_loop()
        self._use(self.settings)
        store = self.stores.store
        self.recorder = CallRecorder(
            self.stores.spool,
            now,
            self.price,
            lambda: store.calls,
            self._settle,
            self._delete_expired,
            self._recording_failed,
        )
        self.recorder.start()
        if self.settings.keys_required:
            self.authenticator = KeyAuthenticator(store.keys, now, self.stores.threads)
        self.quotas = LeasedQuotas(self.stores.quotas, time.monotonic, self.recorder.settle_later)
        self.accounts = QuotaAccounts(self.quotas, now, self.price, self.settings.when_away)
        self._set_gauges()
        self.log.write("started", upstreams=[upstream.name for upstream in self.upstreams])
        if self.workers_folder is not None:
            self.peers = Peers(self.workers_folder, self.metrics.snapshot)
            await self.peers.open()

    async def close(self) -> None:
        """Close everything after the last request. Records are drained as far as the store takes them."""
        if self.peers is not None:
            self.peers.close()
        with suppress(TokenboxError):
            await self.quotas.close()
        left = await asyncio.to_thread(self.recorder.stop)
        self.stores.threads.close()
        self.stores.store.close()
        for upstream in self.upstreams:
            upstream.close()
        await asyncio.to_thread(self.traces.close)
        self.log.write("stopped", spool_files_waiting=left, entries_lost=self.recorder.unwritten)

    def reload(self, settings: GatewaySettings) -> None:
        """Use other settings from the next request on. Upstreams keep their connections and slots.

        The log names the settings that have changed and need a restart. They stay as they are.
        """
        fixed = {name: getattr(self.settings, name) for name in _FIXED}
        need_restart = [name for name, value in fixed.items() if getattr(settings, name) != value]
        self._use(replace(settings, **fixed))
        names = [upstream.name for upstream in self.upstreams]
        self.log.write("reloaded", upstreams=names, need_restart=need_restart)

    def _use(self, settings: GatewaySettings) -> None:
        known = {upstream.name: upstream for upstream in self.upstreams}
        upstreams = []
        for new in settings.upstreams:
            upstream = known.get(new.name)
            if upstream is None or not upstream.is_same_server(new):
                upstream = Upstream(new, settings.limits)
            else:
                upstream.settings = new
            upstreams.append(upstream)
        self.settings = settings
        self._price_of = _cached_prices(settings)
        self.upstreams = upstreams
        self.models = UpstreamModels(settings, upstreams, self.log)
        self._load_vocabulary()

    # For requests.

    def price(self, model: str, on: date) -> Price | None:
        """Return the price of the model on a day, the highest if it depends on the hour; or at a time."""
        found = self._price_of(model, on.date() if isinstance(on, datetime) else on)
        is_timed = isinstance(on, datetime) and found is not None and found.is_bound
        return catalog_price(model, on) if is_timed else found

    def record_start(self, request: Attempt, call: ApiCall, admission: Admission) -> None:
        """Record the request before it is sent. Raises :class:`Refusal` (503) if that fails."""
        try:
            self.recorder.record_start(request, call, admission)
        except SpoolError as error:
            self.log.write("spool_failed", error=error.message)
            raise Refusal(503, error.code, "Nothing can be recorded now, so nothing is sent.") from None

    async def prove(self, decision: RequestDecision, bundles: Bundles) -> str | None:
        """Write the proof of a decision, and return its id.

        If that fails: None for a request that is refused anyway, else raises :class:`Refusal` (503).
        """
        from tokenbox.gateway.evidence import of_request  # heavy, and proofs are off by default

        try:
            written = await asyncio.to_thread(lambda: bundles.write(of_request(decision)))
        except TokenboxError as error:
            self.log.write("proof_failed", error=error.message)
            if decision.refusal is not None:
                return None
            raise Refusal(503, error.code, "No proof can be written now, so nothing is sent.") from None
        return written.id

    def internal_error(self, error: Exception) -> Refusal:
        """Log where a defect showed, and return the answer (500). The error's text may quote a client."""
        self.metrics.count("mistakes", 1)
        self.log.write("mistake", error=type(error).__name__, where=_places(error))
        return Refusal(500, "internal_error", "The gateway failed. Its log tells where.")

    def observe(self, request: Attempt, refusal: Refusal | None) -> None:
        """Update metrics, log and ledger, once per request, however it ended."""
        seconds = time.monotonic() - request.started_at
        if request.was_sent:  # first, so that a failure below does not leave the call without its end
            try:
                self.recorder.record_end(request)
            except TokenboxError as error:
                self.log.write("spool_failed", error=error.message)
        self.metrics.observe(request, refusal, seconds)
        self._calibrate(request)
        self.log.request(request, refusal, seconds)
        self.traces.request(request, refusal)

    def _calibrate(self, request: Attempt) -> None:
        """Report a request sent on an estimate, and an exact count that differs from the reported usage."""
        admission, call, upstream = request.admission, request.call, request.upstream
        if not request.was_sent or admission is None or call is None or upstream is None:
            return
        count, verdict = admission.counted.count, admission.verdict
        if not count.exact:
            basis = "unknown" if verdict is None else verdict.basis.value
            self.metrics.count("admitted_on_estimate", 1, upstream.name, count.by.value, basis)
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
            difference = self.counting.reported(upstream, call, admission.counted, usage.input_tokens)
            if difference is not None:
                self.metrics.count("exact_counts_that_differed", 1, upstream.name)
                self.log.write("count_differs", id=request.request_id, message=difference)

    # For the gateway's own routes.

    async def checks(self) -> dict[str, dict[str, Any]]:
        """Return the checks of upstreams and stores. They are made once a second at most."""
        if self._is_draining:
            return {"stopping": {"ok": False}}
        if self._ready is not None and time.monotonic() - self._ready[0] < READY_SECONDS:
            return self._ready[1]
        if self._checking is None or self._checking.done():
            self._checking = asyncio.get_running_loop().create_task(self._check())
        return await asyncio.shield(self._checking)

    def drain(self) -> None:
        """Report from now on that the gateway is not ready, because it is about to stop."""
        self._is_draining = True

    async def metrics_page(self) -> bytes:
        """Return the metrics of all workers, for Prometheus."""
        return self.metrics.page(() if self.peers is None else await self.peers.snapshots())

    async def _check(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for upstream in self.upstreams:
            status, _ = await upstream.json("/v1/models", seconds=_ANSWER_SECONDS)
            found[f"upstream {upstream.name}"] = {"ok": status is not None and status < 500, "status": status}
        try:
            await self.stores.quotas.ping()
            found["quotas"] = {"ok": True}
        except TokenboxError as error:
            found["quotas"] = {"ok": False, "error": error.code}
        try:
            self.stores.spool.check()
            found["spool"] = {"ok": True}
        except SpoolError as error:
            found["spool"] = {"ok": False, "error": error.code}
        found["ledger"] = {"ok": self.recorder.failures == 0, "files_waiting": self.recorder.waiting}
        self._ready = (time.monotonic(), found)
        return found

    async def upstream_models(self, upstream: Upstream, grant: Grant) -> list[dict[str, Any]]:
        """Return the models that the upstream lists or the settings name, as far as the key may use them."""
        await self.models.with_kind(upstream)
        kind = upstream.kind
        path = "/v1/models" if kind is None or kind.dialect.api is None else kind.models_path
        status, answer = await upstream.json(path, None, grant.client_auth, _ANSWER_SECONDS)
        items = items_at(answer, "data") if status == 200 else []
        # A request can have no other names.
        listed = [item for item in items if isinstance(item, dict) and is_name(item.get("id"))]
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
        """Return the upstream's endpoint that tokenizes, else the name of the local tokenizer, else None."""
        kind = upstream.kind
        tokenizes = kind is not None and kind.text_count is not None and kind.name != UNKNOWN
        if tokenizes and not use.exact:
            return f"{upstream.name}:/tokenize"
        return None if use.tokenizer is None else use.tokenizer.identity.name

    def _settle(self, reservation: str, takes: Sequence[Take]) -> None:
        """Settle a quota from the recorder's thread: the store's connections belong to the event loop."""
        question = self.stores.quotas.settle(reservation, takes, fence=True)
        asyncio.run_coroutine_threadsafe(question, self._loop).result()

    def _recording_failed(self, error: Exception) -> None:
        """Log what failed in the recorder's thread: the quotas, the spool, the ledger, or the code."""
        if not isinstance(error, TokenboxError):
            self.internal_error(error)
            return
        event = "ledger_failed"
        if isinstance(error, QuotaStoreError):
            event = "quota_store_failed"
        elif isinstance(error, SpoolError):
            event = "spool_failed"
        self.log.write(event, error=error.message)

    def _delete_expired(self, now: datetime) -> None:
        """Delete windows of quotas that ended a day ago, from the recorder's thread. Redis expires them."""
        if isinstance(self.stores.quotas, SqlQuotas):
            self.stores.quotas.forget_before(time_text(now - timedelta(days=1)))

    def _load_vocabulary(self) -> None:
        """Begin to load the vocabulary of OpenAI's models, so that no client waits the seconds it takes."""

        async def load() -> None:
            with suppress(TokenboxError):  # the first request reports it
                await self.counting.load(get("o200k_base"))

        if any(is_openai(one.url, one.kind) for one in self.settings.upstreams):
            self._loading = self._loop.create_task(load())

    def _set_gauges(self) -> None:
        self.metrics.gauge("upstream_running", lambda: {(one.name,): one.running for one in self.upstreams})
        self.metrics.gauge("upstream_waiting", lambda: {(one.name,): one.waiting for one in self.upstreams})
        self.metrics.gauge("spool_files_waiting", lambda: {(): self.recorder.waiting})
        self.metrics.gauge("bodies_bytes", lambda: {(): self.body_memory.used})
        self.metrics.gauge("tasks", lambda: {(): len(asyncio.all_tasks(self._loop))})


def bundles_of(settings: GatewaySettings) -> Bundles | None:
    """Return where proofs are written, and signed by which keys; None if they are off.

    Raises ``KeyInvalid``.
    """
    if settings.proof is None:
        return None

    signers = [read_signer(Path(path)) for path in settings.proof_keys]
    return bundles.Bundles(settings.proof, texts=settings.proof_texts, signers=signers)


def _places(error: Exception) -> list[str]:
    """Return the innermost files and lines of a traceback."""
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    return [f"{PurePath(frame.filename).name}:{frame.lineno}" for frame in frames]


def _cached_prices(settings: GatewaySettings) -> Callable[[str, date], Price | None]:
    @lru_cache(maxsize=4096)
    def price_of(model: str, on: date) -> Price | None:
        return catalog_price(model, on, configured=settings.prices)

    return price_of
