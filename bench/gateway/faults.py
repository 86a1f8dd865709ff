"""An upstream that does what the request's ``metadata.kind`` says: ``faults.py PORT FILE``.

It notes in the file the ``max_tokens`` of each request that arrives, before it answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from aiohttp import web

SEEN = web.AppKey("seen", int)
USAGE = {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960}
ABOUT = {"id": "c1", "created": 1, "model": "gpt-4o"}
PIECES = 20


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    value = {**ABOUT, "object": "chat.completion.chunk", "choices": [choice]}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


async def chat(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    os.write(request.app[SEEN], b"%d\n" % body["max_tokens"])
    kind = body["metadata"]["kind"]
    if kind == "reset":
        request.transport.abort()
        return web.Response()
    if kind == "garbled":
        return web.Response(body=b'{"id": "c1", "choices": [', content_type="application/json")
    if kind in ("500", "429"):
        error = {"message": kind, "type": "server_error", "param": None, "code": None}
        return web.json_response({"error": error}, status=int(kind))
    if kind == "slow":
        await asyncio.sleep(2)
    if not body["stream"]:
        message = {"role": "assistant", "content": "Hello there"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({**ABOUT, "object": "chat.completion", "choices": [choice], "usage": USAGE})
    answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await answer.prepare(request)
    for number in range(PIECES):
        await answer.write(chunk({"content": f" word{number}"}))
        await asyncio.sleep(0.005)
        if number == PIECES // 2 and kind == "reset in the stream":
            request.transport.abort()
            return answer
        if number == PIECES // 2 and kind == "ends early":
            await answer.write_eof()
            return answer
    value = {**ABOUT, "object": "chat.completion.chunk", "choices": [], "usage": USAGE}
    await answer.write(chunk({}, "stop") + b"data: " + json.dumps(value).encode() + b"\n\n")
    await answer.write(b"data: [DONE]\n\n")
    await answer.write_eof()
    return answer


async def healthy(request: web.Request) -> web.Response:
    return web.Response(text="ok")


def make(seen: str) -> web.Application:
    app = web.Application(client_max_size=1 << 28)
    app[SEEN] = os.open(seen, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_get("/healthz", healthy)
    return app


if __name__ == "__main__":
    web.run_app(make(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)
