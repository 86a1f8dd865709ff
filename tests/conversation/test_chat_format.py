"""Counting requests whole, without a server: templates in a sandbox, published rules, what a server says."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import re
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

import tokenbox
from tests.llama import model as models
from tokenbox.compose import bound, lower_bound
from tokenbox.compose.remembered import RememberedCounts
from tokenbox.compose.requests import NO_BOUND, By
from tokenbox.content.message import UndeclaredCost
from tokenbox.content.request import read_request
from tokenbox.conversation import Conversation, sandbox, template
from tokenbox.conversation.chat_format import ChatFormat
from tokenbox.conversation.fitting import fit
from tokenbox.conversation.image_costs import MEDIA
from tokenbox.conversation.llama import run
from tokenbox.conversation.llama.syntax import TemplateError, TemplateTooLarge
from tokenbox.conversation.published import OpenAIFormat
from tokenbox.conversation.template import ChatTemplate
from tokenbox.errors import TokenizerError, UnsupportedOperation, VocabularyError
from tokenbox.tokenizers import as_saved
from tokenbox.tokenizers.protocol import BaseTokenizer, TokenizerIdentity
from tokenbox.tokenizers.registry import get
from tokenbox.tokenizers.special import PromptTokenizer

if TYPE_CHECKING:
    from pathlib import Path

HI = [{"role": "user", "content": "hi there"}]


def test_the_template_is_known_by_its_digest(model: models.Model) -> None:
    chat = ChatFormat.open(model.gguf)
    assert chat.exact
    assert chat.template_digest == ChatFormat.open(model.folder).template_digest
    other = ChatFormat.open(model.gguf, template=models.TURNS)
    assert other.identity.fingerprint != chat.identity.fingerprint
    assert ChatFormat.open(model.folder).identity.fingerprint != chat.identity.fingerprint


def test_transformers_renders_messages_as_they_are(model: models.Model) -> None:
    chat = ChatFormat.open(model.folder)
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    messages: list[dict[str, Any]] = [*HI, {"role": "assistant", "content": None, "tool_calls": [call]}]
    assert '"arguments": {"a":1}' in chat.render(messages)
    assert chat.render(HI) == "<|im_start|>user\nhi there<|im_end|>\n<|im_start|>assistant\n"
    assert chat.render(HI, add_generation_prompt=False).endswith("<|im_end|>\n")


THOUGHTS = "{% for m in messages %}{{ m | tojson }}{% endfor %}{{ documents is defined }}{{ pad is defined }}"


@pytest.mark.parametrize("name", ["reasoning_content", "thinking", "reasoning"])
def test_transformers_drops_nulls_and_gives_reasoning_all_names(name: str, model: models.Model) -> None:
    chat = ChatFormat.open(model.folder, template=THOUGHTS)
    answer = {"role": "assistant", "content": None, name: "hm", "tool_calls": None}
    shown = json.loads(chat.render([answer]).partition("TrueFalse")[0])
    assert shown == {"thinking": "hm", "role": "assistant", "reasoning_content": "hm"} | {name: "hm"}
    conversation = Conversation(count=chat)
    conversation.add(answer)
    assert conversation.request_count().total == chat.count_messages([answer])


def test_transformers_is_exact_for_plain_chats(model: models.Model) -> None:
    chat = ChatFormat.open(model.folder)
    plain = read_request({"messages": HI, "temperature": 1})
    count = chat.count_request(plain)
    assert count.exact
    assert count.at_most == count.total == chat.count_messages(HI)
    beside: list[dict[str, Any]] = [
        {"messages": [*HI, {"role": "assistant", "content": "Sure"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
        {"messages": HI, "tools": [{"type": "function", "function": {"name": "f"}}]},
        {"messages": HI, "chat_template_kwargs": {"enable_thinking": False}},
        {"messages": HI, "an_unknown_field": 1},
    ]
    for body in beside:
        count = chat.count_request(read_request(body))
        assert not count.exact, body
        assert count.at_most > count.total
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"title": "word " * 50}}}
    assert chat.count_request(read_request({"messages": HI, "response_format": form})).total > 50
    assert not ChatFormat.open(model.folder, x=1).count_request(plain).exact
    changed = models.TOOLS.replace("<|im_end|>", "<|im_end|> ")
    assert not ChatFormat.open(model.folder, template=changed).count_request(plain).exact


def test_fit_by_a_template_is_exact_and_tight(model: models.Model) -> None:
    chat = ChatFormat.open(model.gguf)
    messages = [
        {"role": role, "content": f"message {n}"} for n in range(30) for role in ("user", "assistant")
    ]
    messages.append({"role": "user", "content": "last"})
    for budget in (40, 100, 300, 10_000):
        fitted = fit(messages, budget, chat)
        assert fitted.exact
        assert fitted.total == chat.count_messages(fitted.messages) <= budget
        more = messages[len(messages) - len(fitted.messages) - 2 :]
        assert fitted.messages == messages or chat.count_messages(more) > budget
    assert [result.size for result in fit(messages, 40, chat).exchanges][-1] > 0


def test_a_prompt_is_tokenized_once() -> None:
    class Watched(BaseTokenizer):
        identity = TokenizerIdentity("w", "1", "0" * 64, exact=True)
        seen: list[str] = []  # noqa: RUF012  # of this test

        def count(self, text: str) -> int:
            self.seen.append(text)
            return len(text)

    prompts = PromptTokenizer(Watched(), ["<a>", "<b>"])
    assert prompts.count("<a>one<b>two<a>") == 3 + 3 + 3
    assert prompts.count("<a>one<b>two<a>three") == 3 + 3 + 3 + 5
    assert Watched.seen == ["one", "two", "three"]
    assert PromptTokenizer(Watched(), []).count("abc") == 3


def test_special_tokens_that_overlap_are_looked_for_longest_first() -> None:
    class Characters(BaseTokenizer):
        identity = TokenizerIdentity("c", "1", "0" * 64, exact=True)

        def count(self, text: str) -> int:
            return len(text)

    assert PromptTokenizer(Characters(), ["<a|", "|longer>"]).count("<a|longer>") == 2 + 1


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{{ raise_exception('only users') }}", "refuses these messages: only users"),
        ("{{ strftime_now('%Y') }}", "Give `now`"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{% if %}", "does not parse"),
        ("{{ nothing.at.all }}", "failed on these messages"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "100,000 steps"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "Recursion"),
        ("{{ 'a' * 999999999 }}", "too large"),
        ("{{ 9 ** 999 }}", "too large"),
        ("{{ 'a' | center(999999999) }}", "too large"),
        ("{{ 'a'.ljust(999999999) }}", "too large"),
        ("{{ '%999999999d' % 1 }}", "too large"),
        ("{{ '%999999999d' | format(1) }}", "too large"),
        (
            "{% set n = namespace(x='aaaa') %}{% for i in range(40) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
            "too long",
        ),
    ],
)
def test_a_template_cannot_do_harm(source: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template, "MAX_STEPS", 100_000)
    with pytest.raises(TemplateError, match=r"\S") as caught:
        ChatTemplate(source).render({"messages": []})
    assert says in caught.value.message


def test_a_template_has_so_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template, "MAX_STEPS", 20)
    lines = "{% for i in range(15) %}{{ i }}{% endfor %}"
    assert ChatTemplate(lines).render({}) == "01234567891011121314"
    with pytest.raises(TemplateError, match="more than 20 steps"):
        ChatTemplate(lines * 2).render({})
    called = "{% macro f() %}{% endmacro %}" + "{{ f() }}" * 3  # a call takes as long as eight turns
    with pytest.raises(TemplateError, match="more than 20 steps"):
        ChatTemplate(called).render({})
    long = "{% if x is defined %}" + "{% set x = 1 %}" * 50 + "{% else %}{% set x = 1 %}{% endif %}"
    assert ChatTemplate(long + "{% for i in range(19) %}{{ i }}{% endfor %}").render({})  # executed once
    with pytest.raises(TemplateError, match="more than 20 steps"):
        ChatTemplate("{% for i in range(9) %}" + long + "{% endfor %}").render({})


def test_what_shows_another_twice_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty blocks, each of which shows the next one twice, took years: no loop and no macro counted them."""
    monkeypatch.setattr(template, "MAX_STEPS", 10_000)
    twice = "{%% block b%d %%}{{ self.b%d() }}{{ self.b%d() }}{%% endblock %%}"
    blocks = "".join(twice % (n, n + 1, n + 1) for n in range(40)) + "{% block b40 %}{% endblock %}"
    with pytest.raises(TemplateError, match="more than 10,000 steps"):
        ChatTemplate(blocks).render({})


GROWING = (
    "{%% set n = namespace(x=%s) %%}{%% for i in range(60) %%}{%% set n.x = %s %%}{%% endfor %%}{{ n.x }}"
)
BIG = "{% for i in range(9999) %}{{ 'x' * 99999 }}{% endfor %}"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (GROWING % ("[1]", "[n.x, n.x]"), "a list is too large"),
        (GROWING % ("[1]", "[n.x, n.x] | sum(start=[])"), "a list is too large"),
        (GROWING % ("[1]", "n.x + n.x"), "+ is too large"),
        (GROWING % ("'a'", "n.x | replace('a', 'aa')"), "replace is too large"),
        (GROWING % ("'a'", "n.x.replace('a', 'aa')"), "replace is too large"),
        (GROWING % ("'a'", "n.x.join(['b', 'c', 'd'])"), "join is too large"),
        (GROWING % ("'a'", "['b', 'c', 'd'] | join(n.x)"), "join is too large"),
        ("{{ range(9999) | join('x' * 99999) }}", "join is too large"),
        ("{{ range(99999) | map('string') | join('x' * 99999) }}", "join is too large"),
        ("{{ ('a' * 99999) | join('x' * 99999) }}", "join is too large"),
        ("{{ ('x' * 99999).join(range(99999) | map('string')) }}", "join is too large"),
        (GROWING % ("9", "n.x ** 64"), "** is too large"),
        (GROWING % ("9999999999", "n.x * n.x"), "* is too large"),
        ("{{ '{:999999999}'.format(5) }}", "too large"),
        ("{{ '{:{w}}'.format(5, w=999999999) }}", "too large"),
        ("{{ ('a\\n' * 99999) | indent(9999) }}", "too large"),
        ("{{ range(9) | slice(99999999) | list }}", "too large"),
        (GROWING % ("'a'", "'{}{}'.format(n.x, n.x)"), "format is too large"),
        (GROWING % ("'a'", "'{a}{a}'.format_map({'a': n.x})"), "format is too large"),
        (GROWING % ("'a'", "'%s%s' | format(n.x, n.x)"), "format is too large"),
        (GROWING % ("'a'", "'%(a)s%(a)s' % {'a': n.x}"), "format is too large"),
        ("{{ ('{0}' * 99999).format('a' * 99999) }}", "format is too large"),
        ("{{ ('a\n' * 99999) | indent('b' * 99999) }}", "too large"),
        ("{{ ('a' * 99999) | wordwrap(1) }}", "not available"),
        ("{{ ('a' * 99999) | urlize }}", "not available"),
        ("{{ [1] | tojson(indent=999999999) }}", "too large"),
        ("{{ ([1] * 9999) | tojson(separators=('a' * 99999, ':')) }}", "tojson is too large"),
        ("{{ 'a'.expandtabs(9) }}", "unsafe"),
        ("{{ 'a'.translate({97: 'aa'}) }}", "unsafe"),
        ("{{ 'a'.encode().hex() }}", "unsafe"),
        ("{{ lipsum(n=9999999) }}", "undefined"),
        ("{% set x %}" + BIG + "{% endset %}", "wrote more"),
        ("{% macro f() %}" + BIG + "{% endmacro %}{% set x = f() %}", "wrote more"),
        ("{% set x %}{% for i in range(99999) %}" + "x" * 9999 + "{% endfor %}{% endset %}", "repeats"),
        # Many values below the limit of one.
        (GROWING % ("[]", "n.x + ['x' * 600000]"), "made more than"),
        (GROWING % ("'x' * 600000", "n.x | upper"), "made more than"),
        (GROWING % ("'x' * 600000", "n.x[1:]"), "made more than"),
        (GROWING % ("'x' * 600000", "n.x.lower()"), "made more than"),
        (GROWING % ("'x' * 600000", "n.x[0] ~ n.x[1:]"), "made more than"),
        (GROWING % ("range(9999) | list", "n.x[1:] | list") * 30, "made more than"),
    ],
)
def test_a_template_cannot_grow_without_end(source: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hundredth of each limit, as the time and memory that a template takes grow with them."""
    limits = {
        sandbox: ("MAX_CHARACTERS", "MAX_PARTS"),
        template: ("MAX_CHARACTERS", "MAX_MADE", "MAX_FIXED"),
    }
    for module, names in limits.items():
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name) // 100)
    with pytest.raises(TemplateError) as caught:
        ChatTemplate(source).render({"messages": []})
    assert says in caught.value.message


def test_what_is_in_a_list_is_counted_each_time_that_it_is_put_in_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of it is weighed then: a list in a list, a million times, took hours."""
    monkeypatch.setattr(template, "MAX_MADE", 100_000)
    nested = (
        "{%% set n = namespace(x=[]) %%}{%% for i in range(%d) %%}{%% set n.x = [n.x, 1] %%}{%% endfor %%}"
    )
    ChatTemplate(nested % 100).render({})
    with pytest.raises(TemplateError, match="made more than"):
        ChatTemplate(nested % 400).render({})


READ = """
'b' in b, -1 in l, b == c, b < c, l == m, t in d, -1 is in l, b is eq(c), b is upper, b.count('b'),
b.find('b'), b.split('b'), l.index(499), d.get(t), d[t], d.copy(), dict(d), d.keys() - d.keys(),
d.keys() == d.keys(),
l | sum, l | max, l | sort | first, l | unique | first, l | select('gt', 499) | first, l | map('abs') | sum,
l | reverse | sum, l | batch(2) | first, b | map('upper') | first, b | int, b | wordcount, b | striptags,
l | list | first, loop.cycle(*l), f(*l),
l | groupby('real') | first, d | dictsort | first, l | tojson, '%s' % b, loop.changed(l)
"""


@pytest.mark.parametrize("read", re.split(r",\s+(?![^(]*\))", READ.strip()))
def test_what_a_template_reads_is_bounded_too(read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million searches in a long text or list took hours."""
    monkeypatch.setattr(template, "MAX_READ", 600_000)
    source = (
        "{%% set l = range(500) | list %%}{%% set m = range(500) | list %%}{%% set b = 'a' * 999 %%}"
        "{%% set c = b | upper | lower %%}{%% set t = (l | string, l | batch(9) | map('join') | join) %%}"
        "{%% set d = dict(l | batch(2)) %%}{%% macro f() %%}{{ varargs | length }}{%% endmacro %%}"
        "{%% for i in range(%d) %%}{%% set x = %s %%}{%% endfor %%}"
    )
    ChatTemplate(source % (1, read)).render({})
    with pytest.raises(TemplateError, match="read more than"):
        ChatTemplate(source % (1_200, read)).render({})


@pytest.mark.parametrize("step", ["map('string')", "select", "batch(2)", "unique"])
def test_iterators_cannot_read_from_each_other_without_end(step: str) -> None:
    """A chain of thousands ended the process, even if nothing read it."""
    chain = (
        "{%% set n = namespace(x=[1]) %%}{%% for i in range(%d) %%}{%% set n.x = n.x | "
        + step
        + " %%}{%% endfor %%}{{ n.x | list | length }}"
    )
    assert ChatTemplate(chain % 50).render({}) == "1"
    with pytest.raises(TemplateError, match="iterators"):
        ChatTemplate(chain % 5_000).render({})


def test_what_is_indented_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line has the indentation of all lists around it: three gigabytes of spaces."""
    monkeypatch.setattr(sandbox, "MAX_CHARACTERS", 300_000)
    assert len(ChatTemplate("{{ [[[1]]] | tojson(indent=9000) }}").render({})) > 9_000
    for indent in ("9000", "'x' * 9000"):
        with pytest.raises(TemplateError, match="result of tojson"):
            ChatTemplate("{{ [[[[1]]], [[[1]]]] | tojson(indent=%s) }}" % indent).render({})  # noqa: UP031  # braces


@pytest.mark.parametrize(
    "shown",
    [
        *("raise_exception", "messages | map('upper')", "messages[0].items", "messages.index | string"),
        *("[raise_exception]", "'' ~ joiner()", "[1, 2] | random"),
    ],
)
def test_a_prompt_that_would_differ_in_each_process_is_refused(shown: str) -> None:
    messages = [{"role": "user", "content": "segfault at 0x1f"}]
    assert "at 0x1f" in ChatTemplate("{{ messages }}").render({"messages": messages})
    with pytest.raises(TemplateError, match=r"function|random"):
        ChatTemplate("{{ " + shown + " }}").render({"messages": messages})


def test_what_templates_use() -> None:
    source = (
        "{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}"
        "{% generation %}g{% endgeneration %}{{ strftime_now('%Y-%m-%d') }}{{ {'é': '<'} | tojson }}"
    )
    assert ChatTemplate(source, now=lambda: dt.datetime(2026, 11, 21)).render({}) == '01g2026-11-21{"é": "<"}'  # noqa: DTZ001
    written = "{{ '{} {}'.format('a', 2) }}{{ '%s' % 'b' }}{{ 7 % 4 }}{{ '%s' | format(3) }}"
    assert ChatTemplate(written + "{{ 'a\nb' | indent(2) }}").render({}) == "a 2b33a\n  b"


@pytest.mark.parametrize("depth", [10, 300, 600, 900, 60_000])
def test_deeply_nested_arguments_are_counted_or_refused(depth: int, model: models.Model) -> None:
    function = {"name": "f", "arguments": '{"a":' + "[" * depth + "]" * depth + "}"}
    call = {"id": "c", "type": "function", "function": function}
    messages: list[dict[str, Any]] = [*HI, {"role": "assistant", "content": None, "tool_calls": [call]}]
    try:
        assert ChatFormat.open(model.gguf).count_messages(messages) > depth
    except TemplateError as error:
        assert depth > 300 and ("too deeply" in error.message or "not JSON" in error.message)  # noqa: PT017, PT018


@pytest.mark.parametrize("given", [["content"], {}, 5])
def test_an_odd_field_of_a_client_is_refused(given: object, model: models.Model) -> None:
    request = read_request({"messages": HI, "continue_final_message": given})
    with pytest.raises(TemplateError, match="continue_final_message"):
        ChatFormat.open(model.gguf).count_request(request)


def test_the_time_is_a_time(model: models.Model) -> None:
    wrong: Any = "2024"
    with pytest.raises(UnsupportedOperation, match="now is a datetime or a function"):
        ChatFormat.open(model.gguf, now=wrong)


def test_variables_of_a_template_are_json(model: models.Model) -> None:
    with pytest.raises(TemplateError, match="has no set"):
        ChatFormat.open(model.gguf, names={1, 2}).count_messages(HI)


def test_arguments_that_are_no_json_are_refused(model: models.Model) -> None:
    function = {"name": "f", "arguments": "{"}
    call = {"id": "c", "type": "function", "function": function}
    messages: list[dict[str, Any]] = [*HI, {"role": "assistant", "content": None, "tool_calls": [call]}]
    chat = ChatFormat.open(model.gguf)
    with pytest.raises(TemplateError, match="not JSON"):
        chat.count_messages(messages)
    function["arguments"] = "{}"
    # Not to be sent before the tool has answered, but counted on the way there.
    assert chat.count_messages(messages) > 10
    assert not tokenbox.count(messages, tokenizer=chat).exact
    assert tokenbox.count(
        [*messages, {"role": "tool", "tool_call_id": "c", "content": "x"}], tokenizer=chat
    ).exact


@pytest.mark.parametrize(
    ("name", "content"),
    [("tokenizer.json", None), ("tokenizer.json", "{"), ("tokenizer_config.json", "{")],
)
def test_files_that_cannot_be_used(
    model: models.Model, tmp_path: Path, name: str, content: str | None
) -> None:
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / file).write_bytes((model.folder / file).read_bytes())
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(VocabularyError, match="tokenizer"):
        ChatFormat.open(tmp_path)
    with pytest.raises(VocabularyError):
        ChatFormat.open(tmp_path / "no.gguf")


NFC_OF_QWEN: dict[str, Any] = {
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {
        "type": "Sequence",
        "pretokenizers": [
            {
                "type": "Split",
                "pattern": {"Regex": as_saved.QWEN_PATTERN},
                "behavior": "Isolated",
                "invert": False,
            },
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        ],
    },
}
DIGITS = {"type": "Digits", "individual_digits": True}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
THREE_STEPS: dict[str, Any] = {
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [DIGITS, DIGITS, BYTES]}
}
TOKEN = {"content": "<|im_end|>", "lstrip": False, "rstrip": False, "single_word": False, "normalized": False}


@pytest.mark.parametrize(
    ("exact", "files"),
    [
        (True, {}),
        (True, {"tokenizer_config": {"tokenizer_class": "PreTrainedTokenizerFast"}}),
        (True, {"tokenizer_config": {"added_tokens_decoder": {"2": TOKEN}, "pad_token": "<|im_end|>"}}),
        (True, {"special_tokens_map": {"bos_token": {"content": "<|endoftext|>"}}, "added_tokens": {}}),
        (True, {"tokenizer_config": {"tokenizer_class": "Qwen2Tokenizer"}, "tokenizer": NFC_OF_QWEN}),
        (
            True,
            {
                "tokenizer_config": {"tokenizer_class": "TokenizersBackend"},
                "config": {"model_type": "llama"},
            },
        ),
        (True, {"tokenizer": THREE_STEPS}),
        (False, {"tokenizer_config": {"tokenizer_class": "Qwen2Tokenizer"}}),  # splits texts by itself
        (False, {"tokenizer_config": {"tokenizer_class": "Qwen2Tokenizer"}, "tokenizer": THREE_STEPS}),
        (False, {"tokenizer_config": {"tokenizer_class": "GPT2Tokenizer"}, "tokenizer": NFC_OF_QWEN}),
        (False, {"config": {"model_type": "llama"}}),  # whose class is taken
        (
            False,
            {
                "tokenizer_config": {"tokenizer_class": "PreTrainedTokenizerFast"},
                "config": {"model_type": "qwen2"},
            },
        ),
        (False, {"tokenizer_config": {"pad_token": "hi"}}),  # becomes a token
        (False, {"tokenizer_config": {"extra_special_tokens": ["hi"]}}),
        (False, {"tokenizer_config": {"extra_special_tokens": {"image_token": "hi"}}}),
        (False, {"tokenizer_config": {"added_tokens_decoder": {"9": {"content": "hi"}}}}),
        (False, {"tokenizer_config": {"added_tokens_decoder": {"2": TOKEN | {"lstrip": True}}}}),
        (False, {"tokenizer_config": {"split_special_tokens": True}}),
        (False, {"tokenizer_config": {"auto_map": {"AutoTokenizer": ["a.B", None]}}}),
        (False, {"tokenizer_config": {"added_tokens_decoder": {"9": []}}}),
        (False, {"special_tokens_map": {"eos_token": "<|im_start|>"}}),
        (False, {"special_tokens_map": {"unk_token": "hi"}}),
        (False, {"added_tokens": {"hi": 4_096}}),
    ],
)
def test_a_folder_is_exact_if_its_tokenizer_is_used_as_it_is_saved(
    exact: bool, files: dict[str, dict[str, Any]], model: models.Model, tmp_path: Path
) -> None:
    for name in {"tokenizer", "tokenizer_config", *files}:
        file = model.folder / f"{name}.json"
        saved = json.loads(file.read_text()) if file.exists() else {}
        (tmp_path / file.name).write_text(json.dumps(saved | files.get(name, {})))
    count = ChatFormat.open(tmp_path).count_request(read_request({"messages": HI}))
    assert count.exact is exact
    assert count.total == ChatFormat.open(model.folder).count_messages(HI)


def test_a_model_without_a_template(model: models.Model, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(model.tokenizer_json.read_bytes())
    with pytest.raises(UnsupportedOperation, match="template"):
        ChatFormat.open(tmp_path)
    assert ChatFormat.open(tmp_path, template=models.TURNS).count_messages(HI) > 3
    with pytest.raises(UnsupportedOperation, match="server"):
        ChatFormat.open(tmp_path, template=models.TURNS, server="ollama")


def test_openai_counts_by_the_published_rules() -> None:
    # The example of the OpenAI Cookbook, with the figures that OpenAI's servers gave for it.
    messages = [
        {
            "role": "system",
            "content": "You are a helpful, pattern-following assistant that translates corporate jargon "
            "into plain English.",
        },
        {
            "role": "system",
            "name": "example_user",
            "content": "New synergies will help drive top-line growth.",
        },
        {
            "role": "system",
            "name": "example_assistant",
            "content": "Things working well together will increase revenue.",
        },
        {
            "role": "system",
            "name": "example_user",
            "content": "Let's circle back when we have more bandwidth to touch base on opportunities for "
            "increased leverage.",
        },
        {
            "role": "system",
            "name": "example_assistant",
            "content": "Let's talk later when we're less busy about how to do better.",
        },
        {
            "role": "user",
            "content": "This late pivot means we don't have time to boil the ocean "
            "for the client deliverable.",
        },
    ]
    for name, tokens in (("gpt-4", 129), ("gpt-3.5-turbo", 129), ("gpt-4o", 124), ("gpt-4o-mini", 124)):
        chat = ChatFormat.openai(name)
        assert chat.count_messages(messages) == tokens
        assert tokenbox.count(messages, tokenizer=chat).exact
    assert not tokenbox.count(messages, tokenizer=ChatFormat.openai("gpt-5")).exact


def test_openai_tools_are_an_estimate() -> None:
    # The Cookbook's example of tools: 105 tokens by gpt-4, 101 by gpt-4o.
    tools = [
        {
            "type": "function",
            "function": {
                "name": "get_current_weather",
                "description": "Get the current weather in a given location",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "location": {
                            "type": "string",
                            "description": "The city and state, e.g. San Francisco, CA",
                        },
                        "unit": {
                            "type": "string",
                            "description": "The unit of temperature to return",
                            "enum": ["celsius", "fahrenheit"],
                        },
                    },
                    "required": ["location"],
                },
            },
        }
    ]
    messages = [
        {
            "role": "system",
            "content": "You are a helpful assistant that can answer to questions about the weather.",
        },
        {"role": "user", "content": "What's the weather like in San Francisco?"},
    ]
    for name, tokens in (("gpt-3.5-turbo", 105), ("gpt-4", 105), ("gpt-4o", 101), ("gpt-4o-mini", 101)):
        chat = ChatFormat.openai(name)
        assert chat.count_messages(messages, tools) == tokens
        assert not tokenbox.count(messages, tools=tools, tokenizer=chat).exact


def test_openai_reads_a_description_without_one_full_stop() -> None:
    """As the Cookbook does: a description that ends in dots is one full stop shorter."""
    chat, costs = ChatFormat.openai("gpt-4o"), []
    for description in ("Wait", "Wait.", "Wait.."):
        tool = {"type": "function", "function": {"name": "f", "description": description}}
        costs.append(chat.count_messages(HI, [tool]))
    assert costs[0] == costs[1] == costs[2] - 1


def test_media_cost_what_they_declare(model: models.Model) -> None:
    image: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:,"}}
    message = {"role": "user", "content": [{"type": "text", "text": "hi"}, image]}
    plain = ChatFormat.openai("gpt-4o").count_messages([{"role": "user", "content": "hi"}])
    for media_tokens, cost in ((None, 1_000), (85, 85), (lambda part: len(part.kind), 5)):
        chat = OpenAIFormat(older=False, published=True, media_tokens=media_tokens)
        assert chat.count_messages([message]) == plain + cost
        claimed = {**message, "content": [{"type": "text", "text": "hi"}, {**image, "tokens": 0}]}
        assert chat.count_messages([claimed]) == plain + cost  # what a client says of its own cost
    chat = OpenAIFormat(older=False, published=True, media_tokens="declared")
    with pytest.raises(UndeclaredCost):
        chat.count_messages([message])
    message["content"] = [{"type": "text", "text": "hi"}, {**image, "tokens": 85}]
    assert chat.count_messages([message]) == plain + 85
    local = ChatFormat.open(model.gguf)
    with pytest.raises(TemplateError, match="Let the server count"):
        local.count_messages([message])
    bare = local.count_request(read_request([{"role": "user", "content": [{"type": "text", "text": "hi"}]}]))
    with_image = local.count_request(read_request([message]))
    assert bare.exact
    assert (with_image.total, with_image.exact) == (bare.total + MEDIA, False)
    assert with_image.at_most > with_image.total


@pytest.mark.parametrize("what", ["images", "texts", "names", "calls"])
def test_what_is_remembered_of_messages_has_an_end(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Megabytes of a message that are not counted, or too many to be worth it, are let go of."""
    for counting in (bound, lower_bound):
        monkeypatch.setattr(counting, "COUNTS", RememberedCounts(500_000))

    def message(number: int) -> dict[str, Any]:
        large = f"{number}{'a ' * 1_000_000}"
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{large}"}, "tokens": 85}
        call = {"id": large, "type": "function", "function": {"name": "look", "arguments": large}}
        text = {"type": "text", "text": str(number)}
        made: dict[str, dict[str, Any]] = {
            "images": {"role": "user", "content": [text, image]},
            "texts": {"role": "user", "content": large},
            "names": {"role": "user", "content": str(number), "name": large},
            "calls": {"role": "assistant", "content": None, "tool_calls": [call]},
        }
        return made[what]

    chat = OpenAIFormat(older=False, published=True)
    monkeypatch.setattr(chat, "tokenizer", get("utf8-bytes"))
    monkeypatch.setattr(chat, "bound", bound.Bound(get("utf8-bytes")))
    tracemalloc.start()
    try:
        for number in range(10):
            chat.count_messages([message(number)])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1_000_000


def test_a_server_that_is_asked_asynchronously() -> None:
    asked = []

    async def count(body: dict[str, Any]) -> int:
        asked.append(body)
        await asyncio.sleep(0)
        return 7

    chat = ChatFormat.from_server(count, "far")
    with pytest.raises(UnsupportedOperation, match="acount_request"):
        chat.count_messages(HI)
    assert asyncio.run(chat.acount_request(read_request(HI))).total == 7
    assert chat.count_messages(HI) == 7
    assert asked == [{"messages": HI}]


RESPONSES = [
    {"role": "user", "content": [{"type": "input_text", "text": "What is the weather?"}]},
    {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "They ask."}]},
    {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "sunny"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is sunny."}]},
    {"role": "user", "content": [{"type": "input_text", "text": "And"}, {"type": "text", "text": "now?"}]},
]


def test_a_server_is_asked_once_for_each_whole_request() -> None:
    asked: list[dict[str, Any]] = []

    def count(body: dict[str, Any]) -> int:
        asked.append(body)
        return len(asked)

    chat = ChatFormat.from_server(count, "near")
    form, tools = {"type": "json_object"}, [{"type": "function", "function": {"name": "f"}}]
    bodies = [{"messages": HI}, {"messages": HI, "response_format": form}, {"messages": HI, "tools": tools}]
    counts = [chat.count_request(read_request(body)) for body in bodies * 2]
    assert asked == bodies
    assert [(one.total, one.exact, one.at_most) for one in counts] == [(n, True, n) for n in (1, 2, 3)] * 2
    converted = chat.count_request(read_request(RESPONSES))
    assert not converted.exact
    assert converted.at_most > converted.total


@pytest.mark.parametrize("server", ["llama.cpp", "transformers"])
def test_the_texts_of_the_responses_api_are_counted_by_a_template(server: str, model: models.Model) -> None:
    chat = ChatFormat.open(model.folder if server == "transformers" else model.gguf, server=server)
    count = tokenbox.count(RESPONSES, tokenizer=chat)
    assert not count.exact
    question = {"type": "text", "text": "What is the weather?"}
    plain = chat.count_request(read_request([{"role": "user", "content": [question]}]))
    assert chat.count_request(read_request(RESPONSES[:1])).total == plain.total
    assert tokenbox.fit(RESPONSES, None, chat).count == count
    conversation = tokenbox.Conversation("", chat)
    conversation.extend(RESPONSES)
    assert conversation.request_count() == count


def test_a_message_that_a_template_cannot_count_is_named_by_its_place(model: models.Model) -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    messages = [*HI, {"role": "assistant", "content": None, "tool_calls": [call]}]
    with pytest.raises(TemplateError, match=r"refuses messages\[1\]"):
        tokenbox.fit(messages, 1_000, ChatFormat.open(model.gguf))


def test_a_template_of_texts_gets_texts_as_from_a_server(model: models.Model) -> None:
    """Qwen3's searches the content of an answer, which is null beside a call; others want objects."""
    source = (
        "{% for m in messages %}{{ m.role + ': ' + m.content }}{% for c in m.tool_calls or [] %}"
        "{% for key, value in c.function.arguments | items %}{{ key }}={{ value }};{% endfor %}{% endfor %}"
        "{{ '|' }}{% endfor %}"
    )
    chat = ChatFormat.open(model.folder, template=source)
    call: dict[str, Any] = {"id": "c", "type": "function"}
    call["function"] = {"name": "f", "arguments": '{"city": "Oslo"}'}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "sunny"},
    ]
    assert chat.render(messages) == "user: one\ntwo|assistant: city=Oslo;|tool: sunny|"
    assert not chat.count_request(read_request(messages)).exact
    call["function"]["arguments"] = "no JSON"
    with pytest.raises(TemplateError, match="failed on these messages"):
        chat.render(messages)


def test_a_server_that_says_nonsense() -> None:
    for nonsense in (-1, None, "7", True, 10**5_000, -(10**5_000)):
        chat = ChatFormat.from_server(lambda *_, nonsense=nonsense: nonsense, "odd")
        with pytest.raises(TokenizerError, match="a count is an integer"):
            chat.count_messages(HI)


@pytest.mark.parametrize(
    "model",
    """
    gpt-4o gpt-4o-mini gpt-4o-2024-08-06 openai/gpt-4o gpt-4 gpt-4-0613 gpt-4-32k gpt-4-turbo
    gpt-4-1106-preview gpt-4-turbo-2024-04-09 gpt-3.5-turbo gpt-3.5-turbo-0125 gpt-3.5-turbo-16k
    """.split(),
)
def test_the_models_of_the_published_rules_are_exact(model: str) -> None:
    assert tokenbox.count([{"role": "user", "content": "hello"}], model).exact


@pytest.mark.parametrize(
    "model",
    """
    gpt-3.5-turbo-0301 gpt-4-x-alpaca-13b x/gpt-4-alpaca foo/gpt-4o-clone gpt-4o-search-preview gpt-4-base
    gpt-4o-mini-search-preview gpt-4o-audio-preview gpt-4o-realtime-preview gpt-3.5-turbo-instruct gpt-4.1
    ft:gpt-4o-2024-08-06:o:n:i gpt-5 chatgpt-4o-latest azure/gpt-4o gpt-35-turbo gpt_4o gpt-4o-2099-01-01
    """.split(),
)
def test_a_name_that_begins_alike_proves_nothing(model: str) -> None:
    messages = [{"role": "user", "content": "hello", "name": "ada"}] * 400
    count = tokenbox.count(messages, model)
    assert not count.exact
    # gpt-3.5-turbo-0301 had one token more for each message, and one less for each name.
    assert count.at_most >= tokenbox.count(messages, "gpt-4").total + 400


def test_prompts_of_completions_are_counted_alike_by_both_rules(model: models.Model) -> None:
    """Each prompt has the window for itself; a text in a list of token ids has its own tokens."""
    prompts = read_request({"prompt": [["five words of a text", 1, 2], "short"]})
    llama = ChatFormat.open(model.gguf, server="llama.cpp").count_request(prompts)
    other = ChatFormat.open(model.gguf, server="transformers").count_request(prompts)
    assert (other.total, other.largest) == (llama.total, llama.largest)
    assert not other.exact
    assert other.largest is not None
    assert 3 < other.largest < other.total


@pytest.mark.parametrize("server", ["llama.cpp", "transformers"])
def test_an_image_beside_a_role_that_only_the_server_knows(server: str, model: models.Model) -> None:
    """A gateway counts it, as it counts a text in that role: it had been refused."""
    chat = ChatFormat.open(model.gguf, server=server)
    text = {"type": "text", "text": "hi"}
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}

    def total(*parts: dict[str, Any]) -> int:
        messages = [{"role": "user", "content": "x"}, {"role": "critic", "content": list(parts)}]
        found = chat.count_request(read_request(messages, strict=False))
        assert not found.exact
        return found.total

    assert total(text) < total(text, image)


@pytest.mark.parametrize("server", ["llama.cpp", "transformers"])
def test_a_template_takes_the_callers_cost_of_an_image(server: str, tmp_path: Path) -> None:
    """Whole, in a conversation, and by the file's name; free images make no count exact."""
    folder = models.write(tmp_path, models.PARTS).folder
    chat = ChatFormat.open(folder, server=server)
    image = {"type": "image_url", "image_url": {"url": "data:,x"}, "tokens": 60}
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}, image]}]
    bare = tokenbox.count(messages, tokenizer=chat, media_tokens=0)
    assert not bare.exact
    prices: list[tuple[Any, int]] = [(85, 85), (lambda _: 7, 7), ("declared", 60), (None, 1_000)]
    for price, cost in prices:
        counted = tokenbox.count(messages, tokenizer=chat, media_tokens=price)
        assert (counted.total, counted.exact) == (bare.total + cost, False)
        assert tokenbox.fit(messages, None, chat, media_tokens=price).count == counted
        conversation = tokenbox.Conversation("", chat, media_tokens=price)
        conversation.extend(messages)
        assert (conversation.estimate_tokens(), conversation.exact) == (counted.total, False)
    assert not tokenbox.fit(messages, None, chat, media_tokens=0).exact


QUADRATIC = (
    "{% for one in messages %}{% for other in messages %}{% if other.content == one.content %}"
    "<|im_start|>{{ other.role }}\n{{ other.content }}<|im_end|>\n{% endif %}{% endfor %}{% endfor %}"
)


@pytest.mark.parametrize("server", ["llama.cpp", "transformers"])
def test_more_work_than_the_sandbox_lets_a_template_do_makes_an_estimate(
    model: models.Model, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    """Some templates look at all messages for each: at a thousand messages they were refused."""
    chat = ChatFormat.open(model.folder, template=QUADRATIC, server=server)
    messages = [{"role": role, "content": f"{role} {n}"} for n in range(40) for role in ("user", "assistant")]
    messages.append({"role": "user", "content": "And now?"})
    real = tokenbox.count(messages, tokenizer=chat)
    assert real.by is By.TEMPLATE
    monkeypatch.setattr(run, "MAX_STEPS", 4_000)
    monkeypatch.setattr(template, "MAX_STEPS", 4_000)
    with pytest.raises(TemplateTooLarge, match="4,000 steps"):
        chat.render(messages)
    found = tokenbox.count(messages, tokenizer=chat)
    assert (found.exact, found.by) == (False, By.MARKERS)
    assert real.total <= found.total
    assert found.at_most == NO_BOUND, "nobody knows how much it would write"
    conversation = tokenbox.Conversation(count=chat)
    conversation.extend(messages)
    assert conversation.request_count() == found
    fitted = tokenbox.fit(messages, 200, chat)
    assert fitted.messages[-1] is messages[-1]
    assert tokenbox.count(fitted.messages, tokenizer=chat).total == fitted.total <= 200
