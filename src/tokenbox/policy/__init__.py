"""The policy: what a request counts, what would fit, and whether it may be sent. It never sends anything."""

from tokenbox.policy.chunks import Chunks, read_chunks
from tokenbox.policy.enforcement import enforce
from tokenbox.policy.estimate import estimate
from tokenbox.policy.guard import GuardLimits, Uncertain, Verdict, guard
from tokenbox.policy.packing import pack
from tokenbox.policy.records import Enforcement, Estimate, PackPlan

__all__ = [
    "Chunks",
    "Enforcement",
    "Estimate",
    "GuardLimits",
    "PackPlan",
    "Uncertain",
    "Verdict",
    "enforce",
    "estimate",
    "guard",
    "pack",
    "read_chunks",
]
