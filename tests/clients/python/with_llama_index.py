"""LlamaIndex's agent with its own memory and with ``FitMemory``: ``with_llama_index.py URL``."""

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.llms.openai import OpenAI
from looping import BUDGET, MODEL, SYSTEM, page, report

import tokenbox
from tokenbox.integrations.llama_index import FitMemory, SelectNodes

TURNS = 12


def read_page(number: int) -> str:
    """Read a page of the book."""
    return f"Page {number}."


def run(url, memory):
    model = OpenAI(model=MODEL, api_base=f"{url}/v1", api_key="none", max_retries=0)
    agent = FunctionAgent(tools=[read_page], llm=model, system_prompt=SYSTEM, streaming=False)

    async def talk():
        for turn in range(TURNS):
            answer = await agent.run(f"Question {turn}. {page(turn)}", memory=memory)
        return str(answer)

    answer = asyncio.run(talk())
    asked = [m for m in memory.get_all() if m.role == "user"]
    assert len(asked) == TURNS  # the memory keeps all messages
    return [answer, len(asked)]


def fitted(url):
    # The schema of the tool, the system prompt and the rounds of a run need room beside the memory.
    return run(url, FitMemory.from_defaults(budget=BUDGET - 300, model=MODEL))


def given_back(_):
    memory = FitMemory.from_defaults(
        [ChatMessage(role="user", content=page(n)) for n in range(9)], budget=800, model=MODEL
    )
    found = memory.get()
    assert tokenbox.count(found, MODEL).total <= 800
    assert found[-1].content == page(8)
    assert len(memory.get_all()) == 9
    assert tokenbox.count(memory.get(initial_token_count=300), MODEL).total <= 500
    memory.reset()
    assert memory.get() == []
    return "ok"


def selected(_):
    texts = ["Cats sleep.", "Dogs bark at the moon.", "Dogs bark at the moon.", "Rain falls."]
    nodes = [
        NodeWithScore(node=TextNode(text=text, metadata={"n": n}), score=n / 10)
        for n, text in enumerate(texts)
    ]
    by_words = SelectNodes(budget=14, model=MODEL, by_score=False)
    found = by_words.postprocess_nodes(nodes, QueryBundle("why do dogs bark"))
    assert [one.node.metadata["n"] for one in found] == [1]
    by_score = SelectNodes(budget=24, model=MODEL)
    found = by_score.postprocess_nodes(nodes)
    return [one.node.text for one in found]


report(
    {
        "without": lambda url: run(url, ChatMemoryBuffer.from_defaults(token_limit=100_000)),
        "fitted": fitted,
        "given_back": given_back,
        "selected": selected,
    }
)
