"""Running it: signals, readiness, figures, spans, proofs."""

from __future__ import annotations

import asyncio
import http.client
import http.server
import json
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.running import chat
from tests.waiting import SECONDS, until
from tokenbox.conversation.calibration import Calibration
from tokenbox.gateway import counting
from tokenbox.gateway.application import gateway_of
from tokenbox.gateway.authentication import Grant
from tokenbox.gateway.log import RequestLog
from tokenbox.gateway.services import Stores
from tokenbox.gateway.settings import GatewaySettings, Mode, RequestLimits, UpstreamSettings
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.gateway.running import Gateways, RunningGateway, Stub

PATH = "/v1/chat/completions"
MARKER = "CONTENT-9d2f"


def connect(gateway: RunningGateway) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=SECONDS)


def send(connection: http.client.HTTPConnection, body: object) -> None:
    connection.request("POST", PATH, json.dumps(body), {"content-type": "application/json"})


@pytest.mark.slow
def test_a_stop_lets_streams_finish(start_gateway: Gateways, upstream: Stub) -> None:
    gateway = start_gateway(upstream.url)
    connection = connect(gateway)
    send(connection, chat(stream=True, metadata={"fault": "slow_stream"}))
    answer = connection.getresponse()
    first = answer.read1()
    gateway.process.send_signal(signal.SIGTERM)
    rest = answer.read()
    connection.close()
    assert b"[DONE]" in first + rest
    assert gateway.process.wait(SECONDS) == 0
    assert '"event":"stopped"' in gateway.log


def test_a_check_in_progress_does_not_make_a_draining_gateway_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> dict[str, dict[str, Any]]:
        settings = GatewaySettings(
            (UpstreamSettings("one", "http://127.0.0.1:9"),),
            database=str(tmp_path / "own.db"),
            state=str(tmp_path / "state"),
        )
        _, services = gateway_of(settings, Stores.open(settings), RequestLog(None))
        await services.open()
        started, released = asyncio.Event(), asyncio.Event()

        async def answer(_: str, **__: object) -> tuple[int, object]:
            started.set()
            await released.wait()
            return 200, {}

        monkeypatch.setattr(services.upstreams[0], "json", answer)
        check = asyncio.create_task(services.checks())
        await started.wait()
        services.drain()
        released.set()
        await check
        checks = await services.checks()
        await services.close()
        return checks

    assert asyncio.run(go()) == {"stopping": {"ok": False}}


def test_a_reload_says_which_settings_need_a_restart(tmp_path: Path) -> None:
    """Else an operator who asks for keys would believe that they are asked for."""
    lines: list[str] = []
    of_all = GatewaySettings(
        (UpstreamSettings("one", "http://127.0.0.1:9"),),
        workers=2,
        database=str(tmp_path / "own.db"),
        state=str(tmp_path / "state"),
    )
    settings = of_all.of_worker(0, 2)

    async def go() -> GatewaySettings:
        _, services = gateway_of(settings, Stores.open(settings), RequestLog(lines.append))
        await services.open()
        services.reload(replace(settings, mode=Mode.FIT))
        services.reload(replace(of_all, workers=3).of_worker(0, 2))
        services.reload(replace(settings, keys_required=True, cors_origins=("https://page.example",)))
        await services.close()
        return services.settings

    assert asyncio.run(go()) == settings
    events = [json.loads(line) for line in lines]
    changed = [event["need_restart"] for event in events if event["event"] == "reloaded"]
    assert changed == [[], ["workers"], ["keys_required", "cors_origins"]]


@pytest.mark.parametrize(("kind", "loaded"), [("openai", ["o200k_base"]), ("vllm", [])])
def test_the_vocabulary_of_openai_is_loaded_before_a_client_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, loaded: list[str]
) -> None:
    found: list[str] = []
    monkeypatch.setattr(counting, "_load", lambda tokenizer: found.append(tokenizer.identity.name))
    settings = GatewaySettings(
        (UpstreamSettings("one", "http://127.0.0.1:9", kind=kind),),
        database=str(tmp_path / "own.db"),
        state=str(tmp_path / "state"),
    )

    async def go() -> None:
        _, services = gateway_of(settings, Stores.open(settings), RequestLog(None))
        await services.open()
        await asyncio.sleep(0)  # what was begun runs up to its first wait
        await services.close()

    asyncio.run(go())
    assert found == loaded


def test_an_openai_upstream_of_a_reload_has_its_vocabulary_loaded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setattr(counting, "_load", lambda tokenizer: found.append(tokenizer.identity.name))
    one = UpstreamSettings("one", "http://127.0.0.1:9", kind="vllm")
    settings = GatewaySettings((one,), database=str(tmp_path / "own.db"), state=str(tmp_path / "state"))

    async def go() -> None:
        _, services = gateway_of(settings, Stores.open(settings), RequestLog(None))
        await services.open()
        services.reload(replace(settings, upstreams=(one, replace(one, name="two", kind="openai"))))
        await asyncio.sleep(0)
        await services.close()

    asyncio.run(go())
    assert found == ["o200k_base"]


STOPPED_WHILE_IT_LOADS = """
import asyncio, threading
from tokenbox.conversation.calibration import Calibration
from tokenbox.gateway import counting
from tokenbox.gateway.settings import RequestLimits
from tokenbox.tokenizers.registry import get

begun = threading.Event()

def load(_):
    begun.set()
    threading.Event().wait()  # for ever

async def go():
    counts = counting.RequestCounting(RequestLimits(), Calibration())
    loading = asyncio.create_task(counts.load(get("o200k_base")))
    await asyncio.to_thread(begun.wait)

counting._load = load
asyncio.run(go())
"""


def test_the_end_of_a_gateway_does_not_wait_for_a_vocabulary() -> None:
    command = [sys.executable, "-c", STOPPED_WHILE_IT_LOADS]
    ended = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_request_that_leaves_does_not_stop_a_load_that_others_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on, found = threading.Event(), []
    monkeypatch.setattr(counting, "_load", lambda _: found.append(go_on.wait(SECONDS)))

    async def go() -> None:
        counts = counting.RequestCounting(RequestLimits(), Calibration())
        first, second = (asyncio.create_task(counts.load(get("o200k_base"))) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        go_on.set()
        await second

    asyncio.run(go())
    assert found == [True]


def test_names_that_no_request_can_have_do_not_keep_the_other_models_from_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> list[str]:
        settings = GatewaySettings(
            (UpstreamSettings("one", "http://127.0.0.1:9", kind="vllm"),),
            database=str(tmp_path / "own.db"),
            state=str(tmp_path / "state"),
        )
        _, services = gateway_of(settings, Stores.open(settings), RequestLog(None))
        await services.open()

        async def answer(*_: object, **__: object) -> tuple[int, object]:
            return 200, {"data": [{"id": ""}, {"id": "a\nb"}, {"id": 5}, None, {"id": "mine"}]}

        monkeypatch.setattr(services.upstreams[0], "json", answer)
        items = await services.upstream_models(services.upstreams[0], Grant())
        await services.close()
        return [item["id"] for item in items]

    assert asyncio.run(go()) == ["mine"]


def test_a_gateway_is_not_ready_while_its_disk_is_full(start_gateway: Gateways, upstream: Stub) -> None:
    """It said that it was, and refused every request. Each check writes, so it sees when there is room."""
    gateway = start_gateway(upstream.url)
    pid, unlimited = gateway.process.pid, resource.RLIM_INFINITY
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, unlimited))  # files get no more bytes, as on a full disk
    until(lambda: not gateway.get("/readyz").json["checks"]["spool"]["ok"])
    ready = gateway.get("/readyz")
    assert (ready.status, ready.json["status"]) == (503, "not ready")
    assert ready.json["checks"]["spool"] == {"ok": False, "error": "spool_unusable"}
    assert gateway.post(PATH, chat()).json["error"]["code"] == "spool_unusable"
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
    until(lambda: gateway.get("/readyz").status == 200)
    assert gateway.post(PATH, chat()).status == 200


def test_a_gateway_that_drains_answers_on_and_says_that_it_is_not_ready(
    start_gateway: Gateways, upstream: Stub
) -> None:
    gateway = start_gateway(upstream.url, config="[gateway]\ndrain_seconds = 600\n")
    assert gateway.get("/readyz").status == 200
    gateway.process.send_signal(signal.SIGTERM)
    until(lambda: gateway.get("/readyz").status == 503)
    assert gateway.post(PATH, chat()).status == 200
    gateway.process.send_signal(signal.SIGTERM)  # the second ends the waiting
    assert gateway.process.wait(SECONDS) == 0


@pytest.mark.slow
def test_a_reload_changes_policies_and_drops_no_connection(start_gateway: Gateways, upstream: Stub) -> None:
    one = f"[upstreams.one]\nurl = '{upstream.url}'\n"
    other = f"[upstreams.other]\nurl = '{upstream.url}'\nmodels = ['other']\n"
    gateway = start_gateway(config=f"[policy]\nmax_ctx = 500\n{one}{other}")
    assert 'upstream_running{upstream="other"}' in gateway.get("/metrics").data.decode()
    connection = connect(gateway)
    send(connection, chat("word " * 600))
    refused = connection.getresponse()
    assert (refused.status, json.loads(refused.read())["tokenbox"]["window"]) == (400, 500)
    used = connection.sock
    stream = connect(gateway)
    send(stream, chat(stream=True, metadata={"fault": "slow_stream"}))
    streaming = stream.getresponse()
    settings = gateway.folder / ".tokenbox" / "config.toml"
    settings.write_text(f"[policy]\nmax_ctx = 5000\n{one}", encoding="utf-8")
    second = gateway.folder / "pyproject.toml"
    second.write_text("[tool.tokenbox.policy]\nheadroom = 0\n", encoding="utf-8")
    gateway.process.send_signal(signal.SIGHUP)
    until(lambda: '"event":"reloaded"' in gateway.log)
    assert 'upstream="other"' not in gateway.get("/metrics").data.decode()
    send(connection, chat("word " * 600))
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    answer.read()
    assert connection.sock is used
    assert b"[DONE]" in streaming.read()
    with closing(connect(gateway)) as stray:
        stray.connect()
        stray.sock.sendall(b"no HTTP\r\n\r\n")
        assert b"invalid_http" in stray.sock.recv(1000)
    # Settings of which a file is gone change nothing, even if it was added after the start, nor do settings
    # that are wrong, or without an upstream.
    second.unlink()
    gateway.process.send_signal(signal.SIGHUP)
    until(lambda: "pyproject.toml is gone, so its settings stay" in gateway.log)
    second.write_text("[tool.tokenbox.policy]\nheadroom = 0\n", encoding="utf-8")
    settings.write_text("[policy]\nmax_ctx = -1\n", encoding="utf-8")
    gateway.process.send_signal(signal.SIGHUP)
    until(lambda: gateway.log.count('"not_reloaded"') == 2)
    settings.write_text("", encoding="utf-8")
    gateway.process.send_signal(signal.SIGHUP)
    until(lambda: "no upstream is configured" in gateway.log)
    settings.unlink()
    gateway.process.send_signal(signal.SIGHUP)
    until(lambda: "config.toml is gone, so its settings stay" in gateway.log)
    # After what standard output says, all of it is JSON, also what the server itself warns of.
    events = [json.loads(line)["event"] for line in gateway.log.splitlines()[1:]]
    expected = {"started", "request", "admitted_on_estimate", "reloaded", "warned", "not_reloaded"}
    assert expected == set(events)
    send(connection, chat("word " * 600))
    assert connection.getresponse().status == 200
    connection.close()
    stream.close()


def test_figures_are_prometheus_and_reconciled(start_gateway: Gateways, upstream: Stub) -> None:
    gateway = start_gateway(upstream.url)
    for _ in range(3):
        assert gateway.post(PATH, chat("word " * 50)).status == 200
    gateway.post(PATH, chat("word " * 9000))
    page = gateway.get("/metrics").data.decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert all(name.startswith("tokenbox_") for name in families)
    for family in families.values():
        assert family.documentation
        if family.type == "counter":
            assert all(sample.name.endswith(("_total", "_created")) for sample in family.samples)
    assert gateway.metric("tokenbox_requests_total", status="200") == 3
    assert gateway.metric("tokenbox_refusals_total", code="context_length_exceeded") == 1
    assert gateway.metric("tokenbox_predictions_reconciled_total") == 3
    # The stub counts another way than the estimate: that is a metric.
    assert gateway.metric("tokenbox_prediction_mismatches_total", exact="false") == 3
    assert gateway.metric("tokenbox_prediction_difference_tokens_total") > 0
    assert gateway.metric("tokenbox_tokens_total", kind="output") == 9
    assert gateway.metric("tokenbox_request_seconds_count") == 4


def test_the_ledger_says_how_a_call_ended(start_gateway: Gateways, upstream: Stub) -> None:
    database = start_gateway.folder / "own.db"
    gateway = start_gateway(upstream.url, options=["--database", str(database)])
    broken = chat(stream=True, max_tokens=1, metadata={"fault": "half_a_chunk"})
    assert gateway.post(PATH, broken).status == 200
    assert gateway.post(PATH, chat(max_tokens=2, metadata={"fault": "bad_json"})).status == 502
    assert gateway.post(PATH, chat(max_tokens=3)).status == 200
    leaving = connect(gateway)
    send(leaving, chat(stream=True, max_tokens=4, metadata={"fault": "endless"}))
    leaving.getresponse().read1()
    assert leaving.sock is not None
    leaving.sock.close()
    leaving.close()
    until(lambda: gateway.metric("tokenbox_upstream_running") == 0)
    gateway.stop()
    with closing(sqlite3.connect(database)) as connection:
        found = dict(connection.execute("SELECT reserved_output, outcome FROM tokenbox_calls"))
    assert found == {1: "failed", 2: "failed", 3: "done", 4: "stopped"}


@pytest.mark.slow
def test_proofs_of_every_decision(start_gateway: Gateways, upstream: Stub) -> None:
    gateway = start_gateway(upstream.url, config="[proof]\nwrite = true\n")
    sent = gateway.post(PATH, chat(MARKER))
    refused = gateway.post(PATH, chat("word " * 9000))
    fitted = gateway.post(
        PATH,
        {**chat(), "messages": [{"role": "user", "content": "word " * 9000}, *chat()["messages"]]},
        x_tokenbox_mode="fit",
    )
    assert (sent.status, refused.status, fitted.status) == (200, 400, 200), fitted.data
    ids = [answer.headers["x-tokenbox-layout"] for answer in (sent, refused, fitted)]
    assert len(set(ids)) == 3
    folder = gateway.folder / ".tokenbox" / "proof"
    kept = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert kept == {*ids, "log"}  # beside the log of the folder
    for proof in ids:
        start_gateway.command("proof", "verify", proof, "--dir", str(folder))
    assert sent.json["tokenbox"]["layout"] == ids[0]
    for path in folder.rglob("*"):
        assert not path.is_file() or MARKER.encode() not in path.read_bytes()


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes spans as OpenTelemetry's collector does."""

    got: list[ExportTraceServiceRequest] = []  # noqa: RUF012

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            import gzip

            data = gzip.decompress(data)
        self.got.append(ExportTraceServiceRequest.FromString(data))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[str]:
    Collector.got.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_spans_by_the_conventions_without_content(
    start_gateway: Gateways, upstream: Stub, collector: str
) -> None:
    gateway = start_gateway(upstream.url, env={"OTEL_EXPORTER_OTLP_ENDPOINT": collector})
    trace = "0af7651916cd43dd8448eb211c80319c"
    assert gateway.post(PATH, chat(MARKER), traceparent=f"00-{trace}-b7ad6b7169203331-01").status == 200
    assert gateway.post(PATH, chat(MARKER + "word " * 9000)).status == 400
    assert gateway.stop() == 0
    spans = [
        span
        for request in Collector.got
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert [span.name for span in spans] == ["chat stub", "chat stub"]
    found = [
        {item.key: item.value.string_value or item.value.int_value for item in span.attributes}
        for span in spans
    ]
    assert spans[0].trace_id.hex() == trace
    assert found[0]["gen_ai.operation.name"] == "chat"
    assert found[0]["gen_ai.request.model"] == "stub"
    assert found[0]["gen_ai.usage.output_tokens"] == 3
    assert found[0]["gen_ai.usage.input_tokens"] > 0
    assert "error.type" not in found[0]
    assert found[1]["error.type"] == "context_length_exceeded"
    assert spans[1].status.code == 2
    assert MARKER.encode() not in b"".join(request.SerializeToString() for request in Collector.got)


@pytest.mark.slow
def test_usage_of_streams_is_asked_for_unless_the_server_does_not_know_that(
    shared_gateways: Gateways, upstream: Stub
) -> None:
    section = '[upstreams.{name}]\nurl = "{url}"\nmodels = ["{name}"]\nask_usage = {asks}\n'
    asking = {"usual": True, "older": False}
    config = "".join(
        section.format(name=name, url=upstream.url, asks=str(asks).lower()) for name, asks in asking.items()
    )
    gateway = shared_gateways(config=config)
    for name, asks in asking.items():
        answer = gateway.post(PATH, chat(stream=True, model=name))
        assert (answer.status, b'"usage"' in answer.data) == (200, False)
        assert ("stream_options" in upstream.seen[-1]) is asks


@pytest.mark.slow
def test_an_upstream_has_so_many_places_and_a_queue_with_an_end(
    start_gateway: Gateways, upstream: Stub
) -> None:
    config = f'[upstreams.stub]\nurl = "{upstream.url}"\nconcurrency = 1\nqueue = 1\nqueue_seconds = 1\n'
    gateway = start_gateway(config=config)
    assert gateway.post(PATH, chat()).status == 200
    holding = connect(gateway)
    send(holding, chat(stream=True, metadata={"fault": "endless"}))
    holding.getresponse().read1()
    waiting = connect(gateway)
    send(waiting, chat())
    until(lambda: gateway.metric("tokenbox_upstream_waiting") == 1)
    refused = gateway.post(PATH, chat())
    assert (refused.status, refused.json["error"]["code"]) == (503, "upstream_busy")
    assert refused.headers["retry-after"]
    late = waiting.getresponse()  # it waited as long as it may
    assert (late.status, json.loads(late.read())["error"]["code"]) == (503, "upstream_busy")
    for connection in (holding, waiting):
        connection.close()
    until(lambda: gateway.post(PATH, chat()).status == 200)


def test_nobody_listens_to_the_world_without_keys(start_gateway: Gateways, upstream: Stub) -> None:
    gateway = start_gateway(
        upstream.url,
        options=["--host", "0.0.0.0", "--no-keys"],
        wait=False,  # it is refused
    )
    assert gateway.process.wait(SECONDS) == 2
    assert "without keys the gateway is open to everybody" in gateway.log
    assert "Traceback" not in gateway.log


@pytest.mark.slow
def test_nobody_listens_to_the_world_before_there_is_a_key(start_gateway: Gateways, upstream: Stub) -> None:
    options = ["--host", "0.0.0.0", "--database", str(start_gateway.folder / "none.db")]
    gateway = start_gateway(upstream.url, options=options, wait=False)
    assert gateway.process.wait(SECONDS) == 2
    assert "there is no valid key" in gateway.log
    start_gateway.command("gateway", "keys", "create", "one", *options[2:])
    gateway = start_gateway(upstream.url, options=options)
    assert gateway.post(PATH, chat()).status == 401
    assert "Traceback" not in gateway.log
