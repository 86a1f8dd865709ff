"""The parts that messages of other shapes become, and the texts and media in any JSON value."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final, TypeVar

from tokenbox.content.message import InvalidMessage, Object, PartKind, media_kind

T = TypeVar("T")

# Keys whose values no model reads.
_UNREAD: Final = frozenset(("type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "status"))
# Media with a type of their own; the others are files.
MEDIA_TYPES: Final = {"audio": "input_audio", "video": "video_url"}
_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
# An item of the Responses API with the data of an image, at "result".
_GENERATED_IMAGE: Final = "image_generation_call"
# What a tool is called with.
_ARGUMENTS: Final = frozenset(("input", "arguments"))


def text_part(text: object) -> dict[str, Any]:
    """Return a text as a part."""
    return {"type": "text", "text": text}


def tool_call(identifier: object, name: object, arguments: object) -> dict[str, Any]:
    """Return a tool call in the chat completions shape. Arguments that are not text become JSON."""
    try:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage(f"the arguments of a call to {name!r:.60} are not JSON: {error}.") from None
    function = {"name": name, "arguments": text}
    return {"id": None if identifier is None else str(identifier), "type": "function", "function": function}


def as_plain(value: object) -> Any:  # JSON
    """Replace objects of SDKs, and dataclasses, anywhere in a value with mappings of what is sent."""
    if isinstance(value, Mapping):
        return {key: as_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(inner) for inner in value]
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(exclude_none=True)
    if is_dataclass(value) and not isinstance(value, type):
        given = {field.name: getattr(value, field.name) for field in fields(value)}
        return {name: as_plain(inner) for name, inner in given.items() if inner is not None}
    return value


def texts_in(value: object) -> Iterator[str]:
    """Yield every text in a JSON value that a model may read, without keys, ids and types."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in _UNREAD:
                yield from texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts_in(inner)


def media_in(value: object, cost: Callable[[Mapping[str, object]], int] = lambda _: 1) -> int:
    """Return the number of images, files and recordings in a JSON value, frozen or not, at any depth.

    A document made of parts counts as the media among them. What a tool is called with has none.
    ``cost``: what to add up instead, from the object of each.
    """
    if isinstance(value, Object):
        pairs = dict(value)
    elif isinstance(value, dict):
        pairs = value
    elif isinstance(value, list | tuple):
        return sum(media_in(inner, cost) for inner in value)
    else:
        return 0
    name = pairs.get("type")
    kind, inside = media_kind(name), sum(media_in(inner, cost) for inner in values_shown(pairs))
    if kind is PartKind.IMAGE:
        return max(inside, cost(pairs))  # its source may be called a file
    is_medium = kind is not None or (name == _GENERATED_IMAGE and bool(pairs.get("result")))
    return inside or cost(pairs) if is_medium else inside


def values_shown(item: Mapping[str, T]) -> Iterable[T]:
    """Return the values of an object, without those that a tool is called with: they are text."""
    if _ARGUMENTS.isdisjoint(item) or not ("arguments" in item or str(item.get("type")).endswith("tool_use")):
        return item.values()
    return [value for key, value in item.items() if key not in _ARGUMENTS]


def snake_case(key: object) -> str:
    """Return a key of JSON such as ``functionCall`` as Python's SDKs name it: ``function_call``."""
    return _WORD_START.sub("_", str(key)).lower()


def media_of(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return an image, a recording or a file of Gemini's as a part with its data or its place."""
    kind = str(block.get("mime_type")).partition("/")[0]
    part = {"type": kind if kind == "image" else MEDIA_TYPES.get(kind, "file")}
    if (data := block.get("data")) is not None:
        part["data"] = base64.b64encode(data).decode() if isinstance(data, bytes) else data
    elif block.get("file_uri"):
        part["url"] = block["file_uri"]
    else:
        raise InvalidMessage(f"a block of the type {block['type']!r} has neither data nor a file_uri.")
    return part
