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
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from tokenbox.__about__ import __version__
from tokenbox.catalog import price as catalog_price
from tokenbox.errors import TokenboxError
from tokenbox.gateway.accounts import QuotaAccounts
from tokenbox.gateway.app import Gateway
from tokenbox.gateway.asking import AskForUsage
from tokenbox.gateway.books import Books
from tokenbox.gateway.counting import RequestCounting
from tokenbox.gateway.door import KeyDoor
from tokenbox.gateway.fitting import PolicyFitting
from tokenbox.gateway.local import LocalCounts
from tokenbox.gateway.metrics import Metrics
from tokenbox.gateway.models import UpstreamModels
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.routes import Routes
from tokenbox.gateway.services import NoAccounts, OpenDoor
from tokenbox.gateway.spool import Spool, SpoolError
from tokenbox.gateway.summaries import ModelSummaries
from tokenbox.gateway.traces import traces_from
from tokenbox.gateway.upstream import Upstream
from tokenbox.ledger.call import time_text
from tokenbox.providers.kinds import Kind
from tokenbox.store.quotas import SqlQuotas
from tokenbox.store.redis_quotas import RedisQuotas
from tokenbox.store.stores import open_store
from tokenbox.store.threads import StoreThreads

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from tokenbox.catalog import Price
    from tokenbox.gateway.counting import Local
    from tokenbox.gateway.log import Log
    from tokenbox.gateway.services import Accounts, Attempt, Decision, Door, Grant
    from tokenbox.gateway.settings import Settings
    from tokenbox.ledger.quota import Take
    from tokenbox.store.quotas import QuotaStore
    from tokenbox.store.stores import Store

# Kinds whose servers have llama.cpp's /tokenize.
_TOKENIZES = frozenset({Kind.LLAMA_CPP})


@dataclass(frozen=True, slots=True)
class Stores:
    """What outlives the process: keys and the ledger, levels of quotas, what is not in the ledger yet."""

    store: Store
    quotas: QuotaStore
    spool: Spool
    threads: StoreThreads

    @classmethod
    def open(cls, settings: Settings) -> Stores:
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


def now() -> datetime:
    return datetime.now(UTC)


class Standing:
    """The services of a running gateway. Fulfils :class:`~tokenbox.gateway.services.Services`."""

    def __init__(self, settings: Settings, stores: Stores, log: Log) -> None:
        self.settings = settings
        self.stores = stores
        self.log = log
        self.metrics = Metrics(__version__)
        self.traces = traces_from(os.environ)
        self.local_counts = LocalCounts(settings)
        self.counting = RequestCounting(self.local, settings.limits)
        self.fitting = PolicyFitting(
            self.counting, self.local, ModelSummaries(self), settings.fit, settings.low_water
        )
        self.asking = AskForUsage()
        self.upstreams: Sequence[Upstream] = ()
        self.models: UpstreamModels
        self.door: Door = OpenDoor()
        self.accounts: Accounts = NoAccounts()
        self.books: Books
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
            self.door = KeyDoor(store.keys, now, self.stores.threads)
        self.accounts = QuotaAccounts(
            self.stores.quotas, now, self.price, self.books.settle_later, self.settings.when_away
        )
        self._gauges()
        self.log.write("started", upstreams=[upstream.name for upstream in self.upstreams])

    async def close(self) -> None:
        """After the last request: everything that was recorded is drained, as far as the store takes it."""
        await asyncio.to_thread(self.books.stop)
        await self.models.close()
        with suppress(TokenboxError):
            await self.stores.quotas.close()
        self.stores.threads.close()
        self.fitting.close()
        self.stores.store.close()
        for upstream in self.upstreams:
            upstream.close()
        await asyncio.to_thread(self.traces.close)
        self.log.write("stopped")

    def reload(self, settings: Settings) -> None:
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
        self.local_counts.become(settings)
        self.fitting.become(settings.fit, settings.low_water)
        self.log.write("reloaded", upstreams=[upstream.name for upstream in upstreams])

    # What requests ask.

    def local(self, upstream: Upstream, model: str) -> Local:  # one day by upstream
        """What counts for the model in this process."""
        try:
            return self.local_counts.of(model)
        except TokenboxError as error:
            raise Refusal(
                503, error.code, f"The model {model[:100]!r} cannot be counted: {error.message}"
            ) from None

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

    async def prove(self, decision: Decision) -> str | None:
        """The id of the bundle that proves a decision; None where none is asked for."""
        folder = self.settings.proof
        if folder is None:
            return None
        from tokenbox.gateway.evidence import of_request  # noqa: PLC0415  # only where it is asked for
        from tokenbox.store.bundles import Bundles  # noqa: PLC0415

        settings = self.settings
        bundles = Bundles(folder, texts=settings.proof_texts)
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
        self.metrics.observe(request, refusal, seconds)
        if request.was_sent:
            try:
                self.books.ended(request)
            except TokenboxError as error:
                self.log.write("spool_failed", error=error.message)
        self.log.request(request, refusal, seconds)
        self.traces.request(request, refusal, request.parent)

    # What its own routes ask.

    async def checks(self) -> dict[str, dict[str, Any]]:
        """Whether what it needs is there."""
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

    def tokenizer_of(self, upstream: Upstream, model: str) -> str | None:
        """The name of what counts for a model here, else where the upstream tokenizes; None without both."""
        local = self.local(upstream, model)
        if local.certain or local.format is not None:
            return local.tokenizer.identity.name
        tokenizes = upstream.kind in (Kind.LLAMA_CPP, Kind.VLLM, Kind.SGLANG, Kind.TGI)
        return f"{upstream.name}:/tokenize" if tokenizes else None

    def speaks_tokenize(self, upstream: Upstream) -> bool:
        return upstream.kind in _TOKENIZES

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
            name = upstream.name
            self.metrics.gauge(
                "upstream_running", "Requests at an upstream.", partial(_running, upstream), upstream=name
            )
            self.metrics.gauge(
                "upstream_waiting",
                "Requests that wait for a place.",
                partial(_waiting, upstream),
                upstream=name,
            )
        self.metrics.gauge(
            "spool_files_waiting", "Files not drained into the store.", lambda: self.books.waiting
        )
        self.metrics.gauge("tasks", "Tasks of the event loop.", lambda: len(asyncio.all_tasks(self._loop)))


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


def gateway_of(settings: Settings, stores: Stores, log: Log) -> tuple[Gateway, Standing]:
    """The application and its services."""
    standing = Standing(settings, stores, log)
    gateway = Gateway(standing)
    Routes(standing).add_to(gateway)
    return gateway, standing
