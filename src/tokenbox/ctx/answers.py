"""The four questions of ADR 007: no model is asked. Servers are, by :func:`discover` alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox import catalog, policy
from tokenbox.compose.lay_out import SEPARATOR
from tokenbox.ctx.discovery import discover as ask_servers
from tokenbox.ctx.effective import Asked, counter_for, describe, forget_answers, larger_models, limits_for
from tokenbox.ctx.evidence import guard_options, of_enforcement, of_enforcement_error, of_plan, of_plan_error
from tokenbox.ctx.plugins import strategy_of
from tokenbox.ctx.settings import current
from tokenbox.errors import NoTokenizer, TokenboxError
from tokenbox.policy.chunks import read_chunks
from tokenbox.policy.enforcement import checked_mode
from tokenbox.policy.limits import tokens
from tokenbox.policy.packing import strategy_name
from tokenbox.proof.proven import prove_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from decimal import Decimal
    from fractions import Fraction

    from tokenbox.config import Config, Connection
    from tokenbox.conversation.counting import RequestCounter
    from tokenbox.ctx.discovery import Discovery
    from tokenbox.ctx.effective import ModelInfo
    from tokenbox.override import Override
    from tokenbox.policy import Enforcement, Estimate, OutputMode, PackPlan, Request
    from tokenbox.policy.chunks import Chunk
    from tokenbox.policy.strategies import Strategy
    from tokenbox.proof import Sink
    from tokenbox.providers import Key
    from tokenbox.tokenizers.protocol import Tokenizer

    Counting = str | Tokenizer | RequestCounter | Callable[[str], int]
    Tools = Sequence[Mapping[str, object]]
    Headroom = str | Decimal | Fraction | int | float


def estimate(
    model: str | None,
    chunks: Iterable[Chunk] | Request,
    *,
    tokenizer: Counting | None = None,
    separator: str = SEPARATOR,
    tools: Tools | None = None,
    config: Config | None = None,
) -> Estimate:
    """What ``chunks`` count for ``model``: the whole that would be sent, and each chunk alone.

    ``tokenizer`` goes before the one of the settings; naming it enables it. For messages it may be a chat
    format, which counts markers and ``tools`` as the server does; a tokenizer counts their texts, and that
    is an estimate. Raises ``NoTokenizer`` with the commands that say who counts, and ``InvalidChunks``.
    """
    settings = current() if config is None else config
    request = read_chunks(chunks, separator, tools)
    return policy.estimate(request, counter_for(request, _name(model), tokenizer, settings), model)


def capabilities(query: str = "", *, config: Config | None = None) -> list[ModelInfo]:
    """What models can do: those of the settings first, then those of the catalog that ``query`` may mean.

    Of an empty query, all models of the catalog under the names their makers give them.
    """
    settings = current() if config is None else config
    wanted = query.strip().lower()
    own = [name for name in settings.names("models") if wanted in name.lower()]
    known = catalog.find(query, configured=settings.catalog_limits(), makers_only=not wanted)
    return [describe(name, settings) for name in dict.fromkeys((*own, *(info.id for info in known)))]


def discover(
    *names: str,
    config: Config | None = None,
    key: Callable[[Connection], Key | None] = lambda connection: None,  # noqa: ARG005
) -> list[Discovery]:
    """Ask the servers of these models of the settings (default: all that have an endpoint) for their limits.

    The only function here that asks a server, and only those that the settings name. What they say counts in
    this process from then on, after the settings and before what is published. ``key`` gives the key of a
    connection, where one is needed. A server that does not answer is a ``problem`` in its result.
    """
    settings = current() if config is None else config
    wanted = names or tuple(
        name
        for name in settings.names("models")
        if (connection := settings.connection(name)) is not None and connection.endpoint is not None
    )
    found = ask_servers(wanted, settings, key)
    forget_answers()
    return found


def pack(  # noqa: PLR0913  # the seven of ADR 007, and keyword options
    chunks: Iterable[Chunk] | Request,
    max_ctx: int | None = None,
    reserve_out: int | None = None,
    headroom: Headroom | None = None,
    strategy: str | Strategy | None = None,
    model: str | None = None,
    tokenizer: Counting | None = None,
    *,
    separator: str = SEPARATOR,
    tools: Tools | None = None,
    config: Config | None = None,
    proof: Sink | None = None,
) -> PackPlan:
    """The plan of what would be sent of ``chunks``. Nothing is sent, and nothing is summarized.

    What is None comes from the settings and the catalog. ``strategy``: ``box``, ``ladder``, ``window``, a
    function, the name of an entry point of ``tokenbox.strategies``, or ``"module:function"``. ``proof`` is
    given the evidence, of a failure too.

    Raises ``ContextCriticalOverflow`` if what must be kept does not fit, ``NoTokenizer`` and
    ``UnknownWindow`` with commands that help, ``UnknownStrategy``, ``StrategyFailed``, ``InvalidPolicy``.
    """
    settings = current() if config is None else config
    request = read_chunks(chunks, separator, tools)
    counter = counter_for(request, _name(model), tokenizer, settings)
    limits, _ = limits_for(model, settings, Asked(max_ctx, reserve_out, headroom))
    chosen = _strategy(strategy, model, settings)
    try:
        plan = policy.pack(request, limits, counter, chosen, model)
    except TokenboxError as error:
        if proof is not None:
            name = strategy_name(request, chosen)
            prove_failure(error, of_plan_error(error, request, limits, counter.identity, name, model), proof)
        raise
    if proof is not None:
        proof(of_plan(plan))
    return plan


def enforce(  # noqa: PLR0913  # the five of ADR 007, and keyword options
    model: str,
    chunks: Iterable[Chunk] | Request,
    output_mode: OutputMode | str = "text",
    max_tokens_request: int | None = None,
    override: Override | None = None,
    *,
    tokenizer: Counting | None = None,
    max_ctx: int | None = None,
    headroom: Headroom | None = None,
    strategy: str | Strategy | None = None,
    separator: str = SEPARATOR,
    tools: Tools | None = None,
    config: Config | None = None,
    proof: Sink | None = None,
) -> Enforcement:
    """Whether the request may be sent: denied iff ``tokens_in + reserve_out > max_ctx * (1 - headroom)``.

    Or if it is over the model's own limit of input. ``max_tokens_request`` is what the request asks for at
    most, and so what is reserved; where it is None, the settings say, or else it is the model's longest
    answer, but at most a quarter of the usable window, and a half for ``json``, which is worthless cut off.
    ``override``: what ``tokenbox.override.allow_over_context()`` gives. ``proof`` is given the evidence, of
    a refusal and of a failure too.

    Being denied is an answer (``ok`` False), not an error. Raises ``NoTokenizer`` and ``UnknownWindow`` with
    commands that help, ``InvalidChunks`` and ``InvalidPolicy``.
    """
    settings = current() if config is None else config
    mode = checked_mode(output_mode)
    if max_tokens_request is not None:
        tokens(max_tokens_request, "max_tokens_request")
    asked = Asked(max_ctx, max_tokens_request, headroom, "max_tokens of the request")
    request = read_chunks(chunks, separator, tools)
    counter = counter_for(request, _name(model), tokenizer, settings)
    limits, notes = limits_for(model, settings, asked, mode)
    chosen = _strategy(strategy, model, settings)
    try:
        verdict = policy.enforce(
            request,
            limits,
            counter,
            output_mode=mode,
            override=override,
            strategy=chosen,
            model=model,
            max_tokens_request=max_tokens_request,
            notes=notes,
            alternatives=lambda size: larger_models(request, model, size, counter, settings, asked, mode),
        )
    except TokenboxError as error:
        if proof is not None:
            options = guard_options(request, mode, max_tokens_request, strategy_name(request, chosen))
            who = counter.identity
            evidence = of_enforcement_error(error, request, limits, who, options, override, model)
            prove_failure(error, evidence, proof)
        raise
    if proof is not None:
        proof(of_enforcement(verdict))
    return verdict


def _name(model: object) -> str | None:
    if model is None or (isinstance(model, str) and model.strip()):
        return model
    raise NoTokenizer(f"a model is a name such as 'gpt-4o', not {model!r}.", remedies=[])


def _strategy(strategy: object, model: str | None, config: Config) -> str | Strategy | None:
    """The call's, else the one that somebody set for the model; None is that of the chunks' kind."""
    if strategy is None and model is not None:
        found = config.policy_for(model)
        if found.sources["strategy"] != "default":
            return strategy_of(found.strategy)
    return strategy_of(strategy)
