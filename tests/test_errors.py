"""Errors travel between processes, and every code is used once."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
import re
import tomllib
from collections import Counter

import pytest

import tokenbox
from tokenbox import errors
from tokenbox.content.block_kinds import Lang, Priority
from tokenbox.content.blocks import AnnotationBlock, CodeBlock
from tokenbox.errors import ContextCriticalOverflow, DocumentError, InvalidText, MissingExtra, TokenboxError


def kinds(base: type[TokenboxError] = TokenboxError) -> list[type[TokenboxError]]:
    return [base, *(kind for sub in base.__subclasses__() for kind in kinds(sub))]


def ours() -> list[type[TokenboxError]]:
    """Every error that tokenbox has, in whatever module."""
    for module in pkgutil.walk_packages(tokenbox.__path__, "tokenbox."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError:  # an adapter's framework is installed elsewhere
            if not module.name.startswith("tokenbox.integrations."):
                raise
    return [kind for kind in dict.fromkeys(kinds()) if kind.__module__.startswith("tokenbox.")]


def overflow() -> TokenboxError:
    with pytest.raises(ContextCriticalOverflow) as caught:
        tokenbox.layout([{"id": "a", "content": "abc"}], 1, "utf8-bytes")
    return caught.value


EXAMPLES = [
    overflow(),
    DocumentError("wrong", file="a.toml", line=3, path="sections[0]", code="document_wrong_type"),
    InvalidText.at("a\ud800"),
    MissingExtra.of("the engine", "fast"),
    *(
        kind("what was wrong", figure=1)
        for kind in kinds()
        if kind not in {ContextCriticalOverflow, DocumentError} and kind.__module__ == errors.__name__
    ),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_whole(error: TokenboxError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert again.to_dict() == error.to_dict()
        assert vars(again) == vars(error)


def test_every_name_and_every_code_is_its_own() -> None:
    every = ours()
    for names in (Counter(kind.__name__ for kind in every), Counter(kind.code for kind in every)):
        assert [name for name, often in names.items() if often > 1] == []


def test_a_layout_travels_without_its_tokenizer() -> None:
    made = tokenbox.layout([{"id": "a", "content": "some text", "shrink": 1}], 2, "o200k_base")
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert again.to_dict() == made.to_dict()
    with pytest.raises(tokenbox.TokenboxError, match="without its tokenizer"):
        again.whatif([1])
    assert [one.budget for one in made.whatif([1, 2]) if isinstance(one, tokenbox.Layout)] == [1, 2]


def test_the_tree_is_whole() -> None:
    """Every error of this module, and every kind of those beside their parts, is drawn in the docstring."""
    drawn = set(re.findall(r"\w+", str(errors.__doc__)))
    wanted = {k for k in ours() if k.__base__ is TokenboxError or k.__module__ == errors.__name__}
    assert sorted(k.__name__ for k in wanted if k.__name__ not in drawn) == []
    assert sorted(k.code for k in wanted if k.__module__ == errors.__name__ and k.code not in drawn) == []


def test_a_count_and_its_noun_agree() -> None:
    assert [errors.plural(number, "token") for number in (0, 1, 2, 1000)] == [
        "0 tokens",
        "1 token",
        "2 tokens",
        "1,000 tokens",
    ]
    assert errors.plural(1, "entry", "entries") == "1 entry"
    assert errors.plural(3, "entry", "entries") == "3 entries"


@pytest.mark.parametrize("name", ["a\nb\x1b[31m", "\u202egnp.exe", "x" * 5_000])
def test_a_hostile_name_stays_on_one_short_line(name: str) -> None:
    made = [CodeBlock(Lang.GO, name, b"abc" * 9), AnnotationBlock.of_priority(0, Priority.CRITICAL)]
    with pytest.raises(ContextCriticalOverflow) as sections:
        tokenbox.layout([{"id": name, "content": "abc" * 9}], 10, "utf8-bytes")
    with pytest.raises(ContextCriticalOverflow) as blocks:
        tokenbox.render_blocks(made, "utf8-bytes", 10)
    for found in (sections, blocks):
        message = str(found.value)
        assert message.isprintable()
        assert len(message) < 700
        assert name in found.value.critical[0][0]


@pytest.mark.parametrize("name", ["gpt-4o", "gpt-5.1", 'a"b\\c', "é\x7f\n", "x" * 300, ""])
def test_a_key_of_toml_names_what_it_was_made_of(name: str) -> None:
    parts = ("models", name, "max_ctx")
    assert tomllib.loads(f"{errors.toml_key(parts)} = 1") == {"models": {name: {"max_ctx": 1}}}
