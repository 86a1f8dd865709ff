"""Check that the input has the columns that the options name, before the first row is compiled."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import TYPE_CHECKING

from tokenbox.batch.errors import InvalidPlan
from tokenbox.batch.plan import BatchPlan
from tokenbox.batch.reading import ShardReader
from tokenbox.batch.storage import unreadable
from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    from tokenbox.batch.shards import Sharded

_SHOWN = 20


def check_columns(plan: BatchPlan, sharded: Sharded) -> str | None:
    """Return a warning for a column that the first rows of JSON lines do not have; later ones may have it.

    Raises :class:`InvalidPlan` if the header or schema of every file lacks the column.
    """
    named = _named(plan)
    if not named or not sharded.shards:
        return None
    found = sharded.columns
    columns = _first_columns(sharded) if found is None else found
    option, name = next(((option, name) for name, option in named.items() if name not in columns), ("", ""))
    if not option or not columns:
        return None
    near = get_close_matches(name, columns, 1)
    hint = f"Did you mean {option} {near[0]}? " if near else ""
    known = ", ".join(sorted(columns)[:_SHOWN])
    where = "the input has" if found is not None else "the first rows have"
    message = f"{where} no column {name!r:.60} ({option}). {hint}The columns are {known:.400}."
    if found is not None:
        raise InvalidPlan(message, column=name)
    return message


def _named(plan: BatchPlan) -> dict[str, str]:
    """Return the option that names each column; `id` is kept without being named."""
    named = {name: "--keep" for name in plan.keep if plan.keep != BatchPlan().keep}
    options = ("budget", "system", "query", "content")
    return named | {name: f"--{one}" for one in options if isinstance(name := getattr(plan, one), str)}


def _first_columns(sharded: Sharded) -> Collection[str]:
    try:
        chunk = next(ShardReader(sharded.shards[0]).chunks(), [])
    except OSError as error:
        raise unreadable(sharded.shards[0].files[0], error) from None
    return {name for row in chunk if not isinstance(row, TokenboxError) for name in row}
