"""llama.cpp's Jinja, where it is not Jinja2: each case was rendered by a real server, whose text is here."""

from __future__ import annotations

import datetime as dt
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.characters import common_prefix
from tokenbox.conversation import template
from tokenbox.conversation.llama import run as running
from tokenbox.conversation.llama.compiler import Program
from tokenbox.conversation.llama.prompt import LlamaTemplate
from tokenbox.conversation.llama.run import Run
from tokenbox.conversation.llama.server_request import asked
from tokenbox.conversation.llama.syntax import TemplateError, TemplateTooLarge
from tokenbox.conversation.llama.values import of_json, to_json
from tokenbox.conversation.template import ChatTemplate
from tokenbox.errors import InvalidText

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).with_name("llama_jinja.json")).read_text(encoding="utf-8")
)
VARIABLES = {
    "messages": [{"role": "user", "content": "Hi"}],
    "add_generation_prompt": True,
    "bos_token": "<s>",
    "text": "Été x",
    "number": 3,
    "float": 2.5,
    "list": ["b", "a", 1],
    "object": {"b": 1, "a": [None, True, "it's"], "items": 7},
    "nothing": None,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["template"][:60])
def test_it_prints_what_the_server_prints(case: dict[str, Any]) -> None:
    program = Program(f"<<<{case['template']}>>>")
    if case["text"] is None:
        with pytest.raises(TemplateError):
            program.render(of_json(VARIABLES), Run())
    else:
        assert program.render(of_json(VARIABLES), Run()) == f"<<<{case['text']}>>>"


def test_numbers_as_the_server_writes_them() -> None:
    given: list[object] = [
        *(1.0, 0.1, 1e20, 123456789012345680.0, -0.0),
        *(10**18, 2**63, 2**64, True, None, "é\x01", {"a": []}),
    ]
    assert to_json(Run(), of_json(given)) == (
        "[1, 0.1, 1e+20, 1.23457e+17, -0, 1000000000000000000, -9223372036854775808, 1.84467e+19, "
        'true, null, "é\\u0001", {"a": []}]'
    )


def test_a_number_larger_than_any_float_is_refused_as_by_the_server() -> None:
    with pytest.raises(TemplateError, match="larger than any float"):
        of_json({"a": [10**400]})


def test_the_date_is_an_argument() -> None:
    program = Program("{{ strftime_now('%d %b %Y') }}")
    run = Run(dt.datetime(2026, 11, 22, tzinfo=dt.UTC))
    assert program.render({}, run) == "22 Nov 2026"
    assert run.dated == {"%d %b %Y"}
    with pytest.raises(TemplateError, match="Give `now`"):
        program.render({}, Run())


# The work of a render that does harm ends sooner than that of the longest chat.
HARM = 500_000
TWICE = "{% set ns = namespace(l=('x', 1)) %}{% for i in range(60) %}{% set ns.l = MADE %}{% endfor %}"
NESTED = TWICE.replace("MADE", "[ns.l, ns.l]")
TUPLES = TWICE.replace("MADE", "(ns.l, ns.l)")
GROWING = "{% set n = namespace(x='aaaa') %}{% for i in range(60) %}{% set n.x = CHANGE %}{% endfor %}"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{% for i in range(9999999) %}{% endfor %}", "too long"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "steps"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "too deeply"),
        ("{{ 'a' * 999999999 }}", "steps"),
        (GROWING.replace("CHANGE", "n.x ~ n.x"), "steps"),
        (GROWING.replace("CHANGE", "n.x.replace('a', 'aa')"), "steps"),
        (GROWING.replace("CHANGE", "[n.x, n.x] | string"), "steps"),
        (GROWING.replace("CHANGE", "[n.x, n.x] | tojson"), "steps"),
        (GROWING.replace("CHANGE", "[n.x, n.x, n.x] | join(n.x)"), "steps"),
        (GROWING.replace("'aaaa'", "[1]").replace("CHANGE", "n.x + n.x"), "steps"),
        ("{{ ('a\\n' * 99999) | indent(9999) }}", "steps"),
        ("{{ 'a' | indent(99999999) }}", "too large"),
        ("{{" + "(" * 5_000, "nested too deeply"),
        ("{% if x %}" * 5_000, "nested too deeply"),
        ("{{ 99999999999999999999 }}", "64 bits"),
        ("{{ " + "9" * 5_000 + " }}", "64 bits"),
        # 60 lists or tuples, each twice the one before, are 2**60 values.
        (NESTED + "{{ ns.l }}", "steps"),
        (NESTED + "{{ ns.l ~ '' }}", "steps"),
        (NESTED + "{{ ns.l | tojson }}", "steps"),
        (NESTED + "{{ '{}'.format(ns.l) }}", "steps"),
        (TUPLES + "{{ {ns.l: 1} }}", "more than 10,000 parts"),
        (TUPLES + "{{ [ns.l] == [ns.l] }}", "more than 10,000 parts"),
        (NESTED + "{{ ns.l | tojson(indent=1000) }}", "steps"),
        # Operations that take long for what they return.
        ("{% set s = 'x' * 99999 %}{{ ('{}' * 900).format(" + "s, " * 900 + ") | length }}", "steps"),
        ("{{ [1, 2] | tojson(separators=('x' * 9999999, ': ')) | length }}", "steps"),
        ("{{ ('a ' * 999999).split(' ') | length }}", "steps"),
        ("{{ ('é' * 9999999)[::-2] | length }}", "steps"),
        ("{{ ('a' * 999999).replace('', 'b') | length }}", "steps"),
        ("{% for i in range(9999) %}{% set x = 'a' in 'b' * 9999 %}{% endfor %}", "steps"),
        ("{% set l = range(9999) | list %}{% for i in l %}{% set x = 'a' in l %}{% endfor %}", "steps"),
        ("{% for i in range(9999) %}" + "{{ a }}" * 99 + "{% endfor %}", "steps"),
        (
            "{% macro f(a="
            + "1+" * 90
            + "1) %}{% endmacro %}{% for i in range(9999) %}{{ f() }}{% endfor %}",
            "steps",
        ),
        ("{{ a }}" * 40_000, "more than 100,000 words and signs"),
    ],
)
def test_a_template_cannot_do_harm(source: str, says: str) -> None:
    with pytest.raises(TemplateError) as caught:
        Program(source).render({}, Run(limit=HARM))
    assert says in caught.value.message


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x' * 100000000 }}",
        "{{ 'x' * 4000000 }}",
        "{% for m in messages %}{{ '<' * 4000000 }}{{ m.reasoning_content }}{% endfor %}",
        NESTED + "{{ ns.l }}",
        "{% for i in range(99999) %}{% endfor %}",
    ],
)
def test_a_template_is_not_opened_if_that_takes_long(source: str) -> None:
    """It is rendered some times to be opened: that took half a minute, and only its result was looked at."""
    with pytest.raises(TemplateTooLarge, match="100,000 steps"):
        LlamaTemplate(source)


def test_the_markers_of_thoughts_are_found_in_linear_time() -> None:
    source = "{% for m in messages %}{{ '<' * 200000 }}{{ m.reasoning_content }}</t>{% endfor %}"
    assert LlamaTemplate(source).reasoning.end == "</t>"
    shown = "{% for m in messages %}<b><t>\n{{ m.reasoning_content }}\n</t>{{ m.content }}{% endfor %}"
    found = LlamaTemplate(shown).reasoning
    assert (found.start, found.end) == ("<t>\n", "\n</t>")


def test_a_long_conversation_is_rendered_in_full() -> None:
    source = (
        "{% for m in messages %}{{ m.role | trim }}: {{ m.content }}{{ messages | length }}\n{% endfor %}"
    )
    messages = [{"role": "user", "content": "word " * 200}] * 20_000
    assert len(Program(source).render({"messages": messages}, Run())) > 20_000_000


def test_a_template_has_so_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MAX_STEPS", 100)
    lines = "{% for i in range(10) %}{{ i }}{% endfor %}"
    assert Program(lines).render({}, Run()) == "0123456789"
    with pytest.raises(TemplateError, match="more than 100 steps"):
        Program(lines * 2).render({}, Run())


NEAREST = """
{%- for m in messages %}
    {%- set before = namespace(role="none", found=false) %}
    {%- for j in range(loop.index0 - 1, -1, -1) %}
        {%- if not before.found %}
            {%- if messages[j].role != "tool" %}
                {%- set before.role = messages[j].role %}
                {%- set before.found = true %}
            {%- endif %}
        {%- endif %}
    {%- endfor %}
    {%- set scan = namespace(stopped=false, results=0) %}
    {%- for k in range(loop.index0 + 1, messages | length) %}
        {%- if scan.stopped %}
        {%- elif messages[k].role != "tool" %}{% set scan.stopped = true %}
        {%- else %}{% set scan.results = scan.results + 1 %}
        {%- endif %}
    {%- endfor %}
    {{- m.role ~ " after " ~ before.role ~ ", " ~ scan.results ~ " results. " }}
{%- endfor %}"""


def test_a_search_for_the_nearest_message_ends_where_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the template of gemma-4, which would take n * n turns."""
    monkeypatch.setattr(running, "MAX_STEPS", 1_000 * 300)
    monkeypatch.setattr(template, "MAX_STEPS", 1_000 * 10)
    messages = [{"role": role} for role in ["user", "assistant", "tool", "tool"] * 250]
    found = Program(NEAREST).render({"messages": messages}, Run())
    assert found.startswith("user after none, 0 results. assistant after user, 2 results. tool after ")
    assert found.count("user after assistant, 0 results. ") == 249
    assert ChatTemplate(NEAREST).render({"messages": messages}) == found


@pytest.mark.parametrize(
    "body",
    [
        "{% if not f.on %}{% if i > 2 %}{% set f.on = true %}{% endif %}{{ i }}{% endif %}",
        "{% if f.on %}{% elif i > 2 %}{% set f.on = true %}{% else %}{{ i }}{% endif %}",
        "{% if f.on %}x{% elif i > 2 %}{% set f.on = true %}{% else %}{{ i }}{% endif %}",
        "{% if f.on %}{% endif %}{{ i }}{% set f.on = true %}",
        "{% if i == 3 %}{{ i }}{% endif %}",
        "{% if loop.last %}{{ i }}{% endif %}",
        "{% if not f.on and i != 1 %}{{ i }}{% endif %}",
    ],
)
@pytest.mark.parametrize("otherwise", ["", "{% else %}none"])
def test_no_turn_with_an_effect_is_left_out(body: str, otherwise: str) -> None:
    start = "{% set f = namespace(on=false) %}{% for i in range(6) %}{}"
    around = start + otherwise + "{% endfor %}{{ f.on }}"
    plain, tagged = (around.replace("{}", other + body) for other in ("", "{% set x = 1 %}"))
    assert Program(plain).render({}, Run()) == Program(tagged).render({}, Run())
    assert ChatTemplate(plain).render({}) == ChatTemplate(tagged).render({})


@given(st.text("ab", max_size=12), st.text("ab", max_size=12))
def test_the_common_prefix_of_two_texts(left: str, right: str) -> None:
    pairs = enumerate(zip(left, right, strict=False))
    slow = next((place for place, (a, b) in pairs if a != b), min(len(left), len(right)))
    assert common_prefix(left, right) == slow


def test_a_template_may_have_values_in_each_other() -> None:
    assert Program(NESTED + "{{ ns.l[0] is defined }}").render({}, Run()) == "True"


DEEP: dict[str, Any] = {}
for _ in range(3_000):
    DEEP = {"a": DEEP}
USER = {"role": "user", "content": "x"}


def calling(arguments: object) -> dict[str, Any]:
    return {**USER, "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": arguments}}]}


def tool(parameters: object) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "parameters": parameters}}


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        (([{**USER, "tool_calls": 5}], (), {}), "tool_calls are not a list"),
        (([USER], [5], {}), "only tools of the type function"),
        (([USER], (), {"continue_final_message": []}), "continue_final_message"),
        (([USER], (), {"chat_template_kwargs": {"x": DEEP}}), "nested too deeply"),
        (([USER], (), {"chat_template_kwargs": {"x": b"abc"}}), "which has no bytes"),
        (([USER], [tool(DEEP)], {}), "nested too deeply"),
        (([calling(DEEP)], (), {}), "are not JSON"),
        (([calling({1, 2})], (), {}), "are not JSON"),
    ],
)
def test_what_is_no_request_is_refused(parts: tuple[Any, Any, Any], says: str) -> None:
    template = LlamaTemplate("{% for m in messages %}{{ m.content }}{% endfor %}")
    now = dt.datetime(2026, 11, 22, tzinfo=dt.UTC)
    with pytest.raises(TemplateError, match=says):
        template.prepared(asked(*parts), now)


SEARCH = """
{%- set ns = namespace(found=false) %}
{%- for m in messages %}
    {%- if m.role == 'user' and "tool_calls" not in m %}{% set ns.found = true -%}{% endif %}
{%- else %}none
{%- endfor %}{{ ns.found }}"""


def test_a_search_ends_at_the_first_message_that_it_looks_for() -> None:
    """GPT-OSS looks so for an answer after each of its calls."""
    messages = [{"role": "tool"}, *[USER] * 50_000]
    assert Program(SEARCH).render({"messages": messages}, Run(limit=100)) == "True"
    assert Program(SEARCH).render({"messages": messages[:1]}, Run()) == "False"
    counting = SEARCH.replace("true", "ns.found + 1").replace("=false", "=0")
    assert Program(counting).render({"messages": messages[:9]}, Run()) == "8"
    refusing = SEARCH.replace("'user' and", "'user' and m.content in 'Hi' and")
    with pytest.raises(TemplateError, match="Unknown operator 'in'"):
        Program(refusing).render({"messages": [USER, {**USER, "content": [USER]}]}, Run())


@pytest.mark.parametrize("value", ["{}", "enable_thinking", 5, True, [], [["enable_thinking", False]], None])
def test_template_arguments_that_are_no_object_have_no_effect(value: object) -> None:
    assert asked([USER], (), {"chat_template_kwargs": value}) == asked([USER], (), {})


def test_a_message_that_is_not_unicode_is_refused() -> None:
    template = LlamaTemplate("{% for m in messages %}{{ m.content }}{% endfor %}")
    now = dt.datetime(2026, 11, 22, tzinfo=dt.UTC)
    request = template.prepared(asked([{**USER, "content": "a\ud800"}], (), {}), now)
    with pytest.raises(InvalidText):
        template.text(request, Run(now))


CHANGES = (
    "{% for m in messages %}{{ m.content }}{% set m.content = m.content + ' more' %}{% endfor %}"
    "{% if add_generation_prompt %}>{% endif %}"
)


def test_a_template_that_changes_its_messages_begins_anew_in_each_render() -> None:
    """To continue an answer the server renders twice more, each time from the request."""
    template, now = LlamaTemplate(CHANGES), dt.datetime(2026, 11, 22, tzinfo=dt.UTC)
    request = template.prepared(asked([USER, {"role": "assistant", "content": "It"}], (), {}), now)
    assert template.text(request, Run(now)) == f"{USER['content']}>It"


@pytest.mark.parametrize("condition", ["true", "messages | length > 2"])
def test_a_template_with_which_the_server_does_not_start(condition: str) -> None:
    source = f"{{% if {condition} %}}{{% set _ = messages.pop(0) %}}{{% endif %}}"
    with pytest.raises(TemplateError, match="removes messages"):
        LlamaTemplate(source)


def test_control_characters_take_no_more_memory_than_their_escapes() -> None:
    """A text of twenty million took 1.5 GB, as a list of its characters."""
    text = "\x01" * 500_000
    tracemalloc.start()
    try:
        found = Program("{{ text | tojson }}").render({"text": text}, Run())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == '"' + "\\u0001" * 500_000 + '"'
    assert peak < 5 * len(found)
