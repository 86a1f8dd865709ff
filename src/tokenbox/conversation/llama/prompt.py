"""The prompt that a llama.cpp server renders for a request (common/chat.cpp).

The server adapts messages to the template's capabilities and continues an answer at the end.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tokenbox.characters import common_prefix
from tokenbox.conversation.llama.capabilities import Reasoning, capabilities, reasoning
from tokenbox.conversation.llama.compiler import Program
from tokenbox.conversation.llama.families import Prefill, PrefillContext, family_of
from tokenbox.conversation.llama.run import OPENING_STEPS, Run
from tokenbox.conversation.llama.server_request import (
    ServerRequest,
    continuation,
    merged,
    parsed_call,
    prefill_of,
    read_message,
    read_tools,
    trimmed,
)
from tokenbox.conversation.llama.syntax import TemplateError
from tokenbox.conversation.llama.values import joined, of_json
from tokenbox.errors import InvalidText

RULES: Final = "llama.cpp b11549, 1"
"""The server version whose rules are implemented, and our revision. A new one needs a new verified table."""

_DATES: Final = {"date_string": "%d %b %Y", "datetime": "%b %d %Y"}
_CLOCK: Final = frozenset({*_DATES, "strftime_now"})
# Variables that the server's command line sets by default, and an embedded server does not.
_PRESERVE: Final = frozenset(
    {"preserve_thinking", "clear_thinking", "truncate_history_thinking", "drop_thinking"}
)
_STEP_FUN: Final = "You have access to the following functions in JSONSchema format"
# An arbitrary date for renders of which only the structure matters.
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


@dataclass(frozen=True, slots=True)
class Prepared:
    variables: dict[str, Any]
    prefill: Prefill | None
    opened: bool
    thinking: bool
    extra: Mapping[str, Any]


class LlamaTemplate:
    """A chat template as a llama.cpp server uses it. Raises :class:`TemplateError` if it does not parse.

    ``bos`` and ``eos``: the tokens that the template may print. Those that the tokenizer adds itself
    (``add_bos``, ``add_eos``) are removed from the prompt's ends.
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
        try:
            self.capabilities = capabilities(self.program, _ANY_DAY)
        except LookupError:
            raise TemplateError("llama.cpp does not start with a template that removes messages.") from None
        self.family = family_of(self.source)
        self.reasoning = Reasoning()
        if self.family is None:
            self.reasoning = reasoning(self._probe, self.source, tool_calls=self.capabilities.tool_calls)
            self.thinks = self.reasoning.present
        else:
            self.thinks = self.family.thinks(self.source)

    def _probe(self, variables: Mapping[str, Any]) -> str:
        messages = self._in_form(variables["messages"])
        run = Run(_ANY_DAY, limit=OPENING_STEPS)
        return self.program.render({**self.tokens, **variables, "messages": messages}, run)

    def prepared(self, asked: ServerRequest, now: dt.datetime) -> Prepared:
        """Return the prepared request. Raises :class:`TemplateError` if the server refuses it."""
        messages = [read_message(message, place) for place, message in enumerate(asked.messages)]
        continued, opened = continuation(messages, asked)
        prefill = None if continued is None or not messages else prefill_of(messages[-1], continued)
        if continued is not None:
            messages = messages[:-1]
        made = self.frame(asked, now)
        adjusted = [self.adjusted(message, made.extra) for message in self.sent(messages)]
        # The variables of a request may replace its messages.
        variables = {"messages": self.rewritten(adjusted), **made.variables}
        if opened:
            variables["add_generation_prompt"] = True
        return replace(made, variables=variables, prefill=prefill, opened=opened)

    def sent(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the messages with the changes that apply to all templates."""
        made = [self.adapted(message) for message in messages]
        if not self.capabilities.system_role and made and made[0]["role"] == "system":
            return merged(made)
        return made

    def adapted(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Adapt one message to the template's capabilities."""
        made = self._in_form([trimmed(message) if _STEP_FUN in self.source else dict(message)])[0]
        if made["role"] == "developer" and "<|channel|>" not in self.source:
            made["role"] = "system"
        if self.capabilities.object_arguments and "tool_calls" in made:
            made["tool_calls"] = [parsed_call(call) for call in made["tool_calls"]]
        return made

    def adjusted(self, message: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
        """Return a message with the changes for its family, before all of them are rewritten together."""
        made = message if self.family is None else self.family.adjust(message, extra)
        found: dict[str, Any] = of_json(made)
        return found

    def rewritten(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the messages as the template sees them; those that stay as they are are the same objects."""
        if self.family is None or self.family.rewrite is None:
            return messages
        same = set(map(id, messages))
        return [one if id(one) in same else of_json(one) for one in self.family.rewrite(messages)]

    def frame(self, asked: ServerRequest, now: dt.datetime) -> Prepared:
        """Return the variables of the render without the messages."""
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
            variables |= of_json(self.family.add(asked.schema))
        return Prepared(variables, None, opened=False, thinking=thinking, extra=extra)

    def text(self, prepared: Prepared, run: Run) -> str:
        """Return the prompt as the server passes it to the tokenizer."""
        prompt = self._rendered(prepared.variables, run)
        if self.family is not None:
            prompt = self.family.finish(prompt, prepared.opened)
        if prepared.prefill is not None:
            prompt += self.begin(prepared, prepared.prefill, prompt, lambda: self.opening(prepared, run))
        return _whole(prompt, run)

    def begin(self, prepared: Prepared, prefill: Prefill, prompt: str, opening: Callable[[], str]) -> str:
        """Return the prefill of a continued answer. ``opening`` renders the start of a new one."""
        if self.family is not None:
            context = PrefillContext(self.source, prepared.extra, prepared.thinking, prompt, opening)
            return self.family.begin(prefill, context)
        start, opened = self.reasoning.start, opening()  # of the automatic parser
        if start:
            return prefill.between(opened.partition(start)[0] + start, self.reasoning.end)
        return opened + (prefill.text if prefill.in_content else "")

    def _rendered(self, variables: Mapping[str, Any], run: Run) -> str:
        text = self.program.render(of_json(variables), run)  # a copy: a template may change its messages
        return text.removeprefix(self.starts).removesuffix(self.ends)

    def opening(self, prepared: Prepared, run: Run) -> str:
        """Return the text that the template adds to open an answer."""
        without = self._rendered(prepared.variables, run)
        opened = self._rendered({**prepared.variables, "add_generation_prompt": True}, run)
        return added_text(without, opened)

    def _in_form(self, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Convert contents to texts or lists of parts if the template supports only one of them."""
        if self.capabilities.string_content == self.capabilities.typed_content:
            return list(messages)
        made = []
        for message in messages:
            content = message.get("content")
            if self.capabilities.typed_content and isinstance(content, str):
                content = [{"type": "text", "text": content}]
            elif self.capabilities.string_content and isinstance(content, list):
                content = joined(content, "\n")
            made.append({**message, "content": content} if "content" in message else message)
        return made


def added_text(without: str, opened: str) -> str:
    """Return the second text without the prefix that both have in common."""
    return opened[common_prefix(without, opened) :]


def _whole(prompt: str, run: Run) -> str:
    """Return the prompt, with U+FFFD in place of characters that the template has split."""
    try:
        prompt.encode()
    except UnicodeEncodeError:
        run.uncertain = True
    else:
        return prompt
    try:
        return prompt.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # not of a split character
        raise InvalidText.at(prompt) from None


def _patched(source: str) -> str:
    """Return the source as the server uses it, without two checks that it removes."""
    if "<|channel|>" in source and "in message.content or" in source:
        source = source.replace(_GPT_OSS, "{%- if false %}")
    if "[TOOL_CALLS]" in source and "if (message['content'] is none or" in source:
        source = source.replace(_MISTRAL, "{%- if false %}")
    return source


def _derived(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables that the server derives from two variables of a request."""
    made: dict[str, Any] = {}
    preserve, effort = extra.get("preserve_reasoning"), extra.get("reasoning_effort")
    if isinstance(preserve, bool):
        made = {name: preserve is (name == "preserve_thinking") for name in sorted(_PRESERVE)}
    if isinstance(effort, str):
        made |= {"reasoning_effort": effort, "reasoning_strength": effort}
    return made
