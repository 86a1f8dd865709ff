"""One library and one size in one process: ``conversation_worker.py LIBRARY N REPEATS MODE`` prints JSON.

The conversation has N messages of about 100 o200k tokens, user and assistant in turn. Mode ``turn``: seconds
to add a user message and enforce the budget, which has room; for tokenbox also those of ``enforce_budget``.
Mode ``cold``: seconds to reduce N new messages to half of their tokens, and the characters tokenized as a
multiple of the characters of the messages.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import counters
import workload

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or LiteLLM downloads its price list

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Messages = list[dict[str, str]]

ROOM = 10**9


class Tokenbox:
    """A ``Conversation`` for turns, ``fit`` for a list."""

    def __init__(self, recorder: counters.Recorder | None) -> None:
        import ours

        self._tokenizer = ours.tokenizer("o200k", "tiktoken", recorder)
        self.enforcing: list[float] = []

    def begin(self, messages: Messages) -> Callable[[dict[str, str]], object]:
        from tokenbox import Conversation

        conversation = Conversation("You are terse.", self._tokenizer, token_budget=ROOM)
        conversation.extend(messages)
        conversation.enforce_budget()

        def turn(message: dict[str, str]) -> object:
            conversation.add(message)
            start = time.perf_counter()
            result = conversation.enforce_budget()
            self.enforcing.append(time.perf_counter() - start)
            return result

        return turn

    def cold(self, messages: Messages, budget: int) -> int:
        from tokenbox import fit

        return len(fit(messages, budget, self._tokenizer).messages)


class LangChain:
    """``trim_messages`` with a counter, applied to the whole list at every turn."""

    def __init__(self, recorder: counters.Recorder | None) -> None:
        plain = counters.counter("o200k")
        self._count = (plain if recorder is None else counters.recorded(plain, recorder)).count

    def begin(self, messages: Messages) -> Callable[[dict[str, str]], object]:
        from langchain_core.messages import HumanMessage, convert_to_messages

        there = convert_to_messages(messages)

        def turn(message: dict[str, str]) -> object:
            there.append(HumanMessage(message["content"]))
            return self._trim(there, ROOM)

        return turn

    def cold(self, messages: Messages, budget: int) -> int:
        from langchain_core.messages import convert_to_messages

        return len(self._trim(convert_to_messages(messages), budget))

    def _trim(self, messages: Sequence[Any], budget: int) -> list[Any]:
        from langchain_core.messages import trim_messages

        def count_messages(some: list[Any]) -> int:
            return sum([self._count(message.content) for message in some])

        return trim_messages(
            messages, max_tokens=budget, token_counter=count_messages, strategy="last", start_on="human"
        )


class LiteLLM:
    """``trim_messages`` for gpt-4o, applied to the whole list at every turn."""

    def __init__(self, recorder: counters.Recorder | None) -> None:
        from litellm import utils
        from litellm.litellm_core_utils import token_counter as counting
        from peers.litellm import _Encoding

        plain = counters.counter("o200k")
        encoding = _Encoding(plain if recorder is None else counters.recorded(plain, recorder))
        counting.openai_tokenizer_encoding = lambda _model: encoding
        self._trim = utils.trim_messages

    def begin(self, messages: Messages) -> Callable[[dict[str, str]], object]:
        there = list(messages)

        def turn(message: dict[str, str]) -> object:
            there.append(message)
            return self._trim(there, model="gpt-4o", max_tokens=ROOM)

        return turn

    def cold(self, messages: Messages, budget: int) -> int:
        return len(self._trim(messages, model="gpt-4o", max_tokens=budget))


class LlamaIndex:
    """A ``Memory``: ``put`` and ``get`` at every turn."""

    def __init__(self, recorder: counters.Recorder | None) -> None:
        plain = counters.counter("o200k")
        self._encode = (plain if recorder is None else counters.recorded(plain, recorder)).encode

    def begin(self, messages: Messages) -> Callable[[dict[str, str]], object]:
        from llama_index.core.base.llms.types import ChatMessage

        memory = self._memory(ROOM, messages)

        def turn(message: dict[str, str]) -> object:
            memory.put(ChatMessage(**message))
            return memory.get()

        return turn

    def cold(self, messages: Messages, budget: int) -> int:
        return len(self._memory(budget, messages).get())

    def _memory(self, budget: int, messages: Messages) -> Any:  # noqa: ANN401  # LlamaIndex's
        from llama_index.core.base.llms.types import ChatMessage
        from llama_index.core.memory import Memory

        memory = Memory.from_defaults(
            token_limit=budget, tokenizer_fn=self._encode, chat_history_token_ratio=1.0
        )
        memory.put_messages([ChatMessage(**message) for message in messages])
        return memory


LIBRARIES = {
    "tokenbox": Tokenbox,
    "langchain-core": LangChain,
    "litellm": LiteLLM,
    "llama-index-core": LlamaIndex,
}


def conversation(n: int, variant: int) -> Messages:
    texts = [item.text for item in workload.items(n, variant)]
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


def turns(library: Tokenbox | LangChain | LiteLLM | LlamaIndex, n: int, repeats: int) -> list[float]:
    messages = conversation(n + 2 * repeats, 1)
    turn = library.begin(messages[:n])
    seconds = []
    gc.collect()
    for k in range(repeats):
        start = time.perf_counter()
        turn({"role": "user", "content": messages[n + k]["content"]})
        seconds.append(time.perf_counter() - start)
    return seconds


def main() -> None:
    name, n, repeats, what = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    make = LIBRARIES[name]
    if what == "turn":
        library = make(None)
        answer: dict[str, Any] = {"seconds": turns(library, n, repeats)}
        answer["enforcing"] = getattr(library, "enforcing", [])
    else:
        library = make(None)
        library.cold(conversation(20, 90), 500)  # load the vocabulary
        seconds = []
        for variant in range(repeats):
            messages = conversation(n, 2 + variant)
            gc.collect()
            start = time.perf_counter()
            library.cold(messages, 52 * n)
            seconds.append(time.perf_counter() - start)
        recorder = counters.Recorder()
        messages = conversation(n, 80)
        kept = make(recorder).cold(messages, 52 * n)
        there = sum(len(message["content"]) for message in messages)
        answer = {"seconds": seconds, "corpus": recorder.characters / there, "kept": kept}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
