"""OpenAI Agents with and without ``fit_input``: ``with_openai_agents.py URL``."""

import asyncio

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from looping import BUDGET, MODEL, QUESTION, SYSTEM, page, report
from openai import AsyncOpenAI

from tokenbox.integrations.openai_agents import fit_input

set_tracing_disabled(True)


@function_tool
def read_page(number: int) -> str:
    """Read a page of the book."""
    return page(number)


def run(url, kind, config=None):
    model = kind(MODEL, AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))
    agent = Agent(name="reader", instructions=SYSTEM, model=model, tools=[read_page])
    session = SQLiteSession("one")

    async def asked():
        result = await Runner.run(agent, QUESTION, run_config=config, session=session, max_turns=20)
        return result.final_output, await session.get_items()

    output, items = asyncio.run(asked())
    outputs = [item for item in items if item.get("type") == "function_call_output"]
    assert all(item["output"] == page(n) for n, item in enumerate(outputs, 1))  # the session keeps all
    return [output, len(outputs)]


def config():
    return RunConfig(call_model_input_filter=fit_input(BUDGET))


report(
    {
        "without": lambda url: run(url, OpenAIResponsesModel),
        "fitted": lambda url: run(url, OpenAIResponsesModel, config()),
        "chat": lambda url: run(url, OpenAIChatCompletionsModel, config()),
    }
)
