"""Message objects of six libraries: tokenbox reads them, and ``fit`` returns the same objects."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "src"))

import anthropic.types as anthropic
from agents import Agent
from agents.items import MessageOutputItem, ToolCallItem, ToolCallOutputItem
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from llama_index.core.base.llms.types import (
    CacheControl,
    CachePoint,
    CitationBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.llms import ChatMessage, TextBlock
from openai.types.chat import ChatCompletionMessage
from openai.types.chat.chat_completion_message_function_tool_call import (
    ChatCompletionMessageFunctionToolCall,
    Function,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_reasoning_item import Summary
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

import tokenbox
from tokenbox.content.items import read_items

ARGUMENTS = '{"city": "Paris"}'
SAID = ResponseOutputMessage(
    id="m",
    role="assistant",
    status="completed",
    type="message",
    content=[ResponseOutputText(type="output_text", text="18 degrees.", annotations=[])],
)
CALLED = ResponseFunctionToolCall(arguments=ARGUMENTS, call_id="a", name="weather", type="function_call")
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "18"}
AGENT = Agent(name="weather")

CONVERSATIONS = {
    "openai chat": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather in Paris?"},
        ChatCompletionMessage(
            role="assistant",
            tool_calls=[
                ChatCompletionMessageFunctionToolCall(
                    id="a", type="function", function=Function(name="weather", arguments=ARGUMENTS)
                )
            ],
        ),
        {"role": "tool", "tool_call_id": "a", "content": "18"},
        ChatCompletionMessage(role="assistant", content="18 degrees."),
    ],
    "openai responses": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather in Paris?"},
        ResponseReasoningItem(
            id="r", type="reasoning", summary=[Summary(type="summary_text", text="Look it up.")]
        ),
        CALLED,
        OUTPUT,
        SAID,
    ],
    "anthropic": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather in Paris?"},
        anthropic.Message(
            id="m",
            model="c",
            role="assistant",
            type="message",
            stop_reason="tool_use",
            usage=anthropic.Usage(input_tokens=1, output_tokens=1),
            content=[
                anthropic.ThinkingBlock(type="thinking", thinking="Look it up.", signature="s"),
                anthropic.ToolUseBlock(type="tool_use", id="a", name="weather", input={"city": "Paris"}),
            ],
        ),
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "18"}]},
        {"role": "assistant", "content": [anthropic.TextBlock(type="text", text="18 degrees.").model_dump()]},
    ],
    "langchain": [
        SystemMessage("Be brief."),
        HumanMessage("Weather in Paris?"),
        AIMessage(
            content=[{"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Paris"}}],
            tool_calls=[{"name": "weather", "args": {"city": "Paris"}, "id": "a"}],
            additional_kwargs={"reasoning_content": "Look it up."},
        ),
        ToolMessage("18", tool_call_id="a"),
        AIMessage("18 degrees."),
    ],
    "llama-index": [
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", content="Weather in Paris?"),
        ChatMessage(
            role="assistant",
            blocks=[
                ThinkingBlock(content="Look it up."),
                ToolCallBlock(tool_call_id="a", tool_name="weather", tool_kwargs={"city": "Paris"}),
            ],
        ),
        ChatMessage(role="tool", content="18", additional_kwargs={"tool_call_id": "a"}),
        ChatMessage(role="assistant", blocks=[TextBlock(text="18 degrees.")]),
    ],
    "pydantic-ai": [
        ModelRequest(parts=[SystemPromptPart("Be brief.")]),
        ModelRequest(parts=[UserPromptPart(["Weather in Paris?"])]),
        ModelResponse(parts=[ThinkingPart("Look it up."), ToolCallPart("weather", {"city": "Paris"}, "a")]),
        ModelRequest(parts=[ToolReturnPart("weather", "18", "a")]),
        ModelResponse(parts=[TextPart("18 degrees.")]),
    ],
    "openai agents": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather in Paris?"},
        ToolCallItem(agent=AGENT, raw_item=CALLED),
        ToolCallOutputItem(agent=AGENT, raw_item=OUTPUT, output="18"),
        MessageOutputItem(agent=AGENT, raw_item=SAID),
    ],
}

QUESTION = {"role": "user", "content": "Weather in Paris?"}
USED = anthropic.ToolUseBlock(type="tool_use", id="a", name="weather", input={"city": "Paris"})
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "18"}]}

# Messages built from responses, and parts that are not plain text: items, names of calls, texts.
SHAPES = {
    "anthropic: an answer's blocks in a message": (
        [
            QUESTION,
            {"role": "assistant", "content": [anthropic.TextBlock(type="text", text="I look."), USED]},
            RESULT,
        ],
        ["weather"],
        ["Weather in Paris?", "I look.", "18"],
    ),
    "openai: an answer's calls in a message": (
        [
            QUESTION,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    ChatCompletionMessageFunctionToolCall(
                        id="a", type="function", function=Function(name="weather", arguments=ARGUMENTS)
                    )
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "18"},
        ],
        ["weather"],
        ["Weather in Paris?", "18"],
    ),
    "langchain: Anthropic's blocks with a thought": (
        [
            HumanMessage("Weather in Paris?"),
            AIMessage(
                content=[
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "a", "name": "weather", "input": {}},
                ],
                tool_calls=[{"name": "weather", "args": {}, "id": "a"}],
            ),
            ToolMessage("18", tool_call_id="a"),
        ],
        ["weather"],
        ["Weather in Paris?", "I look.", "18"],
    ),
    "langchain: blocks of the Responses API": (
        [
            HumanMessage([{"type": "text-plain", "text": "Weather in Paris?"}]),
            AIMessage(
                content=[
                    {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
                    {"type": "function_call", "name": "weather", "arguments": "{}", "call_id": "a"},
                ],
                tool_calls=[{"name": "weather", "args": {}, "id": "a"}],
            ),
            ToolMessage([{"type": "text", "text": "18"}], tool_call_id="a"),
        ],
        ["weather"],
        ["Weather in Paris?", "18"],
    ),
    "llama-index: a citation and a cache mark": (
        [
            ChatMessage(
                role="user",
                blocks=[
                    TextBlock(text="Weather in Paris?"),
                    CachePoint(cache_control=CacheControl(type="ephemeral")),
                ],
            ),
            ChatMessage(
                role="assistant",
                blocks=[
                    CitationBlock(
                        cited_content=TextBlock(text="18 degrees."),
                        source="s",
                        title="t",
                        additional_location_info={},
                    )
                ],
            ),
        ],
        [],
        ["Weather in Paris?", "18 degrees."],
    ),
    "pydantic-ai: a system prompt beside the question, calls of the provider": (
        [
            ModelRequest(parts=[SystemPromptPart("Be brief."), UserPromptPart("Weather in Paris?")]),
            ModelResponse(
                parts=[
                    NativeToolCallPart("web_search", {"q": "Paris"}, "b"),
                    NativeToolReturnPart("web_search", {"r": "18"}, "b"),
                    TextPart("18 degrees."),
                ]
            ),
        ],
        [],
        ["Be brief.", "Weather in Paris?", 'web_search\n{"q": "Paris"}{"r":"18"}18 degrees.'],
    ),
}

facts = {}
for name, items in CONVERSATIONS.items():
    messages = [message for item in read_items(items) for message in item.messages]
    fitted = tokenbox.fit(items, 10_000, "o200k_base")
    longer = [items[0], *items[1:] * 3, {"role": "user", "content": "And tomorrow?"}]
    small = tokenbox.fit(longer, 250, "o200k_base")
    facts[name] = {
        "roles": [message.role.value for message in messages],
        "calls": [[c.name, json.loads(c.arguments)] for message in messages for c in message.tool_calls],
        "texts": [message.text for message in messages if message.text],
        "reasoning": [message.reasoning for message in messages if message.reasoning],
        "same_objects": all(a is b for a, b in zip(fitted.messages, items, strict=True)),
        "evicted_some": 2 <= len(small.messages) < len(longer) and small.total <= 250,
        "kept_are_given": all(any(m is item for item in longer) for m in small.messages),
    }
for name, (items, calls, texts) in SHAPES.items():
    messages = [message for item in read_items(items) for message in item.messages]
    fitted = tokenbox.fit(items, 10_000, "o200k_base")
    facts[name] = {
        "calls": [call.name for message in messages for call in message.tool_calls] == calls,
        "texts": [message.text for message in messages if message.text] == texts,
        "nothing_left": all(a is b for a, b in zip(fitted.messages, items, strict=True)),
    }
print(json.dumps(facts))
