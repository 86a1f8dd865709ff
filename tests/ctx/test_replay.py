# ruff: noqa: ANN401, ARG001  # a forgery is anything; a fixture is a folder to be in
"""Plans and enforcements are decided again from their proof; what cannot be is said; forgeries raise ours."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from tests.proof.test_replay import ODD, contents_of
from tokenbox import Section, ctx, override, tokenizers
from tokenbox.content.block_kinds import Lang, Priority
from tokenbox.content.blocks import AnnotationBlock, CodeBlock
from tokenbox.errors import TokenboxError
from tokenbox.proof.calls import Texts
from tokenbox.proof.contents import Contents
from tokenbox.proof.errors import ReplayImpossible
from tokenbox.proof.replay import replay
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tokenbox.proof import Evidence

TEXTS = ["You are brief. " * 3, "The quick brown fox. " * 20, "It jumps. " * 9]
SECTIONS = [
    Section("rules", TEXTS[0]),
    Section("notes", TEXTS[1], priority=100, shrink="0.5", min=9, strategy="squeeze |> head(4)"),
    Section("more", TEXTS[2], shrink=2, keep="tail"),
]
BLOCKS = [
    AnnotationBlock.of_priority(1, Priority.CRITICAL),
    CodeBlock(lang=Lang.PYTHON, path="a.py", content=b"x = 1\n" * 3),
    CodeBlock(lang=Lang.PYTHON, path="b.py", content=b"y = 1\n" * 30, summary="sets y"),
    AnnotationBlock.of_priority(4, Priority.BACKGROUND),
    CodeBlock(lang=Lang.RUST, path="c.rs", content=b"z = 1\n" * 30),
]
MESSAGES = [
    {"role": "system", "content": "Answer in English."},
    {"role": "user", "content": "What is the weather?", "name": "anna"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
    },
    {"tool_call_id": "1", "role": "tool", "content": "sunny " * 30},
    {"role": "user", "content": [{"type": "text", "text": "and é?"}, {"tokens": 9, "type": "image_url"}]},
]
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
REQUESTS: dict[str, dict[str, Any]] = {
    "strings": {"chunks": TEXTS},
    "sections": {"chunks": SECTIONS, "separator": "\n--\n"},
    "window of sections": {"chunks": TEXTS, "strategy": "window"},
    "blocks": {"chunks": BLOCKS},
    "messages": {"chunks": MESSAGES},
    "tools": {"chunks": MESSAGES, "tools": TOOLS},
    "roles": {"chunks": [replace(section, role="user") for section in SECTIONS]},
    "worth of sections": {"chunks": SECTIONS, "strategy": "worth"},
    "worth of blocks": {"chunks": BLOCKS, "strategy": "worth"},
    "worth of messages": {"chunks": MESSAGES, "strategy": "worth", "tools": TOOLS},
    "nothing": {"chunks": []},
}
COUNTERS = ["utf8-bytes", "o200k_base", None]


def asked(function: Any, **request: Any) -> Evidence:
    """The evidence of one question, whatever comes of it."""
    found: list[Evidence] = []
    with suppress(TokenboxError):
        function(proof=found.append, **request)
    (evidence,) = found
    return evidence


@pytest.fixture(autouse=True)
def enabled(project: Path) -> None:
    tokenizers.enable_baseline("gpt-bpe")  # the folder's fixture disables it again


@pytest.mark.parametrize("tokenizer", COUNTERS)
@pytest.mark.parametrize("name", REQUESTS)
def test_a_plan_is_made_again(name: str, tokenizer: str | None) -> None:
    for max_ctx in (0, 40, 90, 200, 2_000):
        for headroom in ("0.05", Fraction(1, 3)):
            evidence = asked(
                ctx.pack,
                **REQUESTS[name],
                max_ctx=max_ctx,
                reserve_out=7,
                headroom=headroom,
                model="gpt-4o",
                tokenizer=tokenizer,
            )
            assert replay(*contents_of(evidence)).differences == ()


@pytest.mark.parametrize(
    "allowed", [None, pytest.param(override.allow_over_context("we asked"), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("tokenizer", COUNTERS)
@pytest.mark.parametrize("name", REQUESTS)
def test_a_verdict_is_given_again(name: str, tokenizer: str | None, allowed: Any) -> None:
    outcomes = set()
    for model, max_ctx in (
        ("gpt-4o", 20),
        ("gpt-4o", 90),
        ("gpt-4o", 4_000),
        ("gpt-4o", None),
        ("gpt-5", 90),
    ):
        evidence = asked(
            ctx.enforce,
            **REQUESTS[name],
            model=model,
            max_ctx=max_ctx,
            max_tokens_request=11 if max_ctx else 200_000,
            headroom="0.05",
            tokenizer=tokenizer,
            override=allowed,
        )
        outcomes.add(evidence.outcome.status.value)
        assert replay(*contents_of(evidence)).differences == ()
    assert outcomes == ({"ok"} if allowed else {"ok", "refused"}) or name == "nothing"


@pytest.mark.slow
def test_the_models_own_limit_of_input_and_an_estimate() -> None:
    """The input binds before the window; and a tokenizer of others is an estimate for this model."""
    evidence = asked(ctx.enforce, model="gpt-5", chunks=["a b c " * 140_000], max_tokens_request=9)
    assert evidence.figures["binding"] == "max_input_tokens"
    assert replay(*contents_of(evidence)).differences == ()
    evidence = asked(
        ctx.pack, chunks=TEXTS, max_ctx=90, reserve_out=0, model="claude-sonnet-4-5", tokenizer="o200k_base"
    )
    assert evidence.tokenizer.exact is False
    assert replay(*contents_of(evidence)).differences == ()
    contents, texts = contents_of(evidence)
    assert replay(contents, texts, get("o200k_base")).differences == ()
    assert replay(contents, texts, get("utf8-bytes")).differences != ()


def own(chunks: Sequence[ctx.Candidate], budget: int, _count: Any) -> list[int]:
    return [chunk.index for chunk in chunks if chunk.tokens <= budget // 4]


def test_code_of_somebodys_own_is_not_run() -> None:
    plan = asked(ctx.pack, chunks=TEXTS, max_ctx=400, reserve_out=0, tokenizer=len)
    with pytest.raises(ReplayImpossible, match="len"):
        replay(*contents_of(plan))
    plan = asked(ctx.pack, chunks=TEXTS, max_ctx=400, reserve_out=0, strategy=own, tokenizer="utf8-bytes")
    with pytest.raises(ReplayImpossible, match="test_replay:own"):
        replay(*contents_of(plan))
    denied = asked(ctx.enforce, model="m", chunks=TEXTS, max_ctx=99, strategy=own, tokenizer="utf8-bytes")
    with pytest.raises(ReplayImpossible, match="not run"):
        replay(*contents_of(denied))
    passed = asked(ctx.enforce, model="m", chunks=TEXTS, max_ctx=9_999, strategy=own, tokenizer="utf8-bytes")
    assert replay(*contents_of(passed)).same


@pytest.mark.parametrize("name", ["sections", "blocks", "tools"])
def test_a_missing_text_is_named(name: str) -> None:
    contents, texts = contents_of(asked(ctx.pack, **REQUESTS[name], max_ctx=900, tokenizer="utf8-bytes"))
    with pytest.raises(ReplayImpossible, match="missing"):
        replay(contents, Texts())
    assert replay(contents, texts).same


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["sections", "roles", "blocks", "tools"])
@pytest.mark.parametrize("function", [ctx.pack, ctx.enforce])
@pytest.mark.slow
def test_a_forged_bundle(function: Any, name: str, odd: object) -> None:
    evidence = asked(function, **REQUESTS[name], model="m", max_ctx=90, tokenizer="utf8-bytes")
    contents, texts = contents_of(evidence)
    texts.add(b"[")
    original = json.dumps([contents.manifest.record, list(contents.inputs), list(contents.decisions)])

    def forged(change: Any) -> None:
        record, inputs, decisions = json.loads(original)
        change(record["predicate"], inputs, decisions)
        manifest = type(contents.manifest)("0" * 64, record)
        with suppress(TokenboxError):
            replay(Contents(manifest, inputs, decisions, ()), texts)

    for field in evidence.arguments:
        forged(lambda p, _i, _d, field=field: p["arguments"].__setitem__(field, odd))
    for field in evidence.inputs[0].fields:
        forged(lambda _p, i, _d, field=field: i[0]["fields"].__setitem__(field, odd))
    for field in evidence.figures:
        forged(lambda p, _i, _d, field=field: p["figures"].__setitem__(field, odd))
    whole = {"fields": {}, "head": 0}
    forged(lambda p, _i, _d: p["arguments"].update(whole, api=odd))
    forged(lambda p, _i, _d: p.__setitem__("arguments", {}))
    forged(lambda p, _i, _d: p.__setitem__("override", {"reason": odd}))
    forged(lambda _p, i, _d: i.append(dict(i[0])))
    forged(lambda _p, i, _d: i[-1].__setitem__("kind", "tools"))
    forged(lambda _p, i, _d: i[0].__setitem__("kind", "message"))
    forged(lambda _p, _i, d: d.append({"remedy": odd, "notes": odd}))
    forged(lambda _p, _i, d: d.insert(0, {"remedy": {"change": "larger_window", "models": odd}}))
    if odd is None or type(odd) in (int, str):
        for part in ("tokens", "context_window", "output_reserve", "headroom", "max_input"):
            forged(lambda p, _i, _d, part=part: p["budget"][part].__setitem__("value", odd))


@pytest.mark.parametrize(
    ("asked_for", "window", "argument", "forged"),
    [
        (20, 300, "max_tokens_request", 21),
        (20, 300, "max_tokens_request", None),
        (20, 300, "max_tokens_request", "20"),
        (None, 128_000, "max_tokens_request", 20),
        (None, 128_000, "max_output", 16_383),  # the reserve is the model's longest answer
        (None, 128_000, "max_output", None),
        (None, 300, "max_output", 74),  # the reserve is a quarter of the window
        (None, 300, "output_mode", "json"),
    ],
)
def test_the_recorded_reserve_follows_from_the_recorded_arguments(
    asked_for: int | None, window: int, argument: str, forged: object
) -> None:
    """For a request that passes, nothing else depends on them."""
    evidence = asked(
        ctx.enforce,
        chunks=["one two"],
        model="gpt-4o",
        max_ctx=window,
        max_tokens_request=asked_for,
        tokenizer="utf8-bytes",
    )
    contents, texts = contents_of(evidence)
    assert replay(contents, texts).same
    record = json.loads(json.dumps(contents.manifest.record))
    record["predicate"]["arguments"][argument] = forged
    manifest = type(contents.manifest)("0" * 64, record)
    changed = Contents(manifest, contents.inputs, contents.decisions, ())
    if forged in (None, "20") and argument == "max_tokens_request":  # no reserve follows from it
        with pytest.raises(TokenboxError, match=argument):
            replay(changed, texts)
    else:
        found = replay(changed, texts)
        assert "budget.output_reserve.value" in [one.field for one in found.differences]


def test_a_failure_leaves_evidence_and_replays() -> None:
    def broken(_chunks: object, _budget: int, _count: object) -> list[int]:
        raise ZeroDivisionError("QUAGGA")

    evidence = asked(ctx.pack, model="m", chunks=TEXTS, max_ctx=99, strategy=broken, tokenizer="utf8-bytes")
    assert (evidence.outcome.status, evidence.outcome.code) == ("failed", "strategy_failed")
    assert "QUAGGA" not in repr(evidence.outcome)


def test_a_bug_in_a_strategy_does_not_take_the_refusal_away() -> None:
    def broken(_chunks: object, _budget: int, _count: object) -> list[int]:
        raise ZeroDivisionError("QUAGGA")

    for strategy in (broken, "ladder"):  # which is not for texts
        evidence = asked(
            ctx.enforce, model="m", chunks=TEXTS, max_ctx=99, strategy=strategy, tokenizer="utf8-bytes"
        )
        assert (evidence.outcome.status, evidence.outcome.code) == ("refused", "over_context")
        assert "fails here" in repr(evidence.decisions)
        assert "QUAGGA" not in repr(evidence.decisions)


def test_the_error_comes_before_that_there_is_no_proof_of_it() -> None:
    def full(_: object) -> None:
        raise OSError("disk full")

    with pytest.raises(TokenboxError) as caught:
        ctx.pack([Section("a", "x" * 99)], 9, 0, model="m", tokenizer=len, proof=full)
    assert caught.value.__notes__ == ["There is no proof of this: disk full"]
