"""The differences between the APIs, as data: where a request states its output limit, an answer its usage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tokenbox.content.request import Api
from tokenbox.ledger.usage import Usage


class ErrorStyle(StrEnum):
    """The API whose shape errors have."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True, slots=True)
class UsageKeys:
    """The names in an answer's ``usage``. Input is the sum of ``input``; the others are paths.

    ``runs`` is the list of the usage of each run of a model, some of which are not in the other figures.
    """

    input: tuple[str, ...]
    output: str
    cached: tuple[str, ...]
    reasoning: tuple[str, ...]
    written: tuple[str, ...] = ()
    runs: str | None = None


_CHAT_USAGE = UsageKeys(
    ("prompt_tokens",),
    "completion_tokens",
    ("prompt_tokens_details", "cached_tokens"),
    ("completion_tokens_details", "reasoning_tokens"),
    ("prompt_tokens_details", "cache_write_tokens"),
)
_RESPONSES_USAGE = UsageKeys(
    ("input_tokens",),
    "output_tokens",
    ("input_tokens_details", "cached_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
    ("input_tokens_details", "cache_write_tokens"),
)
_ANTHROPIC_USAGE = UsageKeys(
    ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    "output_tokens",
    ("cache_read_input_tokens",),
    (),
    ("cache_creation_input_tokens",),
    runs="iterations",
)


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
    usage_keys: UsageKeys
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
            usage = holder.get("usage") if isinstance(holder, dict) else None
            if isinstance(usage, dict):
                # Anthropic's first event has the whole input, but only the output up to then.
                is_final = holder is not value.get("message")
                return usage if is_final else {**usage, self.usage_keys.output: None}
        return {}

    def usage_of(self, stated: Mapping[str, Any]) -> Usage | None:
        """Return the usage in these figures, if there is any."""
        found = _usage(stated, self.usage_keys)
        if self.output_keys or found is None or found.output_tokens is not None:
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
    usage_keys=_CHAT_USAGE,
    asks_for_usage=True,
    ends=_DONE,
)
COMPLETIONS = Protocol(
    Api.COMPLETIONS,
    "/v1/completions",
    ErrorStyle.OPENAI,
    input_key="prompt",
    output_keys=("max_tokens", "max_completion_tokens", "n_predict"),
    usage_keys=_CHAT_USAGE,
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
    usage_keys=_RESPONSES_USAGE,
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
    usage_keys=_ANTHROPIC_USAGE,
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
    usage_keys=_CHAT_USAGE,
    takes_prompts=True,
)

PROTOCOLS = {protocol.path: protocol for protocol in (CHAT, COMPLETIONS, RESPONSES, MESSAGES, EMBEDDINGS)}

_AT = {name: re.compile(rb'"' + name.encode() + rb'"\s*:\s*\{(\s*\})?') for name in ("response", "message")}
_AT_TOP = re.compile(rb"\A\s*\{(\s*\})?")
_IN_EVENT = re.compile(rb"(?:\A|[\r\n])data:[ \t]*\{(\s*\})?")


def with_key(data: bytes, value: bytes) -> bytes:
    """Return the JSON object ``data`` with a first key ``tokenbox``; every other byte stays."""
    return _with_key_at(_AT_TOP.search(data), data, value)


def event_with_key(frame: bytes, inner: str | None, value: bytes) -> bytes:
    """Return the event with that key first in its object, or in the object named ``inner`` there.

    If there is no such object, the same ``frame`` is returned. The name cannot be matched inside a string,
    where its quote would have a backslash before it.
    """
    return _with_key_at((_IN_EVENT if inner is None else _AT[inner]).search(frame), frame, value)


def _with_key_at(at: re.Match[bytes] | None, data: bytes, value: bytes) -> bytes:
    if at is None:
        return data
    empty = at.group(1) is not None
    place = data.index(b"{", at.start()) + 1
    return data[:place] + b'"tokenbox":' + value + (b"" if empty else b",") + data[place:]


def _of_all_runs(usage: Mapping[str, Any], keys: UsageKeys) -> Mapping[str, Any]:
    """Return the usage with the sum over all runs where it is larger: each of them is paid for."""
    runs = None if keys.runs is None else usage.get(keys.runs)
    if not isinstance(runs, list) or not {dict}.issuperset(map(type, runs)):
        return usage
    sums = {name: sum(_count(run.get(name)) or 0 for run in runs) for name in (*keys.input, keys.output)}
    return {
        **usage,
        **{name: total for name, total in sums.items() if total > (_count(usage.get(name)) or 0)},
    }


def _usage(usage: Mapping[str, Any], keys: UsageKeys) -> Usage | None:
    usage = _of_all_runs(usage, keys)
    parts = [_count(usage.get(key)) for key in keys.input]
    known = [part for part in parts if part is not None]
    # The cached parts may be missing; without the first part the input is unknown.
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
