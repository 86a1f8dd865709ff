"""The policy: how much a request counts, what would fit, and whether it may be sent. Answers; never acts."""

from tokenbox.policy.chunks import Kind, Request, read_chunks
from tokenbox.policy.counting import estimate
from tokenbox.policy.enforcement import enforce
from tokenbox.policy.errors import (
    InvalidChunks,
    InvalidPolicy,
    PolicyError,
    StrategyFailed,
    UnknownStrategy,
    UnknownWindow,
)
from tokenbox.policy.limits import Limits
from tokenbox.policy.packing import pack
from tokenbox.policy.records import (
    Binding,
    ChunkPlan,
    CutChunks,
    Enforcement,
    Estimate,
    LargerWindow,
    LowerMaxTokens,
    OutputMode,
    PackPlan,
    Remedy,
    SummaryOp,
    Why,
)
from tokenbox.policy.strategies import Candidate, ChosenLayout

__all__ = [
    "Binding",
    "Candidate",
    "ChosenLayout",
    "ChunkPlan",
    "CutChunks",
    "Enforcement",
    "Estimate",
    "InvalidChunks",
    "InvalidPolicy",
    "Kind",
    "LargerWindow",
    "Limits",
    "LowerMaxTokens",
    "OutputMode",
    "PackPlan",
    "PolicyError",
    "Remedy",
    "Request",
    "StrategyFailed",
    "SummaryOp",
    "UnknownStrategy",
    "UnknownWindow",
    "Why",
    "enforce",
    "estimate",
    "pack",
    "read_chunks",
]
