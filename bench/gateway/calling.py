"""Processor time per call of an upstream, by tokenbox's client and by aiohttp's: ``calling.py URL TIMES``.

Both keep their connection, send a body of 700 words and read the whole response. Prints milliseconds as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import aiohttp
import uvloop
from load import Bodies

from tokenbox.providers.target import Bounds
from tokenbox.providers.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PATH = "/v1/chat/completions"
ROUNDS = 9


async def each_ms(call: Callable[[bytes], Awaitable[object]], times: int) -> float:
    """Return milliseconds of processor time per call, the median of some rounds."""
    body = Bodies("cold", "calling").next()
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(times):
            await call(body)
        found.append(1000 * (time.process_time() - began) / times)
    return sorted(found)[ROUNDS // 2]


async def measure(url: str, times: int) -> dict[str, float]:
    wire = Wire(url, Bounds())

    async def by_wire(body: bytes) -> None:
        headers = [(b"content-type", b"application/json")]
        answer = await wire.request("POST", PATH.encode(), headers, body)
        await answer.read(1 << 20)
        answer.release()

    async with aiohttp.ClientSession() as session:

        async def by_aiohttp(body: bytes) -> None:
            headers = {"content-type": "application/json"}
            async with session.post(url + PATH, data=body, headers=headers) as answer:
                await answer.read()

        found = {"tokenbox": await each_ms(by_wire, times), "aiohttp": await each_ms(by_aiohttp, times)}
    wire.close()
    return found


if __name__ == "__main__":
    print(json.dumps(uvloop.run(measure(sys.argv[1], int(sys.argv[2])))))
