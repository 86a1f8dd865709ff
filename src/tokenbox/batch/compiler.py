"""Compile rows into results as a :class:`BatchPlan` says, through :mod:`tokenbox.api` only.

Rule 1: a result depends on the plan and its row only, not on the other rows.
Rule 2: an error of a row is its result. Only exceptions that end the process are raised here.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

from tokenbox import api, counters, documents
from tokenbox.batch.cells import Cells, first_given, is_json, names_of
from tokenbox.batch.errors import RowError, RowFailed
from tokenbox.batch.plan import AUTO, CONTENT, BatchPlan, Decisions, Task
from tokenbox.batch.tally import RowOutcome, RowResult
from tokenbox.batch.writing import json_text
from tokenbox.errors import TokenboxError
from tokenbox.records import from_json
from tokenbox.tokenizers.cache import CountCache
from tokenbox.tokenizers.protocol import BaseTokenizer

if TYPE_CHECKING:
    from tokenbox.batch.cells import Row
    from tokenbox.compose.layout import Layout
    from tokenbox.compose.requests import RequestCounter
    from tokenbox.tokenizers.protocol import Tokenizer

# The size of the cache of counts: within a row texts recur, across rows seldom.
_CACHE_SIZE = 4_096


class RowCompiler:
    """Compiles the rows of one plan. It holds the vocabulary: create one per process."""

    def __init__(self, plan: BatchPlan, expected: int | None = None) -> None:
        """``expected``: the approximate size of all rows in bytes; None if unknown."""
        self.plan = plan
        self.cells = Cells(plan)
        self._expected = expected
        self._cache = CountCache(_CACHE_SIZE)

    @cached_property
    def texts(self) -> Tokenizer:
        """The tokenizer of texts."""
        found = counters.text_counter(self.plan.model, self.plan.counter_name)
        if self._expected is not None and isinstance(found, BaseTokenizer):
            found.expect(self._expected)
            found.count(" ")  # reads the vocabulary
            _release_memory()
        return found

    @cached_property
    def requests(self) -> RequestCounter:
        """The counter of messages."""
        return counters.request_counter(self.plan.model, self.plan.counter_name)

    @property
    def identity(self) -> Mapping[str, object]:
        """The name, version and fingerprint of the counter, as in a proof manifest."""
        try:
            return self.texts.identity.to_dict()
        except TokenboxError:  # a chat format without a tokenizer of texts
            return self.requests.identity.to_dict()

    def compile(self, rows: Sequence[Row | TokenboxError]) -> list[RowResult]:
        """Return the results of the rows, in order; an error in place of a row is its result."""
        known = self._count_texts(rows) if self.plan.task is Task.COUNT else {}
        return [known.get(place) or self.compile_row(row) for place, row in enumerate(rows)]

    def compile_row(self, row: Row | TokenboxError) -> RowResult:
        """Return the result of one row."""
        if isinstance(row, TokenboxError):
            return RowResult.failed(row)
        try:
            task = self._task(row)
            result = _TASKS[task](self, row)
        except TokenboxError as error:
            return RowResult.failed(error)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001  # also a panic of an engine: a bug fails its row only
            reason = f"{type(error).__name__}: {str(error)[:500]}"
            return RowResult.failed(RowFailed(f"{reason}. This is a bug in tokenbox; please report it."))
        if self.plan.task is not Task.AUTO:
            return result
        return replace(result, columns={"task": task.value, **result.columns})

    def _task(self, row: Row) -> Task:
        if self.plan.task is not Task.AUTO:
            return self.plan.task
        column = first_given(row, AUTO)
        if column is not None:
            return AUTO[column]
        message = f"the row has none of the columns {', '.join(AUTO)}, which select the task."
        raise RowError(message, columns=names_of(row))

    def _count_texts(self, rows: Sequence[Row | TokenboxError]) -> dict[int, RowResult]:
        """Count the rows that are texts in one batch, by their places. If one of them fails, return none."""
        texts: dict[int, str] = {}
        for place, row in enumerate(rows):
            text = None if isinstance(row, TokenboxError) else self.cells.find_content(row, Task.COUNT)
            if text.__class__ is str and not is_json(text):
                texts[place] = text
        try:
            counts = api.count_texts(list(texts.values()), tokenizer=self.texts)
            return {
                place: _counted(count.total, _digest(text), exact=count.exact)
                for (place, text), count in zip(texts.items(), counts, strict=True)
            }
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException:  # noqa: BLE001  # each row is then compiled alone, which finds the failing one
            return {}

    # Tasks.

    def count(self, row: Row) -> RowResult:
        content = self.cells.content(row, Task.COUNT)
        if isinstance(content, str):
            found = api.count(content, tokenizer=self.texts)
        elif not isinstance(content, list):
            raise RowError(f"count takes a text or a list of messages, not {type(content).__name__}.")
        else:
            request = {"messages": content, "tools": self.cells.tools(row) or []}
            found = api.count(request, tokenizer=self.requests)
        return _counted(found.total, _digest(content), exact=found.exact)

    def fit(self, row: Row) -> RowResult:
        messages = self.cells.content(row, Task.FIT)
        fitted = api.fit(messages, self.cells.needed_budget(row), self.requests, tools=self.cells.tools(row))
        gone, shortened = len(fitted.gone), len(fitted.shortened)
        return self._decided(
            _counted(fitted.total, fitted.digest, exact=fitted.exact, messages=fitted.messages),
            {"kept": len(fitted.messages) - shortened, "shortened": shortened, "evicted": gone},
            lambda: fitted.to_dict()["exchanges"],
            cut=bool(gone or shortened),
            saved=sum(fitted.sizes) - sum(fitted.sizes_now.values()),
        )

    def layout(self, row: Row) -> RowResult:
        if self.plan.content is None and first_given(row, _LAYOUT) == "sections":
            return self._laid_out(self._document(row), as_messages=None)
        content = self.cells.content(row, Task.LAYOUT)
        if not isinstance(content, str):
            raise RowError(f"a layout takes a text, not {type(content).__name__}.")
        system, query = self.cells.text(row, self.plan.system), self.cells.text(row, self.plan.query)
        sections: list[dict[str, object]] = [
            {"id": "system", "content": system, "role": "system"},
            {"id": "content", "content": content, "role": "user", "shrink": 1},
            {"id": "query", "content": query, "role": "user"},
        ]
        as_messages = self.plan.model is not None
        made = api.layout(
            [section for section in sections if section["content"] is not None],
            self.cells.needed_budget(row),
            self.requests if as_messages else self.texts,
            self.plan.separator,
            policy=self.plan.policy,
            reclaim=self.plan.reclaim,
            cache=self._cache,
        )
        return self._laid_out(made, as_messages=as_messages)

    def _document(self, row: Row) -> Layout:
        data = {name: value for name, value in row.items() if name not in self.plan.keep}
        if is_json(data.get("sections")):
            data["sections"] = from_json(data["sections"], data["sections"])
        budget = self.cells.budget(row)
        if isinstance(self.plan.budget, str):
            data.pop(self.plan.budget, None)
        document = documents.parse_document(data, base=self.plan.base, allow_outside=self.plan.allow_outside)
        counter = None
        if self.plan.model is not None or self.plan.tokenizer is not None:
            roles = all(section.role is not None for section in document.sections)
            counter = self.requests if self.plan.model is not None and roles else self.texts
        return document.layout(budget, counter, cache=self._cache)

    def _laid_out(self, made: Layout, *, as_messages: bool | None) -> RowResult:
        messages = made.count is not None if as_messages is None else as_messages
        exact = made.tokenizer.exact if made.count is None else made.count.exact
        short = _numbers(section.decision.value for section in made.sections)
        shown = (
            {"text": None, "messages": made.messages()} if messages else {"text": made.text, "messages": None}
        )
        return self._decided(
            _counted(made.total, made.digest, exact=exact, **shown),
            short,
            lambda: [section.to_dict() for section in made.sections],
            cut=not short.keys().isdisjoint(_SHORTER),
            saved=max(0, sum(made.base_sizes) - sum(made.sizes)),
        )

    def enforce(self, row: Row) -> RowResult:
        from tokenbox import ctx  # only this task has settings

        content = self.cells.content(row, Task.ENFORCE)
        found = ctx.enforce(
            cast("str", self.plan.model),
            [content] if isinstance(content, str) else content,
            tokenizer=self.plan.tokenizer,
            tools=self.cells.tools(row),
            config=self.plan.settings,
        )
        digest = _digest([content, found.ok, found.limits.to_dict()])
        result = self._decided(
            _counted(found.tokens_in, digest, exact=found.exact, ok=found.ok),
            {"over": found.why.over, "limit": found.limits.input_limit, "basis": found.why.verdict.basis},
            lambda: {"why": found.why.to_dict(), "plan": [remedy.say for remedy in found.plan]},
        )
        return result if found.ok else replace(result, outcome=RowOutcome.REFUSED)

    def select(self, row: Row) -> RowResult:
        chunks = self.cells.content(row, Task.SELECT)
        if not isinstance(chunks, list):
            raise RowError(f"select takes a list of chunks, not {type(chunks).__name__}.")
        found = api.select(
            chunks,
            self.cells.needed_budget(row),
            self.cells.text(row, self.plan.query),
            tokenizer=self.texts,
            separator=self.plan.separator,
            cache=self._cache,
        )
        whole = [
            {"index": one.index, "form": one.form, "size": one.size, "reason": one.reason.value}
            for one in found.chunks
        ]
        digest = _digest([found.text, found.total, found.budget, whole])
        return self._decided(
            _counted(found.total, digest, exact=found.exact, text=found.text),
            {"shown": list(found.shown), "of": len(chunks)},
            lambda: whole,
            cut=any(one.form != 0 for one in found.chunks),
            saved=None,
        )

    def pack(self, row: Row) -> RowResult:
        named = self.cells.content(row, Task.PACK)
        if not isinstance(named, str) or not named:  # an empty cell of CSV would be the whole folder
            wrong = type(named).__name__ if named != "" else "an empty text"
            raise RowError(f"pack takes the path of a folder or file, not {wrong}.")
        found = api.pack(
            self.cells.place(named),
            self.cells.budget(row),
            self.cells.text(row, self.plan.query),
            tokenizer=self.texts,
            mode=self.plan.mode,
            cache=self._cache,
        )
        short = _numbers(file.shown.name.lower() for file in found.files)
        rendering = found.rendering
        return self._decided(
            _counted(found.total, rendering.digest, exact=rendering.tokenizer.exact, text=found.text),
            short,
            lambda: [file.to_dict() for file in found.files],
            cut=bool(short.keys() - {"full"}),
            saved=max(0, sum(file.tokens or 0 for file in found.files) - found.total),
        )

    def render(self, row: Row) -> RowResult:
        from tokenbox.folder.manifest import read_manifest  # only rows of blocks

        blocks = read_manifest({"blocks": self.cells.content(row, Task.RENDER)}, self.cells.read)
        found = api.render_blocks(
            [entry.block for entry in blocks.entries],
            self.texts,
            self.cells.budget(row),
            self.plan.mode,
            cache=self._cache,
        )
        short = _numbers(block.form.value for block in found.blocks)
        return self._decided(
            _counted(found.total, found.digest, exact=found.tokenizer.exact, text=found.text),
            short,
            lambda: [block.to_dict() for block in found.blocks],
            cut=bool(short.keys() - {"full"}),
            saved=sum(max(0, block.base_size - block.size) for block in found.blocks),
        )

    def _decided(
        self,
        result: RowResult,
        short: object,
        whole: Callable[[], object],
        *,
        cut: bool = False,
        saved: int | None = 0,
    ) -> RowResult:
        """Return the result with its decisions, as far as the plan asks for them, and its figures."""
        columns = {**result.columns}
        if self.plan.decisions is Decisions.SHORT:
            columns["decisions"] = short
        elif self.plan.decisions is Decisions.WHOLE:
            columns["decisions"] = whole()
        return replace(
            result, columns=columns, outcome=RowOutcome.CUT if cut else RowOutcome.WHOLE, saved=saved
        )


_LAYOUT = ("sections", *CONTENT[Task.LAYOUT])
_SHORTER = ("compressed", "truncated", "dropped")
_TASKS: Mapping[Task, Callable[[RowCompiler, Row], RowResult]] = {
    Task.COUNT: RowCompiler.count,
    Task.FIT: RowCompiler.fit,
    Task.LAYOUT: RowCompiler.layout,
    Task.ENFORCE: RowCompiler.enforce,
    Task.SELECT: RowCompiler.select,
    Task.PACK: RowCompiler.pack,
    Task.RENDER: RowCompiler.render,
}


def _counted(total: int, digest: str, *, exact: bool, **columns: object) -> RowResult:
    """Return the result of a row that nothing was cut from: ``columns``, then those of every task."""
    columns |= {"total": total, "exact": exact, "digest": digest}
    return RowResult(columns, RowOutcome.WHOLE, total, exact, 0)


def _numbers(decisions: Iterable[str]) -> dict[str, int]:
    """Return how often each decision was made, in the order of their names."""
    return dict(sorted(Counter(decisions).items()))


def _release_memory() -> None:
    """Return the memory that loading a vocabulary took to the system; glibc would keep 60 MB per process."""
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def _digest(value: object) -> str:
    """Return the SHA-256 (hex) of a text, or of a value as JSON with sorted keys."""
    text = value if isinstance(value, str) else json_text(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
