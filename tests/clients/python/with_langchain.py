"""LangChain's agent (of LangGraph) with and without ``FitMiddleware``: ``with_langchain.py URL``."""

import asyncio
from types import SimpleNamespace

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from looping import BUDGET, MODEL, QUESTION, SYSTEM, page, report

import tokenbox
from tokenbox.integrations.langchain import FitMiddleware, name_of, trim_messages


@tool
def read_page(number: int) -> str:
    """Read a page of the book."""
    return page(number)


def agent(url, *middleware):
    model = ChatOpenAI(base_url=f"{url}/v1", api_key="none", model=MODEL, max_retries=0)
    return create_agent(model, [read_page], system_prompt=SYSTEM, middleware=list(middleware))


ASKED = {"messages": [{"role": "user", "content": QUESTION}]}


def said(state):
    results = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert all(m.content == page(n) for n, m in enumerate(results, 1))  # the state keeps all messages
    return [state["messages"][-1].content, len(results)]


def without(url):
    return said(agent(url).invoke(ASKED))


def fitted(url):
    return said(agent(url, FitMiddleware(BUDGET)).invoke(ASKED))


def fitted_async(url):
    return said(asyncio.run(agent(url, FitMiddleware(BUDGET)).ainvoke(ASKED)))


def streamed(url):
    *_, last = agent(url, FitMiddleware(BUDGET, low_water=0.7)).stream(ASKED, stream_mode="values")
    return said(last)


def trimmed(_):
    call = {"name": "read_page", "args": {"number": 1}, "id": "a", "type": "tool_call"}
    messages = [
        SystemMessage(SYSTEM),
        *[HumanMessage(f"Question {n}: " + "why? " * 50) for n in range(20)],
        AIMessage("", tool_calls=[call]),
        ToolMessage(page(1), tool_call_id="a"),
        HumanMessage(QUESTION),
    ]
    found = trim_messages(messages, max_tokens=300, model=MODEL, tools=[read_page])
    assert tokenbox.count(found, MODEL).total < 300
    assert found[0] is messages[0]
    assert found[-1] is messages[-1]
    chained = trim_messages(max_tokens=300, model=MODEL, tools=[read_page]) | len
    assert chained.invoke(messages) == len(found)
    prompt = ChatPromptTemplate([("system", SYSTEM), MessagesPlaceholder("history"), ("human", "{question}")])
    after_prompt = prompt | trim_messages(max_tokens=300, model=MODEL) | (lambda few: few[0].content)
    assert after_prompt.invoke({"history": messages[1:20], "question": QUESTION}) == SYSTEM
    assert name_of(ChatOpenAI(api_key="none", model=MODEL)) == MODEL
    assert name_of(SimpleNamespace(model="claude-sonnet-4-5")) == "claude-sonnet-4-5"  # ChatAnthropic
    tuples = trim_messages([("system", SYSTEM), ("human", QUESTION)], max_tokens=300, model=MODEL)
    return [type(m).__name__ for m in tuples]


report(
    {"without": without, "fitted": fitted, "async": fitted_async, "streamed": streamed, "trimmed": trimmed}
)
