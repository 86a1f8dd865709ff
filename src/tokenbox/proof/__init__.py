"""Proof: what was decided, from what and why, as a value and as a bundle of bytes that anyone can check."""

from tokenbox.proof.evidence import (
    Budget,
    Evidence,
    Input,
    Kind,
    Outcome,
    Sink,
    Sourced,
    Status,
    Summary,
)

__all__ = ["Budget", "Evidence", "Input", "Kind", "Outcome", "Sink", "Sourced", "Status", "Summary"]
