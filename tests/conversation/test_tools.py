"""What tools cost, and shortenings that keep what a call needs."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenbox
from tokenbox.conversation import ChatFormat
from tokenbox.conversation.tools import ALL_SHORTENINGS, Shortening, name_of, shorten_tools, tool_costs
from tokenbox.errors import ContextCriticalOverflow, InvalidBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenbox.compose.requests import Counts

MODEL = "gpt-4o"


def tool(name: str, *, shape: str = "chat", words: int = 30) -> dict[str, Any]:
    long = f"It can {name}. " + "More of what it does, at length. " * words
    schema = {
        "type": "object",
        "title": f"Arguments of {name}",
        "properties": {
            "city": {"type": "string", "description": long, "enum": ["Oslo", "Brest"]},
            "title": {"type": "string", "title": "A title", "description": "One. Two."},
            "rows": {
                "type": "array",
                "items": {"type": "object", "properties": {"a": {"type": "integer", "description": "A. B."}}},
            },
        },
        "required": ["city"],
    }
    if shape == "anthropic":
        return {"name": name, "description": long, "input_schema": schema}
    function = {"name": name, "description": long, "parameters": schema}
    return (
        {"type": "function", **function}
        if shape == "responses"
        else {"type": "function", "function": function}
    )


def called(name: str, arguments: str) -> list[dict[str, Any]]:
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "ok"},
    ]


@pytest.mark.parametrize("counter", [MODEL, "gpt-4", "o200k_base", "utf8-bytes", None, len])
@pytest.mark.parametrize("number", [1, 2, 5])
def test_a_tool_costs_what_is_saved_without_it(counter: Counts, number: int) -> None:
    shapes = ["chat", "anthropic", "responses"]
    tools = [tool(f"f{n}", shape=shapes[n % 3], words=n * n) for n in range(number)]
    tools += [{"type": "web_search"}, tool("f1")]
    saved = {cost.name: cost.tokens for cost in tool_costs(tools[:-1], counter).tools}
    whole = tool_costs(tools[:-1], counter).total
    for place, one in enumerate(tools[:-1]):
        others = [*tools[:place], *tools[place + 1 : -1]]
        assert saved[name_of(one)] == whole - tool_costs(others, counter).total


@pytest.mark.parametrize(
    ("width", "counted_once"),
    [(len, True), (lambda text: len(text) + len(text) // 999, False)],
    ids=["each", "together"],
)
def test_many_tools_are_counted_once_each(width: Callable[[str], int], counted_once: bool) -> None:
    """A server that asks for more the more tools there are is asked again, without each of them."""
    counted = 0

    def count(body: dict[str, Any]) -> int:
        nonlocal counted
        counted += len(body.get("tools", ()))
        return width("".join(json.dumps(one) for one in body.get("tools", ()))) + 9

    tools = [tool(f"f{n}", words=n % 4) for n in range(40)]
    counter = ChatFormat.from_server(count, "a server")
    costs = tool_costs(tools, counter)
    assert (counted <= 40 * 4) is counted_once
    saved = {cost.name: cost.tokens for cost in costs.tools}
    for place, one in enumerate(tools):
        others = [*tools[:place], *tools[place + 1 :]]
        left = width("".join(json.dumps(other) for other in others))
        assert saved[name_of(one)] == costs.total - left


def schema_of(one: dict[str, Any]) -> dict[str, Any]:
    inner = one.get("function", one)
    return inner.get("parameters") or inner["input_schema"]  # type: ignore[no-any-return]


def test_each_tool_says_what_it_costs_and_whether_it_was_called() -> None:
    tools = [tool("find", words=2), tool("book", words=80), tool("cancel", words=10)]
    costs = tool_costs(tools, MODEL, called("find", '{"city": "Oslo"}'))
    assert [cost.name for cost in costs.tools] == ["book", "cancel", "find"]
    assert costs.never_called == ("book", "cancel")
    hello = [{"role": "user", "content": "hi"}]
    whole = tokenbox.count(hello, MODEL, tools=tools).total - tokenbox.count(hello, MODEL).total
    assert costs.total == whole
    for cost in costs.tools:
        others = [one for one in tools if name_of(one) != cost.name]
        assert (
            cost.tokens
            == tokenbox.count(hello, MODEL, tools=tools).total
            - tokenbox.count(hello, MODEL, tools=others).total
        )
    assert json.loads(json.dumps(costs.to_dict())) == costs.to_dict()


@pytest.mark.parametrize("shape", ["chat", "responses", "anthropic"])
def test_shortened_tools_keep_names_and_required_parameters(shape: str) -> None:
    tools = [tool(name, shape=shape) for name in ("find", "book")]
    kept = copy.deepcopy(tools)
    made = shorten_tools(tools, count="o200k_base", shortenings=ALL_SHORTENINGS)
    assert tools == kept
    assert [name_of(one) for one in made.tools] == ["book", "find"]
    assert [step.shortening for step in made.steps] == list(ALL_SHORTENINGS)
    assert made.total < tool_costs(tools, "o200k_base").total // 2
    for one in made.tools:
        schema = schema_of(one)
        assert schema["required"] == ["city"]
        assert set(schema["properties"]) == {"city"}
        assert schema["properties"]["city"]["enum"] == ["Oslo", "Brest"]
        assert (one.get("function", one))["description"] == f"It can {name_of(one)}."
        assert "title" not in schema


def test_parameters_with_the_name_of_a_keyword_stay() -> None:
    made = shorten_tools([tool("find")], count="o200k_base", shortenings=["notes", "sentences"])
    properties = schema_of(made.tools[0])["properties"]
    assert properties["title"] == {"type": "string", "description": "One."}
    assert properties["rows"]["items"]["properties"]["a"]["description"] == "A."


def test_parameters_that_were_used_stay() -> None:
    made = shorten_tools(
        [tool("find")],
        count=MODEL,
        messages=called("find", '{"city": "Oslo", "rows": []}'),
        shortenings=["unused"],
    )
    assert set(schema_of(made.tools[0])["properties"]) == {"city", "rows"}


def test_nothing_is_done_that_the_budget_does_not_need() -> None:
    tools = [tool("find"), tool("book")]
    whole = tool_costs(tools, MODEL).total
    assert [step.shortening for step in shorten_tools(tools, whole, MODEL).steps] == [Shortening.SORT]
    made = shorten_tools(tools, whole // 2, MODEL)
    assert made.total <= whole // 2
    with pytest.raises(ContextCriticalOverflow, match="tool book") as caught:
        shorten_tools(tools, 10, MODEL)
    assert caught.value.details


def test_the_same_set_is_the_same_prompt() -> None:
    tools = [tool(name) for name in ("c", "a", "b")]
    assert shorten_tools(tools, count=MODEL).tools == shorten_tools(tools[::-1], count=MODEL).tools


@pytest.mark.parametrize("wrong", [{"budget": -1}, {"budget": 1.5}, {"shortenings": ["all"]}])
def test_what_is_no_shortening_is_refused(wrong: Any) -> None:  # noqa: ANN401  # anything
    with pytest.raises(InvalidBudget):
        shorten_tools([tool("find")], **{"count": MODEL, **wrong})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["title", "properties", "description", "anyOf", "a", "required"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(["type", "title", "properties", "description", "required"]), JSON, max_size=5
    ),
    st.sets(st.sampled_from(ALL_SHORTENINGS)),
)
def test_any_schema_is_taken_and_never_grows(schema: dict[str, Any], ways: set[Shortening]) -> None:
    tools: Sequence[dict[str, Any]] = [{"name": "f", "description": "x", "input_schema": schema}]
    made = shorten_tools(tools, count="utf8-bytes", shortenings=ways)
    assert made.total <= tool_costs(tools, "utf8-bytes").total
    assert name_of(made.tools[0]) == "f"


@pytest.mark.parametrize("required", [[["a"]], [{}], {"a": 1}, None, "a", 3])
def test_a_schema_of_a_careless_server_is_shortened(required: object) -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": {}}, "required": required}
    tool = {"name": "f", "input_schema": schema}
    made = shorten_tools([tool], shortenings=["unused"])
    assert made.tools[0]["input_schema"]["properties"].keys() <= {"a", "b"}


def test_no_tools_cost_nothing() -> None:
    assert shorten_tools(None, 0, "gpt-4o").tools == []
    assert not tool_costs(None, "gpt-4o").tools
