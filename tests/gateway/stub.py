"""An upstream for the gateway's tests: the OpenAI and Anthropic APIs, and many faults."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# A request selects a fault by {"metadata": {"fault": NAME}}.
HEADERS = web.AppKey("headers", list)
STARTED = web.AppKey("started", list)
CANCELLED = web.AppKey("cancelled", list)
SEEN = web.AppKey("seen", list)
LOOKS = web.AppKey("looks", list)
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
    """Return the reported usage: a token per four characters of the messages, three for the answer."""
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
    await answer.write(chunk({"role": "assistant"}))
    for _ in range(request.app[CHUNKS]):
        await answer.write(chunk({"content": "Hello "}))
    if (body.get("stream_options") or {}).get("include_usage"):
        value = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "stub", "choices": []}
        await answer.write(b"data: " + compact({**value, "usage": usage_of(body)}) + b"\n\n")
    await answer.write(b"data: [DONE]\n\n")
    await answer.write_eof()
    return answer


async def begin(request: web.Request) -> web.StreamResponse:
    """Send the head of a stream."""
    answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await answer.prepare(request)
    return answer


def event_of(path: str, number: int, text: str = "Hello ") -> bytes:
    """Return an event of a stream of that API: its first, or one with a piece of the text."""
    if path == "/v1/messages":
        return named(anthropic_events(text)[3 if number else 0])
    if path == "/v1/responses":
        return named({**responses_events(text)[1 if number else 0], "sequence_number": number})
    if path == "/v1/completions":
        return b"data: " + compact(completion(text, None)) + b"\n\n"
    return chunk({"content": text} if number else {"role": "assistant"})


def last_of(path: str) -> bytes:
    if path == "/v1/messages":
        return named(anthropic_events("")[-1])
    if path == "/v1/responses":
        return named({**responses_events("")[-1], "sequence_number": 2})
    return b"data: [DONE]\n\n"


def named(event: dict[str, Any]) -> bytes:
    return b"event: " + str(event["type"]).encode() + b"\ndata: " + compact(event) + b"\n\n"


async def begin_fault(request: web.Request, body: dict[str, Any], **headers: str) -> web.StreamResponse:
    """Send the head, and the first event of a stream or the beginning of a JSON body."""
    if body.get("stream"):
        answer = await begin(request)
        await answer.write(event_of(request.path, 0))
    else:
        answer = web.StreamResponse(headers={"content-type": "application/json", **headers})
        await answer.prepare(request)
        await answer.write(b'{"id": "c1",')
    return answer


async def more(answer: web.StreamResponse, request: web.Request, body: dict[str, Any], text: str) -> None:
    """Send another piece of an endless answer."""
    if body.get("stream"):
        await answer.write(event_of(request.path, 1, text))
    else:
        await answer.write(b" " * len(text))


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


async def half_a_head(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/ev")
    return await gone(request, web.Response())


async def no_http(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.write(b"220 mail.example.org ESMTP\r\n")
    return await gone(request, web.Response())


async def half_a_chunk(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    answer = await begin_fault(request, body)
    await answer.write(event_of(request.path, 1)[:-20])
    return await gone(request, answer)


async def half_a_body(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Send fewer bytes than announced; end a stream in the middle of an event."""
    answer = await begin_fault(request, body, **{"content-length": "1000"})
    if not body.get("stream"):
        return await gone(request, answer)
    await answer.write(event_of(request.path, 1)[:-20])
    await answer.write_eof()
    return answer


async def gone(request: web.Request, answer: web.StreamResponse) -> web.StreamResponse:
    """Break the connection after the written data is sent."""
    await asyncio.sleep(0.05)
    drop(request)
    return answer


async def ends_early(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    answer = await begin_fault(request, body)
    await answer.write_eof()
    return answer


async def no_done(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """End a stream after its finish_reason and the usage, without ``[DONE]``, as some servers do."""
    answer = await begin_fault(request, body)
    choice = {"index": 0, "delta": {}, "text": "", "finish_reason": "stop"}
    for event in ({"choices": [choice]}, {"choices": [], "usage": usage_of(body)}):
        await answer.write(b"data: " + compact(event) + b"\n\n")
    await answer.write_eof()
    return answer


async def bad_event(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Send invalid JSON in an event between two valid ones; end a JSON body early."""
    answer = await begin_fault(request, body)
    if body.get("stream"):
        await answer.write(
            b'data: {"id": "c1", "choi\n\n' + event_of(request.path, 1) + last_of(request.path)
        )
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
    """Fail as SGLang does, without an error object."""
    return web.json_response(
        {"object": "error", "message": "too long", "type": "BadRequest", "code": 400}, status=400
    )


async def redirect(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.Response(status=307, headers={"location": "http://127.0.0.1:1/elsewhere"})


async def created(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Answer with another status of success, as some frameworks do to each POST."""
    return web.json_response({"id": "c1", "usage": usage_of(body)}, status=201)


async def error_as_success(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.json_response({"error": {"message": "no", "code": 502}})


async def zipped(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Compress the answer, also though the request says not to."""
    kind = "text/event-stream" if body.get("stream") else "application/json"
    answer = web.Response(body=gzip.compress(event_of(request.path, 0)), content_type=kind)
    answer.headers["content-encoding"] = "gzip"
    return answer


async def zipped_error(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    data = gzip.compress(b'{"error": {"message": "too long"}}')
    return web.Response(body=data, status=400, headers={"content-encoding": "gzip"})


async def utf_16(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.Response(body=json.dumps({"id": "c1"}).encode("utf-16"), content_type="application/json")


async def no_status(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.Response(status=999, text="{}", content_type="application/json")


async def refuses_key(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    message = f"Incorrect API key provided: {request.headers.get('authorization')}"
    return web.json_response(
        {"error": {"message": message, "type": "x", "code": "invalid_api_key"}}, status=401
    )


async def echoes_key(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Echo the key in the body and in a header, as debugging servers do."""
    key = request.headers.get("authorization", "") + request.headers.get("x-api-key", "")
    return web.json_response({"echo": key, "error": {"message": key}}, headers={"x-echo": key})


async def zero_usage(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Answer with zeros in the usage, as servers do that do not count."""
    return web.json_response({"id": "c1", "usage": {"prompt_tokens": 0, "completion_tokens": 0}})


async def slow_stream(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Send a complete stream that takes a second."""
    answer = await begin_fault(request, body)
    for _ in range(50):
        await answer.write(event_of(request.path, 1))
        await asyncio.sleep(0.02)
    await answer.write(last_of(request.path))
    await answer.write_eof()
    return answer


async def silent(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Never answer; record that the client disconnects."""
    return await until_gone(request, lambda: asyncio.sleep(3600), web.Response())


async def stalls(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Send the beginning and nothing more."""
    return await until_gone(request, lambda: asyncio.sleep(3600), await begin_fault(request, body))


async def endless(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Send an endless answer."""
    answer = await begin_fault(request, body)

    async def step() -> None:
        await more(answer, request, body, "more ")
        await asyncio.sleep(0.01)

    return await until_gone(request, step, answer)


async def flood(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Send an endless answer as fast as the client reads."""
    answer = await begin_fault(request, body)
    return await until_gone(request, lambda: more(answer, request, body, "x" * 60_000), answer)


async def large(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Send a JSON body that is larger than any buffer of a connection."""
    return web.json_response({"id": "c1", "pad": "x" * 30_000_000, "usage": usage_of(body)})


async def until_gone(
    request: web.Request, step: Callable[[], Awaitable[None]], answer: web.StreamResponse
) -> web.StreamResponse:
    """Repeat the step until the client disconnects, and record that."""
    request.app[STARTED].append(1)
    try:
        while True:
            await step()
    except (ConnectionError, asyncio.CancelledError):
        request.app[CANCELLED].append(time.monotonic())
        raise
    return answer


FAULTS = {
    function.__name__: function
    for function in (
        reset_before, half_a_head, no_http, reset_after_head, half_a_chunk, half_a_body, ends_early, no_done,
        bad_json, bad_event, page, server_error, rate_limited, flat_error, redirect, no_status, created,
        refuses_key, error_as_success, zipped, zipped_error, utf_16, echoes_key, zero_usage, slow_stream,
        silent, stalls, endless, flood, large,
    )
}  # fmt: skip


async def anthropic(request: web.Request) -> web.StreamResponse:
    body, fault = await fault_of(request)
    if fault is not None:
        return fault
    tokens = usage_of(body)["prompt_tokens"]
    if not body.get("stream"):
        content = [{"type": "text", "text": "Hello there"}]
        ended = {"content": content, "stop_reason": "end_turn", "stop_sequence": None}
        return web.json_response({**anthropic_message(tokens, kept=is_kept(body)), **ended})
    answer = await begin(request)
    for event in anthropic_events("Hello there", tokens, kept=is_kept(body)):
        await answer.write(named(event))
    await answer.write_eof()
    return answer


def is_kept(body: dict[str, Any]) -> bool:
    """Whether the request has a mark for a cache of an hour."""
    return '"ttl": "1h"' in json.dumps(body)


def anthropic_message(tokens: int, *, kept: bool = False) -> dict[str, Any]:
    """Return a message without content. ``kept``: the whole input was written to the cache for an hour."""
    head = {"id": "m1", "type": "message", "role": "assistant", "model": "stub"}
    written = {
        "input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": tokens,
        "cache_creation": {"ephemeral_1h_input_tokens": tokens, "ephemeral_5m_input_tokens": 0},
    }
    usage = {**(written if kept else {"input_tokens": tokens}), "output_tokens": 3}
    return {**head, "content": [], "usage": usage}


def anthropic_events(text: str, tokens: int = 1, *, kept: bool = False) -> list[dict[str, Any]]:
    message = anthropic_message(tokens, kept=kept)
    usage = message["usage"]
    delta = {"type": "text_delta", "text": text}
    return [
        {"type": "message_start", "message": {**message, "usage": {**usage, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]


async def fault_of(request: web.Request) -> tuple[dict[str, Any], web.StreamResponse | None]:
    """Return the request's body, and the response of its fault if it selects one."""
    body = await request.json()
    request.app[SEEN].append(body)
    request.app[HEADERS].append(dict(request.headers))
    fault = (body.get("metadata") or {}).get("fault")
    return body, None if fault is None else await FAULTS[fault](request, body)


async def responses(request: web.Request) -> web.StreamResponse:
    body, fault = await fault_of(request)
    if fault is not None:
        return fault
    events = responses_events("Hello there", usage_of(body)["prompt_tokens"])
    if not body.get("stream"):
        return web.json_response(events[-1]["response"])
    answer = await begin(request)
    for number, event in enumerate(events):
        await answer.write(named({**event, "sequence_number": number}))
    await answer.write_eof()
    return answer


def responses_events(content: str, tokens: int = 1) -> list[dict[str, Any]]:
    usage = {"input_tokens": tokens, "output_tokens": 3, "total_tokens": tokens + 3}
    text = {"type": "output_text", "text": content, "annotations": []}
    item = {"id": "i1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    response = {"id": "r1", "object": "response", "created_at": 1, "model": "stub", "status": "completed"}
    return [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "item_id": "i1", "output_index": 0, "delta": content},
        {"type": "response.completed", "response": {**response, "output": [item], "usage": usage}},
    ]


async def completions(request: web.Request) -> web.StreamResponse:
    body, fault = await fault_of(request)
    if fault is not None:
        return fault
    if not body.get("stream"):
        return web.json_response({**completion("Hello there"), "usage": usage_of(body)})
    answer = await begin(request)
    for text in ("Hello ", "there"):
        await answer.write(b"data: " + compact(completion(text, None)) + b"\n\n")
    if (body.get("stream_options") or {}).get("include_usage"):
        value = {**completion(""), "choices": [], "usage": usage_of(body)}
        await answer.write(b"data: " + compact(value) + b"\n\n")
    await answer.write(b"data: [DONE]\n\n")
    await answer.write_eof()
    return answer


def completion(text: str, finish: str | None = "stop") -> dict[str, Any]:
    choice = {"index": 0, "text": text, "finish_reason": finish, "logprobs": None}
    head = {"id": "c1", "object": "text_completion", "created": 1, "model": "stub"}
    return {**head, "choices": [choice]}


async def embeddings(request: web.Request) -> web.StreamResponse:
    body, fault = await fault_of(request)
    if fault is not None:
        return fault
    prompt = usage_of(body)["prompt_tokens"]
    data = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]
    usage = {"prompt_tokens": prompt, "total_tokens": prompt}
    return web.json_response({"object": "list", "model": "stub", "data": data, "usage": usage})


async def count_tokens(request: web.Request) -> web.Response:
    """Count as Anthropic does, which requires the header `anthropic-version`."""
    body = await request.json()
    request.app[SEEN].append(body)
    request.app[HEADERS].append(dict(request.headers))
    if "anthropic-version" not in request.headers:
        error = {"type": "invalid_request_error", "message": "anthropic-version: header is required"}
        return web.json_response({"type": "error", "error": error}, status=400)
    return web.json_response({"input_tokens": usage_of(body)["prompt_tokens"]})


async def tokenize(request: web.Request) -> web.Response:
    """Count as vLLM does, equal to the reported usage; never answer for the model ``never-counted``."""
    body = await request.json()
    if body.get("model") == "never-counted":
        await until_gone(request, lambda: asyncio.sleep(3600), web.Response())
    used = usage_of(body)["prompt_tokens"]
    return web.json_response({"count": used, "max_model_len": 8000, "tokens": [0] * used})


async def models(request: web.Request) -> web.Response:
    request.app[LOOKS].append(request.path)
    found = [{"id": "stub", "object": "model", "max_model_len": 8000}]
    if request.headers.get("authorization") == "Bearer sk-tuner":
        found.append({"id": "tuned", "object": "model", "max_model_len": 8000})
    return web.json_response({"object": "list", "data": found})


async def told(request: web.Request) -> web.Response:
    """Return the records of the stub."""
    app = request.app
    return web.json_response(
        {"started": len(app[STARTED]), "cancelled": len(app[CANCELLED]), "seen": app[SEEN]}
    )


def make(chunks: int = 50) -> web.Application:
    app = web.Application(client_max_size=1 << 30)
    app[CHUNKS] = chunks
    app[STARTED], app[CANCELLED], app[SEEN], app[HEADERS], app[LOOKS] = [], [], [], [], []
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_post("/v1/messages", anthropic)
    app.router.add_post("/v1/messages/count_tokens", count_tokens)
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
        handler_cancellation=True,  # to notice clients that disconnect
    )
