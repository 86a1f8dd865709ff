"""Fuzz our HTTP client (``providers.wire``) with split, truncated, mutated and misleading responses.

``python -m tests.providers.fuzz_wire --cases 1000000`` runs that many cases; the tests run a small share.
A well-formed response is read exactly, however it is split. Reading any other one ends, successfully or with
a ``WireError``. A connection with surplus data is not used again.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tokenbox.providers.target import Bounds
from tokenbox.providers.wire import BrokenAnswer, Failure, Wire, WireConnection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Pieces of heads and bodies that are known to mislead parsers.
HOSTILE = (
    *(b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"\r\n\r\n"),
    *(b"Content-Length: 5, 6\r\n", b"Transfer-Encoding: chunked, identity\r\n", b"X: a\r\n b\r\n", b"\x00"),
    *(b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", b"HTTP/9.9 200 OK\r\n"),
    *(b"ffffffffffffffff\r\n", b"-1\r\n", b"0x5\r\n", b"5;a=b\r\n", b"0\r\n\r\n", b"\n", b"\r", b"\xff" * 9),
    *(b"HTTP/1.1 100 Continue\r\n\r\n", b"Connection: close\r\n", b"Connection: keep-alive\r\n", b" : \r\n"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A response in pieces; status and body if it is well-formed.

    ``has_more``: surplus data follows the response.
    """

    pieces: tuple[bytes, ...]
    status: int | None
    body: bytes | None
    has_more: bool = False


class Transport:
    """The methods of a transport that the client uses."""

    def __init__(self) -> None:
        self.is_open = True

    def write(self, data: bytes) -> None:
        pass

    def abort(self) -> None:
        self.is_open = False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def cases(seed: int) -> Iterator[Case]:
    """Yield cases endlessly; half of them are well-formed."""
    chance = random.Random(seed)
    while True:
        status, data, body = _answer(chance)
        kind = chance.random()
        if kind < 0.4:
            yield Case(_cut(chance, data), status, body)
        elif kind < 0.5 and b"onnection: close" not in data:
            more = chance.choice(
                (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad", b"garbage", b"\xff" * 40)
            )
            yield Case(_cut(chance, data + more), status, body, has_more=True)
        else:
            yield Case(_cut(chance, _mutated(chance, data)), None, None)


def _answer(chance: random.Random) -> tuple[int, bytes, bytes]:
    body = chance.randbytes(chance.choice((0, 1, 5, 50, 700)))
    status = chance.choice((200, 200, 400, 429, 500))
    head = b"HTTP/1.%d %d %b\r\n" % (1, status, chance.choice((b"OK", b"", b"Very \xe4rgerlich")))
    for _ in range(chance.randrange(4)):
        head += b"X-%d: %b\r\n" % (chance.randrange(99), b"v" * chance.randrange(40))
    form = chance.randrange(3)
    if form == 0:
        head += b"%b: %d\r\n\r\n" % (chance.choice((b"content-length", b"Content-Length")), len(body))
        data = head + body
    elif form == 1:
        data = head + b"Transfer-Encoding: chunked\r\n\r\n" + _chunked(chance, body)
    else:
        data = head + b"Connection: close\r\n\r\n" + body
    before = b"HTTP/1.1 100 Continue\r\n\r\n" * (chance.random() < 0.1)
    return status, before + data, body


def _chunked(chance: random.Random, body: bytes) -> bytes:
    out = []
    while body:
        size = chance.randrange(1, len(body) + 1)
        extension = chance.choice((b"", b"", b";a=b"))
        out.append(b"%x%b\r\n%b\r\n" % (size, extension, body[:size]))
        body = body[size:]
    trailer = chance.choice((b"", b"X-Trailer: 1\r\n"))
    return b"".join(out) + b"0\r\n" + trailer + b"\r\n"


def _mutated(chance: random.Random, data: bytes) -> bytes:
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(len(data) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            data = data[:place] + chance.choice(HOSTILE) + data[place:]
        elif kind == 1:
            data = data[:place] + data[place + chance.randrange(1, 9) :]
        elif kind == 2:
            data = data[:place]
        elif kind == 3:
            data = data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]
        else:
            data += data[place:]
    return data


def _cut(chance: random.Random, data: bytes) -> tuple[bytes, ...]:
    if chance.random() < 0.05:
        return (*(data[i : i + 1] for i in range(min(len(data), 200))), data[200:])
    places = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(5)))
    return tuple(data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True))


async def read(wire: Wire, case: Case) -> tuple[str, int, bytes, WireConnection]:
    """Read a case; return the outcome, status, body, and the connection, which was released or closed."""
    connection = WireConnection(wire)
    transport = Transport()
    connection.connection_made(cast("asyncio.BaseTransport", transport))

    async def ask() -> tuple[str, int, bytes]:
        try:
            await connection.ask(b"", b"", wire.bounds)
            body = await connection.read(1 << 20)
        except BrokenAnswer as error:
            return error.how.value, connection.status, b""
        return "whole", connection.status, body

    asking = asyncio.get_running_loop().create_task(ask())
    await asyncio.sleep(0)
    for piece in case.pieces:
        if piece and transport.is_open:
            connection.data_received(piece)
            await asyncio.sleep(0)
    connected = connection.is_open
    if not asking.done():
        connection.connection_lost(None)
    how, status, body = await asking
    if connected and connection.is_open:
        connection.release()
    return how, status, body, connection


async def check(count: int, seed: int) -> Counter[str]:
    """Read ``count`` cases and count the outcomes. Raise ``AssertionError`` with a failing case."""
    wire = Wire("http://127.0.0.1:9", Bounds())
    found: Counter[str] = Counter()
    for _, case in zip(range(count), cases(seed), strict=False):
        how, status, body, connection = await read(wire, case)
        sent = b"".join(case.pieces)
        if case.body is not None:
            assert (how, status, body) == ("whole", case.status, case.body), case
        else:
            assert how == "whole" or how in set(Failure), case
            assert len(body) <= len(sent), case
        is_kept = connection.is_open
        assert is_kept == (connection in wire._idle), case  # noqa: SLF001  # the pool of connections
        if is_kept:
            assert how == "whole", case
            assert not case.has_more, case
        connection.close()
        assert not wire._idle, case  # noqa: SLF001
        found[("well-formed, " if case.body is not None else "hostile, ") + how] += 1
    wire.close()
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    found: Any = asyncio.run(check(given.cases, given.seed))
    for name, count in sorted(found.items()):
        print(f"{count:>9,}  {name}")  # noqa: T201


if __name__ == "__main__":
    main()
