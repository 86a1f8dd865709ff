"""The prompt of a request as spans, in the order in which a provider's cache compares them.

Tools come first, then the system prompt, then the messages, block by block. Fields that do not reach the
model (cache marks, sampling) are left out, and equivalent spellings are normalized: a text is the same as a
list with one text block.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from tokenbox.content.message import InvalidMessage
from tokenbox.content.request import Api

MARKS: Final = frozenset(("cache_control", "prompt_cache_breakpoint"))
"""The keys of a block that mark a breakpoint. They are not part of the prompt."""


class Layer(IntEnum):
    """A part of the prompt, in the order of the prompt. A change invalidates everything after it."""

    TOOLS = 0
    SYSTEM = 1
    MESSAGES = 2


@dataclass(frozen=True, slots=True)
class PromptSpan:
    """One tool, or one block of the system prompt or of a message.

    ``place``: its path in the request. ``message``: the index of its message, None outside the messages.
    ``value``: the block without marks. ``text``: the text that the cache compares.
    """

    layer: Layer
    place: str
    role: str
    value: Any
    text: str
    message: int | None = None

    @property
    def size(self) -> int:
        """Bytes of UTF-8."""
        return len(self.text.encode("utf-8", "surrogatepass"))

    @property
    def kind(self) -> str:
        """The type of the block: ``text``, ``tool_use``, ``thinking``, ..."""
        return str(self.value.get("type", "")) if isinstance(self.value, Mapping) else "text"


def api_of(body: Mapping[str, Any]) -> Api:
    """Return the API whose shape a request has. Raises :class:`InvalidMessage` if it is no chat request."""
    if not isinstance(body, Mapping):
        raise InvalidMessage(
            f"a request is a mapping, as it is sent: {{'model': ..., 'messages': [...]}}, "
            f"not {type(body).__name__}."
        )
    if "messages" in body:
        tools = body.get("tools")
        named = isinstance(tools, Sequence) and any(
            isinstance(t, Mapping) and "input_schema" in t for t in tools
        )
        marked = any("cache_control" in block for _, block in message_blocks(body))
        claude = "claude" in str(body.get("model", ""))
        return Api.MESSAGES if "system" in body or named or marked or claude else Api.CHAT
    if "input" in body or "instructions" in body:
        return Api.RESPONSES
    raise InvalidMessage('a request has messages or input. For messages alone, give {"messages": [...]}.')


def spans(body: Mapping[str, Any], api: Api | None = None) -> list[PromptSpan]:
    """Return the prompt of ``body`` as spans. Raises :class:`InvalidMessage`."""
    own = api_of(body)
    api = own if api is None else api
    key = "input" if api is Api.RESPONSES else "messages"
    given = body.get(key)
    items = given
    if api is Api.RESPONSES:
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given or []
    if not isinstance(items, Sequence) or not all(isinstance(item, Mapping) for item in items):
        raise InvalidMessage(f"{key} is a list of mappings.")
    field = {Api.MESSAGES: "system", Api.RESPONSES: "instructions"}.get(api)
    try:
        found = [*_tools(body)]
        if field is not None:
            found += _blocks(Layer.SYSTEM, field, "system", body.get(field))
        for number, item in enumerate(items):
            found += _item(key, number, item)
    except RecursionError:
        raise too_deep() from None
    return found


def as_text(value: object) -> str:
    """Return a JSON value as text. Keys keep their order: a schema in another order is another prompt."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)
    except RecursionError:
        raise too_deep() from None
    except ValueError as error:  # a number of more than 4,300 digits, or a value that contains itself
        raise InvalidMessage(f"a value of the request is not JSON: {error}.") from None


def too_deep() -> InvalidMessage:
    return InvalidMessage("the request is nested too deeply.")


def _tools(body: Mapping[str, Any]) -> Iterator[PromptSpan]:
    for field in ("tools", "functions"):
        tools = body.get(field)
        for number, tool in enumerate(tools if isinstance(tools, Sequence) else ()):
            value = _unmarked(tool)
            yield PromptSpan(Layer.TOOLS, f"{field}[{number}]", "tool", value, as_text(value))


def _item(key: str, number: int, item: Mapping[str, Any]) -> Iterator[PromptSpan]:
    role = str(item.get("role", ""))
    # A leading system message takes the place of the system field of other APIs.
    layer = Layer.SYSTEM if role in {"system", "developer"} and not number else Layer.MESSAGES
    place = f"{key}[{number}]"
    yield from _blocks(layer, f"{place}.content", role, item.get("content"), number)
    beside = {
        name: value
        for name, value in item.items()
        if name not in {"role", "content", *MARKS} and value is not None
    }
    if beside:
        calls = beside.pop("tool_calls", None)
        for at, call in enumerate(calls if isinstance(calls, Sequence) else ()):
            yield _span(layer, f"{place}.tool_calls[{at}]", role, call, number)
        if beside:
            yield _span(layer, place, role, beside, number)


def _blocks(
    layer: Layer, place: str, role: str, content: object, message: int | None = None
) -> Iterator[PromptSpan]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    for number, block in enumerate(content if isinstance(content, Sequence) else ()):
        value = _unmarked(block)
        if isinstance(value, Mapping) and str(value.get("type")) in {"input_text", "output_text"}:
            value = {**value, "type": "text"}
        yield _span(layer, f"{place}[{number}]", role, value, message)


def _unmarked(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: inner for key, inner in value.items() if key not in MARKS}
    return value


def _span(layer: Layer, place: str, role: str, value: object, message: int | None) -> PromptSpan:
    """Return the span of a block. Its top-level keys have no order to a provider; nested keys have one.

    Those of a tool have one, too: many servers write the tool into the prompt as it is.
    """
    ordered = dict(sorted(value.items())) if isinstance(value, Mapping) else value
    return PromptSpan(layer, place, role, value, f"{role} {as_text(ordered)}", message)


def message_blocks(body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the blocks of the messages, each with its place."""
    messages = body.get("messages")
    for number, message in enumerate(messages if isinstance(messages, list | tuple) else ()):
        content = message.get("content") if isinstance(message, Mapping) else None
        yield from blocks_in(content, f"messages[{number}].content")


def blocks_in(blocks: object, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the blocks of a list, each with its place."""
    for number, block in enumerate(blocks if isinstance(blocks, list | tuple) else ()):
        if isinstance(block, Mapping):
            yield f"{place}[{number}]", block
