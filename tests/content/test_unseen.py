"""Input that a request only refers to: no count of it has an upper bound, and every surface says so."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

import tokenbox
from tests.cli.transcript import CommandLine
from tokenbox import ctx
from tokenbox.content.request import Api, read_request
from tokenbox.content.unseen import unseen_input, unseen_of
from tokenbox.content.unseen_fields import unseen_field
from tokenbox.counters import request_counter
from tokenbox.inspect.of_messages import fitted_entry, request_entry
from tokenbox.integers import MAX_INTEGER

if TYPE_CHECKING:
    from pathlib import Path

HI = {"role": "user", "content": "hi"}
PDF = f"data:application/pdf;base64,{'JVBERi0xLjQK' * 40}"
PIXEL = {"url": "data:image/png;base64,iVBORw0KGgo="}
TEXT = {"type": "text", "media_type": "text/plain", "data": "High tide is at noon."}
TIDES = {"type": "text", "text": "High tide is at noon."}
SEARCH = {"type": "web_search"}
WEATHER = {"type": "function", "name": "weather", "parameters": {}}


def said(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


UNSEEN: dict[str, dict[str, Any]] = {
    "an earlier answer": {"input": [HI], "previous_response_id": "resp_1"},
    "a conversation": {"input": [HI], "conversation": "conv_1"},
    "a stored prompt": {"prompt": {"id": "pmpt_1"}},
    "an item by its id": {"input": [HI, {"type": "item_reference", "id": "msg_1"}]},
    "a search": {"input": [HI], "tools": [WEATHER, SEARCH]},
    "a file by its id": {"input": [said({"type": "input_file", "file_id": "file_1"})]},
    "a PDF": {
        "messages": [said({"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}"}})]
    },
    "a document by its address": {
        "system": "Be brief.",
        "messages": [said({"type": "document", "source": {"type": "url", "url": "https://a.example/a.pdf"}})],
    },
    "a tool at each place that names it": {
        "messages": [
            said({"type": "tool_addition", "tool": {"type": "tool_reference", "name": "weather"}}, TIDES)
        ],
        "tools": [{"name": "weather", "input_schema": {}, "defer_loading": True}],
    },
    "a cached prompt": {"messages": [HI], "extra_body": {"google": {"cached_content": "cachedContents/1"}}},
}
SEEN: dict[str, dict[str, Any]] = {
    "texts": {"messages": [HI]},
    "tools of the client's": {"input": [HI], "tools": [WEATHER]},
    "an image": {"messages": [said({"type": "image_url", "image_url": PIXEL})]},
    "a field of tomorrow": {"messages": [HI], "steering": "Speak of the sea."},
    "a document that is a text": {
        "system": "Be brief.",
        "messages": [
            said(
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Tides."}}
            )
        ],
    },
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_only_the_server_knows_has_no_bound(name: str) -> None:
    body = UNSEEN[name]
    count = tokenbox.count(body, "gpt-4o")
    assert not count.exact
    assert count.at_most == MAX_INTEGER
    assert count.total < 2_000, "what is known of it"


def test_a_tool_that_the_server_shows_once_more_is_in_its_own_count() -> None:
    body = UNSEEN["a tool at each place that names it"]
    assert unseen_input(body, Api.MESSAGES, seen=("messages",)) is None
    assert unseen_input(body, Api.MESSAGES) is not None


def test_an_address_that_is_no_unicode_has_a_path_too() -> None:
    address = {"type": "image_url", "image_url": {"url": "https://a.example/\ud800.pdf"}}
    assert unseen_input({"messages": [said(address)]}, Api.CHAT) is not None


@pytest.mark.parametrize("name", SEEN)
def test_what_is_in_the_request_has_a_bound(name: str) -> None:
    assert tokenbox.count(SEEN[name], "gpt-4o").at_most < 100_000
    assert unseen_of(read_request(SEEN[name])) is None


@pytest.mark.parametrize("name", UNSEEN)
def test_a_guard_says_what_it_could_not_count_and_is_closed_if_nothing_uncertain_may_pass(name: str) -> None:
    body = UNSEEN[name]
    answers = {
        rule: ctx.enforce("gpt-4o", body, tokenizer="o200k_base", uncertain=rule)
        for rule in ("margin", "bound", "allow")
    }
    assert {rule: answer.ok for rule, answer in answers.items()} == {
        "margin": True,
        "bound": False,
        "allow": True,
    }
    for answer in answers.values():
        assert answer.why.notes[-1] == f"{unseen_of(read_request(body))}, which is not counted here"
    denied = answers["bound"]
    assert "only the server can count" in denied.why.say
    assert str(MAX_INTEGER) not in denied.why.say.replace(",", "")
    assert [remedy for remedy in denied.plan if "window" in remedy.say] == [], (
        "no window is known to be enough"
    )


def test_the_guard_lets_pass_what_is_left_without_it() -> None:
    """Under ``bound``, the plan leaves out an old file that nobody here can measure."""
    old = said({"type": "input_file", "file_id": "file_1"})
    turns = [old, {"role": "assistant", "content": "A file."}, HI]
    plan = ctx.pack(turns, 100_000, 0, model="gpt-4o", tokenizer="o200k_base", uncertain="bound")
    assert plan.count.at_most < 1_000
    assert [message["role"] for message in plan.messages] == ["user", "assistant", "user"]
    assert plan.messages[0]["content"][0]["text"] == "[file, left out]"
    assert ctx.enforce("gpt-4o", turns, tokenizer="o200k_base", uncertain="margin").ok


@pytest.mark.parametrize(("words", "out"), [("count", b"~"), ("fit --budget 1000", b"{")])
def test_a_command_says_what_is_not_in_its_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, out: bytes
) -> None:
    command = CommandLine(monkeypatch, tmp_path)
    body = json.dumps(UNSEEN["an earlier answer"]).encode()
    result = command(*words.split(), "--model", "gpt-4o", "-", stdin=body)
    assert (result.status, result.out[:1]) == (0, out)
    assert "previous_response_id names input that the server keeps, which is not counted here" in result.err


def in_arguments(body: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the messages of a request, and the rest as arguments of ``fit`` and ``Conversation``."""
    given = dict(body)
    tools, items = given.pop("tools", None), given.pop("messages", None) or given.pop("input", None) or [HI]
    return items, {"tools": tools, "fields": given}


@pytest.mark.parametrize("name", [*UNSEEN, *SEEN])
def test_a_window_has_no_bound_while_such_input_is_in_it(name: str) -> None:
    items, rest = in_arguments({**UNSEEN, **SEEN}[name])
    fitted = tokenbox.fit(items, None, model="gpt-4o", **rest)
    conversation = tokenbox.Conversation(count=request_counter("gpt-4o"), **rest)
    numbers = conversation.extend(items)
    assert conversation.request_count() == fitted.count
    assert (fitted.count.at_most == MAX_INTEGER) == (name in UNSEEN)
    conversation.tools = None  # as a user's command may do
    for number in numbers:
        conversation.drop(number)
    conversation.user("hi")
    is_beside = bool(rest["fields"].keys() - {"system"}) and name in UNSEEN
    assert (conversation.request_count().at_most == MAX_INTEGER) == is_beside


def test_what_is_evicted_or_left_out_of_a_result_no_longer_matters() -> None:
    file = {"type": "input_file", "file_id": "file_1"}
    long = {"type": "input_text", "text": "tide " * 3_000}
    call = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
    turns = [
        HI,
        call,
        {"type": "function_call_output", "call_id": "c", "output": [long, file]},
        {"role": "assistant", "content": "A file."},
        HI,
    ]
    whole = tokenbox.fit(turns, None, model="gpt-4o")
    assert whole.count.at_most == MAX_INTEGER
    masked = tokenbox.fit(turns, 1_000, model="gpt-4o", steps=["mask", "rounds"])
    assert len(masked) == len(turns)
    assert masked.count.at_most < 2_000
    conversation = tokenbox.Conversation(
        count=request_counter("gpt-4o"), token_budget=1_000, steps=["rounds"]
    )
    conversation.extend(turns)
    assert conversation.request_count().at_most == MAX_INTEGER
    assert conversation.enforce_budget().count.at_most < 2_000
    conversation.count = request_counter("gpt-4")
    assert conversation.request_count().at_most < 2_000


def test_a_change_of_model_keeps_what_has_no_bound() -> None:
    conversation = tokenbox.Conversation(
        count=request_counter("gpt-4o"), fields={"previous_response_id": "resp_1"}
    )
    conversation.user("hi")
    assert conversation.request_count().at_most == MAX_INTEGER
    conversation.count = request_counter("gpt-4")
    assert conversation.request_count().at_most == MAX_INTEGER


def test_a_page_does_not_show_a_bound_that_is_none() -> None:
    fitted = tokenbox.fit([HI], 1_000, model="gpt-4o", fields={"previous_response_id": "resp_1"})
    request = request_entry(UNSEEN["an earlier answer"], "a request", model="gpt-4o")
    for entry in (request, fitted_entry(fitted, "fitted")):
        assert dict(entry.facts)["At most"] == "only the server knows"


@pytest.mark.parametrize("inner", ["numbers", "ids", "texts"])
def test_a_long_key_takes_no_memory_for_each_value_below_it(inner: str) -> None:
    """A body of 2 MB took 20 GB: the path of each value was written out, with the key."""
    many = range(4_000)
    values: dict[str, object] = {
        "numbers": {f"a{n}": n for n in many},
        "ids": [{"id": n} for n in many],
        "texts": {f"a{n}": "x" for n in many},
    }
    body = {"model": "gpt-4o", "messages": [HI], "x": {"k " * 200_000: values[inner]}}
    tracemalloc.start()
    try:
        assert unseen_field(body, Api.CHAT, ()) is None
        read_request(body)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


def test_a_field_is_named_by_its_place() -> None:
    inside: dict[str, object] = {"openai": {"previousResponseId": "r"}, "n" * 90: [{"file": {"id": "f"}}]}
    for field, place in (
        ("openai", "providerOptions.openai.previousResponseId"),
        ("n" * 90, f"providerOptions.{'n' * 60}.file.id"),
    ):
        body = {"messages": [HI], "providerOptions": {field: inside[field]}}
        assert str(unseen_field(body, Api.CHAT, ())).startswith(place + " ")
