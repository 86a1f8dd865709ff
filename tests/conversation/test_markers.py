"""With a bare vocabulary the count is never less than a common format's with the same vocabulary."""

from __future__ import annotations

import random

import pytest

from tests.conversation.hostile import hostile, shapes
from tests.conversation.requests import request
from tests.llama import model as models
from tokenbox.compose.requests import By
from tokenbox.content.request import read_request
from tokenbox.conversation.chat_format import ChatFormat
from tokenbox.conversation.llama.syntax import TemplateError
from tokenbox.conversation.markers import MarkersFormat
from tokenbox.conversation.published import openai_format
from tokenbox.errors import TokenboxError
from tokenbox.tokenizers.registry import get

# Marks messages as Llama 3 does, with the special tokens that the vocabulary of the tests has.
LLAMA = (
    "<|endoftext|>{% for message in messages %}<|im_start|>{{ message.role }}<|im_end|>\n\n"
    "{% if message.tool_calls %}{% for call in message.tool_calls %}"
    '{"name": "{{ call.function.name }}", "parameters": {{ call.function.arguments | tojson }}}{% endfor %}'
    "{% else %}{{ message.content }}{% endif %}<|endoftext|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant<|im_end|>\n\n{% endif %}"
)


@pytest.mark.slow
def test_a_budget_held_on_it_holds_on_the_formats(model: models.Model) -> None:
    own = MarkersFormat(get(f"file:{model.gguf}"))
    formats = [ChatFormat.open(model.gguf, template=text) for text in (models.TOOLS, models.TURNS, LLAMA)]
    o200k = MarkersFormat(get("o200k_base"))
    bodies = shapes()
    for seed in range(150):
        bodies += [request(seed), hostile(random.Random(seed), request(seed))]
    counted = 0
    for body in bodies:
        read = read_request(body)
        for other in formats:
            try:
                rendered = other.count_request(read)
            except TemplateError:
                continue
            assert rendered.total <= own.count_request(read).total, body
            counted += 1
        assert openai_format("gpt-4o").count_request(read).total <= o200k.count_request(read).total
    assert counted > 500


def test_many_short_messages() -> None:
    read = read_request([{"role": "user", "content": "x"}] * 402)
    by_rules = openai_format("gpt-4o").count_request(read)
    assert (by_rules.total, by_rules.exact, by_rules.at_most) == (402 * 5 + 3, True, 402 * 5 + 3)
    assert MarkersFormat(get("o200k_base")).count_request(read).total > by_rules.total


def test_many_short_calls(model: models.Model) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    read = read_request([{"role": "assistant", "content": None, "tool_calls": [call] * 200}])
    least = MarkersFormat(get(f"file:{model.gguf}")).count_request(read).total
    for text in (models.TOOLS, LLAMA):
        assert ChatFormat.open(model.gguf, template=text).count_request(read).total <= least
    assert openai_format("gpt-4o").count_request(read).total <= least


def test_the_count_names_what_it_was_made_by() -> None:
    read = read_request([{"role": "user", "content": "hello there"}])
    found = {}
    for name in ("o200k_base", "two-vocabularies", "chars4"):
        count = MarkersFormat(get(name)).count_request(read)
        assert not count.exact
        found[name] = count.by
    assert found == {"o200k_base": By.MARKERS, "two-vocabularies": By.MARGIN, "chars4": By.CHARS4}
    bare = MarkersFormat(get("o200k_base"), markers=False).count_request(read)
    assert (bare.total, bare.by, bare.exact) == (2, By.TEXT, False)


def test_the_margin_is_on_the_larger_count() -> None:
    margin, o200k, cl100k = (get(name) for name in ("two-vocabularies", "o200k_base", "cl100k_base"))
    for text in ("hello there", "日本語のテキスト", "def f(x): return x\n" * 20):
        larger = max(o200k.count(text), cl100k.count(text))
        assert margin.count(text) == -(-larger * 115 // 100)
    assert margin.count("") == 0
    assert not margin.identity.exact


def test_prompts_have_a_window_each() -> None:
    read = read_request({"prompt": ["one two three", "four"], "model": "x"})
    count = openai_format("gpt-4o").count_request(read)
    assert (count.total, count.exact, count.largest) == (4, True, 3)
    read = read_request({"prompt": [1, 2, 3], "suffix": "and so on"})
    count = openai_format("gpt-4o").count_request(read)
    assert count.total > 3
    assert not count.exact
    assert count.largest is None


def test_of_too_long_free_fields_only_the_long_ones_are_counted() -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "user": "x" * 10_000}
    short = {"model": "gpt-4o", "temperature": 0.5, "seed": 7}
    chat = openai_format("gpt-4o")
    assert chat.count_request(read_request({**body, **short})) == chat.count_request(read_request(body))
    assert dict(read_request({**body, **short}).fields).keys() == {"user"}


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
        {"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function"}]},
        {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "I"}]},
        {"messages": [{"role": "developer", "content": "hi"}]},
        {"messages": [{"role": "user", "content": "hi"}], "response_format": {"type": "json_object"}},
        {"messages": [{"role": "user", "content": "hi"}], "unknown": 1},
        {"messages": [{"role": "user", "content": "hi", "unknown": 1}]},
        {"input": "hi"},
        {"messages": [{"role": "user", "content": "hi"}], "system": "be brief"},
    ],
)
def test_only_what_is_published_is_exact(body: dict[str, object]) -> None:
    count = openai_format("gpt-4o").count_request(read_request(body))
    assert not count.exact
    assert count.at_most > count.total
    free = {"temperature": 0, "seed": 1, "stream": True}
    plain = read_request({"messages": [{"role": "user", "content": "hi"}], **free})
    assert openai_format("gpt-4o").count_request(plain).exact
    assert not openai_format("gpt-5").count_request(plain).exact


def test_a_text_that_is_no_text_is_a_typed_error() -> None:
    with pytest.raises(TokenboxError):
        read_request([{"role": "user", "content": "\ud800"}])
