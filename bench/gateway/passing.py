"""A minimal proxy with aiohttp, without limits or counts: ``passing.py PORT UPSTREAM``."""

from __future__ import annotations

import sys

import aiohttp
import uvloop
from aiohttp import web

SESSION = web.AppKey("session", aiohttp.ClientSession)
UPSTREAM = web.AppKey("upstream", str)


async def passing(request: web.Request) -> web.StreamResponse:
    body = await request.read()
    async with request.app[SESSION].post(
        request.app[UPSTREAM] + request.path, data=body, headers={"content-type": "application/json"}
    ) as answer:
        if answer.content_type != "text/event-stream":
            return web.Response(body=await answer.read(), content_type="application/json")
        out = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await out.prepare(request)
        async for piece in answer.content.iter_any():
            await out.write(piece)
        await out.write_eof()
        return out


async def healthy(request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def session(app: web.Application) -> object:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as found:
        app[SESSION] = found
        yield


def make(upstream: str) -> web.Application:
    app = web.Application(client_max_size=1 << 30)
    app[UPSTREAM] = upstream
    app.cleanup_ctx.append(session)
    app.router.add_post("/v1/chat/completions", passing)
    app.router.add_get("/healthz", healthy)
    return app


if __name__ == "__main__":
    uvloop.install()
    web.run_app(make(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)
