"""The columns that a :class:`BatchPlan` names: whether the input has them, and their cells in a row."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenbox.batch.errors import InvalidPlan, RowError
from tokenbox.batch.plan import AUTO, CONTENT, BatchPlan, Task
from tokenbox.batch.reading import ShardReader
from tokenbox.batch.storage import reads
from tokenbox.documents.files import FileProblemError, NamedFiles, read_bytes
from tokenbox.errors import DocumentError, TokenboxError, shown
from tokenbox.integers import digits
from tokenbox.records import from_json

if TYPE_CHECKING:
    from tokenbox.batch.shards import Sharded

Row = Mapping[str, Any]

_MAX_FILE = 64 << 20
_SHOWN = 20  # columns in a message
# The tasks whose content is a list, and those whose content is a text or a list.
_LISTS = {Task.FIT, Task.SELECT, Task.RENDER}
_TEXT_OR_MESSAGES = {Task.COUNT, Task.ENFORCE}


class Cells:
    """The cells of a row by their meaning. Raises :class:`RowError` for a missing or unsuitable one."""

    def __init__(self, plan: BatchPlan) -> None:
        self._plan = plan

    def _content_columns(self, task: Task) -> tuple[str, ...]:
        return CONTENT[task] if self._plan.content is None else (self._plan.content,)

    def find_content(self, row: Row, task: Task) -> Any:  # noqa: ANN401  # any JSON
        """Return the content, None without one."""
        name = first_given(row, self._content_columns(task))
        return None if name is None else row[name]

    def content(self, row: Row, task: Task) -> Any:  # noqa: ANN401  # any JSON
        """Return the content of a row; a list may be JSON text. Raises :class:`RowError` without one."""
        found = self.find_content(row, task)
        if found is None:
            raise self._no_content(row, task)
        if task in _LISTS and is_list(found):
            return from_json(found, found)
        if (
            task in _TEXT_OR_MESSAGES
            and is_json(found)
            and _are_messages(messages := from_json(found, found))
        ):
            return messages
        return found

    def _no_content(self, row: Row, task: Task) -> RowError:
        names, columns = self._content_columns(task), names_of(row)
        null = next((name for name in names if name in row), None)
        if null is not None:
            return RowError(f"the column {null} is null.", columns=columns)
        wanted = " or ".join((", ".join(names[:-1]), names[-1])) if names[1:] else names[0]
        return RowError(
            f"the row has no column {wanted}. Its columns: {', '.join(columns) or 'none':.200}. "
            "Name the column with the content: --content NAME.",
            columns=columns,
        )

    def text(self, row: Row, column: str | None) -> str | None:
        """Return the text in an optional column."""
        if column is None:
            return None
        value = row.get(column)
        if value is not None and not isinstance(value, str):
            raise RowError(f"the column {column} has {type(value).__name__}, not text.", column=column)
        return value

    def budget(self, row: Row) -> int | None:
        """Return the budget of the plan, or of the row's column."""
        budget = self._plan.budget
        if not isinstance(budget, str):
            return budget
        value = row.get(budget)
        if isinstance(value, str) and (tokens := digits(value)) is not None:
            return tokens  # a cell of CSV
        if isinstance(value, bool) or not isinstance(value, int):
            message = f"the column {budget} must be a number of tokens, not {shown(value)}."
            raise RowError(message, column=budget)
        return value

    def needed_budget(self, row: Row) -> int:
        found = self.budget(row)
        if found is None:
            raise RowError("a row of this kind needs a budget: --budget 4000, or the name of a column.")
        return found

    def tools(self, row: Row) -> Any:  # noqa: ANN401  # validated by the call
        value = row.get("tools")
        return from_json(value, value) if isinstance(value, str) and is_json(value) else value

    def place(self, name: str) -> str:
        """Return the path that a row names: in the folder of the input, unless others are allowed."""
        try:
            return NamedFiles(Path(self._plan.base), allow_outside=self._plan.allow_outside).place(name)
        except FileProblemError as problem:
            raise DocumentError(problem.message, code=problem.code.value) from None

    def read(self, name: str) -> bytes:
        return read_bytes(self.place(name), shown(name), _MAX_FILE, "are what a file of a row may have")


def first_given(row: Row, names: Iterable[str]) -> str | None:
    """Return the first column that is not null; an empty text, which is null in CSV, only if it is alone."""
    given = [name for name in names if row.get(name) is not None]
    return next(
        (name for name in given if row[name].__class__ is not str or row[name]), next(iter(given), None)
    )


def names_of(row: Row) -> list[str]:
    return [str(name)[:60] for name in row][:40]


def is_list(value: object) -> bool:
    """Return whether a text may be a JSON list, as formats without lists write one."""
    return isinstance(value, str) and value.lstrip().startswith("[") and value.rstrip().endswith("]")


def _are_messages(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) and "role" in item for item in value)


def is_json(value: object) -> bool:
    """Return whether a text is a JSON list of objects, as formats without lists write messages or chunks."""
    return isinstance(value, str) and value.startswith("[{") and value.rstrip().endswith("}]")


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
    if not missing and found is not None:
        _check_content(plan, found)
    if not missing or not columns:
        return None
    # What is an error goes before a warning.
    option, name = min(missing, key=lambda one: one[0] != "--budget")
    near = get_close_matches(name, columns, 1)
    hint = f"Did you mean {option} {shlex.quote(near[0])}? " if near else ""
    separator = next((mark for mark in ";|\t" if len(columns) == 1 and mark in min(columns)), None)
    if separator is not None:
        hint = f"Its cells seem to end with {separator!r}: in .csv they end with commas, in .tsv with tabs. "
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
    with reads(sharded.shards[0].files[0]):
        chunk = next(ShardReader(sharded.shards[0]).chunks(), [])
    return {name for row in chunk if not isinstance(row, TokenboxError) for name in row}
