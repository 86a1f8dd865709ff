"""A server with a small context window, for agents: ``windowed.py PORT``.

It answers requests with a tool by ``ROUNDS`` calls of the tool, whose results are long, and then by ``DONE``.
It refuses a request that is larger than the window with OpenAI's error. The first path segment names the
agent: ``/NAME/v1/chat/completions``. ``/NAME/told`` returns the sizes of the agent's requests.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from aiohttp import web

import tokenbox
from tests.clients.upstream import stream

MODEL = "gpt-4o"
WINDOW = 1_500
ROUNDS = 8
DONE = "I have read all pages."
SIZES = web.AppKey("sizes", dict[str, list[int]])


def counted(
    request: web.Request, body: dict[str, Any], answers: str
) -> tuple[int, bool, web.Response | None]:
    """Return the tokens of a request, whether to call a tool, and an error if it is too large."""
    sizes = request.app[SIZES].setdefault(request.match_info["name"], [])
    size = tokenbox.count({**body, "model": MODEL}).total
    sizes.append(size)
    if size <= WINDOW:
        return size, bool(body.get("tools")) and len(sizes) <= ROUNDS, None
    message = (
        f"This model's maximum context length is {WINDOW} tokens. However, your messages resulted in {size} "
        "tokens. Please reduce the length of the messages."
    )
    about = {"type": "invalid_request_error", "param": answers, "code": "context_length_exceeded"}
    return size, False, web.json_response({"error": {"message": message, **about}}, status=400)


async def chat(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    size, calls, refusal = counted(request, body, "messages")
    if refusal is not None:
        return refusal
    number = len(request.app[SIZES][request.match_info["name"]])
    usage = {"prompt_tokens": size, "completion_tokens": 3, "total_tokens": size + 3}
    about = {"id": f"chatcmpl-{number}", "created": 1_763_000_000, "model": MODEL}
    message: dict[str, Any] = {"role": "assistant", "content": DONE}
    if calls:
        function = {
            "name": body["tools"][0]["function"]["name"],
            "arguments": json.dumps({"number": number}),
        }
        call = {"id": f"call_{number}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reason = "tool_calls" if calls else "stop"
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        return web.json_response({**about, "object": "chat.completion", "choices": [choice], "usage": usage})

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**about, "object": "chat.completion.chunk", "choices": [choice]}

    called = [{"index": 0, **one} for one in message.get("tool_calls", ())]
    delta = {"tool_calls": called} if called else {"content": DONE}
    events: list[Any] = [chunk({"role": "assistant", "content": ""}), chunk(delta), chunk({}, reason)]
    if (body.get("stream_options") or {}).get("include_usage"):
        events.append({**chunk({}), "choices": [], "usage": usage})
    return await stream(request, [*events, "[DONE]"])


async def responses(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    size, calls, refusal = counted(request, body, "input")
    if refusal is not None:
        return refusal
    number = len(request.app[SIZES][request.match_info["name"]])
    item: dict[str, Any] = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
    }
    item["content"] = [{"type": "output_text", "text": DONE, "annotations": []}]
    if calls:
        item = {
            "id": f"fc_{number}",
            "type": "function_call",
            "call_id": f"call_{number}",
            "status": "completed",
        }
        item |= {"name": body["tools"][0]["name"], "arguments": json.dumps({"number": number})}
    usage: dict[str, Any] = {"input_tokens": size, "output_tokens": 3, "total_tokens": size + 3}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    response: dict[str, Any] = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_763_000_000,
        "model": MODEL,
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
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, "output": [], "usage": None}},
        {"type": "response.completed", "response": response},
    ]
    return await stream(request, [{**event, "sequence_number": n} for n, event in enumerate(events)])


async def messages(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    size, calls, refusal = counted(request, body, "messages")
    if refusal is not None:
        return refusal
    number = len(request.app[SIZES][request.match_info["name"]])
    block: dict[str, Any] = {"type": "text", "text": DONE}
    if calls:
        name = body["tools"][0]["name"]
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {"number": number}}
    usage = {"input_tokens": size - 10, "cache_read_input_tokens": 10, "output_tokens": 3}
    message: dict[str, Any] = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": MODEL}
    message |= {"content": [block], "stop_sequence": None, "usage": usage}
    message["stop_reason"] = "tool_use" if calls else "end_turn"
    if not body.get("stream"):
        return web.json_response(message)
    delta: dict[str, Any] = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": DONE}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]
    return await stream(request, events)


async def told(request: web.Request) -> web.Response:
    return web.json_response(request.app[SIZES].get(request.match_info["name"], []))


def make() -> web.Application:
    app = web.Application(client_max_size=1 << 28)
    app[SIZES] = {}
    app.router.add_post("/{name}/v1/chat/completions", chat)
    app.router.add_post("/{name}/v1/responses", responses)
    app.router.add_post("/{name}/v1/messages", messages)
    app.router.add_get("/{name}/told", told)
    return app


if __name__ == "__main__":
    web.run_app(make(), host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)
