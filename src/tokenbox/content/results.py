"""Replacement of the texts and media of an item by shorter texts: the copy has the same type as the item.

It supports the shapes that :mod:`tokenbox.content.items` reads. Nothing else of an item changes, and the
caller's object is never modified.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Container, Mapping, Sequence
from copy import copy
from itertools import count
from typing import Any, Final

from tokenbox.content.items import Item, as_converted, read_item
from tokenbox.content.message import InvalidMessage, Message, media_kind, thaw
from tokenbox.content.untyped import with_result

Texts = Sequence[str]
"""The new texts of an item, in order."""
NewContent = Callable[[object], Any]
"""A function that returns the next new content, given the present one."""


def results(item: Item) -> list[Message]:
    """Return the tool results in an item, in order."""
    return [message for message in item.messages if message.role in Message.RESULT_ROLES]


def cuttable_texts(item: Item) -> list[str]:
    """Return the texts of an item that may be cut: of its tool results, or of a plain message."""
    found = [result.text for result in results(item)]
    if found or item.joins or len(item.messages) != 1:
        return found
    message = item.messages[0]
    plain = _is_text(message) and not message.tool_calls and not message.reasoning
    return [message.text] if plain else []


def _is_text(message: Message) -> bool:
    """Return True if its content is a text, or parts with a ``text`` each."""
    if isinstance(message.content, str):
        return True
    return bool(message.content) and all("text" in dict(part.source) for part in message.content or ())


def originals(item: Item) -> list[str]:
    """Return what a shorter form of the item may leave out: texts, and contents with media as JSON."""
    media = [message for message in item.messages if message.media]
    contents = [json.dumps(thaw(dict(message.source)["content"]), ensure_ascii=False) for message in media]
    return cuttable_texts(item) + contents


def with_texts(
    value: Any,  # the caller's own object
    before: Item,
    texts: Texts,
    without_media: Container[int] = (),
) -> tuple[Any, Item]:
    """Return a copy of ``value`` with other :func:`cuttable_texts`, and the item read from the copy.

    ``before``: the item that ``value`` is read as.
    ``without_media``: the places of the results whose images and files leave; those of the others stay.

    Raises :class:`InvalidMessage` for an object whose texts cannot be rewritten.
    """
    refusal = InvalidMessage(f"the texts of a {type(value).__name__} cannot be rewritten.")
    rewritten, given = count(), iter(texts)

    def content(old: object) -> Any:
        return _content(old, next(given), keeps_media=next(rewritten) not in without_media)

    try:
        written = _written(value, content)
    except (StopIteration, AttributeError, TypeError, ValueError):
        raise refusal from None  # it has more results than there are texts, or its library refuses them
    item = read_item(written)
    media = [m.media if n not in without_media else () for n, m in enumerate(results(before))]
    if cuttable_texts(item) != list(texts) or [m.media for m in results(item)] != media:
        raise refusal
    return written, item


def without_media(value: Any) -> tuple[Any, Item]:  # the caller's own object
    """Return a copy of a message with a line in place of each image and file, and the item read from it.

    Raises :class:`InvalidMessage` for an object that is not a mapping of parts.
    """
    given: Any = value.to_dict() if isinstance(value, Message | Item) else value
    parts = given.get("content") if isinstance(given, Mapping) else None
    if not isinstance(parts, list | tuple):
        raise InvalidMessage(f"the media of a {type(value).__name__} cannot be left out.")
    written = {**given, "content": [_line_for(part) for part in parts]}
    if isinstance(value, Item):
        item = _as_read(value, written)
        return item, item
    return (Message.of(written) if isinstance(value, Message) else written), read_item(written)


def media_in_words(message: Message) -> str:
    """Return the media of a message in words: ``2 images, 1 file``; empty without any."""
    kinds = [part.kind.value for part in message.media]
    return ", ".join(
        f"{kinds.count(kind)} {kind}{'s' if kinds.count(kind) > 1 else ''}" for kind in dict.fromkeys(kinds)
    )


def _line_for(part: object) -> object:
    """Return a text part in place of an image or file, and any other part as it is."""
    kind = str(part.get("type")) if isinstance(part, Mapping) else ""
    if (media := media_kind(kind)) is None:
        return part
    text = "input_text" if kind.startswith("input_") else "text"
    return {"type": text, "text": f"[{media.value}, left out]"}


_NO_TEXT: Final = "the API takes no text in place of a screenshot."


def _content(old: object, text: str, *, keeps_media: bool) -> Any:
    """Return the content in place of ``old``: ``text``, and the images and files of ``old`` if they stay."""
    if isinstance(old, Mapping) and media_kind(old.get("type")) is not None:
        raise InvalidMessage(_NO_TEXT)
    if not keeps_media or not isinstance(old, list | tuple) or not any(map(_is_media, old)):
        return text
    shown = next((part for part in old if not _is_media(part)), None)
    parts = [part for part in old if _is_media(part) or part is shown]
    return [{**part, "text": text} if part is shown and isinstance(part, Mapping) else part for part in parts]


def _is_media(part: object) -> bool:
    return isinstance(part, Mapping) and media_kind(part.get("type")) is not None


def _as_read(before: Item, written: Mapping[str, Any]) -> Item:
    """Return the item read from another form of ``before``, which is converted if that one was."""
    item = read_item(written)
    return item if before.verbatim else as_converted(item, written)


def _written(value: Any, text: NewContent) -> Any:
    if isinstance(value, Item):
        return _as_read(value, _in_mapping(value.to_dict(), text))
    if isinstance(value, Message):
        return Message.of(_in_mapping(value.to_dict(), text))
    if isinstance(value, Mapping):
        return _in_mapping(value, text)
    for package, write in _WRITERS.items():
        if any(base.__module__.partition(".")[0] == package for base in type(value).__mro__):
            return write(value, text)
    dump, make = getattr(value, "model_dump", None), getattr(type(value), "model_validate", None)
    if callable(dump):
        written = _in_mapping(dump(exclude_none=True), text)
        return make(written) if callable(make) else written
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, content=text(getattr(value, "content", None)))
    raise InvalidMessage(f"the texts of a {type(value).__name__} cannot be rewritten.")


def _in_mapping(value: Mapping[str, Any], text: NewContent) -> dict[str, Any]:
    """Replace the text of a tool message, an output of the Responses API, or the results among parts."""
    key = "parts" if "parts" in value and "content" not in value else "content"
    content = value.get(key)
    if isinstance(content, list | tuple) and content:
        parts = [with_result(part, text) for part in content]
        if any(new is not old for new, old in zip(parts, content, strict=True)):
            return {**value, key: parts}
        if key == "parts" or value.get("role") in ("user", "assistant"):
            return {**value, key: [{**content[0], "text": text(content)}]}
    key = key if "role" in value or "content" in value else "output"
    return {**value, key: text(value.get(key))}


def _langchain(value: Any, text: NewContent) -> Any:
    if value.additional_kwargs.get("type") == "computer_call_output":
        raise InvalidMessage(_NO_TEXT)
    return value.model_copy(update={"content": text(value.content)})


def _llama_index(value: Any, text: NewContent) -> Any:
    shown = value.model_copy(update={"blocks": []})
    shown.content = text(None)  # its setter makes a text block, if there is no other
    return shown


def _pydantic_ai(value: Any, text: NewContent) -> Any:
    parts = [
        dataclasses.replace(part, content=text(part.content))
        if part.part_kind == "tool-return" or (part.part_kind == "retry-prompt" and part.tool_name)
        else part
        for part in value.parts
    ]
    return dataclasses.replace(value, parts=parts)


def _openai_agents(value: Any, text: NewContent) -> Any:
    raw = value.raw_item
    given = raw if isinstance(raw, Mapping) else raw.model_dump(exclude_none=True)
    return dataclasses.replace(value, raw_item=_in_mapping(given, text))


def _haystack(value: Any, text: NewContent) -> Any:
    parts = [
        dataclasses.replace(part, result=text(part.result)) if hasattr(part, "origin") else part
        for part in value._content  # noqa: SLF001  # no public attribute has all of them
    ]
    return dataclasses.replace(value, _content=parts)


def _autogen(value: Any, text: NewContent) -> Any:
    content: object = text(value.content) if isinstance(value.content, str) else None
    if content is None:
        content = [one.model_copy(update={"content": text(one.content)}) for one in value.content]
    return value.model_copy(update={"content": content})


def _agent_framework(value: Any, text: NewContent) -> Any:
    shown = copy(value)
    shown.contents = [
        type(one).from_function_result(one.call_id, result=text(one.result))
        if one.type == "function_result"
        else type(one).from_text(text(one.text))
        if one.type == "text" and value.role != "tool"
        else one
        for one in value.contents
    ]
    return shown


_WRITERS: Final[Mapping[str, Callable[[Any, NewContent], Any]]] = {
    "langchain_core": _langchain,
    "llama_index": _llama_index,
    "pydantic_ai": _pydantic_ai,
    "agents": _openai_agents,
    "haystack": _haystack,
    "autogen_core": _autogen,
    "agent_framework": _agent_framework,
}
