"""Gateway keys: stored hashed, shown once when they are made."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from tokenbox.ledger.call import time_text
from tokenbox.ledger.quota import Quota
from tokenbox.store.errors import StoreError
from tokenbox.store.owners import Owner, OwnerKind, check_quotas, find_owner, no_owner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from tokenbox.store.database import Database, Transaction

# The start makes a leaked key easy to find, for scanners too; the rest has 256 bits.
PREFIX = "tbk_"
_ID_LENGTH = 10
_COLUMNS = "id, name, digest, models, modes, quotas, created, expires, revoked, user_name, team"


class KeyProblem(StoreError):
    """A gateway key cannot be made or is not there."""

    code = "gateway_key"


@dataclass(frozen=True, slots=True)
class GatewayKey:
    """What a key may do. ``models`` are patterns, ``modes`` names; empty is all. The secret is not kept.

    ``owners``: its user and its team, whose quotas and models hold, too.
    """

    id: str
    name: str
    models: tuple[str, ...]
    modes: tuple[str, ...]
    quotas: tuple[Quota, ...]
    created: str
    expires: str | None
    revoked: str | None
    owners: tuple[Owner, ...] = ()

    def allows(self, model: str) -> bool:
        own = not self.models or any(fnmatchcase(model, pattern) for pattern in self.models)
        return own and all(owner.allows(model) for owner in self.owners)

    @property
    def limits(self) -> tuple[tuple[str, Quota], ...]:
        """Every quota that holds for it, with the id under which it is counted."""
        own = [(self.id, quota) for quota in self.quotas]
        return (*own, *((owner.id, quota) for owner in self.owners for quota in owner.quotas))

    def owner(self, kind: OwnerKind) -> str | None:
        """The name of its user or its team."""
        return next((owner.name for owner in self.owners if owner.kind is kind), None)

    def valid_at(self, now: datetime) -> bool:
        return self.revoked is None and (self.expires is None or time_text(now) < self.expires)

    def to_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "name": self.name,
            "user": self.owner(OwnerKind.USER),
            "team": self.owner(OwnerKind.TEAM),
            "models": list(self.models),
            "modes": list(self.modes),
            "quotas": [str(quota) for quota in self.quotas],
            "created": self.created,
            "expires": self.expires,
            "revoked": self.revoked,
        }


def digest_of(secret: str) -> str:
    """What is stored of a key. It has 256 random bits, so one round of SHA-256 hides it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class Keys:
    """The keys in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(  # a key has so many fields
        self,
        name: str,
        now: datetime,
        *,
        models: Sequence[str] = (),
        modes: Sequence[str] = (),
        quotas: Sequence[Quota] = (),
        expires: datetime | None = None,
        user: str | None = None,
        team: str | None = None,
    ) -> tuple[GatewayKey, str]:
        """The new key and its secret, which is nowhere afterwards.

        Raises :class:`KeyProblem` and, for a user or team that there is not, ``OwnerProblem``.
        """
        if not name.strip() or len(name) > 200 or not name.isprintable():  # noqa: PLR2004
            raise KeyProblem("a key needs a name of 1 to 200 characters, such as that of who uses it.")
        check_quotas(quotas)
        secret = PREFIX + secrets.token_urlsafe(32)
        key = GatewayKey(
            secrets.token_hex(_ID_LENGTH // 2),
            name,
            tuple(models),
            tuple(modes),
            tuple(quotas),
            time_text(now),
            None if expires is None else time_text(expires),
            None,
        )
        values = {
            **key.to_dict(),
            "digest": digest_of(secret),
            "models": json.dumps(key.models),
            "modes": json.dumps(key.modes),
            "quotas": json.dumps([str(quota) for quota in quotas]),
            "user_name": user,
            "team": team,
        }
        with self._database.writing() as transaction:
            if transaction.rows("SELECT 1 FROM tokenbox_keys WHERE name = :name", {"name": name}):
                raise KeyProblem(f"there is a key named {name!r} already. Revoke it, or choose another name.")
            owners = _owners(transaction, user, team)
            transaction.change(
                f"INSERT INTO tokenbox_keys ({_COLUMNS}) VALUES "  # names of columns
                "(:id, :name, :digest, :models, :modes, :quotas, :created, :expires, :revoked, "
                ":user_name, :team)",
                values,
            )
        return replace(key, owners=owners), secret

    def find(self, secret: str) -> GatewayKey | None:
        """The key with that secret, valid or not; None if there is none."""
        return self._one("digest", digest_of(secret))

    def named(self, name: str) -> GatewayKey | None:
        return self._one("name", name) or self._one("id", name)

    def all(self) -> list[GatewayKey]:
        with self._database.reading() as transaction:
            rows = transaction.rows(f"SELECT {_COLUMNS} FROM tokenbox_keys ORDER BY created, id")
            return [_key(row, transaction) for row in rows]

    def revoke(self, name: str, now: datetime) -> GatewayKey:
        """Revoke the key of that name or id, for good. Raises :class:`KeyProblem` if there is none."""
        key = self.named(name)
        if key is None:
            raise KeyProblem(f"there is no key {name!r}. `tokenbox gateway keys list` shows those there are.")
        with self._database.writing() as transaction:
            transaction.change(
                "UPDATE tokenbox_keys SET revoked = :now WHERE id = :id AND revoked IS NULL",
                {"id": key.id, "now": time_text(now)},
            )
        return self.named(key.id) or key

    def limit(self, name: str, quotas: Sequence[Quota]) -> GatewayKey:
        """Give the key of that name or id other quotas. Raises :class:`KeyProblem`."""
        check_quotas(quotas)
        key = self.named(name)
        if key is None:
            raise KeyProblem(f"there is no key {name!r}. `tokenbox gateway keys list` shows those there are.")
        with self._database.writing() as transaction:
            transaction.change(
                "UPDATE tokenbox_keys SET quotas = :quotas WHERE id = :id",
                {"id": key.id, "quotas": json.dumps([str(quota) for quota in quotas])},
            )
        return replace(key, quotas=tuple(quotas))

    def _one(self, column: str, value: str) -> GatewayKey | None:
        with self._database.reading() as transaction:
            rows = transaction.rows(
                f"SELECT {_COLUMNS} FROM tokenbox_keys WHERE {column} = :value",  # our own name
                {"value": value},
            )
            return _key(rows[0], transaction) if rows else None


def _owners(transaction: Transaction, user: str | None, team: str | None) -> tuple[Owner, ...]:
    """The owners of a key. Raises ``OwnerProblem`` for one that is not there."""
    found = []
    for kind, name in ((OwnerKind.USER, user), (OwnerKind.TEAM, team)):
        if name is not None:
            owner = find_owner(transaction, kind, name)
            if owner is None:
                raise no_owner(kind, name)
            found.append(owner)
    return tuple(found)


def _key(row: Sequence[Any], transaction: Transaction) -> GatewayKey:
    key_id, name, _digest, models, modes, quotas, created, expires, revoked, user, team = row
    return GatewayKey(
        key_id,
        name,
        tuple(json.loads(models)),
        tuple(json.loads(modes)),
        tuple(Quota.parse(text) for text in json.loads(quotas)),
        created,
        expires,
        revoked,
        _owners(transaction, user, team) if revoked is None else (),
    )
