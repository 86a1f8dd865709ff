"""llama.cpp's Jinja, where it is not Jinja2: each case was rendered by a real server, whose text is here."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.conversation.llama import run as running
from tokenbox.conversation.llama.capabilities import common_prefix
from tokenbox.conversation.llama.compiler import Program
from tokenbox.conversation.llama.run import Run
from tokenbox.conversation.llama.syntax import TemplateError
from tokenbox.conversation.llama.values import of_json, to_json

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
    assert to_json(of_json(given)) == (
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


GROWING = "{% set n = namespace(x='aaaa') %}{% for i in range(60) %}{% set n.x = CHANGE %}{% endfor %}"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{% for i in range(9999999) %}{% endfor %}", "too long"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "steps"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "too deeply"),
        ("{{ 'a' * 999999999 }}", "wrote more"),
        (GROWING.replace("CHANGE", "n.x ~ n.x"), "wrote more"),
        pytest.param(
            GROWING.replace("CHANGE", "n.x.replace('a', 'aa')"), "wrote more", marks=pytest.mark.slow
        ),
        pytest.param(GROWING.replace("CHANGE", "[n.x, n.x] | string"), "wrote more", marks=pytest.mark.slow),
        pytest.param(GROWING.replace("CHANGE", "[n.x, n.x] | tojson"), "wrote more", marks=pytest.mark.slow),
        (GROWING.replace("CHANGE", "[n.x, n.x, n.x] | join(n.x)"), "wrote more"),
        (GROWING.replace("'aaaa'", "[1]").replace("CHANGE", "n.x + n.x"), "steps"),
        ("{{ ('a\\n' * 99999) | indent(9999) }}", "wrote more"),
        ("{{ 'a' | indent(99999999) }}", "too large"),
        ("{{" + "(" * 5_000, "nested too deeply"),
        ("{% if x %}" * 5_000, "nested too deeply"),
        ("{{ 99999999999999999999 }}", "64 bits"),
    ],
)
def test_a_template_cannot_do_harm(source: str, says: str) -> None:
    with pytest.raises(TemplateError) as caught:
        Program(source).render({}, Run())
    assert says in caught.value.message


def test_a_template_has_so_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MAX_STEPS", 20)
    lines = "{% for i in range(10) %}{{ i }}{% endfor %}"
    assert Program(lines).render({}, Run()) == "0123456789"
    with pytest.raises(TemplateError, match="more than 20 steps"):
        Program(lines * 2).render({}, Run())


@given(st.text("ab", max_size=12), st.text("ab", max_size=12))
def test_the_common_prefix_of_two_texts(left: str, right: str) -> None:
    pairs = enumerate(zip(left, right, strict=False))
    slow = next((place for place, (a, b) in pairs if a != b), min(len(left), len(right)))
    assert common_prefix(left, right) == slow


def test_a_template_that_repeats_values_in_each_other_ends() -> None:
    """60 lists, each twice the one before: 2**60 values, of which there are 60."""
    twice = "{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
    source = "{% set ns = namespace(l=['x']) %}" + twice + "{{ ns.l | tojson }}"
    with pytest.raises(TemplateError, match="values"):
        Program(source).render({}, Run())
    assert Program(source.replace(" | tojson", "[0] is defined")).render({}, Run()) == "True"
