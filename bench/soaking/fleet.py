"""The gateways of the soak, with their own database, quotas and keys."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import redis
from bench_gateway import answers, free_port
from soaking.request_mix import KEYS, NARROW

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).resolve().parent
# The key of the upstream, which no response may contain.
UPSTREAM_KEY = "sk-soak-0123456789abcdef"
# Timeouts of the gateway: for a silent upstream, and for a client that reads nothing.
IDLE_SECONDS = 4
SEND_SECONDS = 6
CONFIG = """
[gateway]
keys = true
database = "{database}"
redis = "{redis}"
state = "{state}"
idle_seconds = {idle}
send_seconds = {send}
{policy}

[upstreams.counts]
url = "http://127.0.0.1:{port}"
kind = "llama.cpp"
key_env = "SOAK_UPSTREAM_KEY"
models = ["soak", "small"]
concurrency = 256

[upstreams.counted]
url = "http://127.0.0.1:{port}"
kind = "openai"
key_env = "SOAK_UPSTREAM_KEY"
models = ["gpt-*"]
concurrency = 256

[upstreams.narrow]
url = "http://127.0.0.1:{port}"
kind = "llama.cpp"
key_env = "SOAK_UPSTREAM_KEY"
models = ["busy"]
concurrency = 2
queue = 2
queue_seconds = 1

[models."gpt-4o"]
max_ctx = 1000000

[models.small]
max_ctx = {small}

[catalog.soak]
price_input = 1
price_output = 5
"""
# Settings that a reload changes: how requests are made to fit, and the window of ``small``.
POLICIES = (
    ('fit = ["evict"]', 4_000),
    ('fit = ["truncate", "evict"]\nlow_water = 0.8', 8_000),
    ('fit = ["compact"]', 4_000),
)
START_SECONDS = 60.0
# Caches so small that they are full within a minute: later growth of memory is not theirs.
SMALL = (
    "import sys; from tokenbox.gateway import application; application.CACHED_CHARACTERS = 1_000_000; "
    "from tokenbox.tokenizers import words; words._MAX_WORDS = 1_024; "
    "from tokenbox.gateway import models; models._MOST_KNOWN = 64; "
    "from tokenbox.cli import main; sys.exit(main())"
)


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of a gateway at one time, and its open files."""

    tasks: int = 0
    running: int = 0
    files_waiting: int = 0
    mistakes: int = 0
    files: int = 0

    @classmethod
    def of(cls, page: str, files: int) -> Metrics:
        """Parse a page of /metrics; add up the values of all labels."""
        found: Counter[str] = Counter()
        for line in page.splitlines():
            if not line.startswith("#"):
                named, _, value = line.rpartition(" ")
                found[named.partition("{")[0].removeprefix("tokenbox_")] += int(float(value))
        return cls(
            tasks=found["tasks"],
            running=found["upstream_running"] + found["upstream_waiting"],
            files_waiting=found["spool_files_waiting"],
            mistakes=found["mistakes_total"],
            files=files,
        )


@dataclass(slots=True)
class GatewayRun:
    """A process of a gateway. ``samples``: (time, requests, MB, open files).

    ``idle``: metrics before its first request; ``at_rest``: after the load.
    """

    process: subprocess.Popen[bytes]
    samples: list[tuple[float, int, float, int]] = field(default_factory=list)
    requests: int = 0
    idle: Metrics = Metrics()
    at_rest: Metrics = Metrics()


@dataclass(slots=True)
class Gateway:
    """One of the gateways: a port and a folder, which its next process uses again."""

    number: int
    port: int
    folder: Path
    runs: list[GatewayRun] = field(default_factory=list)
    is_up: bool = False
    reloads: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def run(self) -> GatewayRun:
        return self.runs[-1]

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> None:
        """Start a process and wait until it answers."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_STATE_HOME": str(self.folder / "home"),
            "TOKENBOX_USER_CONFIG": str(self.folder / "config.toml"),
            "SOAK_UPSTREAM_KEY": UPSTREAM_KEY,
        }
        command = [sys.executable, "-c", SMALL, "serve", "--port", str(self.port), "--quiet"]
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log)
        self.runs.append(GatewayRun(process))
        deadline = time.monotonic() + START_SECONDS
        while not answers(f"{self.url}/healthz"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the gateway did not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.02)
        self.is_up = True

    def stop(self) -> int:
        self.is_up = False
        self.run.process.send_signal(signal.SIGTERM)
        return self.run.process.wait(90)

    def kill(self) -> None:
        self.is_up = False
        if self.run.process.poll() is None:
            self.run.process.kill()
            self.run.process.wait()

    def reload(self) -> None:
        self.reloads += 1
        self.run.process.send_signal(signal.SIGHUP)

    def has_reloaded(self) -> bool:
        return self.log.read_bytes().count(b'"event":"reloaded"') >= self.reloads

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.run.process.pid}/status").read_text(encoding="ascii")
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024

    def open_files(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.run.process.pid}/fd").iterdir())

    def sample(self) -> None:
        with suppress(OSError):  # the process is being killed
            run = self.run
            run.samples.append((time.time(), run.requests, self.memory_mb(), self.open_files()))

    @property
    def files_waiting(self) -> int:
        return sum(1 for _ in self.state.glob("*.jsonl"))

    @property
    def bad_files(self) -> int:
        return sum(1 for _ in self.state.glob("*.bad"))


class Database:
    """A database of the soak's own on the server at ``address``, dropped at the end."""

    def __init__(self, address: str) -> None:
        self._server = psycopg.connect(address, autocommit=True, connect_timeout=5)
        self.name = f"tokenbox_soak_{uuid4().hex[:12]}"
        self._server.execute(f'CREATE DATABASE "{self.name}"')
        parts = urlsplit(address)
        self.direct = urlunsplit(parts._replace(path=f"/{self.name}"))
        self.host, self.port = self._server.info.host, self._server.info.port
        ((version,),) = self._server.execute("SHOW server_version").fetchall()
        self.version = str(version).split()[0]

    def by(self, port: int) -> str:
        """Return its address with another port of this machine."""
        parts = urlsplit(self.direct)
        user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        return urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{port}"))

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.direct) as connection:
            return connection.execute(statement).fetchall()

    def drop(self) -> None:
        self._server.execute(f'DROP DATABASE "{self.name}" WITH (FORCE)')
        self._server.close()


class QuotaStore:
    """The quotas of our keys in Redis, read without tokenbox."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._redis = redis.Redis.from_url(url, decode_responses=True)
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 6379
        self.version = str(self._redis.info("server")["redis_version"])

    def by(self, port: int) -> str:
        parts = urlsplit(self.url)
        user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        return urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{port}"))

    def of(self, key_id: str) -> dict[str, int]:
        """Return the buckets of a key, such as ``tokens/minute/20261121T1330``, and their use."""
        prefix = f"tokenbox:quota:{key_id}/"
        names = list(self._redis.scan_iter(f"{prefix}*", count=1000))
        return {name.removeprefix(prefix): int(self._redis.get(name) or 0) for name in names}

    def unsettled(self, key_ids: Sequence[str]) -> list[str]:
        """Return the reservations that were never settled."""
        ours = tuple(f"tokenbox:quota:{key_id}/" for key_id in key_ids)
        return [
            str(name)
            for name in self._redis.scan_iter("tokenbox:quota:reserved:*", count=1000)
            if any(str(bucket).startswith(ours) for bucket in self._redis.hkeys(name))
        ]

    def forget(self, key_ids: Sequence[str]) -> None:
        for name in self.unsettled(key_ids):
            self._redis.delete(name)
        for key_id in key_ids:
            for bucket in self.of(key_id):
                self._redis.delete(f"tokenbox:quota:{key_id}/{bucket}")
        self._redis.close()


@dataclass(frozen=True, slots=True)
class Keys:
    """The secrets of the keys by name, and their ids."""

    secrets: dict[str, str]
    ids: dict[str, str]


def make_keys(database: str) -> Keys:
    """Create the keys with the command of operators."""
    found = Keys({"nobody": "tbk_" + "x" * 43}, {})
    options = {name: [] if quota is None else ["--quota", quota] for name, (_, quota) in KEYS.items()}
    options[NARROW] = ["--model", "soak", "--mode", "enforce"]
    for name, more in options.items():
        command = [sys.executable, "-m", "tokenbox", "gateway", "keys", "create", name, *more, "--json"]
        done = subprocess.run([*command, "--database", database], capture_output=True, check=True, timeout=60)
        made = json.loads(done.stdout)
        found.secrets[name], found.ids[name] = made["key"], made["id"]
    return found


def write_config(gateway: Gateway, policy: int, *, database: str, quotas: str, upstream: int) -> None:
    """Write the configuration of a gateway atomically."""
    policy_lines, small = POLICIES[policy % len(POLICIES)]
    config = CONFIG.format(
        database=database,
        redis=quotas,
        state=gateway.state,
        idle=IDLE_SECONDS,
        send=SEND_SECONDS,
        policy=policy_lines,
        small=small,
        port=upstream,
    )
    new = gateway.folder / "config.new"
    new.write_text(config, encoding="utf-8")
    new.replace(gateway.folder / "config.toml")


def new_gateway(number: int, folder: Path) -> Gateway:
    own = folder / f"gateway{number}"
    own.mkdir()
    return Gateway(number, free_port(), own)
