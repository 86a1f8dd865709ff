"""Estimates, packing and enforcement of context limits (nrv ADR 007, 3). No model is called.

    ctx.estimate("gpt-4o", ["You are brief.", document])      Estimate(tokens_in, per_chunk, tokenizer, exact)
    ctx.capabilities()                                        [ModelCapabilities(id, context_window, ...)]
    ctx.pack(chunks, 8_000, 500, "0.05", "box", "gpt-4o")     PackPlan(packed, dropped, summary_ops, layout)
    ctx.enforce("gpt-4o", chunks, "json", 500)                Enforcement(ok, why, plan)

Chunks are strings, sections, blocks or chat messages, one kind per call, or a whole request as one mapping:
its messages are the chunks, and its other fields are counted too. Defaults come from the settings of the
folder (:mod:`tokenbox.config`), the saved answer of the model's server, and the catalog, each figure with its
source: :mod:`tokenbox.models` resolves, :mod:`tokenbox.policy` decides. Only :func:`discover` asks servers,
and counting if ``tokenize.use_endpoint`` is on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tokenbox import policy
from tokenbox.compose.layout import SEPARATOR
from tokenbox.config import Config, reload
from tokenbox.ctx.capabilities import (
    Discovery,
    ModelCapabilities,
    capabilities,
    discover,
    model_name,
    settings_of,
)
from tokenbox.ctx.resolving import (
    counter_and_limits,
    counter_for,
    figures_for,
    first_line,
    larger_models,
    notes_on,
    stated_by_call,
    strategy_for,
    uncertain_for,
)
from tokenbox.errors import CodeNotAllowed
from tokenbox.models import OutputMode, Stated
from tokenbox.models.resolve import REQUESTED_RESERVE
from tokenbox.policy import Chunks, Enforcement, Estimate, GuardLimits, PackPlan, Uncertain, Verdict
from tokenbox.policy.chunks import read_chunks
from tokenbox.policy.enforcement import checked_mode
from tokenbox.policy.errors import (
    InvalidChunks,
    InvalidPolicy,
    PolicyError,
    StrategyFailed,
    UnknownStrategy,
    UnknownWindow,
)
from tokenbox.policy.guard import tokens
from tokenbox.policy.records import ChunkPlan, CutChunks, LargerWindow, LowerMaxTokens, SummaryOp, Why
from tokenbox.policy.strategies import Candidate, ChosenLayout, Strategy
from tokenbox.proof.proven import with_proof

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction

    from tokenbox.compose.requests import Counts
    from tokenbox.policy.chunks import Chunk
    from tokenbox.policy.override import Override
    from tokenbox.proof import Sink

    Tools = Sequence[object]
    Headroom = str | Decimal | Fraction | int | float

__all__ = [
    "Candidate",
    "ChosenLayout",
    "ChunkPlan",
    "CutChunks",
    "Discovery",
    "Enforcement",
    "Estimate",
    "GuardLimits",
    "InvalidChunks",
    "InvalidPolicy",
    "LargerWindow",
    "LowerMaxTokens",
    "ModelCapabilities",
    "OutputMode",
    "PackPlan",
    "PolicyError",
    "StrategyFailed",
    "SummaryOp",
    "Uncertain",
    "UnknownStrategy",
    "UnknownWindow",
    "Verdict",
    "Why",
    "capabilities",
    "discover",
    "enforce",
    "estimate",
    "limits_of",
    "pack",
    "reload",
]


# The functions of ADR 007.


def estimate(
    model: str | None,
    chunks: Iterable[Chunk] | Mapping[str, object] | Chunks,
    *,
    tokenizer: Counts | None = None,
    separator: str = SEPARATOR,
    tools: Tools | None = None,
    config: Config | None = None,
    proof: Sink | None = None,
) -> Estimate:
    """Count ``chunks`` for ``model``: the whole request, and each chunk alone.

    ``tokenizer`` overrides and enables a tokenizer: a vocabulary for texts, a chat format for messages, or
    the name of a model. ``proof`` is called with the evidence.

    Raises ``NoTokenizer`` with commands that enable a tokenizer, and ``InvalidChunks``.
    """
    settings = settings_of(config)
    request = read_chunks(chunks, separator, tools)
    counter = counter_for(request, model_name(model), tokenizer, settings)
    return with_proof(policy.estimate, proof)(request, counter, model)


def pack(  # noqa: PLR0913  # the seven of ADR 007, and keyword options
    chunks: Iterable[Chunk] | Mapping[str, object] | Chunks,
    max_ctx: int | None = None,
    reserve_out: int | None = None,
    headroom: Headroom | None = None,
    strategy: str | Strategy | None = None,
    model: str | None = None,
    tokenizer: Counts | None = None,
    *,
    separator: str = SEPARATOR,
    tools: Tools | None = None,
    uncertain: Uncertain | str | None = None,
    config: Config | None = None,
    proof: Sink | None = None,
) -> PackPlan:
    """Plan which of the ``chunks`` to send. Nothing is sent or summarized.

    An argument that is None comes from the settings and the catalog. ``strategy``: ``box``, ``ladder``,
    ``window``, ``worth`` (by relevance to the last question), a function, the name of an entry point of
    ``tokenbox.strategies``, or ``"module:function"``. ``proof`` is called with the evidence, also of a
    failure.

    Raises ``ContextCriticalOverflow`` if the critical chunks do not fit, ``NoTokenizer`` and
    ``UnknownWindow`` with commands that help, ``UnknownStrategy``, ``StrategyFailed``, ``InvalidPolicy``.
    """
    settings = settings_of(config)
    request = read_chunks(chunks, separator, tools)
    figures = figures_for(model_name(model), settings, stated_by_call(max_ctx, reserve_out, headroom))
    counter, limits = counter_and_limits(request, model, tokenizer, settings, figures)
    chosen = strategy_for(strategy, request, model, settings)
    rule = uncertain_for(uncertain, settings)
    return with_proof(policy.pack, proof)(request, limits, counter, chosen, model, rule)


def limits_of(model: str, *, config: Config | None = None) -> GuardLimits:
    """Return the limits of requests to the model, from the settings, its server and the catalog.

    Raises ``UnknownWindow`` with commands that help.
    """
    settings = settings_of(config)
    return GuardLimits.of_model(figures_for(model_name(model), settings, Stated()))


def enforce(  # noqa: PLR0913  # the five of ADR 007, and keyword options
    model: str,
    chunks: Iterable[Chunk] | Mapping[str, object] | Chunks,
    output_mode: OutputMode | str = "text",
    max_tokens_request: int | None = None,
    override: Override | None = None,
    *,
    tokenizer: Counts | None = None,
    max_ctx: int | None = None,
    headroom: Headroom | None = None,
    strategy: str | Strategy | None = None,
    separator: str = SEPARATOR,
    tools: Tools | None = None,
    uncertain: Uncertain | str | None = None,
    config: Config | None = None,
    proof: Sink | None = None,
) -> Enforcement:
    """Allow or deny the request: denied if ``tokens_in + reserve_out > max_ctx * (1 - headroom)``.

    It is also denied if it exceeds the model's input limit. ``max_tokens_request``: the request's
    ``max_tokens``, which is the output reserve; by default it comes from the settings, or is the model's
    maximum output, but at most a quarter of the usable window, or a half for ``json``, which is worthless if
    truncated. ``uncertain``: the rule for an estimate whose total fits but whose upper bound does not
    (default: the setting ``policy.uncertain``). ``override``: the result of
    ``tokenbox.override.allow_over_context()``. ``proof`` is called with the evidence, also of a refusal or a
    failure.

    A denial is a result (``ok`` is False), not an error. Raises ``NoTokenizer`` and ``UnknownWindow`` with
    commands that help, ``InvalidChunks`` and ``InvalidPolicy``.
    """
    settings = settings_of(config)
    mode = checked_mode(output_mode)
    if max_tokens_request is not None:
        max_tokens_request = tokens(max_tokens_request, "max_tokens_request")
    call = stated_by_call(max_ctx, max_tokens_request, headroom, REQUESTED_RESERVE)
    request = read_chunks(chunks, separator, tools)
    figures = figures_for(model_name(model), settings, call, mode)
    counter, limits = counter_and_limits(request, model, tokenizer, settings, figures)
    notes, chosen = notes_on(figures), None
    try:
        chosen = strategy_for(strategy, request, model, settings)
    except (StrategyFailed, UnknownStrategy, CodeNotAllowed) as error:
        if strategy is not None:
            raise
        notes.append(first_line(error))  # a strategy chooses what to drop, not whether the request fits
    return with_proof(policy.enforce, proof)(
        request,
        limits,
        counter,
        output_mode=mode,
        override=override,
        strategy=chosen,
        model=model,
        max_tokens_request=max_tokens_request,
        uncertain=uncertain_for(uncertain, settings),
        max_output=figures.max_output,
        notes=notes,
        alternatives=lambda size: larger_models(request, model, size, counter, settings, call, mode),
    )
