"""Whatever goes wrong with an upstream: a clean error of the client's protocol, and the place is free."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.gateway.running import free_port, until

if TYPE_CHECKING:
    from tests.gateway.running import Gateways, RunningGateway, Stub

PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
# Fault: the status of the answer that is not a stream; what a stream that has begun ends with.
BEFORE = {
    "reset_before": (502, "upstream_broke"),
    "reset_after_head": (502, "upstream_broke"),
    "bad_json": (502, "upstream_garbled"),
    "page": (502, "upstream_garbled"),
    "server_error": (500, "upstream_error"),
    "rate_limited": (429, "rate_limit_exceeded"),
    "flat_error": (400, "upstream_error"),
    "redirect": (502, "upstream_garbled"),
}
WITHIN = {"half_a_chunk": "upstream_broke", "ends_early": "upstream_broke"}


@pytest.fixture(scope="module")
def gateway(shared_gateways: Gateways, upstream: Stub) -> RunningGateway:
    return shared_gateways(upstream.url, config="[gateway]\nidle_seconds = 1\n")


def body_for(path: str, fault: str | None, **more: object) -> dict[str, Any]:
    body: dict[str, Any] = {"model": "stub", **more}
    if fault is not None:
        body["metadata"] = {"fault": fault}
    if path == "/v1/responses":
        return {**body, "input": "hi", "max_output_tokens": 5}
    return {**body, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}


def check_error(path: str, answer: dict[str, Any]) -> dict[str, Any]:
    """It has the form of its API."""
    error: dict[str, Any] = answer["error"]
    assert isinstance(error["message"], str)
    assert error["message"]
    if path == "/v1/messages":
        assert answer["type"] == "error"
        assert set(error) == {"type", "message"}
    else:
        assert set(error) == {"message", "type", "param", "code"}
    return error


def is_free(gateway: RunningGateway) -> bool:
    return gateway.metric("tokenbox_upstream_running") == 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("fault", BEFORE)
@pytest.mark.parametrize("path", PATHS)
def test_a_fault_before_the_answer_is_an_error_of_the_protocol(
    gateway: RunningGateway, path: str, fault: str, stream: bool
) -> None:
    status, code = BEFORE[fault]
    answer = gateway.post(path, body_for(path, fault, stream=stream))
    if fault == "reset_after_head" and stream and path != "/v1/messages":
        # The head had come, and nothing after it: nothing was sent on yet.
        assert answer.status == 502
    assert answer.status == status, answer.data
    if path == "/v1/messages" and code == "rate_limit_exceeded":
        code = "upstream_error"  # an error in OpenAI's shape is no error of Anthropic's
    error = check_error(path, answer.json)
    assert error.get("code", code) == code
    assert "<html>" not in error["message"]
    if fault == "rate_limited":
        assert answer.headers["retry-after"] == "7"
    if fault == "flat_error":
        assert "too long" in error["message"]
    assert "location" not in answer.headers
    until(lambda: is_free(gateway))


@pytest.mark.parametrize("fault", WITHIN)
@pytest.mark.parametrize("path", PATHS)
def test_a_fault_within_a_stream_is_its_last_event(gateway: RunningGateway, path: str, fault: str) -> None:
    answer = gateway.post(path, body_for(path, fault, stream=True))
    assert answer.status == 200
    frames = [frame for frame in answer.data.split(b"\n\n") if frame.strip()]
    last = frames[-1]
    data = json.loads(last[last.index(b"data: ") + 6 :])
    if path == "/v1/responses":
        assert last.startswith(b"event: error\n")
        assert (data["type"], data["code"]) == ("error", WITHIN[fault])
    else:
        assert last.startswith(b"event: error\n") is (path == "/v1/messages")
        check_error(path, data)
    # The half of a chunk that came before it is not passed on as if it were one.
    for frame in frames[:-1]:
        json.loads(frame[frame.index(b"data: ") + 6 :])
    until(lambda: is_free(gateway))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_silent_upstream_times_out(gateway: RunningGateway, path: str, stream: bool) -> None:
    started = time.monotonic()
    answer = gateway.post(path, body_for(path, "silent", stream=stream))
    assert answer.status == 504
    check_error(path, answer.json)
    assert time.monotonic() - started < 10
    until(lambda: is_free(gateway))


@pytest.fixture(scope="module")
def alone(shared_gateways: Gateways) -> RunningGateway:
    """In front of nothing."""
    config = '[models.stub]\nmax_ctx = 8000\ntokenizer = "o200k_base"\n'
    return shared_gateways(f"http://127.0.0.1:{free_port()}", config=config)


@pytest.mark.parametrize("path", PATHS)
def test_an_upstream_that_is_not_there(alone: RunningGateway, path: str) -> None:
    answer = alone.post(path, body_for(path, None))
    assert answer.status == 502, answer.data
    assert check_error(path, answer.json)["message"].endswith("cannot be reached.")
    assert answer.headers["retry-after"] == "1"
    ready = alone.get("/readyz")
    assert ready.status == 503
    assert ready.json["status"] == "not ready"
    assert alone.get("/healthz").status == 200


@pytest.mark.parametrize("fault", [*BEFORE, *WITHIN])
def test_a_connection_to_the_gateway_is_usable_after_a_fault(gateway: RunningGateway, fault: str) -> None:
    connection = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=20)
    statuses = []
    for body in (body_for(PATHS[0], fault, stream=fault in WITHIN), body_for(PATHS[0], None)):
        connection.request("POST", PATHS[0], json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
        assert connection.sock is not None
    assert statuses[1] == 200
    connection.close()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("fault", ["silent", "endless"])
def test_a_client_that_leaves_cancels_the_upstream_call(
    gateway: RunningGateway, upstream: Stub, path: str, fault: str
) -> None:
    before, started = len(upstream.cancelled), len(upstream.started)
    connection = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=20)
    data = json.dumps(body_for(path, fault, stream=fault == "endless"))
    connection.request("POST", path, data, {"content-type": "application/json"})
    until(lambda: len(upstream.started) > started)
    if fault == "endless":
        connection.getresponse().read(100)
    left = time.monotonic()
    connection.sock.close()
    connection.close()
    until(lambda: len(upstream.cancelled) > before, 5)
    # The upstream's own clock says when it was told. 100 ms on a machine with nothing else to do.
    assert upstream.cancelled[before] - left < 0.5
    until(lambda: is_free(gateway))


def test_an_endless_stream_does_not_hold_up_others(gateway: RunningGateway) -> None:
    connection = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=20)
    data = json.dumps(body_for(PATHS[0], "endless", stream=True))
    connection.request("POST", PATHS[0], data, {"content-type": "application/json"})
    answer = connection.getresponse()
    answer.read(100)
    for _ in range(10):
        assert gateway.post(PATHS[0], body_for(PATHS[0], None)).status == 200
    assert answer.read(100)
    connection.close()
    until(lambda: is_free(gateway))
