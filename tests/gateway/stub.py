"""An upstream for the gateway's tests: the OpenAI and Anthropic APIs by the book, and every way to fail."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from aiohttp import web

# How a request asks for a fault: {"metadata": {"fault": NAME}}.
STARTED = web.AppKey("started", list)
CANCELLED = web.AppKey("cancelled", list)
SEEN = web.AppKey("seen", list)
CHUNKS = web.AppKey("chunks", int)


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def chunk(delta: dict[str, Any], **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    value = {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "stub",
        "choices": [choice],
        **more,
    }
    return b"data: " + compact(value) + b"\n\n"


def usage_of(body: dict[str, Any]) -> dict[str, int]:
    """What the stub says it used: a token for every four characters of the messages, three for the answer."""
    asked = body.get("messages", body.get("input", body.get("prompt", "")))
    prompt = max(1, len(json.dumps(asked)) // 4)
    return {"prompt_tokens": prompt, "completion_tokens": 3, "total_tokens": prompt + 3}


async def chat(request: web.Request) -> web.StreamResponse:
    body, fault = await fault_of(request)
    if fault is not None:
        return fault
    if not body.get("stream"):
        message = {"role": "assistant", "content": "Hello there"}
        return web.json_response(
            {
                "id": "c1",
                "object": "chat.completion",
                "created": 1,
                "model": "stub",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": usage_of(body),
            }
        )
    answer = await begin(request)
    for _ in range(request.app[CHUNKS]):
        await answer.write(chunk({"content": "Hello "}))
    if (body.get("stream_options") or {}).get("include_usage"):
        value = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "stub", "choices": []}
        await answer.write(b"data: " + compact({**value, "usage": usage_of(body)}) + b"\n\n")
    await answer.write(b"data: [DONE]\n\n")
    await answer.write_eof()
    return answer


async def begin(request: web.Request) -> web.StreamResponse:
    """The head and the first chunk of a stream."""
    answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await answer.prepare(request)
    await answer.write(chunk({"role": "assistant"}))
    return answer


def drop(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()


async def reset_before(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    drop(request)
    return web.Response()


async def reset_after_head(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    answer = web.StreamResponse(
        headers={"content-type": "text/event-stream" if body.get("stream") else "application/json"}
    )
    await answer.prepare(request)
    drop(request)
    return answer


async def half_a_chunk(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    answer = await begin(request)
    await answer.write(chunk({"content": "Hello"})[:40])
    await asyncio.sleep(0.05)  # so that it is sent before the connection goes
    drop(request)
    return answer


async def ends_early(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    answer = await begin(request)
    await answer.write_eof()
    return answer


async def bad_json(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.Response(body=b'{"id": "c1", "choices": [', content_type="application/json")


async def page(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.Response(text="<html>It works!</html>", content_type="text/html")


async def server_error(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.Response(status=500, text="<html>Internal Server Error</html>", content_type="text/html")


async def rate_limited(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    error = {
        "message": "Slow down.",
        "type": "rate_limit_error",
        "param": None,
        "code": "rate_limit_exceeded",
    }
    return web.json_response({"error": error}, status=429, headers={"retry-after": "7"})


async def flat_error(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """As SGLang has them: no error object."""
    return web.json_response(
        {"object": "error", "message": "too long", "type": "BadRequest", "code": 400}, status=400
    )


async def redirect(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.Response(status=307, headers={"location": "http://127.0.0.1:1/elsewhere"})


async def refuses_key(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    said = f"Incorrect API key provided: {request.headers.get('authorization')}"
    return web.json_response({"error": {"message": said, "type": "x", "code": "invalid_api_key"}}, status=401)


async def echoes_key(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """As debugging servers do: what it was sent, in the body and in a header."""
    given = request.headers.get("authorization", "") + request.headers.get("x-api-key", "")
    return web.json_response({"echo": given, "error": {"message": given}}, headers={"x-echo": given})


async def slow_stream(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """A stream that takes a second and ends well."""
    answer = await begin(request)
    for _ in range(50):
        await answer.write(chunk({"content": "more "}))
        await asyncio.sleep(0.02)
    await answer.write(b"data: [DONE]\n\n")
    await answer.write_eof()
    return answer


async def silent(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Never answers; notes that it was cancelled."""
    request.app[STARTED].append(1)
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        request.app[CANCELLED].append(time.monotonic())
        raise
    return web.Response()


async def endless(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """A stream that never ends; notes that its reader went."""
    answer = await begin(request)
    request.app[STARTED].append(1)
    try:
        while True:
            await answer.write(chunk({"content": "more "}))
            await asyncio.sleep(0.01)
    except (ConnectionError, asyncio.CancelledError):
        request.app[CANCELLED].append(time.monotonic())
        raise


FAULTS = {
    function.__name__: function
    for function in (
        *(
            reset_before,
            reset_after_head,
            half_a_chunk,
            ends_early,
            bad_json,
            page,
            server_error,
            rate_limited,
        ),
        *(flat_error, redirect, refuses_key, echoes_key, slow_stream, silent, endless),
    )
}


async def anthropic(request: web.Request) -> web.StreamResponse:
    body, fault = await fault_of(request)
    if fault is not None:
        return fault
    usage = {"input_tokens": usage_of(body)["prompt_tokens"], "output_tokens": 3}
    message = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "stub",
        "content": [],
        "usage": usage,
    }
    if not body.get("stream"):
        content = [{"type": "text", "text": "Hello there"}]
        return web.json_response(
            {**message, "content": content, "stop_reason": "end_turn", "stop_sequence": None}
        )
    answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await answer.prepare(request)
    delta = {"type": "text_delta", "text": "Hello there"}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "usage": {**usage, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]
    for event in events:
        await answer.write(b"event: " + event["type"].encode() + b"\ndata: " + compact(event) + b"\n\n")
    await answer.write_eof()
    return answer


async def fault_of(request: web.Request) -> tuple[dict[str, Any], web.StreamResponse | None]:
    """The request's body, and the fault's answer if it asks for one."""
    body = await request.json()
    request.app[SEEN].append(body)
    fault = (body.get("metadata") or {}).get("fault")
    return body, None if fault is None else await FAULTS[fault](request, body)


async def responses(request: web.Request) -> web.StreamResponse:
    body, fault = await fault_of(request)
    if fault is not None:
        return fault
    used = usage_of(body)
    usage = {
        "input_tokens": used["prompt_tokens"],
        "output_tokens": 3,
        "total_tokens": used["total_tokens"],
    }
    text = {"type": "output_text", "text": "Hello there", "annotations": []}
    item = {"id": "i1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    response = {"id": "r1", "object": "response", "created_at": 1, "model": "stub", "status": "completed"}
    if not body.get("stream"):
        return web.json_response({**response, "output": [item], "usage": usage})
    answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await answer.prepare(request)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "item_id": "i1", "output_index": 0, "delta": "Hello there"},
        {"type": "response.completed", "response": {**response, "output": [item], "usage": usage}},
    ]
    for number, event in enumerate(events):
        data = compact({**event, "sequence_number": number})
        await answer.write(b"event: " + event["type"].encode() + b"\ndata: " + data + b"\n\n")
    await answer.write_eof()
    return answer


async def completions(request: web.Request) -> web.StreamResponse:
    body, fault = await fault_of(request)
    if fault is not None:
        return fault
    choice = {"index": 0, "text": "Hello there", "finish_reason": "stop", "logprobs": None}
    head = {"id": "c1", "object": "text_completion", "created": 1, "model": "stub"}
    return web.json_response({**head, "choices": [choice], "usage": usage_of(body)})


async def embeddings(request: web.Request) -> web.StreamResponse:
    body, fault = await fault_of(request)
    if fault is not None:
        return fault
    prompt = usage_of(body)["prompt_tokens"]
    data = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]
    usage = {"prompt_tokens": prompt, "total_tokens": prompt}
    return web.json_response({"object": "list", "model": "stub", "data": data, "usage": usage})


async def tokenize(request: web.Request) -> web.Response:
    """vLLM's count, which is what the stub will report."""
    used = usage_of(await request.json())["prompt_tokens"]
    return web.json_response({"count": used, "max_model_len": 8000, "tokens": [0] * used})


async def models(request: web.Request) -> web.Response:
    return web.json_response(
        {"object": "list", "data": [{"id": "stub", "object": "model", "max_model_len": 8000}]}
    )


async def told(request: web.Request) -> web.Response:
    """What happened here, for the tests."""
    app = request.app
    return web.json_response(
        {"started": len(app[STARTED]), "cancelled": len(app[CANCELLED]), "seen": app[SEEN]}
    )


def make(chunks: int = 50) -> web.Application:
    app = web.Application(client_max_size=1 << 30)
    app[CHUNKS] = chunks
    app[STARTED], app[CANCELLED], app[SEEN] = [], [], []
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_post("/v1/messages", anthropic)
    app.router.add_post("/v1/responses", responses)
    app.router.add_post("/v1/completions", completions)
    app.router.add_post("/v1/embeddings", embeddings)
    app.router.add_post("/tokenize", tokenize)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/told", told)
    return app


if __name__ == "__main__":
    web.run_app(
        make(),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        access_log=None,
        print=None,
        handler_cancellation=True,  # or it would not notice who leaves
    )
