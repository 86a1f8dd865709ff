"""Breakpoints: where they stand, how many, and only where they pay."""

from __future__ import annotations

import copy
import datetime as dt
import importlib
import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.caching import (
    Break,
    CachePlan,
    CacheProvider,
    InvalidCachePlan,
    applied,
    first_change,
    low_water,
    plan,
    rules_of,
    server_side,
    with_breakpoints,
)
from tokenbox.caching.changes import marked
from tokenbox.catalog import Price, price
from tokenbox.content.message import InvalidMessage
from tokenbox.conversation.low_water import AUTO, AutoLowWater
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from collections.abc import Iterator

    Body = dict[str, Any]

DAY = dt.date(2026, 11, 22)
LONG = "You book trains for people who are late. Ask for what is missing, and be brief about it. " * 130
SONNET = "claude-sonnet-4-5"


def anthropic(turns: int = 6, system: str = LONG, model: str = SONNET) -> Body:
    messages: list[Body] = []
    for turn in range(turns):
        use = {"type": "tool_use", "id": f"t{turn}", "name": "find", "input": {"city": turn}}
        messages += [
            {"role": "user", "content": f"When does the train to city {turn} leave?"},
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, use],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": f"t{turn}", "content": "At noon. " * 20}],
            },
            {"role": "assistant", "content": "At noon."},
        ]
    messages.append({"role": "user", "content": "And now?"})
    tools = [{"name": "find", "description": "Finds trains. " * 40, "input_schema": {"type": "object"}}]
    return {"model": model, "max_tokens": 100, "system": system, "tools": tools, "messages": messages}


def openai(model: str) -> Body:
    messages = [
        {"role": "system", "content": LONG},
        {"role": "user", "content": "When does the train leave?"},
    ]
    return {"model": model, "messages": messages}


def places(made: CachePlan) -> list[str]:
    return [one.place for one in made.breakpoints]


def test_a_conversation_is_marked_after_the_system_prompt_and_at_its_end() -> None:
    made = plan(anthropic(), price=price(SONNET, DAY))
    assert places(made) == ["system[0]", "messages[24].content[0]"]
    assert made.body["system"] == [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]
    assert marked(made.body) == places(made)
    assert made.saves is not None
    assert made.saves > 0
    assert "breakpoint at system[0]" in made.explain()
    assert json.loads(json.dumps(made.to_dict())) == made.to_dict()


def test_the_request_that_was_given_stays_as_it_was() -> None:
    body = anthropic()
    kept = copy.deepcopy(body)
    plan(body)
    assert body == kept


@pytest.mark.parametrize(("more", "marked_places"), [(0, 2), (1, 1)])
def test_a_prefix_of_exactly_the_minimum_is_marked(
    more: int, marked_places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = rules_of(SONNET)
    least = replace(rules, minimum=plan(anthropic()).breakpoints[0].tokens + more)
    monkeypatch.setattr(importlib.import_module("tokenbox.caching.plan"), "rules_of", lambda _: least)
    assert len(plan(anthropic()).breakpoints) == marked_places


def test_a_plan_does_not_change_the_prompt() -> None:
    body = anthropic()
    assert first_change(body, plan(body).body) is None


@pytest.mark.parametrize(
    ("requests", "seconds", "lifetime"),
    [
        *[(0, 60, None), (1, 60, 300), (1, 300, 300), (1, 900, None)],
        *[(2, 900, 3_600), (2, 3_600, 3_600), (9, 5_000, None)],
    ],
)
def test_only_what_is_read_again_in_time_is_written(
    requests: int, seconds: int, lifetime: int | None
) -> None:
    made = plan(anthropic(), requests=requests, seconds=seconds, price=price(SONNET, DAY))
    assert {one.seconds for one in made.breakpoints} == ({lifetime} if lifetime else set())
    assert lifetime or made.notes
    marks = [block["cache_control"] for block in made.body["system"]] if lifetime else []
    assert marks == (
        [{"type": "ephemeral", **({"ttl": "1h"} if lifetime == 3_600 else {})}] if lifetime else []
    )


def test_the_savings_are_those_of_the_bill() -> None:
    made = plan(anthropic(), requests=4, price=price(SONNET, DAY))
    tokens, million = made.breakpoints[-1].tokens, Decimal(1_000_000)
    without = 5 * tokens * Decimal(3) / million
    with_marks = (tokens * Decimal("3.75") + 4 * tokens * Decimal("0.3")) / million
    assert made.saves == without - with_marks


@pytest.mark.parametrize(
    ("model", "least"),
    [
        ("claude-opus-5", 512),
        (SONNET, 1_024),
        ("anthropic/claude-haiku-4.5", 4_096),
        ("anthropic/claude-opus-4-7", 2_048),
        ("us.anthropic.claude-opus-4-7", 4_096),
        ("claude-next-9", 4_096),
    ],
)
def test_a_prefix_that_is_too_short_is_not_marked(model: str, least: int) -> None:
    assert rules_of(model).minimum == least
    for factor, some in ((0.7, False), (1.5, True)):
        words = " ".join("tide" for _ in range(int(least * factor)))
        made = plan({"model": model, "system": words, "messages": [{"role": "user", "content": "hi"}]})
        assert bool(made.breakpoints) is some
        assert some or "less than" in "".join(made.notes)


def test_a_model_may_have_a_version_of_any_length() -> None:
    assert rules_of(f"gpt-{'9' * 5_000}") == rules_of("gpt-9")


def test_a_long_turn_gets_marks_that_reach_the_one_before() -> None:
    before = plan(anthropic(2)).body
    after = anthropic(14)
    made = plan(after, before=before)
    assert len(made.breakpoints) == 4
    assert first_change(before, plan(after).body) is not None  # two marks are too far away
    change = first_change(before, made.body)
    assert change is None or change.reason is not Break.LOOK_BACK


def test_marks_stand_where_the_api_takes_them() -> None:
    body = anthropic()
    body["messages"].append(
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "It"},
                {"type": "thinking", "thinking": "?", "signature": "s"},
            ],
        }
    )
    assert places(plan(body))[-1] == "messages[25].content[0]"


def test_marks_that_are_there_take_their_places() -> None:
    body = anthropic()
    for number in (0, 4, 8, 12):
        body["messages"][number]["content"] = [
            {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
        ]
    made = plan(body)
    assert not made.breakpoints
    assert "room for no more" in "".join(made.notes)


@pytest.mark.parametrize(
    ("ttl", "seconds", "marks"),
    [
        ("5m", 1_800, []),  # an hour's mark may not follow it
        ("1h", 60, ["messages[24].content[0]"]),  # one of 5 minutes may not be before it
        ("5m", 60, ["system[0]", "messages[24].content[0]"]),
        ("1h", 1_800, ["system[0]", "messages[24].content[0]"]),
    ],
)
def test_marks_of_an_hour_stand_before_those_of_five_minutes(
    ttl: str, seconds: int, marks: list[str]
) -> None:
    body = anthropic()
    mark = {"type": "ephemeral", "ttl": ttl}
    if ttl == "5m" and seconds > 300:
        body["system"] = [{"type": "text", "text": LONG, "cache_control": mark}]
    else:
        body["messages"][0]["content"] = [{"type": "text", "text": "x", "cache_control": mark}]
    made = plan(body, seconds=seconds, requests=20)
    assert places(made) == marks
    assert ("must stand before" in "".join(made.notes)) == (len(marks) < 2)


def test_a_time_in_the_system_prompt_is_warned_of_and_not_cached() -> None:
    made = plan(anthropic(system=f"It is 10:31:07. {LONG}"))
    assert "system[0]" not in places(made)
    assert any("10:31:07" in note for note in made.notes)


def test_openai_gets_a_key_that_all_with_this_prompt_share() -> None:
    made, other = plan(openai("gpt-5.1")), openai("gpt-5.1")
    other["messages"][1]["content"] = "Another question."
    assert made.provider is CacheProvider.OPENAI
    assert made.fields == plan(other).fields
    assert made.body["prompt_cache_key"] == made.fields["prompt_cache_key"]
    assert plan(openai("gpt-5.1"), key="team-7").fields == {"prompt_cache_key": "team-7"}
    assert not plan({"model": "gpt-5.1", "messages": [{"role": "user", "content": "hi"}]}).fields


@pytest.mark.parametrize(
    ("model", "fields", "forgets"),
    [
        ("gpt-5.2", {}, True),
        ("gpt-5.2", {"prompt_cache_retention": "24h"}, False),
        ("gpt-5.5", {}, False),  # it always keeps a prompt for a day
    ],
)
def test_a_pause_is_warned_of_where_the_cache_forgets(model: str, fields: Body, *, forgets: bool) -> None:
    made = plan({**openai(model), **fields}, seconds=900)
    assert any("forgotten after 5 to 10 minutes" in note for note in made.notes) is forgets


def test_gpt_5_6_gets_a_breakpoint_where_it_pays() -> None:
    made = plan(openai("gpt-5.6-sol"), price=price("gpt-5.6-sol", DAY))
    assert made.body["messages"][0]["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit"}
    once = plan(openai("gpt-5.6-sol"), requests=0, price=price("gpt-5.6-sol", DAY))
    assert once.body["prompt_cache_options"] == {"mode": "explicit"}
    assert once.saves is not None
    assert once.saves > 0
    items = {
        "model": "gpt-5.6-sol",
        "input": [{"role": "developer", "content": LONG}, {"role": "user", "content": "hi"}],
    }
    assert plan(items).body["input"][0]["content"][0]["type"] == "input_text"


def test_a_server_that_caches_by_itself_is_left_alone() -> None:
    body = openai("qwen3-30b")
    made = plan(body)
    assert (made.provider, made.body, made.fields) == (CacheProvider.AUTOMATIC, body, {})


@pytest.mark.parametrize("figures", [{"requests": -1}, {"seconds": 1.5}, {"requests": True}])
def test_figures_that_are_none_are_refused(figures: Any) -> None:  # noqa: ANN401  # anything
    with pytest.raises(InvalidCachePlan):
        plan(anthropic(), **figures)


@given(
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(0, 40),
    st.sampled_from([0, 60, 400, 4_000]),
    st.sampled_from([SONNET, "claude-opus-4-6", "gpt-5.6-sol", "gpt-4o"]),
)
def test_never_more_than_four_marks_and_never_a_loss(
    turns: int, earlier: int, requests: int, seconds: int, model: str
) -> None:
    body = anthropic(turns, model=model) if "claude" in model else openai(model)
    before = anthropic(min(turns, earlier), model=model) if "claude" in model else None
    made = plan(body, requests=requests, seconds=seconds, before=before, price=price(model, DAY))
    assert len(made.breakpoints) <= 4
    assert len(marked(made.body)) <= 4
    assert made.saves is None or made.saves >= 0
    assert all(one.tokens >= rules_of(model).minimum for one in made.breakpoints)
    assert first_change(body, made.body) is None


def test_low_water_is_decided_in_money() -> None:
    sonnet = low_water(price(SONNET, DAY))
    assert isinstance(sonnet, AutoLowWater)
    assert sonnet == AutoLowWater.by_price(3, "0.3", written="3.75")
    assert low_water(None) == AUTO
    nothing_saved = Price(Decimal(1), Decimal(2), cached_input=Decimal(1), cache_write=Decimal(2))
    assert low_water(nothing_saved) == AUTO


def test_what_a_provider_clears_itself_is_counted_as_far_as_can_be_known() -> None:
    body = anthropic(30)
    tokenizer = get("o200k_base")
    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": 1_000},
        "keep": {"type": "tool_uses", "value": 2},
    }
    plain, cleared = (
        server_side({**body, **more}, tokenizer) for more in ({}, {"context_management": {"edits": [edit]}})
    )
    assert plain.sent == plain.read == cleared.sent
    assert cleared.read is not None
    assert cleared.sent is not None
    assert cleared.read < cleared.sent - 28 * 40
    assert cleared.edits[0].keep == 2
    kept = {**edit, "clear_at_least": {"type": "input_tokens", "value": 10**6}}
    assert server_side({**body, "context_management": {"edits": [kept]}}, tokenizer).read == plain.read
    compacts = {"edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 500}}]}
    assert server_side({**body, "context_management": compacts}, tokenizer).read is None


def test_what_was_compacted_stands_for_what_was_before() -> None:
    body = anthropic(2)
    body["messages"].insert(
        4, {"role": "assistant", "content": [{"type": "compaction", "content": "They asked."}]}
    )
    found = server_side(body, get("o200k_base"))
    assert found.compacted == ("messages[4].content[0]",)
    assert found.unread == (0, 1, 2, 3)
    whole = server_side(anthropic(2), get("o200k_base"))
    assert found.sent is not None
    assert whole.sent is not None
    assert found.sent < whole.sent
    items = {
        "model": "gpt-5.1",
        "input": [{"type": "compaction", "encrypted_content": "abc"}],
        "context_management": [{"type": "compaction", "compact_threshold": 9_000}],
        "truncation": "auto",
    }
    opaque = server_side(items)
    assert opaque.compacted == ("input[0]",)
    assert [(edit.kind, edit.trigger) for edit in opaque.edits] == [
        ("compaction", 9_000),
        ("truncation", None),
    ]


def test_what_an_answer_says_was_cleared_is_read() -> None:
    answer = {
        "context_management": {
            "applied_edits": [
                {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, "cleared_input_tokens": 50_000}
            ]
        }
    }
    (found,) = applied(answer)
    assert (found.kind, found.cleared_uses, found.cleared_tokens) == ("clear_tool_uses", 8, 50_000)
    assert applied({"output": [{"type": "compaction", "encrypted_content": "x"}]})[0].kind == "compact"
    with pytest.raises(InvalidMessage, match="not NoneType"):
        applied(None)  # type: ignore[arg-type]
    assert applied({}) == ()


JUNK: list[Any] = [
    *(None, 5, 1.5, True, "x", "", "\ud800", [], {}, [5], [None], [[]], ["x"]),
    *({"type": 5}, {"type": []}, {"type": "text", "text": 5}, {"type": "text", "text": None}, [{"type": {}}]),
    [{"role": [], "content": {}}],
]


def paths(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every value in a body."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from paths(inner, (*path, key))


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_a_body_of_any_shape_is_marked_or_left_as_it_is(junk: object) -> None:
    whole = anthropic(turns=1)
    whole["messages"][0]["content"] = [{"type": "text", "text": "And?", "cache_control": None}]
    for *path, last in (path for path in paths(whole) if path):
        body = copy.deepcopy(whole)
        target: Any = body
        for key in path:
            target = target[key]
        target[last] = junk
        before = copy.deepcopy(body)
        with_breakpoints(body, SONNET)
        assert body == before


def test_a_mark_behind_the_tools_says_that_the_system_prompt_changes() -> None:
    tools = [{"name": "find", "description": LONG, "input_schema": {}}]
    for system, why in (
        ("It is 12:30:11.", "the tools, since the system prompt changes"),
        ("Be brief.", "tools and system prompt, also after messages left"),
    ):
        first = plan({**anthropic(system=system), "tools": tools}).breakpoints[0]
        assert first.why == why


def test_breakpoints_are_in_the_order_of_the_prompt() -> None:
    made = plan(anthropic(turns=12), before=anthropic(turns=2))
    assert len(made.breakpoints) > 2
    assert [one.tokens for one in made.breakpoints] == sorted(one.tokens for one in made.breakpoints)


@pytest.mark.parametrize(("turns", "marks"), [(4, 0), (5, 1)])  # a turn is five blocks
def test_the_request_before_is_found_twenty_blocks_back(turns: int, marks: int) -> None:
    made = plan(anthropic(turns=2 + turns), before=anthropic(turns=2))
    assert sum("more than 20 blocks back" in one.why for one in made.breakpoints) == marks
