"""What a layout, blocks, a refusal and a failure say of themselves."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest

import tokenbox
from tokenbox.compose.render_blocks import render_blocks
from tokenbox.content.block_kinds import Lang, MediaType, Priority
from tokenbox.content.blocks import AnnotationBlock, CodeBlock, ImageBlock
from tokenbox.content.section import Section
from tokenbox.errors import ContextCriticalOverflow, TokenizerError
from tokenbox.proof import Budget, Kind, Outcome, Sourced, Status
from tokenbox.proof.of_blocks import block_names, of_blocks, of_blocks_error
from tokenbox.proof.of_layout import of_layout, of_layout_error
from tokenbox.tokenizers.registry import get

SECTIONS = [
    Section("rules", "Answer in English."),
    Section("notes", "one two three four five", shrink=1, extra=("more",)),
]
BLOCKS = [
    CodeBlock(lang=Lang.PYTHON, path="a.py", content=b"print(1)\n" * 40),
    ImageBlock(media_type=MediaType.PNG, alt_text="what the image shows", data=b"https://example.invalid/x"),
    CodeBlock(lang=Lang.PYTHON, path="a.py", content=b"print(2)\n" * 40),
    AnnotationBlock.of_priority(2, Priority.CRITICAL),
]


def test_of_a_layout() -> None:
    result = tokenbox.layout(SECTIONS, 28, "utf8-bytes")
    evidence = of_layout(result, source="prompt.toml")
    assert (evidence.kind, evidence.outcome) == (Kind.LAYOUT, Outcome())
    assert evidence.digest == result.digest
    assert evidence.emitted == result.text
    assert evidence.budget.tokens == Sourced(28, "given")
    rules, notes = evidence.inputs
    assert rules.to_dict() | {"fields": {}, "digest": ""} == {
        "id": "rules",
        "kind": "section",
        "digest": "",
        "bytes": 18,
        "tokens": 18,
        "from": "prompt.toml",
        "fields": {},
    }
    assert notes.size == 23 + 4
    assert notes.fields["extra"] == [hashlib.sha256(b"more").hexdigest()]
    assert [record["id"] for record in evidence.decisions] == ["rules", "notes", "notes"]
    assert evidence.decisions[-1] == {
        "id": "notes",
        "action": "truncate",
        "before": 23,
        "after": 8,
        "why": "the whole was 15 over the budget",
    }


def test_of_a_refusal() -> None:
    with pytest.raises(ContextCriticalOverflow) as caught:
        tokenbox.layout(SECTIONS, 3, "utf8-bytes")
    budget = Budget(
        Sourced(3, "window less reserve"), Sourced(10, "config"), Sourced(7, "flag"), Sourced("0", "default")
    )
    identity = get("utf8-bytes").identity
    evidence = of_layout_error(caught.value, SECTIONS, budget, identity, "\n\n", reclaim=False)
    assert evidence.outcome.status is Status.REFUSED
    assert evidence.outcome.figures["deficit"] == 15
    assert evidence.outcome.figures["smallest_change"]["minimum_budget"] == 18  # type: ignore[index]
    assert evidence.decisions == ({"id": "rules", "decision": "critical", "size": 18},)
    assert (evidence.emitted, evidence.digest) == (None, None)
    assert [i.tokens for i in evidence.inputs] == [18, None]


def test_a_failure_does_not_quote() -> None:
    error = TokenizerError("the counter failed on: MARKER", text="MARKER", length=6)
    evidence = of_layout_error(error, SECTIONS, 3, get("utf8-bytes").identity, "", reclaim=False)
    assert evidence.outcome == Outcome(Status.FAILED, "tokenizer_error", {"length": 6})


def test_of_blocks() -> None:
    result = render_blocks(BLOCKS, "chars4", 150, summarize=lambda index, _room: f"summary of {index}")
    evidence = of_blocks(result)
    assert [i.id for i in evidence.inputs] == ["code a.py #1", "image", "code a.py #2"]
    assert [i.fields["index"] for i in evidence.inputs] == [0, 1, 2]
    assert evidence.inputs[0].size == 360
    assert [(s.of, s.text) for s in evidence.summaries] == [(("code a.py #1",), "summary of 0")]
    assert evidence.summaries[0].to_dict()["digest"] == hashlib.sha256(b"summary of 0").hexdigest()
    assert [d["decision"] for d in evidence.decisions[:3]] == ["summary", "full", "full"]
    assert evidence.digest == result.digest


def test_of_blocks_that_do_not_fit() -> None:
    with pytest.raises(ContextCriticalOverflow) as caught:
        render_blocks(BLOCKS, "chars4", 20)
    budget = Budget(Sourced(20, "--budget"))
    evidence = of_blocks_error(caught.value, BLOCKS, budget, get("chars4").identity, {"mode": "xml"})
    assert [(d["id"], d["size"]) for d in evidence.decisions] == [
        ("code a.py #2", caught.value.critical[0][1])
    ]
    assert evidence.outcome.code == "context_critical_overflow"


def test_no_name_has_a_text_in_it() -> None:
    assert not any("shows" in name for name in block_names(BLOCKS[:3]))
    result = render_blocks(BLOCKS, "chars4", 150)
    assert "print(" not in repr(of_blocks(result))
    assert "three" not in repr(of_layout(tokenbox.layout(SECTIONS, 28, "utf8-bytes")))


def test_evidence_is_frozen() -> None:
    evidence = of_layout(tokenbox.layout(SECTIONS, 28, "utf8-bytes"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        evidence.model = "other"  # type: ignore[misc]
