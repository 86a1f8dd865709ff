"""What a layout, blocks, a refusal and a failure say of themselves."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import pytest

import tokenbox
from tests.proof.examples import evidence_of
from tokenbox.compose.blocks import render_blocks
from tokenbox.content.block_kinds import Lang, MediaType, Priority
from tokenbox.content.blocks import AnnotationBlock, CodeBlock, ImageBlock
from tokenbox.content.section import Section
from tokenbox.errors import ContextCriticalOverflow, TokenizerError
from tokenbox.proof import EvidenceKind, EvidenceOutcome, EvidenceStatus, Sourced
from tokenbox.proof.calls import evidence_of as call_evidence
from tokenbox.proof.of_blocks import RENDER_BLOCKS, block_names
from tokenbox.proof.of_sections import LAYOUT
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
    evidence = evidence_of(LAYOUT, SECTIONS, 28, "utf8-bytes", source="prompt.toml")
    assert (evidence.function, evidence.arguments) == ("layout", {"separator": "\n\n", "reclaim": False})
    assert (evidence.kind, evidence.outcome) == (EvidenceKind.LAYOUT, EvidenceOutcome())
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
        "why": "the total was 15 over the budget",
    }


def test_of_a_refusal() -> None:
    evidence = evidence_of(LAYOUT, SECTIONS, 3, "utf8-bytes", "\n\n", reclaim=False)
    assert evidence.arguments == {"separator": "\n\n", "reclaim": False}
    assert evidence.outcome.status is EvidenceStatus.REFUSED
    assert evidence.outcome.figures["deficit"] == 15
    assert evidence.outcome.figures["smallest_change"]["minimum_budget"] == 18
    assert evidence.decisions == ({"id": "rules", "decision": "critical", "size": 18},)
    assert (evidence.emitted, evidence.digest) == (None, None)
    assert [i.tokens for i in evidence.inputs] == [None, None]


def test_a_failure_does_not_quote() -> None:
    error = TokenizerError("the counter failed on: MARKER", text="MARKER", length=6)
    arguments = {"sections": SECTIONS, "budget": 3, "tokenizer": get("utf8-bytes")}
    evidence = call_evidence(LAYOUT, arguments, error)
    assert evidence.outcome == EvidenceOutcome(EvidenceStatus.FAILED, "tokenizer_error", {"length": 6})


def test_of_blocks() -> None:
    options: dict[str, Any] = {"summarize": lambda index, _room: f"summary of {index}"}
    result = render_blocks(BLOCKS, "chars4", 150, **options)
    evidence = evidence_of(RENDER_BLOCKS, BLOCKS, "chars4", 150, **options)
    assert list(evidence.arguments["summarize"]) == ["code"]
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
    evidence = evidence_of(RENDER_BLOCKS, BLOCKS, "chars4", 20)
    assert [(d["id"], d["size"]) for d in evidence.decisions] == [
        ("code a.py #2", caught.value.critical[0][1])
    ]
    assert evidence.outcome.code == "context_critical_overflow"


def test_no_name_has_a_text_in_it() -> None:
    assert not any("shows" in name for name in block_names(BLOCKS[:3]))
    assert "print(" not in repr(evidence_of(RENDER_BLOCKS, BLOCKS, "chars4", 150))
    assert "three" not in repr(evidence_of(LAYOUT, SECTIONS, 28, "utf8-bytes"))


def test_evidence_is_frozen() -> None:
    evidence = evidence_of(LAYOUT, SECTIONS, 28, "utf8-bytes")
    with pytest.raises(dataclasses.FrozenInstanceError):
        evidence.model = "other"  # type: ignore[misc]
