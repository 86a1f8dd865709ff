"""A generated session: 300 turns of a person and an assistant with tools, the same for the same seed.

Counted and cut into tokens as the llama.cpp server of the tests does it: by its chat template and vocabulary.
"""

from __future__ import annotations

import json
import pydoc_data.topics
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.conversation.chat_format import TemplateFormat

NEXT = {"role": "user", "content": "next"}
TURNS = 300
SYSTEM_TOKENS = 300
PHASE = 25
TURN_TOKENS = (20, 200)
"""What a user or an assistant says, and what a tool gives back."""


class Prompts:
    """Requests as the tokens that the server sees."""

    def __init__(self, folder: str) -> None:
        """``folder`` has ``tokenizer.json`` and ``tokenizer_config.json`` and a model of llama.cpp."""
        from tokenizers import Tokenizer

        from tokenbox.conversation import ChatFormat

        self._tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
        self.format: TemplateFormat = ChatFormat.open(folder, server="llama.cpp")
        self._known: dict[str, tuple[int, ...]] = {}
        self._turns: dict[tuple[tuple[str, ...], ...], tuple[int, ...]] = {}
        self.priming = self.tokens("<|im_start|>assistant\n")

    def tokens(self, text: str) -> tuple[int, ...]:
        known = self._known.get(text)
        if known is None:
            known = tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)
            self._known[text] = known
        return known

    def runs(self, messages: Sequence[dict[str, Any]]) -> list[tuple[int, ...]]:
        """The tokens of each message. Tool results that stand together share a turn, so they are one.

        Every turn begins and ends with a special token, so what is cut there is cut as the whole is.
        """
        groups: list[list[dict[str, Any]]] = []
        for message in messages:
            if groups and message["role"] == groups[-1][-1]["role"] == "tool":
                groups[-1].append(message)
            else:
                groups.append([message])
        return [self._turn(group) for group in groups]

    def request(self, messages: Sequence[dict[str, Any]]) -> list[int]:
        """The whole prompt."""
        return [token for run in (*self.runs(messages), self.priming) for token in run]

    @property
    def identity(self) -> Any:  # noqa: ANN401  # tokenbox's
        return self.format.identity

    def count_messages(
        self, messages: Sequence[Any], tools: None = None, *, add_generation_prompt: bool = True
    ) -> int:
        """As tokenbox asks for it."""
        made = [m if isinstance(m, dict) else m.to_dict() for m in messages]
        return self.count(made) - (0 if add_generation_prompt else len(self.priming))

    def count(self, messages: Sequence[dict[str, Any]]) -> int:
        return sum(map(len, self.runs(messages))) + len(self.priming)

    def _turn(self, group: list[dict[str, Any]]) -> tuple[int, ...]:
        key = tuple(map(identity, group))
        known = self._turns.get(key)
        if known is None:
            # An answer that stands last is one to go on with, so something follows it here.
            text = self.format.render([*group, NEXT], add_generation_prompt=False)
            text = text.removesuffix(self.format.render([NEXT], add_generation_prompt=False))
            known = self._turns[key] = self.tokens(text)
        return known


def identity(message: dict[str, Any]) -> tuple[str, ...]:
    """What tells a message of a session from every other; one that was shortened is another."""
    calls = [call["id"] for call in message.get("tool_calls") or ()]
    return message["role"], message["content"], message.get("tool_call_id") or "", *calls


@dataclass(frozen=True)
class Kind:
    """How a session goes: ``tools`` is how often a turn has tool rounds; then how many they are."""

    tools: tuple[float, ...]
    rounds: tuple[int, int] = (1, 2)
    results: tuple[int, int] = (1, 2)
    tokens: tuple[int, int] = TURN_TOKENS
    long_tail: bool = False


KINDS = {
    "mixed": Kind(tools=(1 / 3,)),
    # Mostly short results, some of most of a thousand tokens.
    "long tail": Kind(tools=(1 / 3,), tokens=(20, 800), long_tail=True),
    # Talk and work, 25 turns each.
    "phases": Kind(tools=(0.1, 0.8), rounds=(1, 3), results=(1, 1), tokens=(200, 800)),
}


@dataclass(frozen=True)
class Session:
    """``requests``: how many of the ``messages`` there are at the time of each request."""

    messages: list[dict[str, Any]]
    requests: list[int]


def session(seed: int, prompts: Prompts, turns: int = TURNS, kind: str = "mixed") -> Session:
    chance = random.Random(f"{kind} {seed}")
    words = " ".join(pydoc_data.topics.topics.values()).split()
    shape = KINDS[kind]

    def text(tokens: int) -> str:
        """About so many tokens."""
        said, size = [], 0
        while size < tokens:
            said.append(chance.choice(words))
            size += len(prompts.tokens(" " + said[-1]))
        return " ".join(said)

    def some() -> str:
        return text(chance.randint(*TURN_TOKENS))

    def result() -> str:
        low, high = shape.tokens
        return text(
            min(high, int(chance.lognormvariate(4.7, 1.1))) if shape.long_tail else chance.randint(low, high)
        )

    messages: list[dict[str, Any]] = [{"role": "system", "content": text(SYSTEM_TOKENS - 10)}]
    requests = []
    for turn in range(turns):
        messages.append({"role": "user", "content": some()})
        requests.append(len(messages))
        often = shape.tools[turn // PHASE % len(shape.tools)]
        for tool_round in range(chance.randint(*shape.rounds) if chance.random() < often else 0):
            names = [f"call-{turn}-{tool_round}-{i}" for i in range(chance.randint(*shape.results))]
            calls = [_call(name, text(12)) for name in names]
            messages.append({"role": "assistant", "content": "", "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": name, "content": result()} for name in names]
            requests.append(len(messages))
        messages.append({"role": "assistant", "content": some()})
    return Session(messages, requests)


def _call(name: str, query: str) -> dict[str, Any]:
    arguments = json.dumps({"query": query})
    return {"id": name, "type": "function", "function": {"name": "look_up", "arguments": arguments}}
