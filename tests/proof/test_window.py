"""Messages that were fitted leave proof, and the proof replays from its texts."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenbox
from tests.effort import examples
from tests.proof.examples import evidence_of
from tests.proof.test_replay import contents_of
from tokenbox.content.message import UndeclaredCost
from tokenbox.errors import ContextCriticalOverflow, InvalidBudget, TokenboxError
from tokenbox.proof import EvidenceKind, EvidenceStatus, Sourced
from tokenbox.proof.bundle import build
from tokenbox.proof.calls import Texts
from tokenbox.proof.errors import BundleInvalid, ReplayImpossible
from tokenbox.proof.of_messages import FIT
from tokenbox.proof.replay import replay
from tokenbox.tokenizers.registry import as_tokenizer

if TYPE_CHECKING:
    from tokenbox.proof import Evidence

FUNCTION = {"name": "tide", "arguments": '{"port": "Brest"}'}
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "You know the QUAGGA sea."},
    {"role": "user", "content": "Tell me of tides. " * 9},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "type": "function", "function": FUNCTION}],
    },
    {"role": "tool", "tool_call_id": "a", "content": "17:04 é"},
    {"role": "assistant", "content": "At 17:04."},
    {"role": "user", "content": [{"type": "text", "text": "And this?"}, {"type": "image_url", "tokens": 85}]},
]
TOOLS = [{"type": "function", "function": {"name": "tide", "parameters": {"maximum": 1.5}}}]


def test_of_a_window() -> None:
    found: list[Evidence] = []
    fitted = tokenbox.fit(
        MESSAGES,
        600,
        "o200k_base",
        tools=TOOLS,
        media_tokens="declared",
        proof=found.append,
        source="chat.json",
    )
    (evidence,) = found
    assert (evidence.kind, evidence.outcome.status, evidence.digest) == (
        EvidenceKind.WINDOW,
        EvidenceStatus.OK,
        fitted.digest,
    )
    assert evidence.budget.tokens == Sourced(600, "given")
    assert evidence.figures == {"total": fitted.total, "exact": False}
    assert [item.id for item in evidence.inputs][::5] == ["messages[0] (system)", "messages[5] (user)"]
    assert [record["decision"] for record in evidence.decisions[:3]] == ["evicted", "kept", "kept"]
    assert [record["messages"] for record in evidence.decisions[-2:]] == [[2, 3], [1, 4]]
    assert json.loads(str(evidence.emitted)) == [MESSAGES[0], MESSAGES[5]]
    assert "QUAGGA" not in repr(evidence)
    assert not any(b"QUAGGA" in data for data in build(evidence).files.values())
    assert replay(*contents_of(evidence)).same


def test_of_a_refusal_and_of_a_failure() -> None:
    found: list[Evidence] = []
    with pytest.raises(ContextCriticalOverflow):
        tokenbox.fit(MESSAGES, 90, "o200k_base", proof=found.append)
    image = {"role": "user", "content": [{"type": "image_url"}]}
    with pytest.raises(UndeclaredCost):
        tokenbox.fit([image], 90, "o200k_base", media_tokens="declared", proof=found.append)
    refused, failed = found
    assert (refused.outcome.status, refused.outcome.code) == (
        EvidenceStatus.REFUSED,
        "context_critical_overflow",
    )
    assert [record["id"] for record in refused.decisions] == [
        "messages[0] (system)",
        "messages[5] (user)",
        "tools and markers",
    ]
    assert (failed.outcome.status, failed.outcome.code) == (EvidenceStatus.FAILED, "undeclared_cost")
    for evidence in found:
        assert evidence.emitted is None
        assert replay(*contents_of(evidence)).same
    with pytest.raises(InvalidBudget):
        tokenbox.fit(MESSAGES, -1, proof=found.append)
    assert len(found) == 2  # what could not be asked is not decided


def test_what_a_replay_needs() -> None:
    image = {"role": "user", "content": [{"type": "image_url"}]}
    contents, texts = contents_of(evidence_of(FIT, [image], 90, media_tokens=lambda _: 5))
    with pytest.raises(ReplayImpossible, match="media_tokens"):
        replay(contents, texts)
    chat = tokenbox.ChatFormat.openai("gpt-4o")
    contents, texts = contents_of(evidence_of(FIT, MESSAGES[:2], 90, chat))
    assert replay(contents, texts).same  # a published format is known by its identity
    assert replay(contents, texts, chat).same
    with pytest.raises(ReplayImpossible, match="messages are missing"):
        replay(contents, Texts(), chat)


@pytest.mark.parametrize(
    ("budget", "options"), [(None, {}), (0, {}), (9, {"low_water": "0.5", "max_turns": 1, "pinned": [-1, 0]})]
)
def test_options_replay(budget: int | None, options: dict[str, Any]) -> None:
    found: list[Evidence] = []
    messages = [{"role": "user", "content": "abc"}, {"role": "assistant", "content": "d"}] * 4
    try:
        tokenbox.fit(messages, budget, len, proof=found.append, **options)
    except ContextCriticalOverflow:
        assert budget in (0, 9)
    assert replay(*contents_of(found[0]), counter=as_tokenizer(len)).same


MESSAGE = st.sampled_from(MESSAGES)


@given(st.lists(MESSAGE, max_size=12), st.integers(0, 300), st.integers(0, 10), st.none() | st.integers(1, 4))
@settings(max_examples=examples(60))
def test_any_window_replays(messages: list[Any], budget: int, low_water: int, turns: int | None) -> None:
    found: list[Evidence] = []
    with suppress(ContextCriticalOverflow):
        tokenbox.fit(
            messages,
            budget,
            "utf8-bytes",
            max_turns=turns,
            low_water=f"0.{low_water:02}",
            tools=TOOLS,
            proof=found.append,
        )
    assert replay(*contents_of(found[0])).differences == ()


@pytest.mark.parametrize(
    "options",
    [
        {"low_water": -1},
        {"low_water": 10**9},
        {"pinned": 3},
        {"max_turns": "x"},
        {"max_turns": 0},
        {"pinned": [99]},
    ],
)
def test_a_forged_bundle_raises_typed_errors(options: dict[str, Any]) -> None:
    evidence = evidence_of(FIT, MESSAGES, 150, "o200k_base")
    contents, texts = contents_of(replace(evidence, arguments={**evidence.arguments, **options}))
    try:
        same = replay(contents, texts).same
    except (BundleInvalid, TokenboxError):
        same = False
    assert not same
