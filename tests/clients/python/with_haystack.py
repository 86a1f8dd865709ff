"""Haystack's agent with and without ``FitHook``: ``with_haystack.py URL``."""

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import tool
from haystack.utils import Secret
from looping import BUDGET, MODEL, QUESTION, SYSTEM, page, report

from tokenbox.integrations.haystack import FitHook


@tool
def read_page(number: int) -> str:
    """Read a page of the book."""
    return page(number)


def run(url, *hooks):
    generator = OpenAIChatGenerator(
        model=MODEL, api_base_url=f"{url}/v1", api_key=Secret.from_token("none"), max_retries=0
    )
    agent = Agent(
        chat_generator=generator,
        tools=[read_page],
        system_prompt=SYSTEM,
        hooks={"before_llm": list(hooks)} if hooks else None,
    )
    result = agent.run(messages=[ChatMessage.from_user(QUESTION)])
    assert result["messages"][0].text == SYSTEM
    return [result["messages"][-1].text, result["step_count"]]


def saved(_):
    hook = FitHook(BUDGET, model=MODEL, keep_results=2)
    again = FitHook.from_dict(hook.to_dict())
    return again.to_dict() == hook.to_dict()


report({"without": run, "fitted": lambda url: run(url, FitHook(BUDGET, model=MODEL)), "saved": saved})
