"""From a request to the text that a llama.cpp server tokenizes (server-common.cpp, common/chat.cpp).

Messages are taken apart and put together again, so that keys the server does not know are lost; what the
template cannot do is done for it; an answer at the end is continued.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tokenbox.conversation.llama.abilities import SPACE, Reasoning, abilities, reasoning
from tokenbox.conversation.llama.families import Begun, Situation, family_of
from tokenbox.conversation.llama.run import Program, Run
from tokenbox.conversation.llama.syntax import TemplateError
from tokenbox.conversation.llama.values import of_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RULES: Final = "llama.cpp b11549, 1"
"""The server whose rules these are, and their edition here. A new edition needs a new table of proofs."""

_DATES: Final = {"date_string": "%d %b %Y", "datetime": "%b %d %Y"}
_CLOCK: Final = frozenset({*_DATES, "strftime_now"})
# What the server's own command line sets unless it is told otherwise, and an embedded server does not.
_PRESERVE: Final = frozenset(
    {"preserve_thinking", "clear_thinking", "truncate_history_thinking", "drop_thinking"}
)
_STEP_FUN: Final = "You have access to the following functions in JSONSchema format"
# Any day will do where only the shape of a prompt is looked at.
_ANY_DAY: Final = dt.datetime(2024, 7, 26, tzinfo=dt.UTC)
_GPT_OSS: Final = (
    '{%- if "<|channel|>analysis<|message|>" in message.content or '
    '"<|channel|>final<|message|>" in message.content %}'
)
_MISTRAL: Final = (
    "{%- if (message['content'] is none or message['content'] == '' or message['content']|length == 0) and "
    "(message['tool_calls'] is not defined or message['tool_calls'] is none or "
    "message['tool_calls']|length == 0) %}"
)


class Continue(StrEnum):
    """How an answer at the end is continued: ``continue_final_message``."""

    AUTO = "auto"
    CONTENT = "content"
    REASONING = "reasoning_content"


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request as the server reads it. ``messages`` are the caller's."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    schema: Any = None
    thinking: bool | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool = True
    continued: Continue | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request, ready to be rendered."""

    variables: dict[str, Any]
    begun: Begun | None
    opened: bool
    thinking: bool
    schema: Any
    extra: Mapping[str, Any]


class LlamaTemplate:
    """A chat template as a llama.cpp server uses it. Raises :class:`TemplateError` if it does not parse.

    ``bos`` and ``eos`` are the tokens that the template may print; those that the tokenizer adds by itself
    (``add_bos``, ``add_eos``) are taken off the prompt's ends.
    """

    def __init__(
        self, source: str, *, bos: str = "", eos: str = "", add_bos: bool = False, add_eos: bool = False
    ) -> None:
        self.program = Program(_patched(source))
        self.source = self.program.source
        self.tokens = {"bos_token": bos, "eos_token": eos}
        self.starts, self.ends = bos if add_bos else "", eos if add_eos else ""
        names = self.program.names()
        self.prints_dates = bool(names & _CLOCK)
        self.preserves = bool(names & _PRESERVE)
        self.able = abilities(self.program, _ANY_DAY)
        self.family = family_of(self.source)
        self.reasoning = Reasoning()
        if self.family is None:
            self.reasoning = reasoning(self._probe, self.source, tool_calls=self.able.tool_calls)
            self.thinks = self.reasoning.present
        else:
            self.thinks = self.family.thinks(self.source)

    def _probe(self, variables: Mapping[str, Any]) -> str:
        messages = self._in_form(variables["messages"])
        return self.program.render({**self.tokens, **variables, "messages": messages}, Run(_ANY_DAY))

    def prepared(self, asked: ServerRequest, now: dt.datetime) -> Prepared:
        """The variables of the render. Raises :class:`TemplateError` for what the server refuses."""
        messages = read_messages(asked.messages)
        continued, opened = ending(messages, asked)
        begun = None if continued is None or not messages else begun_by(messages[-1], continued)
        if continued is not None:
            messages = messages[:-1]
        made = self.frame(asked, now)
        variables = {**made.variables, "messages": self.final(self.sent(messages), made.extra)}
        if opened:
            variables["add_generation_prompt"] = True
        return replace(made, variables=variables, begun=begun, opened=opened)

    def sent(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The messages as they are put before the template, with what is done for all templates."""
        made = [self.adapted(message) for message in messages]
        if not self.able.system_role and made and made[0]["role"] == "system":
            return _merged(made)
        return made

    def adapted(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """One message, with what the server does for a template that cannot do it."""
        made = _as_sent(_trimmed(message) if _STEP_FUN in self.source else message)
        made = self._in_form([made])[0]
        if made["role"] == "developer" and "<|channel|>" not in self.source:
            made["role"] = "system"
        if self.able.object_arguments:
            for call in made.get("tool_calls", ()):
                call["function"]["arguments"] = _parsed(call["function"])
        return made

    def final(self, messages: list[dict[str, Any]], extra: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The messages as the template sees them, with what is done for its family."""
        if self.family is not None and self.family.adjust is not None:
            messages = self.family.adjust(messages, extra, self.source)
        return [of_json(message) for message in messages]

    def frame(self, asked: ServerRequest, now: dt.datetime) -> Prepared:
        """The variables of the render but the messages."""
        extra: dict[str, Any] = of_json(dict(asked.variables))
        thinking = self.thinks if asked.thinking is None else asked.thinking
        variables = _derived(extra)
        if self.prints_dates:
            variables |= {key: now.strftime(form) for key, form in _DATES.items()}
        variables |= {**self.tokens, "enable_thinking": thinking}
        tools = read_tools(asked.tools)
        if tools:
            variables["tools"] = of_json(tools)
        variables |= extra
        if self.family is not None:
            variables |= of_json(self.family.add(asked.schema, self.source))
        return Prepared(variables, None, opened=False, thinking=thinking, schema=asked.schema, extra=extra)

    def text(self, prepared: Prepared, run: Run) -> str:
        """The prompt, as the server gives it to the tokenizer."""
        return _whole(self._prompt(prepared, run), run)

    def _prompt(self, prepared: Prepared, run: Run) -> str:
        prompt = self._rendered(prepared.variables, run)
        family = self.family
        if family is not None:
            prompt = family.finish(prompt, prepared.opened)
        if prepared.begun is None:
            return prompt
        return prompt + self.begin(prepared, prepared.begun, prompt, lambda: self.opening(prepared, run))

    def begin(self, prepared: Prepared, begun: Begun, prompt: str, opening: Callable[[], str]) -> str:
        """How an answer is begun that is to be continued. ``opening`` gives what opens a new one."""
        if self.family is None:
            return self._begin(begun, opening())
        situation = Situation(
            self.source, prepared.extra, prepared.schema, prepared.thinking, prompt, opening
        )
        return self.family.begin(begun, situation)

    def _rendered(self, variables: Mapping[str, Any], run: Run) -> str:
        text = self.program.render(variables, run)
        return text.removeprefix(self.starts).removesuffix(self.ends)

    def _begin(self, begun: Begun, opening: str) -> str:
        """How the automatic parser begins an answer."""
        if self.reasoning.start:
            opening = opening.partition(self.reasoning.start)[0] + self.reasoning.start + begun.reasoning
            if begun.in_content:
                opening += self.reasoning.end
        return opening + (begun.text if begun.in_content else "")

    def opening(self, prepared: Prepared, run: Run) -> str:
        """What the template prints to open an answer."""
        without = self._rendered(prepared.variables, run)
        opened = self._rendered({**prepared.variables, "add_generation_prompt": True}, run)
        return behind(without, opened)

    def _in_form(self, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Contents as the template can read them: as texts, as lists of parts, or as they are."""
        if self.able.string_content == self.able.typed_content:
            return list(messages)
        made = []
        for message in messages:
            content = message.get("content")
            if self.able.typed_content and isinstance(content, str):
                content = [{"type": "text", "text": content}]
            elif self.able.string_content and isinstance(content, list):
                content = _joined(content, "\n")
            made.append({**message, "content": content} if "content" in message else message)
        return made


def behind(without: str, opened: str) -> str:
    """What the second text has after what both begin with."""
    size = 0
    for one, other in zip(without, opened, strict=False):
        if one != other:
            break
        size += 1
    return opened[size:]


def _whole(prompt: str, run: Run) -> str:
    """The prompt; where a template has cut characters apart, with marks in their places."""
    try:
        prompt.encode()
    except UnicodeEncodeError:
        run.uncertain = True
        return prompt.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return prompt


def _patched(source: str) -> str:
    """The source as the server takes it: two checks that it knows are taken out, a last newline is cut."""
    if "<|channel|>" in source and "in message.content or" in source:
        source = source.replace(_GPT_OSS, "{%- if false %}")
    if "[TOOL_CALLS]" in source and "if (message['content'] is none or" in source:
        source = source.replace(_MISTRAL, "{%- if false %}")
    return source


def _derived(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that the server makes of two of a request's."""
    made: dict[str, Any] = {}
    preserve, effort = extra.get("preserve_reasoning"), extra.get("reasoning_effort")
    if isinstance(preserve, bool):
        made = {name: preserve is (name == "preserve_thinking") for name in sorted(_PRESERVE)}
    if isinstance(effort, str):
        made |= {"reasoning_effort": effort, "reasoning_strength": effort}
    return made


# Messages


def read_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages with the keys that the server reads. ``content`` is a text or a list of parts.

    Raises :class:`TemplateError` for what the server refuses.
    """
    return [read_message(message, place) for place, message in enumerate(messages)]


def read_message(message: Mapping[str, Any], place: int = 0) -> dict[str, Any]:
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        raise TemplateError(f"llama.cpp refuses messages[{place}], which has no role.")
    if "content" not in message and (role != "assistant" or "tool_calls" not in message):
        raise TemplateError(f"llama.cpp refuses messages[{place}], which has no content.")
    made: dict[str, Any] = {"role": role, "content": ""}
    if isinstance(content, str):
        made["content"] = content
    elif isinstance(content, list | tuple):
        made["content"] = [_read_part(part, place) for part in content]
    elif content is not None:
        raise TemplateError(f"llama.cpp refuses the content of messages[{place}].")
    for key in ("reasoning_content", "name", "tool_call_id"):
        if key in message:
            if not isinstance(message[key], str):
                raise TemplateError(f"llama.cpp refuses messages[{place}], whose {key} is not text.")
            made[key] = message[key]
    made["tool_calls"] = [_read_call(call, place) for call in message.get("tool_calls") or ()]
    return made


def _read_part(part: Any, place: int) -> dict[str, str]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind != "text":
        raise TemplateError(
            f"llama.cpp counts images and recordings by itself (messages[{place}]). Let the server count."
        )
    if not isinstance(part.get("text"), str):
        raise TemplateError(f"llama.cpp refuses messages[{place}], which has a part without a text.")
    return {"type": "text", "text": part["text"]}


def _read_call(call: Any, place: int) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or call.get("type") != "function":
        raise TemplateError(
            f"llama.cpp refuses messages[{place}], which has a call that is not a function's."
        )
    arguments = function.get("arguments", "") if "arguments" in function else None
    if not isinstance(function.get("name"), str) or "arguments" not in function:
        raise TemplateError(f"llama.cpp refuses messages[{place}]: a call has no name or no arguments.")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    identity = call.get("id", "")
    if not isinstance(identity, str):
        raise TemplateError(f"llama.cpp refuses messages[{place}]: the id of a call is not text.")
    return {"name": function["name"], "arguments": arguments, "id": identity}


def _as_sent(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message as the template is given it."""
    content = message["content"]
    made: dict[str, Any] = {
        "role": message["role"],
        "content": [dict(part) for part in content]
        if isinstance(content, list) and content
        else content or "",
    }
    for key in ("reasoning_content", "name", "tool_call_id"):
        if message.get(key):
            made[key] = message[key]
    if message["tool_calls"]:
        made["tool_calls"] = [
            {"type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            | ({"id": call["id"]} if call["id"] else {})
            for call in message["tool_calls"]
        ]
    return made


def _trimmed(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message["content"]
    made = dict(message)
    made["content"] = (
        content.strip(SPACE)
        if isinstance(content, str)
        else [{**part, "text": part["text"].strip(SPACE)} for part in content]
    )
    if "reasoning_content" in made:
        made["reasoning_content"] = made["reasoning_content"].strip(SPACE)
    return made


def _joined(parts: Sequence[Mapping[str, Any]], between: str) -> str:
    """The texts of the parts; nothing stands before the first that is not empty."""
    text = ""
    for part in parts:
        text += (between if text else "") + part.get("text", "")
    return text


def _merged(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The system message before the next one, where a template has no place for it."""
    if len(messages) == 1:
        return []
    first, second = messages[0]["content"], messages[1]["content"]
    if not isinstance(first, str) or not isinstance(second, str):
        raise TemplateError("llama.cpp cannot merge a system message whose content is a list of parts.")
    return [{**messages[1], "content": f"{first}\n{second}"}, *messages[2:]]


def _parsed(function: Mapping[str, Any]) -> Any:
    try:
        return json.loads(function["arguments"], parse_constant=_no_json)
    except (ValueError, RecursionError) as error:
        raise TemplateError(
            f"llama.cpp refuses a call of {function['name']!r}, whose arguments are not JSON: {error}."
        ) from None


def _no_json(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def ending(messages: Sequence[Mapping[str, Any]], asked: ServerRequest) -> tuple[Continue | None, bool]:
    """How an answer at the end is continued, and whether a new one is opened."""
    continued, opened = asked.continued, asked.add_generation_prompt
    last = messages[-1] if messages else {"role": ""}
    if continued is None and last["role"] == "assistant" and not last["tool_calls"]:
        continued, opened = Continue.AUTO, False
    if continued is not None and opened:
        raise TemplateError("llama.cpp refuses add_generation_prompt together with continue_final_message.")
    return continued, opened


def can_be_sent(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the server takes messages that end so: not in a call of a tool, nor in two answers.

    While they are on the way there, such messages are counted all the same.
    """
    answers = [message for message in messages[-2:] if message.get("role") == "assistant"]
    if not answers or answers[-1] is not messages[-1]:
        return True
    return len(answers) == 1 and not answers[0].get("tool_calls")


def begun_by(message: Mapping[str, Any], continued: Continue) -> Begun | None:
    """The answer that is to be continued; None if nothing of it is there."""
    if not any(message.get(key) for key in message if key != "role"):
        return None
    content, thought = message["content"], message.get("reasoning_content", "")
    if continued is Continue.AUTO:
        continued = Continue.REASONING if thought and not content else Continue.CONTENT
    text = content if isinstance(content, str) else _joined(content, "\n\n")
    return Begun(text, thought, continued is Continue.CONTENT)


# Tools


def read_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tools with the keys that the server reads. Raises :class:`TemplateError` for what it refuses."""
    made = []
    for place, tool in enumerate(tools):
        function = tool.get("function")
        if tool.get("type") != "function" or not isinstance(function, Mapping):
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
"""Fields of a request whose whole effect on the prompt is known here; for most of them it is none."""


def asked(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]
) -> ServerRequest:
    """The request of a body's fields. Raises :class:`TemplateError` for what the server refuses."""
    arguments = fields.get("chat_template_kwargs") or {}
    if not isinstance(arguments, Mapping):
        raise TemplateError("llama.cpp takes chat_template_kwargs as an object.")
    variables = dict(arguments)
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
    """The JSON Schema that an answer must follow; None if there is none."""
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
    if value in {"content", "reasoning_content"}:
        return Continue(value)
    raise TemplateError("llama.cpp takes continue_final_message as a truth value or the name of a field.")
