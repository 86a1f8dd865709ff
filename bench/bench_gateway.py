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
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import table_gateway
from table_gateway import (
    BARE,
    CONNECTIONS,
    KEYS,
    OURS,
    PEER,
    QUOTA_STORES,
    VARIANTS_AT,
    WORKERS,
    keys_with,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).resolve().parent
PARTS = HERE / "gateway"
LITELLM = HERE / ".venv-gateway" / "bin" / "litellm"
# tokenbox as `pip install tokenbox-llm[gateway]` installs it: without the extra `fast`.
PLAIN = "import sys; sys.modules['fastokens'] = None; from tokenbox.cli import main; sys.exit(main())"
CONFIG = """
[upstreams.stub]
url = "http://127.0.0.1:{port}"
kind = "openai"

[models."gpt-4o"]
max_ctx = 1000000
{more}
"""
# Servers of tokenbox with other settings than the plain one.
SETTINGS = {KEYS: "[gateway]\nkeys = true", WORKERS: "[gateway]\nworkers = 2"}
QUOTA = "1000000000000 tokens/day"
# Bodies and numbers of connections.
LOADS = (
    ("cold", 1),
    ("conversation", 1),
    ("cold", CONNECTIONS),
    ("conversation", CONNECTIONS),
    ("stream", 1),
    ("stream", CONNECTIONS),
    ("long", 1),
)
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

table = table_gateway.table


@dataclass(frozen=True, slots=True)
class Running:
    """A server under test. ``start``: seconds from the start of the process to its first answer."""

    name: str
    url: str
    process: subprocess.Popen[bytes]
    start: float
    key: str = "sk-1234"

    def processor_seconds(self) -> float:
        """Return the processor time so far, of all threads and worker processes."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        pids = [self.process.pid, *map(int, listed.read_text(encoding="ascii").split())]
        ticks = 0
        for pid in pids:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def run(*, quick: bool) -> dict[str, Any]:
    seconds, rounds = (1.5, 1) if quick else (1.6, 3)
    before = list(os.getloadavg())
    with ExitStack() as stack:
        servers = start_all(stack)
        memory = {"at start": {server.name: server.memory_mb() for server in servers}}
        for server in servers:  # exclude what is loaded on first use, except from memory
            load(server, "cold", 1, 0.5, "first")
        rows = []
        for kind, connections in LOADS:
            skipped = {PEER} if kind == "long" else set()
            if (kind, connections) != VARIANTS_AT:
                skipped |= {KEYS, WORKERS, *map(keys_with, QUOTA_STORES)}
            chosen = [server for server in servers if server.name not in skipped]
            rows += measured(chosen, kind, connections, seconds, rounds)
        memory["after the load"] = {server.name: server.memory_mb() for server in servers}
        starts = {server.name: server.start for server in servers}
        calling = calls_of(servers[0].url, 50 if quick else 300)
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "python": sys.version.split()[0],
        "cpus": os.cpu_count(),
        "quick": quick,
        "versions": versions(),
        "rows": rows,
        "memory": memory,
        "start": starts,
        "calling": calling,
        "count": plain_counts(3 if quick else 9),
        "load": [before, list(os.getloadavg())],
    }


def measured(
    servers: Sequence[Running], kind: str, connections: int, seconds: float, rounds: int
) -> list[dict[str, Any]]:
    """Measure each server in turn, ``rounds`` times, so that a busy moment affects all alike."""
    found: dict[str, list[dict[str, Any]]] = {server.name: [] for server in servers}
    for number in range(rounds):
        for server in servers:
            busy = server.processor_seconds()
            one = load(server, kind, connections, seconds, f"{kind}{connections}.{number}")
            one["processor_ms"] = 1000 * (server.processor_seconds() - busy) / one["requests"]
            if one["bad"]:
                raise SystemExit(f"{server.name}, {kind}: {one['bad'][0]}")
            found[server.name].append(one)
    return [
        {"kind": kind, "connections": connections, "server": name, "rounds": each}
        for name, each in found.items()
    ]


def load(server: Running, kind: str, connections: int, seconds: float, seed: str) -> dict[str, Any]:
    arguments = [server.url, kind, str(connections), str(seconds), seed, server.key]
    command = [sys.executable, PARTS / "load.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


# The servers.


def start_all(stack: ExitStack) -> list[Running]:
    """Start the stub, then the servers. LiteLLM is skipped if it is not installed; the table says so."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    port = free_port()
    stub = stack.enter_context(running("stub", [sys.executable, PARTS / "stub.py", str(port)], port, folder))
    servers = [stub]
    settings = SETTINGS | {
        keys_with(name): f'{SETTINGS[KEYS]}\n{setting} = "{os.environ[variable]}"'
        for name, (variable, setting) in QUOTA_STORES.items()
        if variable in os.environ
    }
    starts = dict.fromkeys((BARE, *OURS, *settings), PLAIN) | {OURS[1]: None}
    for name, start in starts.items():
        own, key = free_port(), "sk-1234"
        if name == BARE:
            command = [sys.executable, PARTS / "passing.py", str(own), stub.url]
        else:
            state = Path(folder, name.replace(", ", "-"))
            (state / ".tokenbox").mkdir(parents=True)
            config = CONFIG.format(port=port, more=settings.get(name, ""))
            (state / ".tokenbox" / "config.toml").write_text(config, encoding="utf-8")
            how = [sys.executable, *(["-m", "tokenbox"] if start is None else ["-c", start])]
            if name.startswith(KEYS):
                label = f"bench-{os.urandom(4).hex()}"
                make = [*how, "gateway", "keys", "create", label, "--quota", QUOTA, "--json"]
                key = json.loads(subprocess.check_output(make, cwd=state, env=environment_of(str(state))))[
                    "key"
                ]
            command = [*how, "serve", "--port", str(own), "--quiet"]
        where = folder if name == BARE else str(state)
        servers.append(replace(stack.enter_context(running(name, command, own, where)), key=key))
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
    """Run a server; enter the block after its first answer."""
    with open(f"{folder}/{name}.log", "wb") as log:
        began = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, env=environment_of(folder), stdout=log, stderr=log)
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


def environment_of(folder: str) -> dict[str, str]:
    """Return the environment of a server whose home is ``folder``."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": folder,
        "XDG_DATA_HOME": f"{folder}/data",
        "XDG_STATE_HOME": f"{folder}/state",
        # LiteLLM checks no keys, as the other servers.
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "NO_PROXY": "*",
    }


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


def calls_of(url: str, times: int) -> dict[str, float]:
    """Return milliseconds of processor time per call of the stub, by tokenbox's client and by aiohttp's."""
    command = [sys.executable, PARTS / "calling.py", url, str(times)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def plain_counts(times: int) -> dict[str, float]:
    """Return milliseconds of one count of the long text by the tokenizer alone, in its own process."""
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

    found = {name: version(name) for name in ("tokenbox-llm", "aiohttp", "uvicorn", "uvloop", "tiktoken")}
    found = {"tokenbox": found.pop("tokenbox-llm"), **found}
    if LITELLM.exists():
        asked = "from importlib.metadata import version; print(version('litellm'))"
        done = subprocess.run(
            [LITELLM.with_name("python"), "-c", asked], capture_output=True, text=True, check=True
        )
        found["litellm"] = done.stdout.strip()
    return found
