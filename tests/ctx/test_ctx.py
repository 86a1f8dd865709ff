# ruff: noqa: ANN401, ARG001  # anything is given as chunks; a fixture is a folder to be in; strategies take three
"""The four questions of ADR 007, with what the call, the settings and the catalog say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tests.ctx.asking import SETTINGS, document
from tokenbox import ContextCriticalOverflow, Section, ctx, override, tokenizers
from tokenbox.config import load
from tokenbox.content.block_kinds import FormatHint, Lang, Priority
from tokenbox.content.blocks import AnnotationBlock, CodeBlock, DocumentBlock
from tokenbox.ctx import (
    CutChunks,
    InvalidChunks,
    InvalidPolicy,
    LargerWindow,
    LowerMaxTokens,
    StrategyFailed,
    UnknownStrategy,
)
from tokenbox.errors import InvalidSection, InvalidText, NoTokenizer, TokenboxError

if TYPE_CHECKING:
    from pathlib import Path

# Estimates.


def test_an_estimate_has_the_whole_and_each_chunk(project: Path) -> None:
    found = ctx.estimate("gpt-4o", ["hello.", "", "Hi there"])
    o200k = tokenizers.get("o200k_base")
    assert found.tokens_in == o200k.count("hello.\n\nHi there")
    assert found.per_chunk == (o200k.count("hello."), 0, o200k.count("Hi there"))
    assert found.exact
    assert found.tokenizer == o200k.identity
    assert found.to_dict()["per_chunk"] == [
        {"id": "chunk[0]", "tokens": 2},
        {"id": "chunk[1]", "tokens": 0},
        {"id": "chunk[2]", "tokens": 2},
    ]
    assert ctx.estimate("gpt-4o", ["hello.", "Hi"], separator="").tokens_in == o200k.count("hello.Hi")
    assert ctx.estimate("gpt-4o", []).tokens_in == 0


@pytest.mark.parametrize("tokenizer", ["o200k_base", "chars4", len])
def test_a_chunk_that_is_not_unicode_is_named(project: Path, tokenizer: Any) -> None:
    chunks = ["good", "", "bad \ud800"]
    for call in (
        lambda: ctx.estimate("gpt-4o", chunks, tokenizer=tokenizer),
        lambda: ctx.enforce("gpt-4o", chunks, tokenizer=tokenizer),
        lambda: ctx.pack(chunks, 100, model="gpt-4o", tokenizer=tokenizer),
    ):
        with pytest.raises(InvalidText, match=r"'chunk\[2\]'.*character 4"):
            call()


def test_many_texts_are_decided_without_sections(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of many chunks is checked before every call, and most fit."""
    made: list[object] = []
    monkeypatch.setattr("tokenbox.policy.chunks.Section.__init__", lambda *args, **_: made.append(args))
    assert ctx.enforce("gpt-4o", ["text"] * 1_000).ok
    assert made == []


def test_kinds_of_chunks(project: Path) -> None:
    sections: list[Any] = [Section("rules", "abc"), {"id": "notes", "content": "defg"}, "hi"]
    assert ctx.estimate("tiny", sections).per_chunk == (3, 4, 2)
    assert ctx.estimate("tiny", sections).ids == ("rules", "notes", "chunk[2]")
    blocks = [document("a", "text"), AnnotationBlock.of_priority(0, Priority.LOW)]
    found = ctx.estimate("tiny", blocks)
    assert 4 < found.per_chunk[0] < found.tokens_in, "a block is counted in its markup, all in a frame"
    assert found.per_chunk[1] == 0, "an annotation is never sent"


@pytest.mark.parametrize(
    ("chunks", "error"),
    [
        ("one text", InvalidChunks),
        (b"bytes", InvalidChunks),
        (5, InvalidChunks),
        (None, InvalidChunks),
        ({"id": "a", "content": "b"}, InvalidChunks),
        ([5], InvalidChunks),
        ([None], InvalidChunks),
        ([b"bytes"], InvalidChunks),
        ([["nested"]], InvalidChunks),
        (["text", document("a", "b")], InvalidChunks),
        ([Section("a", "b"), Section("a", "c")], InvalidChunks),
        ([Section("chunk[1]", "b"), "a text at place 1"], InvalidChunks),
        ([{"id": "a"}], InvalidSection),
        ([{}], InvalidSection),
        (["\ud800"], InvalidText),
    ],
)
def test_what_are_no_chunks_is_refused(project: Path, chunks: Any, error: type[TokenboxError]) -> None:
    for ask in (
        lambda: ctx.estimate("tiny", chunks),
        lambda: ctx.pack(chunks, 100, model="tiny"),
        lambda: ctx.enforce("tiny", chunks),
    ):
        with pytest.raises(error) as caught:
            ask()
        assert len(str(caught.value)) < 400


# Who counts.


def test_without_a_tokenizer_it_fails_fast_with_commands(folder: Path) -> None:
    for model in ("gpt-4o", "claude-sonnet-4-5", "acme-7b", "openai/gpt-4.1"):
        with pytest.raises(NoTokenizer) as caught:
            ctx.enforce(model, ["text"])
        assert caught.value.details["remedies"]
    for bad in ("", " ", 5):
        with pytest.raises(NoTokenizer):
            ctx.estimate(bad, ["text"])  # type: ignore[arg-type]
    with pytest.raises(NoTokenizer, match="neither a model nor a tokenizer"):
        ctx.pack(["text"], 100)


def test_a_tokenizer_may_be_enabled_named_or_registered(folder: Path) -> None:
    assert ctx.estimate("gpt-4o", ["hello world"], tokenizer="o200k_base").exact
    assert not ctx.estimate("gpt-4o", ["hello world"], tokenizer="utf8-bytes").exact
    assert not ctx.estimate("gpt-4o", ["hello world"], tokenizer="heuristic").exact
    assert ctx.estimate("gpt-4o", ["a b c"], tokenizer=lambda text: len(text.split())).tokens_in == 3
    tokenizers.enable_baseline("gpt-bpe")
    assert ctx.estimate("gpt-4o", ["hello world"]).tokenizer.name == "o200k_base"
    tokenizers.register("acme", lambda text: len(text), version="2")  # noqa: PLW0108
    try:
        found = ctx.estimate("acme-7b", ["four"])
        assert (found.tokens_in, found.tokenizer.name, found.tokenizer.version) == (4, "acme", "2")
    finally:
        tokenizers.unregister("acme")


def test_a_tokenizer_of_the_settings(folder: Path) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.tokenbox.tokenizers]\nheuristic = true\nacme = "chars4"\n'
        '[tool.tokenbox.models.mine]\nmodel = "acme-9b"\n'
        '[tool.tokenbox.models.own]\ntokenizer = "utf8-bytes"\n'
    )
    assert ctx.estimate("acme-9b", ["x" * 8]).tokenizer.name == "chars4"
    assert ctx.estimate("mine", ["x" * 8]).tokenizer.name == "chars4"
    assert ctx.estimate("own", ["x" * 8]).tokenizer.name == "utf8-bytes"
    assert ctx.estimate("unheard-of", ["x" * 8]).tokenizer.name == "heuristic"


# What holds.


def test_each_figure_has_its_source(project: Path) -> None:
    verdict = ctx.enforce("tiny", ["a" * 75])
    assert verdict.ok
    assert verdict.limits.to_dict() == {
        "max_ctx": 100,
        "reserve_out": 20,
        "headroom": "0.05",
        "max_input": None,
        "usable": 95,
        "input_limit": 75,
        "sources": {
            "max_ctx": ".tokenbox/config.toml:6",
            "headroom": ".tokenbox/config.toml:8",
            "reserve_out": ".tokenbox/config.toml:7",
        },
    }
    assert not ctx.enforce("tiny", ["a" * 76]).ok
    known = ctx.enforce("gpt-4o", ["a"], max_tokens_request=7)
    assert known.limits.reserve_out == 7
    assert known.limits.sources["reserve_out"] == "max_tokens of the request"
    assert "ctxlen" in known.limits.sources["max_ctx"]


def test_what_the_call_says_goes_first(project: Path) -> None:
    verdict = ctx.enforce("tiny", ["a" * 75], "text", 30, max_ctx=200, headroom=Decimal("0.1"))
    limits = verdict.limits
    assert (limits.max_ctx, limits.reserve_out, limits.input_limit) == (200, 30, 150)
    assert limits.sources["max_ctx"] == limits.sources["headroom"] == "the call"
    config = load(flags={"policy.max_ctx": "90", "policy.headroom": "0"})
    by_flag = ctx.enforce("tiny", ["a"], config=config).limits
    assert (by_flag.max_ctx, by_flag.sources["max_ctx"]) == (90, "the flag --max-ctx")


def test_a_general_policy_is_a_cap_and_the_models_own_is_not(folder: Path) -> None:
    (folder / ".tokenbox").mkdir()
    (folder / ".tokenbox" / "config.toml").write_text(
        "[policy]\nmax_ctx = 50_000\n[models.gpt-5]\nmax_ctx = 600_000\n[tokenizers]\nheuristic = true\n"
    )
    assert ctx.enforce("gpt-4o", ["a"]).limits.max_ctx == 50_000
    assert ctx.enforce("gpt-4", ["a"]).limits.max_ctx == 8_192, "no policy makes a model hold more"
    assert ctx.enforce("gpt-5", ["a"]).limits.max_ctx == 600_000, "what the user says of this model holds"
    assert ctx.enforce("unheard-of", ["a"]).limits.max_ctx == 50_000


def test_json_that_is_cut_off_is_worthless_so_it_gets_more(project: Path) -> None:
    def reserved(mode: str, **settings: Any) -> int:
        return ctx.enforce(
            "unknown-longest", ["a"], mode, tokenizer="utf8-bytes", max_ctx=1_000, **settings
        ).limits.reserve_out

    assert reserved("text") == reserved("stream") == 250
    assert reserved("json") == 500
    assert reserved("json", headroom="0.1") == 450
    assert reserved("json", max_tokens_request=10) == 10
    assert ctx.enforce("gpt-4o", ["a"]).limits.reserve_out == 16_384, (
        "the model's longest answer, if it is less"
    )


def test_a_longer_answer_than_the_model_gives_is_noted_and_does_not_decide(project: Path) -> None:
    verdict = ctx.enforce("gpt-4o", ["a"], max_tokens_request=20_000)
    assert verdict.ok
    (note,) = verdict.why.notes
    assert "20,000" in note
    assert "16,384" in note


def test_the_models_limit_of_input_counts(project: Path) -> None:
    text = ["hello " * 272_100]
    verdict = ctx.enforce("gpt-5", text, max_tokens_request=100)
    assert verdict.why.binding == "max_input_tokens"
    assert not verdict.ok
    assert not [one for one in verdict.plan if isinstance(one, LowerMaxTokens)]
    (larger,) = [one for one in verdict.plan if isinstance(one, LargerWindow)]
    assert larger.models
    for name in larger.models:
        assert ctx.enforce(name, text, max_tokens_request=100).ok


def test_a_larger_model_of_the_settings_is_named(project: Path) -> None:
    (larger,) = [one for one in ctx.enforce("tiny", ["a" * 76]).plan if isinstance(one, LargerWindow)]
    assert larger.max_ctx == 102  # ceil(96 / 0.95)
    assert ctx.enforce("small", ["a" * 76]).ok


@pytest.mark.parametrize("bad", [-1, 1.5, "100", True, 2**60])
def test_a_request_for_no_number_of_tokens_is_refused(project: Path, bad: Any) -> None:
    with pytest.raises(InvalidPolicy, match="max_tokens_request"):
        ctx.enforce("tiny", ["a"], max_tokens_request=bad)
    with pytest.raises(InvalidPolicy, match="max_ctx"):
        ctx.enforce("tiny", ["a"], max_ctx=bad)


def test_capabilities_have_a_source_for_every_figure(project: Path) -> None:
    found = ctx.capabilities()
    assert [one.id for one in found[:2]] == ["tiny", "small"]
    assert all(one.configured for one in found[:2])
    tiny = found[0]
    assert (tiny.context_window, tiny.max_output_tokens, tiny.tokenizer_name) == (100, None, "utf8-bytes")
    gpt = next(one for one in found if one.id == "gpt-4o")
    assert (gpt.context_window, gpt.tokenizer_name) == (128_000, "o200k_base")
    for one in found:
        for field in ("context_window", "max_input_tokens", "max_output_tokens", "tokenizer_name"):
            assert getattr(one, field) is None or one.sources[field]
    assert ctx.capabilities("gpt-4o")[0].id == "gpt-4o"
    assert ctx.capabilities("there is no such model") == []


# Plans.


def test_a_plan_is_a_plan(project: Path) -> None:
    plan = ctx.pack(["a" * 60, "b" * 60], 100, 10, "0.05", model="tiny")
    assert plan.budget == 85
    assert plan.total <= plan.budget
    assert (plan.strategy, plan.tokenizer.name) == ("box", "utf8-bytes")
    assert [one.id for one in plan.packed] == ["chunk[0]", "chunk[1]"]
    assert plan.dropped == ()
    record = json.loads(json.dumps(plan.to_dict()))
    assert record["limits"]["headroom"] == "0.05"
    window = ctx.pack(["a" * 60, "b" * 60], 100, 10, "0.05", "window", tokenizer="utf8-bytes")
    assert [one.id for one in window.dropped] == ["chunk[0]"]
    assert window.text == "b" * 60


def test_window_leaves_out_the_fewest_of_the_oldest() -> None:
    chunks: list[Any] = [Section("rules", "r" * 10), *("t" * 10 for _ in range(10))]
    for budget in range(10, 140):
        plan = ctx.pack(chunks, budget, 0, 0, "window", tokenizer="utf8-bytes")
        gone = [one.index for one in plan.dropped]
        assert gone == list(range(1, 1 + len(gone)))
        assert plan.total <= budget
        assert not gone or plan.total + 12 > budget
    with pytest.raises(ContextCriticalOverflow):
        ctx.pack(chunks, 9, 0, 0, "window", tokenizer="utf8-bytes")


def test_blocks_take_the_ladder(project: Path) -> None:
    blocks = [
        CodeBlock(Lang.PYTHON, "a.py", b"print('a')\n" * 30),
        document("notes", "words " * 60),
        document("old", "more words " * 60),
        AnnotationBlock.of_priority(0, Priority.CRITICAL),
        AnnotationBlock.of_priority(2, Priority.BACKGROUND),
    ]
    plan = ctx.pack(blocks, 560, 0, 0, tokenizer="utf8-bytes")
    assert plan.strategy == "ladder"
    assert plan.total <= 560
    assert {one.id: one.decision.value for one in (*plan.packed, *plan.dropped)} == {
        "block[0]": "full",
        "block[1]": "placeholder",
        "block[2]": "omitted",
    }
    (op,) = plan.summary_ops
    assert op.chunks == op.brings_back == ("block[1]",)
    summarized = [
        blocks[0],
        DocumentBlock("notes", b"words " * 60, FormatHint.MARKDOWN, summary="s" * op.at_most),
        *blocks[2:],
    ]
    again = ctx.pack(summarized, 560, 0, 0, tokenizer="utf8-bytes")
    assert {one.id: one.decision.value for one in again.packed}["block[1]"] == "summary"
    verdict = ctx.enforce("tiny", blocks, max_ctx=600, max_tokens_request=40)
    (cut,) = [one for one in verdict.plan if isinstance(one, CutChunks)]
    assert cut.plan.total <= 560


def test_a_strategy_must_fit_the_chunks(project: Path) -> None:
    for strategy, chunks in (
        ("ladder", ["a"]),
        ("box", [document("a", "b")]),
        ("window", [document("a", "b")]),
    ):
        with pytest.raises(UnknownStrategy, match="use "):
            ctx.pack(chunks, 100, strategy=strategy, model="tiny")
    for bad in ("boxes", "", 5, ["box"]):
        with pytest.raises(UnknownStrategy):
            ctx.pack(["a"], 100, strategy=bad, model="tiny")  # type: ignore[arg-type]
    with pytest.raises(StrategyFailed, match="cannot be imported: ModuleNotFoundError"):
        ctx.pack(["a"], 100, strategy="nowhere:function", model="tiny")
    with pytest.raises(UnknownStrategy, match="is not a function"):
        ctx.pack(["a"], 100, strategy="os:sep", model="tiny")


def test_a_reserve_that_leaves_nothing_is_refused(project: Path) -> None:
    with pytest.raises(InvalidPolicy, match="nothing is left for the input"):
        ctx.pack(["a"], 100, 101, model="tiny")
    with pytest.raises(ContextCriticalOverflow):
        ctx.pack([Section("rules", "a" * 50)], 60, 20, model="tiny")


# Determinism.

ASK = textwrap.dedent("""
    import json, sys
    from tokenbox import ctx, Section, tokenizers
    tokenizers.enable_baseline("gpt-bpe")
    words = "the quick brown fox jumps over the lazy dog".split()
    texts = [" ".join(words[i % 5:] * (i % 7 + 1)) for i in range(30)]
    chunks = [Section(f"s{i}", text, i * 37 % 11, shrink=i % 3) for i, text in enumerate(texts)]
    verdict = ctx.enforce("gpt-4o", chunks, "json", 100, max_ctx=700, headroom="0.07")
    plan = ctx.pack(chunks, 700, 100, "0.07", model="gpt-4o")
    print(json.dumps([verdict.to_dict(), plan.to_dict(), [m.to_dict() for m in ctx.capabilities("gpt")]]))
""")


@pytest.mark.slow
def test_the_same_question_has_the_same_answer_in_every_process(folder: Path) -> None:
    answers = set()
    for seed in ("0", "1", "4242"):
        run = subprocess.run(
            [sys.executable, "-c", ASK],
            cwd=folder,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr.decode()
        answers.add(run.stdout)
    assert len(answers) == 1
    assert json.loads(answers.pop())[0]["ok"] is False


def test_settings_are_read_again_when_they_change(project: Path) -> None:
    file = project / ".tokenbox" / "config.toml"
    assert ctx.enforce("tiny", ["a" * 75]).ok
    file.write_text(SETTINGS.replace("max_ctx = 100", "max_ctx = 99"))
    stat = file.stat()
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000))
    assert not ctx.enforce("tiny", ["a" * 75]).ok


def test_an_override_lets_one_call_pass(project: Path) -> None:
    verdict = ctx.enforce("tiny", ["a" * 76], override=override.allow_over_context("just this once"))
    assert verdict.ok
    assert verdict.why.overridden
    assert not ctx.enforce("tiny", ["a" * 76]).ok
