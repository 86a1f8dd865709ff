"""What is left of conversations heavy with tools: within the budget, nothing parted, the thread kept."""

from __future__ import annotations

import re
from statistics import mean
from typing import TYPE_CHECKING, Any

import pytest

import tokenbox
from tests.conversation.agents import agent, conversation
from tokenbox.content.message import Message
from tokenbox.conversation.record import UnknownHandle
from tokenbox.conversation.result_forms import handle_of
from tokenbox.errors import ContextCriticalOverflow

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL = "gpt-4o"


def parted(messages: Sequence[dict[str, Any]]) -> bool:
    """Whether a call is without its result, or a result without its call."""
    calls = [call.id for message in messages for call in Message.of(message).tool_calls]
    results = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    return calls != results


@pytest.mark.parametrize("budget", [2_000, 4_000, 8_000])
@pytest.mark.slow
def test_fifty_conversations_use_their_budget_and_lose_no_question(budget: int) -> None:
    shares = []
    for seed in range(50):
        messages = conversation(seed)
        whole = tokenbox.count(messages, MODEL).total
        fitted = tokenbox.fit(messages, budget, model=MODEL)
        assert fitted.total == tokenbox.count(fitted.messages, MODEL).total <= budget
        assert not parted(fitted.messages)
        questions = [message for message in messages if message["role"] == "user"]
        assert questions[-1] in fitted.messages
        if whole > budget:
            shares.append(fitted.total / budget)
    assert mean(shares) >= 0.95
    assert min(shares) >= 0.8


def test_an_agent_of_sixty_rounds_keeps_its_sixty_decisions() -> None:
    messages = agent(60)
    fitted = tokenbox.fit(messages, 8_000, model=MODEL)
    kept = [message for message in fitted.messages if str(message.get("content")).startswith("Decision")]
    assert len(kept) == 60
    assert fitted.messages[-1] == messages[-1]  # what it has just read


def test_an_agent_goes_on_where_its_window_is_full() -> None:
    """It sees what it has just read, so it does not ask for it again and again."""
    messages = agent(0)
    for number in range(40):
        messages += agent(number + 1, words=300)[-2:]
        fitted = tokenbox.fit(messages, 1_500, model=MODEL)
        assert fitted.messages[-1]["content"] == messages[-1]["content"]
        assert fitted.messages[-2] == messages[-2]


def test_a_result_larger_than_the_window_keeps_head_and_tail() -> None:
    messages = agent(3, words=6_000)
    fitted = tokenbox.fit(messages, 2_000, model=MODEL)
    last = fitted.messages[-1]["content"]
    assert fitted.total <= 2_000
    assert "left out" in last
    assert last[:40] == messages[-1]["content"][:40]
    assert last[-40:] == messages[-1]["content"][-40:]
    with pytest.raises(ContextCriticalOverflow):
        tokenbox.fit(messages, 2_000, model=MODEL, steps=("mask", "rounds", "exchanges"))


def responses(rounds: int) -> list[dict[str, Any]]:
    """The same agent in items of the Responses API: thoughts and calls are items of their own."""
    items = agent(0)
    for number in range(rounds):
        call, result = agent(number + 1)[-2:]
        items.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": call["content"]}]})
        for part in ("a", "b"):
            name = f"{number}{part}"
            items.append({"type": "function_call", "call_id": name, "name": "search", "arguments": "{}"})
        items += [
            {"type": "function_call_output", "call_id": f"{number}{part}", "output": result["content"]}
            for part in ("a", "b")
        ]
    return items


def test_calls_that_are_items_of_their_own_keep_their_thread() -> None:
    items = responses(30)
    fitted = tokenbox.fit(items, 6_000, model=MODEL)
    assert fitted.total <= 6_000
    outputs = [item for item in fitted.messages if item.get("type") == "function_call_output"]
    calls = [item for item in fitted.messages if item.get("type") == "function_call"]
    assert [one["call_id"] for one in outputs] == [one["call_id"] for one in calls]
    assert sum(item.get("type") == "reasoning" for item in fitted.messages) == 30
    assert any("left out" in one["output"] for one in outputs)
    assert fitted.messages[-2:] == items[-2:]


def test_what_is_left_out_comes_back_by_its_handle() -> None:
    messages = agent(30)
    fitted = tokenbox.fit(messages, 4_000, model=MODEL, handles=True)
    masked = [m["content"] for m in fitted.messages if m["role"] == "tool" and "expand" in m["content"]]
    assert masked
    originals = {message["content"] for message in messages if message["role"] == "tool"}
    for shown in masked:
        (handle,) = handles_in(shown)
        assert fitted.expand(handle) in originals
        assert handle_of(fitted.expand(handle)).startswith(handle)
    with pytest.raises(UnknownHandle):
        fitted.expand("0" * 12)


def handles_in(text: str) -> list[str]:
    """Return the handles that the marks in a text name."""
    return re.findall(r"left out; expand ([0-9a-f]+) ?(?:\.\.\.)?\]", text)


@pytest.mark.parametrize("tokenizer", ["o200k_base", "utf8-bytes", "chars4"])
@pytest.mark.parametrize("query", [None, "last"])
def test_every_result_in_part_names_the_handle_that_returns_it(tokenizer: str, query: str | None) -> None:
    messages = agent(12, words=500)
    whole = tokenbox.fit(messages, None, tokenizer).total
    cuts = 0
    for percent in range(8, 100, 13):
        try:
            fitted = tokenbox.fit(messages, whole * percent // 100, tokenizer, query=query, handles=True)
        except ContextCriticalOverflow:
            continue
        assert fitted.total <= whole * percent // 100
        for number, item in fitted.shown.items():
            before, after = fitted.inputs[number].text, item.text
            if before != after:
                assert [fitted.expand(handle) for handle in handles_in(after)] == [before]
                cuts += after.startswith(before[:10])
    assert cuts


def test_a_result_is_not_cut_without_a_mark() -> None:
    """With a counter of bytes, a small part of a result has no room for the line about the rest."""
    messages = agent(1, words=400)
    whole = tokenbox.fit(messages, None, "utf8-bytes").total
    for budget in range(whole // 8, whole, 100):
        for handles in (False, True):
            try:
                fitted = tokenbox.fit(messages, budget, "utf8-bytes", handles=handles)
            except ContextCriticalOverflow:
                continue
            for number, item in fitted.shown.items():
                assert item.text == fitted.inputs[number].text or "left out" in item.text


def test_the_newest_results_are_masked_last() -> None:
    messages = agent(10)
    for keep in (0, 1, 5):
        fitted = tokenbox.fit(messages, 1_800, model=MODEL, keep_results=keep)
        shown = [n for n, place in enumerate(range(3, 22, 2)) if fitted.shown[place] is fitted.inputs[place]]
        assert shown[-max(1, min(keep, 4)) :] == list(range(10))[-max(1, min(keep, 4)) :]


def test_a_running_conversation_gives_back_what_it_left_out() -> None:
    kept: dict[str, str] = {}
    running = tokenbox.Conversation(
        "You work with tools.", tokenbox.ChatFormat.openai(MODEL), token_budget=1_500, keep=kept.__setitem__
    )
    messages = agent(30)[1:]
    for message in messages:
        if message["role"] == "assistant":
            assert running.enforce_budget().fits
        running.add(message)
    running.enforce_budget()
    assert running.estimate_tokens() <= 1_500
    results = {message["content"] for message in messages if message["role"] == "tool"}
    assert len(kept) >= 20
    assert set(kept.values()) <= results
    for handle, text in kept.items():
        assert running.expand(handle) == text
    left = [message for message in running.values if message["role"] == "tool"]
    assert all(message["content"] in results or "left out" in message["content"] for message in left)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [300, 900, 3_000])
def test_a_smaller_low_water_keeps_no_more(budget: int) -> None:
    for seed in range(12):
        messages = conversation(seed, exchanges=4)
        marks = ("0.5", "0.7", "0.9", 1)
        try:
            totals = [tokenbox.fit(messages, budget, model=MODEL, low_water=mark).total for mark in marks]
        except ContextCriticalOverflow:
            continue
        assert totals == sorted(totals)
