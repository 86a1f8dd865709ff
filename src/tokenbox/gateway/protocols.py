"""The differences between the APIs, as data: where a request states its output limit, an answer its usage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tokenbox.content.request import Api
from tokenbox.providers import usage

if TYPE_CHECKING:
    from tokenbox.ledger.usage import Usage


class ErrorStyle(StrEnum):
    """The API whose shape errors have."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True, slots=True)
class Protocol:
    """An API that generates tokens or embeddings.

    ``output_keys`` are the fields of a request that limit its output, the API's own first. ``input_key`` is
    the field of its input, also the ``param`` of an error. ``inner`` is the key, in the first event of a
    stream, of the object that the gateway adds its key to; None for the event itself. The last event
    of a stream has one of the markers ``ends``. ``needs_input``: the input is required, as everywhere except
    in the Responses API, which can refer to a prompt that OpenAI stores. ``takes_prompts``: the input is
    texts or token ids, possibly several, and not messages. ``has_fallback_objects``: a fallback may be an
    object with a model and what is different for it.
    """

    api: Api
    path: str
    style: ErrorStyle
    input_key: str
    output_keys: tuple[str, ...]
    usage_keys: usage.UsageKeys
    inner: str | None = None
    asks_for_usage: bool = False
    ends: tuple[bytes, ...] = ()
    needs_input: bool = True
    takes_prompts: bool = False
    has_fallback_objects: bool = False
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.api.value)

    def usage_in(self, value: Mapping[str, Any]) -> Usage | None:
        """Return the usage that an answer reports."""
        return self.usage_of(self.stated_usage(value))

    def stated_usage(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the ``usage`` of an answer or of an event of a stream; empty without one."""
        for holder in (value, value.get("response"), value.get("message")):
            stated = holder.get("usage") if isinstance(holder, dict) else None
            if isinstance(stated, dict):
                # Anthropic's first event has the whole input, but only the output up to then.
                is_final = holder is not value.get("message")
                return stated if is_final else {**stated, self.usage_keys.output: None}
        return {}

    def usage_of(self, stated: Mapping[str, Any]) -> Usage | None:
        """Return the usage in these figures, if there is any: 0 tokens are a placeholder."""
        found = usage.usage_of(stated, self.usage_keys)
        if not found.input_tokens and not found.output_tokens:
            return None
        if self.output_keys or found.output_tokens is not None:
            return found
        return replace(found, output_tokens=0)  # embeddings have no output tokens to report


# llama.cpp heeds all of them in each of OpenAI's APIs. The last is its own.
_OPENAI_OUTPUT = ("max_completion_tokens", "max_tokens", "n_predict")
_DONE = (b"[DONE]",)

CHAT = Protocol(
    Api.CHAT,
    "/v1/chat/completions",
    ErrorStyle.OPENAI,
    input_key="messages",
    output_keys=_OPENAI_OUTPUT,
    usage_keys=usage.CHAT,
    asks_for_usage=True,
    ends=_DONE,
)
COMPLETIONS = Protocol(
    Api.COMPLETIONS,
    "/v1/completions",
    ErrorStyle.OPENAI,
    input_key="prompt",
    output_keys=("max_tokens", "max_completion_tokens", "n_predict"),
    usage_keys=usage.CHAT,
    asks_for_usage=True,
    ends=_DONE,
    takes_prompts=True,
)
RESPONSES = Protocol(
    Api.RESPONSES,
    "/v1/responses",
    ErrorStyle.OPENAI,
    input_key="input",
    output_keys=("max_output_tokens", *_OPENAI_OUTPUT),
    usage_keys=usage.RESPONSES,
    inner="response",
    needs_input=False,
    ends=(b"response.completed", b"response.incomplete", b"response.failed", b"[DONE]"),
)
MESSAGES = Protocol(
    Api.MESSAGES,
    "/v1/messages",
    ErrorStyle.ANTHROPIC,
    input_key="messages",
    output_keys=("max_tokens",),
    usage_keys=usage.MESSAGES,
    inner="message",
    ends=(b"message_stop", b"[DONE]"),  # vLLM also sends OpenAI's end
    has_fallback_objects=True,
)
EMBEDDINGS = Protocol(
    Api.EMBEDDINGS,
    "/v1/embeddings",
    ErrorStyle.OPENAI,
    input_key="input",
    output_keys=(),
    usage_keys=usage.CHAT,
    takes_prompts=True,
)

PROTOCOLS = {protocol.path: protocol for protocol in (CHAT, COMPLETIONS, RESPONSES, MESSAGES, EMBEDDINGS)}

_AT = {name: re.compile(rb'"' + name.encode() + rb'"\s*:\s*\{(\s*\})?') for name in ("response", "message")}
_AT_TOP = re.compile(rb"\A\s*\{(\s*\})?")
_IN_EVENT = re.compile(rb"(?:\A|[\r\n])data:[ \t]*\{(\s*\})?")


def event_with_key(frame: bytes, inner: str | None, value: bytes) -> bytes:
    """Return the event with a key ``tokenbox`` first in its object, or in the object named ``inner`` there.

    If there is no such object, the same ``frame`` is returned. The name cannot be matched inside a string,
    where its quote would have a backslash before it.
    """
    return with_key(frame, b"tokenbox", value, _IN_EVENT if inner is None else _AT[inner])


def with_key(data: bytes, key: bytes, value: bytes, at: re.Pattern[bytes] = _AT_TOP) -> bytes:
    """Return the JSON object ``data`` with a first key; every other byte stays."""
    found = at.search(data)
    if found is None:
        return data
    place = data.index(b"{", found.start()) + 1
    end = b"," if found.group(1) is None else b""
    return data[:place] + b'"%b":%b' % (key, value) + end + data[place:]
