"""The capabilities of a template, detected as llama.cpp does (common/jinja/caps.cpp, chat-diff-analyzer.cpp).

:func:`capabilities` renders small requests and checks how the template used each value; :func:`reasoning`
compares prompts with and without thoughts.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenbox.characters import common_prefix
from tokenbox.conversation.llama.run import OPENING_STEPS, Run, ValueUsage
from tokenbox.conversation.llama.syntax import TemplateError, TemplateTooLarge
from tokenbox.conversation.llama.values import SPACE

if TYPE_CHECKING:
    import datetime as dt

    from tokenbox.conversation.llama.compiler import Program


@dataclass(frozen=True, slots=True)
class TemplateCapabilities:
    string_content: bool
    typed_content: bool
    system_role: bool
    tool_calls: bool
    object_arguments: bool


@dataclass(slots=True)
class Reasoning:
    """The markers before and after a thought. ``present`` is llama.cpp's ``mode != NONE``."""

    present: bool = False
    start: str = ""
    end: str = ""


def _fresh(text: str) -> str:
    """Return an equal text with its own identity, as every value in llama.cpp has."""
    return text.encode().decode()


def _user(text: str = "User message") -> dict[str, Any]:
    return {"role": "user", "content": _fresh(text)}


def _called(arguments: object) -> list[dict[str, Any]]:
    call = {
        "id": "call00001",
        "type": "function",
        "function": {"name": "tool1", "arguments": arguments},
    }
    return [
        _user(),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "Tool response", "tool_call_id": "call00001"},
        {"role": "assistant", "content": "The tool response was 'tool response'"},
        _user(),
    ]


def _tools() -> list[dict[str, Any]]:
    schema = {
        "type": "object",
        "properties": {"arg": {"type": "string", "description": "Arg description"}},
        "required": ["arg"],
    }
    function = {"name": _fresh("tool1"), "description": "Tool description", "parameters": schema}
    return [{"name": "tool", "type": "function", "function": function}]


class _Probe:
    def __init__(
        self, program: Program, now: dt.datetime | None, messages: list[dict[str, Any]], tools: list[Any]
    ) -> None:
        for attempt in range(2):
            self.usage = ValueUsage()
            self.messages, self.tools = messages, tools
            variables = {
                "messages": messages,
                "tools": tools,
                "bos_token": "",
                "eos_token": "",
                "add_generation_prompt": True,
            }
            try:
                self.text = program.render(variables, Run(now, self.usage, limit=OPENING_STEPS))
            except TemplateTooLarge:
                raise
            except TemplateError:
                self.text, self.success = "", False
            else:
                self.success = True
                return
            # Some templates require a thought in every answer; the server retries with empty ones.
            lacking = [m for m in messages if m["role"] == "assistant" and "reasoning_content" not in m]
            if attempt or not lacking:
                return
            for message in lacking:
                message["reasoning_content"] = ""

    def used(self, value: object) -> bool:
        return id(value) in self.usage.used

    def did(self, value: object, *operations: str) -> bool:
        return any((id(value), operation) in self.usage.operations for operation in operations)


def capabilities(program: Program, now: dt.datetime | None) -> TemplateCapabilities:
    marker = "STRING_MARKER"
    string_content, typed_content = True, False
    probe = _Probe(program, now, [_user(marker)], [])
    content = probe.messages[0]["content"]
    as_list = probe.did(content, "selectattr", "array_access")
    typed_content = as_list
    if not probe.success or (as_list and marker not in probe.text):
        string_content = False
    if probe.did(content, "test_is_string"):
        probe = _Probe(program, now, [{"role": "user", "content": []}], [])
        content = probe.messages[0]["content"]
        typed_content |= probe.success and probe.did(content, "selectattr", "array_access")

    system = {"role": "system", "content": _fresh("System message")}
    probe = _Probe(program, now, [system, _user()], [])
    system_role = probe.used(system["content"])

    tool_calls, object_arguments = True, False
    argument = _fresh("value")
    probe = _Probe(program, now, _called({"arg": argument}), _tools())
    if probe.success:
        tool_calls = probe.used(probe.messages[1]["tool_calls"])
        object_arguments = tool_calls and probe.used(argument)
    if not object_arguments:
        probe = _Probe(program, now, _called(_fresh('{"arg": "value"}')), _tools())
        if not probe.success or not probe.used(probe.messages[1]["tool_calls"]):
            tool_calls = False
    return TemplateCapabilities(string_content, typed_content, system_role, tool_calls, object_arguments)


# Reasoning

_USER: Final = "U_USER_MSG Hello END_U"
_ANSWER: Final = "A_ASST_MSG I can help END_A"
_THOUGHT: Final = "REASON_PART I am thinking END_R"
_BLANK: Final = r"[ \t\n\v\f\r]*"
_AFTER: Final = re.compile(rf"({_BLANK})((?:<[^>]*>|\[[^\]]*\]){_BLANK})")
# The marker before a thought, in the text before it, backwards.
_BEFORE: Final = re.compile(rf"{_BLANK}(?:>[^>]*<|\][^\]]*\[)")
# A marker, a text before the next one, or the rest of a text after a bracket that is not closed.
_PIECE: Final = re.compile(r"<[^>]*>|\[[^\]]*\]|[^<\[]+|.+", re.DOTALL)
_FURTHEST: Final = 4_096  # characters of a marker
_MOST_THOUGHTS: Final = 100


def reasoning(render: Callable[[Mapping[str, Any]], str], source: str, *, tool_calls: bool) -> Reasoning:
    """Return the markers of thoughts, as the server's automatic parser detects them."""
    found = Reasoning()

    def compare(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[str, str]:
        """Return both texts; two empty ones if the template refuses."""
        try:
            return render(first), render(second)
        except TemplateTooLarge:
            raise
        except TemplateError:
            return "", ""

    _presence(found, compare)
    _switch(found, compare)
    if tool_calls:
        _scope(found, compare)
    _known(found, source)
    return found


def _variables(
    messages: list[dict[str, Any]],
    *,
    prompt: bool = False,
    thinking: bool = True,
    tools: Any = None,
) -> dict[str, Any]:
    made: dict[str, Any] = {"messages": messages, "enable_thinking": thinking}
    if tools is not None:
        made["tools"] = tools
    if prompt:
        made["add_generation_prompt"] = True
    return made


def _presence(found: Reasoning, compare: Callable[..., tuple[str, str]]) -> None:
    """Compare an answer with a thought and one without."""
    user = {"role": "user", "content": _USER}
    answer = {"role": "assistant", "content": _ANSWER}
    outputs = compare(
        _variables([user, answer]), _variables([user, {**answer, "reasoning_content": _THOUGHT}])
    )
    if _THOUGHT not in split_difference(*outputs)[1]:
        return
    start, blank, end = _markers(outputs[1])
    if start:
        found.present, found.start, found.end = True, start, blank + end
    elif end:
        found.present, found.end = True, end


def _switch(found: Reasoning, compare: Callable[..., tuple[str, str]]) -> None:
    """Compare prompts with thinking disabled and enabled."""
    user = [{"role": "user", "content": _USER}]
    outputs = compare(
        _variables(user, prompt=True, thinking=False), _variables(user, prompt=True, thinking=True)
    )
    left, right = split_difference(*outputs)
    bare_left, bare_right = left.strip(SPACE), right.strip(SPACE)
    if not bare_left and right:
        if bare_right and outputs[1].endswith(bare_right) and not found.start:
            found.start, found.present = right, True
    elif not bare_right and left:
        if bare_left and outputs[0].endswith(bare_left) and not found.end:
            parts = [part for part in segments(outputs[0]) if part[1].strip(SPACE)]
            if len(parts) >= 2 and parts[-1][1] == bare_left and parts[-2][0]:
                found.start = parts[-2][1]
            found.end, found.present = left, True
    elif bare_left and bare_right:
        _tails(found, *outputs)
    if not found.present and not found.start and found.end:
        found.present = True


def _tails(found: Reasoning, off: str, on: str) -> None:
    """Find the markers of thoughts that follow the end of one prompt within the other."""
    for base, extended in ((on, off), (off, on)):
        anchor = base[-min(len(base), 64) :] if base else ""
        place = extended.rfind(anchor)
        if place < 0 or place + len(anchor) >= len(extended):
            continue
        extra = extended[place + len(anchor) :].strip(SPACE)
        if not extra:
            continue
        parts = [part for part in segments(extra) if part[1].strip(SPACE)]
        if len(parts) == 2 and parts[0][0] and parts[1][0]:
            found.start = found.start or parts[0][1]
            found.end = found.end or parts[1][1]
            found.present = True
            return


def _scope(found: Reasoning, compare: Callable[..., tuple[str, str]]) -> None:
    """Detect templates that show thoughts only together with tool calls."""
    schema = {
        "type": "object",
        "properties": {
            "AA_ARG_FST_AA": {"type": "string", "description": "First argument"},
            "BB_ARG_SND_BB": {"type": "string", "description": "Second argument"},
        },
        "required": [],
    }
    functions = (("FFF_FIRST_FUN_F", "Test function foo"), ("SSS_SECOND_FUN_S", "Test function bar"))
    tools = [
        {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}
        for name, about in functions
    ]
    arguments = {"AA_ARG_FST_AA": "VVVV", "BB_ARG_SND_BB": "XXXX"}
    call = {
        "id": "call00001",
        "type": "function",
        "function": {"name": "FFF_FIRST_FUN_F", "arguments": arguments},
    }
    user = {"role": "user", "content": _USER}
    said = {"role": "assistant", "content": _ANSWER, "reasoning_content": _THOUGHT}
    called = {"role": "assistant", "content": None, "reasoning_content": _THOUGHT, "tool_calls": [call]}
    outputs = compare(_variables([user, said], tools=tools), _variables([user, called], tools=tools))
    if _THOUGHT in outputs[0] or _THOUGHT not in outputs[1]:
        return
    found.present = True
    start, _, end = _markers(outputs[1])
    found.start, found.end = start or found.start, end


def _markers(text: str) -> tuple[str, str, str]:
    """Return the marker before a thought, the blanks after the thought, and the marker after these.

    Each marker includes the blanks behind it. The first thought that stands between two markers gives both.
    If no thought does, the marker before is empty, and the first thought gives the one after, if it has one.
    """
    place, first = text.find(_THOUGHT), ("", "", "")
    for turn in range(_MOST_THOUGHTS):
        before = _BEFORE.match(text[max(0, place - _FURTHEST) : place][::-1])
        after = _AFTER.match(text, place + len(_THOUGHT))
        if before and after:
            return before[0][::-1], after[1], after[2]
        if after and not turn:
            first = "", after[1], after[2]
        place = text.find(_THOUGHT, place + 1)
        if place < 0:
            break
    return first


def _known(found: Reasoning, source: str) -> None:
    """Set the markers of templates that the server recognizes by their source."""
    old_qwen = "content.split('</think>')" in source and "reasoning_content" not in source
    granite = (
        "Write your thoughts between <think></think> and write your response between <response></response>"
    )
    if (old_qwen and "<SPECIAL_12>" not in source and not found.present) or granite in source:
        found.present, found.start, found.end = True, "<think>", "</think>"
    nemotron = ("<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>", "<TOOL_RESPONSE>")
    if all(word in source for word in nemotron):
        found.present, found.start, found.end = True, "<think>\n", "</think>"
    if "laguna_glm_thinking" in source:
        found.start, found.end = found.start.strip(SPACE), found.end.strip(SPACE)


def segments(text: str) -> list[tuple[bool, str]]:
    """Split the text into pieces; those in angle or square brackets are markers."""
    return [(piece[0] + piece[-1] in {"<>", "[]"}, piece) for piece in _PIECE.findall(text)]


def split_difference(left: str, right: str) -> tuple[str, str]:
    """Return the differing parts of two texts, by segments (``calculate_diff_split``)."""
    a, b = deque(segments(left)), deque(segments(right))
    if not a or not b:
        return (left if not b else "", right if not a else "")
    done: set[int] = set()  # the texts whose last remaining segment is in the other, too
    while len(a) > 1 and len(b) > 1:
        same_start, same_end = a[0] == b[0], a[-1] == b[-1]
        if not same_start and not same_end:
            break
        for parts in (a, b):
            if same_start:
                parts.popleft()
            if same_end and len(parts) > 1:
                parts.pop()
            elif same_end:
                done.add(id(parts))
    short, long = (a, b) if len(a) <= len(b) else (b, a)
    if len(short) == 1 < len(long) and short[0] in {long[0], long[-1]}:
        long.pop() if short[0] == long[-1] else long.popleft()
        done.add(id(short))
    elif len(long) == 1 and a[0] == b[0] and a[0][0]:
        done = {id(a), id(b)}
    shared_end, shared_start = not a[-1][0] and not b[-1][0], not a[0][0] and not b[0][0]
    rest_a, rest_b = (
        "".join(piece for _, piece in list(parts)[: len(parts) - (id(parts) in done)]) for parts in (a, b)
    )
    end = common_prefix(rest_a[::-1], rest_b[::-1]) if shared_end else 0
    start = common_prefix(rest_a[: len(rest_a) - end], rest_b[: len(rest_b) - end]) if shared_start else 0
    only_a, only_b = rest_a[start : len(rest_a) - end], rest_b[start : len(rest_b) - end]
    if not only_a and only_b and right.startswith(left):
        only_b = right[len(left) :]
    return only_a, only_b
