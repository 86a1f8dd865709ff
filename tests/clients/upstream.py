"""An upstream whose answers are known, with tools, for the official clients: ``upstream.py PORT``.

It calls the first tool that a request offers, with Paris for a city, and says ``Sunny.``
once it has the result.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Iterable

MODEL = "gpt-4o"
TEXT = "Hello there"
AFTER_TOOL = "Sunny."
CITY = {"city": "Paris"}
ARGUMENTS = json.dumps(CITY)
SEEN = web.AppKey("seen", list)


def has(value: object, *kinds: str) -> bool:
    """Whether the result of a tool is in the request."""
    text = json.dumps(value)
    return any(kind in text for kind in kinds)


async def stream(request: web.Request, events: Iterable[dict[str, Any] | str]) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await answer.prepare(request)
    for event in events:
        text = event if isinstance(event, str) else json.dumps(event)
        kind = event.get("type") if isinstance(event, dict) else None
        name = f"event: {kind}\n" if kind else ""
        await answer.write(f"{name}data: {text}\n\n".encode())
    await answer.write_eof()
    return answer


# OpenAI's chat completions.


async def chat(request: web.Request) -> web.StreamResponse:
    body = await asked(request)
    usage = {"prompt_tokens": 25, "completion_tokens": 3, "total_tokens": 28}
    about = {"id": "chatcmpl-1", "created": 1_763_000_000, "model": body["model"]}
    done = has(body["messages"], '"role": "tool"')
    message: dict[str, Any] = {"role": "assistant", "content": AFTER_TOOL if done else TEXT}
    reason = "stop"
    if body.get("tools") and not done:
        function = {"name": body["tools"][0]["function"]["name"], "arguments": ARGUMENTS}
        message |= {
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        }
        reason = "tool_calls"
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        return web.json_response({**about, "object": "chat.completion", "choices": [choice], "usage": usage})

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**about, "object": "chat.completion.chunk", "choices": [choice]}

    deltas = [{"tool_calls": [{"index": 0, **call}]} for call in message.get("tool_calls", [])] or [
        {"content": message["content"][:5]},
        {"content": message["content"][5:]},
    ]
    events: list[Any] = [chunk({"role": "assistant", "content": ""}), *map(chunk, deltas), chunk({}, reason)]
    if (body.get("stream_options") or {}).get("include_usage"):
        events.append({**chunk({}), "choices": [], "usage": usage})
    return await stream(request, [*events, "[DONE]"])


# OpenAI's responses.


async def responses(request: web.Request) -> web.StreamResponse:
    body = await asked(request)
    text = {"type": "output_text", "text": TEXT, "annotations": []}
    item: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
    item["content"] = [text]
    if body.get("tools") and not has(body["input"], "function_call_output"):
        item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "status": "completed"}
        item |= {"name": body["tools"][0]["name"], "arguments": ARGUMENTS}
    usage: dict[str, Any] = {"input_tokens": 25, "output_tokens": 3, "total_tokens": 28}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    response: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_763_000_000,
        "model": body["model"],
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "top_p": 1.0,
        "tool_choice": "auto",
        "tools": body.get("tools", []),
        "output": [item],
        "usage": usage,
    }
    if not body.get("stream"):
        return web.json_response(response)
    begun: dict[str, Any] = {**response, "status": "in_progress", "output": [], "usage": None}
    at = {"item_id": item["id"], "output_index": 0}
    inside: list[dict[str, Any]] = [
        {"type": "response.content_part.added", **at, "content_index": 0, "part": {**text, "text": ""}},
        *(
            {"type": "response.output_text.delta", **at, "content_index": 0, "delta": part, "logprobs": []}
            for part in (TEXT[:5], TEXT[5:])
        ),
        {"type": "response.output_text.done", **at, "content_index": 0, "text": TEXT, "logprobs": []},
        {"type": "response.content_part.done", **at, "content_index": 0, "part": text},
    ]
    if item["type"] == "function_call":
        inside = [
            {"type": "response.function_call_arguments.delta", **at, "delta": ARGUMENTS},
            {"type": "response.function_call_arguments.done", **at, "arguments": ARGUMENTS},
        ]
    empty: dict[str, Any] = {"content": []} if "content" in item else {"arguments": ""}
    added = {**item, "status": "in_progress", **empty}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": added},
        *inside,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    return await stream(request, [{**event, "sequence_number": n} for n, event in enumerate(events)])


# Anthropic's messages.


async def messages(request: web.Request) -> web.StreamResponse:
    body = await asked(request)
    usage = {"input_tokens": 25, "output_tokens": 3}
    done = has(body["messages"], "tool_result")
    block: dict[str, Any] = {"type": "text", "text": AFTER_TOOL if done else TEXT}
    reason = "end_turn"
    if body.get("tools") and not done:
        block = {"type": "tool_use", "id": "toolu_1", "name": body["tools"][0]["name"], "input": CITY}
        reason = "tool_use"
    message: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"]}
    message |= {"content": [block], "stop_reason": reason, "stop_sequence": None, "usage": usage}
    if not body.get("stream"):
        return web.json_response(message)
    empty = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
    delta: dict[str, Any] = {"type": "input_json_delta", "partial_json": ARGUMENTS}
    if block["type"] == "text":
        delta = {"type": "text_delta", "text": block["text"]}
    begun = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    return await stream(
        request,
        [
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "ping"},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": {"output_tokens": 3},
            },
            {"type": "message_stop"},
        ],
    )


async def models(request: web.Request) -> web.Response:
    return web.json_response(
        {"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 8000}]}
    )


async def asked(request: web.Request) -> dict[str, Any]:
    body: dict[str, Any] = await request.json()
    request.app[SEEN].append(len(json.dumps(body)))
    return body


async def told(request: web.Request) -> web.Response:
    """The sizes of what arrived here."""
    return web.json_response(request.app[SEEN])


def make() -> web.Application:
    app = web.Application(client_max_size=1 << 28)
    app[SEEN] = []
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_post("/v1/responses", responses)
    app.router.add_post("/v1/messages", messages)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/told", told)
    return app


if __name__ == "__main__":
    web.run_app(make(), host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)
