"""A filter of an event stream: adds the gateway's key to its first event, and reads the usage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tokenbox.gateway.asgi import json_object
from tokenbox.gateway.protocols import Protocol, event_with_key
from tokenbox.ledger.usage import Usage
from tokenbox.providers.framing import Frames, data_of, message_of
from tokenbox.providers.shapes import at, count_at, items_at

_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_NO_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')
_FINISHED = re.compile(rb'"finish_reason"\s*:\s*"')
_ERROR_EVENT = re.compile(rb"(?:\A|[\r\n])event: ?error[\r\n]")


class Tap:
    """Takes the bytes of an event stream, and returns the bytes for the client.

    ``note`` is the JSON value of the gateway's key. ``hide_usage``: the client did not ask for usage, so it
    does not get the event of chat completions that has only that. ``started`` is an event to send first.
    ``choices`` is the number of answers in the stream.
    """

    def __init__(
        self, protocol: Protocol, note: bytes, *, hide_usage: bool, started: bytes = b"", choices: int = 1
    ) -> None:
        self._protocol = protocol
        self._note: bytes | None = note
        self._hide_usage = hide_usage
        self._frames = Frames()
        self._started = started
        self.usage: Usage | None = None
        self._stated: Mapping[str, Any] = {}
        self._has_ended = False
        self._choices = choices
        self._finished: set[object] = set()
        self.events = 0
        self.error: dict[str, Any] | None = None
        # Whether an event was not complete JSON. Nothing is passed on from there.
        self.is_garbled = False

    def feed(self, data: bytes) -> bytes:
        """Return the bytes for the client; possibly none yet."""
        out: list[bytes] = []
        if self._note is not None and self._frames.is_empty:
            # The first frame gets the key. What follows it is read at once, as in later pieces.
            end = data.find(b"\n\n") + 2
            self._read_frames(data[:end] if end > 1 else data, out)
            data = data[end:] if end > 1 else b""
        plain = self._plain_size(data)
        if plain:
            self.events += data.count(b"\n\n", 0, plain)
            out.append(data[:plain])
            self._look_for_end(out[-1])
        if plain < len(data):
            self._read_frames(data[plain:], out)
        if self._started and out:
            out.insert(0, self._started)
            self._started = b""
        return out[0] if len(out) == 1 else b"".join(out)

    def _read_frames(self, data: bytes, out: list[bytes]) -> None:
        """Append to ``out`` the complete frames, read one by one."""
        for frame in self._frames.feed(data):
            self.is_garbled = self.is_garbled or not _ends_well(frame)
            if self.is_garbled:
                break
            out.append(self._pass(frame))

    def _plain_size(self, data: bytes) -> int:
        """Return the size of the complete frames at the start without anything to read, as most have."""
        if self._note is not None or self.is_garbled or not self._frames.is_empty:
            return 0
        end = len(data)
        usage = _USAGE.search(data) if b'"usage"' in data else None
        if usage is not None:
            end = usage.start()
        for mark in (b'"error"', b":error", b": error"):  # a key, or the name of an event
            found = data.find(mark, 0, end)
            end = end if found < 0 else found
        end = data.rfind(b"}\n\n", 0, end) + 3
        # Each of the frames has to end as JSON does, and none with other line breaks.
        is_plain = end > 2 and data.count(b"\n\n", 0, end) == data.count(b"}\n\n", 0, end)
        return end if is_plain and data.find(b"\r", 0, end) < 0 else 0

    def end(self) -> bytes:
        """Return a last frame that lacks its empty line, if it is complete. Nothing follows it.

        Some servers send no ``[DONE]``. A stream is also whole if each of its choices has a finish_reason.
        """
        rest = self._frames.rest()
        is_whole = object_of(rest) is not None or data_of(rest) == b"[DONE]"
        out = self._pass(rest) if is_whole else b""
        self._has_ended = self._has_ended or len(self._finished) >= self._choices
        return out

    @property
    def whole(self) -> bool:
        """Whether the stream reached its end, or reported an error itself."""
        return self.error is not None or self._has_ended

    @property
    def reported(self) -> Usage | None:
        """The usage; before the end of the stream the output is unknown, whatever was reported until then."""
        if self.usage is None or self._has_ended:
            return self.usage
        return Usage(None, None) if not self.usage.input_tokens else Usage(self.usage.input_tokens, None)

    def _pass(self, frame: bytes) -> bytes:
        if not frame.startswith((b":", b"\n", b"\r")) or data_of(frame) is not None:  # not just a comment
            self.events += 1
            self._look_for_end(frame)
        if self._note is not None:
            noted = event_with_key(frame, self._protocol.inner, self._note)
            if noted is not frame:  # else the frame has no place for the key, such as a comment or a ping
                frame, self._note = noted, None
        has_usage = b'"usage"' in frame and _USAGE.search(frame) is not None
        is_error_event = b"error" in frame and _ERROR_EVENT.search(frame) is not None
        value = object_of(frame) if has_usage or is_error_event or b'"error"' in frame else None
        if is_error_event or (value is not None and is_error(value)):
            self.error = value or {}
        if value is None:
            return frame
        if has_usage:
            self._read(value)
            if self._hide_usage and _NO_CHOICES.search(frame) and value.get("choices") == []:
                return b""
        return frame

    def _look_for_end(self, frames: bytes) -> None:
        """Note the choices that are finished, and the event that ends a stream. A text may name it, too.

        A piece may have hundreds of frames: only those that may tell it are parsed.
        """
        if _FINISHED.search(frames) is not None:
            for frame in filter(_FINISHED.search, frames.split(b"\n\n")):
                choices = items_at(object_of(frame), "choices")
                self._finished.update(count_at(one, "index") for one in choices if at(one, "finish_reason"))
        ends = self._protocol.ends
        if not self._has_ended and any(map(frames.__contains__, ends)):
            names = {end.decode() for end in ends}
            may_end = (frame for frame in frames.split(b"\n\n") if any(map(frame.__contains__, ends)))
            self._has_ended = any(_name(frame) in names for frame in may_end)

    def _read(self, value: dict[str, Any]) -> None:
        """Keep the figures: they are cumulative, and an Anthropic stream reports input first, output last."""
        self._stated = _merged(self._stated, self._protocol.stated_usage(value))
        self.usage = self._protocol.usage_of(self._stated)


def object_of(frame: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a frame's data, or None."""
    data = data_of(frame)
    return json_object(data) if data is not None and data.lstrip().startswith(b"{") else None


def _ends_well(frame: bytes) -> bool:
    """Whether the JSON in a frame, if any, is complete."""
    if frame.rstrip().endswith((b"}", b"[DONE]")):
        return True
    data = data_of(frame)
    return data is None or not data.lstrip().startswith(b"{") or data.rstrip().endswith(b"}")


def is_error(value: dict[str, Any]) -> bool:
    """Whether it has an error object (OpenAI, Anthropic) or is an event of that type (Responses API)."""
    return bool(value.get("error")) or value.get("type") in ("error", "response.failed")


def _name(frame: bytes) -> str:
    """Return the type of an event; ``[DONE]`` for OpenAI's last one, which has none."""
    message = message_of(frame)
    if message is None:
        return ""
    stated = (object_of(frame) or {}).get("type")
    return stated if isinstance(stated, str) else message.event or message.data.strip()


def _merged(before: Mapping[str, Any], now: Mapping[str, Any], *, is_outer: bool = True) -> Mapping[str, Any]:
    """Return the larger of both figures, or the known one. Others replace what is no number.

    Figures stand in a usage and in its objects, not deeper.
    """
    found = dict(before)
    for key, value in now.items():
        old = found.get(key)
        if is_outer and isinstance(old, dict) and isinstance(value, dict):
            found[key] = _merged(old, value, is_outer=False)
        elif type(old) is not int:
            found[key] = old if value is None else value
        elif type(value) is int:
            found[key] = max(old, value)
    return found
