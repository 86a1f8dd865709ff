"""The template families with special rules in a llama.cpp server (common/parsers, common/chat.cpp).

A family is recognized by words in the template's source; the first match wins. It may change the messages
before rendering, add variables, and defines how a prefilled answer begins.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from tokenbox.conversation.llama.syntax import TemplateError
from tokenbox.conversation.llama.values import joined, strict_json

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prefill:
    """An answer to be continued. ``in_content``: its thoughts are complete."""

    text: str
    reasoning: str
    in_content: bool

    def between(self, opening: str, closing: str) -> str:
        """Return the answer with its thought, which may be empty, between these tags."""
        return opening + self.reasoning + (closing + self.text if self.in_content else "")


@dataclass(frozen=True, slots=True)
class PrefillContext:
    """The inputs of a family's prefill besides the messages. ``opening`` renders the start of an answer."""

    source: str
    variables: Mapping[str, Any]
    thinking: bool
    prompt: str
    opening: Callable[[], str]


@dataclass(frozen=True, slots=True)
class TemplateFamily:
    """A family of templates.

    ``begin`` renders a prefilled answer, ``adjust`` changes each message, ``rewrite`` all of them together:
    each part by itself, which begins where ``parts`` is true of a message.
    ``add`` returns further variables, ``finish`` changes the end of the prompt.
    """

    name: str
    matches: Callable[[str], bool]
    begin: Callable[[Prefill, PrefillContext], str]
    thinks: Callable[[str], bool] = lambda source: True
    adjust: Callable[[Message, Mapping[str, Any]], Message] = lambda message, variables: message
    rewrite: Callable[[list[Message]], list[Message]] | None = None
    parts: Callable[[Message], bool] = lambda message: False
    add: Callable[[Any], dict[str, Any]] = lambda schema: {}
    finish: Callable[[str, bool], str] = lambda prompt, opened: prompt


def _tagged(opening: str, closing: str) -> Callable[[Prefill, PrefillContext], str]:
    return lambda prefill, _: prefill.between(opening, closing)


def _plain(opening: str) -> Callable[[Prefill, PrefillContext], str]:
    return lambda prefill, _: opening + prefill.text


def _all(*words: str, without: str | None = None) -> Callable[[str], bool]:
    return lambda source: all(word in source for word in words) and (without is None or without not in source)


def _calls(message: Message) -> bool:
    return message.get("role", "") == "assistant" and bool(message.get("tool_calls"))


def _never(_: str) -> bool:
    return False


# GPT-OSS, LLM-jp, LFM2


def _lfm2(message: Message, _: Mapping[str, Any]) -> Message:
    """Copy a thought to the key that the template reads."""
    thought = message.get("reasoning_content")
    return {**message, "thinking": thought} if isinstance(thought, str) else message


def _harmony(message: Message, variables: Mapping[str, Any]) -> Message:
    """Copy a thought, and remove the text beside a thought that calls tools."""
    made = dict(_lfm2(message, variables))
    if "thinking" in made and made.get("tool_calls"):
        made.pop("content", None)
    return made


RETURN: Final = "<|return|>"


def no_return(prompt: str, opened: bool) -> str:  # noqa: FBT001  # whether an answer is opened
    """Replace the last ``<|return|>`` by ``<|end|>`` unless an answer is opened."""
    before, found, after = prompt.rpartition(RETURN)
    return prompt if opened or not found else f"{before}<|end|>{after}"


# Ministral 3


def _blocks(message: Message, _: Mapping[str, Any]) -> Message:
    """Convert the content of a system message or an answer to a list of thoughts and texts."""
    if message.get("role", "") not in {"system", "assistant"}:
        return message
    made, content = dict(message), []
    thought, given = made.pop("reasoning_content", None), made.get("content")
    if isinstance(thought, str):
        content.append({"type": "thinking", "thinking": thought})
    if isinstance(given, str):
        content.append({"type": "text", "text": given})
    elif isinstance(given, list):
        content += given
    return {**made, "content": content}


# K2 Horizon


def _with_thought(message: Message, _: Mapping[str, Any]) -> Message:
    if message.get("role") != "assistant":
        return message
    return {**message, "reasoning_content": message.get("reasoning_content", "")}


def _k2_horizon(prefill: Prefill, context: PrefillContext) -> str:
    effort = context.variables.get("reasoning_effort", "high")
    off = not context.thinking and "enable_thinking" in context.source
    tag = "ifm|think"
    if not off:
        tag = {"medium": "ifm|think_fast", "low": "ifm|think_faster"}.get(effort, tag)
    return prefill.between(f"<|ifm|im_start|>assistant\n<{tag}>\n", f"</{tag}>")


# DeepSeek 3.2 and 4


_DSML: Final = ("dsml_token", "DSML")


def _results_in_order(messages: list[Message]) -> list[Message]:
    """Put the results of tools into the order of their calls, for DeepSeek 4."""
    made: list[Message] = []
    order: dict[str, int] = {}
    for are_replies, group in groupby(messages, lambda message: message.get("role", "") in {"user", "tool"}):
        some = list(group)
        if are_replies:
            results = (message for message in some if message["role"] == "tool")
            ranked = iter(sorted(results, key=lambda result: order.get(result.get("tool_call_id", ""), 0)))
            some = [next(ranked) if message["role"] == "tool" else message for message in some]
        for message in some:
            if _calls(message):
                calls = enumerate(message["tool_calls"])
                order = {call["id"]: number for number, call in calls if call.get("id")}
        made += some
    return made


_deepseek: Final = _tagged("<｜Assistant｜><think>", "</think>")


def _deepseek_4(prefill: Prefill, context: PrefillContext) -> str:
    if not prefill.reasoning:
        return prefill.between("<｜Assistant｜></think>", "")
    return _deepseek(prefill, context)


# Gemma 4


def _gemma4_turns(messages: list[Message]) -> list[Message]:
    """Merge calls, their results and the answer to them into one message, for older templates."""
    made: list[Message] = []
    waiting = deque(messages)
    while waiting:
        message = waiting.popleft()
        if not _calls(message):
            made.append(message)
            continue
        calls = message["tool_calls"]
        turn: Message = {"role": "assistant", "tool_calls": list(calls)}
        responses: list[Message] = []
        while waiting and waiting[0].get("role", "") == "tool":
            responses.append(_gemma4_response(waiting.popleft(), calls, len(responses)))
        if responses:
            turn["tool_responses"] = responses
        following = waiting[0] if waiting else {}
        is_answer = following.get("role", "") == "assistant" and not following.get("tool_calls")
        if is_answer and following.get("content"):
            turn["content"] = waiting.popleft()["content"]
        if isinstance(message.get("reasoning_content"), str):
            turn["reasoning_content"] = message["reasoning_content"]
        made.append(turn)
    return made


def _gemma4_response(message: Mapping[str, Any], calls: list[Any], place: int) -> dict[str, Any]:
    response = message.get("content")
    if isinstance(response, str):
        with contextlib.suppress(ValueError, RecursionError):
            response = strict_json(response)
    name = calls[place]["function"].get("name", "") if place < len(calls) else ""
    return {"name": name or message.get("tool_call_id", ""), "response": response}


def _gemma4(prefill: Prefill, context: PrefillContext) -> str:
    opened = "<|turn>model\n" if context.prompt.endswith("<turn|>\n") else ""
    return prefill.between(f"{opened}<|channel>thought\n", "<channel|>")


def _gemma4_turn(prompt: str, opened: bool) -> str:  # noqa: FBT001  # whether an answer is opened
    return prompt + "<|turn>model\n" if opened and prompt.endswith("<turn|>\n") else prompt


# MiniMax M3, Qwen3 Coder


def _minimax(prefill: Prefill, context: PrefillContext) -> str:
    return prefill.between(context.opening() + "<mm:think>", "</mm:think>")


def _qwen3_coder(prefill: Prefill, context: PrefillContext) -> str:
    opened = "<|im_start|>assistant\n"
    if "<think>" in context.source:
        return prefill.between(f"{opened}<think>\n", "\n</think>\n\n")
    return opened + (prefill.text if prefill.in_content else "")


# TranslateGemma


def _translation(message: Message, variables: Mapping[str, Any]) -> Message:
    languages = {key: variables.get(key, "en-GB") for key in ("source_lang_code", "target_lang_code")}
    if not all(isinstance(language, str) for language in languages.values()):
        raise TemplateError("llama.cpp takes only texts as source_lang_code and target_lang_code.")
    if message.get("role", "") != "user":
        return message
    content = message.get("content")
    text = content if isinstance(content, str) else joined(content or (), "\n")
    return {**message, "content": [{"type": "text", "text": text, **languages}]}


FAMILIES: Final = (
    TemplateFamily(
        "Ministral 3",
        _all("[SYSTEM_PROMPT]", "[TOOL_CALLS]", "[ARGS]", without="[CALL_ID]"),
        _tagged("[THINK]", "[/THINK]"),
        adjust=_blocks,
    ),
    TemplateFamily(
        "GPT-OSS, LLM-jp Harmony",
        lambda source: "chat_format=llm-jp-harmony-v1" in source or "<|channel|>" in source,
        _tagged(
            "<|start|>assistant<|channel|>analysis<|message|>",
            "<|end|><|start|>assistant<|channel|>final<|message|>",
        ),
        adjust=_harmony,
        finish=no_return,
    ),
    TemplateFamily(
        "Muse Glimmer",
        _all("<atem:function_calls>", "<|eom|>"),
        _tagged("<|start|>assistant to=self<|message|>", "<|eom|><|start|>assistant to=user<|message|>"),
    ),
    TemplateFamily(
        "Functionary 3.2",
        _all(">>>all", ">>>${recipient}"),
        _plain("<|start_header_id|>assistant<|end_header_id|>\n\n>>>all\n"),
        thinks=_never,
    ),
    TemplateFamily(
        "Kimi K2 Thinking",
        _all("<|tool_calls_section_begin|>", "<|tool_call_begin|>"),
        _tagged("<|im_assistant|>assistant<|im_middle|><think>", "</think>"),
    ),
    TemplateFamily(
        "Kimi K3",
        _all("<|open|>", "<|close|>", "<|end_of_msg|>"),
        _tagged(
            '<|open|>message role="assistant"<|sep|><|open|>think<|sep|>',
            "<|close|>think<|sep|><|open|>response<|sep|>",
        ),
    ),
    TemplateFamily(
        "K2 Horizon", _all("<|ifm|im_start|>", "<ifm|tool_calls>"), _k2_horizon, adjust=_with_thought
    ),
    TemplateFamily(
        "Ling 3",
        _all("<role>ASSISTANT</role>", "<arg_key>"),
        _tagged("<role>ASSISTANT</role>\n<think>", "</think>"),
    ),
    TemplateFamily(
        "Cohere2 MoE",
        _all("<|START_TEXT|>", "<|START_ACTION|>"),
        _tagged(
            "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|>", "<|END_THINKING|><|START_TEXT|>"
        ),
    ),
    TemplateFamily(
        "LFM2 and 2.5",
        lambda source: (
            "<|tool_list_end|>" in source if "<|tool_list_start|>" in source else "List of tools: [" in source
        ),
        _tagged("<|im_start|>assistant\n<think>", "</think>"),
        adjust=_lfm2,
    ),
    TemplateFamily(
        "GigaChat 3",
        _all("<|role_sep|>", "<|message_sep|>", without="<|function_call|>"),
        _plain("assistant<|role_sep|>\n"),
        thinks=_never,
    ),
    TemplateFamily("MiniMax M3", _all("]<]minimax[>[", "<tool_call>", "<invoke name="), _minimax),
    TemplateFamily("DeepSeek 3.2", _all(*_DSML, "function_calls"), _deepseek),
    TemplateFamily(
        "DeepSeek 4",
        _all(*_DSML, "tool_calls"),
        _deepseek_4,
        rewrite=_results_in_order,
        parts=_calls,
        add=lambda schema: {"response_format": schema} if isinstance(schema, dict) else {},
    ),
    TemplateFamily(
        "Gemma 4",
        _all("'<|tool_call>call:'", "{#- OpenAI Chat Completions:"),
        _gemma4,
        finish=_gemma4_turn,
    ),
    TemplateFamily(
        "Gemma 4 (older)",
        _all("'<|tool_call>call:'"),
        _gemma4,
        rewrite=_gemma4_turns,
        parts=lambda message: _calls(message) or message.get("role") not in {"assistant", "tool"},
        finish=_gemma4_turn,
    ),
    TemplateFamily(
        "MiniCPM5",
        _all("Tool usage guidelines:", '<function name="', '<param name="'),
        _tagged("<|im_start|>assistant\n<think>\n", "\n</think>\n\n"),
    ),
    TemplateFamily(
        "TranslateGemma",
        _all("[source_lang_code]", "[target_lang_code]"),
        _plain("<start_of_turn>model\n"),
        thinks=_never,
        adjust=_translation,
    ),
    TemplateFamily(
        "Qwen3 Coder",
        _all(
            "<tool_call>",
            "<function=",
            "<parameter=",
            without="'<tool_call><function=' ~ tool_call.name ~ '>'",
        ),
        _qwen3_coder,
        thinks=lambda source: "<think>" in source,
    ),
)
"""The families in the order of the server's checks. Other templates are handled by its automatic parser."""


def family_of(source: str) -> TemplateFamily | None:
    return next((family for family in FAMILIES if family.matches(source)), None)
