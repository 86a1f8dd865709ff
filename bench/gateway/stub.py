"""An upstream with minimal cost: HTTP/1.1 by hand, always the same answer. ``stub.py PORT``.

It counts nothing: it reports the number of tokens in the ``user`` of the request.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys

import uvloop

CHUNKS = 200


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _answer(body: bytes, kind: bytes = b"application/json") -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: " + kind + b"\r\ncontent-length: %d\r\n\r\n" % len(body)
    return head + body


def _chunked(data: bytes) -> bytes:
    return b"%x\r\n" % len(data) + data + b"\r\n"


# PLACE is replaced by the number of the request, padded with spaces to the same length.
USAGE = {"prompt_tokens": 9_999_999, "completion_tokens": 60, "total_tokens": 960}
PLACE = b"9999999"
USER = re.compile(rb'"user": ?"(\d{1,7})"')
ABOUT = {"id": "chatcmpl-1", "created": 1_763_000_000, "model": "gpt-4o"}
TEXT = "The answer to the question is the one that the sources give, and it is given here in full. " * 3
MESSAGE = {"role": "assistant", "content": TEXT}
WHOLE = _answer(
    _json(
        {
            **ABOUT,
            "object": "chat.completion",
            "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}],
            "usage": USAGE,
        }
    )
)
MODELS = _answer(_json({"object": "list", "data": [{"id": "gpt-4o", "object": "model", "created": 1}]}))
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _event(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    value = {**ABOUT, "object": "chat.completion.chunk", "choices": [choice]}
    return _chunked(b"data: " + _json(value) + b"\n\n")


EVENTS = [
    _event({"role": "assistant", "content": ""}),
    *[_event({"content": f" word{number}"}) for number in range(CHUNKS)],
    _event({}, "stop"),
    _chunked(
        b"data: "
        + _json({**ABOUT, "object": "chat.completion.chunk", "choices": [], "usage": USAGE})
        + b"\n\n"
    ),
    _chunked(b"data: [DONE]\n\n") + b"0\r\n\r\n",
]
_USAGE_AT = len(EVENTS) - 2


class Stub(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._data = b""
        self._next = 0

    def data_received(self, data: bytes) -> None:
        self._data = self._data + data if self._data else data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._data) < end + 4 + length:
                return
            body, self._data = self._data[end + 4 : end + 4 + length], self._data[end + 4 + length :]
            if head.startswith(b"get"):
                self._transport.write(MODELS)
                continue
            user = USER.search(body)
            self._tokens = b"      0" if user is None else user[1].rjust(7)
            if b'"stream":true' in body or b'"stream": true' in body:
                self._transport.write(HEAD)
                self._next = 0
                self._write_next()
            else:
                self._transport.write(WHOLE.replace(PLACE, self._tokens))

    def _write_next(self) -> None:
        """Write one event per turn of the event loop, as a model produces them one by one."""
        event = EVENTS[self._next]
        self._transport.write(event.replace(PLACE, self._tokens) if self._next == _USAGE_AT else event)
        self._next += 1
        if self._next < len(EVENTS) and not self._transport.is_closing():
            asyncio.get_running_loop().call_soon(self._write_next)


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
