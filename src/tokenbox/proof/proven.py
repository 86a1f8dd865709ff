"""Layouts and renderings that leave proof: as in ``tokenbox.compose``, with ``proof=``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tokenbox.compose import lay_out
from tokenbox.content.message import InvalidMessage, check_messages
from tokenbox.conversation.counting import identity_of
from tokenbox.conversation.fit import fit as fit_messages
from tokenbox.conversation.fit import places
from tokenbox.conversation.limits import limits
from tokenbox.conversation.record import as_json
from tokenbox.errors import (
    ContextCriticalOverflow,
    EmptyInput,
    InvalidBudget,
    InvalidContent,
    LensError,
    TokenboxError,
    TokenizerError,
    UnknownTokenizer,
)
from tokenbox.tokenizers.registry import as_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from tokenbox.compose.block_forms import Summarize
    from tokenbox.compose.block_record import BlockLayout, Verbosity
    from tokenbox.compose.record import Layout
    from tokenbox.content.block_kinds import BlockType
    from tokenbox.content.blocks import Block
    from tokenbox.content.section import Section
    from tokenbox.conversation.counting import Count, MediaTokens
    from tokenbox.conversation.low_water import LowWater
    from tokenbox.conversation.record import Fitted
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
        prove_failure(error, evidence, proof)
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
            prove_failure(error, evidence, proof)
        raise
    if proof is not None:
        proof(of_blocks(result, source=source))
    return result


def fit(  # noqa: PLR0913  # the options of `conversation.fit`, and proof
    messages: Sequence[Any] | Iterator[Any],
    budget: int | None,
    count: Count = None,  # type: ignore[valid-type]  # an alias that is only text
    *,
    tools: Sequence[Mapping[str, object]] | None = None,
    max_turns: int | None = None,
    low_water: LowWater = 1,
    pinned: Collection[int] = (),
    media_tokens: MediaTokens = None,
    proof: Sink | None = None,
    source: str | None = None,
) -> Fitted:
    """The messages that fit into ``budget`` tokens: the same objects, oldest exchanges evicted first.

    ``messages``: OpenAI-style mappings, :class:`Message` objects, or what an SDK returned. System and
    developer messages, pinned ones (by their places in the list) and the last user message always stay; a
    tool call stays or leaves with all its results. A result without its call leaves, and so does a call that
    was never answered, unless it is still the last thing in the list.

    ``count``: a tokenizer's name, a tokenizer, any function from a text to its count, or a
    :class:`~tokenbox.ChatFormat`, with which the total is what the server will count; None is characters / 4.
    With a counter of texts, ``exact`` is False, for no markers are counted. ``low_water``: once over the
    budget, evict down to this fraction of it. Below 1 the answer follows the list from its beginning, so a
    longer list keeps the cut that was made before, and the prompt its start. ``media_tokens``: the cost of
    images and files that declare none. ``proof`` and ``source`` are as for :func:`layout`.

    Raises :class:`ContextCriticalOverflow` if what must stay does not fit, ``InvalidMessage``,
    :class:`InvalidBudget`, ``UndeclaredCost``, ``TemplateError``, a ``TokenizerError``, and whatever
    ``proof`` raises.
    """
    messages = list(messages) if isinstance(messages, Iterator) else messages

    def fitted() -> Fitted:
        return fit_messages(
            messages,
            budget,
            count,
            tools=tools,
            max_turns=max_turns,
            low_water=low_water,
            pinned=pinned,
            media_tokens=media_tokens,
        )

    if proof is None:
        return fitted()
    from tokenbox.proof.of_window import of_window, of_window_error  # noqa: PLC0415  # only with proof

    template = getattr(count, "template_digest", None)
    try:
        result = fitted()
    except (InvalidMessage, InvalidBudget, UnknownTokenizer):
        raise
    except TokenboxError as error:
        evidence = of_window_error(
            error,
            check_messages(messages),
            limits(max_turns, budget, low_water),
            identity_of(count),
            pinned=places(pinned, len(messages)),
            tools_text=as_json(list(tools)) if tools else None,
            source=source,
            template=template,
        )
        prove_failure(error, evidence, proof)
        raise
    proof(of_window(result, source=source, template=template))
    return result


def prove_failure(error: TokenboxError, evidence: Evidence, proof: Sink) -> None:
    """What went wrong comes first: that there is no proof of it is a note on it."""
    try:
        proof(evidence)
    except Exception as problem:  # noqa: BLE001  # a sink is anybody's function
        error.add_note(f"There is no proof of this: {problem}")
