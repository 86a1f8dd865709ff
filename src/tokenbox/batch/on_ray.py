"""The engine for Ray, on a cluster or on this machine: an actor per core compiles shards.

Like a worker process, an actor loads the vocabulary once, and reads and writes its shards itself. Only jobs,
marks and records go through Ray, so that the size of rows does not affect the driver or the object store.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from tokenbox.batch.compiler import RowCompiler
from tokenbox.batch.errors import BatchError, WorkersFailed
from tokenbox.batch.process import cores
from tokenbox.batch.work import bytes_of
from tokenbox.batch.workers import ONE_THREAD, WorkerDied, events_of, run_workers
from tokenbox.errors import TokenboxError, needing
from tokenbox.named_code import allow, allowed

if TYPE_CHECKING:
    from tokenbox.batch.plan import BatchPlan
    from tokenbox.batch.work import Event, Job

# Set before Ray is imported: no usage statistics, and no warnings on stderr. By default Ray's workers have a
# niceness of 15: on a busy machine they get next to no time.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_worker_niceness": "0",
}
_NAMESPACE = "tokenbox"
_CONNECT_SECONDS = 10


def _ray() -> Any:  # noqa: ANN401  # a module
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with needing("the engine ray", "ray"):
        import ray
    return ray


class ShardActor:
    """The actor of Ray. It has one compiler for all its shards."""

    def __init__(self, plan: BatchPlan, expected: int | None, code: Collection[str]) -> None:
        allow(*code)
        os.environ.update(ONE_THREAD)
        self._plan, self._compiler = plan, RowCompiler(plan, expected)

    def compile(self, job: Job) -> Iterator[Event | TokenboxError]:
        yield from events_of(job, self._plan, self._compiler)


class ActorWorker:
    """A worker that is an actor with one CPU, on any node of the cluster."""

    def __init__(self, ray: Any, plan: BatchPlan, expected: int | None) -> None:  # noqa: ANN401  # a module
        self._ray = ray
        self._actor = ray.remote(num_cpus=1, max_restarts=0)(ShardActor).remote(plan, expected, allowed())

    def wait(self) -> None:
        self._get(self._actor.__ray_ready__.remote())

    def events(self, job: Job) -> Iterator[Event | TokenboxError]:
        # The actor continues after an event only when it has arrived here.
        streamed = {"num_returns": "streaming", "_generator_backpressure_num_objects": 1}
        yield from map(self._get, self._actor.compile.options(**streamed).remote(job))

    def stop(self) -> None:
        with suppress(Exception):  # with its cluster the actor is gone too
            self._ray.kill(self._actor)

    def _get(self, reference: Any) -> Any:  # noqa: ANN401  # of Ray
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            raise WorkerDied(f": {str(error)[:500]}") from None


class RayEngine:
    """Compiles on the cluster at ``address``, or on a local Ray that ends with the run.

    ``workers``: actors with one CPU each. Default: one per CPU of the cluster.
    """

    name = "ray"

    def __init__(self, workers: int | None, address: str | None) -> None:
        self._address = address
        self._ray = _ray()
        self._given = workers
        self.workers = workers or max(1, cores())

    def run(self, plan: BatchPlan, jobs: Sequence[Job]) -> Iterator[Event]:
        if not jobs:
            return
        with self._connected():
            try:
                wanted = self._given or int(self._ray.cluster_resources().get("CPU", 1))
                self.workers = max(1, min(wanted, len(jobs)))
                expected = bytes_of(jobs, self.workers)
                yield from run_workers(lambda: ActorWorker(self._ray, plan, expected), self.workers, jobs)
            except TokenboxError:
                raise
            except Exception as error:  # noqa: BLE001  # a cluster that is gone raises anything
                raise WorkersFailed(f"Ray ended the run: {str(error)[:500]}") from None

    @staticmethod
    def _check_reachable(address: str) -> None:
        """Raise if nothing listens at the address: Ray itself would retry for minutes."""
        host, found, port = address.rpartition("://")[2].rpartition(":")
        if not found or not port.isdigit():
            return
        try:
            socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
        except OSError as error:
            raise _no_ray(address, error) from None

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Connect to the cluster for the duration of the context; keep an existing connection."""
        ray = self._ray
        if ray.is_initialized():
            yield
            return
        # `local` starts a new Ray even if another one runs on this machine.
        where: dict[str, Any] = {
            "address": "local",
            "num_cpus": self._given or max(1, cores()),
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
        }
        if self._address is not None:
            self._check_reachable(self._address)
            where = {"address": self._address}
        paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            ray.init(
                **where,
                namespace=_NAMESPACE,
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env={"env_vars": paths},
            )
        except Exception as error:  # noqa: BLE001  # on a busy machine it raises a bare Exception after 30 s
            raise _no_ray(self._address, error) from None
        try:
            yield
        finally:
            ray.shutdown()


def _no_ray(address: str | None, error: Exception) -> BatchError:
    where = "on this machine" if address is None else f"at {address}"
    reason = str(error)[:300].rstrip(". ")
    hint = " Run it again, or without Ray: --engine process" if address is None else ""
    return BatchError(f"cannot connect to Ray {where}: {reason}.{hint}", address=address)
