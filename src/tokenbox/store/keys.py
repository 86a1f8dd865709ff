"""Gateway keys: stored as hashes, shown once when they are created."""

from __future__ import annotations

import hashlib
import json
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tokenbox.ledger.call import time_text
from tokenbox.ledger.quota import Quota
from tokenbox.records import to_record
from tokenbox.store.database import insert
from tokenbox.store.errors import StoreError
from tokenbox.store.owners import Owner, OwnerKind, allows, check_quotas, find_owner, no_owner

if TYPE_CHECKING:
    from datetime import datetime

    from tokenbox.store.database import Database, Transaction

# The prefix makes a leaked key easy to find, for scanners, too. The rest has 256 bits.
PREFIX = "tbk_"
_ID_LENGTH = 10
_COLUMNS = "id, name, digest, models, modes, quotas, created, expires, revoked, user_name, team"
_CREATE = f"{insert('tokenbox_keys', _COLUMNS.split(', '))} ON CONFLICT (name) DO NOTHING"


class KeyProblem(StoreError, code="gateway_key"):
    """A gateway key cannot be created or does not exist."""


@dataclass(frozen=True, slots=True)
class GatewayKey:
    """The rights of a key. ``models`` are patterns, ``modes`` names; an empty tuple means all.

    ``owners`` are its user and its team, whose quotas and models apply, too. The secret is not stored.
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
        return allows(self.models, model) and all(owner.allows(model) for owner in self.owners)

    @property
    def limits(self) -> tuple[tuple[str, Quota], ...]:
        """All quotas that apply to it, each with the id that it is counted under."""
        own = [(self.id, quota) for quota in self.quotas]
        return (*own, *((owner.id, quota) for owner in self.owners for quota in owner.quotas))

    def owner(self, kind: OwnerKind) -> str | None:
        """Return the name of its user or its team."""
        return next((owner.name for owner in self.owners if owner.kind is kind), None)

    def valid_at(self, now: datetime) -> bool:
        return self.revoked is None and (self.expires is None or time_text(now) < self.expires)

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self,
            "id name user team models modes quotas created expires revoked",
            user=self.owner(OwnerKind.USER),
            team=self.owner(OwnerKind.TEAM),
            quotas=[str(quota) for quota in self.quotas],
        )


def digest_of(secret: str) -> str:
    """Return the digest that is stored of a key. One round of SHA-256 hides its 256 random bits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class Keys:
    """The keys in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
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
        """Create a key, and return it with its secret, which is stored nowhere.

        Raises :class:`KeyProblem`, and ``OwnerProblem`` for a user or team that does not exist.
        """
        if not name.strip() or len(name) > 200 or not name.isprintable():
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
            owners = _owners(transaction, user, team)
            if not transaction.change(_CREATE, values):
                raise KeyProblem(
                    f"there is a key named {name!r} already, and a revoked key keeps its name. "
                    "Choose another name."
                )
        return replace(key, owners=owners), secret

    def find(self, secret: str) -> GatewayKey | None:
        """Return the key with that secret, even a revoked or expired one; None if no key has it."""
        return self._one("digest", digest_of(secret))

    def named(self, name: str) -> GatewayKey | None:
        return self._one("name", name) or self._one("id", name)

    def all(self) -> list[GatewayKey]:
        with self._database.reading() as transaction:
            rows = transaction.rows(f"SELECT {_COLUMNS} FROM tokenbox_keys ORDER BY created, id")
            return [_key(row, transaction) for row in rows]

    def revoke(self, name: str, now: datetime) -> GatewayKey:
        """Revoke the key of that name or id, permanently. Raises :class:`KeyProblem` if no key has it."""
        key = self._existing(name)
        with self._database.writing() as transaction:
            transaction.change(
                "UPDATE tokenbox_keys SET revoked = :now WHERE id = :id AND revoked IS NULL",
                {"id": key.id, "now": time_text(now)},
            )
        return self.named(key.id) or key

    def limit(self, name: str, quotas: Sequence[Quota]) -> GatewayKey:
        """Change the quotas of the key of that name or id. Raises :class:`KeyProblem`."""
        check_quotas(quotas)
        key = self._existing(name)
        with self._database.writing() as transaction:
            transaction.change(
                "UPDATE tokenbox_keys SET quotas = :quotas WHERE id = :id",
                {"id": key.id, "quotas": json.dumps([str(quota) for quota in quotas])},
            )
        return replace(key, quotas=tuple(quotas))

    def _existing(self, name: str) -> GatewayKey:
        key = self.named(name)
        if key is None:
            raise KeyProblem(f"there is no key {name!r}. `tokenbox gateway keys list` lists the keys.")
        return key

    def _one(self, column: str, value: str) -> GatewayKey | None:
        with self._database.reading() as transaction:
            rows = transaction.rows(
                f"SELECT {_COLUMNS} FROM tokenbox_keys WHERE {column} = :value",
                {"value": value},
            )
            return _key(rows[0], transaction) if rows else None


def _owners(transaction: Transaction, user: str | None, team: str | None) -> tuple[Owner, ...]:
    """Return the owners of a key. Raises ``OwnerProblem`` for one that does not exist."""
    found = []
    for kind, name in ((OwnerKind.USER, user), (OwnerKind.TEAM, team)):
        if name is not None:
            owner = find_owner(transaction, kind, name)
            if owner is None:
                raise no_owner(kind, name, f"Make it: tokenbox gateway {kind}s set {shlex.quote(name[:60])}")
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
