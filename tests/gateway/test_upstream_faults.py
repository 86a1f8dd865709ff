"""Whatever goes wrong with an upstream: a clean error of the client's protocol, and the place is free."""

from __future__ import annotations

import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.services import free_port
from tests.waiting import SECONDS, until

if TYPE_CHECKING:
    from tests.gateway.running import Answer, Gateways, RunningGateway, Stub

PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings")
# Each API whole and as a stream; embeddings have none.
WAYS = [(path, stream) for path in PATHS for stream in (False, True) if not (stream and "embed" in path)]
STREAMS = [path for path, stream in WAYS if stream]
# Fault: the status and code of the answer, where nothing of it was sent yet.
BEFORE = {
    "reset_before": (502, "upstream_broke"),
    "half_a_head": (502, "upstream_broke"),
    "no_http": (502, "upstream_garbled"),
    "reset_after_head": (502, "upstream_broke"),
    "bad_json": (502, "upstream_garbled"),
    "page": (502, "upstream_garbled"),
    "server_error": (500, "upstream_error"),
    "rate_limited": (429, "rate_limit_exceeded"),
    "flat_error": (400, "upstream_error"),
    "redirect": (502, "upstream_garbled"),
    "no_status": (502, "upstream_garbled"),
    "zipped": (502, "upstream_garbled"),
    "zipped_error": (400, "upstream_error"),
    "utf_16": (502, "upstream_garbled"),  # in it nobody would find a key that has to be hidden
}
# Fault within an answer: the code of what a stream ends with, and of the error in place of a whole answer.
WITHIN = {
    "half_a_chunk": ("upstream_broke", "upstream_broke"),
    "half_a_body": ("upstream_broke", "upstream_broke"),
    "ends_early": ("upstream_broke", "upstream_garbled"),
    "bad_event": ("upstream_garbled", "upstream_garbled"),
}


@pytest.fixture(scope="module")
def gateway(shared_gateways: Gateways, upstream: Stub) -> RunningGateway:
    return shared_gateways(upstream.url)


@pytest.fixture(scope="module")
def impatient(shared_gateways: Gateways, upstream: Stub) -> RunningGateway:
    """A gateway that waits no longer than a second: not for faults that a busy machine may be late with."""
    return shared_gateways(upstream.url, config="[gateway]\nidle_seconds = 1\n")


@pytest.fixture(scope="module")
def brief(shared_gateways: Gateways, upstream: Stub) -> RunningGateway:
    """A gateway that takes no answer of more than four seconds: a busy machine begins one in that time."""
    return shared_gateways(upstream.url, config="[gateway]\ntotal_seconds = 4\n")


def body_for(path: str, fault: str | None, **more: object) -> dict[str, Any]:
    body: dict[str, Any] = {"model": "stub", **more}
    if fault is not None:
        body["metadata"] = {"fault": fault}
    if path == "/v1/embeddings":
        return {**body, "input": "hi"}
    if path == "/v1/completions":
        return {**body, "prompt": "hi", "max_tokens": 5}
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


def check_last_event(path: str, answer: Answer, code: str) -> None:
    """The stream ends with the error, in the form of its API, and all that came before it is whole."""
    assert answer.status == 200, answer.data
    assert answer.data.endswith(b"\n\n")
    frames = answer.data[:-2].split(b"\n\n")
    last = frames[-1]
    data = json.loads(last[last.index(b"data: ") + 6 :])
    if path == "/v1/responses":
        assert last.startswith(b"event: error\n")
        assert (data["type"], data["code"]) == ("error", code)
        assert data["sequence_number"] == len(frames) - 1
    else:
        assert last.startswith(b"event: error\n") is (path == "/v1/messages")
        assert check_error(path, data).get("code", code) == code
    assert len(frames) > 1
    for frame in frames[:-1]:
        json.loads(frame[frame.index(b"data: ") + 6 :])


def ask_all(gateway: RunningGateway, fault: str) -> dict[tuple[str, bool], Answer]:
    """Every API at the same time."""

    def ask(way: tuple[str, bool]) -> Answer:
        return gateway.post(way[0], body_for(way[0], fault, stream=way[1]))

    with ThreadPoolExecutor(len(WAYS)) as threads:
        return dict(zip(WAYS, threads.map(ask, WAYS), strict=True))


def is_free(gateway: RunningGateway) -> bool:
    return gateway.metric("tokenbox_upstream_running") == 0


@pytest.mark.parametrize("fault", BEFORE)
@pytest.mark.parametrize(("path", "stream"), WAYS)
def test_a_fault_before_the_answer_is_an_error_of_the_protocol(
    gateway: RunningGateway, path: str, stream: bool, fault: str
) -> None:
    status, code = BEFORE[fault]
    answer = gateway.post(path, body_for(path, fault, stream=stream))
    assert answer.status == status, answer.data
    if path == "/v1/messages" and code == "rate_limit_exceeded":
        code = "upstream_error"  # an error in OpenAI's shape is not an error of Anthropic's
    error = check_error(path, answer.json)
    assert error.get("code", code) == code
    assert "<html>" not in error["message"]
    assert "\ufffd" not in error["message"]
    if fault == "rate_limited":
        assert answer.headers["retry-after"] == "7"
    if fault == "flat_error":
        assert "too long" in error["message"]
    assert ("redirects to another address" in error["message"]) is (fault == "redirect")
    assert ("answers in gzip" in error["message"]) is (fault == "zipped")
    assert "location" not in answer.headers
    until(lambda: is_free(gateway))


@pytest.mark.parametrize("fault", WITHIN)
@pytest.mark.parametrize(("path", "stream"), WAYS)
def test_a_fault_within_an_answer(gateway: RunningGateway, path: str, stream: bool, fault: str) -> None:
    answer = gateway.post(path, body_for(path, fault, stream=stream))
    if stream:
        check_last_event(path, answer, WITHIN[fault][0])
    else:
        assert answer.status == 502
        assert check_error(path, answer.json).get("code", WITHIN[fault][1]) == WITHIN[fault][1]
    until(lambda: is_free(gateway))


@pytest.mark.parametrize(
    ("limited", "fault"),
    [
        pytest.param("impatient", "silent", marks=pytest.mark.slow),
        ("impatient", "stalls"),
        # It is never silent for as long as it may be, so that only the limit for all of it can end it.
        pytest.param("brief", "endless", marks=pytest.mark.slow),
    ],
)
def test_an_answer_that_does_not_come_or_end_is_given_up(
    request: pytest.FixtureRequest, upstream: Stub, limited: str, fault: str
) -> None:
    gateway: RunningGateway = request.getfixturevalue(limited)
    before = len(upstream.cancelled)
    for (path, stream), answer in ask_all(gateway, fault).items():
        if stream and fault != "silent":
            check_last_event(path, answer, "upstream_timeout")
        else:
            assert answer.status == 504
            assert check_error(path, answer.json).get("code", "upstream_timeout") == "upstream_timeout"
    until(lambda: len(upstream.cancelled) == before + len(WAYS))
    until(lambda: is_free(gateway))


@pytest.mark.slow
def test_a_slow_reader_gets_no_more_time_than_others(brief: RunningGateway, upstream: Stub) -> None:
    """The upstream's call ends with the limit, though the client, which reads nothing, has longer."""
    before = len(upstream.cancelled)
    connection = http.client.HTTPConnection(brief.url.removeprefix("http://"), timeout=SECONDS)
    data = json.dumps(body_for(PATHS[0], "flood", stream=True))
    connection.request("POST", PATHS[0], data, {"content-type": "application/json"})
    answer = connection.getresponse()
    until(lambda: len(upstream.cancelled) > before)
    assert b"upstream_timeout" in answer.read()[-1000:]
    connection.close()
    until(lambda: is_free(brief))


@pytest.mark.slow
def test_an_upstream_that_is_slower_than_the_client(impatient: RunningGateway) -> None:
    """It takes as long as it may be silent, and is not silent."""

    def ask(path: str) -> Answer:
        return impatient.post(path, body_for(path, "slow_stream", stream=True))

    with ThreadPoolExecutor(len(STREAMS)) as threads:
        answers = list(threads.map(ask, STREAMS))
    for answer in answers:
        assert answer.status == 200
        assert b'"error"' not in answer.data
        assert answer.data.count(b"\n\n") == 52
    until(lambda: is_free(impatient))


@pytest.fixture(scope="module")
def alone(shared_gateways: Gateways) -> RunningGateway:
    """In front of nothing."""
    config = '[models.stub]\nmax_ctx = 8000\ntokenizer = "utf8-bytes"\n'
    return shared_gateways(f"http://127.0.0.1:{free_port()}", config=config)


@pytest.mark.parametrize(("path", "stream"), WAYS)
def test_an_upstream_that_is_not_there(alone: RunningGateway, path: str, stream: bool) -> None:
    answer = alone.post(path, body_for(path, None, stream=stream))
    assert answer.status == 502, answer.data
    assert check_error(path, answer.json)["message"].endswith("cannot be reached.")
    assert answer.headers["retry-after"] == "1"
    ready = alone.get("/readyz")
    assert ready.status == 503
    assert ready.json["status"] == "not ready"
    assert alone.get("/healthz").status == 200


@pytest.mark.parametrize(
    ("fault", "status", "complete"), [("created", 201, "true"), ("error_as_success", 200, "false")]
)
@pytest.mark.parametrize("path", PATHS)
def test_an_answer_with_a_status_of_success_is_the_clients(
    gateway: RunningGateway, path: str, fault: str, status: int, complete: str
) -> None:
    """An error in it is one in the ledger."""
    answer = gateway.post(path, body_for(path, fault))
    assert (answer.status, answer.json["tokenbox"]["mode"]) == (status, "enforce")
    until(lambda: f'"status":{status}' in gateway.log.splitlines()[-1])
    assert f'"complete":{complete}' in gateway.log.splitlines()[-1]


@pytest.mark.parametrize("path", PATHS[:2])
def test_a_stream_without_a_last_event_is_whole(gateway: RunningGateway, path: str) -> None:
    answer = gateway.post(path, body_for(path, "no_done", stream=True))
    assert answer.status == 200
    assert answer.data.count(b"data: ") == 2  # the client did not ask for the usage
    assert b'"error"' not in answer.data
    until(lambda: '"complete":true' in gateway.log.splitlines()[-1])
    assert '"reported_output":3' in gateway.log.splitlines()[-1]


@pytest.mark.parametrize("fault", [*BEFORE, *WITHIN])
def test_a_connection_to_the_gateway_is_usable_after_a_fault(gateway: RunningGateway, fault: str) -> None:
    connection = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=SECONDS)
    statuses = []
    for body in (body_for(PATHS[0], fault, stream=fault in WITHIN), body_for(PATHS[0], None)):
        connection.request("POST", PATHS[0], json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
        assert connection.sock is not None
    assert statuses[1] == 200
    connection.close()


def test_an_endless_stream_does_not_hold_up_others(gateway: RunningGateway) -> None:
    connection = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=SECONDS)
    data = json.dumps(body_for(PATHS[0], "endless", stream=True))
    connection.request("POST", PATHS[0], data, {"content-type": "application/json"})
    answer = connection.getresponse()
    answer.read(100)
    for _ in range(10):
        assert gateway.post(PATHS[0], body_for(PATHS[0], None)).status == 200
    assert answer.read(100)
    connection.close()
    until(lambda: is_free(gateway))


@pytest.mark.slow
def test_no_connection_is_left(
    gateway: RunningGateway, impatient: RunningGateway, brief: RunningGateway, upstream: Stub
) -> None:
    """After all of the above: those that are kept for the next request close by themselves."""
    until(lambda: all(map(is_free, (gateway, impatient, brief))))
    until(lambda: upstream.connections == 0)


def logged(gateway: RunningGateway, answer: Answer) -> dict[str, Any]:
    """Return the line of the log about the request of that answer."""
    name = f'"id":"{answer.headers["x-request-id"]}"'

    def lines() -> list[str]:
        return [line for line in gateway.log.splitlines() if name in line and '"event":"request"' in line]

    until(lambda: bool(lines()))
    line: dict[str, Any] = json.loads(lines()[0])
    return line


@pytest.mark.parametrize(
    ("limited", "fault", "stream", "cause"),
    [
        ("gateway", "half_a_chunk", True, "ConnectionError: the server closed the connection"),
        ("gateway", "half_a_body", False, "ConnectionError: the server closed the connection"),
        ("gateway", "ends_early", True, "the stream ended before its last event"),
        ("gateway", "bad_event", True, "an event is not complete JSON"),
        ("gateway", "no_http", True, "HttpParserError: Expected HTTP/, RTSP/ or ICE/"),
        ("gateway", "bad_json", False, "the answer is not a JSON object"),
        ("gateway", "redirect", False, "status 307"),
        ("gateway", "zipped", False, "content-encoding: gzip"),
        ("impatient", "stalls", True, "TimeoutError: the server was silent for 1 s"),
        ("impatient", "stalls", False, "TimeoutError: the server was silent for 1 s"),
    ],
)
def test_the_log_says_why_an_answer_failed(
    request: pytest.FixtureRequest, limited: str, fault: str, stream: bool, cause: str
) -> None:
    gateway: RunningGateway = request.getfixturevalue(limited)
    answer = gateway.post(PATHS[0], body_for(PATHS[0], fault, stream=stream))
    assert logged(gateway, answer)["cause"] == cause
