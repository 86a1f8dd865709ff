"""The gateway beside LiteLLM's proxy and a bare pass-through: one worker each, one stub behind all."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).resolve().parent
PARTS = HERE / "gateway"
LITELLM = HERE / ".venv-gateway" / "bin" / "litellm"
# tokenbox as after `pip install tokenbox[gateway]`: without the extra `fast`.
PLAIN = "import sys; sys.modules['fastokens'] = None; from tokenbox.cli import main; sys.exit(main())"
CONNECTIONS = 16
TARGETS = {
    "added ms": 0.5,
    "of LiteLLM's": 1 / 15,
    "per second": 3_000,
    "times LiteLLM's": 30,
    "stream": 0.6,
    "long": 1.5,
    "memory": 150,
    "start": 1.0,
}
CONFIG = """
[upstreams.stub]
url = "http://127.0.0.1:{port}"
kind = "openai"

[models."gpt-4o"]
max_ctx = 1000000
"""
LITELLM_CONFIG = """
model_list:
  - model_name: gpt-4o
    litellm_params:
      model: openai/gpt-4o
      api_base: http://127.0.0.1:{port}/v1
      api_key: sk-1234
litellm_settings:
  telemetry: false
"""


@dataclass(frozen=True, slots=True)
class Running:
    """A server under test. ``start``: seconds from its start to its first answer."""

    name: str
    url: str
    process: subprocess.Popen[bytes]
    start: float

    def processor_seconds(self) -> float:
        """What all its threads used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def run(*, quick: bool) -> dict[str, Any]:
    seconds, rounds = (1.5, 1) if quick else (4.0, 5)
    before = list(os.getloadavg())
    with ExitStack() as stack:
        servers = start_all(stack)
        memory = {"at start": {server.name: server.memory_mb() for server in servers}}
        rows = []
        for kind, connections in (
            *(("cold", 1), ("conversation", 1), ("cold", CONNECTIONS), ("conversation", CONNECTIONS)),
            *(("stream", 1), ("stream", CONNECTIONS), ("long", 1)),
        ):
            of_litellm = kind in ("cold", "conversation", "stream")
            asked = [server for server in servers if of_litellm or server.name != "LiteLLM"]
            rows += measured(asked, kind, connections, seconds, rounds)
        memory["after the load"] = {server.name: server.memory_mb() for server in servers}
        starts = {server.name: server.start for server in servers}
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "python": sys.version.split()[0],
        "cpus": os.cpu_count(),
        "quick": quick,
        "versions": versions(),
        "rows": rows,
        "memory": memory,
        "start": starts,
        "count": plain_counts(3 if quick else 9),
        "load": [before, list(os.getloadavg())],
    }


def measured(
    servers: Sequence[Running], kind: str, connections: int, seconds: float, rounds: int
) -> list[dict[str, Any]]:
    """Each server in turn, ``rounds`` times: a slow moment of the machine hits all alike."""
    found: dict[str, list[dict[str, Any]]] = {server.name: [] for server in servers}
    for number in range(rounds):
        for server in servers:
            busy = server.processor_seconds()
            one = load(server.url, kind, connections, seconds, f"{kind}{connections}.{number}.{server.name}")
            one["processor_ms"] = 1000 * (server.processor_seconds() - busy) / one["requests"]
            if one["bad"]:
                raise SystemExit(f"{server.name}, {kind}: {one['bad'][0]}")
            found[server.name].append(one)
    return [
        {"kind": kind, "connections": connections, "server": name, "rounds": each}
        for name, each in found.items()
    ]


def load(url: str, kind: str, connections: int, seconds: float, seed: str) -> dict[str, Any]:
    command = [sys.executable, PARTS / "load.py", url, kind, str(connections), str(seconds), seed]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


# The servers.


def start_all(stack: ExitStack) -> list[Running]:
    """The stub itself first; whoever is not installed is left out, and the table says so."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    port = free_port()
    stub = stack.enter_context(running("stub", [sys.executable, PARTS / "stub.py", str(port)], port, folder))
    servers = [stub]
    for name, start in (("bare aiohttp", PLAIN), ("tokenbox", PLAIN), ("tokenbox, fast", None)):
        own = free_port()
        if name == "bare aiohttp":
            command = [sys.executable, PARTS / "passing.py", str(own), stub.url]
        else:
            state = Path(folder, name.replace(", ", "-"))
            (state / ".tokenbox").mkdir(parents=True)
            config = CONFIG.format(port=port)
            (state / ".tokenbox" / "config.toml").write_text(config, encoding="utf-8")
            how = ["-m", "tokenbox"] if start is None else ["-c", start]
            command = [sys.executable, *how, "serve", "--port", str(own), "--quiet"]
        where = folder if name == "bare aiohttp" else str(state)
        servers.append(stack.enter_context(running(name, command, own, where)))
    if LITELLM.exists():
        own = free_port()
        config_file = Path(folder, "litellm.yaml")
        config_file.write_text(LITELLM_CONFIG.format(port=port), encoding="utf-8")
        command = [LITELLM, "--config", config_file, "--port", str(own), "--num_workers", "1"]
        servers.append(stack.enter_context(running("LiteLLM", command, own, folder, "/health/liveliness")))
    return servers


@contextmanager
def running(
    name: str, command: Sequence[str | Path], port: int, folder: str, path: str = "/healthz"
) -> Iterator[Running]:
    """The server, from its first answer on."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": folder,
        "XDG_DATA_HOME": f"{folder}/data",
        "XDG_STATE_HOME": f"{folder}/state",
        # Nobody's key is checked, as nobody's is by the others.
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "NO_PROXY": "*",
    }
    with open(f"{folder}/{name}.log", "wb") as log:  # noqa: PTH123
        began = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        while not answers(url + path):
            if process.poll() is not None or time.perf_counter() - began > 120:
                raise SystemExit(f"{name} did not start:\n{Path(folder, f'{name}.log').read_text()[-2000:]}")
            time.sleep(0.005)
        yield Running(name, url, process, time.perf_counter() - began)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def plain_counts(times: int) -> dict[str, float]:
    """Milliseconds of one plain count of the long text by the tokenizer alone, in a process of its own."""
    script = (
        "import json, sys, time\n"
        f"sys.path.insert(0, {str(PARTS)!r})\n"
        "from load import Bodies\n"
        "from tokenbox.tokenizers import get\n"
        "def main(found=[]):\n"
        "    get('o200k_base').count('a')\n"
        "    bodies = Bodies('long', 'plain')\n"
        f"    for _ in range({times}):\n"
        "        text = bodies.long()['messages'][0]['content']\n"
        "        began = time.perf_counter()\n"
        "        tokens = get('o200k_base').count(text)\n"
        "        found.append(time.perf_counter() - began)\n"
        "    found.sort()\n"
        "    print(json.dumps({'ms': 1000 * found[len(found) // 2], 'tokens': tokens}))\n"
    )
    found = {}
    for name, first in (
        ("tokenbox", "import sys; sys.modules['fastokens'] = None\n"),
        ("tokenbox, fast", ""),
    ):
        done = subprocess.run(
            [sys.executable, "-c", f"{first}{script}main()"], capture_output=True, text=True, check=True
        )
        found[name] = json.loads(done.stdout)
    return found


def versions() -> dict[str, str]:
    from importlib.metadata import version

    found = {name: version(name) for name in ("tokenbox", "aiohttp", "uvicorn", "uvloop", "tiktoken")}
    if LITELLM.exists():
        asked = "from importlib.metadata import version; print(version('litellm'))"
        done = subprocess.run(
            [LITELLM.with_name("python"), "-c", asked], capture_output=True, text=True, check=True
        )
        found["litellm"] = done.stdout.strip()
    return found


# The table.


def table(results: dict[str, Any]) -> str:
    return json.dumps(results, indent=1)
