"""``tokenbox cost``: what all calls so far used and cost."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from tokenbox.cli import clock, terminal
from tokenbox.cli.outcome import Exit, UsageProblem, reporting
from tokenbox.cli.streams import (
    STDIN,
    json_bytes,
    read_text,
    write_bytes,
    write_error,
    write_record,
    write_text,
)
from tokenbox.render.lines import printable

if TYPE_CHECKING:
    from datetime import datetime

    from tokenbox.ledger.call import Call
    from tokenbox.ledger.totals import Totals
    from tokenbox.store.calls import CallField, CallSpan, CallTotals
    from tokenbox.store.stores import Store


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Which calls, told apart by what."""

    by: tuple[CallField, ...]
    span: CallSpan


def cost(
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="From then on: 2026-11-01, 7d, 12h, today, yesterday."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Until then; a day is meant to its end.")
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            "--by", metavar="WHAT", help="model, category, day, project or session; several with commas."
        ),
    ] = "model",
    project: Annotated[
        str | None,
        typer.Option("--project", metavar="FOLDER", help="Only calls in this project; . is the one here."),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option("--database", metavar="WHERE", help="A file, or postgresql://user@host/name."),
    ] = None,
    export: Annotated[
        bool, typer.Option("--export", help="Print every call as a line of JSON instead.")
    ] = False,
    import_file: Annotated[
        str | None,
        typer.Option(
            "--import", metavar="FILE", help="Add calls that --export printed; what is there counts once."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Show what calls of models used and cost, over all sessions.

    Days are those of UTC, as on the bills of providers. A ~ marks estimates; what is not known is said, and
    never counted as 0.

    Example: tokenbox cost --since 7d --by day,model
    """
    with reporting(as_json=as_json):
        from tokenbox import config  # only commands that have settings

        settings = config.load(Path.cwd(), os.environ, {"store.database": database})
        where = settings.value("store.database")
        now = clock.now()
        asked = _asked(since, until, by, project, now)
        if export and (as_json or import_file is not None):
            raise UsageProblem("--export goes with neither --json nor --import. Give one of them.")
        if import_file is not None:
            _import(import_file, None if where is None else str(where))
            return Exit.OK
        with _opened(None if where is None else str(where)) as source:
            if export:
                _export(source.store, asked)
            elif as_json:
                write_record("cost", _record(source, asked))
            else:
                _show(source, asked)
    return Exit.OK


def _asked(since: str | None, until: str | None, by: str, project: str | None, now: datetime) -> CallFilter:
    from tokenbox.ledger.when import moment
    from tokenbox.store.calls import CallField, CallSpan

    names = [name.strip() for name in by.split(",")]
    unknown = [name for name in names if name not in {one.value for one in CallField}]
    if unknown or len(set(names)) < len(names):
        raise UsageProblem(
            f"--by {by} is not one of {', '.join(one.value for one in CallField)}, or several of them "
            "with commas."
        )
    span = CallSpan(
        None if since is None else moment(since, now),
        None if until is None else moment(until, now, end=True),
        None if project is None else project_of(Path(project)),
    )
    if span.since is not None and span.until is not None and span.since >= span.until:
        raise UsageProblem(f"--since {since} is not before --until {until}, so no call is between them.")
    return CallFilter(tuple(CallField(name) for name in names), span)


def project_of(folder: Path) -> str:
    """What calls made in ``folder`` are recorded under: the project's folder, else the folder itself."""
    from tokenbox.config import find_project

    found = find_project(folder)
    return str(folder.absolute() if found is None else found.root)


@dataclass(frozen=True, slots=True)
class LedgerSource:
    """A store to read; None while nothing was ever recorded there."""

    store: Store | None
    name: str

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.store is not None:
            self.store.close()

    def rows(self, asked: CallFilter) -> list[CallTotals]:
        return [] if self.store is None else self.store.calls.rows(asked.by, asked.span)


def _opened(where: str | None) -> LedgerSource:
    """To read, no file is made."""
    from tokenbox.store.stores import file_of, open_store

    path = file_of(where)
    if path is not None and not path.exists():
        return LedgerSource(None, str(path))
    store = open_store(path or where)
    return LedgerSource(store, store.name)


def _record(source: LedgerSource, asked: CallFilter) -> dict[str, object]:
    from tokenbox.ledger.call import time_text
    from tokenbox.ledger.totals import total

    rows = source.rows(asked)
    since, until = asked.span.since, asked.span.until
    return {
        "database": source.name,
        "since": None if since is None else time_text(since),
        "until": None if until is None else time_text(until),
        "project": asked.span.project,
        "by": [by.value for by in asked.by],
        "rows": [
            {**dict(zip([by.value for by in asked.by], row.key, strict=True)), **row.totals.to_dict()}
            for row in rows
        ],
        "total": total(row.totals for row in rows).to_dict(),
    }


def _show(source: LedgerSource, asked: CallFilter) -> None:
    from tokenbox.ledger.table import HEADS, aligned, cells, notes
    from tokenbox.ledger.totals import total

    rows = source.rows(asked)
    if not rows:
        write_error(_nothing(source, asked))
        return
    keys = [by.value for by in asked.by]
    whole: Totals = total(row.totals for row in rows)
    body = [[*("-" if part is None else part for part in row.key), *cells(row.totals)] for row in rows]
    body.append(["total", *[""] * (len(keys) - 1), *cells(whole)])
    heads, *lines = aligned([[*keys, *HEADS], *body], len(keys))
    terminal.show(terminal.table(heads, lines))
    write_error("".join(f"note: {note}\n" for note in notes(whole)))


def _nothing(source: LedgerSource, asked: CallFilter) -> str:
    if asked.span.since is None and asked.span.until is None and asked.span.project is None:
        return (
            f"No calls are recorded in {printable(source.name)} yet. "
            "Each call of a model by tokenbox will be, with what it used and cost.\n"
        )
    return f"No calls in {printable(source.name)} are within these bounds.\n"


def _export(store: Store | None, asked: CallFilter) -> None:
    if store is None:
        return
    for call in store.calls.each(asked.span):
        write_bytes(json_bytes(call.to_dict(), one_line=True))


def _import(name: str, where: str | None) -> None:
    from tokenbox.store.stores import open_store

    calls = [
        _call(line, "standard input" if name == STDIN else name, number)
        for number, line in enumerate(read_text(name).splitlines(), 1)
        if line.strip()
    ]
    with open_store(where) as store:
        news = store.calls.record(*calls)
        write_text(f"{len(calls):,} calls read, {news:,} of them news for {printable(store.name)}\n")


def _call(line: str, shown: str, number: int) -> Call:
    from tokenbox.ledger.call import Call
    from tokenbox.ledger.errors import InvalidCall, LedgerError

    try:
        return Call.from_dict(json.loads(line))
    except (LedgerError, ValueError, RecursionError) as error:
        said = error.message if isinstance(error, LedgerError) else f"the line is not JSON: {error}."
        raise InvalidCall(
            f"{shown}:{number}: {said} Nothing was imported.", file=shown, line=number
        ) from None
