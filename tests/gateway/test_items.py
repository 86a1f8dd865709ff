"""Requests as windows: whatever the protocol, the last thing that a user said never leaves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.windows import enforce, evictable, window_of
from tokenbox.engine.steps import WindowLimits as Bounds


def chat_round(name: str) -> list[Any]:
    function = {"name": "f", "arguments": "{}"}
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": name, "function": function}]},
        {"role": "tool", "tool_call_id": name, "content": "r"},
    ]


def anthropic_round(name: str, *more: Any) -> list[Any]:  # blocks
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": name, "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": name, "content": "r"}, *more]},
    ]


def responses_round(name: str) -> list[Any]:
    return [
        {"type": "function_call", "call_id": name, "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": name, "output": "r"},
    ]


ROUNDS = {
    "/v1/chat/completions": chat_round,
    "/v1/messages": anthropic_round,
    "/v1/responses": responses_round,
}


@pytest.mark.parametrize("path", ROUNDS)
def test_rounds_leave_whole_and_questions_stay(path: str) -> None:
    made = ROUNDS[path]
    items = [
        {"role": "user", "content": "the first"},
        *made("a"),
        {"role": "assistant", "content": "so it is"},
        {"role": "user", "content": "the last"},
        *made("b"),
        *made("c"),
    ]
    window = window_of(items)
    assert evictable(window) == (1, 2, 5, 6, 0, 3)  # rounds, then exchanges; the last round is not read yet
    assert [step.messages for step in enforce(window, Bounds(1, None, 0))] == [(0, 1, 2, 3)]


@pytest.mark.parametrize("path", ROUNDS)
def test_a_call_that_waits_for_its_result_stays(path: str) -> None:
    waiting = ROUNDS[path]("b")[:1]
    items = [{"role": "user", "content": "do it"}, *ROUNDS[path]("a"), *waiting]
    assert evictable(window_of(items)) == (1, 2)


def test_what_is_said_beside_the_result_of_a_tool_stays_with_its_round() -> None:
    said = {"type": "text", "text": "and now something else"}
    items = [
        {"role": "user", "content": "do it"},
        *anthropic_round("a"),
        *anthropic_round("b", said),
        *anthropic_round("c"),
    ]
    assert evictable(window_of(items)) == (1, 2)
    # So does what is said beside the result of a call that is not there; the upstream says what is wrong.
    items = [{"role": "user", "content": "do it"}, anthropic_round("a", said)[1]]
    window = window_of(items)
    assert [step.messages for step in enforce(window, Bounds(1, None, 0))] == [(0,)]
    assert list(window) == [1]
    # A result alone, of a call that is not there, leaves before anything else.
    items = [anthropic_round("a")[1], {"role": "user", "content": "do it"}]
    window = window_of(items)
    assert [step.messages for step in enforce(window, Bounds(None, 9, 9))] == [(0,)]
