"""Functions with optional proof. What makes evidence is loaded only if somebody wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from tokenbox.proof.evidence import Sink

P = ParamSpec("P")
T = TypeVar("T")


def with_proof(
    function: Callable[P, T],
    proof: Sink | None,
    *,
    source: str | None = None,
) -> Callable[P, T]:
    """Return ``function``, whose calls pass their evidence to ``proof``; the function itself without it.

    ``source``: the default source of inputs.
    """
    if proof is None:
        return function
    from tokenbox.proof.calls import proven  # a third of the start, and most calls need no proof
    from tokenbox.proof.replay import FUNCTIONS

    recorded = next(one for one in FUNCTIONS.values() if one.call is function)
    return proven(recorded, proof, source=source)
