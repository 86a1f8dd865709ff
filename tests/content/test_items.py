"""The one reader of messages: every shape people have, told by its own marks."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
from pydantic import BaseModel

import tokenbox
from tests.windows import enforce, evictable, window_of
from tokenbox import ctx
from tokenbox.compose.lower_bound import lower_bound
from tokenbox.content.exchanges import Grouping
from tokenbox.content.items import read_item, read_items
from tokenbox.content.message import InvalidMessage, Role, thaw
from tokenbox.content.parts import tool_call
from tokenbox.content.request import Api, read_request, read_tools
from tokenbox.content.results import with_texts
from tokenbox.engine.steps import WindowLimits
from tokenbox.integers import MAX_INTEGER
from tokenbox.tokenizers import registry

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
CHAT_TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA}}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def call(identifier: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": identifier, "name": "f", "arguments": '{"city": "Paris"}'}


def output(identifier: str, text: str = "18 degrees") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": identifier, "output": text}


REASONING = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "thinking"}]}
ANTHROPIC_CALL = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "abc"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"city": "Paris"}},
        {"type": "tool_use", "id": "t2", "name": "f", "input": {"city": "Rome"}},
    ],
}
ANTHROPIC_RESULTS = {
    "role": "user",
    "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": "18"},
        {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "20"}]},
        {"type": "text", "text": "And now?"},
    ],
}


def test_a_chat_message_is_what_is_sent() -> None:
    item = read_item(user("hi"))
    assert item.verbatim
    assert [message.text for message in item.messages] == ["hi"]


def test_items_of_the_responses_api() -> None:
    items = read_items([user("q"), REASONING, call("a"), call("b"), output("a"), output("b")])
    assert [item.role for item in items] == [
        Role.USER,
        *[Role.ASSISTANT] * 3,
        *[Role.TOOL] * 2,
    ]
    assert items[1].messages[0].reasoning == "thinking"
    assert items[2].calls == ("a",)
    assert items[4].results == ("a",)
    assert [item.joins for item in items] == [False, True, True, True, False, False]
    assert not any(item.verbatim for item in items[1:])


def test_messages_of_anthropic() -> None:
    called, answered = read_items([ANTHROPIC_CALL, ANTHROPIC_RESULTS])
    assert called.messages[0].reasoning == "hm"
    assert called.messages[0].text == "I look."
    assert [c.arguments for c in called.messages[0].tool_calls] == ['{"city": "Paris"}', '{"city": "Rome"}']
    assert [message.role for message in answered.messages] == [Role.TOOL, Role.TOOL, Role.USER]
    assert answered.results == ("t1", "t2")
    assert answered.role is Role.USER
    assert thaw(answered.raw) == ANTHROPIC_RESULTS


def test_legacy_function_calls() -> None:
    called, answered = read_items(
        [
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "18"},
        ]
    )
    assert called.calls == (None,)
    assert answered.results == (None,)
    assert window_of([user("q"), called, answered]).drop(1) == (1, 2)


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_what_the_model_thought_is_counted(key: str) -> None:
    message = read_item({"role": "assistant", "content": "18", key: "a long thought"}).messages[0]
    assert message.reasoning == "a long thought"
    assert "a long thought" in message.counted_text


@pytest.mark.parametrize(
    "thought",
    [
        {"type": "thinking", "thinking": "hm"},
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "reference", "reference_ids": [1]},
        {"type": "redacted_thinking", "data": "c2ln"},
    ],
)
def test_calls_beside_blocks_of_reasoning_stay_with_their_results(thought: dict[str, Any]) -> None:
    """As Mistral and Cohere have them."""
    function = {"name": "look", "arguments": "{}"}
    answer = {
        "role": "assistant",
        "content": [thought, {"type": "text", "text": "I look."}],
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }
    chat: list[dict[str, Any]] = [user("Weather?"), answer]
    chat += [{"role": "tool", "tool_call_id": "c", "content": "sunny"}, user("And now?")]
    assert read_item(answer).calls == ("c",)
    assert tokenbox.fit(chat, 1_000, model="gpt-4o").messages == chat


@pytest.mark.parametrize(
    "repeated",
    [
        {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"city": "Bonn"}'}},
        {"id": "c", "type": "tool_call", "name": "look", "args": {"city": "Bonn"}},
    ],
)
def test_calls_that_repeat_those_of_the_blocks_are_the_same_calls(repeated: dict[str, Any]) -> None:
    block = {"type": "tool_use", "id": "c", "name": "look", "input": {"city": "Bonn"}}
    other = {"id": "d", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    answer = {"role": "assistant", "content": [block], "tool_calls": [repeated]}
    chat: list[dict[str, Any]] = [user("Weather?"), answer]
    chat += [{"role": "tool", "tool_call_id": "c", "content": "sunny"}, user("And now?")]
    assert tokenbox.fit(chat, 1_000, model="gpt-4o").messages == chat
    assert read_item({**answer, "tool_calls": [repeated, other]}).calls == ("d", "c")


def test_calls_that_are_items_of_their_own_stay_with_their_outputs() -> None:
    window = window_of([user("q"), REASONING, call("a"), call("b"), output("a"), output("b"), user("and?")])
    assert window.exchanges == 2
    assert window.drop(1) == (1, 2, 3, 4, 5)


HOSTED = {"type": "mcp_call", "id": "m", "name": "f", "server_label": "s", "arguments": "{}", "output": "18"}
SAID = {"type": "message", "id": "a", "role": "assistant", "content": [{"type": "output_text", "text": "18"}]}


@pytest.mark.parametrize(
    ("given", "together"),
    [
        ([REASONING, SAID], [(1, 2)]),
        ([REASONING, REASONING, SAID, SAID], [(1, 2, 3, 4)]),
        ([REASONING, SAID, call("a"), output("a")], [(1, 2, 3, 4)]),
        ([REASONING, call("a"), SAID, output("a")], [(1, 2, 3, 4)]),
        ([call("a"), SAID, output("a")], [(1, 2, 3)]),
        ([REASONING, call("a"), REASONING, call("b"), output("a"), output("b")], [(1, 2, 3, 4, 5, 6)]),
        ([REASONING, call("a"), output("a"), REASONING, SAID], [(1, 2, 3), (4, 5)]),
        ([REASONING, HOSTED, REASONING, SAID], [(1, 2), (3, 4)]),
        ([REASONING, HOSTED, SAID], [(1, 2, 3)]),
        ([HOSTED, SAID], [(1,), (2,)]),
        ([SAID, SAID], [(1,), (2,)]),
    ],
)
def test_reasoning_stays_with_what_follows_it(
    given: list[dict[str, Any]], together: list[tuple[int, ...]]
) -> None:
    values = [user("q"), *given, user("and?")]
    for numbers in together:
        for number in numbers:
            assert window_of(values).drop(number) == numbers
    # Nothing of an old answer has to stay.
    later = window_of([*values, {"role": "assistant", "content": "20"}, user("thanks")])
    assert set(evictable(later)) == set(range(len(values) + 1))


def test_an_answer_with_its_reasoning_leaves_with_its_question() -> None:
    values = [user("q"), REASONING, SAID, user("and?")]
    assert evictable(window_of(values)) == (0, 1, 2)
    window = window_of(values)
    enforce(window, WindowLimits(None, budget=1, mark=1))
    assert list(window) == [3]


def test_two_rounds_of_calls_are_two_rounds() -> None:
    window = window_of([user("q"), call("a"), output("a"), call("b"), output("b")])
    assert window.drop(1) == (1, 2)
    assert window.drop(3) == (3, 4)


def test_what_a_user_says_beside_results_stays_while_it_is_the_last() -> None:
    values = [user("q"), ANTHROPIC_CALL, ANTHROPIC_RESULTS]
    assert evictable(window_of(values)) == ()
    later = window_of([*values, {"role": "assistant", "content": "18 and 20"}, user("thanks")])
    assert sorted(evictable(later)) == [0, 1, 2, 3]


def test_a_result_without_its_call_is_unsendable() -> None:
    window = window_of([user("q"), output("nothing")])
    assert 1 in window
    grouping = Grouping()
    assert grouping.place(read_item(output("x")), 0).kind.value == "stray"


@pytest.mark.parametrize(
    ("tool", "verbatim"),
    [
        (CHAT_TOOL, True),
        ({"type": "function", "name": "f", "description": "d", "parameters": SCHEMA}, False),
        ({"name": "f", "description": "d", "input_schema": SCHEMA}, False),
        ({"name": "f", "description": "d", "parameters": SCHEMA}, False),
    ],
)
def test_a_tool_of_any_api_has_one_shape(tool: dict[str, Any], verbatim: bool) -> None:
    (read,), same = read_tools([tool])
    assert thaw(read) == CHAT_TOOL
    assert same is verbatim


def test_a_whole_request_is_told_by_its_keys() -> None:
    messages = [user("hi")]
    assert read_request({"messages": messages}).api is Api.CHAT
    assert read_request({"messages": messages, "system": "be brief"}).api is Api.MESSAGES
    assert read_request({"input": "hi", "instructions": "be brief"}).api is Api.RESPONSES
    assert read_request({"prompt": ["a", [1, 2]]}).prompts == ("a", (1, 2))
    for given, prompts in ((["a", "b"], ("a", "b")), ([1, 2], ((1, 2),)), ([[1], [2]], ((1,), (2,)))):
        request = read_request({"input": given})
        assert (request.api, request.prompts) == (Api.EMBEDDINGS, prompts)
    with pytest.raises(InvalidMessage, match="none of them"):
        read_request({"role": "user", "content": "hi"})


def test_the_system_prompt_of_a_field_is_a_message_without_a_place() -> None:
    request = read_request({"messages": [user("hi")], "system": [{"type": "text", "text": "be brief"}]})
    assert [message.role for message in request.messages] == [Role.SYSTEM, Role.USER]
    assert request.places == (None, 0)
    assert not request.verbatim


def test_what_may_cost_is_kept_and_what_costs_nothing_is_not() -> None:
    body = {
        "model": "m",
        "messages": [user("hi")],
        "temperature": 0,
        "tool_choice": "auto",
        "response_format": {"type": "json_object"},
        "suffix": None,
        "made_up": "long text",
    }
    assert thaw(read_request(body).fields) == {
        "response_format": {"type": "json_object"},
        "made_up": "long text",
    }


def test_every_text_of_a_request_is_found() -> None:
    body = {
        "messages": [{**user("SECRET1"), "made_up": ["SECRET2"]}, ANTHROPIC_CALL],
        "tools": [{"name": "f", "input_schema": {"properties": {"SECRET3": {"enum": ["SECRET4"]}}}}],
        "extra": {"deep": [{"SECRET5": "SECRET6"}]},
    }
    found = "\n".join(read_request(body).texts())
    for number in range(1, 7):
        assert f"SECRET{number}" in found
    assert "Rome" in found


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("hi", "not str"),
        ([{"type": "hologram_call"}], "messages[0]: an item has the unknown type 'hologram_call'"),
        ([user("hi"), {"role": "user", "content": [{"type": "hologram"}]}], "messages[1]: content[0]"),
        ([{"role": "assistant", "content": [{"type": "tool_use"}, {"type": "hologram"}]}], "'hologram'"),
        ([object()], "message object of a library"),
        ([{"role": "user", "content": {"type": "text", "text": "hi"}}], "Put the part into a list."),
        ([{"role": "user", "blocks": []}], "messages[0]: this is the JSON of a library's message"),
        ([{"kind": "request", "parts": [{"part_kind": "user-prompt"}]}], "ModelMessagesTypeAdapter"),
        (
            [{"kind": "message", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}],
            "parts[0] is not a",
        ),
        ([{"type": "ai", "content": "", "tool_calls": [1]}], "JSON of LangChain cannot be read"),
    ],
)
def test_a_shape_that_is_not_understood_names_its_place(value: object, says: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        read_items(value)
    assert says in caught.value.message


def nested(depth: int) -> list[Any]:
    found: list[Any] = ["x"]
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (lambda: tool_call("c", "at", {"time": object()}), "the arguments of a call to 'at' are not JSON"),
        (lambda: tool_call("c", "at", nested(200_000)), "are not JSON"),
        (
            lambda: read_request({"messages": []}, fields=[1]),  # type: ignore[arg-type]  # from untyped code
            "fields of a request are a mapping, not list",
        ),
        (lambda: read_request({"messages": [], "system": nested(5_000)}), "nested more than 32"),
        (lambda: read_request({"input": "q", "instructions": nested(990)}), "nested more than 32"),
        (lambda: read_item({"type": nested(200_000), "content": "q"}), "nested too deeply"),
    ],
)
def test_what_is_no_json_or_too_deep_is_refused(read: Callable[[], object], says: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        read()
    assert says in caught.value.message


def test_a_gateway_reads_what_it_does_not_understand_as_its_texts() -> None:
    (item,) = read_items([{"role": "user", "content": [{"type": "hologram", "text": "boo"}]}], strict=False)
    assert item.messages[0].text == "boo"
    assert not item.verbatim


def test_a_gateway_keeps_a_role_that_only_its_server_knows() -> None:
    given = {"role": "critic", "content": "Too short.", "name": "ada"}
    (item,) = read_items([given], strict=False)
    (message,) = item.messages
    assert (message.role, message.text, message.name) == (Role.USER, "Too short.", "ada")
    assert message.to_dict() == item.to_dict() == given
    assert not item.verbatim  # no count of it is exact, and the role is in its bound


class Block:
    """An object of an SDK, such as a block of an answer."""

    def __init__(self, **fields: object) -> None:
        self.fields = fields

    def model_dump(self, *, exclude_none: bool) -> dict[str, object]:
        return {key: value for key, value in self.fields.items() if value is not None or not exclude_none}


def test_blocks_of_an_answer_may_be_put_into_a_message_as_they_came() -> None:
    call = Block(type="tool_use", id="a", name="weather", input={"city": "Paris"}, cache_control=None)
    answer = {"role": "assistant", "content": [Block(type="thinking", thinking="Look."), call]}
    (message,) = read_item(answer).messages
    assert (message.reasoning, message.tool_calls[0].name) == ("Look.", "weather")
    function = Block(name="weather", arguments="{}").fields
    calling = {"role": "assistant", "content": None, "tool_calls": [Block(id="a", function=function)]}
    assert read_item(calling).calls == ("a",)
    result = {"type": "tool_result", "tool_use_id": "a", "content": [Block(type="text", text="18")]}
    assert read_item({"role": "user", "content": [result]}).text == "18"
    with pytest.raises(InvalidMessage, match="is object, which is not JSON"):
        read_item({"role": "assistant", "content": [object()]})


def test_an_answer_is_no_message_and_the_error_says_where_its_message_is() -> None:
    for holds, says in (("choices", r"answer\.choices\[0\]\.message"), ("output", r"\*response\.output")):
        with pytest.raises(InvalidMessage, match=says):
            read_item(Block(id="x", **{holds: []}))


def test_an_output_of_a_tool_is_an_item_though_an_answer_has_one_too() -> None:
    item = read_item(Block(type="function_call_output", call_id="a", output="18"))
    assert (item.results, item.text) == (("a",), "18")
    assert (
        read_item(Block(type="mcp_call", id="m", name="f", arguments="{}", output="18")).text == "f\n{}\n18"
    )


def test_a_system_prompt_beside_a_question_stays_with_it() -> None:
    class Request:
        kind = "request"

        def __init__(self, *parts: tuple[str, str]) -> None:
            self.parts = [SimpleNamespace(part_kind=kind, content=text) for kind, text in parts]

    Request.__module__ = "pydantic_ai.messages"
    first = Request(("system-prompt", "Always answer in French."), ("user-prompt", "First question?"))
    item = read_item(first)
    assert [message.role for message in item.messages] == [Role.SYSTEM, Role.USER]
    later = [Request(("user-prompt", f"Question {number} " + "word " * 50)) for number in range(20)]
    kept = tokenbox.fit([first, *later], 200, "o200k_base").messages
    assert kept[0] is first
    assert kept[-1] is later[-1]
    assert len(kept) < 10


def test_results_of_a_search_may_stand_alone() -> None:
    """After a pause of the turn, Anthropic's next message begins with what the search found."""
    found = [{"type": "web_search_result", "title": "Tides", "url": "https://a.example", "page_age": None}]
    block = {"type": "web_search_tool_result", "tool_use_id": "s", "content": found}
    assert "Tides" in read_item({"role": "assistant", "content": [block]}).text


def test_an_id_alone_is_a_reference_to_an_item() -> None:
    assert (
        read_item({"id": "msg_1"}).messages == read_item({"type": "item_reference", "id": "msg_1"}).messages
    )


def test_a_legacy_call_beside_an_empty_list_of_calls_counts() -> None:
    given = {"role": "assistant", "tool_calls": [], "function_call": {"name": "f", "arguments": "{}"}}
    assert [call.name for call in read_item(given).messages[0].tool_calls] == ["f"]


def test_a_function_may_return_nothing() -> None:
    assert read_item({"role": "function", "name": "f", "content": None}).text == ""
    with pytest.raises(InvalidMessage, match="no content"):
        read_item({"role": "function", "name": "f"})


def of_library(package: str, **attributes: object) -> object:
    """Return an object of a library that is not installed here: tests/clients has those of the libraries."""
    kind = type("Given", (SimpleNamespace,), {"__module__": f"{package}.messages"})
    given: object = kind(**attributes)
    return given


def langchain(*content: object, kind: str = "human", **extra: object) -> object:
    return of_library("langchain_core", type=kind, content=list(content), additional_kwargs=extra)


def llama_index(kind: str, **attributes: object) -> object:
    block = SimpleNamespace(block_type=kind, url=None, path=None, **attributes)
    return of_library("llama_index", role="user", blocks=[block], additional_kwargs={})


def pydantic_ai(*content: object) -> object:
    part = SimpleNamespace(part_kind="user-prompt", content=list(content))
    return of_library("pydantic_ai", kind="request", parts=[part])


def pydantic_ai_answer(**part: object) -> object:
    return of_library("pydantic_ai", kind="response", parts=[SimpleNamespace(**part)])


def haystack_answer(reasoning: object) -> object:
    def sent(**_: object) -> dict[str, object]:
        return {"role": "assistant", "content": ""}

    return of_library("haystack", reasonings=[reasoning], to_openai_dict_format=sent)


PDF = base64.b64encode(b"%PDF-1.4" + bytes(range(256))).decode()
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(64)).decode()
OGG = base64.b64encode(b"OggS" + bytes(256)).decode()
UNBOUNDED = {
    "langchain: a file": langchain({"type": "file", "base64": PDF, "mime_type": "application/pdf"}),
    "langchain: no image": langchain({"type": "image", "base64": PDF, "mime_type": "image/png"}),
    "langchain: a recording": langchain({"type": "audio", "base64": OGG, "mime_type": "audio/ogg"}),
    "langchain: a video": langchain({"type": "video", "url": "https://a.example/v.mp4"}),
    "langchain: a file of Gemini": langchain(
        {"type": "media", "file_uri": "https://a.example/files/a", "mime_type": "application/pdf"}
    ),
    "langchain: an image of Gemini by its place": langchain(
        {"type": "media", "file_uri": "gs://a/b.png", "mime_type": "image/png"}
    ),
    "langchain: a PDF of Gemini": langchain({"type": "media", "data": PDF, "mime_type": "application/pdf"}),
    "langchain: a recording of Gemini": langchain(
        {"type": "media", "data": base64.b64decode(OGG), "mime_type": "audio/ogg"}
    ),
    "langchain: a wrapped video": langchain(
        {"type": "non_standard", "value": {"type": "media", "file_uri": "gs://v", "mime_type": "video/mp4"}}
    ),
    "langchain: an earlier recording": langchain(kind="ai", audio={"id": "audio_1", "data": OGG}),
    "langchain: reasoning by its id": langchain(
        {"type": "reasoning", "id": "rs_1", "summary": []}, kind="ai"
    ),
    "langchain: an image of the model by its id": langchain(
        {"type": "image_generation_call", "id": "ig_1", "status": "completed"}, kind="ai"
    ),
    "llama-index: reasoning by its id": llama_index(
        "thinking", content="hm", additional_information={"id": "rs_1"}
    ),
    "llama-index: a document": llama_index("document", data=PDF.encode()),
    "llama-index: a recording": llama_index("audio", audio=OGG.encode()),
    "pydantic-ai: a place": pydantic_ai(SimpleNamespace(kind="document-url", url="https://a.example/a.pdf")),
    "pydantic-ai: a file that a server keeps": pydantic_ai(
        SimpleNamespace(kind="uploaded-file", file_id="file_1")
    ),
    "pydantic-ai: a document": pydantic_ai(
        SimpleNamespace(
            kind="binary", media_type="application/pdf", data_uri=f"data:application/pdf;base64,{PDF}"
        )
    ),
}
BOUNDED = {
    "langchain: an image": langchain({"type": "image", "base64": PNG, "mime_type": "image/png"}),
    "langchain: an image of the model": langchain(
        {"type": "image_generation_call", "id": "ig_1", "result": PNG}, kind="ai"
    ),
    "langchain: an image of Gemini": langchain({"type": "media", "data": PNG, "mime_type": "image/png"}),
    "langchain: a wrapped image": langchain(
        {
            "type": "non_standard",
            "value": {"type": "media", "data": base64.b64decode(PNG), "mime_type": "image/png"},
        }
    ),
    "llama-index: an image": llama_index("image", image=PNG.encode()),
    "pydantic-ai: an image": pydantic_ai(SimpleNamespace(kind="binary", media_type="image/png")),
}


@pytest.mark.parametrize("name", [*UNBOUNDED, *BOUNDED])
def test_a_file_of_a_library_has_a_bound_only_if_it_is_an_image(name: str) -> None:
    count = tokenbox.count([{**UNBOUNDED, **BOUNDED}[name]], model="gpt-4o")
    assert not count.exact
    assert (count.at_most > 10**9) == (name in UNBOUNDED)


ENCRYPTED = "gAAAx7Qw" * 400
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": ENCRYPTED}


def test_a_compaction_is_known_in_every_shape() -> None:
    block = {"type": "compaction", "encrypted_content": ENCRYPTED}
    part = {"part_kind": "compaction", "content": None, "provider_details": {"encrypted_content": ENCRYPTED}}
    for given in (block, {"role": "assistant", "content": [block]}, pydantic_ai_answer(**part)):
        assert read_item(given).is_compaction
    for given in (THOUGHT, langchain(THOUGHT, kind="ai"), {"role": "user", "content": "compaction"}):
        assert not read_item(given).is_compaction


@pytest.mark.parametrize(
    "given",
    [
        langchain(THOUGHT, kind="ai"),
        langchain(kind="ai", reasoning=THOUGHT),
        langchain({"type": "reasoning", "reasoning": "", "extras": {"signature": ENCRYPTED}}, kind="ai"),
        langchain({"type": "thinking", "thinking": "", "signature": ENCRYPTED}, kind="ai"),
        langchain({"type": "compaction", "encrypted_content": ENCRYPTED}, kind="ai"),
        llama_index("thinking", content="", additional_information={"signature": ENCRYPTED}),
        pydantic_ai_answer(part_kind="thinking", content="", signature=ENCRYPTED),
        haystack_answer(SimpleNamespace(reasoning_text="", extra={"signature": ENCRYPTED})),
        haystack_answer(SimpleNamespace(reasoning_text=ENCRYPTED, extra={})),
        pydantic_ai_answer(
            part_kind="compaction", content=None, provider_details={"encrypted_content": ENCRYPTED}
        ),
    ],
)
def test_encrypted_reasoning_in_an_object_of_a_library_is_counted(given: object) -> None:
    native = tokenbox.count([THOUGHT], model="gpt-5")
    count = tokenbox.count([given], model="gpt-5")
    assert native.total <= count.total + 9
    assert count.total <= native.total + 99
    assert not count.exact
    assert count.at_most >= native.total


def test_screenshots_of_langchain_stay_with_their_calls_and_are_not_masked() -> None:
    call = {"type": "computer_call", "id": "cu", "call_id": "c", "action": {"type": "wait"}}
    screen = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
    shown = langchain(screen, kind="tool", type="computer_call_output")
    vars(shown).update(tool_call_id="c")
    for asked in (langchain(call, kind="ai"), langchain(kind="ai", tool_outputs=[call])):
        messages = [user("q"), asked, shown, {"role": "assistant", "content": "done"}, user("and?")]
        assert tokenbox.fit(messages, 5_000, model="gpt-5").messages == messages
        assert evictable(window_of(messages))[:2] == (1, 2)
        with pytest.raises(InvalidMessage, match="in place of a screenshot"):
            with_texts(shown, read_item(shown), ["left out"], {0})


def test_a_block_that_langchain_does_not_know_is_what_it_holds() -> None:
    blocks = [
        {"type": "non_standard", "value": {"type": "text", "text": "hi"}},
        {"type": "non_standard", "value": {"type": "thinking", "thinking": "They greet."}},
        {"type": "non_standard", "value": "there"},
    ]
    (message,) = read_item(langchain(*blocks, kind="ai")).messages
    assert (message.text, message.reasoning) == ("hithere", "They greet.")


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_call", "id": "c", "name": "look", "args": {"city": "Bonn"}},
        {"type": "tool_call_chunk", "id": "c", "name": "look", "args": '{"city": "Bonn"}', "index": 1},
        {"type": "tool_use", "id": "c", "name": "look", "input": {"city": "Bonn"}},
        {
            "type": "function_call",
            "id": "fc",
            "call_id": "c",
            "name": "look",
            "arguments": '{"city": "Bonn"}',
        },
        {
            "type": "non_standard",
            "value": {"type": "tool_use", "id": "c", "name": "look", "input": {"city": "Bonn"}},
        },
    ],
)
def test_a_call_among_the_blocks_of_langchain_is_one_call(block: object) -> None:
    """Adapters send it, whether ``tool_calls`` repeats it or not."""
    alone = langchain({"type": "text", "text": "I look."}, block, kind="ai")
    both = langchain({"type": "text", "text": "I look."}, block, kind="ai")
    both.tool_calls = [{"name": "look", "args": {"city": "Bonn"}, "id": "c"}]  # type: ignore[attr-defined]  # a namespace
    (message,) = read_item(alone).messages
    assert message.tool_calls == (("c", "look", '{"city": "Bonn"}'),)
    assert read_item(both).messages == (message,)


def test_schemas_that_langchain_sends_as_a_block_are_counted_with_their_keys() -> None:
    schema = {"type": "object", "properties": {"word " * 999: {"type": "string"}}}
    tools = [{"type": "function", "name": "look", "parameters": schema}]
    for kind in ("additional_tools", "tool_search_output", "mcp_list_tools"):
        message = langchain({"type": kind, "tools": tools}, kind="system")
        count = tokenbox.count([user("hi"), message], "gpt-4o")
        assert 999 < count.total < count.at_most, kind


def test_the_json_of_langchain_is_its_message() -> None:
    calls = [{"name": "look", "args": {"city": "Bonn"}, "id": "c", "type": "tool_call"}]
    saved: list[dict[str, Any]] = [
        {"type": "human", "content": "Weather?", "additional_kwargs": {}, "response_metadata": {}},
        {"type": "ai", "content": "", "tool_calls": calls, "response_metadata": {"model": "m"}},
        {"type": "tool", "content": "sunny " * 99, "tool_call_id": "c"},
        {"type": "AIMessageChunk", "content": "Sunny.", "response_metadata": {}},
        {"type": "human", "content": "And now?"},
    ]
    objects = [of_library("langchain_core", **one) for one in saved]
    count = tokenbox.count(objects, "gpt-4o")
    assert tokenbox.count(saved, "gpt-4o") == count
    assert tokenbox.count([{"type": one["type"], "data": one} for one in saved], "gpt-4o") == count
    cut = tokenbox.fit(saved, 90, model="gpt-4o")
    assert [one["type"] for one in cut.messages] == [one["type"] for one in saved]
    assert cut.messages[1] is saved[1]
    assert len(cut.messages[2]["content"]) < len(saved[2]["content"])


@pytest.mark.parametrize(
    ("block", "says"),
    [
        (
            {"type": "non_standard", "value": {"type": "hologram"}},
            r"messages\[1\]: content\[1\] is not a part",
        ),
        ({"type": "non_standard"}, r"messages\[1\]: content\[1\] is not a part"),
        ({"type": "media", "mime_type": "image/png"}, r"messages\[1\]: .*'media' has neither data nor"),
    ],
)
def test_an_unknown_block_of_langchain_is_refused_with_its_place(block: object, says: str) -> None:
    with pytest.raises(InvalidMessage, match=says):
        read_items([{"role": "user", "content": "hi"}, langchain("see", block)])


def test_an_image_in_the_result_of_a_tool_of_pydantic_ai_counts() -> None:
    image = SimpleNamespace(kind="binary", media_type="image/png")
    result = SimpleNamespace(
        part_kind="tool-return",
        tool_name="draw",
        tool_call_id="a",
        model_response_str=lambda: "done",
        files=[image],
    )
    (message,) = read_item(of_library("pydantic_ai", kind="request", parts=[result])).messages
    assert (message.text, len(message.media), message.tool_call_id) == ("done", 1, "a")


def test_a_record_of_instructions_of_pydantic_ai_is_not_sent() -> None:
    parts = [
        SimpleNamespace(part_kind="instruction-baseline", instructions=[]),
        SimpleNamespace(part_kind="instruction-delta", content=None),
        SimpleNamespace(part_kind="instruction-delta", content="Be brief."),
    ]
    assert read_item(of_library("pydantic_ai", kind="request", parts=parts)).text == "Be brief."


class LlamaMessage:
    """A message of LlamaIndex: its content can be set only if it has one block of text, or none."""

    role, additional_kwargs = "tool", {"tool_call_id": "a"}

    def __init__(self, *texts: str) -> None:
        self.blocks = [SimpleNamespace(block_type="text", text=text) for text in texts]

    def model_copy(self, *, update: dict[str, Any]) -> LlamaMessage:
        copy = LlamaMessage()
        copy.__dict__.update(update)
        return copy

    def __setattr__(self, name: str, value: object) -> None:
        if name == "content":
            assert len(self.blocks) < 2, "contains multiple blocks"
            name, value = "blocks", [SimpleNamespace(block_type="text", text=value)]
        super().__setattr__(name, value)


LlamaMessage.__module__ = "llama_index.core"


def test_a_result_of_several_blocks_can_be_cut() -> None:
    given = LlamaMessage("first", "second")
    cut, item = with_texts(given, read_item(given), ["..."])
    assert (type(cut), item.text) == (LlamaMessage, "...")
    assert [block.text for block in given.blocks] == ["first", "second"]


def test_a_result_of_haystack_may_have_an_image() -> None:
    text, image = SimpleNamespace(text="done"), SimpleNamespace(base64_image=PNG)
    result = SimpleNamespace(result=[text, image], origin=SimpleNamespace(id="a"))
    given = of_library("haystack", tool_call_results=[result], to_openai_dict_format=None)
    (message,) = read_item(given).messages
    assert (message.text, len(message.media), message.tool_call_id) == ("done", 1, "a")


def test_what_a_library_refuses_or_names_differently_is_an_error_with_its_position() -> None:
    def refuse(**_: object) -> None:
        raise ValueError("Unsupported tool result")

    given = of_library("haystack", tool_call_results=[], to_openai_dict_format=refuse)
    other = of_library("pydantic_ai", kind="request", parts=[SimpleNamespace(kind="text")])
    for value, says in ((given, "Unsupported tool result"), (other, "part_kind")):
        with pytest.raises(InvalidMessage, match=rf"messages\[1\]: Given cannot be read .*{says}"):
            read_items([user("q"), value])


PICTURE = b"\x89PNG\r\n\x1a\n" + b"0" * 100
BEDROCK = [
    user("weather?") | {"content": [{"text": "weather?"}, {"cachePoint": {"type": "default"}}]},
    {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "abc"}}},
            {"text": "I look."},
            {"toolUse": {"toolUseId": "t1", "name": "f", "input": {"city": "Paris"}}},
            {"toolUse": {"toolUseId": "t2", "name": "f", "input": {"city": "Rome"}}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"toolResult": {"toolUseId": "t1", "content": [{"text": "rain " * 200}], "status": "success"}},
            {"toolResult": {"toolUseId": "t2", "content": [{"json": {"degrees": 20}}]}},
        ],
    },
    {"role": "assistant", "content": [{"text": "Rain."}]},
    {
        "role": "user",
        "content": [{"image": {"format": "png", "source": {"bytes": PICTURE}}}, {"text": "this?"}],
    },
]
GEMINI = [
    {"parts": [{"text": "weather?"}]},
    {
        "role": "model",
        "parts": [
            {"text": "hm", "thought": True},
            {"text": "I look.", "thoughtSignature": "abc"},
            {"functionCall": {"name": "f", "args": {"city": "Paris"}}},
            {"functionCall": {"name": "g", "args": {"city": "Rome"}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "f", "response": {"result": "rain " * 200}}},
            {"function_response": {"name": "g", "response": {"degrees": 20}}},
        ],
    },
    {"role": "model", "parts": [{"text": "Rain."}]},
    {
        "role": "user",
        "parts": [{"inline_data": {"mime_type": "image/png", "data": PICTURE}}, {"text": "this?"}],
    },
]


@pytest.mark.parametrize("chat", [BEDROCK, GEMINI])
def test_messages_whose_parts_have_no_type(chat: list[dict[str, Any]]) -> None:
    items = read_items(chat)
    messages = [message for item in items for message in item.messages]
    assert [message.role.value for message in messages] == "user assistant tool tool assistant user".split()
    assert [message.text for message in messages] == [
        "weather?",
        "I look.",
        "rain " * 200,
        '{"degrees": 20}',
        "Rain.",
        "this?",
    ]
    assert messages[1].reasoning == "hm"
    assert [call.arguments for call in messages[1].tool_calls] == ['{"city": "Paris"}', '{"city": "Rome"}']
    assert [part.kind.value for part in messages[-1].media] == ["image"]
    counted = tokenbox.count(chat, "gpt-4o")
    assert not counted.exact
    assert counted.total > 1_200  # with the image
    assert read_items([item.to_dict() for item in items])[-1].messages == items[-1].messages


@pytest.mark.parametrize("chat", [BEDROCK, GEMINI])
def test_results_among_parts_without_a_type_are_shortened(chat: list[dict[str, Any]]) -> None:
    fitted = tokenbox.fit(chat, 1_595, model="gpt-4o")
    assert len(fitted.messages) == len(chat)
    assert [now is given for now, given in zip(fitted.messages, chat, strict=True)] == [
        place != 2 for place in range(5)
    ]
    before, after = (read_item(one).messages for one in (chat[2], fitted.messages[2]))
    assert len(after[0].text) < len(before[0].text)
    assert after[1].text == before[1].text  # no longer than the line in its place


def test_an_old_text_among_parts_without_a_type_is_shortened() -> None:
    for key, role in (("parts", "model"), ("content", "assistant")):
        chat: list[dict[str, Any]] = [
            {"role": "user", key: [{"text": "an old question " * 300}]},
            {"role": role, key: [{"text": "an answer"}]},
            {"role": "user", key: [{"text": "and now?"}]},
        ]
        (first, *rest) = tokenbox.fit(chat, 300, model="gpt-4o").messages
        assert rest == chat[1:]
        assert "tokens left out" in first[key][0]["text"]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "parts": [{"hologram": "x"}]},
        {"role": "user", "parts": [{"text": "x", "secret": "y"}]},
        {"role": "user", "parts": ["x"]},
        {"role": "user", "content": [{"text": "x", "toolUse": {"name": "f"}}]},
        {"role": "user", "content": [{"text": "x"}, {"toolResult": "y"}]},
        {"role": "user", "parts": [{"functionCall": {"args": {}}}]},
    ],
)
def test_a_part_without_a_type_is_not_guessed(message: dict[str, Any]) -> None:
    (key,) = message.keys() & {"parts", "content"}
    with pytest.raises(InvalidMessage, match=rf"^{key}\[{len(message[key]) - 1}\] is not a part"):
        read_item(message)


@pytest.mark.parametrize("role", [["user"], {"name": "user"}])
def test_a_role_that_is_no_text_beside_parts_without_a_type(role: object) -> None:
    message = {"role": role, "parts": [{"text": "hi"}]}
    with pytest.raises(InvalidMessage, match="role"):
        read_item(message)
    assert read_item(message, strict=False).text == read_item({"parts": [{"text": "hi"}]}).text == "hi"


@pytest.mark.parametrize("strict", [True, False])
def test_parts_without_a_type_are_not_followed_without_end(*, strict: bool) -> None:
    deep: dict[str, Any] = {"text": "x"}
    for _ in range(5_000):
        deep = {"toolResult": {"content": [deep]}}
    cycle: dict[str, Any] = {}
    cycle["a"] = cycle
    response = {"functionResponse": {"name": "f", "response": cycle}}
    for message in ({"content": [deep]}, {"parts": [response]}, {"content": "x", "images": [cycle]}):
        with pytest.raises(InvalidMessage, match="nested"):
            read_item({"role": "user", **message}, strict=strict)


def test_an_object_that_its_library_cannot_write_is_refused() -> None:
    class Message:
        role = "user"
        content = "see"

        def model_dump(self, **_: object) -> dict[str, object]:
            raise ValueError("Invalid image data")

    with pytest.raises(InvalidMessage, match=r"messages\[1\]: .*Invalid image data"):
        read_items([user("hi"), Message()])


class Array:
    """Like an array of numpy, which no question has a yes or no for."""

    def __eq__(self, _: object) -> Array:  # type: ignore[override]  # as numpy's
        return self

    def __bool__(self) -> bool:
        raise ValueError("The truth value of an array is ambiguous.")

    __hash__ = None  # type: ignore[assignment]  # as numpy's


@pytest.mark.parametrize("key", ["x", "tools", "tool_choice", "temperature", "metadata"])
def test_an_array_in_a_field_is_no_json(key: str) -> None:
    if key in ("temperature", "metadata"):  # free
        assert tokenbox.count({"messages": [user("hi")], key: Array()}, "gpt-4o").exact
        return
    with pytest.raises(InvalidMessage, match=r"Array"):
        tokenbox.count({"messages": [user("hi")], key: Array()}, "gpt-4o")


def test_a_mock_is_no_message() -> None:
    with pytest.raises(
        InvalidMessage, match=r"messages\[1\]: a message is a mapping such as .* not MagicMock"
    ):
        read_items([user("hi"), MagicMock()])


def test_what_an_answer_lacks_costs_nothing_where_its_dump_names_it() -> None:
    answer = {"role": "assistant", "content": "Sunny."}
    dumped = {
        **answer,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "tool_calls": None,
    }
    for model in ("gpt-4o", "claude-sonnet-4-5", "model-of-nobody"):
        one, other = (tokenbox.count([user("hi"), given, user("ok")], model) for given in (answer, dumped))
        assert one.total == other.total <= one.at_most < other.at_most
    long = {**answer, "word " * 999: None}
    assert tokenbox.count([user("hi"), long], "gpt-4o").total > 999
    many = {**answer, **{f"key_{number}": None for number in range(999)}}
    assert tokenbox.count([user("hi"), many], "gpt-4o").total > 999


def test_keys_of_null_count_at_most_as_the_json_that_a_server_may_show() -> None:
    tokenizer = registry.get("o200k_base")
    for name in ("x" * 34, "items_alpha_null_default_"):
        keys = {f"{name}{number:06}": None for number in range(999)}
        shown = tokenizer.count(json.dumps(keys))
        assert shown // 2 < lower_bound(keys, tokenizer) <= shown


@pytest.mark.parametrize(
    ("part", "is_bound"),
    [
        ({"type": "resource", "resource": {"uri": "file:///a", "text": "hi"}}, False),
        ({"type": "resource_link", "uri": "file:///a", "name": "a"}, False),
        ({"type": "audio", "data": "T2dnUw" * 50, "mimeType": "audio/ogg"}, False),
        ({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}, True),
    ],
)
def test_parts_of_mcp_are_read_in_results(part: dict[str, Any], is_bound: bool) -> None:
    result = {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "see"}, part]}
    (message,) = read_item(result).messages
    assert message.text == "see"
    assert len(message.media) == 1
    assert (tokenbox.count([result], "gpt-4o").at_most < MAX_INTEGER) is is_bound


def test_images_of_ollama() -> None:
    (message,) = read_item({"role": "user", "content": "this?", "images": [PICTURE, "aGk="]}).messages
    assert message.text == "this?"
    assert len(message.media) == 2


def test_any_object_with_a_role_and_a_content() -> None:
    @dataclass
    class Row:
        role: str
        content: str
        id: int = 7
        created: object = None

    rows = [Row("user", "hi"), Row("assistant", "ho"), Row("user", "long " * 400), Row("assistant", "x")]
    rows.append(Row("user", "now?"))
    fitted = tokenbox.fit(rows, 200, model="gpt-4o")
    assert fitted.messages[-1] is rows[-1]
    assert any("left out" in row.content and row.id == 7 for row in fitted.messages)
    assert rows[2].content == "long " * 400


def test_all_that_an_object_with_a_role_sends_is_counted() -> None:
    @dataclass
    class Row:
        content: str | None
        reasoning_content: str | None = None
        reasoning: str | None = None
        thinking: str | None = None
        function_call: dict[str, str] | None = None
        role: str = "assistant"

    for row in (
        Row("x", reasoning_content="Think. " * 40),
        Row("x", reasoning="Think. " * 40),
        Row("x", thinking="Think. " * 40),
        Row(None, function_call={"name": "look", "arguments": '{"at": "%s"}' % ("there " * 40)}),
    ):
        equal = {key: value for key, value in asdict(row).items() if key == "content" or value is not None}
        expected = tokenbox.count([equal], model="gpt-4o").total
        assert (expected > 40, tokenbox.count([row], model="gpt-4o").total) == (True, expected)


def test_a_method_with_the_name_of_a_field_is_no_field_of_the_message() -> None:
    class Row:
        role = "assistant"
        content = "x"

        def reasoning(self) -> str:
            return "Think. " * 40

        thinking = name = tool_calls = reasoning

    equal = {"role": "assistant", "content": "x"}
    assert tokenbox.count([Row()], model="gpt-4o").total == tokenbox.count([equal], model="gpt-4o").total


def test_a_role_of_a_tool_in_smolagents_is_one_of_a_chat() -> None:
    """As smolagents sends them: its calls as the assistant, its observations as the user."""

    class MessageRole(StrEnum):
        USER = "user"
        TOOL_CALL = "tool-call"
        TOOL_RESPONSE = "tool-response"

    @dataclass
    class ChatMessage:
        role: MessageRole
        content: list[dict[str, str]]
        raw: object = None

    said = ["Look.", "Calling tools: look", "Observation: " + "all of it " * 200]
    steps = [
        ChatMessage(role, [{"type": "text", "text": text}], raw=object())
        for role, text in zip(MessageRole, said, strict=True)
    ]
    equal = [
        {"role": role, "content": text}
        for role, text in zip(("user", "assistant", "user"), said, strict=True)
    ]
    assert tokenbox.count(steps, model="gpt-4o").total == tokenbox.count(equal, model="gpt-4o").total
    fitted = tokenbox.fit([*steps, ChatMessage(MessageRole.USER, steps[0].content)], 120, model="gpt-4o")
    assert {type(message) for message in fitted.messages} == {ChatMessage}
    assert fitted.total <= 120


def test_what_is_not_json_but_may_be_sent_in_base64_says_so() -> None:
    class Image:
        def tobytes(self) -> bytes:
            return b"png"

    for image in (b"png", Image()):
        with pytest.raises(InvalidMessage) as caught:
            read_items([{"role": "user", "content": [{"type": "image", "image": image}]}])
        assert caught.value.message == (
            f"messages[0]: message.content[0].image is {type(image).__name__}, which is not JSON. "
            "Give it in base64, or its address."
        )


def test_a_shortened_object_of_pydantic_is_one_of_its_class() -> None:
    """As those of Mistral's, Cohere's, Ollama's and Google's SDKs."""

    class ToolMessage(BaseModel):
        role: str = "tool"
        content: str
        tool_call_id: str = "c"

    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    answer = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = ToolMessage(content="sunny " * 300)
    fitted = tokenbox.fit([user("Weather?"), answer, result, user("And now?")], 200, model="gpt-4o")
    shorter = fitted.messages[2]
    assert isinstance(shorter, ToolMessage)
    assert len(shorter.content) < len(result.content)


def test_tools_of_gemini_and_bedrock() -> None:
    (tool,) = read_tools([CHAT_TOOL])[0]
    function = {"name": "f", "description": "d"}
    gemini = [{"functionDeclarations": [{**function, "parametersJsonSchema": SCHEMA}]}]
    bedrock = [{"toolSpec": {**function, "inputSchema": {"json": SCHEMA}}}]
    for given in (gemini, bedrock):
        read, verbatim = read_tools(given)
        assert [thaw(one) for one in read] == [thaw(tool)]
        assert not verbatim


@pytest.mark.parametrize(
    "tool",
    [
        {"toolSpec": {"name": "f", "inputSchema": {"json": SCHEMA, "extra": "hidden"}}},
        {"functionDeclarations": [{"name": "f", "parameters": "hidden", "parametersJsonSchema": SCHEMA}]},
    ],
    ids=str,
)
def test_nothing_beside_the_schema_of_a_tool_is_lost(tool: dict[str, Any]) -> None:
    assert "hidden" in read_request([], tools=[tool]).texts()


def test_tool_objects_of_libraries() -> None:
    named = {"name": "f", "description": "d"}
    objects = [
        SimpleNamespace(**named, params_json_schema=SCHEMA),  # OpenAI Agents
        SimpleNamespace(tool_def=SimpleNamespace(**named, parameters_json_schema=SCHEMA)),  # pydantic-ai
        SimpleNamespace(**named, inputSchema=SCHEMA),  # MCP
        SimpleNamespace(**named, parameters=lambda: SCHEMA),  # Agent Framework
        SimpleNamespace(metadata=SimpleNamespace(to_openai_tool=lambda: CHAT_TOOL)),  # LlamaIndex
        SimpleNamespace(tool_spec={**named, "inputSchema": {"json": SCHEMA}}),  # Strands
    ]
    chat = [user("hi")]
    counted = tokenbox.count(chat, "gpt-4o", tools=[CHAT_TOOL])
    for one in objects:
        assert tokenbox.count(chat, "gpt-4o", tools=[one]).total == counted.total
        assert tokenbox.fit(chat, 100, model="gpt-4o", tools=[one]).total == counted.total
        asked: dict[str, Any] = {"messages": chat, "tools": [one]}
        assert tokenbox.count(asked, "gpt-4o").total == counted.total
        for chunks, tools in ((asked, None), (chat, [one])):
            given: dict[str, Any] = {"tokenizer": "gpt-4o", "tools": tools}
            assert ctx.estimate("gpt-4o", chunks, **given).tokens_in == counted.total
            assert ctx.enforce("gpt-4o", chunks, **given).tokens_in == counted.total
            assert ctx.pack(chunks, model="gpt-4o", **given).total == counted.total
    assert tokenbox.Conversation("", "gpt-4o", tools=objects).estimate_tokens() > counted.total
    for unknown in (object(), len, SimpleNamespace(name="f", parameters=len)):
        with pytest.raises(InvalidMessage, match="Give its JSON schema"):
            tokenbox.count(chat, "gpt-4o", tools=[unknown])


def copied(package: str, **attributes: object) -> Any:  # noqa: ANN401  # an object of a library
    """Return an object of a library that is a class of Pydantic."""
    copy = partial(copied, package)
    return of_library(package, **attributes, model_copy=lambda update: copy(**{**attributes, **update}))


def test_messages_of_autogen() -> None:
    def message(kind: str, content: object, **rest: object) -> object:
        return copied("autogen_core", type=kind, content=content, **rest)

    call = SimpleNamespace(id="1", name="f", arguments="{}")
    results = [copied("", call_id="1", content="long " * 300), copied("", call_id="2", content="18")]
    chat = [
        message("SystemMessage", "Be brief."),
        message("UserMessage", ["this?", SimpleNamespace(to_base64=lambda: "aGk=")]),
        message("AssistantMessage", [call, SimpleNamespace(id="2", name="g", arguments="{}")], thought="hm"),
        message("FunctionExecutionResultMessage", results),
        message("AssistantMessage", "18."),
        of_library("autogen_agentchat", to_model_message=lambda: message("UserMessage", "now?")),
    ]
    read = [one for item in read_items(chat) for one in item.messages]
    roles = "system user assistant tool tool assistant user"
    assert [one.role.value for one in read] == roles.split()
    assert read[1].media
    assert read[2].reasoning == "hm"
    assert [call.name for call in read[2].tool_calls] == ["f", "g"]
    fitted: list[Any] = tokenbox.fit([message("UserMessage", "q"), *chat[2:]], 150, model="gpt-4o").messages
    assert [one.content for one in fitted[2].content][1] == "18"
    assert "left out" in fitted[2].content[0].content


class AgentContent:
    """A content of Agent Framework's."""

    def __init__(self, kind: str, **attributes: object) -> None:
        self.type = kind
        for name in ("text", "call_id", "name", "arguments", "result", "items", "uri", "media_type"):
            setattr(self, name, attributes.get(name))

    def to_dict(self) -> dict[str, object]:
        return {"type": self.type, "name": "note", "extra": {"raw": "unread"}}

    @classmethod
    def from_text(cls, text: str) -> AgentContent:
        return cls("text", text=text)

    @classmethod
    def from_function_result(cls, call_id: str, *, result: str) -> AgentContent:
        return cls("function_result", call_id=call_id, result=result)


def test_messages_of_agent_framework() -> None:
    def message(role: str, *contents: AgentContent) -> object:
        return of_library("agent_framework", role=role, contents=[*contents])

    text = AgentContent.from_text
    chat = [
        message("system", text("Be brief.")),
        message("user", text("an old question " * 300)),
        message("assistant", AgentContent("usage"), text("an answer")),
        message("user", text("this?"), AgentContent("uri", uri="https://x/y.png", media_type="image/png")),
        message(
            "assistant",
            AgentContent("text_reasoning", text="hm"),
            AgentContent("function_call", call_id="1", name="f", arguments={"city": "Paris"}),
        ),
        message("tool", AgentContent.from_function_result("1", result="long " * 300)),
        message("assistant", AgentContent("hosted_file")),
        message("user", text("now?")),
    ]
    read = [one for item in read_items(chat) for one in item.messages]
    assert [one.text for one in read[2:4]] == ["an answer", "this?"]
    assert read[3].media
    assert read[4].reasoning == "hm"
    assert read[4].tool_calls[0].arguments == '{"city": "Paris"}'
    assert read[6].text == "note"
    old: list[Any] = tokenbox.fit([*chat[:3], chat[-1]], 300, model="gpt-4o").messages
    assert "left out" in old[1].contents[0].text
    agent: list[Any] = tokenbox.fit([chat[-1], *chat[4:]], 150, model="gpt-4o").messages
    assert "left out" in agent[2].contents[0].result


def test_messages_of_semantic_kernel() -> None:
    sent = {"role": "user", "content": "hi"}
    value = of_library("semantic_kernel", role="user", items=[], to_dict=lambda: sent)
    assert tokenbox.fit([value], 100, model="gpt-4o").messages == [value]
