"""A conversation counted as it grows and shrinks is what the same request counts as a whole."""

from __future__ import annotations

import datetime as dt
import random
import time
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.llama import model as models
from tokenbox.compose.requests import By
from tokenbox.content.items import read_items
from tokenbox.content.request import Request
from tokenbox.conversation import Conversation
from tokenbox.conversation.chat_format import ChatFormat
from tokenbox.conversation.llama.message_list import MessageList, MessageVersions, SessionItem
from tokenbox.conversation.llama.segments import Segments
from tokenbox.conversation.llama.session import LlamaSession
from tokenbox.conversation.template_format import LlamaFormat
from tokenbox.conversation.template_session import TemplateSession
from tokenbox.errors import TokenboxError
from tokenbox.tokenizers.files import open_chat_vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tokenbox.content.items import Item
    from tokenbox.conversation.template_format import TemplateFormat
    from tokenbox.tokenizers.special import PromptTokenizer

NOON = dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC)
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "weather", "description": "Tells it.", "parameters": {"type": "object"}},
}
# Looks for the last question from the end, as Qwen3 does, and shows the thoughts after it alone.
LOOKS_BACK = """
{%- set ns = namespace(found=false, last=messages|length - 1, seen=0) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.found and message.role == 'user' %}
        {%- set ns.found = true %}{%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{% set ns.seen = ns.seen + 1 %}{% endif %}
    {{- '<|im_start|>' + message.role + ' ' ~ ns.seen ~ '\\n' }}
    {%- if loop.index0 > ns.last and message.reasoning_content %}
        {{- '<think>' + message.reasoning_content + '</think>' }}
    {%- endif %}
    {%- if loop.previtem and loop.previtem.role == message.role %}{{- '(again)' }}{%- endif %}
    {{- message.content }}
    {%- if not loop.last or add_generation_prompt %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
# Keeps places in the list, and looks at neighbours by their places, as GLM and MiniMax do.
KEEPS_PLACES = """
{%- set ns = namespace(asked=-1, said=-1) %}
{%- for m in messages %}
    {%- if m.role == 'user' %}{% set ns.asked = loop.index0 -%}{% endif %}
    {%- if m.role == 'assistant' %}{% set ns.said = loop.index -%}{% endif %}
{%- endfor %}
{%- for m in messages %}
    {{- '<|im_start|>' + m.role + '\n' }}
    {%- if loop.index0 > ns.asked and m.reasoning_content %}{{- m.reasoning_content }}{%- endif %}
    {%- if loop.index == ns.said %}{{- '(last)' }}{%- endif %}
    {%- if loop.first or messages[loop.index0 - 1].role != m.role %}{{- '(other)' }}{%- endif %}
    {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '(end)' }}{%- endif %}
    {{- m.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
"""
# Reads the places that it keeps, and goes through another list than it looks at.
READS_PLACES = """
{%- set ns2 = namespace(at=0) %}
{%- for m in messages[1:] %}
    {%- set ns2.at = loop.index0 %}
    {%- if messages[ns2.at].role == messages[loop.index0].role %}{{- '(same)' ~ m.role }}{%- endif %}
    {%- if messages[loop.index0 - 1].role == 'tool' %}{{- '(two back)' }}{%- endif %}
{%- endfor %}
{{- ns2.at }}
"""
# Changes a list of its own from turn to turn, which is not followed.
KEEPS_A_LIST = """
{%- set said = [] %}
{%- for message in messages %}
    {%- set _ = said.append(message.content) %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + ' ' ~ said|length ~ '<|im_end|>\\n' }}
{%- endfor %}
"""
# Copies a namespace, whose fields are then read from the copy.
COPIES_A_NAMESPACE = """
{%- set ns = namespace(n=0) %}
{%- for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}
{%- for m in messages %}
    {%- set copy = dict(ns) %}{{- '<|im_start|>' + m.role + ' word' * copy.n + m.content + '<|im_end|>' }}
{%- endfor %}
"""
# Each turn takes the messages ahead of it up to the first that is no result, as do those of some models.
LOOKS_AHEAD = """
{%- for m in messages %}{{- '<|im_start|>' + m.role + ' ' + m.content }}
    {%- for other in messages[loop.index:] %}
        {%- if other.role != 'tool' %}{{- ' then ' + other.role }}{% break %}{% endif %}
        {{- ' of ' + loop.index | string + other.content }}
    {%- else %}{{- ' then nothing' }}
    {%- endfor %}
    {%- set ns = namespace(ends=false) %}
    {%- for k in range(loop.index0 + 1, messages | length) %}
        {%- if ns.ends %}
        {%- elif messages[k].role == 'user' %}{% set ns.ends = true %}
        {%- else %}{{- ' ' + messages[k].role }}
        {%- endif %}
    {%- endfor %}
    {{- '<|im_end|>' }}
{%- endfor %}
"""
# Loops in turns that read by ``loop`` how many messages follow.
READS_THE_REST = """
{%- for m in messages %}{{- '<|im_start|>' + m.content }}
    {%- for other in messages[loop.index:] %}{% if loop.last %} last{% endif %}{% break %}{% endfor %}
    {{- ' word' * messages[loop.index0:] | length + ' <|im_end|>' }}
{%- endfor %}
"""
# A turn keeps a list of messages, or a namespace, each of which is another object in the next render.
KEEPS_ITS_OWN = """
{%- set some = messages[1:] %}{% set kept = namespace(count=0) %}{% set ns = namespace(list=[], other=kept) %}
{%- for m in messages %}{{- '<|im_start|>' + m.content + '<|im_end|>' }}
    {%- set ns.list = some %}{% set ns.other = kept %}
{%- endfor %}
{%- for m in messages %}{% set kept.count = kept.count + 1 %}{% endfor %}
{{- ' word' * (ns.list | length + ns.other.count) }}
"""
# The messages of the loop are another slice in some renders.
SLICES = """
{%- set some = messages[1:] if messages[0].role == 'system' else messages %}
{%- if some and some[-1].role == 'tool' %}{% set some = some[:-1] %}{% endif %}
{%- for m in some %}{{- '<|im_start|>' + m.content + '<|im_end|>' }}
    {%- if not loop.first and some[loop.index0 - 1].role == 'tool' %} after a result{% endif %}
{%- endfor %}
"""
# Loops over the places of the messages, one with a macro that reads the variable of its caller's loop.
BY_PLACE = """
{%- macro at() %}{{ loop.index0 | string + (' last' if loop.last else '') }}{% endmacro %}
{%- set ns = namespace(last=0) %}
{%- for i in range(messages | length) %}{% if messages[i].role == 'user' %}{% set ns.last = i %}{% endif %}
{%- endfor %}
{{- ' word' * ns.last }}
{%- for i in range(1, messages | length) %}
    {{- '<|im_start|>' + messages[i - 1].role + messages[i].content + at() + '<|im_end|>' }}
    {%- for j in range(i, messages | length) %}{{- at() }}{% if i < j %}{% break %}{% endif %}{% endfor %}
{%- endfor %}
"""
# As of families whose messages are rewritten together: results in the order of calls, or within their calls.
REORDERED = """{#- dsml_token DSML tool_calls #}
{%- for m in messages %}{{- '<|im_start|>' + m.role + m.content + '<|im_end|>' }}{% endfor %}
"""
MERGED = """{#- '<|tool_call>call:' #}
{%- for m in messages %}{{- '<|im_start|>' + m.role }}{{ m.content }}
    {%- for result in m.tool_responses or [] %}{{- result.name + result.response }}{% endfor %}
    {{- '<|im_end|>' }}
{%- endfor %}
"""
NAMES = ", ".join(f"'question {n}': 'tide {n}'" for n in range(300))
MANY_NAMES = (
    "{%- set names = {" + NAMES + "} %}{%- for m in messages %}{{- names[m.content[:11].strip()] }}"
    "{{- '<|im_start|>' + m.content + '<|im_end|>' }}{%- endfor %}"
)
CHANGES_A_CONSTANT = MANY_NAMES.replace("{{- names", "{% set names.n = m.role %}{{- names.n + names")
OWN = {
    **models.TEMPLATES,
    "has many names": MANY_NAMES,
    "changes a constant": CHANGES_A_CONSTANT,
    "looks ahead": LOOKS_AHEAD,
    "reads the rest": READS_THE_REST,
    "keeps its own": KEEPS_ITS_OWN,
    "slices": SLICES,
    "by place": BY_PLACE,
    "reordered": REORDERED,
    "merged": MERGED,
    "copies a namespace": COPIES_A_NAMESPACE,
    "looks back": LOOKS_BACK,
    "keeps places": KEEPS_PLACES,
    "reads places": READS_PLACES,
    "keeps a list": KEEPS_A_LIST,
}


def exchange(chance: random.Random, number: int) -> list[dict[str, Any]]:
    words = "word " * chance.randrange(12)
    said: list[dict[str, Any]] = [{"role": "user", "content": f"question {number}\n{words}<|im_end|>"}]
    if chance.random() < 0.3:
        function = {"name": "weather", "arguments": f'{{"day": {number}}}'}
        ids = [f"call{number:03}{place:02}" for place in range(chance.randrange(1, 4))]
        calls = [{"id": one, "type": "function", "function": function} for one in ids]
        results = [{"role": "tool", "tool_call_id": one, "content": f"sunny {one[-3:]}"} for one in ids]
        chance.shuffle(results)
        said += [{"role": "assistant", "content": "", "tool_calls": calls}, *results]
    answer = {"role": "assistant", "content": f"answer {number} {words}"}
    if chance.random() < 0.3:
        answer["reasoning_content"] = f"I think {number}."
    return [*said, answer]


@pytest.mark.parametrize(
    ("time", "exact"),
    [
        ("-1 09:00Z", True),  # the last day of a month in all zones, or the day before
        ("-1 11:00Z", False),  # the next month in the easternmost zones
        ("+0 11:00Z", False),  # the month before in the westernmost zones
        ("+0 13:00Z", True),  # the first day in all zones, or the next
        ("-1 09:00", False),  # in an unknown zone
        ("+0 13:00", False),
    ],
)
def test_a_date_is_exact_if_it_counts_the_same_in_every_time_zone(
    model: models.Model, time: str, *, exact: bool
) -> None:
    source = "{{ strftime_now('%B') }}{% for message in messages %}{{ message.content }}{% endfor %}"
    vocabulary = ChatFormat.open(model.gguf)
    firsts = [dt.date(2026, month, 1) for month in range(2, 13)]
    first = next(
        day
        for day in firsts
        if vocabulary.count_text(f"{day:%B}") != vocabulary.count_text(f"{day - dt.timedelta(days=1):%B}")
    )
    days, hour = time.split()
    now = dt.datetime.fromisoformat(f"{first + dt.timedelta(days=int(days))} {hour}")
    chat = ChatFormat.open(model.gguf, template=source, now=now)
    assert isinstance(chat, LlamaFormat)
    chat.identity = replace(chat.identity, exact=True)  # as if it was compared with a server
    items = read_items([{"role": "user", "content": "Is it warm?"}])
    session = chat.session()
    session.frame([], ())
    session.add(0, items[0])
    assert session.count().exact is chat.count_request(Request.of_items(items)).exact is exact


def counted(chat: TemplateFormat, items: Sequence[Item], tools: Any) -> object:  # noqa: ANN401  # JSON
    try:
        return chat.count_request(Request.of_items(items, tools))
    except TokenboxError as error:
        return error.message


def grow_and_shrink(source: str, model: Path, seed: int, exchanges: int = 8) -> TemplateSession:
    """Holds every count of a conversation against the count of the whole."""
    chat = ChatFormat.open(model, template=source, now=NOON)
    chance = random.Random(seed)
    session = chat.session()
    tools = [TOOL] if seed % 2 else None
    head = read_items([{"role": "system", "content": "You are terse."}] if seed % 3 else [])
    session.frame(head, Request.of_items([], tools).tools)
    here: list[tuple[int, Item]] = []
    number = 0
    for each in range(exchanges):
        for item in read_items(exchange(chance, each)):
            session.add(number, item)
            here.append((number, item))
            number += 1
            try:
                found: object = session.count()
            except TokenboxError as error:
                found = error.message
            assert found == counted(chat, [*head, *(one for _, one in here)], tools), number
        if chance.random() < 0.3:
            first = (
                next(place for place, (_, item) in enumerate(here) if place and item.role.value == "user")
                if each
                else 0
            )
            gone = {one for one, _ in here[:first]}
            rest = [item for one, item in here if one not in gone]
            whole = counted(chat, [*head, *rest], tools)
            if not isinstance(whole, str):
                assert session.total_with(dict.fromkeys(gone)) == whole.total  # type: ignore[attr-defined]
            session.remove(gone)
            here = [(one, item) for one, item in here if one not in gone]
        if chance.random() < 0.3:
            shorter = read_items([{"role": "user", "content": "short"}])[0]
            asked = [place for place, (_, item) in enumerate(here) if item.role.value == "user"]
            place = chance.choice(asked)
            changed = [*here[:place], (here[place][0], shorter), *here[place + 1 :]]
            whole = counted(chat, [*head, *(item for _, item in changed)], tools)
            if not isinstance(whole, str):
                assert session.total_with({here[place][0]: shorter}) == whole.total  # type: ignore[attr-defined]
            session.replace(here[place][0], shorter)
            here = changed
    assert isinstance(session, TemplateSession)
    return session


@pytest.mark.parametrize("name", OWN)
def test_a_conversation_counts_what_its_request_counts(name: str, model: models.Model) -> None:
    followed = {grow_and_shrink(OWN[name], model.gguf, seed).is_incremental for seed in range(examples(4))}
    assert followed == {name not in ("keeps a list", "changes a constant")}


@pytest.mark.slow
def test_with_every_template_of_the_corpus(templates: dict[str, str], model: models.Model) -> None:
    followed = {
        name: grow_and_shrink(source, model.gguf, 5, 5).is_incremental for name, source in templates.items()
    }
    assert sum(followed.values()) >= 0.92 * len(followed), followed


@pytest.mark.parametrize(
    "name", ["looks back", "keeps places", "looks ahead", "has many names", "reordered", "merged"]
)
def test_only_what_is_new_is_rendered(
    name: str, model: models.Model, taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tokenbox.conversation.llama.track import Track  # what it applies is counted, too

    put: list[int] = []
    apply = Track.apply

    def applying(self: Any, *given: Any) -> None:  # noqa: ANN401  # as it is
        put.append(1)
        apply(self, *given)

    monkeypatch.setattr(Track, "apply", applying)
    session = ChatFormat.open(model.gguf, template=OWN[name]).session()
    assert isinstance(session, LlamaSession)
    chance = random.Random(1)
    items = [item for n in range(100) for item in read_items(exchange(chance, n))]
    for number, item in enumerate(items):
        session.add(number, item)
    session.count()
    for number, item in enumerate(read_items(exchange(chance, 101)), len(items)):
        taken.clear()
        session.add(number, item)
        session.count()
        # Two or three loops, and where the last message is an answer, once more with what opens one.
        assert len(taken) <= 15
    present = set(range(len(items)))
    for gone in (
        (37, 38, 101) if name == "keeps places" else ()
    ):  # the beginning leaves: what stays was rendered before
        taken.clear()
        put.clear()
        first = next(number for number in range(gone, len(items)) if items[number].role.value == "user")
        session.remove(sorted(number for number in present if number < first))
        present = {number for number in present if number >= first}
        session.count()
        assert len(taken) <= 15
        assert len(put) <= 100


def test_a_loop_from_a_fixed_place_reads_how_many_messages_there_are(model: models.Model) -> None:
    """It ends early in a long conversation, and at the last message in what is left of it."""
    template = (
        "{%- for m in messages %}{{- m.content }}"
        "{%- for k in range(0, messages | length) %}{% if k == 8 %}{% break %}{% endif %} word{% endfor %}"
        "{%- endfor %}"
    )
    chat = ChatFormat.open(model.gguf, template=template)
    session = chat.session()
    items = read_items([{"role": "user", "content": f"question {n}"} for n in range(12)])
    for number, item in enumerate(items):
        session.add(number, item)
        session.count()
    session.remove(range(7))
    assert session.count() == chat.count_request(Request.of_items(items[7:]))


@pytest.mark.parametrize("name", ["tools", "no_system"])
def test_a_turn_copies_no_list_of_messages(name: str, model: models.Model) -> None:
    """A copy has 8 bytes for each message; a turn that makes one takes longer in a longer conversation."""
    session = ChatFormat.open(model.gguf, template=OWN[name]).session()
    session.frame(read_items([{"role": "system", "content": "You are terse."}]))
    said = [{"role": role, "content": role} for role in ("user", "assistant")]
    items = read_items(said * 2_000)
    for number, item in enumerate(items):
        session.add(number, item)
    session.count()

    def turn(number: int) -> None:
        for place, item in enumerate(items[:2]):
            session.add(number + place, item)
            session.count()

    turn(len(items))
    tracemalloc.start()
    try:
        turn(len(items) + 2)
        assert tracemalloc.get_traced_memory()[1] < 8 * len(items)
    finally:
        tracemalloc.stop()


def test_reading_the_messages_costs_the_same_in_both_renders(
    model: models.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An incremental render that counted no steps for them would run where the whole one is too much."""
    template = "{% for m in messages %}{% if 1 in messages %}x{% endif %}{{ m.content }}{% endfor %}"
    found = ChatFormat.open(model.gguf, template=template)
    items = read_items([{"role": role, "content": "hi"} for role in ("user", "assistant")] * 50)

    def turn_by_turn() -> int:
        session = found.session()
        for number, item in enumerate(items):
            session.add(number, item)
            session.count()
        return session.count().total

    assert turn_by_turn() == found.count_request(Request.of_items(items)).total
    monkeypatch.setattr("tokenbox.conversation.llama.run.MAX_STEPS", 5_000)
    whole = found.count_request(Request.of_items(items))
    assert (whole.by, whole.total) == (By.MARKERS, turn_by_turn())


def test_turns_that_are_not_executed_again_count_toward_the_steps(
    model: models.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ChatFormat.open(model.gguf)
    items = read_items([{"role": role, "content": "hi"} for role in ("user", "assistant")] * 20)
    monkeypatch.setattr("tokenbox.conversation.llama.run.MAX_STEPS", 600)
    session, refused = found.session(), 0
    for number, item in enumerate(items):
        session.add(number, item)
        if session.count().by is By.MARKERS:  # 600 steps are not enough
            refused = refused or number
    assert session.count() == found.count_request(Request.of_items(items))
    assert 2 < refused < len(items) - 2
    assert found.count_request(Request.of_items(items[: refused - 1])).by is By.TEMPLATE
    assert found.count_request(Request.of_items(items[: refused + 2])).by is By.MARKERS


def test_a_long_stretch_leaves_and_comes_back_in_one_piece() -> None:
    """Message by message, a list of 100,000 took minutes."""
    message_list = MessageList()
    item = read_items([{"role": "user", "content": "hi"}])[0]
    entries = {
        n: SessionItem(item, [MessageVersions({}, {}, {}, {"n": n})], 0, n, True) for n in range(30_000)
    }
    for number, entry in entries.items():
        message_list.add(number, entry)
    before = list(message_list.messages)
    inner = range(1, len(entries) - 1)
    start = time.process_time()
    message_list.change({number: (entries[number], None) for number in inner})
    assert message_list.owners == [0, len(entries) - 1]
    message_list.change({number: (None, entries[number]) for number in inner})
    assert time.process_time() - start < 2
    assert (message_list.owners, message_list.messages) == (list(entries), before)


def test_template_arguments_may_replace_the_messages(model: models.Model) -> None:
    """As on the server; otherwise a client could send any number of tokens past a guard."""
    long = [{"role": "user", "content": "word " * 500}]
    fields = {"chat_template_kwargs": {"messages": long}}
    chat = ChatFormat.open(model.gguf)
    items = read_items([{"role": "user", "content": "hi"}])
    whole = chat.count_request(Request.of_items(items, None, fields))
    assert whole.exact
    assert whole.total == chat.count_request(Request.of_items(read_items(long))).total > 500
    conversation = Conversation("Be brief.", chat, fields=fields)
    conversation.user("hi")
    assert conversation.request_count() == whole


def test_an_item_that_becomes_several_messages_is_counted(model: models.Model) -> None:
    chat = ChatFormat.open(model.gguf, template=OWN["keeps places"])
    session = chat.session()
    items = read_items([{"role": "user", "content": f"question {n}"} for n in range(40)])
    for number, item in enumerate(items):
        session.add(number, item)
    results = [{"type": "tool_result", "tool_use_id": f"call{n}", "content": f"sunny {n}"} for n in range(3)]
    longer = read_items([{"role": "user", "content": results}])[0]
    assert len(longer.messages) == 3
    changed = [*items[:12], longer, *items[13:]]
    whole = chat.count_request(Request.of_items(changed))
    assert session.total_with({12: longer}) == whole.total
    session.replace(12, longer)
    assert session.count() == whole


def test_an_error_leaves_a_session_as_it_was(model: models.Model) -> None:
    session = ChatFormat.open(model.gguf).session()
    session.add(0, read_items([{"role": "user", "content": "hi"}])[0])
    before = session.count()
    function = {"name": "f", "arguments": "no JSON"}
    call = {"id": "c", "type": "function", "function": function}
    bad = read_items([{"role": "assistant", "content": None, "tool_calls": [call]}])[0]
    with pytest.raises(TokenboxError, match="not JSON"):
        session.add(1, bad)
    assert session.count() == before
    session.remove([0])
    assert session.count().total < before.total


TEXTS = st.lists(
    st.text(st.sampled_from("ab \n<|im_start|>end/é1'."))
    | st.sampled_from(["<|im_start|>", "<|im_end|>", "word " * 60]),
    max_size=8,
)


@pytest.fixture(scope="module")
def prompts(model: models.Model) -> PromptTokenizer:
    return open_chat_vocabulary(model.gguf).prompts


@settings(max_examples=examples(300))
@given(TEXTS)
def test_pieces_count_what_their_text_counts(prompts: PromptTokenizer, texts: list[str]) -> None:
    segments = Segments(prompts)
    one = segments.joined([segments.of(text) for text in texts])
    assert segments.total(one) == prompts.count("".join(texts))
    assert "".join(texts).endswith(one.end)
