"""Users and teams: the owners of gateway keys, with quotas that all keys of an owner share."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from tokenbox.ledger.call import time_text
from tokenbox.ledger.quota import InvalidQuota, Quota
from tokenbox.records import to_record
from tokenbox.store.database import insert
from tokenbox.store.errors import StoreError

if TYPE_CHECKING:
    from datetime import datetime

    from tokenbox.store.database import Database, Transaction

_NAME = re.compile(r"[\w@.+-][\w@.+ -]{0,99}")
_COLUMNS = "kind, name, models, quotas, created"
_PUT = f"""
    {insert("tokenbox_owners", _COLUMNS.split(", "))}
    ON CONFLICT (kind, name) DO UPDATE SET models = :models, quotas = :quotas
"""


class OwnerProblem(StoreError, code="gateway_owner"):
    """A user or a team cannot be created, does not exist, or still has keys."""


class OwnerKind(StrEnum):
    """The kinds of owners. A key may have one of each."""

    USER = "user"
    TEAM = "team"


@dataclass(frozen=True, slots=True)
class Owner:
    """A user or a team. ``models`` are patterns of what its keys may use; without any they may use all."""

    kind: OwnerKind
    name: str
    quotas: tuple[Quota, ...] = ()
    models: tuple[str, ...] = ()
    created: str = field(default="", compare=False)

    @property
    def id(self) -> str:
        """The id that the store counts the usage of its keys under."""
        return f"{self.kind}:{self.name}"

    def allows(self, model: str) -> bool:
        return allows(self.models, model)

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self, "kind name models quotas created", quotas=[str(quota) for quota in self.quotas]
        )


def allows(patterns: Sequence[str], model: str) -> bool:
    """Return True if a pattern matches the model, or if no pattern is given."""
    return not patterns or any(fnmatchcase(model, pattern) for pattern in patterns)


class Owners:
    """The users and teams in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, owner: Owner, now: datetime) -> Owner:
        """Create a user or a team, or change the quotas and models of an existing one.

        Raises :class:`OwnerProblem`.
        """
        if _NAME.fullmatch(owner.name) is None:
            raise OwnerProblem(
                f"{owner.name[:60]!r} is not a name of a {owner.kind}: use 1 to 100 letters, digits, spaces "
                "and any of @ . + - _.",
                name=owner.name[:100],
            )
        check_quotas(owner.quotas)
        values = {
            "kind": owner.kind.value,
            "name": owner.name,
            "models": json.dumps(owner.models),
            "quotas": json.dumps([str(quota) for quota in owner.quotas]),
            "created": time_text(now),
        }
        with self._database.writing() as transaction:
            transaction.change(_PUT, values)
            found = find_owner(transaction, owner.kind, owner.name)
        assert found is not None  # noqa: S101  # it was just written
        return found

    def find(self, kind: OwnerKind, name: str) -> Owner | None:
        with self._database.reading() as transaction:
            return find_owner(transaction, kind, name)

    def all(self, kind: OwnerKind) -> list[Owner]:
        with self._database.reading() as transaction:
            rows = transaction.rows(
                f"SELECT {_COLUMNS} FROM tokenbox_owners WHERE kind = :kind ORDER BY name",
                {"kind": kind.value},
            )
        return [_owner(row) for row in rows]

    def remove(self, kind: OwnerKind, name: str) -> None:
        """Remove an owner. Raises :class:`OwnerProblem` if it does not exist or has keys not revoked.

        Without their owner such keys would have no quota left.
        """
        with self._database.writing() as transaction:
            if find_owner(transaction, kind, name) is None:
                raise no_owner(kind, name, f"`tokenbox gateway {kind}s list` shows those there are.")
            column = _COLUMN[kind]
            rows = transaction.rows(
                f"SELECT name FROM tokenbox_keys WHERE {column} = :name AND revoked IS NULL ORDER BY name",
                {"name": name},
            )
            if rows:
                shown = ", ".join(str(row[0]) for row in rows[:3])
                raise OwnerProblem(
                    f"the {kind} {name!r} still has keys ({len(rows)}: {shown}). Revoke them first.",
                    keys=len(rows),
                )
            transaction.change(
                "DELETE FROM tokenbox_owners WHERE kind = :kind AND name = :name",
                {"kind": kind.value, "name": name},
            )


def find_owner(transaction: Transaction, kind: OwnerKind, name: str) -> Owner | None:
    """Return the owner of that name, or None, within a transaction."""
    rows = transaction.rows(
        f"SELECT {_COLUMNS} FROM tokenbox_owners WHERE kind = :kind AND name = :name",
        {"kind": kind.value, "name": name},
    )
    return _owner(rows[0]) if rows else None


def no_owner(kind: OwnerKind, name: str, remedy: str) -> OwnerProblem:
    return OwnerProblem(f"there is no {kind} {name[:60]!r}. {remedy}", name=name[:100])


def check_quotas(quotas: Sequence[Quota]) -> None:
    """Raise ``InvalidQuota`` for two quotas with the same unit and window."""
    seen: set[tuple[str, str]] = set()
    for quota in quotas:
        counted = (quota.unit.value, quota.window.value)
        if counted in seen:
            raise InvalidQuota(f"two quotas count {quota.unit} per {quota.window}. Give one of them.")
        seen.add(counted)


# The columns of the owners of a key.
_COLUMN = {OwnerKind.USER: "user_name", OwnerKind.TEAM: "team"}


def _owner(row: Sequence[Any]) -> Owner:
    kind, name, models, quotas, created = row
    return Owner(
        OwnerKind(kind),
        name,
        tuple(Quota.parse(text) for text in json.loads(quotas)),
        tuple(json.loads(models)),
        created,
    )
