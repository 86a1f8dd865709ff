"""Proof of decisions: their inputs, steps and results, as evidence and as a bundle that anyone can verify."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.exports import on_first_use

if TYPE_CHECKING:
    from tokenbox.proof.evidence import (
        Budget,
        Evidence,
        EvidenceKind,
        EvidenceOutcome,
        EvidenceStatus,
        Input,
        Sink,
        Sourced,
        Summary,
    )

__all__ = [
    "Budget",
    "Evidence",
    "EvidenceKind",
    "EvidenceOutcome",
    "EvidenceStatus",
    "Input",
    "Sink",
    "Sourced",
    "Summary",
]

# A decision imports the modules of evidence only if somebody wants it.
if not TYPE_CHECKING:  # a type checker reads the imports above, and reports any other name
    __getattr__ = on_first_use(
        __name__,
        {
            "evidence": "Budget Evidence EvidenceKind EvidenceOutcome EvidenceStatus Input Sink Sourced "
            "Summary"
        },
    )
