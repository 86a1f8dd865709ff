"""The policy: what a request counts, what would fit, and whether it may be sent. It never sends anything."""

from tokenbox.models import OutputMode
from tokenbox.policy.chunks import ChunkKind, Chunks, read_chunks
from tokenbox.policy.enforcement import enforce
from tokenbox.policy.errors import (
    InvalidChunks,
    InvalidPolicy,
    PolicyError,
    StrategyFailed,
    UnknownStrategy,
    UnknownWindow,
)
from tokenbox.policy.estimate import estimate
from tokenbox.policy.guard import Basis, Binding, GuardLimits, Uncertain, Verdict, guard
from tokenbox.policy.packing import pack
from tokenbox.policy.records import (
    ChunkPlan,
    CutChunks,
    Enforcement,
    Estimate,
    LargerWindow,
    LowerMaxTokens,
    PackPlan,
    Remedy,
    SummaryOp,
    Why,
)
from tokenbox.policy.strategies import Candidate, ChosenLayout

__all__ = [
    "Basis",
    "Binding",
    "Candidate",
    "ChosenLayout",
    "ChunkKind",
    "ChunkPlan",
    "Chunks",
    "CutChunks",
    "Enforcement",
    "Estimate",
    "GuardLimits",
    "InvalidChunks",
    "InvalidPolicy",
    "LargerWindow",
    "LowerMaxTokens",
    "OutputMode",
    "PackPlan",
    "PolicyError",
    "Remedy",
    "StrategyFailed",
    "SummaryOp",
    "Uncertain",
    "UnknownStrategy",
    "UnknownWindow",
    "Verdict",
    "Why",
    "enforce",
    "estimate",
    "guard",
    "pack",
    "read_chunks",
]
