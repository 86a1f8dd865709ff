"""The parts that messages of other shapes become, and the texts in any JSON value."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from tokenbox.content.message import InvalidMessage

# Keys whose values no model reads.
_UNREAD: Final = frozenset(("type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "status"))
# Media with a type of their own; the others are files.
MEDIA_TYPES: Final = {"audio": "input_audio", "video": "video_url"}
_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


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
