"""Fixtures: gateways that really run, as processes, in front of real or stub upstreams."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

SECONDS = 30


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
    """A gateway in a process of its own. ``log`` is what it wrote on standard error."""

    url: str
    folder: Path
    process: subprocess.Popen[bytes]

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
        """As an operator would."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)


class StartGateway(Protocol):
    def __call__(
        self, *upstreams: str, options: Sequence[str] = ..., config: str = ..., env: Mapping[str, str] = ...
    ) -> RunningGateway: ...


def ask(request: urllib.request.Request) -> Answer:
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return Answer(answer.status, dict(answer.headers.items()), answer.read())
    except urllib.error.HTTPError as error:
        return Answer(error.code, dict(error.headers.items()), error.read())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def start_gateway(tmp_path: Path) -> Iterator[StartGateway]:
    """``start_gateway(url, options=["--mode", "fit"], config=toml)``: with its own database and state."""
    started: list[RunningGateway] = []

    def start(
        *upstreams: str, options: Sequence[str] = (), config: str = "", env: Mapping[str, str] | None = None
    ) -> RunningGateway:
        folder = tmp_path / f"gateway{len(started)}"
        (folder / ".tokenbox").mkdir(parents=True)
        (folder / ".tokenbox" / "config.toml").write_text(config, encoding="utf-8")
        port = free_port()
        named = [part for url in upstreams for part in ("--upstream", url)]
        command = [sys.executable, "-m", "tokenbox", "serve", *named, "--port", str(port), *options]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "XDG_DATA_HOME": str(tmp_path / "data"),
            "XDG_STATE_HOME": str(tmp_path / "state"),
            **(env or {}),
        }
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        gateway = RunningGateway(f"http://127.0.0.1:{port}", folder, process)
        started.append(gateway)
        wait_until_up(gateway)
        return gateway

    yield start
    for gateway in started:
        if gateway.process.poll() is None:
            gateway.process.kill()
            gateway.process.wait()


def wait_until_up(gateway: RunningGateway) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        assert gateway.process.poll() is None, gateway.log
        try:
            if gateway.get("/healthz").status == 200:
                return
        except urllib.error.URLError:
            time.sleep(0.02)  # it opens its port when it can answer
    raise AssertionError(f"the gateway did not start:\n{gateway.log}")
