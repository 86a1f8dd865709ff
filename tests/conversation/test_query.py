"""``fit(..., query=...)``: old parts that the question needs stay, in their place, within the budget."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import tokenbox
from tests.conversation.agents import WORDS, round_of, text
from tests.conversation.test_window_of_agents import parted
from tokenbox import ChatFormat
from tokenbox.conversation.relevance import ItemText, choose, pieces_of, ranked
from tokenbox.errors import InvalidBudget

MODEL = "gpt-4o"
THINGS = ("passport", "bicycle", "telescope", "violin", "greenhouse", "kayak", "lantern", "sewing machine")


def dialogue(seed: int) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """A long conversation in which facts are told in passing, and questions with the fact they need."""
    rng = random.Random(seed)
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are a friend."}]
    facts = []
    told = {rng.randrange(10, 110): thing for thing in THINGS}
    for number in range(120):
        words = text(rng, rng.randint(10, 40))
        if number in told:
            thing, place = told[number], rng.choice(["attic", "cellar", "office", "shed"])
            fact = f"By the way, I keep my {thing} in the {place} number {number}."
            facts.append((f"Where do I keep my {thing}?", fact))
            words = f"{words}. {fact}"
        messages.append({"role": "user", "content": words})
        if rng.random() < 0.2:
            messages += round_of(rng, f"{seed}-{number}", rng.choice([20, 200]))
        messages.append({"role": "assistant", "content": text(rng, rng.randint(5, 40))})
    return messages, facts


def kept(budget: int, query: str | None) -> float:
    """The share of facts that are there when they are asked for."""
    found = asked = 0
    for seed in range(5):
        messages, facts = dialogue(seed)
        for question, fact in facts:
            request = [*messages, {"role": "user", "content": question}]
            fitted = tokenbox.fit(request, budget, model=MODEL, query=query)
            assert fitted.total == tokenbox.count(fitted.messages, MODEL).total <= budget
            assert not parted(fitted.messages)
            whole = [message for message in fitted.messages if message in request]
            assert whole == [message for message in request if message in whole]
            assert fitted.messages[-1] == request[-1]
            found += any(fact in str(message["content"]) for message in fitted.messages)
            asked += 1
    return found / asked


@pytest.mark.slow
def test_facts_of_old_turns_are_there_when_they_are_asked_for() -> None:
    assert kept(2_000, None) < 0.5
    assert kept(1_000, "last") >= 0.9
    assert kept(2_000, "last") >= 0.95


def test_the_newest_exchange_stays_too() -> None:
    messages, facts = dialogue(1)
    request = [*messages, {"role": "user", "content": facts[0][0]}]
    fitted = tokenbox.fit(request, 2_000, model=MODEL, query="last")
    assert fitted.messages[-2] == messages[-1]


def test_what_fits_is_kept_whatever_is_asked() -> None:
    messages, _ = dialogue(0)
    assert tokenbox.fit(messages, 100_000, model=MODEL, query="kayak").messages == messages


def test_it_is_recorded_and_decides_the_digest() -> None:
    messages, _ = dialogue(0)
    one = tokenbox.fit(messages, 2_000, model=MODEL, query="the kayak")
    other = tokenbox.fit(messages, 2_000, model=MODEL, query="the violin")
    assert one.digest != other.digest
    assert one.digest == tokenbox.fit(messages, 2_000, model=MODEL, query="the kayak").digest
    assert "nearer to the question" in one.explain()
    assert json.loads(json.dumps(one.to_dict())) == one.to_dict()


def test_with_a_low_water_mark_there_is_no_query() -> None:
    with pytest.raises(InvalidBudget, match="low_water=1"):
        tokenbox.fit([{"role": "user", "content": "hi"}], 100, query="hi", low_water="0.5")


def with_long_results(seed: int) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Rounds with results of 60 lines, more than half of the window; a line in each is asked for later."""
    rng = random.Random(seed)
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You keep an inventory."}]
    facts = []
    for number, thing in enumerate(THINGS):
        messages.append({"role": "user", "content": f"Read part {number} of the inventory."})
        call, result = round_of(rng, f"{seed}-{number}", 1)
        lines = [text(rng, 12) for _ in range(60)]
        fact = f"entry {rng.randrange(100, 999)}: one {thing}, bought for {rng.randrange(10, 99)} crowns"
        lines.insert(rng.randrange(60), fact)
        facts.append((f"What did we pay for the {thing}?", fact))
        messages += [call, {**result, "content": "\n".join(lines)}]
        messages.append({"role": "assistant", "content": "I have read it."})
    return messages, facts


def test_of_a_long_result_the_lines_stay_that_are_asked_for() -> None:
    for seed in range(3):
        messages, facts = with_long_results(seed)
        for question, fact in facts:
            request = [*messages, {"role": "user", "content": question}]
            fitted = tokenbox.fit(request, 700, model=MODEL, query="last", handles=True)
            assert fitted.total == tokenbox.count(fitted.messages, MODEL).total <= 700
            assert not parted(fitted.messages)
            shown = [str(message["content"]) for message in fitted.messages if message["role"] == "tool"]
            assert any(fact in one for one in shown)
            assert any("left out" in one for one in shown)
            assert fitted.left_out
            assert [step.action.value for step in fitted.steps][:1] == ["cut"]


def stay(texts: list[str], room: int, query: str, size: int = 10) -> list[int]:
    parts = [[ItemText([one], size)] for one in texts]
    return sorted(choose(parts, ranked(parts, query), room))


def test_parts_that_match_nothing_leave_oldest_first() -> None:
    texts = WORDS[:10]
    assert stay(texts, 50, "nothing of this") == [5, 6, 7, 8, 9]
    assert 2 in stay(texts, 50, texts[2])
    assert stay(texts, 0, "x") == []
    assert stay(texts, 100, "x") == list(range(10))


def test_the_pieces_of_a_text_joined_are_the_text() -> None:
    rng = random.Random(2)
    for _ in range(200):
        made = "".join(
            rng.choice(["a. ", "b\r\n", "c", "\n", "! Oh.", "e\u0301. \u0301f ", "x" * 90]) for _ in range(30)
        )
        assert "".join(pieces_of(made)) == made


def test_a_running_conversation_sends_what_each_question_needs() -> None:
    """What left for one question is there for another: each request is as ``fit`` makes it of all."""
    messages, facts = dialogue(3)
    running = tokenbox.Conversation(
        "You are a friend.", tokenbox.ChatFormat.openai(MODEL), token_budget=1_500, query="last"
    )
    running.extend(messages[1:])
    said, number = list(messages), -1
    for question, fact in facts:
        said.append({"role": "user", "content": question})
        number = running.user(question)
        enforced = running.enforce_budget()
        fitted = tokenbox.fit(said, 1_500, model=MODEL, query="last")
        assert running.messages == fitted.messages
        assert enforced.total == fitted.total == running.estimate_tokens() <= 1_500
        assert any(fact in str(message["content"]) for message in running.messages)
        said.append({"role": "assistant", "content": "There."})
        running.assistant("There.")
        assert number in running.window
        assert sum(item.tokens for item in running.items()) == running.estimate_tokens()
    running.drop(number)
    running.enforce_budget()
    assert number not in running.window
    running.query = None
    assert running.enforce_budget().fits
    with pytest.raises(InvalidBudget, match="low_water=1"):
        tokenbox.Conversation(token_budget=10, query="last", low_water="0.5").enforce_budget()


@pytest.mark.parametrize("per_token", [1, 3, 8])
def test_a_budget_is_used_whatever_a_server_counts_for_texts_and_markers(per_token: int) -> None:
    """Estimates of texts lack most of it, or are twice as much."""

    def count(body: dict[str, Any]) -> int:
        return sum(12 + len(message["content"]) // per_token for message in body["messages"])

    words = ("alpha", "beta", "gamma", "delta")
    texts = [" ".join(words[at % 4 :] * (1 + at % 7)) for at in range(80)]
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": words} for at, words in enumerate([*texts, "last"])]
    budget = count({"messages": messages}) // 2
    made = tokenbox.fit(messages, budget, ChatFormat.from_server(count, "a server"), query="gamma")
    assert budget * 7 // 8 < made.count.total <= budget
