"""LiteLLM in a loop of tool calls, with and without ``FitCallback``: ``with_litellm.py URL``."""

import asyncio
import json

import litellm
from looping import BUDGET, MODEL, QUESTION, SYSTEM, page, report

from tokenbox.integrations.litellm import FitCallback

PARAMETERS = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
ABOUT = {"name": "read_page", "description": "Read a page of the book.", "parameters": PARAMETERS}
TOOL = {"type": "function", "function": ABOUT}
litellm.num_retries = 0


def loop(ask):
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    for rounds in range(20):
        message = ask(messages).choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return [message.content, rounds]
        for call in message.tool_calls:
            text = page(json.loads(call.function.arguments)["number"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return [None, None]


def about(url):
    return {"model": f"openai/{MODEL}", "api_base": f"{url}/v1", "api_key": "none", "tools": [TOOL]}


def without(url):
    litellm.callbacks = []
    return loop(lambda messages: litellm.completion(messages=messages, **about(url)))


def fitted(url):
    calls = []
    litellm.callbacks = [FitCallback(BUDGET, on_call=calls.append)]

    async def talk():
        async def ask(messages):
            return await litellm.acompletion(messages=messages, **about(url))

        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
        rounds = 0
        while True:
            message = (await ask(messages)).choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                break
            rounds += 1
            for call in message.tool_calls:
                text = page(json.loads(call.function.arguments)["number"])
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
        for _ in range(500):  # LiteLLM calls its callbacks a little later
            if len(calls) > rounds:
                break
            await asyncio.sleep(0.02)
        return [message.content, rounds]

    said = asyncio.run(talk())
    assert [call.difference for call in calls] == [0] * (said[1] + 1), calls
    return said


def fitted_by_hand(url):
    litellm.callbacks = []
    callback = FitCallback(BUDGET)

    def ask(messages):
        few = callback.fitted(f"openai/{MODEL}", messages, [TOOL])
        return litellm.completion(messages=few, **about(url))

    return loop(ask)


report({"without": without, "fitted": fitted, "by hand": fitted_by_hand})
