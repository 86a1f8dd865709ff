"""Trim conversations with a library, in its own environment: ``trim_once.py NAME BUDGET``.

Reads a list of conversations from stdin. The output has the kept messages of each, in the chat completions
shape, or None if the library returns nothing or fails. Each library is called as its documentation shows and
counts o200k tokens; nothing is sent to a server.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Messages = list[dict[str, Any]]

# About 200 tokens: less than the 256 that langmem reserves for a summary.
SUMMARY = "The user asked about the project, and the assistant looked up what was needed. " * 13

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or LiteLLM downloads its price list


def langchain(messages: Messages, budget: int) -> Messages:
    """Keep whole turns and the system message, with an exact counter for requests."""
    from langchain_core.messages import convert_to_messages, convert_to_openai_messages, trim_messages

    import tokenbox

    def count(some: list[Any]) -> int:
        return tokenbox.count(convert_to_openai_messages(some), "gpt-4o").total

    kept = trim_messages(
        convert_to_messages(messages),
        max_tokens=budget,
        token_counter=count,
        strategy="last",
        start_on="human",
        end_on=("human", "tool"),
        include_system=True,
    )
    return convert_to_openai_messages(kept)  # type: ignore[return-value]


def litellm(messages: Messages, budget: int) -> Messages:
    from litellm.utils import trim_messages

    return trim_messages(messages, model="gpt-4o", max_tokens=budget)


def llamaindex(messages: Messages, budget: int) -> Messages:
    from llama_index.core.llms import ChatMessage
    from llama_index.core.memory import Memory

    import tokenbox

    encode = tokenbox.tokenizers.get("o200k_base").encode
    memory = Memory.from_defaults(token_limit=budget, tokenizer_fn=encode, chat_history_token_ratio=0.9)
    for message in messages[1:]:
        more = {key: message[key] for key in ("tool_calls", "tool_call_id") if key in message}
        memory.put(ChatMessage(role=message["role"], content=message["content"], additional_kwargs=more))
    kept = [
        {"role": one.role.value, "content": one.content or "", **one.additional_kwargs}
        for one in memory.get()
    ]
    return [messages[0], *kept]


def langmem(messages: Messages, budget: int) -> Messages:
    """Summarize what is beyond the budget, with an exact counter and a stub that says SUMMARY."""
    from langchain_core.messages import AIMessage, convert_to_messages, convert_to_openai_messages
    from langchain_core.runnables import RunnableLambda
    from langmem.short_term import summarize_messages

    import tokenbox

    def count(some: Any) -> int:  # noqa: ANN401  # what the library passes
        return tokenbox.count(convert_to_openai_messages(list(some)), "gpt-4o").total

    given = convert_to_messages(messages)
    for number, message in enumerate(given):
        message.id = str(number)
    done = summarize_messages(
        given,
        running_summary=None,
        model=RunnableLambda(lambda _: AIMessage(SUMMARY)),
        max_tokens=budget,
        token_counter=count,
    )
    return convert_to_openai_messages(done.messages)  # type: ignore[return-value]


def headroom(messages: Messages, budget: int) -> Messages:
    import headroom as library

    return list(library.compress(messages, model="gpt-4o", model_limit=budget).messages)


LIBRARIES: dict[str, Callable[[Messages, int], Messages]] = {
    "langchain-core": langchain,
    "litellm": litellm,
    "llama-index-core": llamaindex,
    "langmem": langmem,
    "headroom-ai": headroom,
}


def main() -> None:
    from importlib.metadata import version

    name, budget = sys.argv[1], int(sys.argv[2])
    # A library may print to stdout, so the answer goes to a copy of it.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    kept: list[Messages | None] = []
    for messages in json.load(sys.stdin):
        try:
            kept.append(LIBRARIES[name](messages, budget) or None)
        except Exception as error:  # noqa: BLE001  # a failure is a result
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            kept.append(None)
    json.dump({"version": version(name), "kept": kept}, out)
    out.flush()


if __name__ == "__main__":
    main()
