"""Input that a request refers to but does not contain, so that it cannot be counted here.

A server may keep input (an earlier answer, a stored prompt, a file by its id), fetch it (a document by its
address) or unpack it (a PDF is compressed). Only the server knows how many tokens that is, so that a count of
it has no upper bound (:func:`tokenbox.compose.requests.with_unseen`). The gateway lets such a request pass
only if the server's count covers that input, or if the operator sets ``policy.uncertain = "allow"``.

Data that is not what its part says, such as a text in place of an image, counts as such input, too
(:mod:`tokenbox.content.payloads`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from tokenbox.content.message import PartKind, is_plain, media_kind, thaw
from tokenbox.content.parts import texts_in, values_shown
from tokenbox.content.payloads import has_binary_file, is_image_part, is_recording
from tokenbox.content.request import INPUTS, PROMPTED, Request
from tokenbox.content.unseen_fields import inside, scales_images, unseen_field

if TYPE_CHECKING:
    from tokenbox.content.items import Item
    from tokenbox.content.message import Message
    from tokenbox.content.request import Api

_UNPACKED_PARTS = frozenset(("image_embeds", "audio_embeds", "video_embeds", "prompt_embeds"))
# The commonest keys by which a server scales an image (Qwen); others are known by their words.
_SCALING_KEYS = frozenset(("min_pixels", "max_pixels", "total_pixels", "resized_width", "resized_height"))
# Media beside a prompt (llama.cpp).
_BESIDE_PROMPT = frozenset(("multimodal_data", "multi_modal_data", "mm_data"))
# The keys of messages that have texts, and calls, whose arguments are texts.
_TEXT_KEYS = frozenset(
    "role content name tool_calls tool_call_id reasoning_content reasoning refusal".split()
)
# Texts that are the address of a file: in a chat (DashScope), and as what is embedded (Gemini).
_FILE_TEXT = re.compile(r"\s*fileid://")
_FILE_PROMPT = re.compile(r"\s*(?:(?:gs|fileid)://\S+|files/[a-z0-9-]+)\s*\Z")
# The bytes of which a request has one if it has such a text: of messages, of prompts. Each of the characters
# may be written as an escape.
_ESCAPES = (b"\\u003", b"\\u006", b"\\u007")
FILE_MARKS = ((b"fileid:", *_ESCAPES), (b"fileid:", b"gs:", b"files", *_ESCAPES))
# Names by which OpenRouter adds the results of a search, or a stored prompt.
_SEARCHING_NAME = ":online"
_STORED_NAME = "@preset/"
# Tools that the client runs, by their type (Anthropic's types end with a date). The results of other tools,
# such as a search, enter the input unseen.
_CLIENT_TOOLS = frozenset(("function", "custom", "local_shell", "apply_patch"))
_DATED_CLIENT_TOOL = re.compile(
    r"(?:bash|text_editor|(?:computer|browser)(?:_toolset)?|memory)_\d{8}"
    r"|computer(?:[_-]use)?(?:[_-]preview)?"
    # These find tools among those of the request, which are counted.
    r"|tool_search_tool_(?:regex|bm25)(?:_\d{8})?"
)
# Keys beside a tool's own that make it one of the server's (Gemini).
_HOSTED_KEY = re.compile(r"search|retriev|url_?context|code_?exec|maps|fetch|grounding", re.IGNORECASE)
# Tools of OpenAI that the client runs if this field has this value.
_CLIENT_TOOLS_IF = {"shell": ("environment.type", "local"), "tool_search": ("execution", "client")}
# A tool that only groups others.
_TOOL_GROUP = "namespace"
# Parts with the tools that a server listed earlier, to be sent back. They only call what the request allows.
_TOOL_LISTINGS = frozenset(("mcp_list_tools", "mcp_tool_listing"))
_TOOL_KEYS = frozenset(("tools", "tool"))
# A part that Anthropic's API replaces by the whole tool of that name, wherever and how often it stands.
_SHOWS_A_TOOL = "tool_reference"
# Keys by which servers recognize media and files, whatever the part's type says (vLLM, if it has none).
_MEDIA_KEYS = {
    key: kind
    for kind, keys in (
        (PartKind.IMAGE, ("image_url", "image", "images", "image_pil")),
        (PartKind.AUDIO, ("input_audio", "audio_url", "audio")),
        (PartKind.VIDEO, ("video_url", "input_video", "video", "videos")),
        (PartKind.FILE, ("file", "file_url", "image_file", "document", "document_url")),
        (PartKind.FILE, ("inline_data", "inlineData", "fileData", "file_uri", "fileUri")),
    )
    for key in keys
}
KEYS_BEYOND_TEXT = _UNPACKED_PARTS.union(_SCALING_KEYS, _BESIDE_PROMPT, _MEDIA_KEYS)
# Parts and items that refer to something on the server.
_REFERENCE_PARTS = frozenset(("item_reference", "container_upload", "compaction_reference"))
# Items that the server fills in by their id, if they have none of the fields in ``_CONTENT_FIELDS``.
_ITEMS_BY_ID = frozenset(
    """
    reasoning image_generation_call file_search_call web_search_call code_interpreter_call mcp_list_tools
    mcp_call compaction
    """.split()
)
_CONTENT_FIELDS = tuple(
    "summary content encrypted_content result results outputs output tools action".split()
)
_AUDIO_KEYS = ("audio_url", "input_audio", "audio")
_FILE_REFERENCES = ("file_id", "file_url", "file_uri", "document_url", "url", "uri", "uuid")
# A reasoning item's summary is not what the model reads: that is behind its id.
_REASONING_FIELDS = ("content", "encrypted_content")


UNRENDERED = "what its chat template writes for so many messages"
"""The other reason for which no upper bound is known: the template does more than the sandbox lets it."""


def unseen_of(request: Request) -> str | None:
    """Return the input that a request refers to and does not contain, in words; None without any."""
    items = [message.source for message in request.messages if not _is_text(message)]
    body: dict[str, Any] = thaw(request.fields)
    body["tools"] = thaw(request.tools)
    body[INPUTS[request.api]] = thaw((*items, *request.raw, *request.prompts))
    return unseen_input(body, request.api)


def is_seen(item: Item) -> bool:
    """Return whether an item contains all the input that it refers to."""
    if item.verbatim and all(map(_is_text, item.messages)):
        return True
    return unseen_of(Request(item.messages, raw=() if item.verbatim else (item.raw,))) is None


def _is_text(message: Message) -> bool:
    """Whether a message has nothing but texts and calls, so that it refers to nothing."""
    if isinstance(message.content, tuple) or not all(key in _TEXT_KEYS for key, _ in message.source):
        return False
    return not _FILE_TEXT.match(message.text)


def unseen_input(
    body: Mapping[str, Any],
    api: Api,
    models: Sequence[str] = (),
    seen: Collection[str] = (),
    *,
    media: bool = False,
    file_texts: bool = True,
) -> str | None:
    """Return the input that a request refers to and that was not counted, in words; None if all was.

    ``body``: all fields, as JSON. ``models``: the names of those that may answer. ``seen`` are the fields
    that the server's own count covers; ``media`` tells that it counts images and files, too.
    ``file_texts``: whether a text may be the address of a file; if none can be, no text is searched for one.
    """
    key = INPUTS[api]
    given, takes_prompts = body.get(key), api in PROMPTED
    reason = (
        _unseen_model(models)
        or unseen_field(body, api, seen)
        or _unseen_tools(body)
        or (_unseen_text(given, takes_prompts=takes_prompts) if file_texts else None)
    )
    if reason is not None:
        return reason
    if takes_prompts:
        return _unseen_beside_prompts(given, body.get("messages"))
    if isinstance(given, list):
        given = [item for item in given if not is_plain(item)]
        if not (media and key in seen) and any(isinstance(i, dict) and _is_reference(i) for i in given):
            return "an item is only an id of input that the server keeps"
    for name in (key, "system", "instructions", "prompt"):
        value = given if name == key else body.get(name)
        for part in parts_in(value) if value else ():
            if part.get("type") == _SHOWS_A_TOOL and name not in seen:
                return f"a part of type {_SHOWS_A_TOOL!r} has the server show a tool once more"
            reason = _unseen_part(part, counted=media and name in seen)
            if reason is not None:
                return reason
    return None


def _unseen_beside_prompts(*values: object) -> str | None:
    """Return what is no text in the prompts, or in ``messages``, which vLLM reads in place of them."""
    for value in values:
        for part in parts_in(value):
            if media_kind(part.get("type")) is not None or _unseen_part(part, counted=False) is not None:
                return f"a part of type {part.get('type')!r} has more than text"
    return None


def _unseen_text(given: object, *, takes_prompts: bool) -> str | None:
    address = _FILE_PROMPT if takes_prompts else _FILE_TEXT
    for text in texts_in(given):
        if address.match(text):
            return f"the text {text.strip()[:60]!r} is the address of a file that the server reads"
    return None


def _unseen_model(models: Sequence[str]) -> str | None:
    for name in models:
        if _SEARCHING_NAME in name.casefold():
            return f"the model {name[:60]!r} adds the results of a search"
        if _STORED_NAME in name.casefold():
            return f"the model {name[:60]!r} adds a prompt that the server keeps"
    return None


def _is_reference(item: Mapping[str, Any]) -> bool:
    """Whether an item has no content but an id, or refers to an earlier recording or a cache (Moonshot)."""
    if item.get("role") == "cache":
        return True
    if item.get("id") and not item.get("type") and not item.get("role"):
        return True
    audio = item.get("audio")
    return isinstance(audio, dict) and bool(audio.get("id"))


def _unseen_tools(body: Mapping[str, Any]) -> str | None:
    """Return a tool that the server runs, in ``tools`` or beside them (OpenRouter's ``deferred_tools``)."""
    for key in body:
        if key.endswith("tools") and (reason := _unseen_tool(body[key])) is not None:
            return reason
    return None


def _unseen_tool(tools: object) -> str | None:
    """Return a tool that the server runs, in words; None if the list has no such tool."""
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and not _is_client_tool(tool):
            kind = tool.get("type") or next(filter(_HOSTED_KEY.search, tool), None)
            named = "without a type and a name" if kind is None else f"of the type {str(kind)[:60]!r}"
            return f"a tool {named}, which the server runs, adds input by itself"
    return None


def _is_client_tool(tool: Mapping[str, Any]) -> bool:
    """Whether the client runs this tool. Without a type it has a name, here or in its function."""
    kind = tool.get("type")
    if any(value is not None and _HOSTED_KEY.search(key) for key, value in tool.items()):
        return False
    if kind is None:
        return isinstance(tool.get("name"), str) or isinstance(tool.get("function"), dict)
    if not isinstance(kind, str):
        return False
    if kind == _TOOL_GROUP:
        return _unseen_tool(tool.get("tools")) is None
    if kind in _CLIENT_TOOLS_IF:
        field, value = _CLIENT_TOOLS_IF[kind]
        return bool(inside(tool, field) == value)
    return kind in _CLIENT_TOOLS or _DATED_CLIENT_TOOL.fullmatch(kind) is not None


def _tools_in(part: Mapping[str, Any]) -> list[Any]:
    """Return the tools that a part of the input adds (OpenAI's ``tools``, Anthropic's ``tool``)."""
    if str(part.get("type")) in _TOOL_LISTINGS:
        return []
    tools = part.get("tools")
    return [*(tools if isinstance(tools, list) else ()), inside(part, "tool.definition")]


def parts_in(value: Any) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401  # JSON
    """Yield every object in ``value``, except those that tools are called with."""
    stack = [value]
    while stack:
        inner = stack.pop()
        if isinstance(inner, dict):
            yield inner
            inner = values_shown(inner)
        elif not isinstance(inner, list):
            continue
        stack += [item for item in inner if isinstance(item, (dict, list))]


def _unseen_part(part: Mapping[str, Any], *, counted: bool) -> str | None:
    name = part.get("type")
    beyond = () if KEYS_BEYOND_TEXT.isdisjoint(part) else KEYS_BEYOND_TEXT & part.keys()
    if (beyond or media_kind(name) is PartKind.IMAGE) and (scale := _scale_in(part)) is not None:
        return f"a part of type {name!r} has {scale!r}, to which the server scales an image"
    for key in beyond:
        if key in _UNPACKED_PARTS:
            return f"a part of type {name!r} has vectors, which the server unpacks"
        if part[key] and not counted and (key in _BESIDE_PROMPT or _MEDIA_KEYS[key] is not media_kind(name)):
            return f"a part of type {name!r} has {key!r}, which some servers read as more than text"
    if not _TOOL_KEYS.isdisjoint(part) and (reason := _unseen_tool(_tools_in(part))) is not None:
        return reason
    return _unseen_by_type(part, name, counted=counted) if isinstance(name, str) else None


def _scale_in(part: Mapping[str, Any]) -> str | None:
    """Return the key of a part, or of an object in it, that sets the size of an image; None without one."""
    keys = chain(part, *(inner for inner in part.values() if isinstance(inner, dict)))
    return next(filter(scales_images, keys), None)


def _unseen_by_type(part: Mapping[str, Any], name: str, *, counted: bool) -> str | None:
    fields = _REASONING_FIELDS if name == "reasoning" else _CONTENT_FIELDS
    is_by_id = name in _ITEMS_BY_ID and part.get("id") and not any(map(part.get, fields))
    if name in _REFERENCE_PARTS or is_by_id:
        return None if counted else f"a part of type {name!r} names input that the server keeps"
    if name in _UNPACKED_PARTS:
        return f"a part of type {name!r} has vectors, which the server unpacks"
    kind = media_kind(name)
    if kind is PartKind.IMAGE:
        if is_image_part(part):
            return None
        return f"the data of a part of type {name!r} is neither an address nor an image in base64"
    return None if counted or kind is None else _unseen_file(part, kind)


def _unseen_file(part: Mapping[str, Any], kind: PartKind) -> str | None:
    name = part["type"]
    if kind is PartKind.VIDEO:
        return "how many tokens a video is, only the server can say"
    holders = [part, *(inner for inner in part.values() if isinstance(inner, dict))]
    if kind is PartKind.AUDIO and any(isinstance(part.get(key), str) for key in _AUDIO_KEYS):
        return f"a part of type {name!r} names a recording that the server fetches"
    if part.get("id") or any(holder.get(key) is not None for holder in holders for key in _FILE_REFERENCES):
        return f"a part of type {name!r} names a file that the server keeps or fetches"
    if kind is PartKind.FILE and any(map(has_binary_file, holders)):
        return f"a part of type {name!r} holds a file in base64, which may be larger than it looks"
    if kind is PartKind.AUDIO and not all(map(is_recording, holders)):
        return f"a part of type {name!r} holds a recording that is neither WAV nor MP3, so it may be long"
    return None
