"""Sections with roles: the budget holds on the request that is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenbox
from tests.llama import model as models
from tokenbox import ChatFormat, ContextCriticalOverflow
from tokenbox.content.message import InvalidMessage
from tokenbox.content.request import read_request
from tokenbox.conversation.markers import MarkersFormat
from tokenbox.errors import LayoutError, NoTokenizer, TokenizerError, VocabularyError
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from pathlib import Path

    from tokenbox.compose.requests import RequestCounter


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> RequestCounter:
    return ChatFormat.open(models.write(tmp_path_factory.mktemp("model"), models.TOOLS).gguf)


def sections(sizes: list[int]) -> list[dict[str, Any]]:
    return [
        {
            "id": str(n),
            "content": " ".join(["word"] * size),
            "role": "system" if n == 0 else "user",
            "shrink": 1 if n else 0,
            "priority": 100 + n,
        }
        for n, size in enumerate(sizes)
    ]


def counted(layout: tokenbox.Layout, counter: RequestCounter) -> int:
    messages = layout.messages()
    return counter.count_request(read_request(messages)).total if messages else 0


def test_a_models_own_files_count_messages_as_fit_does(tmp_path: Path) -> None:
    named = f"file:{models.write(tmp_path, models.TOOLS).gguf}"
    layout = tokenbox.layout(sections([5, 5]), 1_000, named)
    assert layout.total == tokenbox.fit(layout.messages(), None, named).total
    texts = [{**section, "role": None} for section in sections([5, 5])]
    bare = tokenbox.layout(texts, 1_000, named)
    assert bare.total == tokenbox.count(bare.text, tokenizer=named).total


def test_a_file_is_not_opened_because_a_model_is_named_so(tmp_path: Path) -> None:
    # A program may take the name from others.
    named = f"file:{models.write(tmp_path, models.TOOLS).gguf}"
    for call in (
        lambda: tokenbox.count("word", model=named),
        lambda: tokenbox.fit([{"role": "user", "content": "word"}], 99, model=named),
        lambda: tokenbox.layout(sections([5]), 99, model=named),
    ):
        with pytest.raises(TokenizerError, match="names a file, not a model"):
            call()
    with pytest.raises(NoTokenizer):
        tokenbox.ctx.estimate(model=named, chunks=["word"])


def test_a_file_whose_name_is_too_long_does_not_exist() -> None:
    with pytest.raises(VocabularyError):
        tokenbox.layout(sections([5]), 99, "file:" + "x" * 5_000)


def test_an_unknown_role_is_reported_with_its_section() -> None:
    wrong = [*sections([5]), {"id": "review", "content": "word", "role": "critic"}]
    with pytest.raises(InvalidMessage, match=r"^section 'review': a message has the role"):
        tokenbox.layout(wrong, 1_000, "gpt-4o")


def test_the_total_is_the_count_of_the_messages() -> None:
    chat = ChatFormat.openai("gpt-4o")
    many = sections([5] * 200)
    layout = tokenbox.layout(many, 1_000, chat)
    assert layout.total == counted(layout, chat) <= 1_000
    assert layout.total > 990
    assert layout.count is not None
    assert layout.count.exact
    assert layout.tokenizer == chat.identity
    for named in (tokenbox.layout(many, 1_000, "gpt-4o"), tokenbox.layout(many, 1_000, model="gpt-4o")):
        assert named == layout
    # A layout of texts of the same total costs far more as messages.
    bare = tokenbox.layout(many, 1_000, "o200k_base")
    assert counted(bare, chat) > 1_300
    assert bare.count is None


def test_a_budget_of_exactly_the_whole_changes_nothing(template: RequestCounter) -> None:
    many = sections([3, 40, 1, 7])
    for counter in (ChatFormat.openai("gpt-4o"), MarkersFormat(get("o200k_base")), template):
        whole = tokenbox.layout(many, 100_000, counter)
        assert not whole.log
        exact = tokenbox.layout(many, whole.total, counter)
        assert exact.texts == whole.texts
        less = tokenbox.layout(many, whole.total - 1, counter)
        assert less.texts != whole.texts
        assert counted(less, counter) == less.total < whole.total


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(0, 300))
def test_it_is_never_over(sizes: list[int], budget: int) -> None:
    counter = ChatFormat.openai("gpt-4o")
    try:
        layout = tokenbox.layout(sections(sizes), budget, counter, reclaim=True)
    except ContextCriticalOverflow as overflow:
        first = read_request([{"role": "system", "content": " ".join(["word"] * sizes[0])}])
        assert overflow.fixed_load == counter.count_request(first).total > budget  # noqa: PT017
        return
    assert counted(layout, counter) == layout.total <= budget


def test_a_template_and_a_server_hold_it_too(template: RequestCounter) -> None:
    server = ChatFormat.from_server(lambda body: 7 + sum(len(m["content"]) for m in body["messages"]), "s")
    for budget in range(60, 400, 7):
        for counter in (template, server):
            layout = tokenbox.layout(sections([3, 40, 1, 7, 30]), budget, counter)
            assert counted(layout, counter) == layout.total <= budget


def test_whatif_counts_messages() -> None:
    chat = ChatFormat.openai("gpt-4o")
    many = sections([5] * 50)
    for budget, layout in zip((50, 100), tokenbox.whatif(many, (50, 100), chat), strict=True):
        assert isinstance(layout, tokenbox.Layout)
        assert layout.total == counted(layout, chat) <= budget
        assert layout.digest == tokenbox.layout(many, budget, chat).digest
        assert layout.whatif([budget])[0] == layout


def test_every_section_needs_a_role() -> None:
    chat = ChatFormat.openai("gpt-4o")
    with pytest.raises(LayoutError, match="has no role"):
        tokenbox.layout([{"id": "a", "content": "x"}], 100, chat)
    with pytest.raises(InvalidMessage, match="role"):
        tokenbox.layout([{"id": "a", "content": "x", "role": "narrator"}], 100, chat)
    assert tokenbox.layout([], 100, chat).total == 0


def test_an_error_and_a_picture_tell_of_the_markers() -> None:
    chat = ChatFormat.openai("gpt-4o")
    given = [
        {"id": "a", "content": "You are a helper.", "role": "system"},
        {"id": "b", "content": "Hello there, how are you?", "role": "user"},
    ]
    with pytest.raises(ContextCriticalOverflow) as error:
        tokenbox.layout(given, 12, chat)
    assert str(error.value) == (
        "the critical sections as messages, with their markers, need 23 tokens, the budget is 12: "
        "11 too many (b 7, a 5). Smallest change: give section 'b' (7 tokens) a shrink above 0, so that it "
        "may be dropped, or raise the budget by 11 to 23."
    )
    assert "markers of messages" in tokenbox.layout(given, 23, chat).explain()


@pytest.mark.parametrize("name", ["o200k_base", "two-vocabularies"])
def test_an_estimate_of_messages_is_marked(name: str) -> None:
    # The vocabulary is exact for texts; what a server adds to messages is not known.
    counter, many = MarkersFormat(get(name)), sections([4, 4])
    layout = tokenbox.layout(many, 1_000, counter)
    assert layout.count is not None
    assert not layout.count.exact
    assert not layout.exact
    assert layout.explain().startswith("~")
    assert repr(layout).startswith(f"<Layout: ~{layout.total}")
    less = layout.whatif([layout.total - 1])[0]
    assert isinstance(less, tokenbox.Layout)
    assert f"-> ~{less.total}\n" in str(layout.diff(less))
    with pytest.raises(ContextCriticalOverflow, match=r"need ~\d") as error:
        tokenbox.layout(many, 1, counter)
    assert error.value.details["exact"] is False
