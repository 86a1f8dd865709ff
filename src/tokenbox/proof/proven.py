"""Functions with optional proof. What makes evidence is loaded only if somebody wants it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from tokenbox.proof.evidence import Sink

P = ParamSpec("P")
T = TypeVar("T")


def with_proof(
    function: Callable[P, T],
    recorded: str,
    proof: Sink | None,
    *,
    source: str | None = None,
    template: str | None = None,
) -> Callable[P, T]:
    """Return ``function``, whose calls pass their evidence to ``proof``; the function itself without it.

    ``recorded``: the place of its ``RecordedFunction`` in :mod:`tokenbox.proof`, such as ``of_messages.FIT``.
    ``source`` and ``template``: as for :func:`tokenbox.proof.calls.proven`.
    """
    if proof is None:
        return function
    from tokenbox.proof.calls import proven  # a third of the start, and most calls need no proof

    module, _, name = recorded.partition(".")
    found = getattr(import_module(f"tokenbox.proof.{module}"), name)
    return proven(found, proof, source=source, template=template)
