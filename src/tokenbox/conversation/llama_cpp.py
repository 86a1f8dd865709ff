"""What the server of llama.cpp does to a request before and after its chat template (common/chat.cpp).

Messages are taken apart and put together again, so keys it does not know are lost; the template's abilities
are tried out, and what it cannot do is done for it; numbers are written as C++ does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenbox.conversation.template import TemplateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.conversation.template import ChatTemplate

# Templates that its code knows by these spellings, and treats in ways of their own that are not shown here.
OWN_WAYS: Final = (
    "<|channel|>", "[TOOL_CALLS]", "<|tool_call>call:", "<|tool_list_start|>", ">>>all", "<|DSML|",
    "<|tool_calls_section_begin|>", "<function=", "[SYSTEM_PROMPT]",
)  # fmt: skip
_MARK: Final = "tokenbox-probe"
_INT64: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a template can do, tried out as the server does."""

    typed_content: bool
    string_content: bool
    system_role: bool
    object_arguments: bool
    thinks: bool
    """It shows what an assistant thought."""
    thinking: tuple[str, str] | None
    """What stands before a thought and after it, in an answer that is to go on; None if that is not known."""


def abilities(template: ChatTemplate, tokens: Mapping[str, object]) -> Abilities:
    def shows(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None) -> bool:
        variables = {**tokens, "messages": messages, "add_generation_prompt": True}
        try:
            rendered = template.render(variables | ({"tools": tools} if tools else {}))
        except TemplateError:
            return False
        return _MARK in rendered and "'type'" not in rendered

    user: dict[str, Any] = {"role": "user", "content": "User message"}
    parts = [{"type": "text", "text": _MARK}]
    function = {"name": "tool1", "arguments": {"arg": _MARK}}
    call = {"id": "call00001", "type": "function", "function": function}
    schema = {"type": "object", "properties": {"arg": {"type": "string"}}, "required": ["arg"]}
    tool = {"type": "function", "function": {"name": "tool1", "description": "d", "parameters": schema}}
    called = [
        user,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "Tool response", "tool_call_id": "call00001"},
        {"role": "assistant", "content": "The tool response was 'tool response'"},
        user,
    ]
    return Abilities(
        typed_content=shows([{"role": "user", "content": parts}]),
        string_content=shows([{"role": "user", "content": _MARK}]),
        system_role=shows([{"role": "system", "content": _MARK}, user]),
        object_arguments=shows(called, [tool]),
        thinks=shows([user, {"role": "assistant", "content": "", "reasoning_content": _MARK}]),
        thinking=_thinking(template, tokens, user),
    )


def _thinking(
    template: ChatTemplate, tokens: Mapping[str, object], user: Mapping[str, Any]
) -> tuple[str, str] | None:
    """The marks of a thought, read off an answer with one."""
    thought = {"role": "assistant", "content": "tokenbox-answer", "reasoning_content": _MARK}
    try:
        opened = template.render({**tokens, "messages": [user], "add_generation_prompt": True})
        whole = template.render({**tokens, "messages": [user, thought], "add_generation_prompt": False})
    except TemplateError:
        return None
    before, _, after = whole.partition(_MARK)
    end, answer, _ = after.partition(thought["content"])
    return (before[len(opened) :], end) if answer and before.startswith(opened) else None


def goes_on(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the last message is an answer that the model is to go on with."""
    last = messages[-1] if messages else {}
    return last.get("role") == "assistant" and not last.get("tool_calls")


def normalized(messages: Sequence[Mapping[str, Any]], able: Abilities, source: str) -> list[dict[str, Any]]:
    """The messages as its template sees them. Raises :class:`TemplateError` where the server answers 4xx."""
    made = [_message(message, able) for message in messages]
    if "<|channel|>" not in source:
        for message in made:
            if message["role"] == "developer":
                message["role"] = "system"
    if not able.system_role and made and made[0]["role"] == "system":
        first = made.pop(0)
        if made:
            made[0]["content"] = f"{first['content']}\n{made[0]['content']}"
    return made


def _message(message: Mapping[str, Any], able: Abilities) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message["role"], "content": _content(message.get("content"), able)}
    for key in ("reasoning_content", "name", "tool_call_id"):
        if message.get(key):
            made[key] = message[key]
    if message.get("tool_calls"):
        made["tool_calls"] = [_tool_call(call, able) for call in message["tool_calls"]]
    return made


def _content(content: object, able: Abilities) -> str | list[dict[str, str]]:
    if content is None or isinstance(content, str):
        only_parts = able.typed_content and not able.string_content
        return [{"type": "text", "text": content or ""}] if only_parts else content or ""
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    if any(part.get("type") != "text" for part in parts):
        raise TemplateError("llama.cpp counts images and recordings by itself. Let the server count these.")
    if able.typed_content and parts:
        return [{"type": "text", "text": part["text"]} for part in parts]
    return _joined(parts, "\n")


def _joined(parts: Sequence[Mapping[str, str]], between: str) -> str:
    """The texts of the parts; nothing stands before the first that is not empty."""
    text = ""
    for part in parts:
        text += (between if text else "") + part["text"]
    return text


def _tool_call(call: Mapping[str, Any], able: Abilities) -> dict[str, Any]:
    function = call.get("function") or {}
    arguments = function.get("arguments", "")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    if able.object_arguments:
        try:
            arguments = json.loads(arguments, parse_constant=_no_json)
        except (ValueError, RecursionError) as error:
            raise TemplateError(
                f"llama.cpp refuses a call of {function.get('name')!r}, whose arguments are no JSON: {error}."
            ) from None
    made = {"type": "function", "function": {"name": function.get("name"), "arguments": arguments}}
    return made | ({"id": call["id"]} if call.get("id") else {})


def _no_json(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


def normalized_tools(tools: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    """The tools as its template sees them; None if there are none."""
    if not tools:
        return None
    made = []
    for tool in tools:
        function = tool.get("function")
        if tool.get("type") != "function" or not isinstance(function, dict) or "name" not in function:
            raise TemplateError("llama.cpp takes only tools of the type function, with a name.")
        kept = {
            "name": function["name"],
            "description": function.get("description", ""),
            "parameters": function.get("parameters", {}),
        }
        made.append({"type": "function", "function": kept})
    return made


def prompt(
    template: ChatTemplate,
    variables: Mapping[str, Any],
    messages: Sequence[Mapping[str, Any]],
    able: Abilities,
    *,
    add_generation_prompt: bool,
) -> str:
    """The rendered prompt. An assistant that speaks last is to go on with what it has begun."""

    def rendered(some: Sequence[Mapping[str, Any]], *, add: bool) -> str:
        made = normalized(some, able, template.source)
        return template.render({**variables, "messages": made, "add_generation_prompt": add})

    if not add_generation_prompt or not goes_on(messages):
        return rendered(messages, add=add_generation_prompt)
    before = rendered(messages[:-1], add=False)
    begun = messages[-1].get("content")
    if not begun:
        return before
    opened = rendered(messages[:-1], add=True)
    # What is begun is joined by blank lines, unlike what is rendered.
    said = begun if isinstance(begun, str) else _joined(begun, "\n\n")
    if able.thinking is not None:
        said = (messages[-1].get("reasoning_content") or "").join(able.thinking) + said
    return before + (opened[len(before) :] if opened.startswith(before) else "") + said


def to_json(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002  # as templates call it
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """The filter ``tojson`` of llama.cpp: floats with six digits, integers of 64 bits."""
    between, after_key = separators or ((", " if indent is None else ","), ": ")

    def written(item: object, depth: int) -> str:
        if isinstance(item, Mapping):
            keys = sorted(item) if sort_keys else list(item)
            inner = [f"{text(key)}{after_key}{written(item[key], depth + 1)}" for key in keys]
            return wrapped(inner, "{}", depth)
        if isinstance(item, list | tuple):
            return wrapped([written(part, depth + 1) for part in item], "[]", depth)
        return number(item) if isinstance(item, int | float) and not isinstance(item, bool) else text(item)

    def wrapped(inner: list[str], brackets: str, depth: int) -> str:
        if indent is None or not inner:
            return brackets[0] + between.join(inner) + brackets[1]
        line = "\n" + " " * indent * depth
        pad = " " * indent
        return brackets[0] + line + pad + (between.rstrip() + line + pad).join(inner) + line + brackets[1]

    def text(item: object) -> str:
        return json.dumps(item, ensure_ascii=ensure_ascii)

    return written(value, 0)


def number(value: float) -> str:
    """As C++ writes it: ``%g``, and integers beyond 63 bits as what is left of them."""
    if isinstance(value, int):
        if -_INT64 <= value < _INT64:
            return str(value)
        if 0 < value < 2 * _INT64:
            return str(value - 2 * _INT64)
    return f"{float(value):g}"
