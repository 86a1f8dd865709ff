"""Input that a request names but does not hold, so that the gateway cannot count it.

A server may keep input (an earlier answer, a stored prompt, a file by its id), fetch it (a document by its
address) or unpack it (a PDF is compressed). How many tokens that is, only the server can say. Where its count
does not cover such input, the request passes only if the operator sets ``policy.uncertain = "allow"``.

An image is no such input: providers bound what an image costs, whatever its size in bytes
(:data:`tokenbox.compose.bound.PER_MEDIA`). A payload that is not an image may be
text in disguise, and is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tokenbox.content.message import PartKind, kind_of_part

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from tokenbox.gateway.calls import ApiCall

# Fields that name input which a server keeps: OpenAI's, OpenRouter's, Gemini's, Ark's and those of agents.
STORED = frozenset(
    (
        *("previous_response_id", "previous_interaction_id", "conversation", "conversation_id", "prompt_id"),
        *("thread_id", "assistant_id", "preset", "container", "cached_content", "cachedContent", "cache_id"),
        *("context_id", "file_ids", "attachments"),
    )
)
# Fields that have the server search or call others, and add what it finds to the input.
FETCHED = frozenset(
    (
        *("mcp_servers", "web_search_options", "search_parameters", "plugins", "data_sources", "retrieval"),
        *("tool_resources", "server_tools", "vector_store_ids", "connectors"),
    )
)
# Tools that the client runs, by their type and by how it begins (Anthropic's have a date behind the name).
# Results of others, such as of a search, come into the input unseen.
_OWN_TOOLS = frozenset(("function", "custom", "local_shell", "apply_patch"))
_OWN_TOOLS_BEGIN = ("bash_", "text_editor_", "computer", "memory_")
# Parts and items of a conversation that stand for something the server keeps.
_KEPT = frozenset(("item_reference", "container_upload", "compaction_reference"))
# Items that a server fills by their id where they hold nothing themselves.
_FILLED = frozenset(
    (
        *("reasoning", "image_generation_call", "file_search_call", "web_search_call"),
        *("code_interpreter_call", "mcp_list_tools", "mcp_call", "compaction"),
    )
)
_HOLDS = (
    *("summary", "content", "encrypted_content", "result", "results", "outputs", "output", "tools", "action"),
)
_REFERENCES = ("file_id", "file_url", "url", "uri", "id")
# How images begin, in base64: PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF and HEIC.
_IMAGES = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "Qk", "SUkq", "TU0A", "AAAA")
_BASE64 = re.compile(r"[A-Za-z0-9+/_=\s-]*")
_LONGEST_ADDRESS = 4_096
# A tiny payload is not an image that anybody can see, nor a text that matters.
_TINY = 64


def has_marks(call: ApiCall) -> bool:
    """Whether there may be images, files or references in its messages.

    Every such part says its type, and the key may be written with escapes.
    """
    data = call.data
    return b'type"' in data or b"\\u" in data


def unseen_input(call: ApiCall, seen: Collection[str] = (), *, media: bool = False) -> str | None:
    """The input of ``call`` that nobody has counted, in words; None if there is none.

    ``seen``: the fields that the server's own count was given; ``media``: it counts images and files, too.
    """
    body = call.body
    said = _unseen_field(call, seen)
    if said is not None:
        return said
    if call.protocol.takes_prompts or not has_marks(call):
        return None
    for key in (call.protocol.input_key, "system", "instructions", "prompt"):
        for part in _parts_in(body.get(key)):
            said = _unseen_part(part, counted=media and key in seen)
            if said is not None:
                return said
    return None


def _unseen_field(call: ApiCall, seen: Collection[str]) -> str | None:
    body = call.body
    if not STORED.isdisjoint(body) or not FETCHED.isdisjoint(body):
        for key, value in body.items():
            if key in STORED and key not in seen and value:
                return f"{key} names input that the server keeps"
            if key in FETCHED and value:
                return f"{key} has the server add input by itself"
    tools = body.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and not _is_own(kind := tool.get("type")):
            return f"a tool of the type {str(kind)[:60]!r}, which the server runs, adds input by itself"
    prompt = body.get("prompt")
    if isinstance(prompt, dict) and not call.protocol.takes_prompts and "prompt" not in seen:
        return "prompt names a text that the server keeps"
    return None


def _is_own(kind: object) -> bool:
    """Whether the client runs tools of that type."""
    return not isinstance(kind, str) or kind in _OWN_TOOLS or kind.startswith(_OWN_TOOLS_BEGIN)


def _parts_in(value: Any) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401  # JSON
    """Every object in ``value`` that says its type."""
    stack = [value]
    while stack:
        inner = stack.pop()
        if isinstance(inner, dict):
            if isinstance(inner.get("type"), str):
                yield inner
            inner = inner.values()
        elif not isinstance(inner, list):
            continue
        stack += [item for item in inner if isinstance(item, (dict, list))]


def _unseen_part(part: Mapping[str, Any], *, counted: bool) -> str | None:
    name = part["type"]
    if name in _KEPT or (name in _FILLED and part.get("id") and not any(part.get(key) for key in _HOLDS)):
        return None if counted else f"a part of type {name!r} names input that the server keeps"
    kind = kind_of_part(name)
    if kind is PartKind.IMAGE:
        if all(map(_is_image, _payloads(part))):
            return None
        return f"the data of a part of type {name!r} is neither an address nor an image in base64"
    return None if counted or kind is None else _unseen_file(part, kind)


def _unseen_file(part: Mapping[str, Any], kind: PartKind) -> str | None:
    name = part["type"]
    if kind is PartKind.VIDEO:
        return "how many tokens a video is, only the server can say"
    holders = [part, *(inner for inner in part.values() if isinstance(inner, dict))]
    if any(holder.get(key) for holder in holders for key in _REFERENCES if key != "id" or holder is part):
        return f"a part of type {name!r} names a file that the server keeps or fetches"
    if kind is PartKind.FILE and any(_is_packed(holder) for holder in holders):
        return f"a part of type {name!r} holds a file in base64, which may be larger than it looks"
    return None


def _payloads(part: Mapping[str, Any]) -> Iterator[object]:
    """Where an image of any API has its address or data."""
    inner = [part[key] for key in ("image_url", "source", "image") if isinstance(part.get(key), dict)]
    for holder in (part, *inner):
        for key in ("url", "data", "image_url", "image"):
            value = holder.get(key)
            if value is not None and not any(value is one for one in inner):
                yield value


def _is_image(payload: object) -> bool:
    if not isinstance(payload, str):
        return False
    if len(payload) <= _TINY:
        return True
    if payload[:8].lower().startswith(("http://", "https://")):
        return len(payload) <= _LONGEST_ADDRESS
    head, comma, _ = payload[:128].partition(",")
    if comma and not head.lower().startswith("data:image/"):
        return False
    start = len(head) + 1 if comma else 0
    return payload.startswith(_IMAGES, start) and _BASE64.fullmatch(payload, start) is not None


def _is_packed(holder: Mapping[str, Any]) -> bool:
    """Whether it holds a file that is not text."""
    for key in ("file_data", "data"):
        data = holder.get(key)
        if isinstance(data, str) and holder.get("type") != "text" and len(data) > _TINY:
            return not data[:64].lower().startswith(("data:text/plain", "data:text/markdown"))
    return False
