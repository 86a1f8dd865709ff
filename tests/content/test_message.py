"""Chat messages: what comes back is what was given; bad ones are refused in words; exchanges."""

from __future__ import annotations

import json
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenbox
from tests.windows import window_of
from tokenbox.content.exchanges import exchanges
from tokenbox.content.items import read_items
from tokenbox.content.message import InvalidMessage, Message, Part, PartKind, Role, ToolCall, check_messages
from tokenbox.engine.window import ItemKind

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
IMAGE = {"type": "image_url", "image_url": {"url": "data:,x", "detail": "low"}, "tokens": 85}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


@given(TEXTS, st.dictionaries(TEXTS, JSON, max_size=4), st.sampled_from(["system", "developer", "user"]))
def test_to_dict_gives_back_what_it_came_from(text: str, more: dict[str, Any], role: str) -> None:
    value = {**more, "role": role, "content": [{"type": "text", "text": text}, IMAGE], "name": "n"}
    value.pop("tool_calls", None)
    value.pop("tool_call_id", None)
    message = Message.of(value)
    back = message.to_dict()
    assert back == value
    assert list(back) == list(value)
    assert json.dumps(back) == json.dumps(value)
    assert hash(message) == hash(Message.of(json.loads(json.dumps(value))))
    back["content"].clear()
    assert message.to_dict() == value


def test_fields() -> None:
    message = Message.of({"role": "assistant", "content": None, "tool_calls": [CALL]})
    assert message.role is Role.ASSISTANT
    assert message.content is None
    assert message.text == ""
    assert message.tool_calls == (ToolCall("c1", "add", '{"a": 1}'),)
    assert message.counted_text == 'add{"a": 1}'
    result = Message.of({"role": "tool", "content": "3", "tool_call_id": "c1"})
    assert result.tool_call_id == "c1"
    assert Message.of(result) is result


def test_parts() -> None:
    message = Message.of({"role": "user", "content": [{"type": "text", "text": "a"}, IMAGE]})
    assert message.text == "a"
    [image] = message.media
    assert isinstance(image, Part)
    assert (image.kind, image.tokens) == (PartKind.IMAGE, 85)
    assert message.to_dict(declared=False)["content"][1] == {k: v for k, v in IMAGE.items() if k != "tokens"}
    assert image.to_dict() == IMAGE


def test_an_object_of_an_sdk() -> None:
    sdk = SimpleNamespace(model_dump=lambda **_: {"role": "assistant", "content": "hi"})
    assert Message.of(sdk).text == "hi"


DEEP: dict[str, Any] = {"role": "user", "content": "x"}
DEEP["self"] = DEEP


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (3, "not int"),
        ({}, "has no role"),
        ({"role": "robot", "content": ""}, "'robot'"),
        ({"role": ["user"], "content": ""}, "role"),
        ({"role": "user"}, "no content"),
        ({"role": "tool", "tool_call_id": "a"}, "no content"),
        ({"role": "assistant"}, "no content"),
        ({"role": "user", "content": 3}, "text or a list"),
        ({"role": "user", "content": {"type": "text"}}, "text or a list of parts, not dict"),
        ({"role": "user", "content": ["x"]}, "content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "content[0] has no text"),
        ({"role": "user", "content": [{"type": "hologram"}]}, "content[0]"),
        ({"role": "user", "content": [IMAGE | {"tokens": -1}]}, "content[0].tokens"),
        ({"role": "user", "content": [IMAGE | {"tokens": True}]}, "content[0].tokens"),
        ({"role": "user", "content": "\ud800"}, "U+D800"),
        ({"role": "user", "content": "x", "name": 3}, "name is text"),
        ({"role": "user", "content": "x", 3: 3}, "not text: 3"),
        ({"role": "user", "content": "x", "extra": object()}, "object"),
        ({"role": "user", "content": "x", "extra": b"x"}, "bytes"),
        ({"role": "user", "content": "x", "extra": [float("nan")]}, "extra[0] is nan, which is not JSON"),
        ({"role": "user", "content": "x", "tool_calls": [CALL]}, "only an assistant"),
        ({"role": "assistant", "content": "x", "tool_calls": {}}, "tool_calls"),
        ({"role": "assistant", "content": "x", "tool_calls": [{}]}, "tool_calls[0]"),
        ({"role": "assistant", "content": "x", "tool_calls": [CALL | {"function": {}}]}, "no name"),
        ({"role": "assistant", "content": "x", "tool_calls": [CALL | {"id": 3}]}, "tool_calls[0].id"),
        (DEEP, "nested"),
    ],
)
def test_what_no_server_takes_is_refused(value: object, says: str) -> None:
    with pytest.raises(InvalidMessage, match=r"\S") as caught:
        check_messages([{"role": "user", "content": "fine"}, value])
    assert caught.value.message.startswith("messages[1]: ")
    assert caught.value.details["index"] == 1
    assert says in caught.value.message


@pytest.mark.parametrize("role", Role)
def test_null_is_an_empty_content(role: Role) -> None:
    given = {"role": role.value, "content": None}
    message = Message.of(given)
    assert (message.content, message.text, message.to_dict()) == (None, "", given)


@pytest.mark.parametrize("calls", [None, []])
def test_an_answer_without_content_may_have_a_list_of_no_calls(calls: object) -> None:
    assert Message.of({"role": "assistant", "tool_calls": calls}).content is None


def test_messages_are_a_list() -> None:
    for value in ("hello", {"role": "user", "content": "x"}):
        with pytest.raises(InvalidMessage, match="a list"):
            check_messages(value)


def user(text: str = "q") -> dict[str, Any]:
    return {"role": "user", "content": text}


def calls(*names: str | None) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": name} for name in names]}


def result(name: str | None) -> dict[str, Any]:
    return {"role": "tool", "content": "r", **({} if name is None else {"tool_call_id": name})}


def test_exchanges() -> None:
    hello = {"role": "assistant", "content": "hello"}
    system = {"role": "system", "content": "s"}
    given = [system, hello, user(), calls("a", "b"), result("b"), result("a"), hello, system, user()]
    found = exchanges(read_items(given))
    assert [exchange.numbers for exchange in found] == [(1,), (2, 3, 4, 5, 6), (8,)]


@pytest.mark.parametrize(
    ("given", "rounds"),
    [
        ([user(), calls(None, None), result(None), result(None)], [(1, 2, 3)]),
        ([user(), calls(None), result("x")], [(1, 2)]),
        ([user(), calls("a"), result("a"), result("a")], [(1, 2)]),
        ([user(), calls("a"), result("b"), result("a")], [(1, 3)]),
        ([user(), calls("a"), user(), result("a")], [(1,)]),
        ([user(), calls("a", "a"), result("a"), result("a")], [(1, 2, 3)]),
    ],
)
def test_a_result_answers_a_call_of_the_message_before_it(
    given: list[dict[str, Any]], rounds: list[tuple[int, ...]]
) -> None:
    window = window_of(given)
    units = {unit.first: tuple(unit.members) for unit in window.units.values() if unit.kind is ItemKind.CALL}
    assert list(units.values()) == rounds


class Word(str, Enum):  # noqa: UP042  # `str` of a StrEnum is its text
    """As applications write their roles. ``str()`` of a member is its name, but JSON has its text."""

    USER = "user"
    TEXT = "text"
    HELLO = "hello there"
    CONTENT = "content"


def test_a_text_of_an_enumeration_is_its_text() -> None:
    value = {"role": Word.USER, Word.CONTENT: [{"type": Word.TEXT, "text": Word.HELLO}]}
    plain = json.loads(json.dumps(value))
    assert Message.of(value) == Message.of(plain)
    assert tokenbox.count([value], "gpt-4o") == tokenbox.count([plain], "gpt-4o")
    back = Message.of(value).to_dict()
    assert {type(key) for key in back} == {type(back["role"])} == {str}


def test_a_key_that_is_no_text_of_unicode_is_refused_with_its_position() -> None:
    with pytest.raises(InvalidMessage, match=r"^messages\[1\]: message: .*U\+D800") as caught:
        check_messages([{"role": "user", "content": "a"}, {"role": "user", "content": "b", "\ud800": 1}])
    assert caught.value.details["index"] == 1


@pytest.mark.parametrize("key", ["text", "message", "value", "body"])
def test_the_key_of_another_format_is_named(key: str) -> None:
    with pytest.raises(InvalidMessage, match=rf"Its text is in '{key}': rename that key to 'content'"):
        Message.of({"role": "user", key: "hi"})
