"""``at_most`` is never passed: what a real llama.cpp server counts, for random and hostile requests."""

from __future__ import annotations

import json
import random
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tokenbox
from tests.conversation.hostile import TEXTS, hostile, shapes
from tests.conversation.requests import request
from tests.conversation.test_counts_of_a_server import Asking, Refused
from tests.llama import model as models
from tokenbox.compose.bound import PER_MEDIA, SHOWN, UNENDING, Bound
from tokenbox.content.items import read_items
from tokenbox.content.message import InvalidMessage, Message
from tokenbox.content.request import read_request
from tokenbox.conversation.chat_format import ChatFormat
from tokenbox.conversation.markers import MarkersFormat
from tokenbox.conversation.pieces import PieceCounter
from tokenbox.conversation.published import openai_format
from tokenbox.counters import request_counter
from tokenbox.integers import MAX_INTEGER
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.llama.server import StartLlama

# Shows a tool twice and its texts escaped, as some do; has sentences of its own; prints a part as it is.
REPEATS = (
    "{{ 'You are a model. Today is Monday. ' * 40 }}\n"
    "{%- for tool in tools %}Use {{ tool.function.name }} to: {{ tool.function.description }}\n"
    "{{ tool | tojson(indent=4) }}\n{% endfor %}"
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n"
    "{%- if message.tool_calls %}{{ message.tool_calls | tojson }}{% endif %}"
    "{%- if message.role == 'tool' %}{{ {'content': message.content} | tojson }}"
    "{%- else %}{{ message.content }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.mark.slow
@pytest.mark.parametrize("template", [*models.TEMPLATES, "repeats"])
def test_a_server_never_counts_more(start_llama: StartLlama, template: str) -> None:
    server = start_llama(n_ctx=65_536, template=REPEATS if template == "repeats" else template)
    asking = Asking(server)
    own = get(f"file:{server.model.gguf}")
    counters = [MarkersFormat(own), MarkersFormat(get("two-vocabularies")), MarkersFormat(get("chars4"))]
    template_format = ChatFormat.open(server.model.gguf)
    bodies = shapes()
    for seed in range(60):
        bodies += [request(seed), hostile(random.Random(seed), request(seed))]
    counted = 0
    for body in bodies:
        try:
            usage = asking.post("/v1/chat/completions/input_tokens", body)["input_tokens"]
        except Refused:
            continue
        for counter in counters:
            count = counter.count_request(read_request(body))
            assert usage <= count.at_most, (counter.identity.name, body)
            assert count.total <= count.at_most
            assert not count.exact
        count = template_format.count_request(read_request(body))
        assert usage <= count.at_most, body
        assert not count.exact or usage == count.total == count.at_most, body
        counted += 1
    assert counted > 60
    asking.close()


def message(**fields: Any) -> Message:  # JSON
    return Message.of({"role": "user", "content": "hi", **fields})


def test_every_field_is_in_the_bound() -> None:
    tokenizer = get("o200k_base")
    bound = Bound(tokenizer)
    long = "many words of a field that nobody knows " * 50
    size = tokenizer.count(long)
    plain = bound.request(read_request([{"role": "user", "content": "hi"}]))
    chat = {"messages": [{"role": "user", "content": "hi"}]}
    for fields in (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"title": long}}}},
        {"suffix": long},
        {"functions": [{"name": "f", "description": long}]},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"$defs": {long: {}}}}}]},
        {"Messages": [{"role": "user", "content": long}]},
        {"chat_template_kwargs": {"documents": [long]}},
        {"messages": [{"role": "user", "content": "hi", "unknown": {"deep": [long]}}]},
        {"messages": [{"role": "assistant", "content": "hi", "reasoning_content": long}]},
        {"messages": [{"role": "user", "content": "hi", "name": long}]},
    ):
        read = read_request({**chat, **fields})
        assert bound.request(read) >= plain + size, fields
        for counter in (openai_format("gpt-4o"), MarkersFormat(tokenizer)):
            count = counter.count_request(read)
            assert not count.exact or "name" in str(fields)
            assert count.at_most >= count.total


def test_an_image_is_an_allowance_and_not_its_data() -> None:
    bound = Bound(get("o200k_base"))
    data = "data:image/png;base64," + "QUJD" * 100_000
    image = message(content=[{"type": "image_url", "image_url": {"url": data}}])
    assert PER_MEDIA < bound.message(image) < PER_MEDIA + 200
    described = message(content=[{"type": "image_url", "image_url": {"url": data}, "alt": "long " * 500}])
    assert bound.message(described) > bound.message(image) + 400
    file = {"type": "file", "file": {"filename": "a.txt", "file_data": "x" * 200_000}}
    assert bound.message(message(content=[file])) > PER_MEDIA + 200_000
    # A schema that looks like an image is shown as a schema.
    tool = {"type": "image", "data": "long " * 500}
    assert bound.frame(read_request([], tools=[tool])) > bound.frame(read_request([], tools=[{}])) + 400


@pytest.mark.parametrize("text", TEXTS)
def test_without_a_tokenizer_bytes_are_the_bound(text: str) -> None:
    bound = Bound(None)
    for name in ("o200k_base", "cl100k_base", "chars4"):
        assert get(name).count(text) <= bound.plain([text])[0]
    assert bound.plain([text]) <= bound.escaped([text])


def test_each_token_id_of_a_prompt_is_a_token() -> None:
    bound = Bound(get("o200k_base"))
    assert bound.prompt((*range(100), "words", 7)) == bound.prompt("words") + 101


@pytest.mark.parametrize("number", [1e20, -1e300, 2**63])
def test_a_number_may_be_shown_without_an_exponent(number: float) -> None:
    assert Bound(get("o200k_base")).value(number) >= len(f"{number:.0f}")


@given(st.text())
@example("\uac00")  # a syllable of Korean, of two or three letters
@example("\uff21\u0958")  # one character has fewer bytes in NFKC and NFKD, the other more in all forms
def test_a_server_may_normalize_what_it_counts(text: str) -> None:
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    assert max(len(form.encode()) for form in (text, *forms)) <= Bound(None).plain([text])[0]


def nested(levels: int, last: str) -> dict[str, Any]:
    """A tool whose definitions name the next one twice."""
    named: dict[str, Any] = {
        f"L{level}": {"items": {"$ref": f"#/$defs/L{level + 1}"}, "not": {"$ref": f"#/$defs/L{level + 1}"}}
        for level in range(levels)
    }
    named[f"L{levels}"] = {"type": "string", "description": "word " * 100, **({"$ref": last} if last else {})}
    return {
        "type": "function",
        "function": {"name": "f", "parameters": {"$defs": named, "$ref": "#/$defs/L0"}},
    }


@pytest.mark.parametrize("levels", [10, 20, 1_000])
def test_references_of_a_schema_may_be_replaced_by_what_they_name(levels: int) -> None:
    for model in ("claude-sonnet-4-5", "llama-3.1-8b", "model-of-nobody"):
        count = tokenbox.count([{"role": "user", "content": "hi"}], model, tools=[nested(levels, "")])
        assert min(100 * 2**levels, UNENDING) <= count.at_most < MAX_INTEGER
        assert count.total < 100 * levels + 3_000


def test_a_schema_that_names_itself_has_no_end() -> None:
    tool = nested(1, "#/$defs/L0")
    assert tokenbox.count([], "model-of-nobody", tools=[tool]).at_most > UNENDING
    assert tokenbox.count([], "gpt-4o", tools=[tool]).at_most < 10_000


@pytest.mark.parametrize("names", [("A", "B"), ("A", "A")])
def test_definitions_of_one_name_are_all_in_the_bound(names: tuple[str, str]) -> None:
    """Each level of a schema may have its own; a template may show the whole schema twice."""
    long, uses = {"description": "word " * 5_000}, [{"$ref": "#/$defs/A"}] * 3
    schema = {"$defs": {names[0]: long}, "anyOf": uses, "not": {"$defs": {names[1]: {"type": "string"}}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    assert tokenbox.count([], "model-of-nobody", tools=[tool]).at_most > SHOWN * 4 * 25_000


PROSE = "The report of the second quarter says that orders rose and that costs fell, as was expected. " * 40
CONVERTED: list[dict[str, Any]] = [
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "T", "signature": "T"},
            {"type": "text", "text": "T", "citations": [{"cited_text": "T"}]},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"T": "T", "n": [1, 2.5, None]}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "T"}] * 2},
            {"type": "text", "text": "T"},
        ],
    },
    {"role": "model", "parts": [{"text": "T"}, {"functionCall": {"name": "f", "args": {"a": "T"}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "T"}}}]},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": "T"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "T"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "T"}], "encrypted_content": "T"},
]


def filled(value: Any, texts: Callable[[], str]) -> Any:  # noqa: ANN401  # JSON
    """Return the value with a text in place of each T."""
    if isinstance(value, str):
        return value.replace("T", texts()) if "T" in value else value
    if isinstance(value, dict):
        return {filled(key, texts): filled(inner, texts) for key, inner in value.items()}
    return [filled(inner, texts) for inner in value] if isinstance(value, list) else value


@given(st.randoms(use_true_random=False), st.sampled_from(CONVERTED), st.lists(st.text(), max_size=3))
@pytest.mark.parametrize("name", ["o200k_base", None])
def test_a_converted_item_is_in_the_bound_however_a_server_shows_it(
    name: str | None, chance: random.Random, shape: dict[str, Any], more: list[str]
) -> None:
    """As it is, as the messages read from it, or in part so and in part so."""
    few = chance.sample([*TEXTS, *more], 3)  # so that some occur in several places
    item = filled(shape, lambda: chance.choice(few) * chance.choice([1, 1, 7]))
    try:
        read = read_request([item])
    except InvalidMessage:
        return
    assert read.raw
    tokenizer = get("o200k_base")
    bound = Bound(None if name is None else tokenizer).request(read)
    messages = [message.to_dict() for message in read.messages]
    calls = "".join(call.arguments for message in read.messages for call in message.tool_calls)
    beside = {"signature", "citations", "encrypted_content"}
    dropped = [
        block[key]
        for block in (item, *item.get("content", ()), *item.get("parts", ()))
        for key in sorted(beside & block.keys())
    ]
    shown = [
        json.dumps(form, ensure_ascii=is_ascii) for form in (item, messages) for is_ascii in (True, False)
    ]
    shown.append("".join(message.text + message.reasoning for message in read.messages) + calls)
    shown += [f"{show}{json.dumps(dropped)}" for show in shown[2:]]
    for text in shown:
        assert tokenizer.count(text) <= bound


@pytest.mark.parametrize("model", ["gpt-4o", "model-of-nobody"])
def test_a_text_of_a_converted_item_is_in_the_bound_once(model: str) -> None:
    text = {"type": "text", "text": PROSE}
    blocks: list[Any] = [
        {"role": "user", "content": [text, {"type": "tool_result", "tool_use_id": "c1", "content": PROSE}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [text, text]}]},
    ]
    plain = [{"role": "user", "content": PROSE}, {"role": "user", "content": PROSE}]
    once = tokenbox.count(plain, model).at_most
    for item in blocks:
        assert tokenbox.count([item], model).at_most < once + 1_000, item
    counter = request_counter(model)
    assert isinstance(counter, PieceCounter)
    session = counter.session()
    for number, item in enumerate(read_items(blocks)):
        session.add(number, item)
    assert session.count().at_most == tokenbox.count(blocks, model).at_most


def test_an_image_of_a_converted_item_is_in_the_bound_once() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    image = {"type": "image", "source": source}
    item = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [image]}]}
    bound = Bound(get("o200k_base")).request(read_request([item]))
    assert PER_MEDIA <= bound < PER_MEDIA + 2_000
