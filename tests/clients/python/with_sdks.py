"""The SDKs of OpenAI and Anthropic, calling tools, with and without ``guarded``: ``with_sdks.py URL``."""

import asyncio
import json

from anthropic import Anthropic, AsyncAnthropic
from looping import BUDGET, MODEL, QUESTION, SYSTEM, page, report
from openai import AsyncOpenAI, OpenAI

from tokenbox.integrations import anthropic as for_anthropic
from tokenbox.integrations import openai as for_openai
from tokenbox.integrations.fitting import OverWindow

SCHEMA = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
ABOUT = {"name": "read_page", "description": "Read a page of the book."}
CHAT_TOOL = {"type": "function", "function": {**ABOUT, "parameters": SCHEMA}}
RESPONSES_TOOL = {"type": "function", **ABOUT, "parameters": SCHEMA, "strict": False}
ANTHROPIC_TOOL = {**ABOUT, "input_schema": SCHEMA}


def openai_client(url):
    return OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def chat(client):
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    for rounds in range(20):
        answer = client.chat.completions.create(model=MODEL, messages=messages, tools=[CHAT_TOOL])
        message = answer.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return [message.content, rounds]
        for call in message.tool_calls:
            text = page(json.loads(call.function.arguments)["number"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return [None, None]


def responses(client):
    items = [{"role": "user", "content": QUESTION}]
    for rounds in range(20):
        answer = client.responses.create(
            model=MODEL, input=items, instructions=SYSTEM, tools=[RESPONSES_TOOL]
        )
        items += answer.output
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return [answer.output_text, rounds]
        for call in calls:
            text = page(json.loads(call.arguments)["number"])
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": text})
    return [None, None]


def anthropic(client):
    messages = [{"role": "user", "content": QUESTION}]
    for rounds in range(20):
        answer = client.messages.create(
            model=MODEL, max_tokens=64, system=SYSTEM, messages=messages, tools=[ANTHROPIC_TOOL]
        )
        messages.append({"role": "assistant", "content": [block.model_dump() for block in answer.content]})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return [answer.content[0].text, rounds]
        results = [
            {"type": "tool_result", "tool_use_id": c.id, "content": page(c.input["number"])} for c in calls
        ]
        messages.append({"role": "user", "content": results})
    return [None, None]


def read_back(loop, wrap, client):
    """The loop with ``fit``; each prediction is what the server used."""
    calls = []
    said = loop(wrap(client, BUDGET, fit=True, on_call=calls.append))
    assert len(calls) == said[1] + 1
    assert [call.difference for call in calls] == [0] * len(calls), calls
    return said


def refused(url):
    """Without ``fit``: what would not fit is not sent, and the client itself stays as it was."""
    client = openai_client(url)
    guarded = for_openai.guarded(client, BUDGET)
    code, over = None, 0
    try:
        guarded.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": page(1) * 9}])
    except OverWindow as error:
        code, over = error.code, error.verdict.over
    assert over > 0
    assert "create" not in vars(client.chat.completions)
    small = guarded.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}])
    return [code, small.usage.prompt_tokens]


def by_window(url):
    """Without a budget, the model's own window and the request's own reserve decide."""
    guarded = for_openai.guarded(openai_client(url))
    long = [{"role": "user", "content": "one two three " * 200}]
    try:
        return guarded.chat.completions.create(model="gpt-4", max_tokens=8_000, messages=long)
    except OverWindow as error:
        return [error.verdict.limits.max_ctx, error.verdict.limits.reserve_out]


def streams(url):
    """Streams, and asynchronous clients, are read back once they ended."""
    used = []
    question = [{"role": "user", "content": QUESTION}]
    client = for_openai.guarded(openai_client(url), BUDGET, on_call=used.append)
    events = client.chat.completions.create(
        model=MODEL, messages=question, stream=True, stream_options={"include_usage": True}
    )
    assert not used
    text = "".join(event.choices[0].delta.content or "" for event in events if event.choices)
    with client.responses.create(model=MODEL, input=question, stream=True) as events:
        kinds = [event.type for event in events]
    assert kinds[-1] == "response.completed"
    other = for_anthropic.guarded(
        Anthropic(base_url=url, api_key="none", max_retries=0), BUDGET, on_call=used.append
    )
    list(other.messages.create(model=MODEL, max_tokens=9, messages=question, stream=True))

    async def asking():
        mine = AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        client = for_openai.guarded(mine, BUDGET, on_call=used.append)
        await client.chat.completions.create(model=MODEL, messages=question)
        async for _ in await client.responses.create(model=MODEL, input=question, stream=True):
            pass
        theirs = AsyncAnthropic(base_url=url, api_key="none", max_retries=0)
        client = for_anthropic.guarded(theirs, BUDGET, on_call=used.append)
        await client.messages.create(model=MODEL, max_tokens=9, messages=question)

    asyncio.run(asking())
    return [text, [call.difference for call in used]]


def anthropic_client(url):
    return Anthropic(base_url=url, api_key="none", max_retries=0)


report(
    {
        "without": lambda url: chat(openai_client(url)),
        "fitted": lambda url: read_back(chat, for_openai.guarded, openai_client(url)),
        "without responses": lambda url: responses(openai_client(url)),
        "fitted responses": lambda url: read_back(responses, for_openai.guarded, openai_client(url)),
        "without anthropic": lambda url: anthropic(anthropic_client(url)),
        "fitted anthropic": lambda url: read_back(anthropic, for_anthropic.guarded, anthropic_client(url)),
        "refused": refused,
        "by window": by_window,
        "streams": streams,
    }
)
