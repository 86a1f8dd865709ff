"""LangChain's ChatOpenAI: ``langchain_client.py URL MODEL``."""

from importlib.metadata import version

from asking import LONG, MESSAGES, TOOL, report
from langchain_core.exceptions import ContextOverflowError
from langchain_openai import ChatOpenAI


def run(url: str, model: str) -> dict[str, object]:
    chat = ChatOpenAI(base_url=f"{url}/v1", api_key="none", model=model, max_tokens=8, stream_usage=True)
    answer = chat.invoke(MESSAGES)
    chunks = list(chat.stream(MESSAGES))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    called = chat.bind_tools([TOOL]).invoke(MESSAGES)
    over = {}
    for name, ask in {"chat": lambda: chat.invoke(LONG), "stream": lambda: list(chat.stream(LONG))}.items():
        try:
            ask()
        except ContextOverflowError as error:
            over[name] = type(error).__name__
    return {
        "version": version("langchain-openai"),
        "chat": answer.content,
        "input_tokens": answer.usage_metadata["input_tokens"],
        "stream": whole.content,
        "stream_input_tokens": whole.usage_metadata["input_tokens"],
        "tools": [[call["name"], call["args"]] for call in called.tool_calls],
        "over": over,
    }


report(run)
