"""A request to a model in one shape, for every supported API and library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from tokenbox.content.items import Item, read_items
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
from tokenbox.content.parts import texts_in
from tokenbox.content.tool_objects import as_schemas, checked_tools, functions_in, json_schema_of
from tokenbox.integers import whole


class Api(StrEnum):
    """The API whose shape a request has."""

    CHAT = "chat"
    """OpenAI Chat Completions."""
    RESPONSES = "responses"
    """OpenAI Responses."""
    MESSAGES = "messages"
    """Anthropic Messages."""
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"


# The key of each API's input.
INPUTS: Final[Mapping[Api, str]] = {
    Api.CHAT: "messages",
    Api.RESPONSES: "input",
    Api.MESSAGES: "messages",
    Api.COMPLETIONS: "prompt",
    Api.EMBEDDINGS: "input",
}
# The APIs of prompts, which take no messages.
PROMPTED: Final = frozenset((Api.COMPLETIONS, Api.EMBEDDINGS))
# A whole request has at least one of these. The last two name input that OpenAI keeps, and so does a prompt
# that is an object.
INPUT_KEYS: Final = frozenset(
    ("messages", "input", "instructions", "prompt", "previous_response_id", "conversation")
)
# Fields that cost no input tokens: they choose the model, the sampling or the transport, or the provider only
# stores them. Every other field is counted.
FREE_FIELDS: Final = frozenset(
    """
    model models stream stream_options background store metadata user n best_of n_cmpl seed
    temperature top_p top_k top_a min_p typical_p frequency_penalty presence_penalty
    repetition_penalty repeat_penalty repeat_last_n mirostat mirostat_tau mirostat_eta
    logit_bias logprobs top_logprobs stop stop_sequences max_tokens max_completion_tokens
    max_output_tokens n_predict min_tokens ignore_eos service_tier safety_identifier
    prompt_cache_key prompt_cache_retention prompt_cache_options cache_control cache_prompt id_slot
    timings_per_token return_progress return_tokens encoding_format dimensions truncation include
    echo keep_alive
    """.split()
)
# The free fields may contain this much text together. Above it they are counted, because an unknown server
# might show them to the model. The largest of them, OpenAI's metadata, has up to 9,216 characters.
FREE_CHARACTERS: Final = 10_000
_SHORT: Final = FREE_CHARACTERS // len(FREE_FIELDS)
# Values with the same meaning as an absent field.
_DEFAULTS: Final[Mapping[str, object]] = {
    "tool_choice": "auto",
    "response_format": {"type": "text"},
    "text": {"format": {"type": "text"}},
    "tools": [],
    "functions": [],
    "function_call": "auto",
}


NO_FIELDS: Final = Object()


@dataclass(frozen=True, slots=True)
class Request:
    """A request after parsing.

    ``messages``: in the chat completions shape. ``places``: for each message, the position of the caller's
    item that it comes from; None if it comes from a field, such as Anthropic's ``system``. ``prompts``: texts
    or token ids, for completions and embeddings. ``fields``: all other fields that may cost tokens
    (``response_format``, ``tool_choice``, ...), without those that cost none (:data:`FREE_FIELDS`).

    ``verbatim``: messages and tools are sent as they are here. Otherwise some were converted from another
    shape, ``raw`` contains the originals by their places, and a count by a chat template is not proven exact.
    """

    messages: tuple[Message, ...] = ()
    tools: tuple[Object, ...] = ()
    prompts: tuple[str | tuple[int | str, ...], ...] = ()
    api: Api = Api.CHAT
    fields: Object = NO_FIELDS
    places: tuple[int | None, ...] = ()
    verbatim: bool = True
    raw: tuple[Frozen, ...] = field(default=(), repr=False)
    raw_places: tuple[int, ...] = field(default=(), repr=False)

    @classmethod
    def of_items(
        cls, items: Sequence[Item], tools: object = None, fields: Mapping[str, object] | None = None
    ) -> Request:
        """Return the request with these items, ``tools`` and other fields.

        Raises :class:`InvalidMessage`.
        """
        head, every_tool, beside = beside_items(tools, fields)
        system = [message for item in head for message in item.messages]
        read = _of_messages(_in_items(items), every_tool, beside, system=system)
        return replace(read, verbatim=False) if head else read

    @classmethod
    def of_read(
        cls, items: Sequence[Item], tools: tuple[Object, ...] = (), fields: Object = NO_FIELDS
    ) -> Request:
        """Return the request with these items, and with tools and fields that were read before."""
        messages, places, raw, at = _in_items(items)
        return cls(tuple(messages), tools, (), Api.CHAT, fields, tuple(places), not raw, raw, raw_places=at)

    def texts(self) -> Iterator[str]:
        """Yield every text of the request, from any field, that a server could show to a model."""
        for message in self.messages:
            yield from texts_in(thaw(message.source))
        for other in (*self.raw, *self.tools, self.fields):
            yield from _with_keys(thaw(other))
        for prompt in self.prompts:
            yield from texts_in(prompt)


def read_request(
    value: object,
    *,
    tools: object = None,
    api: Api | None = None,
    strict: bool = True,
    fields: Mapping[str, object] | None = None,
) -> Request:
    """Read a request from a list of items, or from a mapping of all its fields.

    ``api``: by default recognized by the keys of the mapping. ``tools`` and ``fields`` (such as
    ``response_format``) are sent in addition. With ``strict=False`` an item of an unknown shape is read as
    its texts. Raises :class:`InvalidMessage`, which names the position.
    """
    if not isinstance(value, Mapping):
        return Request.of_items(read_items(value, strict=strict), tools, fields)
    body: dict[str, Any] = {**value, **checked_fields({} if fields is None else fields)}
    if tools is not None:
        body["tools"] = tools
    return _of_body(body, api or _api_of(body), strict=strict)


def read_tools(tools: object) -> tuple[tuple[Object, ...], bool]:
    """Return tools in the chat completions shape, and whether they were given in that shape.

    A tool of the Responses API has the function's keys next to ``type``, Anthropic's has an ``input_schema``,
    and legacy ``functions`` have no ``type``. A provider's own tool is kept as it is. Raises
    :class:`InvalidMessage`.
    """
    return shown_tools(checked_tools(tools))


def shown_tools(tools: Sequence[Mapping[str, Any]]) -> tuple[tuple[Object, ...], bool]:
    """Return checked tools as :func:`read_tools` does."""
    read = [_tool(function) for tool in tools for function in functions_in(tool)]
    return tuple(tool for tool, _ in read), all(verbatim for _, verbatim in read)


def beside_items(
    tools: object, fields: Mapping[str, object] | None
) -> tuple[tuple[Item, ...], Sequence[Mapping[str, Any]], Object]:
    """Return the system prompt of a request, its checked tools with ``functions``, and its other fields.

    The system prompt is in the fields ``system`` or ``instructions``; the others are :func:`costly_fields`.
    Raises :class:`InvalidMessage`.
    """
    given = checked_fields({} if fields is None else fields)
    if not given:
        return (), checked_tools(tools), Object()
    keys = sorted(key for keys in _SYSTEM.values() for key in keys)
    prompts = [_system(given[key], key) for key in keys if given.get(key) is not None]
    # Its texts are all that it can show, so that there is nothing to count beside them.
    head = tuple(Item(tuple(prompt), verbatim=False, raw="") for prompt in prompts)
    others = {key: value for key, value in given.items() if key not in {"functions", *keys}}
    return head, with_functions(tools, given.get("functions")), costly_fields(others)


def with_functions(tools: object, functions: object) -> Sequence[Mapping[str, Any]]:
    """Return the schemas of the tools, and legacy ``functions`` after them. Raises ``InvalidMessage``."""
    return [*checked_tools(tools), *checked_tools(functions)]


@dataclass(frozen=True, slots=True)
class RequestParts:
    """The parts of a whole request: ``head`` are the items in place of a field with a system prompt."""

    head: tuple[Item, ...]
    items: tuple[Item, ...]
    tools: Sequence[Mapping[str, object]]
    fields: Object
    api: Api


def in_parts(body: Mapping[str, Any]) -> RequestParts:
    """Read a whole request of messages. Raises :class:`InvalidMessage`."""
    api = _api_of(body)
    if api in PROMPTED:
        raise InvalidMessage("a request of a prompt has no messages. Give its text in a list.")
    key = INPUTS[api]
    return RequestParts(
        tuple(Item((message,)) for message in _system_messages(body, api)),
        tuple(read_items(_given_items(body.get(key), api))),
        with_functions(body.get("tools"), body.get("functions")),
        costly_fields(_beside(body, api)),
        api,
    )


def costly_fields(body: Mapping[str, object]) -> Object:
    """Return :func:`costly` of a request's fields, frozen. Raises ``InvalidMessage``."""
    return freeze_object(costly(checked_fields(body)), "request")


def checked_fields(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Return the fields with the schemas of ``functions`` and of classes of Pydantic.

    Raises :class:`InvalidMessage` if they are no mapping.
    """
    if not isinstance(fields, Mapping):
        raise InvalidMessage(f"the fields of a request are a mapping, not {type(fields).__name__}.")
    return {
        key: as_schemas(value) if key == "functions" else json_schema_of(value)
        for key, value in fields.items()
    }


def costly(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that may cost tokens: all except None, default values and :data:`FREE_FIELDS`.

    Of free fields with more than :data:`FREE_CHARACTERS` together, only short ones are free.
    """
    free = {key: characters_in(value) for key, value in body.items() if key in FREE_FIELDS}
    longest = FREE_CHARACTERS if sum(free.values()) < FREE_CHARACTERS else _SHORT
    return {
        key: value
        for key, value in body.items()
        if free.get(key, longest + 1) > longest and value is not None and not _is_default(key, value)
    }


def _is_default(key: str, value: object) -> bool:
    """Return whether the field has its default. What is no JSON, such as an array of numpy, has no such."""
    return isinstance(value, str | Mapping | list) and _DEFAULTS.get(key) == value


def characters_in(value: object) -> int:
    """Count the characters of all texts, keys and numbers in a JSON value, and one for each value.

    A character outside ASCII counts as its bytes in UTF-8, since each of them may be a token. It stops above
    :data:`FREE_CHARACTERS`: a value that contains itself has no end.
    """
    size = 0
    stack = [value]
    while stack and size <= FREE_CHARACTERS:
        inner = stack.pop()
        size += 1
        if isinstance(inner, str):
            size += len(inner) if inner.isascii() else len(inner.encode("utf-8", "surrogatepass"))
        elif isinstance(inner, int):  # repr takes no integer of more than 4,300 digits
            size += inner.bit_length() // 3
        elif isinstance(inner, float):
            size += len(repr(inner))
        elif isinstance(inner, Mapping):
            stack += inner
            stack += inner.values()
        elif isinstance(inner, list | tuple):
            stack += inner
    return size


def _api_of(body: Mapping[str, object]) -> Api:
    if "messages" in body:
        tools = body.get("tools")
        anthropic = "system" in body or (
            isinstance(tools, Sequence) and any(isinstance(t, Mapping) and "input_schema" in t for t in tools)
        )
        return Api.MESSAGES if anthropic else Api.CHAT
    prompt = body.get("prompt")
    if prompt is not None and "input" not in body and not isinstance(prompt, Mapping):
        return Api.COMPLETIONS
    given = body.get("input")
    if isinstance(given, list | tuple) and given and isinstance(given[0], str | int | list | tuple):
        return Api.EMBEDDINGS  # texts or token ids; an item of the Responses API is an object
    if any(body.get(key) is not None for key in INPUT_KEYS):
        return Api.RESPONSES
    raise InvalidMessage(
        "a request has messages, input or prompt, and this mapping has none of them. For one message, give a "
        'list: [{"role": "user", "content": "hi"}].'
    )


def _of_body(body: Mapping[str, Any], api: Api, *, strict: bool) -> Request:
    key = INPUTS[api]
    fields = costly_fields(_beside(body, api))
    if api in PROMPTED:
        return Request(prompts=_prompts(body.get(key), key), api=api, fields=fields)
    messages = _messages(_given_items(body.get(key), api), strict=strict)
    tools = with_functions(body.get("tools"), body.get("functions"))
    return _of_messages(messages, tools, fields, api, _system_messages(body, api))


def _of_messages(
    read: _Messages,
    tools: Sequence[Mapping[str, Any]],
    fields: Object,
    api: Api = Api.CHAT,
    system: Sequence[Message] = (),
) -> Request:
    messages, places, raw, raw_places = read
    shown, tools_verbatim = shown_tools(tools)
    return Request(
        (*system, *messages),
        shown,
        api=api,
        fields=fields,
        places=(*[None] * len(system), *places),
        verbatim=api is Api.CHAT and tools_verbatim and not raw,
        raw=raw,
        raw_places=raw_places,
    )


def _beside(body: Mapping[str, Any], api: Api) -> dict[str, Any]:
    """Return the fields of a request beside its input, tools and system prompt; a prompt has no tools."""
    tools = () if api in PROMPTED else ("tools", "functions")
    taken = {INPUTS[api], *tools, *_SYSTEM.get(api, ())}
    return {name: value for name, value in body.items() if name not in taken}


def _given_items(given: object, api: Api) -> object:
    if isinstance(given, str):  # the Responses API accepts a text as input
        return [{"role": "user", "content": given}]
    return [] if given is None and api is Api.RESPONSES else given


def _system_messages(body: Mapping[str, Any], api: Api) -> list[Message]:
    return [message for name in _SYSTEM.get(api, ()) for message in _system(body.get(name), name)]


_Messages = tuple[Sequence[Message], Sequence[int], tuple[Frozen, ...], tuple[int, ...]]
"""Messages, the position of the item that each comes from, the originals of converted items, and theirs."""


def _messages(given: object, *, strict: bool) -> _Messages:
    """Read the messages of a list of items."""
    if isinstance(given, list):  # fast path: most requests have only plain messages
        plain = [message for item in given if (message := plain_message(item)) is not None]
        if len(plain) == len(given):
            return plain, range(len(plain)), (), ()
    return _in_items(read_items(given, strict=strict))


def _in_items(items: Sequence[Item]) -> _Messages:
    messages = [message for item in items for message in item.messages]
    places = [place for place, item in enumerate(items) for _ in item.messages]
    raw_places = tuple([place for place, item in enumerate(items) if not item.verbatim])
    return messages, places, tuple([items[place].raw for place in raw_places]), raw_places


# The fields of each API that replace a system message.
_SYSTEM: Final[Mapping[Api, tuple[str, ...]]] = {
    Api.MESSAGES: ("system",),
    Api.RESPONSES: ("instructions",),
}


def _system(value: object, name: str) -> list[Message]:
    if not isinstance(value, str):
        freeze_object({name: value}, "request")  # raises for what is nested too deeply, or no JSON
    blocks = value if isinstance(value, list | tuple) else [value]
    texts = [text for block in blocks for text in (texts_in(block) if _is_text(block) else _with_keys(block))]
    text = "\n".join(texts)
    return [Message.of({"role": Role.SYSTEM.value, "content": text})] if text else []


def _is_text(block: object) -> bool:
    """Return whether all that a block of a system prompt can show is its text."""
    if not isinstance(block, Mapping):
        return isinstance(block, str)
    return block.get("type") == "text" and _uncached(block).keys() <= {"type", "text"}


def _uncached(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool or a block without its mark for the cache, which costs nothing unless it is long."""
    kept = dict(value)
    if characters_in(kept.get("cache_control")) <= _SHORT:
        kept.pop("cache_control", None)
    return kept


def texts_and_ids(prompt: str | tuple[int | str, ...]) -> tuple[list[str], int]:
    """Return the texts of a prompt, and the number of its token ids."""
    parts = (prompt,) if isinstance(prompt, str) else prompt
    texts = [part for part in parts if isinstance(part, str)]
    return texts, len(parts) - len(texts)


def _prompts(value: object, key: str) -> tuple[str | tuple[int | str, ...], ...]:
    """Read one prompt or several: texts, or lists of token ids (for llama.cpp, mixed with texts)."""
    one = isinstance(value, str) or (
        isinstance(value, list | tuple) and any(whole(v) is not None for v in value)
    )
    prompts = [value] if one else value
    if not isinstance(prompts, list | tuple):
        raise InvalidMessage(f"{key} is a text, a list of token ids, or a list of those.")
    found: list[str | tuple[int | str, ...]] = []
    for place, prompt in enumerate(prompts):
        if isinstance(prompt, str):
            found.append(prompt)
            continue
        items: list[int | str | None] = [None]
        if isinstance(prompt, list | tuple):
            items = [item if isinstance(item, str) else whole(item) for item in prompt]
        if None in items:
            raise InvalidMessage(f"{key}[{place}] is neither a text nor a list of token ids.", index=place)
        found.append(tuple(item for item in items if item is not None))
    return tuple(found)


def _tool(tool: Mapping[str, Any]) -> tuple[Object, bool]:
    if isinstance(tool.get("function"), Mapping):
        return freeze_object(tool, "tool"), True
    function: dict[str, Any] | None = None
    if tool.get("type") in (None, "custom") and "input_schema" in tool and "parameters" not in tool:
        function = {"name": None, "description": "", **_uncached(tool), "parameters": tool["input_schema"]}
        del function["input_schema"]
        function.pop("type", None)
    elif "name" in tool and tool.get("type") in (None, "function"):
        function = {key: value for key, value in tool.items() if key != "type"}
    shown = tool if function is None else {"type": "function", "function": function}
    return freeze_object(shown, "tool"), False


def _with_keys(value: object) -> Iterator[str]:
    """Yield every text in a JSON value, including keys: a schema shows its keys to the model."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _with_keys(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _with_keys(inner)
    elif value is not None:
        yield str(value)
