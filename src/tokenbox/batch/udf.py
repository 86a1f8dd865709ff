"""Batches as a step of your own pipeline: Ray Data, Hugging Face datasets, Daft, or anything with rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tokenbox.batch.compiler import RowCompiler
from tokenbox.batch.errors import RowError
from tokenbox.batch.plan import CONTENT, BatchPlan
from tokenbox.batch.reading import without_nulls
from tokenbox.batch.writing import json_text

_TYPES = {"total": "int64", "exact": "bool", "ok": "bool"}


class Compile:
    """Compiles batches of rows: called with a batch, it returns the batch with the columns of the results.

        dataset.map_batches(Compile, fn_constructor_args=["layout"],
                            fn_constructor_kwargs={"budget": 4_000}, concurrency=4)       # Ray Data
        dataset.with_format("arrow").map(Compile("layout", budget=4_000), batched=True)   # datasets

    ``options`` are those of :class:`~tokenbox.batch.BatchPlan`. A batch is a mapping from names to lists or
    arrays, an Arrow table, a data frame, or a list of rows; the returned batch has the same type. The column
    names are ``prefix`` and the name in docs/batch.md; ``messages``, ``decisions`` and ``error`` are JSON. A
    row that fails has an ``error``, and does not affect the other rows.

    Equal options give equal pickles, so that ``datasets`` finds its cached results. Each process loads the
    vocabulary once, also after a fork.
    """

    def __init__(self, task: str = "layout", *, prefix: str = "compiled_", **options: object) -> None:
        self.plan = BatchPlan.of(task=task, **options)
        self.prefix = prefix
        self._compiler: RowCompiler | None = None
        self._process = 0

    def __getstate__(self) -> dict[str, object]:
        return {"plan": self.plan, "prefix": self.prefix}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _compiler=None, _process=0)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that it adds."""
        return tuple(f"{self.prefix}{name}" for name in self.plan.result_columns)

    def __call__(self, batch: Any) -> Any:  # noqa: ANN401  # of any library
        """Return the batch with its results. Raises :class:`RowError` for an unsupported type."""
        kind = type(batch).__module__.partition(".")[0]
        if kind == "pyarrow" and hasattr(batch, "append_column"):
            return self._table(batch)
        if kind == "pandas":
            columns = self._results(batch.to_dict("records"))
            return batch.assign(**columns)
        if isinstance(batch, Mapping):
            return self._mapping(batch)
        if hasattr(batch, "to_pylist"):  # one column, of Arrow or Daft: the content
            name = self.plan.content or CONTENT.get(self.plan.task, ("text",))[0]
            return self._result_rows([{name: value} for value in batch.to_pylist()])
        if isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
            results = self._result_rows(batch)
            return [{**row, **result} for row, result in zip(batch, results, strict=True)]
        raise RowError(
            f"a batch must be a mapping of columns, a table or a list of rows, not {type(batch).__name__}."
        )

    def column(self, name: str) -> Callable[[Any], list[Any]]:
        """Return a function from a column of contents to one column of the results (``total``): for Daft."""
        wanted = f"{self.prefix}{name}"
        if wanted not in self.columns:
            raise RowError(f"a result has no column {name!r}. Its columns are {', '.join(self.columns)}.")

        def compiled(values: Any) -> list[Any]:  # noqa: ANN401  # a column of any library
            return [row[wanted] for row in self(values)]

        return compiled

    def arrow_types(self) -> Mapping[str, Any]:
        """Return the Arrow type of each column that it adds."""
        import pyarrow as pa  # installed where tables are

        makers = {"int64": pa.int64, "bool": pa.bool_}
        return {
            name: makers.get(_TYPES.get(name.removeprefix(self.prefix), ""), pa.large_string)()
            for name in self.columns
        }

    def _mapping(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        names = list(batch)
        columns = [_plain(batch[name]) for name in names]
        rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
        results = self._results(rows)
        first = batch[names[0]] if names else []
        if type(first).__module__.partition(".")[0] != "numpy":
            # Empty strings instead of None: some libraries infer a column's type from the first batch.
            return {
                name: values
                if name.removeprefix(self.prefix) in _TYPES
                else [value or "" for value in values]
                for name, values in results.items()
            }
        import numpy as np  # installed: the batch is made of arrays

        arrays = {}
        for name, values in results.items():
            arrays[name] = np.empty(len(values), dtype=object)
            arrays[name][:] = values
        return {**{name: batch[name] for name in names}, **arrays}

    def _table(self, table: Any) -> Any:  # noqa: ANN401  # Arrow's
        import pyarrow as pa  # installed: the batch is a table

        for name, values in self._results(table.to_pylist()).items():
            column = pa.array(values, self.arrow_types()[name])
            if name in table.column_names:
                table = table.set_column(table.column_names.index(name), name, column)
            else:
                table = table.append_column(name, column)
        return table

    def _results(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
        """Return the columns of the results of rows."""
        if self._compiler is None or self._process != os.getpid():
            # A fork copies the locks of a tokenizer's threads, but not the threads.
            self._compiler, self._process = RowCompiler(self.plan), os.getpid()
        found = self._compiler.compile([without_nulls(row) for row in rows])
        return {
            name: [_cell(result.columns.get(name.removeprefix(self.prefix))) for result in found]
            for name in self.columns
        }

    def _result_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        columns = self._results(rows)
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _cell(value: object) -> object:
    return json_text(value) if isinstance(value, dict | list) else value


def _plain(values: Any) -> Any:  # noqa: ANN401  # a list, an array of numpy, a column of Arrow
    if hasattr(values, "to_pylist"):
        return values.to_pylist()
    return values.tolist() if hasattr(values, "tolist") else list(values)
