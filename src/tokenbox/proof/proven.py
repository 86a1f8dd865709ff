"""The function for layouts with optional proof: for ``tokenbox.layout`` and for documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tokenbox.compose import sections as compose_sections

if TYPE_CHECKING:
    from tokenbox.compose.layout import Layout
    from tokenbox.proof.evidence import Sink


def proven_layout(proof: Sink | None, source: str | None) -> Callable[..., Layout]:
    """Return :func:`tokenbox.compose.sections.layout`, whose calls pass their evidence to ``proof``.

    It then takes sections that are checked. ``source``: the source of the sections in the evidence.
    """
    if proof is None:
        return compose_sections.layout
    from tokenbox.proof.calls import proven  # a layout without proof loads no more
    from tokenbox.proof.of_sections import LAYOUT

    return proven(LAYOUT, proof, source=source)
