"""Proof of decisions: their inputs, steps and results, as evidence and as a bundle that anyone can verify."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def __getattr__(name: str) -> object:
    """Import ``evidence`` on first use, so that a layout without proof does not load it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tokenbox.proof import evidence

    return getattr(evidence, name)
