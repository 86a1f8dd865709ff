"""A generated session: 300 turns of a user and an assistant with tools, reproducible by its seed.

It is tokenized as by the llama.cpp server of the tests, with its chat template and vocabulary.
"""

from __future__ import annotations

import json
import pydoc_data.topics
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.conversation.template_format import TemplateFormat

NEXT = {"role": "user", "content": "next"}
TURNS = 300
SYSTEM_TOKENS = 300
PHASE = 25
TURN_TOKENS = (20, 200)  # of a message of a user, an assistant or a tool


class Prompts:
    """Requests as token ids, as the server processes them."""

    def __init__(self, folder: str) -> None:
        """Read ``tokenizer.json``, ``tokenizer_config.json`` and a model of llama.cpp from ``folder``."""
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
        """Return the tokens of each message. Consecutive tool results share a turn and are one run.

        Every turn begins and ends with a special token, so turns can be tokenized separately.
        """
        groups: list[list[dict[str, Any]]] = []
        for message in messages:
            if groups and message["role"] == groups[-1][-1]["role"] == "tool":
                groups[-1].append(message)
            else:
                groups.append([message])
        return [self._turn(group) for group in groups]

    def request(self, messages: Sequence[dict[str, Any]]) -> list[int]:
        """Return the tokens of the whole prompt."""
        return [token for run in (*self.runs(messages), self.priming) for token in run]

    @property
    def identity(self) -> Any:  # noqa: ANN401  # a type of tokenbox
        return self.format.identity

    def count_messages(
        self, messages: Sequence[Any], tools: None = None, *, add_generation_prompt: bool = True
    ) -> int:
        """Count messages; the interface of a chat format."""
        made = [m if isinstance(m, dict) else m.to_dict() for m in messages]
        return self.count(made) - (0 if add_generation_prompt else len(self.priming))

    def count(self, messages: Sequence[dict[str, Any]]) -> int:
        return sum(map(len, self.runs(messages))) + len(self.priming)

    def _turn(self, group: list[dict[str, Any]]) -> tuple[int, ...]:
        key = tuple(map(identity, group))
        known = self._turns.get(key)
        if known is None:
            # Templates may treat a final answer as a prefix to continue, so a message follows it.
            text = self.format.render([*group, NEXT], add_generation_prompt=False)
            text = text.removesuffix(self.format.render([NEXT], add_generation_prompt=False))
            known = self._turns[key] = self.tokens(text)
        return known


def identity(message: dict[str, Any]) -> tuple[str, ...]:
    """Return a key for a message of a session; a shortened message has another key."""
    calls = [call["id"] for call in message.get("tool_calls") or ()]
    return message["role"], message["content"], message.get("tool_call_id") or "", *calls


@dataclass(frozen=True)
class Kind:
    """A kind of session.

    ``tools``: the probability that a turn has tool rounds, by phase. The ranges: rounds per turn, results per
    round, tokens per result.
    """

    tools: tuple[float, ...]
    rounds: tuple[int, int] = (1, 2)
    results: tuple[int, int] = (1, 2)
    tokens: tuple[int, int] = TURN_TOKENS
    long_tail: bool = False


KINDS = {
    "mixed": Kind(tools=(1 / 3,)),
    # Mostly short results, some of nearly a thousand tokens.
    "long tail": Kind(tools=(1 / 3,), tokens=(20, 800), long_tail=True),
    # Talk and work, 25 turns each.
    "phases": Kind(tools=(0.1, 0.8), rounds=(1, 3), results=(1, 1), tokens=(200, 800)),
}


@dataclass(frozen=True)
class Session:
    """``requests``: the number of ``messages`` at the time of each request."""

    messages: list[dict[str, Any]]
    requests: list[int]


def session(seed: int, prompts: Prompts, turns: int = TURNS, kind: str = "mixed") -> Session:
    chance = random.Random(f"{kind} {seed}")
    words = " ".join(pydoc_data.topics.topics.values()).split()
    shape = KINDS[kind]

    def text(tokens: int) -> str:
        """Return a text of about that number of tokens."""
        chosen, size = [], 0
        while size < tokens:
            chosen.append(chance.choice(words))
            size += len(prompts.tokens(" " + chosen[-1]))
        return " ".join(chosen)

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
