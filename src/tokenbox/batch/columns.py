"""Check that the input has the columns that the options name, before the first row is compiled."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import TYPE_CHECKING

from tokenbox.batch.errors import InvalidPlan
from tokenbox.batch.plan import AUTO, CONTENT, BatchPlan, Task
from tokenbox.batch.reading import ShardReader
from tokenbox.batch.storage import unreadable
from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    from tokenbox.batch.shards import Sharded

_SHOWN = 20


def check_columns(plan: BatchPlan, sharded: Sharded) -> str | None:
    """Return a warning for a column that the first rows of JSON lines do not have; later ones may have it.

    Raises :class:`InvalidPlan` if the header or schema of every file lacks the column, or if none of the
    first rows has the column of the budget.
    """
    if not sharded.shards:
        return None
    found, named = sharded.columns, _named(plan)
    columns = (_first_columns(sharded) if named else ()) if found is None else found
    missing = [(option, name) for name, option in named.items() if name not in columns]
    missing.sort(key=lambda one: one[0] != "--budget")  # what is an error goes before a warning
    option, name = missing[0] if missing else ("", "")
    if not option and found is not None:
        _check_content(plan, found)
    if not option or not columns:
        return None
    near = get_close_matches(name, columns, 1)
    hint = f"Did you mean {option} {near[0]}? " if near else ""
    known = ", ".join(sorted(columns)[:_SHOWN])
    where = "the input has" if found is not None else "the first rows have"
    message = f"{where} no column {name!r:.60} ({option}). {hint}The columns are {known:.400}."
    if found is not None or option == "--budget":
        raise InvalidPlan(message, column=name)
    return message


def _check_content(plan: BatchPlan, columns: Collection[str]) -> None:
    """Raise if no row can have content: the options name no column, and the input has no default one."""
    task = plan.task
    wanted = tuple(AUTO) if task is Task.AUTO else CONTENT[task]
    if task is Task.LAYOUT:
        wanted += ("sections",)
    if plan.content is None and not any(name in columns for name in wanted):
        known = ", ".join(sorted(columns)[:_SHOWN])
        raise InvalidPlan(
            f"the input has none of the columns {', '.join(wanted)} that {task} reads. Its columns are "
            f"{known:.400}. Name the column with the content: --content NAME.",
            column=wanted[0],
        )


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
