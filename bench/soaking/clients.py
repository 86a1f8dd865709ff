"""The clients of the soak, and the checks of responses."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
from soaking.fleet import SEND_SECONDS
from soaking.request_mix import PATHS, Behaviour
from soaking.words import tokens_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from soaking.request_mix import Request

# Seconds after which a request counts as unanswered.
TIMEOUT = 30.0
# The gateway must have closed the connection of a client that reads nothing for this time.
NOTHING_SECONDS = 2.5 * SEND_SECONDS


@dataclass(slots=True)
class Response:
    """A response. ``status`` is 0 without a head, ``data`` None if it is incomplete."""

    status: int = 0
    code: str | None = None
    data: bytes | None = None
    error: str | None = None
    headers: Any = None
    began: float = 0.0
    ended: float = 0.0


class Clients:
    """Connections to the gateways: a pool for normal clients, and small buffers for slow ones."""

    def __init__(self) -> None:
        self._good = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._slow = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True, socket_factory=_narrow),
            read_bufsize=4096,
        )
        self._random = random.Random(3)

    async def close(self) -> None:
        await self._good.close()
        await self._slow.close()

    async def send(self, url: str, request: Request, secret: str) -> Response:
        """Send a request and return its response; ``error`` is set instead of raising."""
        response = Response(began=time.time())
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._send(url, request, secret, response)
        except TimeoutError:
            response.error = f"no end within {TIMEOUT:g} seconds"
        except (aiohttp.ClientError, OSError) as error:
            response.error = f"{type(error).__name__}: {error}"
        response.ended = time.time()
        return response

    async def _send(self, url: str, request: Request, secret: str, response: Response) -> None:
        data = json.dumps(request.body, ensure_ascii=False).encode()
        named = {"x-api-key": secret} if request.api == "messages" else {"authorization": f"Bearer {secret}"}
        headers = {"content-type": "application/json", **named, **request.headers}
        slow = request.behaviour in (Behaviour.READS_SLOWLY, Behaviour.READS_NOTHING)
        leaves_early = request.behaviour in (Behaviour.LEAVES_SENDING, Behaviour.LEAVES_WAITING)
        session = self._slow if slow else self._good
        body: Any = data
        if request.behaviour is Behaviour.SENDS_SLOWLY:
            body = _slowly(data)
        elif request.behaviour is Behaviour.LEAVES_SENDING:
            body = _half(data)
        timeout = self._random.choice([0.001, 0.01, 0.05, 0.3]) if leaves_early else None
        try:
            async with (
                asyncio.timeout(timeout),
                session.post(url + PATHS[request.api], data=body, headers=headers) as answer,
            ):
                response.status, response.headers = answer.status, answer.headers
                await self._read(request, answer, response)
        except TimeoutError:
            if timeout is None:
                raise

    async def _read(self, request: Request, answer: aiohttp.ClientResponse, response: Response) -> None:
        if request.behaviour is Behaviour.LEAVES_READING:
            await answer.content.readany()
            answer.close()
            return
        if request.behaviour is Behaviour.READS_NOTHING and answer.status == 200:
            await answer.content.readany()
            await asyncio.sleep(NOTHING_SECONDS)
        pieces = []
        while piece := await answer.content.read(
            16_384 if request.behaviour is Behaviour.READS_SLOWLY else -1
        ):
            pieces.append(piece)
            if request.behaviour is Behaviour.READS_SLOWLY:
                await asyncio.sleep(0.1)
        response.data = b"".join(pieces)
        if answer.status != 200:
            response.code = _code(request, response.data)


def _narrow(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket with a small receive buffer."""
    found = socket.socket(*address[:3])
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    return found


async def _slowly(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), max(1, len(data) // 10)):
        yield data[start : start + max(1, len(data) // 10)]
        await asyncio.sleep(0.1)


async def _half(data: bytes) -> AsyncIterator[bytes]:
    yield data[: len(data) // 2]
    await asyncio.sleep(1)  # the client disconnects meanwhile


def _code(request: Request, data: bytes) -> str:
    """Return the error code. Anthropic's errors have none, so it is found by the message."""
    try:
        value = json.loads(data)
        error = value["error"]
        if request.api != "messages":
            return str(error["code"])
        if value["type"] != "error" or not isinstance(error["type"], str):
            return "no error of Anthropic's"
        message = str(error["message"])
    except (ValueError, KeyError, TypeError):
        return f"no error of the API: {data[:80]!r}"
    return next((code for text, code in _ANTHROPIC if text in message), message[:80])


_ANTHROPIC = (
    ("prompt is too long", "context_length_exceeded"),
    ("exceed context limit", "context_length_exceeded"),
    ("broke off the connection", "upstream_broke"),
    ("is not an answer", "upstream_garbled"),
    ("did not answer in time", "upstream_timeout"),
    ("refused the gateway's own key", "upstream_refused_key"),
    ("is busy", "upstream_busy"),
    ("' answered ", "upstream_error"),
    ("Rate limit reached", "quota_exceeded"),
    ("Quotas cannot be checked", "quota_store_unavailable"),
    ("Keys cannot be checked", "keys_unavailable"),
    ("The key is not known", "invalid_key"),
    ("may not use the model", "model_not_allowed"),
    ("may not use the mode", "mode_not_allowed"),
    ("is a whole number from 1 to 128", "invalid_request"),
)


def wrong_in(request: Request, response: Response) -> str | None:
    """Return what is wrong with a response of status 200; None if it is the upstream's own answer."""
    assert response.data is not None
    try:
        if response.headers["content-type"].startswith("text/event-stream"):
            return _wrong_in_stream(request, response.data)
        value = json.loads(response.data)
        return _wrong_in_note(request, value) or _wrong_in_text(request, _text_of(request, value))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        return f"{type(error).__name__} {error} in {response.data[:200]!r}"


def _wrong_in_note(request: Request, holder: dict[str, Any]) -> str | None:
    """Check the field `tokenbox`, which the gateway adds."""
    counted, tokens = holder["tokenbox"]["input_tokens"], tokens_of(request.body)
    return f"counted {counted}, not {tokens}" if request.counted and counted != tokens else None


def _wrong_in_text(request: Request, text: str) -> str | None:
    return None if text == request.answer else f"a different answer: {text[:100]!r}"


def _text_of(request: Request, value: dict[str, Any]) -> str:
    tools = "tools" in request.body
    if request.api == "chat":
        message = value["choices"][0]["message"]
        return str(message["tool_calls"][0]["function"]["arguments"] if tools else message["content"])
    if request.api == "completions":
        return str(value["choices"][0]["text"])
    if request.api == "responses":
        item = value["output"][0]
        return str(item["arguments"] if tools else item["content"][0]["text"])
    if request.api == "messages":
        block = value["content"][0]
        return str(block["input"]["said"] if tools else block["text"])
    return str(value["data"][0]["said"])


def _wrong_in_stream(request: Request, data: bytes) -> str | None:
    datas = [frame[frame.index(b"data: ") + 6 :] for frame in data.split(b"\n\n") if frame]
    values = [json.loads(found) for found in datas if found != b"[DONE]"]
    if request.ends_with is not None:
        return _wrong_in_error(request, values[-1])
    text = "".join(_delta(request, value) for value in values)
    if request.api == "messages" and "tools" in request.body:
        text = json.loads(text)["said"]
    first = values[0].get("response") or values[0].get("message") or values[0]
    return (
        _wrong_in_note(request, first)
        or _wrong_in_text(request, text)
        or _wrong_in_end(request, datas, values)
    )


def _wrong_in_error(request: Request, last: dict[str, Any]) -> str | None:
    """Check the last event of a stream that the upstream broke off."""
    error = last.get("error") or last
    code = error.get("code") or next((code for text, code in _ANTHROPIC if text in error["message"]), None)
    return None if code == request.ends_with else f"it ends with {last}"


def _wrong_in_end(request: Request, datas: list[bytes], values: list[dict[str, Any]]) -> str | None:
    """Check the last events: the usage, if it was requested, and the end."""
    if request.api in ("chat", "completions"):
        wanted = (request.body.get("stream_options") or {}).get("include_usage", False)
        if wanted is not any(value.get("usage") for value in values):
            return "no usage" if wanted else "usage that was not requested"
        return None if datas[-1] == b"[DONE]" else "no end"
    last = {"responses": "response.completed", "messages": "message_stop"}[request.api]
    return None if values[-1]["type"] == last else "no end"


def _delta(request: Request, value: dict[str, Any]) -> str:
    if request.api == "chat":
        delta = value["choices"][0]["delta"] if value["choices"] else {}
        calls = delta.get("tool_calls")
        return str(calls[0]["function"]["arguments"]) if calls else str(delta.get("content") or "")
    if request.api == "completions":
        return str(value["choices"][0]["text"]) if value["choices"] else ""
    if request.api == "responses":
        return str(value.get("delta", ""))
    delta = value.get("delta", {})
    return str(delta.get("text", "")) + str(delta.get("partial_json", ""))
