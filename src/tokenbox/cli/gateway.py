"""``tokenbox serve`` runs the gateway; ``tokenbox gateway`` manages keys, users and teams, and checks it."""

from __future__ import annotations

from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError

import typer

import tokenbox
from tokenbox.cli import clock, terminal
from tokenbox.cli.options import AS_JSON, argument, flag, option
from tokenbox.cli.outcome import Commands, Exit, UsageProblem, group
from tokenbox.cli.streams import write_bytes, write_error, write_record, write_text, write_warnings
from tokenbox.errors import needing
from tokenbox.ledger.quota import Quota
from tokenbox.ledger.when import expiry
from tokenbox.records import from_json, to_record
from tokenbox.store.owners import Owner, OwnerKind

if TYPE_CHECKING:
    from tokenbox.gateway.settings import GatewaySettings
    from tokenbox.store.stores import Store


def serve(
    upstream: list[str] | None = option(
        "--upstream -u [NAME=]URL", "An LLM server, such as http://127.0.0.1:8080; may be repeated."
    ),
    host: str | None = option("--host HOST", "The address to listen on. Default: 127.0.0.1."),
    port: int | None = option("--port -p PORT", "The port to listen on. Default: 8640."),
    mode: str | None = option(
        "--mode <observe|enforce|fit>", "Pass on, refuse or shorten requests that do not fit."
    ),
    database: str | None = option("--database URL", "For keys and the ledger: a file, or postgresql://..."),
    redis: str | None = option("--redis URL", "For quotas of several replicas: redis://..."),
    keys: bool | None = option("--keys/--no-keys", "Require a gateway key from every client."),
    workers: int | None = option("--workers -w N", "Processes that share the port.", min=1),
    admin_port: int | None = option(
        "--admin-port PORT", "The operator's port: /metrics, /readyz and /admin."
    ),
    quiet: bool = flag("--quiet", "Log only starts, stops and refusals."),
) -> None:
    """Run the gateway. It counts each request, refuses what does not fit, and reports usage.

    Example: tokenbox serve --upstream http://127.0.0.1:8080
    """
    from tokenbox.gateway.configured import settings_from

    with needing("the gateway", "gateway"):
        from tokenbox.gateway.run import run

    flags = {
        "gateway.host": host,
        "gateway.port": port,
        "gateway.workers": workers,
        "gateway.admin_port": admin_port,
        "gateway.mode": mode,
        "gateway.database": database,
        "gateway.redis": redis,
        "gateway.keys": keys,
    }

    def load() -> GatewaySettings:
        return settings_from(".", flags, upstream or [], warn=write_warnings)

    settings = load()
    if not settings.upstreams:
        raise UsageProblem("no upstream is named. Name one: tokenbox serve --upstream http://127.0.0.1:8080")
    run(settings, load, lambda text: write_bytes(text.encode(), flush=True), write_error, quiet=quiet)


_MAX_ANSWER = 1 << 20

DATABASE = option("--database URL", "The database of keys: a file, or postgresql://...")
QUOTAS = option("--quota -q AMOUNT/WINDOW", "Such as '9000 tokens/day' or '$5/month'; may be repeated.")


def build_app() -> typer.Typer:
    app = group("Manage gateway keys, users and teams; check a gateway.", {"status": status, "check": check})
    keys: Commands = {"create": create, "list": list_keys, "revoke": revoke}
    app.add_typer(group("Create, list and revoke gateway keys.", keys), name="keys")
    for kind in ("user", "team"):
        app.add_typer(_owners_app(kind), name=f"{kind}s")
    return app


def create(
    name: str = argument("NAME", "The name of the key, such as its user."),
    models: list[str] | None = option("--model -m PATTERN", "Models it may use; repeatable. Default: all."),
    modes: list[str] | None = option(
        "--mode MODE", "Modes it may use, its default first; repeatable. Default: all."
    ),
    quotas: list[str] | None = QUOTAS,
    expires: str | None = option("--expires DAY", "The day it expires, such as 2027-01-31."),
    user: str | None = option("--user NAME", "The user whose quotas it shares."),
    team: str | None = option("--team NAME", "The team whose quotas it shares."),
    database: str | None = DATABASE,
    as_json: bool = AS_JSON,
) -> None:
    """Create a key. It is shown once; only its hash is stored.

    Example: tokenbox gateway keys create alice --quota '9000 tokens/day'
    """
    from tokenbox.gateway.settings import Mode

    bad = [mode for mode in modes or [] if mode not in set(Mode)]
    if bad:
        raise UsageProblem(f"--mode is observe, enforce or fit, not {bad[0][:40]!r}.")
    limits = [Quota.parse(text) for text in quotas or []]
    now = clock.now()
    with _store(database) as store:
        key, secret = store.keys.create(
            name,
            now,
            models=models or (),
            modes=modes or (),
            quotas=limits,
            expires=None if expires is None else expiry(expires, now),
            user=user,
            team=team,
        )
    if as_json:
        write_record("gateway.key", {**key.to_dict(), "key": secret})
        return
    write_error(f"The key {key.name} ({key.id}) is shown only this once:\n")
    write_text(f"{secret}\n")


def list_keys(database: str | None = DATABASE, as_json: bool = AS_JSON) -> None:
    """List the keys, without their secrets.

    Example: tokenbox gateway keys list
    """
    with _store(database) as store:
        keys = store.keys.all()
        if as_json:
            write_record("gateway.keys", {"keys": [key.to_dict() for key in keys]})
            return
        if not keys:
            write_error("There are no keys yet. Make one: tokenbox gateway keys create NAME\n")
            return
        now = clock.now()
        rows = [
            [
                key.name,
                key.id,
                "valid" if key.valid_at(now) else "revoked" if key.revoked else "expired",
                ", ".join(owner.id for owner in key.owners) or "-",
                ", ".join(map(str, key.quotas)) or "-",
                ", ".join(key.modes) or "all",
                ", ".join(key.models) or "all",
            ]
            for key in keys
        ]
        terminal.show_table(["name", "id", "state", "of", "quotas", "modes", "models"], rows)


def revoke(
    name: str = argument("NAME", "The name or id of the key."),
    database: str | None = DATABASE,
    as_json: bool = AS_JSON,
) -> None:
    """Revoke a key permanently. Running gateways refuse it within two seconds.

    Example: tokenbox gateway keys revoke alice
    """
    with _store(database) as store:
        key = store.keys.revoke(name, clock.now())
        if as_json:
            write_record("gateway.key", key.to_dict())
        else:
            write_error(f"The key {key.name} ({key.id}) is revoked.\n")


def _owners_app(kind: str) -> typer.Typer:

    def put(
        name: str = argument("NAME", "The name of the user or team."),
        quotas: list[str] | None = QUOTAS,
        models: list[str] | None = option(
            "--model -m PATTERN", "Models its keys may use; repeatable. Default: all."
        ),
        database: str | None = DATABASE,
        as_json: bool = AS_JSON,
    ) -> None:
        limits = tuple(Quota.parse(text) for text in quotas or [])
        with _store(database) as store:
            given = Owner(OwnerKind(kind), name, limits, tuple(models or ()))
            owner = store.owners.put(given, clock.now())
        if as_json:
            write_record("gateway.owner", owner.to_dict())
        else:
            shown = ", ".join(map(str, owner.quotas)) or "no quotas"
            write_error(f"The {kind} {owner.name} has {shown}. All its keys share them.\n")

    def show(database: str | None = DATABASE, as_json: bool = AS_JSON) -> None:
        with _store(database) as store:
            owners = store.owners.all(OwnerKind(kind))
            if as_json:
                write_record(f"gateway.{kind}s", {f"{kind}s": [owner.to_dict() for owner in owners]})
                return
            if not owners:
                write_error(f"There are no {kind}s yet. Make one: tokenbox gateway {kind}s set NAME\n")
                return
            rows = [
                [owner.name, ", ".join(map(str, owner.quotas)) or "-", ", ".join(owner.models) or "all"]
                for owner in owners
            ]
            terminal.show_table(["name", "quotas", "models"], rows)

    def remove(
        name: str = argument("NAME", "The name of the user or team."),
        database: str | None = DATABASE,
        as_json: bool = AS_JSON,
    ) -> None:
        with _store(database) as store:
            store.owners.remove(OwnerKind(kind), name)
            if as_json:
                write_record("gateway.removed", {"removed": name})
            else:
                write_error(f"The {kind} {name} is removed.\n")

    for command, about, example in (
        (
            put,
            f"Create a {kind}, or change its quotas. All keys of the {kind} share them.",
            "set research --quota '90000 tokens/day'",
        ),
        (show, f"List the {kind}s.", "list"),
        (remove, f"Remove a {kind} that has no keys.", "remove research"),
    ):
        command.__doc__ = f"{about}\n\nExample: tokenbox gateway {kind}s {example}"
    commands: Commands = {"set": put, "list": show, "remove": remove}
    return group(f"Manage {kind}s, whose gateway keys share quotas.", commands)


def status(
    url: str = argument(
        "URL", "The address of the gateway, or of its operator's listener.", "http://127.0.0.1:8640"
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Ask a running gateway whether it is ready. Exit status 1 if it is not.

    Example: tokenbox gateway status http://127.0.0.1:8640
    """
    from urllib.request import urlopen

    if not url.startswith(("http://", "https://")):
        raise UsageProblem(f"{url[:60]!r} is not an address such as http://127.0.0.1:8640.")
    try:
        with urlopen(f"{url.rstrip('/')}/readyz", timeout=10) as answer:  # noqa: S310  # checked above
            data = answer.read(_MAX_ANSWER)
    except HTTPError as error:
        with error:
            if error.code == HTTPStatus.NOT_FOUND:
                raise UsageProblem(
                    f"{url} does not report its state. If the gateway has an operator's listener, name that: "
                    "tokenbox gateway status http://127.0.0.1:ADMIN_PORT"
                ) from None
            data = error.read(_MAX_ANSWER)
    except (URLError, HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise UsageProblem(
            f"no gateway answers at {url}: {getattr(reason, 'strerror', None) or reason}. "
            "Start one: tokenbox serve --upstream http://127.0.0.1:8080"
        ) from None
    found, checks = _readiness(data, url)
    if as_json:
        write_record("gateway.status", found)
    else:
        rows = [
            [name, "ok" if check.get("ok") else "NOT OK", _details(check)] for name, check in checks.items()
        ]
        write_text(f"{found.get('status', 'unknown')}\n")
        terminal.show_table(["what", "state", "details"], rows)
    if found.get("status") != "ready":
        raise typer.Exit(Exit.DIFFERENT)


def check(as_json: bool = AS_JSON) -> None:
    """Check the settings of the gateway without starting it.

    Example: tokenbox gateway check
    """
    from tokenbox.gateway.configured import settings_from

    with needing("the gateway", "gateway"):
        from tokenbox.gateway.run import check as check_settings

    settings = settings_from(".", {})
    if not settings.upstreams:
        raise UsageProblem(
            "no upstream is configured. Add one: tokenbox config set upstreams.local.url http://127.0.0.1:8080"
        )
    check_settings(settings)
    shown = {
        "listens": f"{settings.host}:{settings.port}",
        "mode": settings.mode.value,
        "keys": settings.keys_required,
        "upstreams": [
            to_record(upstream, "name url models key", key=upstream.key is not None)
            for upstream in settings.upstreams
        ],
    }
    if as_json:
        write_record("gateway.check", shown)
        return
    write_text(f"The configuration is valid: {shown['listens']}, mode {settings.mode}.\n")


def _readiness(data: bytes, url: str) -> tuple[dict[str, Any], dict[str, dict[str, object]]]:
    """Return the answer of a gateway, and its checks. Raises :class:`UsageProblem` for another server's."""
    found = from_json(data or b"{}")
    checks = found.get("checks", {}) if isinstance(found, dict) else None
    if not isinstance(checks, dict) or not all(isinstance(check, dict) for check in checks.values()):
        raise UsageProblem(
            f"{url} is not a gateway: its /readyz is not the record of one. "
            "Start one: tokenbox serve --upstream http://127.0.0.1:8080"
        )
    return found, checks


def _details(found: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in found.items() if name != "ok" and value is not None)


def _store(database: str | None) -> Store:
    from tokenbox.gateway.configured import database_of
    from tokenbox.store.stores import open_store

    return open_store(database_of(tokenbox.config.load(".", None, {"gateway.database": database})))
