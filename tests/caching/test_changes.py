"""Seeded cache breaks are found at their first byte, and named; requests that go on break nothing."""

from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox import caching, tokenizers
from tokenbox.caching import Break, Watch, first_change, server_side
from tokenbox.caching.prompt import spans
from tokenbox.content.message import InvalidMessage
from tokenbox.tokenizers import get

if TYPE_CHECKING:
    from collections.abc import Callable

    Body = dict[str, Any]

SYSTEM = "You book trains. Today is 2026-11-22 10:31:07. Be brief, and ask for what is missing. " * 3


def schema(name: str) -> Body:
    properties = {"city": {"type": "string"}, "day": {"type": "string", "description": "ISO 8601"}}
    return {"type": "object", "properties": properties, "required": ["city"], "title": name}


def openai() -> Body:
    """A request of Chat Completions with tools, calls and results."""
    messages: list[Body] = [{"role": "system", "content": SYSTEM}]
    for turn in range(4):
        call = {"name": "find_train", "arguments": json.dumps({"city": f"city {turn}", "day": "friday"})}
        messages += [
            {"role": "user", "content": f"Question {turn}: when does the train to city {turn} leave?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"call_{turn}", "type": "function", "function": call}],
            },
            {
                "role": "tool",
                "tool_call_id": f"call_{turn}",
                "content": f"At {turn}. " + "platform two. " * 30,
            },
            {"role": "assistant", "content": f"It leaves at {turn}."},
        ]
    messages.append({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:one"}}]})
    tools = [
        {
            "type": "function",
            "function": {"name": name, "description": f"It can {name}.", "parameters": schema(name)},
        }
        for name in ("find_train", "book_train", "cancel_train")
    ]
    return {"model": "gpt-5.1", "tools": tools, "messages": messages, "prompt_cache_key": "a"}


def anthropic() -> Body:
    """One of Anthropic Messages, with thoughts and marks."""
    messages: list[Body] = []
    for turn in range(4):
        messages += [
            {"role": "user", "content": f"Question {turn}: when does the train to city {turn} leave?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": f"thought {turn}", "signature": f"sig{turn}"},
                    {
                        "type": "tool_use",
                        "id": f"toolu_{turn}",
                        "name": "find_train",
                        "input": {"city": turn, "day": 5},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": "platform two. " * 30}
                ],
            },
            {"role": "assistant", "content": f"It leaves at {turn}."},
        ]
    tools = [
        {"name": name, "description": f"It can {name}.", "input_schema": schema(name)}
        for name in ("find_train", "book_train")
    ]
    system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]
    return {
        "model": "claude-sonnet-4-5",
        "system": system,
        "tools": tools,
        "messages": messages,
        "thinking": {"type": "enabled", "budget_tokens": 2_000},
        "cache_control": {"type": "ephemeral"},
    }


def responses() -> Body:
    """One of the Responses API: calls and thoughts are items of their own."""
    items: list[Body] = []
    for turn in range(4):
        items += [
            {"role": "user", "content": f"Question {turn}?"},
            {"type": "reasoning", "id": f"rs_{turn}", "summary": []},
            {"type": "function_call", "call_id": f"c{turn}", "name": "find_train", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{turn}", "output": "platform two. " * 30},
            {"role": "assistant", "content": [{"type": "output_text", "text": f"At {turn}."}]},
        ]
    return {"model": "gpt-5.1", "instructions": SYSTEM, "input": items}


def sub(body: Body, old: str, new: str) -> Body:
    """The body with one text replaced wherever it is first."""
    return json.loads(json.dumps(body).replace(old, new, 1))  # type: ignore[no-any-return]


def edited(body: Body, edit: Callable[[Body], object]) -> Body:
    copied = copy.deepcopy(body)
    edit(copied)
    return copied


SEEDED: list[tuple[str, Callable[[], Body], Callable[[Body], object], Break, str]] = [
    (
        "a time",
        openai,
        lambda b: b["messages"][0].update(content=SYSTEM.replace("10:31:07", "10:32:40")),
        Break.DATE,
        "messages[0]",
    ),
    (
        "a day",
        anthropic,
        lambda b: b["system"][0].update(text=SYSTEM.replace("11-22", "11-23")),
        Break.DATE,
        "system[0]",
    ),
    (
        "an id",
        responses,
        lambda b: b.update(instructions=SYSTEM + " session 5f2c9a7be1d04"),
        Break.SYSTEM_CHANGED,
        "instructions[0]",
    ),
    ("tools turned", openai, lambda b: b["tools"].reverse(), Break.TOOLS_REORDERED, "tools[0]"),
    (
        "a tool more",
        openai,
        lambda b: b["tools"].append({**b["tools"][0], "function": {"name": "x"}}),
        Break.TOOL_ADDED,
        "tools[3]",
    ),
    ("a tool less", anthropic, lambda b: b["tools"].pop(), Break.TOOL_REMOVED, "tools[1]"),
    (
        "a tool's text",
        anthropic,
        lambda b: b["tools"][1].update(description="Other."),
        Break.TOOL_CHANGED,
        "tools[1]",
    ),
    (
        "keys turned",
        openai,
        lambda b: b["tools"][1]["function"].update(parameters=dict(reversed(schema("book_train").items()))),
        Break.KEY_ORDER,
        "tools[1]",
    ),
    (
        "arguments' keys",
        openai,
        lambda b: b["messages"][2]["tool_calls"][0]["function"].update(
            arguments='{"day": "friday", "city": "city 0"}'
        ),
        Break.KEY_ORDER,
        "messages[2]",
    ),
    (
        "oldest left",
        openai,
        lambda b: b["messages"].__delitem__(slice(1, 5)),
        Break.MESSAGES_REMOVED,
        "messages[1]",
    ),
    (
        "oldest left",
        anthropic,
        lambda b: b["messages"].__delitem__(slice(0, 4)),
        Break.MESSAGES_REMOVED,
        "messages[0]",
    ),
    (
        "masked",
        openai,
        lambda b: b["messages"][3].update(content="[result of find_train, 93 tokens, left out]"),
        Break.RESULT_SHORTENED,
        "messages[3]",
    ),
    (
        "masked",
        anthropic,
        lambda b: b["messages"][2]["content"][0].update(content="left out"),
        Break.RESULT_SHORTENED,
        "messages[2]",
    ),
    (
        "masked",
        responses,
        lambda b: b["input"][3].update(output="left out"),
        Break.RESULT_SHORTENED,
        "input[3]",
    ),
    (
        "edited",
        openai,
        lambda b: b["messages"][4].update(content="Never."),
        Break.MESSAGE_CHANGED,
        "messages[4]",
    ),
    (
        "white space",
        openai,
        lambda b: b["messages"][4].update(content="It  leaves at 0.\n"),
        Break.WHITESPACE,
        "messages[4]",
    ),
    (
        "new ids",
        openai,
        lambda b: b["messages"][2]["tool_calls"][0].update(id="call_f81d"),
        Break.IDENTIFIER,
        "messages[2]",
    ),
    (
        "inserted",
        openai,
        lambda b: b["messages"].insert(1, {"role": "user", "content": "By the way."}),
        Break.MESSAGES_INSERTED,
        "messages[1]",
    ),
    (
        "thought gone",
        anthropic,
        lambda b: b["messages"][1]["content"].pop(0),
        Break.THOUGHT_DROPPED,
        "messages[1]",
    ),
    ("thought gone", responses, lambda b: b["input"].pop(1), Break.THOUGHT_DROPPED, "input[1]"),
    (
        "other image",
        openai,
        lambda b: b["messages"][-1]["content"][0]["image_url"].update(url="data:two"),
        Break.MEDIA_CHANGED,
        "messages[17]",
    ),
    ("other model", openai, lambda b: b.update(model="gpt-5.2"), Break.MODEL, "model"),
    (
        "a choice",
        anthropic,
        lambda b: b.update(tool_choice={"type": "any"}),
        Break.TOOL_CHOICE,
        "tool_choice",
    ),
    ("thinking", anthropic, lambda b: b.update(thinking={"type": "disabled"}), Break.THINKING, "thinking"),
    (
        "a format",
        openai,
        lambda b: b.update(response_format={"type": "json_object"}),
        Break.RESPONSE_FORMAT,
        "response_format",
    ),
    ("a key", openai, lambda b: b.update(prompt_cache_key="b"), Break.CACHE_KEY, "prompt_cache_key"),
    (
        "no marks",
        anthropic,
        lambda b: (b.pop("cache_control"), b["system"][0].pop("cache_control")),
        Break.MARKS_GONE,
        "cache_control",
    ),
    (
        "its own edits",
        anthropic,
        lambda b: b.update(context_management={"edits": [{"type": "clear_tool_uses_20250919"}]}),
        Break.SERVER_CLEARS,
        "context_management",
    ),
    (
        "a counter",
        openai,
        lambda b: b["messages"][1].update(content="Question 9: when does the train to city 0 leave?"),
        Break.NUMBER,
        "messages[1]",
    ),
    (
        "JSON written otherwise",
        openai,
        lambda b: b["messages"][2]["tool_calls"][0]["function"].update(
            arguments='{"city":"city 0","day":"friday"}'
        ),
        Break.JSON_SPELLING,
        "messages[2]",
    ),
    (
        "a tool's own keys turned",
        anthropic,
        lambda b: b["tools"].__setitem__(0, dict(reversed(b["tools"][0].items()))),
        Break.KEY_ORDER,
        "tools[0]",
    ),
    (
        "a tool renamed",
        anthropic,
        lambda b: b["tools"][0].update(name="find_bus"),
        Break.TOOL_CHANGED,
        "tools[0]",
    ),
    (
        "image detail",
        openai,
        lambda b: b["messages"][-1]["content"][0]["image_url"].update(detail="low"),
        Break.MEDIA_CHANGED,
        "messages[17]",
    ),
    (
        "a signature",
        anthropic,
        lambda b: b["messages"][1]["content"][0].pop("signature"),
        Break.THOUGHT_DROPPED,
        "messages[1]",
    ),
    (
        "messages turned",
        openai,
        lambda b: b["messages"].insert(1, b["messages"].pop(4)),
        Break.MESSAGES_REORDERED,
        "messages[1]",
    ),
    (
        "a summary",
        openai,
        lambda b: b["messages"].__setitem__(
            slice(1, 9), [{"role": "user", "content": "We spoke of trains."}]
        ),
        Break.MESSAGES_REPLACED,
        "messages[1]",
    ),
    (
        "effort",
        responses,
        lambda b: b.update(reasoning={"effort": "high", "summary": "auto"}),
        Break.EFFORT,
        "reasoning.effort",
    ),
    (
        "effort",
        anthropic,
        lambda b: b.update(output_config={"effort": "low"}),
        Break.EFFORT,
        "output_config.effort",
    ),
    ("speed", anthropic, lambda b: b.update(speed="fast"), Break.SPEED, "speed"),
    (
        "servers of tools",
        anthropic,
        lambda b: b.update(mcp_servers=[{"type": "url", "name": "trains", "url": "https://trains"}]),
        Break.TOOL_CHANGED,
        "mcp_servers",
    ),
]


@pytest.mark.parametrize(
    ("make", "edit", "reason", "place"), [case[1:] for case in SEEDED], ids=[case[0] for case in SEEDED]
)
def test_a_seeded_break_is_found_and_named(
    make: Callable[[], Body], edit: Callable[[Body], object], reason: Break, place: str
) -> None:
    before, after = make(), edited(make(), edit)
    # The conversation went on, too: the break is found before that.
    (after.get("messages") or after["input"]).append({"role": "user", "content": "And now?"})
    change = first_change(before, after, tokenizers.get("o200k_base"))
    assert change is not None
    assert change.reason is reason
    assert change.place.startswith(place)
    assert change.lost
    assert change.fix in str(change)
    record = change.to_dict()
    assert json.loads(json.dumps(record)) == record
    assert (record["lost_tokens"], record["exact"]) == (change.lost, False)  # an estimate
    old, new = (b"".join(span.text.encode() for span in spans(body)) for body in (before, after))
    if change.place[-1] == "]":
        assert old[: change.byte] == new[: change.byte]
        assert old[: change.byte + 1] != new[: change.byte + 1]


@pytest.mark.parametrize("make", [openai, anthropic, responses])
def test_a_request_that_goes_on_breaks_nothing(make: Callable[[], Body]) -> None:
    before, after = make(), make()
    items = after.get("messages") or after["input"]
    items += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Then go on, at 10:40."}]
    assert first_change(before, after) is None
    assert first_change(after, before) is None  # it reads all that it has
    assert first_change(before, {**after, "temperature": 0.3, "stream": True, "max_tokens": 5}) is None


def test_two_spellings_of_one_request_are_one() -> None:
    before, after = anthropic(), anthropic()
    after["system"] = SYSTEM
    for message in after["messages"]:
        if isinstance(message["content"], str):
            message["content"] = [
                {"text": message["content"], "type": "text", "cache_control": {"type": "ephemeral"}}
            ]
    assert first_change(before, after) is None


def test_parallel_results_in_another_order_are_named() -> None:
    before = anthropic()
    before["messages"][2]["content"].append(
        {"type": "tool_result", "tool_use_id": "toolu_x", "content": "Nothing found."}
    )
    change = first_change(before, edited(before, lambda b: b["messages"][2]["content"].reverse()))
    assert change is not None
    assert (change.reason, change.message) == (Break.MESSAGES_REORDERED, 2)


def test_an_image_that_was_left_out_is_named() -> None:
    before = openai()
    before["messages"].append({"role": "user", "content": "And now?"})
    change = first_change(before, edited(before, lambda b: b["messages"][-2].update(content="[image]")))
    assert change is not None
    assert change.reason is Break.MEDIA_CHANGED


def test_the_same_characters_in_another_form_are_named() -> None:
    before, after = openai(), openai()
    before["messages"][4]["content"], after["messages"][4]["content"] = "caf\u00e9", "cafe\u0301"
    change = first_change(before, after)
    assert change is not None
    assert change.reason is Break.UNICODE


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        ("It leaves at 0, I think.", "', I think' was added"),
        ("It leaves 0.", "'at ' was left out"),
        ("It starts at 0.", "'leave' became 'start'"),
    ],
)
def test_what_differs_is_shown(content: str, detail: str) -> None:
    before, after = openai(), openai()
    after["messages"][4]["content"] = content
    change = first_change(before, after)
    assert change is not None
    assert (change.reason, change.detail) == (Break.MESSAGE_CHANGED, detail)


def test_a_mark_that_is_out_of_reach_is_found() -> None:
    before, after = anthropic(), anthropic()
    for number in range(12):
        after["messages"] += [
            {"role": "user", "content": f"more {number}"},
            {"role": "assistant", "content": f"yes {number}"},
        ]
    change = first_change(before, after)
    assert change is not None
    assert change.reason is Break.LOOK_BACK
    after["messages"][25]["content"] = [
        {"type": "text", "text": after["messages"][25]["content"], "cache_control": {"type": "ephemeral"}}
    ]
    assert first_change(before, after) is None


def test_a_running_conversation_is_watched() -> None:
    watch = Watch(tokenizers.get("o200k_base"))
    body = openai()
    assert watch.sent(body) is None
    body["messages"].append({"role": "assistant", "content": "Yes."})
    assert watch.sent(body) is None
    del body["messages"][1:5]
    change = watch.sent(body)
    assert change is not None
    assert (change.reason, change.message, watch.changes) == (Break.MESSAGES_REMOVED, 1, 1)


@given(st.integers(0, 10_000), st.sampled_from([openai, anthropic, responses]))
def test_whatever_one_message_becomes_is_found(seed: int, make: Callable[[], Body]) -> None:
    rng = random.Random(seed)
    before, after = make(), make()
    items = after.get("messages") or after["input"]
    at = rng.randrange(len(items))
    items[at] = {"role": items[at].get("role", "user"), "content": f"another {seed}"}
    change = first_change(before, after)
    assert change is not None
    old, new = (b"".join(span.text.encode() for span in spans(body)) for body in (before, after))
    assert old[: change.byte] == new[: change.byte]
    assert old[: change.byte + 1] != new[: change.byte + 1]


@pytest.mark.parametrize("body", [None, [], {}, {"messages": 3}, {"messages": [3]}, "text"])
def test_what_is_no_request_is_refused(body: Any) -> None:  # noqa: ANN401  # anything
    with pytest.raises(InvalidMessage):
        first_change(openai(), body)
    with pytest.raises(InvalidMessage):
        first_change(body, openai())


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize("depth", [600, 5_000])
def test_a_request_without_end_is_an_error(depth: int) -> None:
    body = {
        "model": "claude-sonnet-4-5",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"name": "f", "input_schema": nested(depth)}],
    }
    for call in (lambda: first_change(body, {**body, "max_tokens": 6}), lambda: caching.plan(body)):
        with pytest.raises(InvalidMessage, match="deep"):
            call()


def test_what_is_too_deep_to_be_copied_is_an_error() -> None:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}], "metadata": nested(400)}
    with pytest.raises(InvalidMessage, match="deep"):
        caching.plan(body)


def test_a_tokenizer_may_be_named() -> None:
    before = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi there"}]}
    after = {**before, "messages": [{"role": "user", "content": "hello there"}]}
    change = first_change(before, after, "o200k_base")
    assert change is not None
    assert change == first_change(before, after, get("o200k_base"))
    assert server_side(before, "o200k_base") == server_side(before, get("o200k_base"))


@pytest.mark.parametrize("unit", ["a-", "a", "1:", "jan ", "-"])
def test_texts_are_compared_in_linear_time(unit: str) -> None:
    """40,000 characters of "a-" took a minute: each place in a word began a search for a digit."""
    before, after = ({"messages": [{"role": "user", "content": unit * 40_000 + end}]} for end in "xy")
    change = first_change(before, after)
    assert change is not None
    assert change.reason is Break.MESSAGE_CHANGED


def test_identifiers_are_long_words_with_a_digit() -> None:
    before, after = (
        {"messages": [{"role": "user", "content": f"a-long-word --{number}-run-- of it"}]}
        for number in ("2f9c1aa0", "77e1d0b4")
    )
    change = first_change(before, after)
    assert change is not None
    assert (change.reason, change.detail) == (
        Break.IDENTIFIER,
        "'2f9c1aa0-run' became '77e1d0b4-run'",
    )


def test_a_call_that_lost_its_function_is_a_change() -> None:
    """As after a bug of the caller."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    before = {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "tool_calls": [call]}]}
    after = edited(before, lambda body: body["messages"][1]["tool_calls"][0].pop("function"))
    for one, other in ((before, after), (after, before)):
        change = first_change(one, other)
        assert change is not None
        assert (change.reason, change.message) == (Break.MESSAGE_CHANGED, 1)
