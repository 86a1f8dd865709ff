"""What a request counts, what would fit, and whether it may be sent (nrv ADR 007, 3). No model is called.

    ctx.estimate("gpt-4o", ["You are brief.", document])      Estimate(tokens_in, per_chunk, tokenizer, exact)
    ctx.capabilities()                                        [ModelInfo(id, context_window, ...)]
    ctx.pack(chunks, 8_000, 500, "0.05", "box", "gpt-4o")     PackPlan(packed, dropped, summary_ops, layout)
    ctx.enforce("gpt-4o", chunks, "json", 500)                Enforcement(ok, why, plan)

Chunks are strings, sections, blocks or chat messages, one kind at a time. What is not said in the call comes
from the settings of the folder (:mod:`tokenbox.config`) and from the catalog, each figure with its source.
"""

from tokenbox.ctx.answers import capabilities, discover, enforce, estimate, pack
from tokenbox.ctx.discovery import Discovery
from tokenbox.ctx.effective import ModelInfo
from tokenbox.ctx.settings import reload
from tokenbox.policy import (
    Candidate,
    ChosenLayout,
    ChunkPlan,
    CutChunks,
    Enforcement,
    Estimate,
    InvalidChunks,
    InvalidPolicy,
    LargerWindow,
    Limits,
    LowerMaxTokens,
    OutputMode,
    PackPlan,
    PolicyError,
    StrategyFailed,
    SummaryOp,
    UnknownStrategy,
    UnknownWindow,
    Why,
)

__all__ = [
    "Candidate",
    "ChosenLayout",
    "ChunkPlan",
    "CutChunks",
    "Discovery",
    "Enforcement",
    "Estimate",
    "InvalidChunks",
    "InvalidPolicy",
    "LargerWindow",
    "Limits",
    "LowerMaxTokens",
    "ModelInfo",
    "OutputMode",
    "PackPlan",
    "PolicyError",
    "StrategyFailed",
    "SummaryOp",
    "UnknownStrategy",
    "UnknownWindow",
    "Why",
    "capabilities",
    "discover",
    "enforce",
    "estimate",
    "pack",
    "reload",
]
