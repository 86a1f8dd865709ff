"""Read the gateway's settings from the configuration: files, environment, flags."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import platformdirs

from tokenbox.config import Config, load
from tokenbox.config.errors import ConfigCode, ConfigError
from tokenbox.config.setting import Level, setting_text
from tokenbox.config.trust import is_loopback, may_have_key, not_sent, own_paths
from tokenbox.gateway.protocols import PROTOCOLS
from tokenbox.gateway.settings import (
    Fit,
    GatewaySettings,
    Mode,
    ModelSettings,
    RequestLimits,
    UpstreamSettings,
    WhenAway,
)
from tokenbox.policy.guard import Uncertain
from tokenbox.providers.errors import InvalidTarget
from tokenbox.providers.target import ApiKey, root_of
from tokenbox.store.bundles import bundles_of

_POLICY = ("max_ctx", "reserve_out", "headroom", "tokenizer", "mode", "alias_of", "overflow")
_SHORTEST_ADMIN_KEY = 16
# Fields of UpstreamSettings, GatewaySettings and RequestLimits that are settings, too.
_OF_UPSTREAM = ("kind", "models", "concurrency", "queue", "ask_usage", "cache_marks")
_AS_THEY_ARE = ("port", "workers", "admin_port", "low_water", "summary_model")
_SECONDS = tuple(f"{what}_seconds" for what in ("head", "body", "send", "idle", "total", "drain"))
_ROUTES = {protocol.name: path for path, protocol in PROTOCOLS.items()}


def settings_from(
    folder: str,
    flags: Mapping[str, object],
    upstreams: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    warn: Callable[[Iterable[str]], None] = lambda _: None,
) -> GatewaySettings:
    """Return the settings for ``folder``. Calls ``warn`` with what is not understood in them.

    ``upstreams``, as ``URL`` or ``NAME=URL``, replace those of the files. Raises ``ConfigError`` and
    ``InvalidTarget``.
    """
    env = os.environ if env is None else env
    config = load(folder, env, flags)
    warn(config.problems)
    servers = _upstreams_of_flags(upstreams) or [
        _upstream(config, name, env) for name in config.names("upstreams")
    ]
    own = _values(config, "gateway")
    seconds: dict[str, Any] = {name: float(own(name) or 0) for name in _SECONDS}
    host = own("host") or "127.0.0.1"
    keys_required = own("keys") is True or (own("keys") is None and not is_loopback(host))
    return GatewaySettings(
        upstreams=tuple(servers),
        mode=Mode(own("mode")),
        modes=_modes(config),
        models={name: _model(config, name) for name in config.names("models")},
        default_model=_model(config, None),
        limits=RequestLimits(body=own("body_bytes"), bodies=own("bodies_bytes"), **seconds),
        host=host,
        admin_host=own("admin_host") or "127.0.0.1",
        **{name: own(name) for name in _AS_THEY_ARE},
        admin_key=_admin_key(config, env),
        proof=str(bundles_of(Path(folder))) if config.value("proof.write") is True else None,
        proof_texts=config.value("proof.texts") is True,
        proof_keys=tuple(map(str, own_paths(config.setting("proof.sign_with")))),
        fit=tuple(map(Fit, own("fit"))),
        database=database_of(config),
        redis=_own_store(config, "gateway.redis"),
        state=str(own("state") or Path(platformdirs.user_state_dir("tokenbox", appauthor=False), "gateway")),
        keys_required=keys_required,
        uncertain=Uncertain(str(config.value("policy.uncertain"))),
        cors_origins=_origins(config, keys_required=keys_required),
        when_away=WhenAway(own("when_away")),
        prices=config.catalog_prices(),
        files=config.files,
    )


def database_of(config: Config) -> str | None:
    """Return the database of keys and ledger; None for the user's own.

    Raises ``ConfigError`` if a project's file names it: it could bring a database with a key that its author
    knows, or send the names of clients and models elsewhere.
    """
    return _own_store(config, "gateway.database") or _own_store(config, "store.database")


def _own_store(config: Config, key: str) -> str | None:
    setting = config.setting(key)
    if setting.origin.level is Level.PROJECT:
        name = "redis" if key == "gateway.redis" else "database"
        raise ConfigError(
            f"{key} is set in {setting.source}, and a project's file may not choose where the gateway keeps "
            f"keys, quotas and ledger. Name the place yourself: --{name} {setting_text(setting.value)}, or "
            f"TOKENBOX_GATEWAY_{name.upper()} in the environment.",
            code=ConfigCode.BAD_VALUE,
            key=key,
        )
    return None if setting.value is None else str(setting.value)


def _origins(config: Config, *, keys_required: bool) -> tuple[str, ...]:
    """Return the sites whose pages may ask.

    Raises ``ConfigError`` if a project's file names them for a gateway without keys: its author's page could
    then spend this user's keys of upstreams.
    """
    setting = config.setting("gateway.cors_origins")
    origins = tuple(map(str, cast("Sequence[object]", setting.value)))
    if origins and not keys_required and setting.origin.level is Level.PROJECT:
        raise ConfigError(
            f"{setting.name} is set in {setting.source}, and without keys a project's file may not let pages "
            f"of {origins[0][:100]} use this gateway. Start it with --keys, or name the sites yourself: "
            f"TOKENBOX_GATEWAY_CORS_ORIGINS={','.join(origins)[:200]}",
            code=ConfigCode.BAD_VALUE,
            key=setting.name,
        )
    return origins


def _admin_key(config: Config, env: Mapping[str, str]) -> str | None:
    setting = config.setting("gateway.admin_key_env")
    if setting.value is None:
        return None
    variable = str(setting.value)
    if setting.origin.level is Level.PROJECT and not variable.startswith("TOKENBOX_"):
        raise ConfigError(
            f"gateway.admin_key_env in {setting.source} names {variable}: a project's file may only name a "
            "variable that begins with TOKENBOX_. Call it TOKENBOX_ADMIN_KEY, or set it for yourself: "
            f"tokenbox config set --user gateway.admin_key_env {variable}",
            code=ConfigCode.SECRET,
            key="gateway.admin_key_env",
        )
    key = env.get(variable, "").strip()
    if len(key) < _SHORTEST_ADMIN_KEY:
        raise ConfigError(
            f"gateway.admin_key_env names {variable}, which has {len(key)} characters. Set it to a secret of "
            f"{_SHORTEST_ADMIN_KEY} characters or more.",
            code=ConfigCode.BAD_VALUE,
            key="gateway.admin_key_env",
        )
    return key


def _values(config: Config, *table: str) -> Callable[[str], Any]:
    """Return a function that returns the values in a table, of the types that the table of keys says."""
    return lambda name: config.value((*table, name))


def _upstreams_of_flags(texts: Sequence[str]) -> list[UpstreamSettings]:
    found: dict[str, UpstreamSettings] = {}
    for upstream in map(_upstream_of_flag, texts):
        first = found.setdefault(upstream.name, upstream)
        if first is not upstream:
            raise ConfigError(
                f"two upstreams are called {upstream.name}: {first.url} and {upstream.url}. Give each a "
                "name of its own: --upstream NAME=URL",
                code=ConfigCode.AMBIGUOUS,
                key="upstreams",
            )
    return list(found.values())


def _upstream_of_flag(text: str) -> UpstreamSettings:
    name, separator, url = text.partition("=")
    if not separator or "/" in name:
        name, url = "", text
    root = root_of(url)
    return UpstreamSettings(name or root.partition("://")[2], root)


def _upstream(config: Config, name: str, env: Mapping[str, str]) -> UpstreamSettings:
    value = _values(config, "upstreams", name)
    url = value("url")
    if url is None:
        raise ConfigError(
            f'upstreams.{name} has no url. Write where the server is, as url = "http://127.0.0.1:8080".',
            code=ConfigCode.BAD_VALUE,
            key=f"upstreams.{name}.url",
        )
    variable = value("key_env")
    key = None if variable is None else _key_in(variable, env, f"upstreams.{name}.key_env")
    address, more = (config.setting(("upstreams", name, part)) for part in ("url", "replicas"))
    replicas = tuple(root_of(str(one)) for one in more.value)
    for setting, servers in ((address, (root_of(str(url)),)), (more, replicas)):
        refused = next(
            (one for one in servers if variable and not may_have_key(replace(setting, value=one), variable)),
            None,
        )
        if refused is not None:
            raise ConfigError(
                not_sent(setting, refused, str(variable)),
                code=ConfigCode.SECRET,
                key=f"upstreams.{name}.key_env",
            )
    return UpstreamSettings(
        name=name,
        url=root_of(str(url)),
        key=key,
        replicas=replicas,
        queue_seconds=float(value("queue_seconds")),
        **{setting: value(setting) for setting in _OF_UPSTREAM},
    )


def _key_in(variable: str, env: Mapping[str, str], setting: str) -> str:
    """Return an upstream's key. Raises ``ConfigError`` if it is not set, or cannot be in a header."""
    try:
        return ApiKey(env[variable]).reveal()
    except KeyError:
        problem = f", which is not set. Set it, then start again: export {variable}=KEY"
    except InvalidTarget as error:
        problem = f": {error.message}"
    raise ConfigError(f"{setting} names {variable}{problem}", code=ConfigCode.BAD_VALUE, key=setting)


def _model(config: Config, name: str | None) -> ModelSettings:
    """Return what ``[models.NAME]`` sets; without a name, what ``[policy]`` sets."""
    if name is None:
        value = _values(config, "policy")
        return ModelSettings(**{part: value(part) for part in ("max_ctx", "reserve_out", "headroom")})
    value = _values(config, "models", name)
    found = {part: value(part) for part in _POLICY}
    mode = found["mode"]
    return ModelSettings(**{**found, "mode": None if mode is None else Mode(mode)})


def _modes(config: Config) -> dict[str, Mode]:
    found = {}
    for name in config.names("routes"):
        if name not in _ROUTES:
            raise ConfigError(
                f"there is no route {name!r}. There are: {', '.join(_ROUTES)}.",
                code=ConfigCode.UNKNOWN_KEY,
                key=f"routes.{name}",
            )
        mode = config.value(("routes", name, "mode"))
        if mode is not None:
            found[_ROUTES[name]] = Mode(str(mode))
    return found
