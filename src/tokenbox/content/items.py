"""The reader of conversation items: every supported shape becomes chat messages.

An item is a message of OpenAI's Chat Completions, an item of its Responses API, a message of Anthropic's API,
or an object of a library (:mod:`tokenbox.content.library_objects`). The reader recognizes the shape of each
item, so a list may mix them. An unknown shape raises :class:`InvalidMessage`, which names the position. With
``strict=False`` the item's texts are read instead, for a gateway whose upstream server validates requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tokenbox.content.library_objects import as_mapping, saved_message
from tokenbox.content.message import (
    Frozen,
    InvalidMessage,
    Message,
    Object,
    Role,
    freeze_object,
    media_kind,
    plain_message,
    read_as,
    read_each,
    thaw,
)
from tokenbox.content.parts import as_plain, texts_in, tool_call
from tokenbox.content.untyped import with_types

# Calls in the Responses API that the caller executes. Their outputs have the suffix "_output".
_CALLER_CALLS: Final = frozenset(
    """
    function_call custom_tool_call computer_call local_shell_call shell_call apply_patch_call
    """.split()
)
# Other items of the Responses API: calls that the provider executes, their outputs, and its own records.
_PROVIDER_ITEMS: Final = frozenset(
    """
    web_search_call file_search_call code_interpreter_call image_generation_call
    mcp_call mcp_list_tools mcp_approval_request mcp_approval_response
    program program_output additional_tools configuration_update
    item_reference compaction compaction_trigger
    tool_search_call tool_search_output handoff_call handoff_output
    multi_agent_call multi_agent_call_output agent_message
    """.split()
)
# Content blocks that only Anthropic's API has, beside results of the tools that it runs (``_RESULT``), and
# the last one Mistral's.
_ANTHROPIC_BLOCKS: Final = frozenset(
    """
    tool_use tool_result thinking redacted_thinking server_tool_use
    search_result mcp_tool_use mcp_tool_result container_upload compaction
    tool_reference tool_addition tool_removal mcp_tool_listing fallback
    reference
    """.split()
)
_RESULT: Final = "_tool_result"
# Items of the provider that another item ends, and the key by which that names the first.
_ENDS: Final = {
    "program_output": ("program", "call_id"),
    "tool_search_output": ("tool_search_call", "call_id"),
    "handoff_output": ("handoff_call", "call_id"),
    "multi_agent_call_output": ("multi_agent_call", "call_id"),
    "mcp_approval_response": ("mcp_approval_request", "approval_request_id"),
}
_BEGINS: Final = dict(_ENDS.values())


@dataclass(frozen=True, slots=True)
class Item:
    """A conversation item after reading.

    ``joins``: it belongs to the preceding turn of the assistant, as calls and reasoning that are separate
    items do. ``verbatim``: its one message is sent as given; otherwise the item had another shape, and
    ``raw`` is the original.
    """

    messages: tuple[Message, ...]
    joins: bool = False
    verbatim: bool = True
    raw: Frozen = None

    def __deepcopy__(self, _: object) -> Item:
        return self

    def to_dict(self) -> Any:  # noqa: ANN401  # JSON
        """Return the original item as a mapping."""
        return self.messages[0].to_dict() if self.verbatim else thaw(self.raw)

    def sent(self, *, declared: bool = True) -> list[Any]:
        """Return the mappings that are sent. ``declared``: as for :meth:`Message.to_dict`."""
        if self.verbatim:
            return [self.messages[0].to_dict(declared=declared)]
        given = thaw(self.raw)
        several = given.get("messages") if "role" not in given else None
        return several if isinstance(several, list) else [given]

    @property
    def text(self) -> str:
        """The texts of its messages, joined by line breaks."""
        return "\n".join(message.text for message in self.messages if message.text)

    @property
    def calls(self) -> tuple[str | None, ...]:
        """The ids of its tool calls."""
        return tuple(call.id for message in self.messages for call in message.tool_calls)

    @property
    def results(self) -> tuple[str | None, ...]:
        """The ids of the tool calls that it answers."""
        return tuple(m.tool_call_id for m in self.messages if m.role in Message.RESULT_ROLES)

    @property
    def is_thought(self) -> bool:
        """Whether it is the reasoning before another item of the assistant."""
        return self.joins and any(key == "reasoning_content" for key, _ in self.messages[0].source)

    @property
    def begins(self) -> object:
        """What another item of the provider ends later, such as a program that calls tools; else None."""
        key = _BEGINS.get(str(self._given.get("type")))
        return None if key is None else self._given.get(key, self._given.get("id"))

    @property
    def ends(self) -> object:
        """What it ends, as ``begins`` of that item; None if it ends nothing."""
        _, key = _ENDS.get(str(self._given.get("type")), ("", ""))
        return self._given.get(key)

    @property
    def is_compaction(self) -> bool:
        """Whether it stands for everything before it, in a provider's own form."""
        if self.verbatim:
            return False
        content = self._given.get("content")
        blocks = content if isinstance(content, tuple) and not isinstance(content, Object) else ()
        return any(("type", "compaction") in one for one in (self.raw, *blocks) if isinstance(one, Object))

    @property
    def _given(self) -> dict[str, Frozen]:
        """The fields of an item that had another shape."""
        return dict(self.raw) if isinstance(self.raw, Object) else {}

    @property
    def is_system(self) -> bool:
        """Whether it contains a system or developer message, which is never evicted."""
        return any(message.role in Message.SYSTEM_ROLES for message in self.messages)

    @property
    def role(self) -> Role:
        """The role of its last message: for a user's text after tool results, the user's."""
        return self.messages[-1].role


def read_items(values: object, *, strict: bool = True) -> list[Item]:
    """Read a list of items. Raises :class:`InvalidMessage`; ``details["index"]`` is the position."""
    return read_each(values, partial(read_item, strict=strict), "mappings or of message objects")


def read_item(value: object, *, strict: bool = True) -> Item:
    """Read one item of any supported shape. Raises :class:`InvalidMessage`."""
    if (plain := plain_message(value)) is not None:
        return Item((plain,))
    if isinstance(value, Message):
        return Item((value,))
    if isinstance(value, Item):
        return value
    if isinstance(value, Mapping):
        saved = saved_message(value) if strict and not value.keys() >= {"role", "content"} else None
        given: Mapping[str, Any] = value if saved is None else saved
        verbatim = saved is None
    else:
        read, verbatim = as_mapping(value)
        if isinstance(read, list):  # an object that its library sends as several messages
            messages = tuple(message for one in read for message in _read(one).messages)
            return Item(messages, verbatim=False, raw=freeze_object({"messages": read}, "message"))
        given = read
    try:
        item = _read(given)
    except InvalidMessage:
        plain_value = _plain(given)
        if plain_value is not None:
            item = _read(plain_value)
        elif strict:
            raise
        else:
            item = _as_texts(given)
    return item if verbatim else as_converted(item, given)


def as_converted(item: Item, given: Mapping[str, Any]) -> Item:
    """Return the item as one that was converted from ``given``."""
    return Item(item.messages, item.joins, verbatim=False, raw=freeze_object(given, "message"))


def _plain(given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the item without the objects of an SDK in it; None if it has none."""
    try:
        found: Mapping[str, Any] = as_plain(given)
        is_plain = found == given
    except RecursionError:
        raise InvalidMessage("a message is nested too deeply.") from None
    return None if is_plain else found


def _read(given: Mapping[str, Any]) -> Item:
    kind = given.get("type")
    if kind is None and given.keys() - {"type", "agent"} == {"id"}:
        kind = "item_reference"
    if isinstance(kind, str) and kind != "message" and ("role" not in given or kind in _PROVIDER_ITEMS):
        return _of_responses(kind, given)
    if (native := with_types(given)) is not None:
        typed, plain = native
        return as_converted(_read(typed), plain)
    if any(map(_is_anthropic, _block_types(given.get("content")))):
        return _of_anthropic(given)
    if kind == "message":  # of the Responses API: no model reads its other keys
        shown = {"role": given.get("role"), "content": given.get("content")}
        return Item((Message.of(shown),), verbatim=False, raw=freeze_object(given, "message"))
    return Item((Message.of(given),))


def _block_types(content: object) -> frozenset[str]:
    if not isinstance(content, list | tuple):
        return frozenset()
    return frozenset(str(block.get("type")) for block in content if isinstance(block, Mapping))


def _is_anthropic(block_type: str) -> bool:
    return block_type in _ANTHROPIC_BLOCKS or block_type.endswith(_RESULT)


def _as_texts(given: Mapping[str, Any]) -> Item:
    """Return an item of an unknown shape as one message with all its texts."""
    role = given.get("role")
    known = role if isinstance(role, str) and role in ("system", "developer", "assistant") else "user"
    message = _of_unknown_role(given) if isinstance(role, str) else None
    if message is None:
        message = Message.of({"role": known, "content": "\n".join(texts_in(given))})
    return Item((message,), verbatim=False, raw=_frozen(given))


def _of_unknown_role(given: Mapping[str, Any]) -> Message | None:
    """Return a message whose role only its server knows as one of the user; None for any other fault."""
    try:
        return read_as("user", given)
    except InvalidMessage:
        return None


def _frozen(given: Mapping[str, Any]) -> Frozen:
    try:
        return freeze_object(given, "message")
    except InvalidMessage:  # nested too deeply: keep only its texts
        return Object([("texts", tuple(texts_in(given)))])


# The Responses API ----------------------------------------------------------------------------------------


def _of_responses(kind: str, given: Mapping[str, Any]) -> Item:
    """Read an item that is not a message. Reasoning and calls join one turn of the assistant."""
    raw = freeze_object(given, "item")
    identifier = given.get("call_id") or given.get("id")
    if kind.removesuffix("_output") in _CALLER_CALLS and kind not in _CALLER_CALLS:
        return Item((_result(identifier, given.get("output")),), verbatim=False, raw=raw)
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if kind == "reasoning":
        message["reasoning_content"] = "\n".join(texts_in([given.get("summary"), given.get("content")]))
    elif kind in _CALLER_CALLS:
        arguments = given.get("arguments", given.get("input"))
        if arguments is None:
            arguments = given.get("action", given.get("operation", {}))
        message["tool_calls"] = [tool_call(identifier, given.get("name") or kind, arguments)]
    elif kind in _PROVIDER_ITEMS:
        message["content"] = "\n".join(texts_in(given))
    else:
        raise InvalidMessage(
            f"an item has the unknown type {kind!r:.60} and no role. "
            'Give a message: {"role": "user", "content": "hi"}.'
        )
    return Item((Message.of(message),), joins=True, verbatim=False, raw=raw)


def _result(identifier: object, output: object, name: object = None) -> Message:
    """Return a tool message. ``output``: a text, a list of parts, or an object such as a screenshot.

    ``name``: of the tool, which Gemini repeats.
    """
    content: object = output
    if output is None:
        content = ""
    elif isinstance(output, Mapping):
        content = [output] if "type" in output else "\n".join(texts_in(output))
    elif isinstance(output, list | tuple):
        content = [part for part in output if not isinstance(part, Mapping) or "type" in part]
    tool: dict[str, Any] = {"role": "tool", "content": content}
    if identifier is not None:
        tool["tool_call_id"] = str(identifier)
    if isinstance(name, str):
        tool["name"] = name
    try:
        return Message.of(tool)
    except InvalidMessage:  # the output has parts of an unknown type
        return Message.of({**tool, "content": "\n".join(texts_in(output))})


# Anthropic's API ------------------------------------------------------------------------------------------


def _of_anthropic(given: Mapping[str, Any]) -> Item:
    """Read a message of blocks. Each tool result becomes a separate message, before the user's text."""
    role = given.get("role")
    if role not in ("user", "assistant", "system"):
        raise InvalidMessage(
            f"a message has the role {role!r:.60}, but its blocks need the role user, assistant or system."
        )
    raw = freeze_object(given, "message")
    blocks = [block for block in given["content"] if isinstance(block, Mapping)]
    messages = [
        _result(block.get("tool_use_id"), block.get("content"), block.get("name"))
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    message = {"role": role, **_calls_beside(blocks, given)}
    spoken = _spoken(message, [block for block in blocks if block.get("type") != "tool_result"])
    return Item((*messages, *spoken), verbatim=False, raw=raw)


def _calls_beside(blocks: list[Mapping[str, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of Chat Completions with calls, which Mistral and Cohere have beside such blocks.

    Without the calls that blocks have, which some libraries repeat there.
    """
    keys = ("tool_calls", "function_call")
    found = {key: given[key] for key in keys if isinstance(given.get(key), list | tuple | Mapping)}
    calls = found.get("tool_calls")
    if isinstance(calls, list | tuple):
        known = {str(block.get("id")) for block in blocks if block.get("type") == "tool_use"}
        found["tool_calls"] = [
            call for call in calls if not (isinstance(call, Mapping) and str(call.get("id")) in known)
        ]
    return found


def _spoken(message: dict[str, Any], blocks: list[Mapping[str, Any]]) -> list[Message]:
    """Return the message of the blocks that are not tool results, or no message without such blocks.

    ``message``: its other keys.
    """
    if not blocks:
        return []
    content: list[Mapping[str, Any]] = []
    thoughts: list[str] = []
    calls = [*message.get("tool_calls", ())]
    for block in blocks:
        kind = str(block.get("type"))
        if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            call = tool_call(block.get("id"), block.get("name"), block.get("input", {}))
            if kind == "tool_use":
                calls.append(call)
            else:  # the provider executes it, and the message contains its result
                content.append({"type": "text", "text": "\n".join(texts_in(call))})
        elif kind == "thinking":
            thoughts += texts_in(block.get("thinking", ""))
        elif kind == "text" or media_kind(kind) is not None:
            content.append({"type": "text", "text": block.get("text")} if kind == "text" else block)
        elif _is_anthropic(kind):
            content.append({"type": "text", "text": "\n".join(texts_in(block))})
        else:
            raise InvalidMessage(f"content has a block of the unknown type {kind!r:.60}.")
    message["content"] = content or None if message["role"] == "assistant" else content
    if thoughts:
        message["reasoning_content"] = "\n".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return [Message.of(message)]
