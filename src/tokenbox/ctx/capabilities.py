"""The known limits of models: of the settings, the catalog, and their servers, which are asked for them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tokenbox import catalog
from tokenbox.catalog import Limit, ModelLimits
from tokenbox.config import Config, Connection, current
from tokenbox.config.servers import keep_answer
from tokenbox.errors import NoTokenizer, TokenboxError, shown
from tokenbox.models import NO_LIMITS, Stated, resolve_figures
from tokenbox.policy.errors import InvalidPolicy, PolicyError
from tokenbox.records import to_record

if TYPE_CHECKING:
    from tokenbox.providers import ApiKey


@dataclass(frozen=True, slots=True)
class Discovery:
    """The answer of a model's server. ``problem``: why there is no answer, else None.

    ``kept``: the answer was saved for other processes.
    """

    name: str
    model: str
    endpoint: str | None
    limits: ModelLimits = NO_LIMITS
    problem: str | None = None
    kept: bool = False

    def to_dict(self) -> dict[str, object]:
        named, answered = to_record(self, "name model endpoint"), to_record(self, "problem kept")
        return named | self.limits.to_dict() | answered


def discover(
    *names: str,
    config: Config | None = None,
    key: Callable[[Connection], ApiKey | None] = lambda _: None,
    today: dt.date | None = None,
) -> list[Discovery]:
    """Ask the servers of these models in the settings (default: all with an endpoint) for their limits.

    Only servers in the settings are asked. Their answers are saved with the date. From then on ``estimate``,
    ``pack``, ``enforce``, the command line and the gateway use them: settings override them, and they
    override published limits. ``key`` returns the API key of a connection, if it needs one. If a server does
    not answer, its result has a ``problem``.
    """
    settings = settings_of(config)
    day = (dt.datetime.now(dt.UTC).date() if today is None else today).isoformat()
    models = [model_name(name) or "" for name in names] or _with_endpoint(settings)
    return [_discovery(name, settings, key, day) for name in models]


def _with_endpoint(config: Config) -> list[str]:
    connections = map(config.connection, config.names("models"))
    return [one.name for one in connections if one is not None and one.endpoint is not None]


def _discovery(name: str, config: Config, key: Callable[[Connection], ApiKey | None], day: str) -> Discovery:
    """Ask the server of ``[models.NAME]``. An error of the server becomes a ``problem``."""
    connection = config.connection(name)
    if connection is None or connection.endpoint is None:
        return Discovery(name, config.model_id(name), None, problem="no endpoint is set")
    from tokenbox.providers import BlockingProvider, EndpointMemory, Target  # as above

    result = Discovery(name, connection.model, connection.endpoint)
    target = Target(connection.endpoint, connection.model, kind=connection.kind)
    try:
        with BlockingProvider(replace(target, key=key(connection)), memory=EndpointMemory()) as provider:
            found = provider.capabilities()
            if not found.complete:
                provider.models()  # raises the server's error
    except TokenboxError as error:
        return replace(result, problem=error.message)
    figures = {limit.value: found.discovered.figure(limit) for limit in Limit}
    limits = ModelLimits(
        **{name: None if figure is None else replace(figure, date=day) for name, figure in figures.items()}
    )
    if limits == ModelLimits():
        return replace(result, problem="its server does not report limits")
    return replace(result, limits=limits, kept=keep_answer(connection.endpoint, connection.model, limits))


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """The known limits and tokenizer of a model. None is unknown, and never 0.

    ``tokenizer_name``: the tokenizer from the settings, else the model's family. ``sources``: the source of
    each field. ``configured``: the model is in the settings.
    """

    id: str
    context_window: int | None
    max_input_tokens: int | None
    max_output_tokens: int | None
    tokenizer_name: str | None
    sources: Mapping[str, str] = field(default_factory=dict)
    configured: bool = False

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self, "id context_window max_input_tokens max_output_tokens tokenizer_name configured sources"
        )


def capabilities(query: str = "", *, config: Config | None = None) -> list[ModelCapabilities]:
    """List models and their limits: those of the settings first, then matches of ``query`` in the catalog.

    An empty query lists all models of the catalog under their makers' names. Raises ``InvalidPolicy`` for a
    query that is not text.
    """
    if not isinstance(query, str):
        raise InvalidPolicy(f"a query is a model's name, or words of it, not {shown(query)}.", field="query")
    settings = settings_of(config)
    wanted = query.strip().lower()
    own = [name for name in settings.names("models") if wanted in name.lower()]
    known = catalog.find(query, configured=settings.catalog_limits(), makers_only=not wanted)
    return [_capabilities(name, settings) for name in dict.fromkeys((*own, *(info.id for info in known)))]


def settings_of(config: object) -> Config:
    """Return the settings of a call: those of the folder by default. Raises ``PolicyError``."""
    if config is None:
        return current()
    if not isinstance(config, Config):
        raise PolicyError(f"config is a Config of tokenbox.config.load, not {shown(config)}.")
    return config


def _capabilities(name: str, config: Config) -> ModelCapabilities:
    """Return the capabilities of a model, by its id or a NAME of ``[models.NAME]``."""
    policy = config.policy_for(name)
    settings = Stated(context_window=config.stated(name).context_window)
    figures = resolve_figures(
        policy.model, settings=settings, server=config.server_said(name), corrections=config.catalog_limits()
    )
    sources = {_TOKENS[name]: source for name, source in figures.sources.items() if name in _TOKENS}
    tokenizer = policy.tokenizer
    if tokenizer is not None:
        sources["tokenizer_name"] = policy.sources["tokenizer"]
    elif figures.family is not None:
        tokenizer, sources["tokenizer_name"] = figures.family.name, figures.family.source
    return ModelCapabilities(
        name,
        figures.context_window,
        figures.max_input,
        figures.max_output,
        tokenizer,
        sources,
        name in config.names("models"),
    )


_TOKENS = {
    "context_window": "context_window",
    "max_input": "max_input_tokens",
    "max_output": "max_output_tokens",
}


def model_name(model: object) -> str | None:
    """Return the name of a model, or None. Raises ``NoTokenizer`` for anything else."""
    if model is None or (isinstance(model, str) and model.strip()):
        return model
    raise NoTokenizer(f"a model is a name such as 'gpt-4o', not {shown(model)}.", remedies=[])
