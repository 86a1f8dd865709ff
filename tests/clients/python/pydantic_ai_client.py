"""pydantic-ai with its OpenAI and Anthropic models: ``pydantic_ai_client.py URL MODEL``."""

import asyncio
from importlib.metadata import version

from asking import LONG, QUESTION, report
from pydantic_ai import Agent, ModelContextWindowExceededError
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider


async def asked(model: object) -> dict[str, object]:
    agent = Agent(model, system_prompt="Be brief.", model_settings={"max_tokens": 8})
    answer = await agent.run(QUESTION)
    async with agent.run_stream(QUESTION) as streamed:
        text = await streamed.get_output()
    calls: list[object] = []

    def get_weather(city: str) -> str:
        """The weather in a city."""
        calls.append(["get_weather", {"city": city}])
        return "Sunny."

    with_tool = await Agent(model, tools=[get_weather], model_settings={"max_tokens": 8}).run(QUESTION)
    over = {}
    try:
        await agent.run(LONG[0]["content"])
    except ModelContextWindowExceededError as error:
        over = {"class": type(error).__name__}
    except Exception as error:
        over = {"class": type(error).__name__, "message": str(error)[:500]}
    return {
        "chat": answer.output,
        "input_tokens": answer.usage.input_tokens,
        "stream": text,
        "tools": calls,
        "after_tool": with_tool.output,
        "over": over,
    }


async def both(url: str, model: str) -> dict[str, object]:
    openai = OpenAIChatModel(model, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))
    anthropic = AnthropicModel(model, provider=AnthropicProvider(base_url=url, api_key="none"))
    return {
        "version": version("pydantic-ai-slim"),
        **await asked(openai),
        "anthropic": await asked(anthropic),
    }


report(lambda url, model: asyncio.run(both(url, model)))
