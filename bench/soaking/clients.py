"""How the soak's clients ask, and whether what they see is what has to come."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
from soaking.asks import PATHS, Manner
from soaking.fleet import SEND_SECONDS
from soaking.words import tokens_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from soaking.asks import Ask

# Whoever waits longer counts as one without an answer.
PATIENCE = 30.0
# One that reads nothing for so long has to find its connection closed then.
NOTHING_SECONDS = 2.5 * SEND_SECONDS


@dataclass(slots=True)
class Seen:
    """What a client saw. ``status`` 0: no head of an answer; ``data`` None: not to its end."""

    status: int = 0
    code: str | None = None
    data: bytes | None = None
    error: str | None = None
    headers: Any = None
    began: float = 0.0
    ended: float = 0.0


class Clients:
    """Connections to the gateways: good ones that are kept, and those of clients that hardly read."""

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

    async def ask(self, url: str, ask: Ask, secret: str) -> Seen:
        """Never raises; ``error`` says what went wrong."""
        seen = Seen(began=time.time())
        try:
            async with asyncio.timeout(PATIENCE):
                await self._ask(url, ask, secret, seen)
        except TimeoutError:
            seen.error = f"no end within {PATIENCE:g} seconds"
        except (aiohttp.ClientError, OSError) as error:
            seen.error = f"{type(error).__name__}: {error}"
        seen.ended = time.time()
        return seen

    async def _ask(self, url: str, ask: Ask, secret: str, seen: Seen) -> None:
        data = json.dumps(ask.body, ensure_ascii=False).encode()
        named = {"x-api-key": secret} if ask.api == "messages" else {"authorization": f"Bearer {secret}"}
        headers = {"content-type": "application/json", **named, **ask.headers}
        slow = ask.manner in (Manner.READS_SLOWLY, Manner.READS_NOTHING)
        leaves_early = ask.manner in (Manner.LEAVES_SENDING, Manner.LEAVES_WAITING)
        session = self._slow if slow else self._good
        body: Any = data
        if ask.manner is Manner.SENDS_SLOWLY:
            body = _slowly(data)
        elif ask.manner is Manner.LEAVES_SENDING:
            body = _half(data)
        patience = self._random.choice([0.001, 0.01, 0.05, 0.3]) if leaves_early else None
        try:
            async with (
                asyncio.timeout(patience),
                session.post(url + PATHS[ask.api], data=body, headers=headers) as answer,
            ):
                seen.status, seen.headers = answer.status, answer.headers
                await self._read(ask, answer, seen)
        except TimeoutError:
            if patience is None:
                raise

    async def _read(self, ask: Ask, answer: aiohttp.ClientResponse, seen: Seen) -> None:
        if ask.manner is Manner.LEAVES_READING:
            await answer.content.readany()
            answer.close()
            return
        if ask.manner is Manner.READS_NOTHING and answer.status == 200:
            await answer.content.readany()
            await asyncio.sleep(NOTHING_SECONDS)
        pieces = []
        while piece := await answer.content.read(16_384 if ask.manner is Manner.READS_SLOWLY else -1):
            pieces.append(piece)
            if ask.manner is Manner.READS_SLOWLY:
                await asyncio.sleep(0.1)
        seen.data = b"".join(pieces)
        if answer.status != 200:
            seen.code = _code(ask, seen.data)


def _narrow(address: tuple[Any, ...]) -> socket.socket:
    """A socket that takes little before it is read."""
    found = socket.socket(*address[:3])
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    return found


async def _slowly(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), max(1, len(data) // 10)):
        yield data[start : start + max(1, len(data) // 10)]
        await asyncio.sleep(0.1)


async def _half(data: bytes) -> AsyncIterator[bytes]:
    yield data[: len(data) // 2]
    await asyncio.sleep(1)  # it leaves meanwhile


def _code(ask: Ask, data: bytes) -> str:
    """The code of an error in the shape of its API; Anthropic's have none but what their texts say."""
    try:
        value = json.loads(data)
        error = value["error"]
        if ask.api != "messages":
            return str(error["code"])
        if value["type"] != "error" or not isinstance(error["type"], str):
            return "no error of Anthropic's"
        said = str(error["message"])
    except (ValueError, KeyError, TypeError):
        return f"no error of the API: {data[:80]!r}"
    return next((code for words, code in _ANTHROPIC if words in said), said[:80])


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


def wrong_in(ask: Ask, seen: Seen) -> str | None:
    """What is wrong with an answer of 200; None if it is what the upstream said to this very request."""
    assert seen.data is not None
    try:
        if seen.headers["content-type"].startswith("text/event-stream"):
            return _wrong_in_stream(ask, seen.data)
        value = json.loads(seen.data)
        return _wrong_in_note(ask, value) or _wrong_in_text(ask, _said(ask, value))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        return f"{type(error).__name__} {error} in {seen.data[:200]!r}"


def _wrong_in_note(ask: Ask, holder: dict[str, Any]) -> str | None:
    """Of the gateway's own key."""
    counted, tokens = holder["tokenbox"]["input_tokens"], tokens_of(ask.body)
    return f"counted {counted}, not {tokens}" if ask.counted and counted != tokens else None


def _wrong_in_text(ask: Ask, said: str) -> str | None:
    return None if said == ask.said else f"another answer: {said[:100]!r}"


def _said(ask: Ask, value: dict[str, Any]) -> str:
    tools = "tools" in ask.body
    if ask.api == "chat":
        message = value["choices"][0]["message"]
        return str(message["tool_calls"][0]["function"]["arguments"] if tools else message["content"])
    if ask.api == "completions":
        return str(value["choices"][0]["text"])
    if ask.api == "responses":
        item = value["output"][0]
        return str(item["arguments"] if tools else item["content"][0]["text"])
    if ask.api == "messages":
        block = value["content"][0]
        return str(block["input"]["said"] if tools else block["text"])
    return str(value["data"][0]["said"])


def _wrong_in_stream(ask: Ask, data: bytes) -> str | None:
    datas = [frame[frame.index(b"data: ") + 6 :] for frame in data.split(b"\n\n") if frame]
    values = [json.loads(found) for found in datas if found != b"[DONE]"]
    if ask.ends_with is not None:
        return _wrong_in_error(ask, values[-1])
    said = "".join(_delta(ask, value) for value in values)
    if ask.api == "messages" and "tools" in ask.body:
        said = json.loads(said)["said"]
    first = values[0].get("response") or values[0].get("message") or values[0]
    return _wrong_in_note(ask, first) or _wrong_in_text(ask, said) or _wrong_in_end(ask, datas, values)


def _wrong_in_error(ask: Ask, last: dict[str, Any]) -> str | None:
    """Of the last event of a stream that the upstream broke off."""
    error = last.get("error") or last
    code = error.get("code") or next((code for text, code in _ANTHROPIC if text in error["message"]), None)
    return None if code == ask.ends_with else f"it ends with {last}"


def _wrong_in_end(ask: Ask, datas: list[bytes], values: list[dict[str, Any]]) -> str | None:
    """Of the last events: the usage, for who asked for it, and the end."""
    if ask.api in ("chat", "completions"):
        asked = (ask.body.get("stream_options") or {}).get("include_usage", False)
        if asked is not any(value.get("usage") for value in values):
            return "no usage" if asked else "usage that nobody asked for"
        return None if datas[-1] == b"[DONE]" else "no end"
    last = {"responses": "response.completed", "messages": "message_stop"}[ask.api]
    return None if values[-1]["type"] == last else "no end"


def _delta(ask: Ask, value: dict[str, Any]) -> str:
    if ask.api == "chat":
        delta = value["choices"][0]["delta"] if value["choices"] else {}
        calls = delta.get("tool_calls")
        return str(calls[0]["function"]["arguments"]) if calls else str(delta.get("content") or "")
    if ask.api == "completions":
        return str(value["choices"][0]["text"]) if value["choices"] else ""
    if ask.api == "responses":
        return str(value.get("delta", ""))
    delta = value.get("delta", {})
    return str(delta.get("text", "")) + str(delta.get("partial_json", ""))
