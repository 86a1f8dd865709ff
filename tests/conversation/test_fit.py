"""``fit`` on plain mappings: where trim_messages of others fails, and where nothing needs to be done."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenbox
from tokenbox import ChatFormat
from tokenbox.content.message import InvalidMessage, Message
from tokenbox.conversation.fitting import fit as fit_request
from tokenbox.errors import ContextCriticalOverflow, InvalidBudget

# Of bare texts, so that sizes are easy to follow; what markers count has its own tests.
fit = partial(fit_request, markers=False)
SYSTEM = {"role": "system", "content": "You help."}


def user(text: str = "question") -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str = "answer") -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def calls(*ids: str) -> dict[str, Any]:
    function = {"name": "f", "arguments": "{}"}
    made = [{"id": name, "type": "function", "function": function} for name in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(name: str, text: str = "result") -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": name}


def test_whatever_fits_is_kept_the_very_same_objects() -> None:
    messages = [SYSTEM, user(), answer(), user()]
    fitted = fit(messages, 31, len)
    assert fitted.total == 31
    assert fitted.evicted == []
    assert all(a is b for a, b in zip(fitted.messages, messages, strict=True))


def test_the_result_is_as_good_as_its_list_of_messages() -> None:
    messages = [user("old " * 50), {"role": "assistant", "content": "ok"}, user("new")]
    fitted = tokenbox.fit(messages, 30, model="gpt-4o")
    assert list(fitted) == fitted.messages == [user("new")]
    assert (len(fitted), fitted[-1], user("new") in fitted) == (1, user("new"), True)
    assert tokenbox.count(fitted, "gpt-4o") == fitted.count


def test_the_oldest_exchange_leaves_whole() -> None:
    messages = [SYSTEM, user(), answer(), user("2"), answer(), user("3")]
    fitted = fit(messages, 30, len)
    assert fitted.messages == [messages[0], *messages[3:]]
    assert fitted.evicted == messages[1:3]
    assert [exchange.decision for exchange in fitted.exchanges] == ["evicted", "kept", "kept"]


def test_an_oversized_system_message_is_an_error_with_figures() -> None:
    with pytest.raises(ContextCriticalOverflow) as caught:
        fit([{"role": "system", "content": "x" * 100}, user()], 50, len)
    found = caught.value.to_dict()
    assert found["fixed_load"] == 108
    assert found["deficit"] == 58
    assert found["critical"] == [
        {"id": "messages[0] (system)", "size": 100},
        {"id": "messages[1] (user)", "size": 8},
    ]
    assert found["smallest_change"]["id"] == "messages[0] (system)"  # type: ignore[index]


def test_what_the_tools_need_is_part_of_that_error() -> None:
    tool = {"type": "function", "function": {"name": "look", "description": "looks " * 100}}
    with pytest.raises(ContextCriticalOverflow, match="too many \\(tools and markers ") as caught:
        fit([SYSTEM, user()], 50, len, tools=[tool])
    sizes = [size for _, size in caught.value.critical]
    assert len(sizes) == 3
    assert sum(sizes) == caught.value.fixed_load


def test_list_content() -> None:
    messages = [user("old" * 9), answer(), {"role": "user", "content": [{"type": "text", "text": "new"}]}]
    fitted = fit(messages, 10, len)
    assert fitted.messages == messages[2:]
    assert fitted.total == 3


def test_a_trailing_tool_message_keeps_its_call_and_its_question() -> None:
    messages = [user("old"), answer(), user(), calls("a"), result("a")]
    fitted = fit(messages, 17, len)
    assert fitted.messages == messages[2:]


def test_an_orphan_tool_result_leaves() -> None:
    messages = [SYSTEM, result("a"), user()]
    fitted = fit(messages, 1_000, len)
    assert fitted.messages == [SYSTEM, messages[2]]
    assert (
        fitted.steps[0].why == "no server takes a tool call without its results, or a result without its call"
    )


def test_parallel_tool_calls_stay_or_leave_together() -> None:
    messages = [user("q"), calls("a", "b"), result("b"), result("a"), calls("c"), result("c"), answer()]
    assert fit(messages, 40, len).messages == messages
    for budget in range(7, 34):
        kept = fit(messages, budget, len).messages
        assert kept in ([messages[0], *messages[4:]], [messages[0], messages[6]])


def test_a_call_without_all_its_results_leaves_but_not_the_last() -> None:
    messages = [user(), calls("a", "b"), result("a"), user(), calls("c", "d"), result("c")]
    assert fit(messages, 1_000, len).messages == [messages[0], *messages[3:]]


def test_messages_of_an_sdk() -> None:
    class Sdk:
        def model_dump(self, **_: object) -> dict[str, Any]:
            return answer()

    messages = [user("old" * 99), Sdk(), user()]
    assert fit(messages, 20, len).messages == [messages[2]]


def test_pinned_by_place() -> None:
    messages = [user("first"), answer(), user("2"), user("3")]
    assert fit(messages, 7, len, pinned=[0]).messages == [messages[0], *messages[2:]]
    assert fit(messages, 7, len, pinned=[-4]).messages == [messages[0], *messages[2:]]
    with pytest.raises(InvalidBudget, match="4 is not a place in the list of messages, whose length is 4"):
        fit(messages, 7, len, pinned=[4])


def test_tools_count() -> None:
    tools = [{"type": "function"}]
    fitted = fit([user("a"), user("b")], 21, len, tools=tools)
    assert fitted.total == 21 == 1 + len(json.dumps(tools[0]))
    with pytest.raises(ContextCriticalOverflow):
        fit([user("b")], 20, len, tools=tools)


def test_no_messages() -> None:
    assert fit([], 0).messages == []
    with pytest.raises(InvalidMessage, match="a list"):
        fit("hello", 3)


def test_a_lower_mark_gives_a_longer_list_the_same_cut() -> None:
    messages: list[dict[str, Any]] = [SYSTEM]
    starts = []
    for n in range(40):
        messages.append(user(f"question {n:02}"))
        kept = fit(messages, 100, len, low_water="0.5")
        assert kept.total <= 100
        starts.append(kept.messages[1]["content"])
        messages.append(answer("answer 123"))
    assert len(set(starts)) <= 20  # 840 tokens come; half of the 83 that may leave go at a time
    assert starts == sorted(starts)


def test_the_record_tells_what_became_of_each_exchange() -> None:
    messages = [SYSTEM, user(), answer(), user("3")]
    fitted = fit(messages, 12, len)
    record = fitted.to_dict()
    assert record["total"] == 10
    assert record["exact"] is False
    assert record["exchanges"] == [
        {
            "messages": [1, 2],
            "evicted": [1, 2],
            "shortened": [],
            "decision": "evicted",
            "base_size": 14,
            "size": 0,
        },
        {"messages": [3], "evicted": [], "shortened": [], "decision": "kept", "base_size": 1, "size": 1},
    ]
    assert json.loads(json.dumps(record)) == record
    assert "evicted 2 messages (24 -> 10): the total was 12 tokens over" in fitted.explain()
    assert fit(messages, 12, len).digest == fitted.digest
    assert fit(messages, 13, len).digest != fitted.digest


@pytest.mark.slow
def test_the_same_digest_in_another_process() -> None:
    code = (
        "from tokenbox import fit\n"
        "m = [{'role': 'user', 'content': 'a b c ' * 9}, {'role': 'user', 'content': 'd'}]\n"
        "print(fit(m, 90, 'o200k_base').digest)"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "src"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(runs) == 1


TURNS = st.lists(
    st.one_of(
        st.builds(lambda t: [user(t)], st.text("ab", max_size=5)),
        st.builds(lambda t: [answer(t)], st.text("ab", max_size=5)),
        st.just([calls("x", "y"), result("y"), result("x", "long result")]),
        st.just([SYSTEM]),
        st.just([result("z")]),
        st.just([calls("w", "v"), result("w")]),
    ),
    max_size=12,
)


@given(TURNS, st.integers(0, 80), st.sampled_from([1, "0.6", "auto"]))
def test_what_is_sent_fits_and_is_taken_by_servers(
    turns: list[list[dict[str, Any]]], budget: int, low_water: str | int
) -> None:
    messages = [dict(message) for turn in turns for message in turn]
    try:
        fitted = fit(messages, budget, len, low_water=low_water)
    except ContextCriticalOverflow as overflow:
        assert overflow.fixed_load > budget  # noqa: PT017  # most do not raise
        return
    assert fitted.total == sum(len(Message.of(m).counted_text) for m in fitted.messages) <= budget
    kept = {id(message) for message in fitted.messages}
    assert [m for m in messages if id(m) in kept] == fitted.messages
    users = [m for m in messages if m["role"] == "user"]
    assert not users or users[-1] in fitted.messages
    assert sum(m["role"] == "system" for m in fitted.messages) == sum(m["role"] == "system" for m in messages)
    waiting: list[str] = []
    for place, message in enumerate(fitted.messages):
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        assert place == 0 or message["role"] != "tool"
    again = fit(fitted.messages, budget, len)
    assert again.messages == fitted.messages


@pytest.mark.parametrize("tools", [5, "abc", [object()], [{"a": {1}}], [{"a": "\ud800"}], {"a": 1}])
def test_what_are_no_tools(tools: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidMessage, match="tools"):
        fit([user()], 100, len, tools=tools)


@pytest.mark.parametrize("tools", [5, "abc", [5], b"x", {"a": 1}])
def test_what_a_chat_format_takes_for_no_tools(tools: Any) -> None:  # noqa: ANN401
    for counter in (ChatFormat.openai("gpt-4o"), ChatFormat.from_server(lambda *_: 1, "s")):
        with pytest.raises(InvalidMessage, match="tools"):
            counter.count_messages([user()], tools)


@pytest.mark.parametrize(
    "function", [5, {"parameters": 5}, {"parameters": {"properties": [1]}}, {"name": None}]
)
def test_tools_of_odd_shapes_are_estimated(function: object) -> None:
    counter = ChatFormat.openai("gpt-4o")
    assert counter.count_messages([user()], [{"type": "function", "function": function}]) > 8


def test_messages_one_by_one_and_what_are_none() -> None:
    assert fit((message for message in [user("old"), user("new")]), 3, len).messages == [user("new")]
    for wrong in (None, 5):
        with pytest.raises(InvalidMessage, match="a list of mappings"):
            fit(wrong, 100)  # type: ignore[arg-type]
    with pytest.raises(InvalidBudget, match="list of places"):
        fit([user()], 100, pinned=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("more", range(0, 402, 67))
def test_many_short_messages_leave_only_as_far_as_needed(more: int) -> None:
    """They are more than the budget, so that what remains of equal shares of their markers is, too."""

    def count(body: dict[str, Any]) -> int:
        number_of = len(body["messages"])
        return 8 + 6 * number_of + number_of * more // 402

    messages = [user("word") if number % 2 == 0 else answer("word") for number in range(402)]
    made = tokenbox.fit(messages, 200, ChatFormat.from_server(count, "a server"))
    assert 180 < made.count.total <= 200


def test_estimates_of_messages_lose_no_more_than_a_server_needs() -> None:
    """Whatever its texts and markers cost, what fits by its count is not refused, and hardly more leaves."""
    draw = Random(1)
    for _ in range(100):
        number, marker, beside = (draw.choice(sizes) for sizes in ((20, 60, 100), (1, 4, 12), (0, 20, 150)))
        half, per_token = draw.choice((0, 1)), draw.choice((1, 2, 3, 4, 6))
        texts = ["word " * draw.choice((1, 2, 5, 5, 5, 30, 200)) for _ in range(number)]
        messages = [user(text) if at % 2 == 0 else answer(text) for at, text in enumerate(texts)]
        messages.append(user("last"))

        def count(body: dict[str, Any]) -> int:
            sent = body["messages"]
            size = beside + marker * len(sent) + half * len(sent) // 2  # noqa: B023  # used at once
            return size + sum(len(message["content"]) // per_token for message in sent)  # noqa: B023

        least, total = count({"messages": messages[-1:]}), count({"messages": messages})
        budget = draw.randrange(least, total)
        made = tokenbox.fit(messages, budget, ChatFormat.from_server(count, "a server"))
        assert made.count.total <= budget
        kept = [message for message in made if message in messages]
        assert count({"messages": messages[-len(kept) - 16 :]}) > budget


def test_estimates_far_above_the_count_of_a_server_refuse_nothing_that_fits() -> None:
    def count(body: dict[str, Any]) -> int:
        return 8 + sum(len(message["content"]) // 20 for message in body["messages"])

    messages = [user("word "), answer("word " * 80), user("word "), answer("word " * 20), user("last")]
    assert count({"messages": messages}) == 33
    made = tokenbox.fit(messages, 10, ChatFormat.from_server(count, "a server"))
    assert made.count.total == 8
    assert list(made)[-1] == user("last")
