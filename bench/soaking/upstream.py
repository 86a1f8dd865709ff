"""The upstream of the soak: ``upstream.py PORT FILE``.

It serves all five APIs and the counting endpoints of llama.cpp, and fails as requested by ``metadata.fault``,
with the faults of tests/gateway/stub.py. It writes each arriving request to FILE as JSON before it responds.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import uvloop
from aiohttp import web

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent)]

from soaking.words import WINDOW, output_of, pieces_of, reserved_in, tokens_of  # noqa: E402

from tests.gateway import stub  # noqa: E402

NOTES = web.AppKey("notes", int)
SUMMARY = "Summarize the conversation"
_NUMBER = re.compile(r"#(\d+)")


class Discarded(list[Any]):
    """A list that stays empty, for records of the stub that would fill the memory."""

    def append(self, item: object) -> None:
        pass


async def answer(request: web.Request) -> web.StreamResponse:
    """Respond in the API of the path."""
    body = await request.json()
    api = _API[request.path]
    options = body.get("metadata") or {}
    is_summary = not options and SUMMARY in json.dumps(body.get("messages", ""))
    number = _numbers_in(body["messages"])[0] if is_summary else int(options["number"])
    tokens, reserved = tokens_of(body), reserved_in(body)
    output = output_of(number, reserved) if reserved else 0
    fault = options.get("fault")
    note = {
        "number": number,
        "at": time.time(),
        "api": "summarize" if is_summary else api.__name__,
        "model": body["model"],
        "tokens": tokens,
        "reserved": reserved,
        "output": output,
        "fault": fault,
    }
    os.write(request.app[NOTES], json.dumps(note).encode() + b"\n")
    if fault is not None:
        return await stub.FAULTS[fault](request, body)
    if delay := options.get("delay"):
        await asyncio.sleep(float(delay))
    pieces = pieces_of(number, int(options.get("pieces", 4)), int(options.get("size", 12)))
    whole, events = api("".join(pieces), pieces, tokens, output, tools="tools" in body)
    if not body.get("stream"):
        return web.Response(body=json.dumps(whole).encode(), content_type="application/json")
    return await streamed(request, events, float(options.get("pause", 0)))


def _numbers_in(messages: object) -> list[int]:
    """Return the numbers of the requests whose history is to be summarized."""
    return [int(number) for number in _NUMBER.findall(json.dumps(messages))]


async def streamed(request: web.Request, events: list[bytes], pause: float) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for event in events:
        await response.write(event)
        if pause:
            await asyncio.sleep(pause)
    await response.write_eof()
    return response


Answer = tuple[dict[str, Any], list[bytes]]


def frame(value: dict[str, Any], event: str | None = None) -> bytes:
    named = b"" if event is None else b"event: " + event.encode() + b"\n"
    return named + b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def chat(said: str, pieces: list[str], tokens: int, output: int, *, tools: bool) -> Answer:
    usage = {"prompt_tokens": tokens, "completion_tokens": output, "total_tokens": tokens + output}
    head = {"id": "c", "created": 1, "model": "soak"}

    def called(arguments: str) -> dict[str, Any]:
        function = {"name": "look", "arguments": arguments}
        return {"tool_calls": [{"index": 0, "id": "t", "type": "function", "function": function}]}

    message = {"role": "assistant", **(called(said) if tools else {"content": said})}
    finish = "tool_calls" if tools else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return frame({**head, "object": "chat.completion.chunk", "choices": [choice]})

    return {**head, "object": "chat.completion", "choices": [choice], "usage": usage}, [
        chunk({"role": "assistant"}),
        *(chunk(called(piece) if tools else {"content": piece}) for piece in pieces),
        chunk({}, finish),
        frame({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage}),
        b"data: [DONE]\n\n",
    ]


def completions(said: str, pieces: list[str], tokens: int, output: int, *, tools: bool) -> Answer:
    usage = {"prompt_tokens": tokens, "completion_tokens": output, "total_tokens": tokens + output}
    head = {"id": "c", "object": "text_completion", "created": 1, "model": "soak"}

    def choice(text: str, finish: str | None = None) -> dict[str, Any]:
        return {"index": 0, "text": text, "finish_reason": finish, "logprobs": None}

    return {**head, "choices": [choice(said, "stop")], "usage": usage}, [
        *(frame({**head, "choices": [choice(piece)]}) for piece in pieces),
        frame({**head, "choices": [choice("", "stop")]}),
        frame({**head, "choices": [], "usage": usage}),
        b"data: [DONE]\n\n",
    ]


def responses(said: str, pieces: list[str], tokens: int, output: int, *, tools: bool) -> Answer:
    usage = {"input_tokens": tokens, "output_tokens": output, "total_tokens": tokens + output}
    head = {"id": "r", "object": "response", "created_at": 1, "model": "soak"}
    item: dict[str, Any] = {"id": "i", "status": "completed"}
    if tools:
        item |= {"type": "function_call", "call_id": "t", "name": "look", "arguments": said}
    else:
        content = [{"type": "output_text", "text": said, "annotations": []}]
        item |= {"type": "message", "role": "assistant", "content": content}
    kind = "response.function_call_arguments.delta" if tools else "response.output_text.delta"
    whole = {**head, "status": "completed", "output": [item], "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**head, "status": "in_progress", "output": []}},
        *({"type": kind, "item_id": "i", "output_index": 0, "delta": piece} for piece in pieces),
        {"type": "response.completed", "response": whole},
    ]
    for number, event in enumerate(events):
        event["sequence_number"] = number
    return whole, [frame(event, event["type"]) for event in events]


def messages(said: str, pieces: list[str], tokens: int, output: int, *, tools: bool) -> Answer:
    usage = {"input_tokens": tokens, "output_tokens": output}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "soak"}
    if tools:
        block: dict[str, Any] = {"type": "tool_use", "id": "t", "name": "look", "input": {"said": said}}
        opened = {**block, "input": {}}
        parts = json.dumps({"said": said})
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in (parts[:9], parts[9:])]
    else:
        block, opened = {"type": "text", "text": said}, {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    reason = {"stop_reason": "tool_use" if tools else "end_turn", "stop_sequence": None}
    begun: dict[str, Any] = {
        **message,
        "content": [],
        **dict.fromkeys(reason),
        "usage": {**usage, "output_tokens": 1},
    }
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": opened},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": reason, "usage": {"output_tokens": output}},
        {"type": "message_stop"},
    ]
    return {**message, "content": [block], **reason, "usage": usage}, [
        frame(event, event["type"]) for event in events
    ]


def embeddings(said: str, pieces: list[str], tokens: int, output: int, *, tools: bool) -> Answer:
    data = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25], "said": said}]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": "soak", "data": data, "usage": usage}, []


_API = {
    "/v1/chat/completions": chat,
    "/v1/completions": completions,
    "/v1/responses": responses,
    "/v1/messages": messages,
    "/v1/embeddings": embeddings,
}


async def count(request: web.Request) -> web.Response:
    return web.json_response({"input_tokens": tokens_of(await request.json())})


async def tokenize(request: web.Request) -> web.Response:
    return web.json_response({"tokens": [0] * tokens_of(await request.json())})


async def models(request: web.Request) -> web.Response:
    listed = [
        {"id": name, "object": "model", "meta": {"n_ctx": WINDOW}} for name in ("soak", "small", "busy")
    ]
    return web.json_response({"object": "list", "data": listed})


async def props(request: web.Request) -> web.Response:
    return web.json_response({"default_generation_settings": {"n_ctx": WINDOW}, "total_slots": 1})


async def healthy(request: web.Request) -> web.Response:
    return web.Response(text="ok")


def make(notes: str) -> web.Application:
    app = web.Application(client_max_size=1 << 28)
    app[NOTES] = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    app[stub.STARTED] = app[stub.CANCELLED] = app[stub.SEEN] = app[stub.HEADERS] = Discarded()
    for path in _API:
        app.router.add_post(path, answer)
    for path in ("/v1/chat/completions/input_tokens", "/v1/responses/input_tokens"):
        app.router.add_post(path, count)
    app.router.add_post("/v1/messages/count_tokens", count)
    app.router.add_post("/tokenize", tokenize)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/props", props)
    app.router.add_get("/healthz", healthy)
    return app


if __name__ == "__main__":
    uvloop.install()
    web.run_app(
        make(sys.argv[2]),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        access_log=None,
        print=None,
        handler_cancellation=True,  # to notice clients that disconnect
    )
