"""What servers say of the models of the settings. They are asked when a caller says so, and never otherwise.

What was found counts in this process from then on, before anything published and after the settings
(ADR 007: opt-in; the server knows best what it was started with).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.catalog import Limit, Limits
from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tokenbox.config import Config, Connection
    from tokenbox.providers import Key


NOTHING = Limits()


@dataclass(frozen=True, slots=True)
class Discovery:
    """What the server of one model said; ``problem`` is why it said nothing, None if it did."""

    name: str
    model: str
    endpoint: str | None
    limits: Limits = NOTHING
    problem: str | None = None

    def to_dict(self) -> dict[str, object]:
        said = {limit.value: self.limits.figure(limit) for limit in Limit}
        return {
            "name": self.name,
            "model": self.model,
            "endpoint": self.endpoint,
            **{name: None if figure is None else figure.to_dict() for name, figure in said.items()},
            "problem": self.problem,
        }


_lock = threading.Lock()
_said: dict[tuple[str, str], Limits] = {}


def discover(
    names: Sequence[str],
    config: Config,
    key: Callable[[Connection], Key | None] = lambda connection: None,  # noqa: ARG005
) -> list[Discovery]:
    """Ask the servers of ``[models.NAME]``; ``key`` gives the key of a connection. Never raises for a server.

    What one says is remembered in this process.
    """
    return [_asked(name, config, key) for name in names]


def said_of(model: str, config: Config) -> Mapping[str, Limits]:
    """What was discovered of a model, by its id, as :func:`tokenbox.catalog.model` takes it."""
    if not _said:
        return {}
    own = config.connection(model)
    names = [model] if own is not None else config.names("models")
    model_id = config.model_id(model)
    for connection in map(config.connection, names):
        if connection is None or connection.model != model_id or connection.endpoint is None:
            continue
        found = _said.get((connection.endpoint, model_id))
        if found is not None:
            return {model_id: found}
    return {}


def forget() -> None:
    """Forget what servers said."""
    with _lock:
        _said.clear()


def _asked(name: str, config: Config, key: Callable[[Connection], Key | None]) -> Discovery:
    connection = config.connection(name)
    if connection is None or connection.endpoint is None:
        return Discovery(name, config.model_id(name), None, problem="no endpoint is set")
    try:
        found = _ask(connection, key(connection))
    except TokenboxError as error:
        return Discovery(name, connection.model, connection.endpoint, problem=error.message)
    if not any(found.figure(limit) for limit in Limit):
        return Discovery(
            name, connection.model, connection.endpoint, problem="its server says nothing of limits"
        )
    with _lock:
        _said[connection.endpoint, connection.model] = found
    return Discovery(name, connection.model, connection.endpoint, found)


def _ask(connection: Connection, key: Key | None) -> Limits:
    # Only who asks a server pays for what that takes.
    from tokenbox.providers import BlockingProvider, EndpointMemory, Kind, Target  # noqa: PLC0415

    target = Target(connection.endpoint, connection.model, kind=Kind(connection.kind), key=key)
    with BlockingProvider(target, memory=EndpointMemory()) as provider:
        found = provider.capabilities()
        if not found.complete:
            provider.models()  # which raises what is wrong with the server
        return found.discovered
