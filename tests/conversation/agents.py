"""Random conversations with many tool calls or long texts, reproducible by a seed."""

from __future__ import annotations

import json
import random
from typing import Any

WORDS = "the tide rises at noon and falls by evening while boats wait in harbour for wind".split()


def text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def round_of(rng: random.Random, name: str, words: int, calls: int = 1) -> list[dict[str, Any]]:
    """Return an assistant message with calls, and their results."""
    ids = [f"{name}-{number}" for number in range(calls)]
    function = {"name": rng.choice(["search", "read_file", "run"])}
    made = [
        {
            "id": one,
            "type": "function",
            "function": {**function, "arguments": json.dumps({"q": text(rng, 4)})},
        }
        for one in ids
    ]
    results = [{"role": "tool", "tool_call_id": one, "content": text(rng, words)} for one in ids]
    return [{"role": "assistant", "content": text(rng, 6), "tool_calls": made}, *results]


def conversation(seed: int, exchanges: int = 8) -> list[dict[str, Any]]:
    """Return a system prompt, exchanges with up to six rounds each, and a last question without an answer."""
    rng = random.Random(seed)
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You work with tools. " + text(rng, 20)}]
    for number in range(exchanges):
        messages.append({"role": "user", "content": f"Question {number}: {text(rng, rng.randint(5, 40))}"})
        for step in range(rng.randint(0, 6)):
            words = rng.choice([10, 40, 120, 400, 1_200])
            messages += round_of(rng, f"{seed}-{number}-{step}", words, rng.choice([1, 1, 1, 2, 3]))
        if number < exchanges - 1:
            messages.append({"role": "assistant", "content": text(rng, rng.randint(5, 80))})
    return messages


def talk(seed: int) -> list[dict[str, Any]]:
    """Return a chat without tools whose answers are long, or whose questions have a pasted text."""
    rng = random.Random(f"talk {seed}")
    questions, answers = rng.choice([((8, 30, 80), (800, 1_500, 2_500)), ((10, 40, 1_500), (20, 100, 300))])
    messages = [{"role": "system", "content": text(rng, rng.choice([10, 200]))}]
    for number in range(rng.randint(4, 20)):
        messages.append({"role": "user", "content": f"Question {number}: {text(rng, rng.choice(questions))}"})
        messages.append({"role": "assistant", "content": text(rng, rng.choice(answers))})
    return [*messages, {"role": "user", "content": "Which of these was the first?"}]


def agent(rounds: int, words: int = 200) -> list[dict[str, Any]]:
    """Return a question and an agent that states a decision in each round."""
    rng = random.Random(rounds)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You work with tools."},
        {"role": "user", "content": "Find the fault."},
    ]
    for number in range(rounds):
        call, result = round_of(rng, f"step-{number}", words)
        messages += [{**call, "content": f"Decision {number}: look at part {number} next."}, result]
    return messages
