"""Several workers on one port: who answers makes no difference, and none of them can be missed."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import SECONDS, until

if TYPE_CHECKING:
    from tests.gateway.running import Gateways, RunningGateway, Stub

PATH = "/v1/chat/completions"
CONFIG = """
[upstreams.stub]
url = "{url}"
kind = "vllm"
concurrency = 40
"""
COUNT = 2


def chat(**more: object) -> dict[str, Any]:
    return {"model": "stub", "max_tokens": 3, "messages": [{"role": "user", "content": "0000"}], **more}


def workers_of(gateway: RunningGateway) -> list[int]:
    """Their process ids, in the order of their starts."""
    lines = (json.loads(line) for line in gateway.log.splitlines() if line.startswith("{"))
    return [line["pid"] for line in lines if line["event"] == "worker_started"]


def ask_often(gateway: RunningGateway, count: int, **headers: str) -> list[int]:
    """The statuses of so many requests, each on a connection of its own, so that every worker gets some."""
    statuses: list[int] = []

    def ask() -> None:
        for _ in range(count // 4):
            line = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=SECONDS)
            line.request("POST", PATH, json.dumps(chat()), {"content-type": "application/json", **headers})
            statuses.append(line.getresponse().status)
            line.close()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    return statuses


@pytest.fixture(scope="module")
def gateway(shared_gateways: Gateways, upstream: Stub) -> RunningGateway:
    options = ["--workers", str(COUNT), "--database", str(shared_gateways.folder / "own.db")]
    return shared_gateways(config=CONFIG.format(url=upstream.url), options=options)


@pytest.mark.slow
def test_figures_are_those_of_all_workers_together(gateway: RunningGateway) -> None:
    before = gateway.metric("tokenbox_requests_total", route="chat")
    assert ask_often(gateway, 40) == [200] * 40
    for _ in range(8):  # whichever worker is asked
        assert gateway.metric("tokenbox_requests_total", route="chat") == before + 40
        assert gateway.metric("tokenbox_request_seconds_count", route="chat") == before + 40
    assert gateway.metric("tokenbox_build_info") == 1
    served = {json.loads(line).get("pid") for line in gateway.log.splitlines() if '"worker_started"' in line}
    assert len(served) == COUNT


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced_and_the_port_answers_on(gateway: RunningGateway) -> None:
    started = workers_of(gateway)
    os.kill(started[-1], signal.SIGKILL)
    until(lambda: len(workers_of(gateway)) == len(started) + 1, "another worker in its place")
    assert ask_often(gateway, 20) == [200] * 20


def test_a_reload_reaches_every_worker_and_drops_no_connection(
    gateway: RunningGateway, upstream: Stub
) -> None:
    lines = [
        http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=SECONDS) for _ in range(8)
    ]

    def ask() -> list[int]:
        found = []
        for line in lines:
            line.request("POST", PATH, json.dumps(chat()), {"content-type": "application/json"})
            answer = line.getresponse()
            answer.read()
            found.append(answer.status)
        return found

    assert ask() == [200] * 8
    config = gateway.folder / ".tokenbox" / "config.toml"
    config.write_text(CONFIG.format(url=upstream.url) + "[policy]\nmax_ctx = 2\n", encoding="utf-8")
    gateway.process.send_signal(signal.SIGHUP)
    until(lambda: gateway.log.count('"reloaded"') == COUNT, "a reload of each worker")
    assert ask() == [400] * 8
    config.write_text(CONFIG.format(url=upstream.url), encoding="utf-8")
    gateway.process.send_signal(signal.SIGHUP)
    until(lambda: gateway.log.count('"reloaded"') == 2 * COUNT, "another reload of each worker")
    assert ask() == [200] * 8
    for line in lines:
        line.close()


def test_a_quota_is_used_up_exactly_over_workers(start_gateway: Gateways, upstream: Stub) -> None:
    database = str(start_gateway.folder / "own.db")
    each = 15
    key = start_gateway.command(
        *(
            "gateway",
            "keys",
            "create",
            "alice",
            "--quota",
            f"{20 * each} tokens/month",
            "--database",
            database,
        )
    )
    options = ["--workers", str(COUNT), "--database", database, "--keys"]
    gateway = start_gateway(config=CONFIG.format(url=upstream.url), options=options)
    statuses = ask_often(gateway, 60, authorization=f"Bearer {key}")
    assert set(statuses) <= {200, 429}
    used = gateway.metric("tokenbox_tokens_total")
    assert 0 < used <= 20 * each
    assert gateway.stop() == 0
    with closing(sqlite3.connect(database)) as connection:
        ((in_ledger, tokens),) = connection.execute(
            "SELECT count(*), sum(input_tokens + output_tokens) FROM tokenbox_calls"
        )
        ((level,),) = connection.execute("SELECT used FROM tokenbox_quota_levels")
    assert (in_ledger, tokens, level) == (statuses.count(200), used, used)


def test_a_stop_ends_all_workers(start_gateway: Gateways, upstream: Stub) -> None:
    gateway = start_gateway(upstream.url, options=["--workers", "3"])
    pids = workers_of(gateway)
    assert gateway.stop() == 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_workers_whose_supervisor_was_killed_end(start_gateway: Gateways, upstream: Stub) -> None:
    gateway = start_gateway(upstream.url, options=["--workers", "2"])
    pids = workers_of(gateway)
    gateway.process.kill()
    gateway.process.wait(SECONDS)

    def is_over(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"

    until(lambda: all(map(is_over, pids)), "the end of the workers")


@pytest.mark.parametrize(
    ("config", "options", "says"),
    [
        ("concurrency = 1", ["--workers", "2"], "upstreams.stub.concurrency is 1"),
        ("", ["--workers", "2", "--port", "{taken}"], "another program uses it"),
        ("", ["--port", "{taken}"], "another program uses it"),
    ],
)
def test_what_cannot_start_says_why(
    start_gateway: Gateways, upstream: Stub, config: str, options: list[str], says: str
) -> None:
    text = f'[upstreams.stub]\nurl = "{upstream.url}"\n{config}\n'
    filled = [option.format(taken=upstream.port) for option in options]
    gateway = start_gateway(config=text, options=filled, wait=False)
    assert gateway.process.wait(SECONDS) != 0
    assert says in gateway.log
