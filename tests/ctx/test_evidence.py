# ruff: noqa: ARG001  # a fixture is a folder to be in
"""Plans and enforcements give their evidence, of a refusal too, and no text gets into it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.ctx.asking import document
from tokenbox import ContextCriticalOverflow, Section, ctx, override
from tokenbox.proof import Evidence, EvidenceKind, EvidenceStatus

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "the quick brown fox"


def record(evidence: Evidence) -> str:
    """All of the evidence that gets into a bundle without texts."""
    return json.dumps(
        [
            [one.to_dict() for one in evidence.inputs],
            list(evidence.decisions),
            evidence.budget.to_dict(),
            evidence.outcome.to_dict(),
            dict(evidence.figures),
            dict(evidence.arguments),
            evidence.override,
        ]
    )


@pytest.mark.parametrize(
    "chunks",
    [
        [SECRET * 3, SECRET * 2],
        [document("a", SECRET * 9), document("b", SECRET)],
        [{"role": "user", "content": SECRET * 4}, {"role": "user", "content": SECRET}],
    ],
)
def test_a_plan_and_an_enforcement_leave_evidence(project: Path, chunks: list[Any]) -> None:
    found: list[Evidence] = []
    verdict = ctx.enforce("tiny", chunks, max_ctx=250, max_tokens_request=200, proof=found.append)
    plan = ctx.pack(chunks, 250, 30, model="tiny", proof=found.append)
    enforced, planned = found
    assert not verdict.ok
    assert (enforced.kind, enforced.outcome.status, enforced.outcome.code) == (
        EvidenceKind.ENFORCEMENT,
        EvidenceStatus.REFUSED,
        "over_context",
    )
    assert enforced.emitted is None
    assert enforced.budget.to_dict()["headroom"] == {"value": "0.05", "source": ".tokenbox/config.toml:8"}
    assert enforced.budget.to_dict()["output_reserve"] == {
        "value": 200,
        "source": "max_tokens of the request",
    }
    assert len([one for one in enforced.decisions if "remedy" in one]) == len(verdict.plan)
    assert (planned.kind, planned.emitted, planned.digest) == (
        EvidenceKind.PLAN,
        plan.emitted,
        plan.layout.digest,
    )
    assert len(planned.inputs) == len(chunks)
    assert len({one.digest for one in planned.inputs}) == len(chunks)
    for one in found:
        assert SECRET[:9] not in record(one)


def test_an_override_is_in_the_evidence(project: Path) -> None:
    found: list[Evidence] = []
    allowed = override.allow_over_context("we asked the server")
    assert ctx.enforce("tiny", ["a" * 90], override=allowed, proof=found.append).ok
    (evidence,) = found
    assert evidence.override == {"allow_over_context": True, "reason": "we asked the server"}
    assert evidence.outcome.status is EvidenceStatus.OK
    assert evidence.figures["overridden"] is True
    assert evidence.figures["over"] == 15


def test_a_plan_that_cannot_be_made_leaves_evidence(project: Path) -> None:
    found: list[Evidence] = []
    with pytest.raises(ContextCriticalOverflow):
        ctx.pack([Section("rules", "a" * 90)], 80, 0, model="tiny", proof=found.append)
    (evidence,) = found
    assert evidence.outcome.status is EvidenceStatus.REFUSED
    assert evidence.outcome.code == "context_critical_overflow"
    assert evidence.decisions == ({"id": "rules", "decision": "critical", "size": 90},)
