"""Anyone's chunks within a budget."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenbox
from tokenbox.compose.selection import Chunk, ChunkReason, SelectionOrder, select
from tokenbox.content.block_kinds import Priority
from tokenbox.errors import ContextCriticalOverflow, InvalidBudget, InvalidContent, InvalidText
from tokenbox.tokenizers import registry

if TYPE_CHECKING:
    from collections.abc import Callable

TEXTS = st.lists(st.text("abc de\n", min_size=1, max_size=40), max_size=12)


@given(TEXTS, st.integers(0, 200), st.sampled_from(["utf8-bytes", "o200k_base"]))
def test_never_over_and_the_texts_are_the_callers(texts: list[str], budget: int, name: str) -> None:
    found = select(texts, budget, name, query="abc de")
    assert registry.get(name).count(found.text) == found.total <= budget
    assert found.text == "\n\n".join(texts[i] for i in found.shown)
    assert sorted(chunk.index for chunk in found.chunks) == list(range(len(texts)))


GIVEN = st.builds(
    Chunk,
    text=st.text("ab", max_size=30),
    forms=st.lists(st.text("ab", max_size=9), max_size=2).map(tuple),
    score=st.integers(0, 5),
    priority=st.sampled_from(Priority),
)


def obvious(chunks: list[Chunk], budget: int, worths: list[int]) -> dict[int, int] | None:
    """Return the shown form of each chunk; None if the critical ones do not fit. All are tried, in order."""
    shown = {i: 0 for i, chunk in enumerate(chunks) if chunk.priority is Priority.CRITICAL}
    tried = [
        (chunk.priority, -(worths[i] if form == 0 else worths[i] * 40 // 100), i, form)
        for i, chunk in enumerate(chunks)
        for form, text in enumerate((chunk.text, *chunk.forms))
        if text.strip()  # a blank one is not shown
    ]

    def size(forms: dict[int, int]) -> int:
        return len("--".join((chunks[i].text, *chunks[i].forms)[form] for i, form in sorted(forms.items())))

    if size(shown) > budget:
        return None
    for _, _, i, form in sorted(tried):
        if i not in shown and size(shown | {i: form}) <= budget:
            shown[i] = form
    return shown


@given(st.lists(GIVEN, max_size=8), st.integers(0, 120))
def test_the_best_that_fits_is_shown_as_by_an_obvious_search(chunks: list[Chunk], budget: int) -> None:
    everything = sorted(select(chunks, 10_000, "utf8-bytes", copies=True).chunks, key=lambda one: one.index)
    wanted = obvious(chunks, budget, [one.worth for one in everything])
    if wanted is None:
        with pytest.raises(ContextCriticalOverflow):
            select(chunks, budget, "utf8-bytes", copies=True, separator="--")
        return
    found = select(chunks, budget, "utf8-bytes", copies=True, separator="--")
    assert {one.index: one.form for one in found.chunks if one.form is not None} == wanted


def test_the_query_decides_and_the_order_is_kept() -> None:
    texts = ["Cats sleep all day.", "The budget is hard.", "Dogs run around.", "Tokens are counted exactly."]
    found = tokenbox.select(texts, 12, "are budgets hard, are tokens counted?", tokenizer="o200k_base")
    assert found.shown == (1, 3)
    best_last = tokenbox.select(texts, 12, "are tokens counted?", tokenizer="o200k_base", order="worth")
    assert best_last.shown[-1] == 3


def test_scores_go_before_the_query_and_classes_before_scores() -> None:
    chunks = [
        {"id": "a", "text": "aaaa", "score": 0.1},
        {"id": "b", "text": "bbbb", "score": 0.9},
        {"id": "c", "text": "cccc", "score": 0.5, "priority": "high"},
    ]
    found = select(chunks, 10, "utf8-bytes", query="aaaa")
    assert [chunk.id for chunk in found.chunks if chunk.form is not None] == ["b", "c"]


def test_without_query_and_scores_the_first_are_worth_most() -> None:
    assert select(["one", "two", "three"], 8, "utf8-bytes").shown == (0, 1)


def test_a_shorter_form_stands_where_the_text_does_not_fit() -> None:
    chunks = [Chunk("long " * 40, id="a", forms=("long, forty times",)), Chunk("b" * 30)]
    found = select(chunks, 60, "utf8-bytes", query="long")
    assert found.text.startswith("long, forty times")
    assert next(chunk.form for chunk in found.chunks if chunk.id == "a") == 1


def test_copies_are_shown_once() -> None:
    text = "The quick brown fox jumps over the lazy dog and runs away from it."
    found = select([text, text.upper(), "Something else altogether, in other words."], 500, "utf8-bytes")
    assert found.shown == (0, 2)
    assert [(chunk.reason, chunk.copy_of) for chunk in found.chunks if chunk.index == 1] == [
        (ChunkReason.COPY, 0)
    ]
    assert len(select([text, text.upper()], 500, "utf8-bytes", copies=True).shown) == 2


@given(
    st.lists(st.lists(st.sampled_from("abc"), max_size=30), max_size=8),
    st.lists(st.integers(0, 3), min_size=8, max_size=8),
)
def test_copies_by_their_definition(words: list[list[str]], scores: list[int]) -> None:
    chunks = [Chunk(" ".join(w), score=score) for w, score in zip(words, scores, strict=False)]
    result = select(chunks, 10_000, "utf8-bytes")
    copies = {chunk.index: chunk.copy_of for chunk in result.chunks if chunk.copy_of is not None}
    shingles = [{tuple(w[at : at + 5]) for at in range(max(1, len(w) - 4))} if w else set() for w in words]
    expected: dict[int, int] = {}
    best = sorted(range(len(chunks)), key=lambda i: -scores[i])
    for place, i in enumerate(best):
        for other in best[:place]:
            common = len(shingles[i] & shingles[other])
            if other not in expected and common and common * 100 >= 85 * len(shingles[i]):
                expected[i] = other
                break
    assert copies == expected


def test_many_chunks_with_the_same_beginning() -> None:
    """Each was compared with all others that share a sequence of words: minutes for these."""
    header = " ".join(f"w{n}" for n in range(12))
    chunks = [f"{header} {' '.join(f'x{i}y{n}' for n in range(7))}" for i in range(3_000)]
    result = select([*chunks, chunks[0]], 100_000, "utf8-bytes")
    assert [chunk.copy_of for chunk in result.chunks if chunk.copy_of is not None] == [0]


@pytest.mark.parametrize(("tokenizer", "exact"), [("utf8-bytes", True), ("chars4", False)])
def test_a_selection_by_an_estimate_is_one(tokenizer: str, exact: bool) -> None:
    assert select(["one", "two"], 5, tokenizer).exact is exact


def test_critical_chunks_are_shown_or_refused() -> None:
    chunks = [Chunk("a" * 30), Chunk("b" * 30, id="rules", priority=Priority.CRITICAL)]
    assert select(chunks, 40, "utf8-bytes").shown == (1,)
    with pytest.raises(ContextCriticalOverflow, match="rules") as exact:
        select(chunks, 20, "utf8-bytes")
    with pytest.raises(ContextCriticalOverflow, match="~") as estimate:
        select(chunks, 2, "chars4")
    assert [caught.value.details["exact"] for caught in (exact, estimate)] == [True, False]


@dataclass
class FromALibrary:
    page_content: str
    metadata: dict[str, str]


def test_documents_of_a_library_are_chunks() -> None:
    assert select([FromALibrary("text", {})], 10, "utf8-bytes").text == "text"


def test_what_is_no_chunk_or_budget() -> None:
    with pytest.raises(InvalidContent, match="chunk 1"):
        select(["a", 7], 10, "utf8-bytes")
    with pytest.raises(InvalidBudget):
        select(["a"], -1, "utf8-bytes")


def test_a_title_may_be_among_the_metadata() -> None:
    texts = ["It is red.", "It is blue."]
    chunks = [
        {"text": text, "metadata": {"source": f"docs/{name}.md"}}
        for text, name in zip(texts, ("billing", "tides"), strict=True)
    ]
    assert select(chunks, 11, "utf8-bytes", query="tides").shown == (1,)
    assert select(texts, 11, "utf8-bytes", query="tides").shown == (0,)


def test_a_pair_of_a_document_and_its_score_is_explained() -> None:
    with pytest.raises(InvalidContent, match="a distance is no score"):
        select([("text", 0.5)], 10, "utf8-bytes")


def test_one_call_packs_a_folder(tmp_path: object) -> None:
    folder = f"{tmp_path}/p"
    import pathlib

    pathlib.Path(folder).mkdir()
    pathlib.Path(folder, "a.py").write_text("def f():\n    return 1\n")
    found = tokenbox.pack(folder, 500, "what does f return", tokenizer="o200k_base")
    assert "return 1" in found.text
    assert found.total <= 500
    assert callable(tokenbox.pack)


@pytest.mark.parametrize(
    "wrong",
    [
        {"priority": "soon"},
        {"priority": 77},
        {"score": float("nan")},
        {"score": float("inf")},
        {"score": "1e999999999"},
        {"score": [1]},
        {"forms": 3},
    ],
)
def test_what_is_no_chunk_is_named(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidContent, match="chunk 1"):
        select(["a", {"text": "b", **wrong}], 5, "utf8-bytes")


@pytest.mark.parametrize("wrong", [{"text": None}, {"text": 5}, {"priority": "highest"}, {"forms": 5}])
def test_a_wrong_chunk_object_is_named(wrong: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"text": "b", **wrong}
    with pytest.raises(InvalidContent, match="chunk 1"):
        select(["a", Chunk(**fields)], 5, "utf8-bytes")


@pytest.mark.parametrize(
    "wrong", ["\ud800", {"text": "b\ud800"}, {"text": "b", "forms": ["\ud800"]}, Chunk("b\ud800")]
)
def test_a_chunk_that_is_not_unicode_is_named(wrong: object) -> None:
    with pytest.raises(InvalidText, match=r"chunk 1: the text is not valid Unicode: character \d is"):
        select(["a", wrong], 5, "utf8-bytes")


COUNTERS: dict[str, Callable[[str], int]] = {
    "a short text is nothing": lambda text: len(text) // 4,
    "a long text is more than its parts": lambda text: len(text) ** 2 // 50,
    "joins cost": lambda text: len(text) // 4 + 5 * text.count("\n\n"),
}


@pytest.mark.parametrize("name", COUNTERS)
@given(
    st.lists(st.tuples(st.text("ab ", max_size=40), st.booleans(), st.booleans()), max_size=9),
    st.integers(0, 60),
    st.sampled_from(SelectionOrder),
)
def test_a_function_that_always_counts_the_same_is_not_blamed(
    name: str, given_chunks: list[tuple[str, bool, bool]], budget: int, order: SelectionOrder
) -> None:
    chunks = [
        Chunk(text, forms=("",) if short else (), priority=Priority.CRITICAL if critical else Priority.NORMAL)
        for text, short, critical in given_chunks
    ]
    try:
        result = select(chunks, budget, COUNTERS[name], order=order, copies=True)
    except ContextCriticalOverflow:
        return
    assert result.total == (COUNTERS[name](result.text) if result.text else 0) <= budget


def test_blank_chunks_are_not_shown() -> None:
    found = select(["", " \n", "a discount", {"text": "long " * 40, "forms": [" "]}], 8, "o200k_base")
    assert (found.text, found.shown) == ("a discount", (2,))
    reasons = {chunk.index: chunk.reason for chunk in found.chunks}
    assert reasons[0] is reasons[1] is ChunkReason.BLANK
    assert reasons[3] is ChunkReason.NO_ROOM


def test_an_accent_of_its_own_is_part_of_its_letter() -> None:
    chunks = ["tea at ten", "cafe\u0301 at nine"]
    assert select(chunks, 100, "o200k_base", query="caf\xe9", order="worth").shown == (0, 1)
    assert select(chunks[::-1], 100, "o200k_base", query="caf\xe9", order="worth").shown == (1, 0)


def test_a_selection_has_a_record() -> None:
    selection = select([{"id": "a", "text": "tides"}, {"id": "b", "text": "tides " * 90}], 5, "utf8-bytes")
    record = json.loads(json.dumps(selection.to_dict()))
    assert (record["text"], record["total"], record["budget"]) == ("tides", 5, 5)
    assert [(chunk["id"], chunk["form"]) for chunk in record["chunks"]] == [("a", 0), ("b", None)]
