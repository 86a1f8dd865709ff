"""A request to a model in one shape, whichever API or library it was written for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from tokenbox.content.items import Item, read_items
from tokenbox.content.library_objects import texts_in
from tokenbox.content.message import (
    Frozen,
    InvalidMessage,
    Message,
    Object,
    Role,
    check_tools,
    freeze_object,
    plain_message,
    thaw,
)
from tokenbox.integers import whole


class Api(StrEnum):
    """Whose shape a request has."""

    CHAT = "chat"
    """OpenAI Chat Completions."""
    RESPONSES = "responses"
    """OpenAI Responses."""
    MESSAGES = "messages"
    """Anthropic Messages."""
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"


# Where each API has its input. Of the others, a request is told by its keys.
_INPUT: Final[Mapping[Api, str]] = {
    Api.CHAT: "messages",
    Api.RESPONSES: "input",
    Api.MESSAGES: "messages",
    Api.COMPLETIONS: "prompt",
    Api.EMBEDDINGS: "input",
}
# Fields that are known to cost no tokens of input: they choose the model, the sampling, the form of the
# transport, or are kept by the provider. Whatever is not here is counted.
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
    """.split()  # noqa: SIM905  # fifty names read best as words
)
# Together they hold no more text than this; OpenAI's metadata, the largest of them, takes 9,216 characters. A
# larger text is counted: a server nobody knows may do anything with it.
FREE_CHARACTERS: Final = 10_000
# Values that are the same as leaving the field out.
_DEFAULTS: Final[Mapping[str, object]] = {
    "tool_choice": "auto",
    "response_format": {"type": "text"},
    "text": {"format": {"type": "text"}},
    "functions": [],
    "function_call": "auto",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent to a model.

    ``messages`` are in the shape of chat completions. ``places`` says for each of them from which of the
    caller's items it was read; None for one that was read from a field, such as Anthropic's ``system``.
    ``prompts`` are those of completions and embeddings: texts, or token ids. ``fields`` is everything else
    of the request that may cost tokens (``response_format``, ``tool_choice``, ...); fields that are known to
    cost nothing (:data:`FREE_FIELDS`) are left out of it.

    ``verbatim``: messages and tools are what is sent. Otherwise some were read from another shape, ``raw``
    has these as they were given, and no count by a chat template is proven for them.
    """

    messages: tuple[Message, ...] = ()
    tools: tuple[Object, ...] = ()
    prompts: tuple[str | tuple[int | str, ...], ...] = ()
    api: Api = Api.CHAT
    fields: Object = field(default_factory=Object)
    places: tuple[int | None, ...] = ()
    verbatim: bool = True
    raw: tuple[Frozen, ...] = field(default=(), repr=False)

    @classmethod
    def of_items(
        cls, items: Sequence[Item], tools: object = None, fields: Mapping[str, object] | None = None
    ) -> Request:
        """The request of items that were read, with ``tools`` and other fields beside them.

        Raises :class:`InvalidMessage`.
        """
        read, tools_verbatim = read_tools(tools)
        messages, places, raw = _in_items(items)
        return cls(
            tuple(messages),
            read,
            fields=costly_fields(fields or {}),
            places=tuple(places),
            verbatim=tools_verbatim and not raw,
            raw=raw,
        )

    def texts(self) -> Iterator[str]:
        """Every text of the request that a server could show a model, of whatever field."""
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
    """The request in ``value``: a list of items, or a whole request as one mapping.

    ``api`` is told by the keys of a whole request where it is not given. ``tools`` and ``fields`` (such as
    ``response_format``) stand beside a list. With ``strict=False`` an item that is not understood is read as
    its texts. Raises :class:`InvalidMessage`, which names the place.
    """
    if not isinstance(value, Mapping):
        return Request.of_items(read_items(value, strict=strict), tools, fields)
    body: dict[str, Any] = {**value, **(fields or {})}
    if tools is not None:
        body["tools"] = tools
    return _of_body(body, api or _api_of(body), strict=strict)


def read_tools(tools: object) -> tuple[tuple[Object, ...], bool]:
    """Tools in the shape of chat completions, and whether that is the shape they were given in.

    Those of the Responses API have the function's keys beside the type, Anthropic's an ``input_schema``, and
    legacy ``functions`` no type. A tool of the provider's own is kept as it is. Raises
    :class:`InvalidMessage`.
    """
    check_tools(tools)
    if tools is None:
        return (), True
    made = [_tool(tool) for tool in tools]  # type: ignore[attr-defined]  # checked
    return tuple(tool for tool, _ in made), all(verbatim for _, verbatim in made)


def costly_fields(body: Mapping[str, object]) -> Object:
    """The fields that may cost tokens; None and a default are as if absent. Raises ``InvalidMessage``."""
    if not isinstance(body, Mapping):
        raise InvalidMessage(f"the fields of a request are a mapping, not {type(body).__name__}.")
    return freeze_object(costly(body), "request")


def costly(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a body that may cost tokens: all but those that are free, None or a default.

    Free are :data:`FREE_FIELDS`, as long as they are small.
    """
    free = [value for key, value in body.items() if key in FREE_FIELDS]
    are_free = characters_in(free) <= FREE_CHARACTERS
    if are_free and len(free) == len(body):
        return {}
    return {
        key: value
        for key, value in body.items()
        if not (are_free and key in FREE_FIELDS) and value is not None and _DEFAULTS.get(key, None) != value
    }


def characters_in(value: object) -> int:
    """The characters of all texts and keys in a JSON value; a number is one."""
    size = 0
    stack = [value]
    while stack:
        inner = stack.pop()
        if isinstance(inner, str):
            size += len(inner)
        elif inner is None or isinstance(inner, (int, float)):  # a look at Mapping takes longer
            size += 1
        elif isinstance(inner, Mapping):
            stack += inner
            stack += inner.values()
        elif isinstance(inner, list | tuple):
            stack += inner
        else:
            size += 1
    return size


def _api_of(body: Mapping[str, object]) -> Api:
    if "messages" in body:
        tools = body.get("tools")
        anthropic = "system" in body or (
            isinstance(tools, Sequence) and any(isinstance(t, Mapping) and "input_schema" in t for t in tools)
        )
        return Api.MESSAGES if anthropic else Api.CHAT
    if "prompt" in body and "input" not in body:
        return Api.COMPLETIONS
    if "input" in body or "instructions" in body:
        return Api.RESPONSES
    raise InvalidMessage(
        "a request has messages, input or prompt, and this mapping has none of them. For one message, give a "
        'list: [{"role": "user", "content": "hi"}].'
    )


def _of_body(body: Mapping[str, Any], api: Api, *, strict: bool) -> Request:
    key = _INPUT[api]
    taken = {key, "tools", "functions", *_SYSTEM.get(api, ())}
    fields = costly_fields({name: value for name, value in body.items() if name not in taken})
    if api in (Api.COMPLETIONS, Api.EMBEDDINGS):
        return Request(prompts=_prompts(body.get(key), key), api=api, fields=fields)
    given = body.get(key)
    if isinstance(given, str):  # of the Responses API
        given = [{"role": "user", "content": given}]
    elif given is None and api is Api.RESPONSES:
        given = []
    messages, places, raw = _messages(given, strict=strict)
    system = [message for name in _SYSTEM.get(api, ()) for message in _system(body.get(name))]
    tools, functions = body.get("tools"), body.get("functions")
    if functions is not None:
        check_tools(tools)
        check_tools(functions)
        tools = [*(tools or ()), *functions] if functions else tools
    read, tools_verbatim = read_tools(tools)
    return Request(
        (*system, *messages),
        read,
        api=api,
        fields=fields,
        places=(*[None] * len(system), *places),
        verbatim=api is Api.CHAT and tools_verbatim and not raw,
        raw=raw,
    )


_Messages = tuple[Sequence[Message], Sequence[int], tuple[Frozen, ...]]
"""Messages, of which item each was read, and what was read from another shape."""


def _messages(given: object, *, strict: bool) -> _Messages:
    """What a list of items says."""
    if isinstance(given, list):  # of a request as most are, each item is a message as it stands
        plain = [said for item in given if (said := plain_message(item)) is not None]
        if len(plain) == len(given):
            return plain, range(len(plain)), ()
    return _in_items(read_items(given, strict=strict))


def _in_items(items: Sequence[Item]) -> _Messages:
    messages = [message for item in items for message in item.messages]
    places = [place for place, item in enumerate(items) for _ in item.messages]
    return messages, places, tuple([item.raw for item in items if not item.verbatim])


# Fields that hold what is a system message elsewhere.
_SYSTEM: Final[Mapping[Api, tuple[str, ...]]] = {
    Api.MESSAGES: ("system",),
    Api.RESPONSES: ("instructions",),
}


def _system(value: object) -> list[Message]:
    text = "\n".join(texts_in(value))
    return [Message.of({"role": Role.SYSTEM.value, "content": text})] if text else []


def _prompts(value: object, key: str) -> tuple[str | tuple[int | str, ...], ...]:
    """One prompt or several: each a text, or a list of token ids and, for llama.cpp, of texts."""
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
    if tool.get("type") in (None, "custom") and "input_schema" in tool:
        function = {
            "name": tool.get("name"),
            "description": tool.get("description", ""),
            "parameters": tool["input_schema"],
        }
        return freeze_object({"type": "function", "function": function}, "tool"), False
    if "name" in tool and tool.get("type") in (None, "function"):
        function = {key: value for key, value in tool.items() if key != "type"}
        return freeze_object({"type": "function", "function": function}, "tool"), False
    return freeze_object(tool, "tool"), False


def _with_keys(value: object) -> Iterator[str]:
    """Every text in a JSON value, its keys too: schemas show them to the model."""
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
