"""Trim a session with a library: ``python trimmers.py MODEL_FOLDER BUDGET NAME``, in bench/.venv.

Reads the session as JSON from stdin. The output has the kept messages of each request: the index of a message
of the session, or the message itself if the library changed it.
"""

from __future__ import annotations

import json
import os
import sys
from functools import cache, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from session import Prompts, identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Messages = Sequence[dict[str, Any]]
    Kept = list[dict[str, Any]]

DISTRIBUTIONS = {"LangChain": "langchain-core", "LiteLLM": "litellm", "LlamaIndex": "llama-index-core"}


def langchain(prompts: Prompts, budget: int) -> Callable[[Messages], Kept]:
    """Keep whole turns and the system message, as its documentation recommends for chat histories."""
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
        trim_messages,
    )

    kinds = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage, "tool": ToolMessage}

    def made(place: int, message: dict[str, Any]) -> BaseMessage:
        calls = [
            {"id": call["id"], "name": call["function"]["name"], "args": {}}
            for call in message.get("tool_calls", ())
        ]
        more: dict[str, Any] = {"tool_calls": calls} if calls else {}
        if "tool_call_id" in message:
            more["tool_call_id"] = message["tool_call_id"]
        return kinds[message["role"]](message["content"], id=str(place), **more)

    def trim(messages: Messages) -> Kept:
        kept = trim_messages(
            [made(place, message) for place, message in enumerate(messages)],
            max_tokens=budget,
            token_counter=lambda some: prompts.count([messages[int(one.id or 0)] for one in some]),
            strategy="last",
            start_on="human",
            end_on=("human", "tool"),
            include_system=True,
        )
        return [messages[int(message.id or 0)] for message in kept]

    return trim


def litellm(prompts: Prompts, budget: int, *, exact: bool) -> Callable[[Messages], Kept]:
    """Trim with its own counter, which lacks the model's tokenizer, or with an ``exact`` one in its place."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    from litellm import utils
    from litellm.litellm_core_utils import token_counter as counting

    if exact:
        utils.token_counter = lambda model, messages: prompts.count(messages)
    else:
        # The same counts with a cache: it counts every text hundreds of times.
        shipped = counting._get_default_encoding()
        encode = cache(partial(shipped.encode, disallowed_special=()))
        remembering = SimpleNamespace(encode=lambda text, **_: encode(text))
        counting._get_default_encoding = lambda: remembering
    return lambda messages: utils.trim_messages(list(messages), model="tiny", max_tokens=budget)


def llamaindex(prompts: Prompts, budget: int, **options: Any) -> Iterator[Kept]:
    """Feed a memory message by message; the system prompt is kept outside of it."""
    from llama_index.core.llms import ChatMessage
    from llama_index.core.memory import Memory

    share = options.pop("flush", None)
    messages: Messages = yield []
    limit = budget - prompts.count(messages[:1])
    if share is not None:
        options["token_flush_size"] = int(limit * share)
    memory = Memory.from_defaults(
        token_limit=limit, tokenizer_fn=lambda text: list(prompts.tokens(text)), **options
    )
    by_identity: dict[Any, dict[str, Any]] = {}
    taken = 1
    while True:
        for message in messages[taken:]:
            by_identity[identity(message)] = message
            more = {key: message[key] for key in ("tool_calls", "tool_call_id") if key in message}
            memory.put(ChatMessage(role=message["role"], content=message["content"], additional_kwargs=more))
        taken = len(messages)
        kept = [
            {"role": one.role.value, "content": one.content or "", **one.additional_kwargs}
            for one in memory.get()
        ]
        messages = yield [messages[0], *(by_identity[identity(message)] for message in kept)]


def memory(prompts: Prompts, budget: int, **options: Any) -> Callable[[Messages], Kept]:
    running = llamaindex(prompts, budget, **options)
    next(running)
    return running.send  # type: ignore[attr-defined]  # a generator


TRIMMERS: dict[str, Callable[[Prompts, int], Callable[[Messages], Kept]]] = {
    "LangChain trim_messages": langchain,
    "LiteLLM trim_messages, exact counter": lambda p, b: litellm(p, b, exact=True),
    "LiteLLM trim_messages, as shipped": lambda p, b: litellm(p, b, exact=False),
    "LlamaIndex Memory, default": memory,
    "LlamaIndex Memory, flush 0.3": lambda p, b: memory(p, b, flush=0.3),
    "LlamaIndex Memory, flush 0.1": lambda p, b: memory(p, b, flush=0.1),
    # It counts texts without the chat template: 0.9 leaves room for that.
    "LlamaIndex Memory, all history, flush 0.3": lambda p, b: memory(
        p, b, flush=0.3, chat_history_token_ratio=1.0
    ),
    "LlamaIndex Memory, 0.9 history, flush 0.3": lambda p, b: memory(
        p, b, flush=0.3, chat_history_token_ratio=0.9
    ),
    "LlamaIndex Memory, 0.9 history, flush 0.1": lambda p, b: memory(
        p, b, flush=0.1, chat_history_token_ratio=0.9
    ),
}


def main() -> None:
    folder, budget, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    # A library may print to stdout, so the answer goes to a copy of it.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    given = json.load(sys.stdin)
    messages, places = given["messages"], {identity(m): i for i, m in enumerate(given["messages"])}
    trim = TRIMMERS[name](Prompts(folder), budget)
    from importlib.metadata import version

    kept = [[places.get(identity(m), m) for m in trim(messages[:end])] for end in given["requests"]]
    json.dump({"version": version(DISTRIBUTIONS[name.split()[0]]), "kept": kept}, out)
    out.flush()


if __name__ == "__main__":
    main()
