"""Byte for byte, where the gateway has nothing to say; and clients that speak HTTP in odd but right ways."""

from __future__ import annotations

import gzip
import json
import re
import socket
import socketserver
import threading
from contextlib import closing
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.waiting import SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.gateway.running import Gateways, RunningGateway

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
CONFIG = """
[upstreams.canned]
url = "{url}"
kind = "openai-compatible"
[policy]
max_ctx = 4000
"""
BODY = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":5}'
STREAMED = BODY[:-1] + b',"stream":true}'
ANSWER = (
    b'{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":'
    b'"caf\\u00e9 \\ud83d\\ude00"},"finish_reason":"stop"}], "x":1.0e-5, "y": 12345678901234567890,\n'
    b' "usage":{"prompt_tokens":10,"completion_tokens":1,"total_tokens":11} }'
)
NOTE = re.compile(rb'"tokenbox":\{[^}]*\},?')


class Canned(socketserver.ThreadingTCPServer):
    """A server that answers every POST with the same bytes, and keeps those that it got."""

    daemon_threads = allow_reuse_address = True
    answer = b""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Canned)
        self.got: list[tuple[bytes, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Canned(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server = cast("Canned", self.server)
        while head := self._head():
            length = re.search(rb"content-length: (\d+)", head)
            body = self.rfile.read(int(length.group(1)) if length else 0)
            if head.startswith(b"POST /v1/"):
                server.got.append((head, body))
                self.wfile.write(server.answer)
            else:
                self.wfile.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")

    def _head(self) -> bytes:
        lines = []
        while (line := self.rfile.readline()) not in (b"", b"\r\n"):
            lines.append(line)
        return b"".join(lines)


@pytest.fixture(scope="module")
def canned() -> Iterator[Canned]:
    with Canned() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def gateway(shared_gateways: Gateways, canned: Canned) -> RunningGateway:
    return shared_gateways(config=CONFIG.format(url=canned.url))


def whole(body: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"content-type: application/json", *headers]
    return b"\r\n".join([*lines, b"content-length: %d" % len(body), b"", body])


def chunked(pieces: Sequence[bytes], content_type: bytes = b"text/event-stream") -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n" % content_type
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def request(body: bytes = BODY, *headers: bytes, path: str = CHAT) -> bytes:
    lines = [b"POST %b HTTP/1.1" % path.encode(), b"Host: x", b"Content-Type: application/json", *headers]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])


class Line:
    """A connection to the gateway."""

    def __init__(self, gateway: RunningGateway) -> None:
        self._socket = socket.create_connection(("127.0.0.1", gateway.port), SECONDS)

    def ask(self, *pieces: bytes, method: str = "POST") -> tuple[HTTPResponse, bytes]:
        for piece in pieces:
            self._socket.sendall(piece)
        answer = HTTPResponse(self._socket, method=method)
        answer.begin()
        return answer, answer.read()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def line(gateway: RunningGateway) -> Iterator[Line]:
    with closing(Line(gateway)) as line:
        yield line


def without_note(data: bytes) -> bytes:
    """``data`` without our key, which is there once."""
    found, times = NOTE.subn(b"", data)
    assert times == 1, data
    return found


FIRST = b'data: {"id":"c", "choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
NEXT = b'data: {"choices":[{"index":0,"delta":{"content":"caf\\u00e9 \xc3\xa9"}}], "n":1.0}\n\n'
DONE = b"data: [DONE]\n\n"
PLAIN = (FIRST, NEXT, DONE)
START = (
    b'event: message_start\ndata: {"type":"message_start", "message": {"id":"m","type":"message","role":'
    b'"assistant","content":[],"model":"m","usage":{"input_tokens":3,"output_tokens":1}}}\n\n'
)
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
STREAMS = {
    "plain": (CHAT, PLAIN),
    "comments": (CHAT, (b": PROCESSING\n\n", FIRST, b": ping\n\n", NEXT, DONE)),
    "a comment at the end": (CHAT, (*PLAIN, b": bye\n\n")),
    "CRLF": (CHAT, [piece.replace(b"\n", b"\r\n") for piece in PLAIN]),
    "CR": (CHAT, [piece.replace(b"\n", b"\r") for piece in PLAIN]),
    "no space": (CHAT, [piece.replace(b"data: ", b"data:") for piece in PLAIN]),
    "other fields": (CHAT, (b"id: 1\nretry: 100\nevent: x\n" + FIRST, b"id: 2\n" + NEXT, DONE)),
    "several lines": (
        CHAT,
        (b'data: {"id":"c",\ndata: "choices":[{"index":0,"delta":{"content":"a"}}]}\n\n', NEXT, DONE),
    ),
    "byte by byte": (CHAT, [bytes([byte]) for byte in b"".join(PLAIN)]),
    "no last newline": (CHAT, (FIRST, NEXT, DONE.strip())),
    "anthropic": (MESSAGES, (PING, START, PING, STOP)),
    "the end of another API": (MESSAGES, (START, STOP, DONE)),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_comes_as_it_was_sent(canned: Canned, line: Line, name: str) -> None:
    path, pieces = STREAMS[name]
    canned.answer = chunked(pieces)
    answer, data = line.ask(request(STREAMED, path=path))
    assert answer.status == 200
    assert without_note(data) == b"".join(pieces)


def test_a_stream_is_one_however_its_type_is_written(canned: Canned, line: Line) -> None:
    canned.answer = chunked(PLAIN, b"Text/Event-Stream; Charset=UTF-8")
    answer, data = line.ask(request(STREAMED))
    assert answer.headers["content-type"] == "Text/Event-Stream; Charset=UTF-8"
    assert without_note(data) == b"".join(PLAIN)


def test_an_answer_and_its_headers_come_as_they_were_sent(canned: Canned, line: Line) -> None:
    headers = (b"X-Custom: a  b", b"Openai-Processing-Ms: 12", b"Vary: a", b"Vary: b", b"x-request-id: up")
    canned.answer = whole(ANSWER, *headers)
    answer, data = line.ask(request())
    assert without_note(data) == ANSWER
    assert answer.headers["x-custom"] == "a  b"
    assert answer.headers["openai-processing-ms"] == "12"
    assert answer.headers.get_all("vary") == ["a", "b"]
    assert answer.headers["x-tokenbox-upstream-request-id"] == "up"


def test_what_an_upstream_says_of_its_own_host_is_not_said_of_the_gateway(canned: Canned, line: Line) -> None:
    headers = (
        *(b"Access-Control-Allow-Origin: *", b"Access-Control-Allow-Credentials: true", b"Connection: x-hop"),
        *(b"Strict-Transport-Security: max-age=9", b"Alt-Svc: h3", b"X-Hop: mine", b"X-Kept: 1"),
    )
    canned.answer = whole(ANSWER, *headers)
    answer, _ = line.ask(request(BODY, b"Origin: http://127.0.0.1:1", b"Referer: http://127.0.0.1:1/secret"))
    names = {name.lower() for name in answer.headers}
    assert "x-kept" in names
    assert "x-hop" not in names
    assert not {name for name in names if name.startswith(("access-", "strict-", "alt-"))}
    head = canned.got[-1][0].lower()
    assert b"origin" not in head
    assert b"referer" not in head


def test_a_request_goes_on_as_it_came(canned: Canned, line: Line) -> None:
    canned.answer = whole(ANSWER)
    odd = (
        b'{ "model" :"m",\n "messages":[{"role":"user","content":"caf\\u00e9 \xc3\xa9"}], "top_p":1e-1,'
        b' "big":123456789012345678901234567890, "unknown":{"b":1,"a":2}, "max_tokens":5 }  \n'
    )
    given = (
        *(b"anthropic-beta: a", b"Accept-Language: de", b"ANTHROPIC-BETA: b", b"anthropic-beta: a"),
        *(b"X-Request-ID: mine-1", b"Authorization: Bearer k"),
    )
    answer, _ = line.ask(request(odd, *given, path=f"{CHAT}?api-version=1&x=%2F"))
    assert answer.status == 200
    head, body = canned.got[-1]
    assert body == odd
    lines = head.decode().splitlines()
    assert lines[0] == f"POST {CHAT}?api-version=1&x=%2F HTTP/1.1"
    assert {"anthropic-beta: a, b", "accept-language: de", "x-request-id: mine-1"} < set(lines)
    assert "authorization: Bearer k" in lines


def test_trailers_are_no_headers(canned: Canned, line: Line) -> None:
    canned.answer = whole(ANSWER)
    head = b"POST %b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % CHAT.encode()
    body = b"5\r\n%b\r\n%x\r\n%b\r\n0\r\n" % (BODY[:5], len(BODY) - 5, BODY[5:])
    answer, _ = line.ask(head + body + b"x-tokenbox-mode: rush\r\nX-Late: 1\r\n\r\n")
    assert answer.status == 200
    head, body = canned.got[-1]
    assert body == BODY
    assert b"x-late" not in head.lower()


def test_an_offer_to_change_the_protocol_is_not_taken_up(canned: Canned, line: Line) -> None:
    """As Java's client makes it with each request, until it is told that there is HTTP/2."""
    canned.answer = whole(ANSWER)
    offer = request(
        BODY,
        b"Connection: Upgrade, HTTP2-Settings",
        b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
        b"Upgrade: h2c",
    )
    for pieces in ((offer,), (offer[: -len(BODY)], BODY), (offer[:-10], offer[-10:])):
        answer, data = line.ask(*pieces)
        assert (answer.status, without_note(data)) == (200, ANSWER)
        head, body = canned.got[-1]
        assert body == BODY
        assert not re.search(rb"(?i)upgrade|http2|h2c", head)


def test_head_is_get_without_its_body(line: Line) -> None:
    got, body = line.ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", method="GET")
    answer, nothing = line.ask(b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n", method="HEAD")
    assert (answer.status, answer.headers["content-length"]) == (got.status, str(len(body)))
    assert nothing == b""
    answer, _ = line.ask(b"POST /healthz HTTP/1.1\r\nHost: x\r\ncontent-length: 0\r\n\r\n")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


def test_a_compressed_body_is_said_to_be_one(canned: Canned, line: Line) -> None:
    before = len(canned.got)
    answer, data = line.ask(request(gzip.compress(BODY), b"Content-Encoding: gzip"))
    error: dict[str, Any] = json.loads(data)["error"]
    assert (answer.status, error["code"]) == (415, "body_encoded")
    assert len(canned.got) == before
    canned.answer = whole(ANSWER)
    assert line.ask(request(BODY, b"Content-Encoding: identity"))[0].status == 200
