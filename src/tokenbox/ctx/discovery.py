"""Discovery: servers are asked for the limits of their models."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tokenbox.catalog import Limit, ModelLimits
from tokenbox.config import current
from tokenbox.config.servers import keep_answer
from tokenbox.ctx.capabilities import model_name
from tokenbox.errors import TokenboxError
from tokenbox.models import (
    NO_LIMITS,
)
from tokenbox.records import to_record

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction

    from tokenbox.compose.requests import RequestCounter
    from tokenbox.config import Config, Connection
    from tokenbox.providers import ApiKey
    from tokenbox.tokenizers.protocol import Tokenizer

    Counting = str | Tokenizer | RequestCounter | Callable[[str], int]
    Tools = Sequence[Mapping[str, object]]
    Headroom = str | Decimal | Fraction | int | float


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
    key: Callable[[Connection], ApiKey | None] = lambda connection: None,  # noqa: ARG005
    today: dt.date | None = None,
) -> list[Discovery]:
    """Ask the servers of these models in the settings (default: all with an endpoint) for their limits.

    Only servers in the settings are asked. Their answers are saved with the date. From then on ``estimate``,
    ``pack``, ``enforce``, the command line and the gateway use them: settings override them, and they
    override published limits. ``key`` returns the API key of a connection, if it needs one. If a server does
    not answer, its result has a ``problem``.
    """
    settings = current() if config is None else config
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
    from tokenbox.providers import BlockingProvider, EndpointMemory, Target  # noqa: PLC0415  # as above

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
