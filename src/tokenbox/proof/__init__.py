"""Proof: what was decided, from what and why, as a value and as a bundle of bytes that anyone can check."""

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
    """Imported on use, so that a layout without proof costs no more."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tokenbox.proof import evidence  # noqa: PLC0415

    return getattr(evidence, name)
