"""Fixtures: gateways as processes, in front of real or stub upstreams."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from aiohttp import web

from tests.gateway import stub
from tests.gateway.forked import Forked
from tests.loops import EndingLoop
from tests.services import free_port
from tests.waiting import SECONDS, until
from tokenbox.cli import main

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Coroutine, Iterator, Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401
        return json.loads(self.data)


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A gateway in its own process. ``log`` is what it writes to stdout and stderr."""

    url: str
    folder: Path
    process: Forked | subprocess.Popen[bytes]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric over its other labels; 0 if it is missing."""
        found = 0.0
        for line in self.get("/metrics").data.decode().splitlines():
            named, _, value = line.rpartition(" ")
            head, _, tail = named.partition("{")
            if head == name and all(f'{key}="{text}"' in tail for key, text in labels.items()):
                found += float(value)
        return found

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8")

    def post(self, path: str, body: object, **headers: str) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return ask(
            urllib.request.Request(self.url + path, data, {"content-type": "application/json", **named})
        )

    def get(self, path: str, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return ask(urllib.request.Request(self.url + path, headers=named))

    def stop(self) -> int:
        """Stop it with SIGTERM, as an operator does, and return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)


class StartGateway(Protocol):
    def __call__(
        self, *upstreams: str, options: Sequence[str] = ..., config: str = ..., env: Mapping[str, str] = ...
    ) -> RunningGateway: ...


def chat(text: str = "hi", **more: object) -> dict[str, Any]:
    """Return a body with one short message."""
    return {"model": "stub", "max_tokens": 5, "messages": [{"role": "user", "content": text}], **more}


def auth(key: str) -> dict[str, str]:
    """Return the header with a key."""
    return {"authorization": f"Bearer {key}"}


def ask(request: urllib.request.Request) -> Answer:
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return Answer(answer.status, dict(answer.headers.items()), answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, dict(error.headers.items()), error.read())


class Gateways:
    """Starts gateways in folders below ``folder`` and kills those that still run at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[RunningGateway] = []
        # A process of its own has no fastokens, as prepared.py has it for forks: it takes seconds to load.
        self._modules = folder / "modules"
        self._modules.mkdir()
        (self._modules / "fastokens.py").write_text("raise ImportError\n", encoding="utf-8")

    def __call__(
        self,
        *upstreams: str,
        options: Sequence[str] = (),
        config: str = "",
        env: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> RunningGateway:
        folder = self.folder / f"gateway{len(self._started)}"
        (folder / ".tokenbox").mkdir(parents=True)
        (folder / ".tokenbox" / "config.toml").write_text(config, encoding="utf-8")
        port = free_port()
        named = [part for url in upstreams for part in ("--upstream", url)]
        command = ["serve", *named, "--port", str(port), *options]
        process = Forked(command, folder, self.environment(env or {}), folder / "log")
        gateway = RunningGateway(f"http://127.0.0.1:{port}", folder, process)
        self._started.append(gateway)
        if wait:
            wait_until_up(gateway)
        return gateway

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            # After these modules the sources that are tested, where they are not the installed ones.
            "PYTHONPATH": os.pathsep.join(filter(None, [str(self._modules), os.environ.get("PYTHONPATH")])),
            "HOME": str(self.folder),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "TOKENBOX_TOKENIZE_TIMEOUT": "20",  # on a busy machine, the default of 2 passes now and then
            **more,
        }

    def command(self, *arguments: str) -> str:
        """Run a command of tokenbox in the folder of the gateways, in this process, and return its output."""
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            environment = self.environment({})
            for name in {*os.environ} - {*environment}:
                patch.delenv(name)
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            status = main(arguments)
        out.seek(0)
        err.seek(0)
        assert status == 0, err.read()
        return out.read().strip()

    def end(self) -> None:
        for gateway in self._started:
            if gateway.process.poll() is None:
                gateway.process.kill()
                gateway.process.wait()


def make_key(gateways: Gateways, database: str, *options: str) -> str:
    """Create a key with a name of its own and return it."""
    name = f"key{time.monotonic_ns()}"
    # It may also watch: with that, a refusal says what is left.
    modes = ("--mode", "enforce", "--mode", "observe")
    return gateways.command("gateway", "keys", "create", name, *options, *modes, "--database", database)


@pytest.fixture
def start_gateway(tmp_path: Path) -> Iterator[Gateways]:
    """Return ``start_gateway(url, options=["--mode", "fit"], config=toml)``, with its own state."""
    gateways = Gateways(tmp_path)
    yield gateways
    gateways.end()


@pytest.fixture(scope="module")
def shared_gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateways]:
    """Share gateways among the tests of a module, as a start takes a second."""
    gateways = Gateways(tmp_path_factory.mktemp("gateways"))
    yield gateways
    gateways.end()


class Stub:
    """The stub upstream, in a thread of this process."""

    def __init__(self, chunks: int = 50) -> None:
        self.app = stub.make(chunks)
        self.mark = 0
        self._loop = EndingLoop()
        self._runner = web.AppRunner(
            self.app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = self._run(self._start())
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def seen(self) -> list[dict[str, Any]]:
        """The bodies of the requests that it received."""
        return self.app[stub.SEEN]

    @property
    def looks(self) -> int:
        """The number of requests for its models."""
        return len(self.app[stub.LOOKS])

    @property
    def started(self) -> list[int]:
        return self.app[stub.STARTED]

    @property
    def cancelled(self) -> list[float]:
        """The times at which clients disconnected, by ``time.monotonic``."""
        return self.app[stub.CANCELLED]

    @property
    def headers(self) -> list[dict[str, str]]:
        """The headers of the requests in ``seen``."""
        return self.app[stub.HEADERS]

    @property
    def connections(self) -> int:
        """The number of open connections."""
        assert self._runner.server is not None
        return len(self._runner.server.connections)

    def close(self) -> None:
        self._run(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    async def _start(self) -> int:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return int(self._runner.addresses[0][1])

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)


@pytest.fixture(scope="module")
def upstream() -> Iterator[Stub]:
    """A stub upstream for all tests of a module."""
    running = Stub()
    yield running
    running.close()


def wait_until_up(gateway: RunningGateway) -> None:
    """Wait until it answers; fail with its log if it exits."""

    def answers() -> bool:
        assert gateway.process.poll() is None, gateway.log
        with suppress(urllib.error.URLError):  # its port is not open yet
            return gateway.get("/healthz").status == 200
        return False

    until(answers, f"a start of the gateway at {gateway.url}")
