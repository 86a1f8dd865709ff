"""Fixtures: a real llama.cpp server for any test. Nothing is downloaded; it starts in a second.

``llama`` is a server with default options, shared by the whole run: ``llama.url``, ``llama.model.gguf`` ...
``start_llama(n_ctx=512, n_parallel=2, template="turns")`` starts one with other options, shared by all tests
with the same options. With ``fresh=True`` the server is the test's own, which may kill it (``server.kill()``)
and start it again on the same port (``port=server.port``).

On a machine without a library that the server needs, its tests are skipped; with ``TOKENBOX_TEST_LLAMA`` set
they fail.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import pytest

from tests.llama import model as models
from tests.missing import missing
from tests.waiting import SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.llama.model import Model

SERVE = Path(__file__).with_name("serve.py")
REQUIRED = "TOKENBOX_TEST_LLAMA"


@dataclass(frozen=True, slots=True)
class LlamaServer:
    """A running server. ``url`` has no trailing slash and no ``/v1``; ``n_ctx`` is the context of a slot."""

    url: str
    model: Model
    n_ctx: int
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def get(self, path: str) -> tuple[int, Any]:
        """Return status and parsed body."""
        return _answer(urllib.request.Request(self.url + path))

    def post(self, path: str, body: object) -> tuple[int, Any]:
        """Return status and parsed body."""
        data = json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        return _answer(urllib.request.Request(self.url + path, data, headers))

    def kill(self) -> None:
        """Kill the server, like a crash."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Kill the server and close its pipes."""
        self.kill()
        _close(self.process)


class StartLlama(Protocol):
    def __call__(
        self,
        *,
        n_ctx: int = 16_384,
        n_parallel: int = 1,
        template: str = "tools",
        fresh: bool = False,
        port: int = 0,
    ) -> LlamaServer: ...


@pytest.fixture(scope="session")
def start_llama(request: pytest.FixtureRequest) -> Iterator[StartLlama]:
    running: dict[tuple[int, int, str], LlamaServer] = {}
    started: list[LlamaServer] = []

    def start(
        *,
        n_ctx: int = 16_384,
        n_parallel: int = 1,
        template: str = "tools",
        fresh: bool = False,
        port: int = 0,
    ) -> LlamaServer:
        options = n_ctx, n_parallel, template
        if not fresh and not port and options in running:
            return running[options]
        server = serve(model_with(template, request.config), n_ctx, n_parallel, port)
        started.append(server)
        if not fresh and not port:
            running[options] = server
        return server

    yield start
    for server in started:
        server.end()


@pytest.fixture(scope="session")
def llama(start_llama: StartLlama) -> LlamaServer:
    return start_llama()


def model_with(template: str, config: pytest.Config) -> Model:
    """Return the model with one of ``TEMPLATES`` or the given template, cached in .pytest_cache."""
    text = models.TEMPLATES.get(template, template)
    inputs = Path(models.__file__).read_bytes() + text.encode() + sys.version.encode()
    name = f"llama-{hashlib.sha256(inputs).hexdigest()[:16]}"
    assert config.cache is not None
    folder = config.cache.mkdir(name) / "model"
    if not folder.exists():
        making = folder.with_name(f"making-{os.getpid()}")
        models.write(making, text)
        try:
            making.rename(folder)
        except OSError:  # another run has written the same model
            assert folder.exists()
    return models.Model(folder)


def serve(model: Model, n_ctx: int, n_parallel: int, port: int = 0) -> LlamaServer:
    """Start a server and wait until it answers."""
    process = subprocess.Popen(
        [sys.executable, SERVE, model.gguf, str(n_ctx), str(n_parallel), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    if not url.startswith("http://127.0.0.1:"):
        _did_not_start(process)
    return LlamaServer(url, model, n_ctx // n_parallel, process)


def _did_not_start(process: subprocess.Popen[str]) -> NoReturn:
    """Skip the test if a library of the machine is missing, such as libgomp; otherwise fail it."""
    _close(process)
    status = process.wait()
    loaded = subprocess.run(
        [sys.executable, "-c", "import xllamacpp"], capture_output=True, text=True, check=False
    )
    if loaded.returncode == 0:
        pytest.fail(f"the llama.cpp server did not start: {status}", pytrace=False)
    problem = (
        f"the llama.cpp server cannot run on this machine: {loaded.stderr.strip().rpartition(chr(10))[2]}. "
        "Debian and Ubuntu have the library in the package libgomp1."
    )
    missing(problem, REQUIRED)


def _close(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _answer(request: urllib.request.Request) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())
