"""pydantic-ai's agent with and without ``FitHistory``: ``with_pydantic_ai.py URL``."""

from looping import BUDGET, MODEL, QUESTION, SYSTEM, page, report
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tokenbox.integrations.pydantic_ai import FitHistory


def run(url, *capabilities, **about):
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))
    agent = Agent(model, capabilities=list(capabilities), **about)

    @agent.tool_plain
    def read_page(number: int) -> str:
        """Read a page of the book."""
        return page(number)

    result = agent.run_sync(QUESTION)
    returns = [
        part for message in result.all_messages() for part in message.parts if part.part_kind == "tool-return"
    ]
    assert all(part.content == page(n) for n, part in enumerate(returns, 1))  # the history keeps all
    return [result.output, len(returns)]


report(
    {
        "without": lambda url: run(url, instructions=SYSTEM),
        "fitted": lambda url: run(url, FitHistory(BUDGET), instructions=SYSTEM),
        "pinned": lambda url: run(url, FitHistory(BUDGET), system_prompt=SYSTEM),
    }
)
