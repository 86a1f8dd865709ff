"""The items of a conversation as people have them, read into chat messages. The one reader there is.

An item is a message of OpenAI's Chat Completions, an item of its Responses API, a message of Anthropic's API,
or an object of a library (:mod:`tokenbox.content.library_objects`). Each shape is told by its own marks, so
they may be mixed. What is not understood is an :class:`InvalidMessage` that names the place; a gateway, whose
upstream judges for itself, reads it as its texts instead (``strict=False``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tokenbox.content.library_objects import as_mapping, as_plain, texts_in
from tokenbox.content.message import (
    Frozen,
    InvalidMessage,
    Message,
    Object,
    Role,
    freeze_object,
    plain_message,
    thaw,
)

# Items of the Responses API that wait for an output of the caller's, and the outputs.
_CALLS: Final = frozenset(
    (
        "function_call",
        "custom_tool_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
    )
)
# Items of it that the provider runs itself, and what else an answer may hold.
_OWN: Final = frozenset(
    (
        *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"),
        *("mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response"),
        *("program", "program_output", "additional_tools"),
        *("item_reference", "compaction", "tool_search_call", "tool_search_output"),
        *("handoff_call", "handoff_output"),
    )
)
# Blocks of a content that only Anthropic's API has.
_ANTHROPIC: Final = frozenset(
    (
        *("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"),
        *("search_result", "mcp_tool_use", "mcp_tool_result", "container_upload", "compaction"),
        *("tool_reference", "tool_addition", "tool_removal", "mcp_tool_listing", "fallback"),
    )
)


@dataclass(frozen=True, slots=True)
class Item:
    """One item as it was read.

    ``joins``: it belongs to the assistant's turn before it, as calls and reasoning do that are items of their
    own. ``verbatim``: its one message is what is sent, not a translation of another shape; otherwise ``raw``
    is the item as it was given.
    """

    messages: tuple[Message, ...]
    joins: bool = False
    verbatim: bool = True
    raw: Frozen = None

    def to_dict(self) -> Any:  # noqa: ANN401  # JSON
        """The item as it was given, as a mapping."""
        return self.messages[0].to_dict() if self.verbatim else thaw(self.raw)

    @property
    def text(self) -> str:
        """All its text, joined."""
        return "\n".join(message.text for message in self.messages if message.text)

    @property
    def calls(self) -> tuple[str | None, ...]:
        """The ids of the tools' calls in it."""
        return tuple(call.id for message in self.messages for call in message.tool_calls)

    @property
    def results(self) -> tuple[str | None, ...]:
        """The ids of the calls that it answers."""
        return tuple(m.tool_call_id for m in self.messages if m.role in Message.RESULT_ROLES)

    @property
    def is_system(self) -> bool:
        """Whether a prompt of the system is in it, which always stays."""
        return any(message.role in Message.SYSTEM_ROLES for message in self.messages)

    @property
    def role(self) -> Role:
        """Whose it is: of a user who speaks beside results, the user's."""
        return self.messages[-1].role


def read_items(values: object, *, strict: bool = True) -> list[Item]:
    """The items of a list. Raises :class:`InvalidMessage`; ``details["index"]`` is the place."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidMessage(
            f"messages are a list of mappings or of message objects, not {type(values).__name__}."
        )
    items = []
    for index, value in enumerate(values):
        try:
            items.append(read_item(value, strict=strict))
        except InvalidMessage as error:
            raise InvalidMessage(f"messages[{index}]: {error.message}", index=index) from None
    return items


def read_item(value: object, *, strict: bool = True) -> Item:
    """One item, of whatever shape. Raises :class:`InvalidMessage`."""
    if (plain := plain_message(value)) is not None:
        return Item((plain,))
    if isinstance(value, Message):
        return Item((value,))
    if isinstance(value, Mapping):
        given: Mapping[str, Any] = value
        verbatim = True
    else:
        read, verbatim = as_mapping(value)
        if isinstance(read, list):  # an object that is sent as several messages
            messages = tuple(message for one in read for message in _read(one).messages)
            return Item(messages, verbatim=False, raw=freeze_object({"messages": read}, "message"))
        given = read
    try:
        item = _read(given)
    except InvalidMessage:
        sent = as_plain(given)
        if sent != given:
            item = _read(sent)
        elif strict:
            raise
        else:
            item = _as_texts(given)
    if verbatim or not item.verbatim:
        return item
    return Item(item.messages, item.joins, verbatim=False, raw=freeze_object(given, "message"))


def _read(given: Mapping[str, Any]) -> Item:
    kind = given.get("type")
    if isinstance(kind, str) and kind != "message" and "role" not in given:
        return _of_responses(kind, given)
    if _kinds(given.get("content")) & _ANTHROPIC:
        return _of_anthropic(given)
    if kind == "message":  # of the Responses API: what it adds to a chat message, no model reads
        shown = {"role": given.get("role"), "content": given.get("content")}
        return Item((Message.of(shown),), verbatim=False, raw=freeze_object(given, "message"))
    return Item((Message.of(given),))


def _kinds(content: object) -> frozenset[str]:
    if not isinstance(content, list | tuple):
        return frozenset()
    return frozenset(str(block.get("type")) for block in content if isinstance(block, Mapping))


def _as_texts(given: Mapping[str, Any]) -> Item:
    """An item that was not understood, as a message of all its texts."""
    role = given.get("role")
    known = role if isinstance(role, str) and role in ("system", "developer", "assistant") else "user"
    text = "\n".join(texts_in(given))
    return Item((Message.of({"role": known, "content": text}),), verbatim=False, raw=_frozen(given))


def _frozen(given: Mapping[str, Any]) -> Frozen:
    try:
        return freeze_object(given, "message")
    except InvalidMessage:  # too deep to be kept: its texts are all there is of it
        return Object([("texts", tuple(texts_in(given)))])


# The Responses API ----------------------------------------------------------------------------------------


def _of_responses(kind: str, given: Mapping[str, Any]) -> Item:
    """An item that is not a message. Reasoning and calls belong to one turn of the assistant."""
    raw = freeze_object(given, "item")
    identifier = given.get("call_id") or given.get("id")
    if kind == "reasoning":
        thought = "\n".join(texts_in([given.get("summary"), given.get("content")]))
        message = {"role": "assistant", "content": None, "reasoning_content": thought}
        return Item((Message.of(message),), joins=True, verbatim=False, raw=raw)
    if kind in _CALLS:
        arguments = given.get("arguments", given.get("input"))
        if arguments is None:
            arguments = given.get("action", given.get("operation", {}))
        call = _call(identifier, given.get("name") or kind, arguments)
        called: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
        return Item((Message.of(called),), joins=True, verbatim=False, raw=raw)
    if kind.removesuffix("_output") in _CALLS:
        return Item((_result(identifier, given.get("output")),), verbatim=False, raw=raw)
    if kind in _OWN:
        text = "\n".join(texts_in(given))
        message = {"role": "assistant", "content": text}
        return Item((Message.of(message),), joins=True, verbatim=False, raw=raw)
    raise InvalidMessage(f"an item of the type {kind!r:.60} is not known, and has no role.")


def _call(identifier: object, name: object, arguments: object) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    function = {"name": name, "arguments": text}
    return {"id": None if identifier is None else str(identifier), "type": "function", "function": function}


def _result(identifier: object, output: object) -> Message:
    """The message of a tool. An output is a text, a list of parts, or an object such as a screenshot."""
    content: object = output
    if output is None:
        content = ""
    elif isinstance(output, Mapping):
        content = [output] if "type" in output else "\n".join(texts_in(output))
    elif isinstance(output, list | tuple):
        content = [part for part in output if not isinstance(part, Mapping) or "type" in part]
    tool = {"role": "tool", "content": content}
    try:
        return Message.of(tool if identifier is None else {**tool, "tool_call_id": str(identifier)})
    except InvalidMessage:  # parts that only this tool has
        return Message.of({**tool, "content": "\n".join(texts_in(output)), "tool_call_id": str(identifier)})


# Anthropic's API ------------------------------------------------------------------------------------------


def _of_anthropic(given: Mapping[str, Any]) -> Item:
    """A message of blocks: results of tools become messages of their own, before what the user says."""
    role = given.get("role")
    if role not in ("user", "assistant"):
        raise InvalidMessage(
            f"a message has the role {role!r:.60}; with these blocks it is user or assistant."
        )
    raw = freeze_object(given, "message")
    blocks = [block for block in given["content"] if isinstance(block, Mapping)]
    messages = [
        _result(block.get("tool_use_id"), block.get("content"))
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    own = _speech(role, [block for block in blocks if block.get("type") != "tool_result"])
    return Item((*messages, *own), verbatim=False, raw=raw)


def _speech(role: str, blocks: list[Mapping[str, Any]]) -> list[Message]:
    """The message that the blocks say: no messages if there are no blocks."""
    if not blocks:
        return []
    content: list[Mapping[str, Any]] = []
    thoughts, calls = [], []
    for block in blocks:
        kind = str(block.get("type"))
        if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            call = _call(block.get("id"), block.get("name"), block.get("input", {}))
            if kind == "tool_use":
                calls.append(call)
            else:  # the provider runs it, and its result is here
                content.append({"type": "text", "text": "\n".join(texts_in(call))})
        elif kind == "thinking":
            thoughts.append(str(block.get("thinking", "")))
        elif kind in ("text", "image", "document"):
            content.append({"type": "text", "text": block.get("text")} if kind == "text" else block)
        elif kind in _ANTHROPIC or kind.endswith("_tool_result"):
            content.append({"type": "text", "text": "\n".join(texts_in(block))})
        else:
            raise InvalidMessage(f"content has a block of the type {kind!r:.60}, which is not known.")
    message: dict[str, Any] = {"role": role, "content": content or None if role == "assistant" else content}
    if thoughts:
        message["reasoning_content"] = "\n".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return [Message.of(message)]
