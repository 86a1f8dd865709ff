"""Layouts and renderings that leave proof: as in ``tokenbox.compose``, with ``proof=``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.compose import lay_out
from tokenbox.errors import (
    ContextCriticalOverflow,
    EmptyInput,
    InvalidContent,
    LensError,
    TokenizerError,
)
from tokenbox.tokenizers.registry import as_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tokenbox.compose.block_forms import Summarize
    from tokenbox.compose.block_record import BlockLayout, Verbosity
    from tokenbox.compose.record import Layout
    from tokenbox.content.block_kinds import BlockType
    from tokenbox.content.blocks import Block
    from tokenbox.content.section import Section
    from tokenbox.errors import TokenboxError
    from tokenbox.proof.evidence import Evidence, Sink
    from tokenbox.render.templates import Mode
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer

# What was asked for could be decided, and this is how it ended. Any other error says that it could not be.
_DECIDED = (ContextCriticalOverflow, TokenizerError, LensError, EmptyInput, InvalidContent)


def layout(  # the options of `lay_out.layout`, and proof
    sections: Iterable[Section | Mapping[str, object]],
    budget: int,
    tokenizer: str | Tokenizer | Callable[[str], int],
    separator: str = lay_out.SEPARATOR,
    *,
    reclaim: bool = False,
    cache: CountCache | None = None,
    proof: Sink | None = None,
    source: str | None = None,
) -> Layout:
    """Lay ``sections`` out into ``budget`` tokens (FACET Token Box Model; docs/layout.md has the rules).

    ``sections``: :class:`Section` objects, or mappings with the same fields. ``tokenizer``: a name such as
    ``"o200k_base"``, a tokenizer object, or any function from text to a count. ``separator`` stands between
    sections that have text. ``reclaim`` gives back, after cutting, what then fits again. ``cache`` holds
    counts between layouts (default: one for the process). ``proof`` is called with the ``Evidence`` of the
    layout, of its refusal or of its failure (docs/proof.md); ``source`` says there where the sections are
    from.

    Raises :class:`ContextCriticalOverflow` if the critical sections alone do not fit,
    :class:`InvalidSection` and :class:`InvalidBudget` for bad input, a ``TokenizerError`` for text that
    cannot be counted, and whatever ``proof`` raises.
    """
    if proof is None:
        return lay_out.layout(sections, budget, tokenizer, separator, reclaim=reclaim, cache=cache)
    from tokenbox.proof.of_layout import of_layout, of_layout_error  # noqa: PLC0415  # only with proof

    checked, counter = lay_out.checked_sections(sections), as_tokenizer(tokenizer)
    try:
        result = lay_out.layout(checked, budget, counter, separator, reclaim=reclaim, cache=cache)
    except _DECIDED as error:
        evidence = of_layout_error(
            error, checked, budget, counter.identity, separator, reclaim=reclaim, source=source
        )
        _prove_failure(error, evidence, proof)
        raise
    proof(of_layout(result, source=source))
    return result


def render_blocks(  # noqa: PLR0913  # the options of `compose.render_blocks`, and proof
    blocks: Iterable[Block],
    tokenizer: str | Tokenizer | Callable[[str], int],
    budget: int | None = None,
    mode: Mode | str = "xml",
    *,
    verbosity: Verbosity | str = "adaptive",
    include_types: Iterable[BlockType | int | str] | None = None,
    soft: bool = False,
    summarize: Summarize | None = None,
    cache: CountCache | None = None,
    proof: Sink | None = None,
    source: str | None = None,
) -> BlockLayout:
    """As ``tokenbox.compose.render_blocks``. ``proof`` and ``source`` are as for :func:`layout`."""
    from tokenbox.compose import render_blocks as rendering  # noqa: PLC0415  # `tokenbox.layout` needs no blocks
    from tokenbox.proof.of_blocks import of_blocks, of_blocks_error  # noqa: PLC0415
    from tokenbox.proof.of_layout import given_budget  # noqa: PLC0415

    given, counter = list(blocks), as_tokenizer(tokenizer)
    try:
        result = rendering.render_blocks(
            given,
            counter,
            budget,
            mode,
            verbosity=verbosity,
            include_types=include_types,
            soft=soft,
            summarize=summarize,
            cache=cache,
        )
    except _DECIDED as error:
        if proof is not None:
            options = {"mode": str(mode), "verbosity": str(verbosity), "soft": soft}
            evidence = of_blocks_error(error, given, given_budget(budget), counter.identity, options, source)
            _prove_failure(error, evidence, proof)
        raise
    if proof is not None:
        proof(of_blocks(result, source=source))
    return result


def _prove_failure(error: TokenboxError, evidence: Evidence, proof: Sink) -> None:
    """What went wrong comes first: that there is no proof of it is a note on it."""
    try:
        proof(evidence)
    except Exception as problem:  # noqa: BLE001  # a sink is anybody's function
        error.add_note(f"There is no proof of this: {problem}")
