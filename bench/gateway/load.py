"""A load generator: ``load.py URL BODY CONNECTIONS SECONDS SEED KEY`` prints its measurements as JSON.

Each connection sends a request after the last response is complete. ``user`` is the number of tokens of the
request, which the stub reports as usage. No two bodies are the same:

``cold``          two messages with 700 words of one book: the messages are new, but most words are not
``conversation``  ten messages of 70 words; eight are those of the request before
``stream``        as ``cold``, answered as a stream
``long``          one message of about 100,000 tokens, of the same book
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import deque
from itertools import accumulate
from pydoc_data.topics import topics
from typing import Any
from urllib.parse import urlsplit

import uvloop

from tokenbox.tokenizers import get

WORDS = 700
LONG = 100_000
_WARM = 0.2
_TURNS = 10
PROSE = " ".join(topics.values()).split()
TWICE = PROSE * 2
O200K = get("o200k_base")
# The total tokens of the words before each; the tokens of a word do not depend on its neighbours.
_SIZE_OF = {word: O200K.count(f" {word}") for word in set(PROSE)}
TOKENS = [0, *accumulate(map(_SIZE_OF.__getitem__, TWICE))]


class Bodies:
    """The bodies of one connection."""

    def __init__(self, kind: str, seed: str) -> None:
        self._random = random.Random(seed)
        self._seed = seed
        self._number = 0
        self._turns: deque[dict[str, str]] = deque(maxlen=_TURNS)
        self._sizes: dict[str, int] = {}
        self._make = getattr(self, kind)

    def next(self) -> bytes:
        self._number += 1
        made = self._make()
        # 3 for a message, 1 for its role, 3 that prime the reply: OpenAI's published rules.
        tokens = 3 + sum(4 + self._sizes[message["content"]] for message in made["messages"])
        return json.dumps({"model": "gpt-4o", "user": str(tokens), **made}).encode()

    def text(self, words: int, first: str = "") -> str:
        """Return that number of words, never sent in this order before."""
        start = self._random.randrange(len(PROSE))
        end = min(start + words - 2, len(TWICE))
        begin = f"{first}{self._seed} {self._number}"
        text = f"{begin} {' '.join(TWICE[start:end])}"
        self._sizes[text] = O200K.count(begin) + TOKENS[end] - TOKENS[start]
        while len(self._sizes) > _TURNS:
            del self._sizes[next(iter(self._sizes))]
        return text

    def cold(self) -> dict[str, Any]:
        messages = [("system", self.text(100)), ("user", self.text(WORDS - 100))]
        return {"messages": [{"role": role, "content": text} for role, text in messages], "max_tokens": 512}

    def stream(self) -> dict[str, Any]:
        return {**self.cold(), "stream": True}

    def conversation(self) -> dict[str, Any]:
        while True:
            for role in ("assistant", "user"):
                self._turns.append({"role": role, "content": self.text(WORDS // 10 - 1, f"{role} ")})
            if len(self._turns) == self._turns.maxlen:
                return {"messages": list(self._turns), "max_tokens": 512}
            self._number += 1

    def long(self) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": self.text(int(LONG / 1.33))}], "max_tokens": 512}


class Client(asyncio.Protocol):
    """One connection; measures the time from the first byte of a request to the last of its response."""

    def __init__(self, head: bytes, bodies: Bodies, until: float, done: asyncio.Future[None]) -> None:
        self._head = head
        self._bodies = bodies
        self._until = until
        self._done = done
        self.times: list[tuple[float, float]] = []
        self.first: list[float] = []
        self.bad: list[str] = []
        self.events = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        body = self._bodies.next()
        self._pieces: list[bytes] = []
        self._size = 0
        self._whole: int | None = None
        self._began = time.perf_counter()
        self._transport.write(self._head + b"%d\r\n\r\n" % len(body) + body)

    def data_received(self, data: bytes) -> None:
        if not self._pieces:
            head, _, _ = data.partition(b"\r\n\r\n")
            self._first = time.perf_counter()
            if not head.startswith(b"HTTP/1.1 200"):
                self.bad.append(data[:300].decode("latin-1"))
            at = head.lower().find(b"content-length:")
            if at >= 0:
                self._whole = len(head) + 4 + int(head[at + 15 :].split(b"\r\n", 1)[0])
        self._pieces.append(data)
        self._size += len(data)
        if self._whole is None:
            if data.endswith(b"0\r\n\r\n"):
                self.events += b"".join(self._pieces).count(b"data: ")
                self._end()
        elif self._size >= self._whole:
            self._end()

    def _end(self) -> None:
        now = time.perf_counter()
        self.times.append((self._began, now - self._began))
        self.first.append(self._first - self._began)
        if now < self._until:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if time.perf_counter() < self._until:
            self.bad.append("the connection was closed")
        if not self._done.done():
            self._done.set_result(None)


async def measure(
    url: str, kind: str, connections: int, seconds: float, seed: str, key: str
) -> dict[str, Any]:
    address = urlsplit(url)
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: {address.netloc}\r\n"
        f"content-type: application/json\r\nauthorization: Bearer {key}\r\ncontent-length: "
    ).encode()
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    clients, ends = [], []
    for number in range(connections):
        done: asyncio.Future[None] = loop.create_future()
        client = Client(head, Bodies(kind, f"{seed}.{number}"), began + seconds, done)
        await loop.create_connection(lambda client=client: client, address.hostname, address.port)
        clients.append(client)
        ends.append(done)
    await asyncio.gather(*ends)
    took = time.perf_counter() - began
    # Skip the first responses, which are slower: connections are opened, caches are filled.
    times = sorted(t for client in clients for at, t in client.times if at - began > seconds * _WARM)
    first = sorted(t for client in clients for t in client.first)
    count = sum(len(client.times) for client in clients)
    return {
        "requests": count,
        "seconds": took,
        "per_second": count / took,
        "events_per_second": sum(client.events for client in clients) / took,
        "p50_ms": 1000 * times[len(times) // 2] if times else None,
        "p99_ms": 1000 * times[int(len(times) * 0.99)] if times else None,
        "first_p50_ms": 1000 * first[len(first) // 2] if first else None,
        "bad": [text for client in clients for text in client.bad][:3],
    }


if __name__ == "__main__":
    url, kind, connections, seconds, seed, key = sys.argv[1:]
    print(json.dumps(uvloop.run(measure(url, kind, int(connections), float(seconds), seed, key))))
