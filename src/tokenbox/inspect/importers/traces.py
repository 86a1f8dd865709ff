"""Traces of LangSmith, Langfuse and OpenTelemetry: the calls of models in them, as in a log of requests.

LangSmith exports runs, Langfuse observations or traces with a list of them, and OpenTelemetry spans: as OTLP,
or a span per line. Spans follow the conventions of OpenTelemetry (``gen_ai.``), OpenLLMetry
(``gen_ai.prompt.0.role``) or OpenInference (``llm.input_messages.0.message.role``). Other runs, observations
and spans, such as those of tools, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tokenbox.inspect.importers import request_log
from tokenbox.inspect.importers.transcript import Record, Transcript, as_text, mapping, text_or_none
from tokenbox.integers import digits
from tokenbox.records import from_json

NAME: Final = "traces of LangSmith, Langfuse or OpenTelemetry"
# The roles of LangChain's messages.
_ROLES: Final = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant"}
_INDEXED: Final = re.compile(
    r"(?:gen_ai\.prompt|llm\.input_messages)\.(\d{1,6})\.(?:message\.)?(role|content)"
)
_INPUT_TOKENS: Final = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUTPUT_TOKENS: Final = (
    "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion",
)  # fmt: skip
_CACHED_TOKENS: Final = (
    "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
)  # fmt: skip
_MODELS: Final = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")


def is_own(record: Record) -> bool:
    """Recognize a run, an observation or a span, or a list of them."""
    return any(True for _ in _calls(record)) or "resourceSpans" in record


def read(records: list[Record]) -> list[Transcript]:
    """Read one transcript with all calls of models, in the order of their times, if all have one."""
    calls = [call for record in records for call in _calls(record)]
    if all(call["timestamp"] for call in calls):
        calls.sort(key=lambda call: str(call["timestamp"]))
    found = request_log.read(calls)
    return [Transcript("traces", one.requests, notes=one.notes) for one in found]


def _calls(record: Record) -> Iterator[Record]:
    """Yield the calls of models in a record, as records of a log of requests."""
    inner = [mapping(one) for key in ("observations", "runs", "spans") for one in _list(record.get(key))]
    for resource in _list(record.get("resourceSpans")):
        for scope in _list(mapping(resource).get("scopeSpans")):
            inner += [mapping(one) for one in _list(mapping(scope).get("spans"))]
    for one in inner or [record]:
        found = next((call for read_one in _READERS if (call := read_one(one)) is not None), None)
        if found is not None and found["request"].get("messages"):
            yield found


def _langsmith(run: Record) -> Record | None:
    if run.get("run_type") != "llm":
        return None
    given, answer = mapping(run.get("inputs")), mapping(run.get("outputs"))
    settings = mapping(mapping(run.get("extra")).get("invocation_params"))
    stated = mapping(answer.get("usage") or answer.get("usage_metadata"))
    stated = stated or mapping(mapping(answer.get("llm_output")).get("token_usage"))
    if "input_token_details" in stated:  # LangChain's
        cached = mapping(stated["input_token_details"]).get("cache_read")
        stated = _stated(stated.get("input_tokens"), stated.get("output_tokens"), cached)
    model = given.get("model") or settings.get("model") or settings.get("model_name")
    body = {**given, "messages": _messages(given.get("messages")), "model": model}
    body.setdefault("tools", settings.get("tools"))
    return _call(body, stated, run.get("start_time"))


def _langfuse(observation: Record) -> Record | None:
    if observation.get("type") != "GENERATION":
        return None
    given = _parsed(observation.get("input"))
    body = {"messages": given} if isinstance(given, list | str) else mapping(given)
    usage = mapping(observation.get("usage"))
    stated = _stated(usage.get("input"), usage.get("output"), None)
    model = observation.get("model")
    time = observation.get("startTime")
    return _call({**body, "messages": _messages(body.get("messages")), "model": model}, stated, time)


def _span(span: Record) -> Record | None:
    given = span.get("attributes")
    attributes = mapping(given) or {
        str(one.get("key")): next(iter(mapping(one.get("value")).values()), None)
        for one in map(mapping, _list(given))
    }
    messages = _parsed(attributes.get("gen_ai.input.messages")) or _indexed(attributes)
    inputs = mapping(_parsed(attributes.get("input.value")))
    messages = messages or (
        inputs.get("messages") if attributes.get("openinference.span.kind") == "LLM" else None
    )
    if not messages:
        return None

    def first(names: tuple[str, ...]) -> object:
        return next((attributes[name] for name in names if attributes.get(name) is not None), None)

    body = {
        "messages": _messages(messages),
        "model": first(_MODELS),
        "system": _content(_parsed(attributes.get("gen_ai.system_instructions"))),
        "tools": _parsed(attributes.get("gen_ai.tool.definitions")) or inputs.get("tools"),
    }
    stated = _stated(first(_INPUT_TOKENS), first(_OUTPUT_TOKENS), first(_CACHED_TOKENS))
    return _call(body, stated, span.get("start_time") or _time(span.get("startTimeUnixNano")))


_READERS: Final[tuple[Callable[[Record], Record | None], ...]] = (_langsmith, _langfuse, _span)


def _call(body: Record, stated: Mapping[str, Any], time: object) -> Record:
    return {"request": body, "response": {"usage": stated}, "timestamp": text_or_none(time)}


def _time(nanoseconds: object) -> str | None:
    """Return a time of OTLP as text; None for an impossible one."""
    since = digits(nanoseconds) if isinstance(nanoseconds, str) else nanoseconds
    if not isinstance(since, int) or not 0 < since < 10**19:
        return None
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=since // 1_000)).isoformat()


def _stated(read: object, written: object, cached: object) -> Record:
    """Return the figures as the Responses API names them. OTLP writes integers as text."""
    figures = [digits(one) if isinstance(one, str) else one for one in (read, written, cached)]
    if figures[0] is None:
        return {}
    return {
        "input_tokens": figures[0],
        "output_tokens": figures[1],
        "input_tokens_details": {"cached_tokens": figures[2]},
    }


def _messages(given: object) -> list[Record]:
    """Return messages as in chats. LangSmith has a list of them for each prompt; the first is returned."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages = _list(given)
    if messages and isinstance(messages[0], list):
        messages = messages[0]
    return [_message(mapping(one)) for one in messages]


def _message(given: Record) -> Record:
    inner = mapping(given.get("kwargs")) or mapping(given.get("data")) or given  # of LangChain
    role = (
        text_or_none(inner.get("role")) or text_or_none(inner.get("type")) or text_or_none(given.get("type"))
    )
    content = inner.get("content") if "content" in inner else _content(inner.get("parts"))
    calls = [
        {"function": {"name": one["name"], "arguments": as_text(one.get("args"))}} if "name" in one else one
        for one in map(mapping, _list(inner.get("tool_calls")))
    ]
    known = {"role": _ROLES.get(role or "", role or "user"), "content": content, "tool_calls": calls}
    return {**inner, **known}


def _content(parts: object) -> object:
    """Return the parts of OpenTelemetry as content: their text is under ``content``."""
    if not isinstance(parts, list):
        return parts
    return [
        {**one, "text": one["content"]} if isinstance((one := mapping(part)).get("content"), str) else part
        for part in parts
    ]


def _indexed(attributes: Mapping[str, Any]) -> list[Record]:
    """Return the messages of attributes such as ``gen_ai.prompt.0.role``, in order."""
    found: dict[int, Record] = {}
    for name, value in attributes.items():
        if (match := _INDEXED.fullmatch(name)) is not None:
            found.setdefault(int(match[1]), {})[match[2]] = value
    return [found[number] for number in sorted(found)]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _parsed(value: object) -> object:
    """Return JSON text parsed, and any other value unchanged."""
    return from_json(value, value) if isinstance(value, str) else value
