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
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).resolve().parent
PARTS = HERE / "gateway"
LITELLM = HERE / ".venv-gateway" / "bin" / "litellm"
# tokenbox as after `pip install tokenbox-llm[gateway]`: without the extra `fast`.
PLAIN = "import sys; sys.modules['fastokens'] = None; from tokenbox.cli import main; sys.exit(main())"
CONNECTIONS = 16
TARGETS = {
    "added ms": 0.4,
    "of LiteLLM's": 1 / 15,
    "per second": 3_000,
    "per second with keys": 2_300,
    "of it with keys": 0.75,
    "two workers": 1.2,
    "times LiteLLM's": 30,
    "stream": 0.8,
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
{more}
"""
# Servers of tokenbox beside the plain one: what their settings add. All only under ``BESIDE``.
KEYS = "tokenbox, keys and quotas"
WORKERS = "tokenbox, 2 workers"
SETTINGS = {KEYS: "[gateway]\nkeys = true", WORKERS: "[gateway]\nworkers = 2"}
# The same with the quotas elsewhere, where the variable names a server: what of it, and the setting.
ELSEWHERE = {
    "PostgreSQL": ("TOKENBOX_TEST_POSTGRES", "database"),
    "Redis": ("TOKENBOX_TEST_REDIS", "redis"),
}
QUOTA = "1000000000000 tokens/day"
BESIDE = ("cold", CONNECTIONS)
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
    key: str = "sk-1234"

    def processor_seconds(self) -> float:
        """What all its threads used so far, those of its workers too."""
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
        for server in servers:  # what is loaded on first use is not part of any row but memory
            load(server, "cold", 1, 0.5, "first")
        rows = []
        for kind, connections in (
            *(("cold", 1), ("conversation", 1), ("cold", CONNECTIONS), ("conversation", CONNECTIONS)),
            *(("stream", 1), ("stream", CONNECTIONS), ("long", 1)),
        ):
            left_out = set() if (kind, connections) == BESIDE else {KEYS, WORKERS, *map(keys_with, ELSEWHERE)}
            left_out |= {PEER} if kind == "long" else set()
            asked = [server for server in servers if server.name not in left_out]
            rows += measured(asked, kind, connections, seconds, rounds)
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
    """Each server in turn, ``rounds`` times: a slow moment of the machine hits all alike."""
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
    told = [server.url, kind, str(connections), str(seconds), seed, server.key]
    command = [sys.executable, PARTS / "load.py", *told]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


# The servers.


def start_all(stack: ExitStack) -> list[Running]:
    """The stub itself first; whoever is not installed is left out, and the table says so."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    port = free_port()
    stub = stack.enter_context(running("stub", [sys.executable, PARTS / "stub.py", str(port)], port, folder))
    servers = [stub]
    settings = SETTINGS | {
        keys_with(name): f'{SETTINGS[KEYS]}\n{setting} = "{os.environ[variable]}"'
        for name, (variable, setting) in ELSEWHERE.items()
        if variable in os.environ
    }
    starts = dict.fromkeys(("bare aiohttp", *OURS, *settings), PLAIN) | {OURS[1]: None}
    for name, start in starts.items():
        own, key = free_port(), "sk-1234"
        if name == "bare aiohttp":
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
        where = folder if name == "bare aiohttp" else str(state)
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
    """The server, from its first answer on."""
    with open(f"{folder}/{name}.log", "wb") as log:  # noqa: PTH123
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
    """That of a server whose home is ``folder``."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": folder,
        "XDG_DATA_HOME": f"{folder}/data",
        "XDG_STATE_HOME": f"{folder}/state",
        # Nobody's key is checked, as nobody's is by the others.
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


def keys_with(name: str) -> str:
    """The server whose quotas are in the store of that name."""
    return f"{KEYS} in {name}"


def calls_of(url: str, times: int) -> dict[str, float]:
    """Milliseconds of processor time of a call of the stub, by tokenbox's own client and by aiohttp's."""
    command = [sys.executable, PARTS / "calling.py", url, str(times)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


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

    found = {name: version(name) for name in ("tokenbox-llm", "aiohttp", "uvicorn", "uvloop", "tiktoken")}
    found = {"tokenbox": found.pop("tokenbox-llm"), **found}
    if LITELLM.exists():
        asked = "from importlib.metadata import version; print(version('litellm'))"
        done = subprocess.run(
            [LITELLM.with_name("python"), "-c", asked], capture_output=True, text=True, check=True
        )
        found["litellm"] = done.stdout.strip()
    return found


# The table.


def table(results: dict[str, Any]) -> str:
    added = {
        (kind, name): figure(results, kind, 1, name, "p50_ms") - figure(results, kind, 1, "stub", "p50_ms")
        for kind in ("cold", "conversation")
        for name in ("bare aiohttp", *OURS, *([PEER] if has_peer(results) else []))
    }
    lines = [
        "| what | target | tokenbox | tokenbox, fast | bare aiohttp | LiteLLM |",
        "|---|---|---|---|---|---|",
    ]
    for kind in ("cold", "conversation"):
        of_peer = added.get((kind, PEER))
        lines.append(
            row(
                f"added p50, 1 connection, {kind}",
                f"{TARGETS['added ms']} ms",
                {
                    name: (f"{added[kind, name]:.2f} ms", added[kind, name] <= TARGETS["added ms"])
                    for name in OURS
                },
                f"{added[kind, 'bare aiohttp']:.2f} ms",
                None if of_peer is None else f"{of_peer:.2f} ms",
            )
        )
        if of_peer is not None:
            shares = {name: of_peer / added[kind, name] for name in OURS}
            most = 1 / TARGETS["of LiteLLM's"]
            cells = {name: (f"1/{share:.0f}", share >= most) for name, share in shares.items()}
            lines.append(row(f"... of LiteLLM's, {kind}", f"1/{most:.0f}", cells, "-", "1"))
    for kind in ("cold", "conversation"):
        rates = {name: figure(results, kind, CONNECTIONS, name, "per_second") for name in names(results)}
        cells = {name: (f"{rates[name]:,.0f}/s", rates[name] >= TARGETS["per second"]) for name in OURS}
        peer = rates.get(PEER)
        lines.append(
            row(
                f"requests/s, {CONNECTIONS} connections, {kind}",
                f"{TARGETS['per second']:,}/s",
                cells,
                f"{rates['bare aiohttp']:,.0f}/s",
                None if peer is None else f"{peer:,.0f}/s",
            )
        )
        if peer is not None:
            times = {name: rates[name] / peer for name in OURS}
            cells = {
                name: (f"{value:.0f}x", value >= TARGETS["times LiteLLM's"]) for name, value in times.items()
            }
            lines.append(row(f"... of LiteLLM's, {kind}", f"{TARGETS[TIMES]}x", cells, "-", "1x"))
        spent = {name: figure(results, kind, CONNECTIONS, name, "processor_ms") for name in names(results)}
        cells = {name: (f"{spent[name]:.2f} ms", None) for name in OURS}
        peer_spent = f"{spent[PEER]:.2f} ms" if PEER in spent else None
        lines.append(
            row(
                f"... processor time each, {kind}",
                "reported",
                cells,
                f"{spent['bare aiohttp']:.2f} ms",
                peer_spent,
            )
        )
    lines += beside(results)
    calling = results["calling"]
    cells = dict.fromkeys(OURS, (f"{calling['tokenbox']:.3f} ms", None))
    lines.append(
        row("... of it, the call of the upstream", "reported", cells, f"{calling['aiohttp']:.3f} ms", "-")
    )
    for connections in (1, CONNECTIONS):
        rates = {
            name: figure(results, "stream", connections, name, "events_per_second") for name in names(results)
        }
        bare = rates["bare aiohttp"]
        cells = {
            name: (
                f"{rates[name]:,.0f}/s, {rates[name] / bare:.2f}x",
                rates[name] / bare >= TARGETS["stream"],
            )
            for name in OURS
        }
        peer_rate = f"{rates[PEER]:,.0f}/s" if PEER in rates else None
        what = f"stream, events/s, {connections} connection{'s' if connections > 1 else ''}"
        lines.append(row(what, f"{TARGETS['stream']}x bare", cells, f"{bare:,.0f}/s", peer_rate))
    cells = {}
    for name in OURS:
        took = figure(results, "long", 1, name, "p50_ms")
        ratio = took / results["count"][name]["ms"]
        cells[name] = (f"{took:.1f} ms, {ratio:.2f}x", ratio <= TARGETS["long"])
    bare_long = f"{figure(results, 'long', 1, 'bare aiohttp', 'p50_ms'):.1f} ms"
    lines.append(row("100,000 tokens, of one plain count", f"{TARGETS['long']}x", cells, bare_long, None))
    for when in ("at start", "after the load"):
        found = results["memory"][when]
        is_met = {"tokenbox": found["tokenbox"] < TARGETS["memory"], "tokenbox, fast": None}
        cells = {name: (f"{found[name]:.0f} MB", is_met[name]) for name in OURS}
        peer_memory = f"{found[PEER]:.0f} MB" if PEER in found else None
        wanted = f"{TARGETS['memory']} MB without fast"
        lines.append(
            row(f"resident memory, {when}", wanted, cells, f"{found['bare aiohttp']:.0f} MB", peer_memory)
        )
    starts = results["start"]
    cells = {name: (f"{starts[name]:.2f} s", starts[name] < TARGETS["start"]) for name in OURS}
    peer_start = f"{starts[PEER]:.1f} s" if PEER in starts else None
    lines.append(
        row(
            "start to the first answer",
            f"{TARGETS['start']:.0f} s",
            cells,
            f"{starts['bare aiohttp']:.2f} s",
            peer_start,
        )
    )
    before, after = results["load"]
    about = (
        f"{results['when']}, Python {results['python']}, {results['cpus']} CPUs; load {before[0]:.1f}, "
        f"{after[0]:.1f} after{' (a quick run)' if results['quick'] else ''}. "
        + ", ".join(f"{name} {version}" for name, version in results["versions"].items())
        + ". One worker each, in turn, medians; one stub behind all, exact counts (o200k, OpenAI's "
        "rules) and `enforce` in tokenbox; LiteLLM with its defaults, which count nothing. 700 words in "
        "each body, of one book: `cold`, no message of which came before; `conversation`, ten messages, "
        "eight as before."
    )
    return "\n".join(["# The gateway", "", about + BUSY * (before[0] > results["cpus"]), "", *lines, ""])


def beside(results: dict[str, Any]) -> list[str]:
    """The rows of the servers that are measured only under ``BESIDE``."""
    plain = figure(results, *BESIDE, OURS[0], "per_second")
    keyed, both = (figure(results, *BESIDE, name, "per_second") for name in (KEYS, WORKERS))
    most, share, times = (
        TARGETS[name] for name in ("per second with keys", "of it with keys", "two workers")
    )
    found = (
        ("with keys and quotas", f"{most:,}/s", f"{keyed:,.0f}/s", keyed >= most),
        ("... of those without", f"{share}x", f"{keyed / plain:.2f}x", keyed / plain >= share),
        *(
            (f"... in {name}", "reported", f"{there:,.0f}/s, {there / plain:.2f}x", None)
            for name in ELSEWHERE
            if any(found["server"] == keys_with(name) for found in results["rows"])
            for there in (figure(results, *BESIDE, keys_with(name), "per_second"),)
        ),
        ("with 2 workers", f"{times}x", f"{both:,.0f}/s, {both / plain:.2f}x", both / plain >= times),
    )
    return [
        row(
            f"requests/s, {CONNECTIONS} connections, cold, {what}",
            target,
            {"": (text, met), " ": ("-", None)},
            "-",
            "-",
        )
        for what, target, text, met in found
    ]


BUSY = (
    " **Other programs used the processors meanwhile**: compare the columns of this run with each other, "
    "and no figure with another run's."
)
OURS = ("tokenbox", "tokenbox, fast")
PEER = "LiteLLM"
TIMES = "times LiteLLM's"


def row(
    what: str,
    target: str,
    cells: dict[str, tuple[str, bool | None]],
    bare: str,
    peer: str | None,
) -> str:
    shown = [text + {True: "", False: " **NO**", None: ""}[met] for text, met in cells.values()]
    return (
        f"| {what} | {target} | {' | '.join(shown)} | {bare} | {'not measured' if peer is None else peer} |"
    )


def names(results: dict[str, Any]) -> list[str]:
    return ["bare aiohttp", *OURS, *([PEER] if has_peer(results) else [])]


def has_peer(results: dict[str, Any]) -> bool:
    return any(found["server"] == PEER for found in results["rows"])


def figure(results: dict[str, Any], kind: str, connections: int, server: str, name: str) -> float:
    """The median over the rounds."""
    wanted = (kind, connections, server)
    found = next(r for r in results["rows"] if (r["kind"], r["connections"], r["server"]) == wanted)
    return float(median(one[name] for one in found["rounds"]))
