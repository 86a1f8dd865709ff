"""Sections with roles are messages: an estimate, a verdict and a plan count the request that is sent."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenbox
from tests.effort import examples
from tests.policy.test_messages import Format
from tests.policy.test_remedies import words
from tests.proof.test_replay import contents_of
from tokenbox import ChatFormat, ContextCriticalOverflow, Section, ctx, tokenizers
from tokenbox.compose.requests import By
from tokenbox.conversation.markers import MarkersFormat
from tokenbox.engine.result import Decision
from tokenbox.policy import GuardLimits, pack, read_chunks
from tokenbox.policy.errors import InvalidChunks, PolicyError
from tokenbox.policy.records import LowerMaxTokens
from tokenbox.proof.calls import proven
from tokenbox.proof.of_policy import ESTIMATE
from tokenbox.proof.replay import replay
from tokenbox.tokenizers.ownership import FAMILIES
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenbox.policy.strategies import Candidate
    from tokenbox.proof import Evidence

MODELS = [
    ("gpt-4o", None),
    ("gpt-3.5-turbo-0301", None),
    ("gpt-4o", "o200k_base"),
    ("of-nobody", "o200k_base"),
]
SECTIONS = [
    Section("rules", "You are brief.", role="system"),
    Section("old", "Hello world. " * 9, priority=100, shrink=1, role="user"),
    Section("empty", "", shrink=1, role="user"),
    Section("new", "Goodbye world. " * 9, shrink=1, role="user"),
]
roles = st.sampled_from(["system", "user", "assistant"])
fields: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    content=words,
    role=roles,
    priority=st.sampled_from([100, 500]),
    shrink=st.sampled_from([0, 1, 2]),
    min=st.sampled_from([0, 0, 5]),
)
requests = st.lists(fields, min_size=1, max_size=6).map(
    lambda items: [Section(**{"id": f"s{i}", **item}) for i, item in enumerate(items)]
)


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    tokenizers.enable_baseline("gpt-bpe")
    yield
    FAMILIES.disable_all_baselines()


@pytest.mark.parametrize(("model", "tokenizer"), MODELS)
def test_one_number_for_sections_with_roles(model: str, tokenizer: str | None) -> None:
    messages = tokenbox.layout(SECTIONS, 10_000, tokenizer, model=model).messages()
    expected = tokenbox.count(messages, model=model, tokenizer=tokenizer)
    options: dict[str, Any] = {"tokenizer": tokenizer}
    limits: dict[str, Any] = {"max_ctx": 10_000, "headroom": 0, "model": model}
    assert ctx.estimate(model, SECTIONS, **options).count == expected
    assert ctx.estimate(model, messages, **options).count == expected
    assert ctx.enforce(chunks=SECTIONS, **limits, **options).why.verdict.count == expected
    for strategy in ("box", "window", "worth", everything):
        plan = ctx.pack(SECTIONS, **limits, reserve_out=0, strategy=strategy, **options)
        assert (plan.count, plan.total, plan.messages) == (expected, expected.total, messages)
        assert json.loads(plan.text) == messages
    layout = tokenbox.layout(SECTIONS, 10_000, tokenizer, model=model)
    assert layout.count == expected
    assert ctx.estimate(model, SECTIONS, **options).per_chunk == layout.base_sizes


def everything(candidates: Sequence[Candidate], _budget: int, _count: object) -> list[int]:
    return [one.index for one in candidates]


def test_without_a_model_or_a_role_sections_are_one_text() -> None:
    text = "\n\n".join(section.content for section in SECTIONS if section.content)
    some = [Section("more", "And more."), *SECTIONS]
    assert ctx.estimate(None, SECTIONS, tokenizer="o200k_base").tokens_in == get("o200k_base").count(text)
    assert ctx.estimate("gpt-4o", some).count.by is By.TEXT
    plan = ctx.pack(SECTIONS, 500, 0, 0, tokenizer="utf8-bytes")
    assert plan.text == text
    with pytest.raises(PolicyError, match="no messages"):
        _ = plan.messages


def test_a_chat_format_counts_sections_only_if_all_have_roles() -> None:
    found = ctx.estimate("any", SECTIONS, tokenizer=Format())
    expected = 3 + sum(len(section.content) + 4 for section in SECTIONS if section.content)
    assert (found.tokens_in, found.exact) == (expected, True)
    assert ctx.estimate("any", [Section("a", "", role="user")], tokenizer=Format()).tokens_in == 0
    for chunks in (["text"], [Section("more", "x"), *SECTIONS], []):
        with pytest.raises(InvalidChunks, match="every section a role"):
            ctx.estimate("any", chunks, tokenizer=Format())
        with pytest.raises(InvalidChunks, match="every section a role"):
            ctx.pack(chunks, 99, 0, tokenizer=Format())


@settings(max_examples=examples(100))
@given(chunks=requests, window=st.integers(1, 250), counter=st.sampled_from(["openai", "markers", "format"]))
def test_a_plan_of_sections_with_roles_is_a_request_that_fits(
    chunks: list[Section], window: int, counter: str
) -> None:
    counters = {
        "openai": ChatFormat.openai("gpt-4o"),
        "markers": MarkersFormat(get("o200k_base")),
        "format": Format(),
    }
    count, request = counters[counter], read_chunks(chunks)
    for strategy in ("box", "window"):
        with suppress(ContextCriticalOverflow):
            plan = pack(request, GuardLimits.of(window), count, strategy)
            sent = read_chunks(plan.messages) if plan.text != "[]" and plan.text else None
            again = 0 if sent is None else ctx.estimate(None, sent, tokenizer=count).tokens_in
            assert plan.total == again <= window
            for op in plan.summary_ops:
                by = "utf8-bytes" if counter == "format" else "o200k_base"
                summary = tokenizers.truncate(
                    "Summary: " + "it says this and that, " * 60, op.at_most, get(by)
                )
                named = request.ids.index(op.chunks[0])
                changed = [
                    Section.of({**section.to_dict(), "content": summary if i == named else section.content})
                    for i, section in enumerate(chunks)
                ]
                repacked = pack(read_chunks(changed), plan.limits, count)
                kept = {one.id for one in repacked.packed if one.decision is Decision.KEPT}
                assert set(op.brings_back) <= kept


def test_a_remedy_counts_the_messages_too() -> None:
    total = ctx.estimate("gpt-4o", SECTIONS).tokens_in
    verdict = ctx.enforce("gpt-4o", SECTIONS, max_ctx=total + 9, max_tokens_request=10, headroom=0)
    assert not verdict.ok
    assert LowerMaxTokens(9, 10) in verdict.plan
    assert ctx.enforce("gpt-4o", SECTIONS, max_ctx=total + 9, max_tokens_request=9, headroom=0).ok


@pytest.mark.parametrize(("model", "tokenizer"), MODELS)
def test_evidence_of_messages_replays_and_evidence_of_texts_stays_so(
    model: str, tokenizer: str | None
) -> None:
    found: list[Evidence] = []
    options: dict[str, Any] = {"tokenizer": tokenizer, "proof": found.append}
    ctx.estimate(model, SECTIONS, **options)
    ctx.enforce(model, SECTIONS, max_ctx=90, max_tokens_request=9, **options)
    for strategy in ("box", "window"):
        with suppress(ContextCriticalOverflow):
            ctx.pack(SECTIONS, 120, 0, 0, strategy, model, **options)
    proven(ESTIMATE, found.append)(read_chunks(SECTIONS), get("o200k_base"), model)  # as it was before
    assert len(found) == 5
    assert found[0].figures["tokens_in"] != found[-1].figures["tokens_in"]
    for evidence in found:
        assert replay(*contents_of(evidence)).differences == ()
