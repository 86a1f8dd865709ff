"""What a call of the policy functions means: the limits of its model, its counter and its strategy.

The call overrides the settings, which override the saved answer of the model's server and the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tokenbox import catalog
from tokenbox.catalog import Figure, ModelLimits
from tokenbox.catalog.names import undated
from tokenbox.conversation.chat_format import ServerFormat
from tokenbox.errors import NoTokenizer, TokenboxError, TokenizerError
from tokenbox.models import ModelFigures, OutputMode, Stated, counters_for, resolve_figures
from tokenbox.named_code import allow
from tokenbox.policy import Chunks, GuardLimits, Uncertain
from tokenbox.policy.chunks import ChunkKind
from tokenbox.policy.errors import unknown_window
from tokenbox.policy.guard import exact_headroom, tokens
from tokenbox.policy.packing import fits_kind
from tokenbox.policy.strategies import Strategy, strategy_of

if TYPE_CHECKING:
    from tokenbox.config import Config, Connection
    from tokenbox.policy.estimate import ChunkCounter

T = TypeVar("T")

# The maximum number of other models in a remedy.
MAX_ALTERNATIVES = 3


def stated_by_call(
    max_ctx: object, reserve_out: object, headroom: object, reserve_source: str = "the call"
) -> Stated:
    """Return the limits that the call states, after validation."""
    window = None if max_ctx is None else Figure(tokens(max_ctx, "max_ctx"), "the call")
    reserve = None if reserve_out is None else Figure(tokens(reserve_out, "reserve_out"), reserve_source)
    share = None if headroom is None else (exact_headroom(headroom), "the call")
    return Stated(context_window=window, output_reserve=reserve, headroom=share)


def figures_for(
    model: str | None, config: Config, call: Stated, mode: OutputMode = OutputMode.TEXT
) -> ModelFigures:
    """Return the limits of a model, cached because they are needed before every request."""
    server = ModelLimits() if model is None else config.server_said(model)

    def figures() -> ModelFigures:
        found = resolve_figures(
            None if model is None else config.model_id(model),
            call=call,
            settings=config.stated(model),
            server=server,
            corrections=config.catalog_limits(),
            mode=mode,
        )
        return replace(found, model=model)

    return _cached(config, figures, "figures", model, call, mode, server)


def _cached(config: Config, compute: Callable[[], T], *arguments: object) -> T:
    """Return ``compute()``, cached by the settings object and the arguments."""
    key = id(config), *arguments
    known = _cache.get(key)
    if known is None or known[0] is not config:
        if len(_cache) >= _MAX_CACHED:
            _cache.clear()
        known = _cache[key] = config, compute()
    return known[1]


_cache: dict[object, tuple[Config, Any]] = {}
_MAX_CACHED = 1_000


def counter_for(request: Chunks, model: str | None, tokenizer: object, config: Config) -> ChunkCounter:
    """Return the counter of these chunks: of requests for messages and sections that are sent as messages."""
    counting, server = _cached(config, lambda: config.counting(model), "counting", model), None
    if tokenizer is not None:
        allow(tokenizer)
        counting = replace(counting, named=tokenizer)
    elif model is not None and (server := _server(model, config)) is not None:
        counting = replace(counting, server=server)
    is_chat = request.kind is ChunkKind.MESSAGES
    could_be_chat = is_chat or request.have_roles
    try:
        model_id = None if model is None else config.model_id(model)
        found = counters_for(model_id, counting)
    except NoTokenizer:
        if server is None or not could_be_chat:
            raise
        return server
    as_messages = is_chat or (could_be_chat and found.has_format)
    return found.counter if as_messages or found.tokenizer is None else found.tokenizer


def counter_and_limits(
    request: Chunks, model: str | None, tokenizer: object, config: Config, figures: ModelFigures
) -> tuple[ChunkCounter, GuardLimits]:
    """Return the counter and the limits. Raises one error if both are missing, or the name is misspelt."""
    try:
        counter = counter_for(request, model, tokenizer, config)
    except NoTokenizer as error:
        if model is None or figures.context_window is not None:
            raise
        window = unknown_window(figures.model)
        if window.details.get("nearest"):
            raise window from None  # the name is misspelt, so its tokenizer is not the problem
        remedies = _combined_remedies(error, window)
        raise NoTokenizer(
            f"{first_line(error)} And {first_line(window)}\nRun: {remedies[0]}",
            **{**window.details, **error.details, "remedies": remedies},
        ) from None
    return counter, GuardLimits.of_model(figures)


def first_line(error: TokenboxError) -> str:
    return error.message.partition("\n")[0]


def _combined_remedies(first: TokenboxError, second: TokenboxError) -> list[str]:
    """Return commands that each fix both errors, the recommended one first."""
    ours, others = (cast("list[str]", error.details.get("remedies", [])) for error in (first, second))
    pairs = [(one, other) for other in others[:1] for one in ours]
    pairs += [(one, other) for other in others[1:] for one in ours[:1]]
    return [f"{one} && {other}" for one, other in pairs]


def counter_of_settings(model: str, config: Config, *, ask: bool = True) -> ChunkCounter | None:
    """Return the counter of a model whose settings name a server; None for any other model.

    The server counts if ``tokenize.use_endpoint`` is on and ``ask``. No tokenizer needs to be enabled.
    """
    connection = config.connection(model)
    if connection is None or connection.endpoint is None:
        return None
    counting = replace(config.counting(model), baselines=None, server=_server(model, config) if ask else None)
    return counters_for(connection.model, counting).counter


def _server(model: str, config: Config) -> ServerFormat | None:
    """Return the server's counter if ``tokenize.use_endpoint`` is on and the model has an endpoint."""
    connection = config.connection(model)
    if connection is None or connection.endpoint is None or not config.value(("tokenize", "use_endpoint")):
        return None
    return _server_format(connection)


@cache
def _server_format(connection: Connection) -> ServerFormat:
    """Return the counter of a server and model, which caches counts."""
    # An HTTP client is an extra, and takes 0.1 s to load.
    from tokenbox.providers import BlockingProvider, Target

    target = Target(connection.endpoint, connection.model, kind=connection.kind, use_tokenize_endpoint=True)
    provider = BlockingProvider(target)

    def count(body: Mapping[str, Any]) -> int:
        found = provider.count(body["messages"], body.get("tools") or ())
        if not found.exact or body.keys() - {"model", "messages", "tools"}:
            raise TokenizerError(
                f"the server of {target.model} has no exact count of this request, and a policy takes no "
                "other from a server. Name a tokenizer, such as --tokenizer heuristic, or ask no server: "
                "tokenbox config set tokenize.use_endpoint false"
            )
        return found.value

    return ServerFormat(count, f"{target.model} at {target.endpoint}")


def uncertain_for(stated: Uncertain | str | None, config: Config) -> Uncertain | str:
    return str(config.value(("policy", "uncertain"))) if stated is None else stated


def strategy_for(
    strategy: object, request: Chunks, model: str | None, config: Config
) -> str | Strategy | None:
    """Return the strategy of the call, else of the settings; None is the default for the kind of chunks.

    The strategy of the settings is used only for kinds that it supports: ``box`` does not pack a chat.
    """
    if strategy is not None:
        allow(strategy)
        return strategy_of(strategy)
    kind = request.kind
    named = _cached(config, lambda: config.strategy_for(model, kind.value), "strategy", model, kind)
    found = strategy_of(named)
    return found if not isinstance(found, str) or fits_kind(found, kind) else None


def notes_on(figures: ModelFigures) -> list[str]:
    """Return notes that do not affect the decision."""
    reserve, longest = figures.output_reserve, figures.max_output
    if reserve is None or longest is None or reserve <= longest:
        return []
    limit = f"{longest:,} ({figures.sources['max_output']})"
    return [f"{reserve:,} tokens are reserved for the answer, and the model gives at most {limit}"]


def larger_models(
    request: Chunks,
    model: str | None,
    tokens_in: int,
    counter: ChunkCounter,
    config: Config,
    call: Stated,
    mode: OutputMode,
) -> tuple[str, ...]:
    """Return models with the same tokenizer that accept this input, the smallest window first."""
    if model is None or call.context_window is not None:
        return ()
    info = catalog.model(config.model_id(model))
    known = () if info is None or info.tokenizer_family is None else _of_family(info.tokenizer_family)
    mine = config.model_id(model)
    fitting: list[tuple[int, int, str]] = []
    for name in dict.fromkeys((*config.names("models"), *known)):
        if config.model_id(name) == mine:
            continue
        try:
            figures = figures_for(name, config, call, mode)
            limits, other = GuardLimits.of_model(figures), counter_for(request, name, None, config)
        except TokenboxError:
            continue  # its window or its tokenizer is unknown
        alike = other.identity.fingerprint == counter.identity.fingerprint
        answers = figures.max_output is None or limits.reserve_out <= figures.max_output
        if alike and answers and not limits.denies(tokens_in):
            fitting.append((limits.max_ctx, len(name), name))
    return tuple(name for _, _, name in sorted(fitting)[:MAX_ALTERNATIVES])


@cache
def _of_family(family: str) -> tuple[str, ...]:
    """Return the catalog's chat models of a tokenizer family, without dated snapshots."""
    return tuple(
        info.id
        for info in catalog.find("", makers_only=True)
        if info.tokenizer_family == family
        and info.max_output_tokens is not None
        and undated(info.id) is None
        and ":" not in info.id
    )
