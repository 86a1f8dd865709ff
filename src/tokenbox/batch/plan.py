"""The task and options of a batch as data: the one :class:`BatchPlan` of workers, proofs and replays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tokenbox.batch.errors import InvalidPlan
from tokenbox.compose.layout import SEPARATOR
from tokenbox.content.canonical import canonical
from tokenbox.engine.result import Policy
from tokenbox.errors import RenderError, one_of, several, shown
from tokenbox.integers import MAX_INTEGER, meant_figure, whole
from tokenbox.records import to_record
from tokenbox.render.registry import find_renderer

if TYPE_CHECKING:
    from typing import Self

DEFAULT_TOKENIZER = "o200k_base"


class Task(StrEnum):
    """The operation on a row."""

    COUNT = "count"
    FIT = "fit"
    LAYOUT = "layout"
    ENFORCE = "enforce"
    SELECT = "select"
    PACK = "pack"
    RENDER = "render"
    AUTO = "auto"
    """Chosen by the row's columns: `sections`, `messages`, `blocks`, `chunks`, `path` or `text`."""


class Decisions(StrEnum):
    """How many of the decisions the output has."""

    SHORT = "short"
    WHOLE = "whole"
    NONE = "none"


# The default content columns of a task; the first one that a row has is used.
CONTENT = {
    Task.COUNT: ("text", "messages", "content"),
    Task.FIT: ("messages",),
    Task.LAYOUT: ("text", "content"),
    Task.ENFORCE: ("messages", "text", "content"),
    Task.SELECT: ("chunks",),
    Task.PACK: ("path",),
    Task.RENDER: ("blocks",),
}
# The task for `auto`, by the first of these columns that a row has.
AUTO = {
    "sections": Task.LAYOUT,
    "messages": Task.FIT,
    "blocks": Task.RENDER,
    "chunks": Task.SELECT,
    "path": Task.PACK,
    "text": Task.LAYOUT,
    "content": Task.LAYOUT,
}
# The columns of a task's results, in order; `error` is always the last.
COLUMNS: Mapping[Task, tuple[str, ...]] = {
    Task.COUNT: ("total", "exact", "digest", "error"),
    Task.ENFORCE: ("ok", "total", "exact", "digest", "decisions", "error"),
    Task.LAYOUT: ("text", "messages", "total", "exact", "digest", "decisions", "error"),
    Task.FIT: ("messages", "total", "exact", "digest", "decisions", "error"),
    **dict.fromkeys(
        (Task.SELECT, Task.PACK, Task.RENDER), ("text", "total", "exact", "digest", "decisions", "error")
    ),
    Task.AUTO: ("task", "text", "messages", "total", "exact", "digest", "decisions", "error"),
}


_NEEDS_BUDGET = {Task.FIT, Task.SELECT}
_RENDERS = {Task.RENDER, Task.PACK, Task.AUTO}


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The task, its columns and its options.

    ``budget``: tokens, or the name of a column. ``content``, ``query``, ``system``: names of columns.
    ``keep``: input columns to copy to the output. ``base``: the folder of the files that rows name; other
    files are refused unless ``allow_outside``. ``settings``: the ``Config`` of ``enforce``; the digest covers
    the resulting ``limits`` instead.
    """

    task: Task = Task.LAYOUT
    budget: int | str | None = None
    model: str | None = None
    tokenizer: str | None = None
    content: str | None = None
    query: str | None = None
    system: str | None = None
    keep: tuple[str, ...] = ("id",)
    decisions: Decisions = Decisions.SHORT
    separator: str = SEPARATOR
    policy: Policy = Policy.FACET
    reclaim: bool = False
    mode: str = "xml"
    base: str = "."
    allow_outside: bool = False
    settings: Any = None
    limits: str | None = None

    @classmethod
    def of(cls, **options: object) -> Self:
        """Return the validated plan of these options. Raises :class:`InvalidPlan`."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(options.keys() - known)
        if unknown:
            raise InvalidPlan(f"unknown option {unknown[0]!r}. The options are {', '.join(sorted(known))}.")
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        for name, kind in (("task", Task), ("decisions", Decisions), ("policy", Policy)):
            if name in given:
                given[name] = one_of(kind, name, given[name], InvalidPlan)
        if "keep" in given:
            given["keep"] = _names(given["keep"])
        plan = cls(**given)
        plan._check()
        return plan

    def _check(self) -> None:
        self._check_budget()
        if self.task is Task.ENFORCE and self.model is None:
            raise InvalidPlan("the task enforce needs a model: --model gpt-4o.")
        for name in ("content", "query", "system", "model", "tokenizer", "separator", "mode", "base"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise InvalidPlan(f"{name} must be a string, not {shown(value)}.")
        check_flags(self, "reclaim", "allow_outside")
        if self.task in _RENDERS:
            try:
                find_renderer(self.mode)
            except RenderError as error:
                raise InvalidPlan(str(error)) from None
        clash = sorted(set(self.keep) & set(COLUMNS[self.task]))
        if clash:
            raise InvalidPlan(
                f"keep {', '.join(self.keep)}: {clash[0]} is a column of the result. Rename it in the input."
            )
        if len(set(self.keep)) < len(self.keep):
            raise InvalidPlan(f"keep {', '.join(self.keep)}: a column is named twice. Name it once.")

    def _check_budget(self) -> None:
        budget = self.budget
        written = meant_figure(budget)
        is_column = isinstance(budget, str) and budget != "" and not written
        if budget is not None and not is_column and (whole(budget) is None or abs(int(budget)) > MAX_INTEGER):
            given = f"a number of tokens or a column name, not {shown(budget)}"
            raise InvalidPlan(f"budget must be {given}.{written}")
        if isinstance(budget, int) and budget < 0:
            raise InvalidPlan(f"budget must be at least 0 tokens, not {budget}.")
        if budget is None and self.task in _NEEDS_BUDGET:
            raise InvalidPlan(f"the task {self.task} needs a budget: --budget 4000, or the name of a column.")

    def to_dict(self) -> dict[str, object]:
        """Return the options that determine a row's result, which the locations of files are not."""
        names = [field.name for field in fields(self) if field.name not in {"base", "settings"}]
        return to_record(self, " ".join(names))

    @property
    def result_columns(self) -> tuple[str, ...]:
        """The names of the columns that results have, in order."""
        names = COLUMNS[self.task]
        if self.decisions is Decisions.NONE:
            return tuple(name for name in names if name != "decisions")
        return names

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the output's columns, in order."""
        return (*self.keep, *self.result_columns)

    @property
    def counter_name(self) -> str | None:
        """The named tokenizer, the model's own (None), or the default."""
        return DEFAULT_TOKENIZER if self.tokenizer is None and self.model is None else self.tokenizer

    def with_limits(self) -> BatchPlan:
        """Return the plan with the settings of this folder, if the task uses settings.

        Raises the errors of ``ctx.enforce`` for a model without a tokenizer or a known context window.
        """
        if self.task is not Task.ENFORCE or self.model is None:
            return self
        from tokenbox import config, ctx  # only this task has settings

        settings = config.load() if self.settings is None else self.settings
        probe = ctx.enforce(self.model, [""], tokenizer=self.tokenizer, config=settings)
        limits = canonical({**probe.limits.to_dict(), "uncertain": probe.why.verdict.uncertain.value})
        return replace(self, settings=settings, limits=limits.decode())


def _names(keep: object) -> tuple[str, ...]:
    """Return the names of columns. A text is refused: its characters would be taken as names."""
    names = several(keep)
    if names is None or not all(isinstance(name, str) for name in names):
        raise InvalidPlan(f"keep must be a list of column names, such as ['id'], not {shown(keep)}.")
    return tuple(names)


def check_flags(options: object, *names: str) -> None:
    """Raise :class:`InvalidPlan` unless the options are True or False: ``"no"`` would be taken as True."""
    for name in names:
        value = getattr(options, name)
        if not isinstance(value, bool):
            raise InvalidPlan(f"{name} must be True or False, not {shown(value)}.")
