"""Requests whose bytes another HTTP server could read differently, and bytes that are never a request."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests.gateway.test_server import LIMITS, Connection
from tests.loops import in_loop
from tokenbox.gateway.incoming import ClientGone

HOST = b"host: x\r\n"
LENGTH = b"content-length: 2\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
CHUNKS = b"2\r\nab\r\n0\r\n\r\n"
SECOND = b"GET /second HTTP/1.1\r\nhost: x\r\n\r\n"


def post(
    *headers: bytes, body: bytes = b"ab", line: bytes = b"POST /first HTTP/1.1", host: bytes = HOST
) -> bytes:
    return b"%b\r\n%b%b\r\n%b" % (line, host, b"".join(headers), body)


async def sent(*pieces: bytes) -> Connection:
    connection = Connection()
    connection.answers.set()
    for piece in pieces:
        if not connection.wires.is_closed:
            await connection.send(piece)
    return connection


REFUSED = {
    "two lengths": post(LENGTH, LENGTH),
    "two lengths in one": post(b"content-length: 2, 2\r\n"),
    "a length with a sign": post(b"content-length: +2\r\n"),
    "a length and chunks": post(LENGTH, CHUNKED, body=CHUNKS),
    "a coding within chunks": post(b"transfer-encoding: gzip, chunked\r\n", body=CHUNKS),
    "no coding within chunks": post(b"transfer-encoding: identity, chunked\r\n", body=CHUNKS),
    "an empty coding": post(b"transfer-encoding: ,chunked\r\n", body=CHUNKS),
    "two codings": post(b"transfer-encoding: identity\r\n", CHUNKED, body=CHUNKS),
    "chunks twice": post(CHUNKED, CHUNKED, body=CHUNKS),
    "chunks in HTTP/1.0": post(
        CHUNKED, b"connection: keep-alive\r\n", body=CHUNKS, line=b"POST /first HTTP/1.0"
    ),
    "a folded header": post(LENGTH, b"x: a\r\n b\r\n"),
    "lines that end with LF": post(LENGTH).replace(b"\r\n", b"\n"),
    "a CR within a header": post(LENGTH, b"x: a\rb: c\r\n"),
    "two hosts": post(LENGTH, b"host: y\r\n"),
    "no host": post(LENGTH, host=b""),
    "a tunnel": post(LENGTH, line=b"CONNECT /first HTTP/1.1"),
    "a tunnel to elsewhere": post(LENGTH, line=b"CONNECT example.org:443 HTTP/1.1"),
    "HTTP/0.9": b"GET /first\r\n\r\n",
    "HTTP/2.0": post(LENGTH, line=b"POST /first HTTP/2.0"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
@in_loop
async def test_what_could_be_read_in_two_ways_ends_the_connection(name: str) -> None:
    connection = await sent(REFUSED[name] + SECOND)
    assert connection.got == []
    assert re.findall(rb"HTTP/1.1 (\d+)", connection.wires.out) == [b"400"]
    assert connection.wires.is_closed


TAKEN = {
    "a length": post(LENGTH),
    "chunks": post(CHUNKED, body=CHUNKS),
    "chunks in capitals": post(b"Transfer-Encoding:\tChunked \r\n", body=CHUNKS),
    "HTTP/1.0": post(LENGTH, line=b"POST /first HTTP/1.0"),
    "HTTP/1.0 without a host": post(LENGTH, line=b"POST /first HTTP/1.0", host=b""),
    "an address": post(LENGTH, line=b"POST http://x/first HTTP/1.1"),
}


@pytest.mark.parametrize("name", sorted(TAKEN))
@in_loop
async def test_what_has_one_reading_is_read(name: str) -> None:
    connection = await sent(TAKEN[name])
    assert connection.got == [("/first", 2)]


OFFER = post(b"connection: upgrade\r\nUpGrade: h2c\r\n", b"content-length: %d\r\n" % len(SECOND), body=SECOND)


@in_loop
async def test_a_body_behind_an_offered_upgrade_is_never_a_request() -> None:
    """However the header is written, and wherever it is cut: the parser ignores the body of an upgrade."""
    cuts = [*range(len(OFFER) - len(SECOND) + 1), len(OFFER)]
    for first, second in pairwise(cuts):
        pieces = OFFER[:first], OFFER[first:second], OFFER[second:]
        connection = await sent(*filter(None, pieces))
        assert [path for path, _ in connection.got] in ([], ["/first"]), pieces
        if not connection.got:
            assert connection.wires.out.startswith(b"HTTP/1.1 400 "), pieces
            assert connection.wires.is_closed


ENDLESS = {
    "lines before a request": (b"\r\n", b"\r\n" * 500),
    "a header": (b"GET / HTTP/1.1\r\nhost: x\r\nx: ", b"a" * 1_000),
    "headers": (b"GET / HTTP/1.1\r\nhost: x\r\n", b"a: b\r\n" * 200),
    "a trailer": (post(CHUNKED, body=b"2\r\nab\r\n0\r\nx: "), b"a" * 1_000),
    "trailers": (post(CHUNKED, body=b"2\r\nab\r\n0\r\n"), b"a: b\r\n" * 200),
    "an extension of a chunk": (post(CHUNKED, body=b"2;"), b"a" * 1_000),
}


@pytest.mark.parametrize("name", sorted(ENDLESS))
@in_loop
async def test_bytes_without_end_that_are_no_body_are_bounded(name: str) -> None:
    begin, more = ENDLESS[name]
    connection = await sent(begin, *[more] * (2 * LIMITS.headers // len(more)))
    assert connection.wires.out.startswith(b"HTTP/1.1 431 ")
    assert connection.wires.is_closed
    assert connection.got == ([("/first", ClientGone)] if begin.startswith(b"POST") else [])


@in_loop
async def test_small_chunks_are_a_body_whatever_their_sizes_take() -> None:
    size = LIMITS.headers
    connection = await sent(post(CHUNKED, body=b""), *[b"1\r\na\r\n" * 256] * (size // 256), b"0\r\n\r\n")
    assert connection.got == [("/first", size)]
