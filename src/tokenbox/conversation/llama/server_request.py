"""Requests as a llama.cpp server parses them: messages, tools and fields (server-common.cpp).

Keys that the server does not know are dropped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from tokenbox.conversation.llama.families import Prefill
from tokenbox.conversation.llama.syntax import TemplateError
from tokenbox.conversation.llama.values import SPACE, joined, strict_json


class Continue(StrEnum):
    """The way to continue an answer at the end: ``continue_final_message``."""

    AUTO = "auto"
    CONTENT = "content"
    REASONING = "reasoning_content"


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request as the server parses it. ``messages``: the caller's."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    schema: Any = None
    thinking: bool | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool = True
    continued: Continue | None = None


# Messages


def read_message(message: Mapping[str, Any], place: int = 0) -> dict[str, Any]:
    """Return the message as it is passed to the template: with the keys that the server reads.

    ``content`` is a text or a list of parts. Raises :class:`TemplateError` for a message that the server
    refuses.
    """
    role, content = message.get("role"), message.get("content")
    _need(isinstance(role, str), place, ", which has no role")
    is_call = role == "assistant" and "tool_calls" in message
    _need("content" in message or is_call, place, ", which has no content")
    made: dict[str, Any] = {"role": role, "content": content or ""}
    if content is not None and not isinstance(content, str):
        if not isinstance(content, list | tuple):
            raise TemplateError(f"llama.cpp refuses the content of messages[{place}].")
        made["content"] = [_read_part(part, place) for part in content] or ""
    for key in ("reasoning_content", "name", "tool_call_id"):
        text = message.get(key, "")
        _need(isinstance(text, str), place, f", whose {key} is not text")
        if text:
            made[key] = text
    calls = message.get("tool_calls") or ()
    _need(isinstance(calls, list | tuple), place, ", whose tool_calls are not a list")
    if calls:
        made["tool_calls"] = [_read_call(call, place) for call in calls]
    return made


def _need(right: bool, place: int, wrong: str) -> None:  # noqa: FBT001  # an assertion
    if not right:
        raise TemplateError(f"llama.cpp refuses messages[{place}]{wrong}.")


def _read_part(part: Any, place: int) -> dict[str, str]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind != "text":
        raise TemplateError(
            f"llama.cpp counts images and recordings by itself (messages[{place}]). Let the server count."
        )
    _need(isinstance(part.get("text"), str), place, ", which has a part without a text")
    return {"type": "text", "text": part["text"]}


def _read_call(call: Any, place: int) -> dict[str, Any]:
    given: Mapping[str, Any] = call if isinstance(call, Mapping) else {}
    function: Any = given.get("function")
    identity = given.get("id", "")
    is_function = isinstance(function, Mapping) and given.get("type") == "function"
    _need(is_function, place, ", which has a call that is not a function's")
    has_both = isinstance(function.get("name"), str) and "arguments" in function
    _need(has_both, place, ": a call has no name or no arguments")
    arguments = function["arguments"]
    if not isinstance(arguments, str):
        try:
            arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as error:
            wrong = f": the arguments of a call are not JSON: {error}"
            raise TemplateError(f"llama.cpp refuses messages[{place}]{wrong}.") from None
    _need(isinstance(identity, str), place, ": the id of a call is not text")
    made = {"type": "function", "function": {"name": function["name"], "arguments": arguments}}
    return {**made, "id": identity} if identity else made


def trimmed(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message without blanks at the ends of its texts."""
    content, thought = message["content"], message.get("reasoning_content", "").strip(SPACE)
    made = {
        **message,
        "content": content.strip(SPACE)
        if isinstance(content, str)
        else [{**part, "text": part["text"].strip(SPACE)} for part in content],
        "reasoning_content": thought,
    }
    return made if thought else {key: value for key, value in made.items() if key != "reasoning_content"}


def merged(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge a leading system message into the next message, for templates without a system role."""
    if len(messages) == 1:
        return []
    first, second = messages[0]["content"], messages[1]["content"]
    if not isinstance(first, str) or not isinstance(second, str):
        raise TemplateError("llama.cpp cannot merge a system message whose content is a list of parts.")
    return [{**messages[1], "content": f"{first}\n{second}"}, *messages[2:]]


def parsed_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the call with its arguments as an object."""
    function = call["function"]
    try:
        return {**call, "function": {**function, "arguments": strict_json(function["arguments"])}}
    except (ValueError, RecursionError) as error:
        raise TemplateError(
            f"llama.cpp refuses a call of {function['name']!r}, whose arguments are not JSON: {error}."
        ) from None


def continuation(messages: Sequence[Mapping[str, Any]], asked: ServerRequest) -> tuple[Continue | None, bool]:
    """Return how an answer at the end is continued, and whether a new one is opened."""
    continued, opened = asked.continued, asked.add_generation_prompt
    last = messages[-1] if messages else {"role": ""}
    if continued is None and last["role"] == "assistant" and "tool_calls" not in last:
        continued, opened = Continue.AUTO, False
    if continued is not None and opened:
        raise TemplateError("llama.cpp refuses add_generation_prompt together with continue_final_message.")
    return continued, opened


def can_be_sent(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Return False if the server refuses messages with this end: a tool call, or two answers.

    Such messages are counted nevertheless, because a conversation passes through such states.
    """
    answers = [message for message in messages[-2:] if message.get("role") == "assistant"]
    if not answers or answers[-1] is not messages[-1]:
        return True
    return len(answers) == 1 and not answers[0].get("tool_calls")


def prefill_of(message: Mapping[str, Any], continued: Continue) -> Prefill | None:
    """Return the answer to be continued; None if it is empty."""
    if not any(message.get(key) for key in message if key != "role"):
        return None
    content, thought = message["content"], message.get("reasoning_content", "")
    if continued is Continue.AUTO:
        continued = Continue.REASONING if thought and not content else Continue.CONTENT
    text = content if isinstance(content, str) else joined(content, "\n\n")
    return Prefill(text, thought, continued is Continue.CONTENT)


# Tools


def read_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the tools with the keys that the server reads. Raises :class:`TemplateError` if it refuses."""
    made = []
    for place, tool in enumerate(tools):
        given: object = tool
        function = tool.get("function") if isinstance(given, Mapping) else None
        if not isinstance(function, Mapping) or tool.get("type") != "function":
            raise TemplateError(f"llama.cpp takes only tools of the type function (tools[{place}]).")
        name, about = function.get("name"), function.get("description", "")
        if not isinstance(name, str) or not isinstance(about, str):
            raise TemplateError(f"llama.cpp refuses tools[{place}]: its name or description is not text.")
        kept = {"name": name, "description": about, "parameters": function.get("parameters", {})}
        made.append({"type": "function", "function": kept})
    return made


# Requests

COSTLESS: Final = frozenset(
    {
        "model", "temperature", "top_p", "top_k", "min_p", "typical_p", "max_tokens", "max_completion_tokens",
        "n_predict", "n", "stop", "seed", "stream", "stream_options", "user", "logprobs", "top_logprobs",
        "presence_penalty", "frequency_penalty", "repeat_penalty", "logit_bias", "cache_prompt", "id_slot",
        "parallel_tool_calls", "tool_choice", "reasoning_format", "metadata", "store", "echo", "grammar",
        "response_format", "json_schema", "chat_template_kwargs", "reasoning_effort",
        "add_generation_prompt", "continue_final_message", "timings_per_token", "return_progress",
        "safety_identifier", "prompt_cache_key", "service_tier", "modalities",
    }
)  # fmt: skip
"""The fields whose effect on the prompt is fully implemented here; most have none."""


def asked(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]
) -> ServerRequest:
    """Parse a request from the fields of a body. Raises :class:`TemplateError` if the server refuses it."""
    arguments = fields.get("chat_template_kwargs")
    variables = dict(arguments) if isinstance(arguments, Mapping) else {}  # any other value has no effect
    thinking = variables.get("enable_thinking")
    if isinstance(thinking, str):
        raise TemplateError("llama.cpp refuses an enable_thinking that is a text.")
    if not isinstance(thinking, bool):
        thinking = None
    effort = fields.get("reasoning_effort")
    if effort == "none":
        thinking = False
        variables.pop("reasoning_effort", None)
    elif isinstance(effort, str) and effort:
        variables["reasoning_effort"] = effort
    opened = fields.get("add_generation_prompt")
    return ServerRequest(
        messages,
        tools,
        schema=_schema(fields),
        thinking=thinking,
        variables=variables,
        add_generation_prompt=opened if isinstance(opened, bool) else True,
        continued=_continued(fields.get("continue_final_message")),
    )


def _schema(fields: Mapping[str, Any]) -> Any:
    """Return the JSON Schema of the answer; None if the request has no schema."""
    schema, form = fields.get("json_schema"), fields.get("response_format")
    if isinstance(form, Mapping):
        how = form.get("type")
        if how == "json_object":
            if "schema" in form or not schema:
                schema = form.get("schema") or {}
        elif how == "json_schema":
            wrapper = form.get("json_schema")
            schema = (wrapper.get("schema") if isinstance(wrapper, Mapping) else None) or {}
        elif how and how != "text":
            raise TemplateError(f"llama.cpp takes no response_format of the type {how!r}.")
    return {"type": "object"} if schema == {} else schema


def _continued(value: Any) -> Continue | None:
    if value is None or value is False:
        return None
    if value is True:
        return Continue.AUTO
    if isinstance(value, str) and value in {"content", "reasoning_content"}:
        return Continue(value)
    raise TemplateError("llama.cpp takes continue_final_message as a truth value or the name of a field.")
