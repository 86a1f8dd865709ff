"""What the APIs differ in, as data: where a request says its output limit, where an answer says its usage."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tokenbox.content.request import Api
from tokenbox.ledger.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping


class ErrorStyle(StrEnum):
    """Whose shape errors have."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True, slots=True)
class UsageKeys:
    """The names in an answer's ``usage``. Input is the sum of ``input``; details are (object, key) pairs."""

    input: tuple[str, ...]
    output: str
    cached: tuple[str, ...]
    reasoning: tuple[str, ...]
    written: tuple[str, ...] = ()


_CHAT_USAGE = UsageKeys(
    ("prompt_tokens",),
    "completion_tokens",
    ("prompt_tokens_details", "cached_tokens"),
    ("completion_tokens_details", "reasoning_tokens"),
)
_RESPONSES_USAGE = UsageKeys(
    ("input_tokens",),
    "output_tokens",
    ("input_tokens_details", "cached_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
)
_ANTHROPIC_USAGE = UsageKeys(
    ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    "output_tokens",
    ("cache_read_input_tokens",),
    (),
    ("cache_creation_input_tokens",),
)


@dataclass(frozen=True, slots=True)
class Protocol:
    """One API that makes tokens.

    ``output_keys``: where a request may state its output limit, the API's own first. ``input_key``:
    where its input is, also the ``param`` of an error. ``inner``: the key, in a stream's first event, of
    the object that takes our extra key; None where that is the event itself. ``ends``: what a stream's last
    event has in it.
    """

    api: Api
    path: str
    style: ErrorStyle
    input_key: str
    output_keys: tuple[str, ...]
    usage_keys: UsageKeys
    inner: str | None = None
    asks_for_usage: bool = False
    ends: tuple[bytes, ...] = ()

    @property
    def name(self) -> str:
        return self.api.value

    @property
    def needs_input(self) -> bool:
        """Whether a request has to have one; of the Responses API it may be a prompt that OpenAI keeps."""
        return self.name != "responses"

    @property
    def takes_prompts(self) -> bool:
        """Whether its input is texts or tokens, maybe several at once, and no messages."""
        return self.name in ("completions", "embeddings")

    def usage_in(self, value: Mapping[str, Any]) -> Usage | None:
        """The usage that an answer, or an event of a stream, reports."""
        keys = self.usage_keys
        for holder in (value, value.get("response"), value.get("message")):
            usage = holder.get("usage") if isinstance(holder, dict) else None
            if isinstance(usage, dict):
                # Anthropic's first event has all the input, and of the output what there is by then.
                is_final = holder is not value.get("message")
                found = _usage(usage if is_final else {**usage, keys.output: None}, keys)
                if self.output_keys or found is None or found.output_tokens is not None:
                    return found
                return replace(found, output_tokens=0)  # vectors, and nobody reports that they are not tokens
        return None


# llama.cpp heeds all of them in each of OpenAI's APIs; the last is its own.
_OPENAI_OUTPUT = ("max_completion_tokens", "max_tokens", "n_predict")
_DONE = (b"[DONE]",)
_RESPONSE_ENDS = (b"response.completed", b"response.incomplete", b"response.failed", b"[DONE]")

CHAT = Protocol(
    *(Api.CHAT, "/v1/chat/completions", ErrorStyle.OPENAI, "messages", _OPENAI_OUTPUT, _CHAT_USAGE),
    asks_for_usage=True,
    ends=_DONE,
)
COMPLETIONS = Protocol(
    *(Api.COMPLETIONS, "/v1/completions", ErrorStyle.OPENAI, "prompt"),
    ("max_tokens", "max_completion_tokens", "n_predict"),
    _CHAT_USAGE,
    asks_for_usage=True,
    ends=_DONE,
)
RESPONSES = Protocol(
    *(
        Api.RESPONSES,
        "/v1/responses",
        ErrorStyle.OPENAI,
        "input",
        ("max_output_tokens", *_OPENAI_OUTPUT),
        _RESPONSES_USAGE,
        "response",
    ),
    ends=_RESPONSE_ENDS,
)
MESSAGES = Protocol(
    *(
        Api.MESSAGES,
        "/v1/messages",
        ErrorStyle.ANTHROPIC,
        "messages",
        ("max_tokens",),
        _ANTHROPIC_USAGE,
        "message",
    ),
    ends=(b"message_stop", b"[DONE]"),  # vLLM's has the other API's end, too
)
EMBEDDINGS = Protocol(Api.EMBEDDINGS, "/v1/embeddings", ErrorStyle.OPENAI, "input", (), _CHAT_USAGE)

PROTOCOLS = {protocol.path: protocol for protocol in (CHAT, COMPLETIONS, RESPONSES, MESSAGES, EMBEDDINGS)}

_AT = {name: re.compile(rb'"' + name.encode() + rb'"\s*:\s*\{(\s*\})?') for name in ("response", "message")}
_AT_TOP = re.compile(rb"\A\s*\{(\s*\})?")
_IN_EVENT = re.compile(rb"(?:\A|[\r\n])data:[ \t]*\{(\s*\})?")


def with_key(data: bytes, value: bytes) -> bytes:
    """The JSON object ``data`` with a first key ``tokenbox``; every other byte stays."""
    return _with_key_at(_AT_TOP.search(data), data, value)


def event_with_key(frame: bytes, inner: str | None, value: bytes) -> bytes:
    """The event of a stream with that key first in its object, or in the object named ``inner`` there.

    The very frame, where there is none. No string can pose as the name: a quote inside a string has a
    backslash before it, so the name would end in one.
    """
    return _with_key_at((_IN_EVENT if inner is None else _AT[inner]).search(frame), frame, value)


def _with_key_at(at: re.Match[bytes] | None, data: bytes, value: bytes) -> bytes:
    if at is None:
        return data
    empty = at.group(1) is not None
    place = data.index(b"{", at.start()) + 1
    return data[:place] + b'"tokenbox":' + value + (b"" if empty else b",") + data[place:]


def _usage(usage: Mapping[str, Any], keys: UsageKeys) -> Usage | None:
    parts = [_count(usage.get(key)) for key in keys.input]
    known = [part for part in parts if part is not None]
    # The cached parts may be left out; without the first, nothing is known.
    inputs = sum(known) if parts[0] is not None else None
    output = _count(usage.get(keys.output))
    if inputs is None and output is None:
        return None
    return Usage.reported(
        inputs,
        output,
        _detail(usage, keys.cached),
        _detail(usage, keys.reasoning),
        _detail(usage, keys.written),
    )


def _detail(usage: Mapping[str, Any], path: tuple[str, ...]) -> int | None:
    value: object = usage if path else None
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return _count(value)


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None
