"""Replacement of the texts of tool results and plain messages: the result has the same type as the item.

It supports the shapes that :mod:`tokenbox.content.items` reads. Nothing else of an item changes, and the
caller's object is never modified.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tokenbox.content.items import Item, read_item
from tokenbox.content.message import InvalidMessage, Message

Texts = Sequence[str]
"""The new texts of an item, in order."""


def result_texts(item: Item) -> list[str]:
    """Return the texts of the tool results in an item, in order."""
    return [message.text for message in item.messages if message.role in Message.RESULT_ROLES]


def cuttable_texts(item: Item) -> list[str]:
    """Return the texts of an item that may be cut: of its tool results, or of a plain message."""
    found = result_texts(item)
    if found or item.joins or len(item.messages) != 1:
        return found
    message = item.messages[0]
    plain = isinstance(message.content, str) and not message.tool_calls and not message.reasoning
    return [message.text] if plain else []


def with_texts(value: Any, texts: Texts) -> tuple[Any, Item]:  # noqa: ANN401  # the caller's own object
    """Return a copy of ``value`` with other :func:`cuttable_texts`, and the item read from the copy.

    Raises :class:`InvalidMessage` for an object whose texts cannot be rewritten.
    """
    refusal = InvalidMessage(f"the texts of a {type(value).__name__} cannot be rewritten.")
    try:
        written = _written(value, iter(texts).__next__)
    except StopIteration:  # the item has more results than there are texts
        raise refusal from None
    item = read_item(written)
    if cuttable_texts(item) != list(texts):
        raise refusal
    return written, item


def _written(value: Any, text: Callable[[], str]) -> Any:  # noqa: ANN401
    if isinstance(value, Message):
        return Message.of({**value.to_dict(), "content": text()})
    if isinstance(value, Mapping):
        return _in_mapping(value, text)
    for package, write in _WRITERS.items():
        if any(base.__module__.partition(".")[0] == package for base in type(value).__mro__):
            return write(value, text)
    dump = getattr(value, "model_dump", None)  # an SDK's object is sent as its mapping
    if callable(dump):
        return _in_mapping(dump(exclude_none=True), text)
    raise InvalidMessage(f"the texts of a {type(value).__name__} cannot be rewritten.")


def _in_mapping(value: Mapping[str, Any], text: Callable[[], str]) -> dict[str, Any]:
    """Replace the text of a tool message, an output of the Responses API, or Anthropic's blocks."""
    content = value.get("content")
    if isinstance(content, list | tuple) and value.get("role") == "user":
        blocks = [
            {**block, "content": text()}
            if isinstance(block, Mapping) and block.get("type") == "tool_result"
            else block
            for block in content
        ]
        return {**value, "content": blocks}
    return {**value, "output" if "role" not in value else "content": text()}


def _langchain(value: Any, text: Callable[[], str]) -> Any:  # noqa: ANN401
    return value.model_copy(update={"content": text()})


def _llama_index(value: Any, text: Callable[[], str]) -> Any:  # noqa: ANN401
    shown = value.model_copy(update={"blocks": list(value.blocks)})
    shown.content = text()  # its setter makes a text block
    return shown


def _pydantic_ai(value: Any, text: Callable[[], str]) -> Any:  # noqa: ANN401
    parts = [
        dataclasses.replace(part, content=text())
        if part.part_kind == "tool-return" or (part.part_kind == "retry-prompt" and part.tool_name)
        else part
        for part in value.parts
    ]
    return dataclasses.replace(value, parts=parts)


def _openai_agents(value: Any, text: Callable[[], str]) -> Any:  # noqa: ANN401
    raw = value.raw_item
    given = raw if isinstance(raw, Mapping) else raw.model_dump(exclude_none=True)
    return dataclasses.replace(value, raw_item=_in_mapping(given, text))


def _haystack(value: Any, text: Callable[[], str]) -> Any:  # noqa: ANN401
    parts = [
        dataclasses.replace(part, result=text()) if hasattr(part, "origin") else part
        for part in value._content  # noqa: SLF001  # no public attribute has all of them
    ]
    return dataclasses.replace(value, _content=parts)


_WRITERS: Final[Mapping[str, Callable[[Any, Callable[[], str]], Any]]] = {
    "langchain_core": _langchain,
    "llama_index": _llama_index,
    "pydantic_ai": _pydantic_ai,
    "agents": _openai_agents,
    "haystack": _haystack,
}
