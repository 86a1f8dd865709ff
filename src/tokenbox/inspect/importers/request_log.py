"""Logs of requests to OpenAI's and Anthropic's APIs: a list, or a JSON object per line.

An object is the body of a request, or contains the body and the response. A batch file has it under ``body``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tokenbox.inspect.importers.transcript import (
    LoggedItem,
    Record,
    Transcript,
    TranscriptTurns,
    as_text,
    mapping,
    text_or_none,
    texts_of,
)
from tokenbox.providers.usage import usage_in

NAME: Final = "a log of requests to OpenAI or Anthropic"
_REQUESTS: Final = ("request", "request_body", "body", "kwargs")
_RESPONSES: Final = ("response", "response_body")
_INPUTS: Final = ("messages", "input", "prompt")
_TIMES: Final = ("timestamp", "time", "created_at", "startTime")


def is_own(record: Record) -> bool:
    """Recognize an object that is the body of a request, or contains one."""
    return _body(record) is not None


def read(records: list[Record]) -> list[Transcript]:
    """Read one transcript with all requests of the file."""
    turns = TranscriptTurns()
    skipped = 0
    for record in records:
        body = _body(record)
        if body is None:
            skipped += 1
            continue
        response = next((mapping(record[key]) for key in _RESPONSES if key in record), {})
        response = mapping(response.get("body")) or response
        turns.window = list(items_of(body))
        turns.request(
            body=body,
            usage=usage_in(response.get("usage") or record.get("usage")),
            model=text_or_none(response.get("model")) or text_or_none(body.get("model")),
            time=next((text for key in _TIMES if (text := text_or_none(record.get(key)))), None),
        )
    notes = (f"Lines left out because they are not requests: {skipped:,}.",) if skipped else ()
    return [Transcript("request log", tuple(turns.requests), notes=notes)]


def _body(record: Record) -> Record | None:
    for candidate in (record, *(record.get(key) for key in _REQUESTS)):
        found = mapping(candidate)
        inner = mapping(found.get("body"))
        for body in (found, inner):
            if any(isinstance(body.get(key), list | str) for key in _INPUTS):
                return body
    return None


def items_of(body: Record) -> Iterator[LoggedItem]:
    """Yield the items of a request's body, of either API: tools and system prompt, then the messages."""
    tools = body.get("tools") or body.get("functions")
    if tools:
        yield LoggedItem("tools", as_text(tools))
    for key in ("system", "instructions"):
        text = "\n".join(text for _, text, _ in texts_of(body.get(key)))
        if text:
            yield LoggedItem("system", text)
    given = next((body[key] for key in _INPUTS if body.get(key) is not None), None)
    if isinstance(given, str):
        yield LoggedItem("user", given)
    elif isinstance(given, list):
        for message in given:
            yield from _message(message)
    form = body.get("response_format")
    if form:
        yield LoggedItem("response format", as_text(form))


def _message(message: object) -> Iterator[LoggedItem]:
    given = mapping(message)
    if not given:
        yield LoggedItem("user", as_text(message))
        return
    role = text_or_none(given.get("role")) or text_or_none(given.get("type")) or "user"
    is_empty = True
    for part, text, name in texts_of(given.get("content")):
        if text:
            is_empty = False
            yield LoggedItem(part or role, text, name or text_or_none(given.get("name")))
    calls = given.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = mapping(mapping(call).get("function"))
        is_empty = False
        yield LoggedItem("tool call", as_text(function.get("arguments")), text_or_none(function.get("name")))
    if is_empty and "role" not in given:
        other = given.get("output", given.get("arguments"))
        yield LoggedItem(
            "tool" if "output" in given else role,
            as_text(given if other is None else other),
            text_or_none(given.get("name")),
        )
