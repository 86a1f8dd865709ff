"""What becomes of a row: the same as the library makes of it, or an error that is a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tokenbox
from tests.batch.rows import mixed
from tokenbox.batch import BatchPlan
from tokenbox.batch.compiler import RowCompiler
from tokenbox.batch.errors import InvalidPlan, RowError
from tokenbox.batch.tally import RowOutcome, RowResult

if TYPE_CHECKING:
    from collections.abc import Mapping

TEXT = "one two three four five six seven eight nine ten"
TOKENIZER = "o200k_base"


def compiled(row: Mapping[str, object], **options: object) -> RowResult:
    return RowCompiler(BatchPlan.of(**options)).compile([row])[0]


def test_a_text_is_laid_out_as_the_library_does_it() -> None:
    found = compiled(
        {"body": TEXT, "ask": "Why?"},
        task="layout",
        budget=8,
        content="body",
        query="ask",
        tokenizer=TOKENIZER,
    )
    wanted = tokenbox.layout(
        [
            {"id": "content", "content": TEXT, "role": "user", "shrink": 1},
            {"id": "query", "content": "Why?", "role": "user"},
        ],
        8,
        TOKENIZER,
    )
    assert found.columns["text"] == wanted.text
    assert found.columns["digest"] == wanted.digest
    assert found.total == wanted.total <= 8
    assert found.columns["decisions"] == {"kept": 1, "truncated": 1}
    assert found.outcome is RowOutcome.CUT
    assert found.saved == sum(wanted.base_sizes) - sum(wanted.sizes) > 0


def test_with_a_model_the_budget_holds_on_the_request() -> None:
    found = compiled({"text": TEXT * 5}, task="layout", budget=20, model="gpt-4o")
    messages: Any = found.columns["messages"]
    assert found.columns["text"] is None
    assert found.total == tokenbox.count(messages, "gpt-4o").total <= 20
    assert found.exact is tokenbox.count(messages, "gpt-4o").exact


def test_a_row_may_be_a_layout_document() -> None:
    row = {
        "id": "x",
        "sections": [{"id": "a", "content": TEXT, "shrink": 1}],
        "budget": 4,
        "tokenizer": TOKENIZER,
    }
    found = compiled(row, task="layout")
    assert (
        found.columns["text"]
        == tokenbox.layout([{"id": "a", "content": TEXT, "shrink": 1}], 4, TOKENIZER).text
    )
    assert compiled(row, task="layout", budget=100).outcome is RowOutcome.WHOLE


def test_texts_are_counted_together_as_one_by_one() -> None:
    rows: list[dict[str, Any]] = [
        {"text": TEXT},
        {"text": ""},
        {"text": "\ud800"},
        {"text": TEXT * 3},
        {"text": 5},
        {"other": 1},
    ]
    together = RowCompiler(BatchPlan.of(task="count")).compile(rows)
    assert together == [compiled(row, task="count") for row in rows]
    assert [result.total for result in together[:2]] == [tokenbox.count(TEXT, tokenizer=TOKENIZER).total, 0]
    assert ["error" in result.columns for result in together] == [False, False, True, False, True, True]


def test_chats_are_counted_and_fitted() -> None:
    chat = [
        {"role": "user", "content": TEXT},
        {"role": "assistant", "content": TEXT},
        {"role": "user", "content": "?"},
    ]
    counted = compiled({"messages": chat}, task="count", model="gpt-4o")
    assert counted.total == tokenbox.count(chat, "gpt-4o").total
    fitted = compiled({"messages": chat}, task="fit", model="gpt-4o", budget=20)
    assert fitted.columns["messages"] == [chat[-1]]
    assert fitted.columns["decisions"] == {"kept": 1, "shortened": 0, "evicted": 2}
    assert fitted.total is not None
    assert fitted.saved == counted.total - fitted.total
    assert fitted.outcome is RowOutcome.CUT


def test_a_cell_may_have_a_list_as_json_and_a_number_as_text() -> None:
    chat = '[{"role": "user", "content": "hello"}]'
    found = compiled({"messages": chat, "n": "20"}, task="fit", model="gpt-4o", budget="n")
    assert found.total == tokenbox.count([{"role": "user", "content": "hello"}], "gpt-4o").total
    error: Any = compiled({"messages": chat}, task="fit", model="gpt-4o", budget="n").columns["error"]
    assert error["column"] == "n"


def test_what_the_policy_refuses_is_no_failure() -> None:
    found = compiled({"text": TEXT}, task="enforce", model="gpt-4o", tokenizer=TOKENIZER)
    assert found.columns["ok"] is True
    refused = compiled({"text": TEXT * 20_000}, task="enforce", model="gpt-4", tokenizer=TOKENIZER)
    assert refused.columns["ok"] is False
    assert refused.outcome is RowOutcome.REFUSED
    assert "error" not in refused.columns


def test_chunks_are_selected_and_blocks_rendered() -> None:
    chunks = ["alpha beta", "gamma delta " * 30, "alpha again"]
    found = compiled({"chunks": chunks, "q": "alpha"}, task="select", budget=10, query="q")
    assert found.columns["text"] == tokenbox.select(chunks, 10, "alpha", tokenizer=TOKENIZER).text
    assert found.saved is None
    blocks = [{"type": "document", "format_hint": "plain", "title": "t", "content": TEXT * 9}]
    rendered = compiled({"blocks": blocks}, task="render", budget=30)
    assert rendered.total is not None
    assert rendered.total <= 30
    assert rendered.outcome is RowOutcome.CUT


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({}, "row_invalid"),
        ({"text": 5}, "row_invalid"),
        ({"text": "a", "n": "x"}, "row_invalid"),
        ({"text": "\udfff", "n": 5}, "invalid_text"),
        ({"sections": [{"id": "a"}], "n": 5}, "document_missing_key"),
        ({"sections": [{"id": "a", "content_file": "../../etc/passwd"}], "n": 5}, "document_file_outside"),
        ({"sections": [{"id": "a", "content": TEXT}], "n": 1}, "context_critical_overflow"),
    ],
)
def test_an_error_is_a_row(row: dict[str, object], code: str) -> None:
    found = compiled(row, task="layout", budget="n")
    error: Any = found.columns["error"]
    assert error["code"] == code
    assert found.total is None


def test_an_empty_cell_is_no_content_beside_one_that_is_not_empty() -> None:
    """CSV has no null."""
    assert compiled({"text": "", "content": "one two"}, task="count").total == 2
    assert compiled({"text": ""}, task="count").total == 0
    row = {"messages": "", "text": TEXT, "sections": ""}
    assert compiled(row, task="auto", budget=99).columns["task"] == "layout"


def test_an_empty_path_is_no_folder() -> None:
    """An empty cell of CSV: taken as a path, it would name the whole folder of the input."""
    result = RowCompiler(BatchPlan.of(task="pack", budget=100)).compile_row({"path": ""})
    assert result.outcome is RowOutcome.FAILED
    assert "not an empty text" in str(result.columns["error"])


def test_a_bug_costs_its_row_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise BaseException("a panic of an engine")  # noqa: TRY002  # which is what it is

    compiler = RowCompiler(BatchPlan.of(task="layout", budget=5))
    monkeypatch.setattr("tokenbox.api.layout", broken)
    error: Any = compiler.compile([{"text": "a"}])[0].columns["error"]
    assert error["code"] == "row_internal_error"


def test_a_result_does_not_depend_on_its_neighbours() -> None:
    rows = [row for row in mixed(120) if isinstance(row, dict)]
    plan = BatchPlan.of(task="auto", budget="limit", tokenizer=TOKENIZER)
    together = RowCompiler(plan).compile(rows)
    assert together == [RowCompiler(plan).compile([row])[0] for row in rows]
    assert together == RowCompiler(plan).compile(rows[::-1])[::-1]
    assert {result.outcome for result in together} == set(RowOutcome)


@pytest.mark.parametrize(
    "options",
    [
        {"task": "nothing"},
        {"task": "fit"},
        {"task": "enforce"},
        {"budget": -1},
        {"budget": True},
        {"keep": ["text"]},
        {"keep": ["a", "a"]},
        {"colour": 1},
        {"content": 5},
    ],
)
def test_a_plan_is_checked(options: dict[str, object]) -> None:
    with pytest.raises(InvalidPlan):
        BatchPlan.of(**options)


def test_what_is_no_batch_is_refused() -> None:
    from tokenbox.batch import Compile

    with pytest.raises(RowError):
        Compile("count")(5)


@pytest.mark.parametrize("name", ["\ud800", "a\udcff"])
def test_a_name_of_a_chunk_that_is_no_unicode_is_no_bug(name: str) -> None:
    """The search of the query in the names ended with a UnicodeEncodeError."""
    plan = BatchPlan.of(task="select", budget=12, query="query", tokenizer="utf8-bytes")
    chunks = [{"text": "hello world", "title": name, "id": name}, "other"]
    (result,) = RowCompiler(plan).compile([{"chunks": chunks, "query": "hello"}])
    assert result.columns["text"] == "hello world"
