"""The operator's routes, on a listener of their own: keys, users and teams.

``/metrics`` and ``/readyz`` on that listener need no key, so its port must not be public. Everything under
``/admin`` needs the operator's key, as ``Authorization: Bearer KEY``. Without a configured key it is refused.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from tokenbox.errors import TokenboxError
from tokenbox.gateway.asgi import Reply
from tokenbox.gateway.authentication import bearer
from tokenbox.gateway.refusals import Refusal, invalid_request, unauthorized, unavailable
from tokenbox.gateway.services import GatewayServices, now
from tokenbox.gateway.settings import Mode
from tokenbox.gateway.strict_json import read_object
from tokenbox.ledger.quota import Bucket, Quota
from tokenbox.ledger.when import expiry
from tokenbox.store.errors import StoreUnavailable
from tokenbox.store.owners import Owner, OwnerKind

if TYPE_CHECKING:
    from tokenbox.gateway.application import Application, Handler
    from tokenbox.gateway.incoming import Incoming
    from tokenbox.store.keys import GatewayKey

Answer = dict[str, Any]
_KEY_FIELDS = frozenset(("name", "user", "team", "models", "modes", "quotas", "expires"))
_OWNER_FIELDS = frozenset(("models", "quotas"))
_CREATED = 201


class Admin:
    """Each method answers one route."""

    def __init__(self, services: GatewayServices) -> None:
        self.services = services

    def add_to(self, app: Application) -> None:
        for method, path, work in (
            ("GET", "/admin/keys", self.keys),
            ("POST", "/admin/keys", self.create),
            ("GET", "/admin/keys/{name}", self.key),
            ("PATCH", "/admin/keys/{name}", self.limit),
            ("DELETE", "/admin/keys/{name}", self.revoke),
        ):
            app.add(method, path, self._for_operator(work))
        for kind in OwnerKind:
            path = f"/admin/{kind}s"
            app.add("GET", path, self._for_operator(partial(self.owners, kind)))
            app.add("GET", f"{path}/{{name}}", self._for_operator(partial(self.owner, kind)))
            app.add("PUT", f"{path}/{{name}}", self._for_operator(partial(self.put_owner, kind)))
            app.add("DELETE", f"{path}/{{name}}", self._for_operator(partial(self.remove_owner, kind)))

    def _for_operator(self, work: Callable[[Incoming], Awaitable[Reply]]) -> Handler:
        async def answer(incoming: Incoming, _: str) -> Reply:
            own, given = self.services.settings.admin_key, bearer(incoming)
            if own is None:
                raise Refusal(
                    403,
                    "admin_key_unset",
                    "No operator's key is set. Set gateway.admin_key_env to the name of the environment "
                    "variable that has it, and restart the gateway.",
                )
            if given is None or not hmac.compare_digest(given.encode("utf-8", "replace"), own.encode()):
                raise unauthorized(
                    "invalid_admin_key",
                    "The operator's key is needed: send it as `Authorization: Bearer KEY`.",
                )
            try:
                return await work(incoming)
            except StoreUnavailable as error:
                message = "The store of keys does not answer. Try again shortly."
                raise unavailable(error.code, message, 2) from None
            except TokenboxError as error:
                raise Refusal(_STATUS.get(error.code, 400), error.code, error.message) from None

        return answer

    async def keys(self, incoming: Incoming) -> Reply:
        found = await self._ask(self.services.stores.store.keys.all)
        return Reply.of({"keys": [key.to_dict() for key in found]})

    async def create(self, incoming: Incoming) -> Reply:
        """Create a key. Only this answer contains its secret."""
        body = await self._body(incoming, _KEY_FIELDS)
        modes = _texts(body, "modes")
        if unknown := [mode for mode in modes if mode not in set(Mode)]:
            raise invalid_request(f"modes are observe, enforce and fit, not {unknown[0][:40]!r}.", "modes")
        expires, at = _text(body, "expires"), now()
        key, secret = await self._ask(
            lambda: self.services.stores.store.keys.create(
                _text(body, "name") or "",
                at,
                models=_texts(body, "models"),
                modes=modes,
                quotas=_quotas(body),
                expires=None if expires is None else expiry(expires, at),
                user=_text(body, "user"),
                team=_text(body, "team"),
            )
        )
        return Reply.of({**key.to_dict(), "key": secret}, _CREATED)

    async def key(self, incoming: Incoming) -> Reply:
        """Return a key, and the usage of its quotas in their current windows."""
        key = await self._named(incoming)
        return Reply.of({**key.to_dict(), "usage": await self._usage(key.limits)})

    async def limit(self, incoming: Incoming) -> Reply:
        """Change the quotas of a key. Their usage so far is kept."""
        body = await self._body(incoming, frozenset(("quotas",)))
        if body.get("quotas") is None:
            raise invalid_request("quotas is missing: a list of quotas, or [] to remove them.", "quotas")
        name, quotas = _name_of(incoming), _quotas(body)
        await self._named(incoming)
        key = await self._ask(lambda: self.services.stores.store.keys.limit(name, quotas))
        return Reply.of(key.to_dict())

    async def revoke(self, incoming: Incoming) -> Reply:
        key = await self._named(incoming)
        revoked = await self._ask(lambda: self.services.stores.store.keys.revoke(key.id, now()))
        return Reply.of(revoked.to_dict())

    async def _named(self, incoming: Incoming) -> GatewayKey:
        name = _name_of(incoming)
        key: GatewayKey | None = await self._ask(lambda: self.services.stores.store.keys.named(name))
        if key is None:
            raise Refusal(404, "no_such_key", f"There is no key {name[:100]!r}.")
        return key

    async def owners(self, kind: OwnerKind, incoming: Incoming) -> Reply:
        found = await self._ask(lambda: self.services.stores.store.owners.all(kind))
        return Reply.of({f"{kind}s": [owner.to_dict() for owner in found]})

    async def owner(self, kind: OwnerKind, incoming: Incoming) -> Reply:
        """Return a user or team, and the usage of its quotas in their current windows."""
        name = _name_of(incoming)
        owner: Owner | None = await self._ask(lambda: self.services.stores.store.owners.find(kind, name))
        if owner is None:
            raise Refusal(404, f"no_such_{kind}", f"There is no {kind} {name[:100]!r}.")
        limits = tuple((owner.id, quota) for quota in owner.quotas)
        return Reply.of({**owner.to_dict(), "usage": await self._usage(limits)})

    async def put_owner(self, kind: OwnerKind, incoming: Incoming) -> Reply:
        body = await self._body(incoming, _OWNER_FIELDS)
        owner = Owner(kind, _name_of(incoming), _quotas(body), _texts(body, "models"))
        found = await self._ask(lambda: self.services.stores.store.owners.put(owner, now()))
        return Reply.of(found.to_dict())

    async def remove_owner(self, kind: OwnerKind, incoming: Incoming) -> Reply:
        name = _name_of(incoming)
        await self._ask(lambda: self.services.stores.store.owners.remove(kind, name))
        return Reply.of({"removed": name})

    async def _usage(self, limits: tuple[tuple[str, Quota], ...]) -> list[Answer]:
        at = now()
        buckets = [Bucket.at(owner, quota, at) for owner, quota in limits]
        levels = await self.services.stores.quotas.levels(buckets)
        return [
            {
                "of": level.bucket.key_id,
                "quota": str(level.bucket.quota),
                "unit": level.bucket.quota.unit.value,
                "used": level.used,
                "left": level.left,
                "ends": level.bucket.ends.isoformat(),
            }
            for level in levels
        ]

    async def _ask(self, question: Callable[[], Any]) -> Any:  # noqa: ANN401  # what the question returns
        return await self.services.stores.threads.ask(question)

    async def _body(self, incoming: Incoming, fields: frozenset[str]) -> Answer:
        limits = self.services.settings.limits
        body = read_object(await incoming.body(1 << 20, limits.body_seconds), limits)
        if unknown := sorted(body.keys() - fields):
            raise invalid_request(
                f"{unknown[0][:60]!r} is not a field of this; there are: {', '.join(sorted(fields))}."
            )
        return body


_STATUS = {"gateway_key": 409, "gateway_owner": 409, "quota_store_unavailable": 503}


def _name_of(incoming: Incoming) -> str:
    return incoming.path.split("/", 3)[3]


def _text(body: Answer, key: str) -> str | None:
    value = body.get(key)
    if value is not None and not isinstance(value, str):
        raise invalid_request(f"{key} is a text.", key)
    return value


def _texts(body: Answer, key: str) -> tuple[str, ...]:
    value = [] if body.get(key) is None else body[key]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise invalid_request(f"{key} is a list of texts.", key)
    return tuple(value)


def _quotas(body: Answer) -> tuple[Quota, ...]:
    return tuple(Quota.parse(text) for text in _texts(body, "quotas"))
