"""``tokenbox cost``: shows the tokens and the cost of model calls."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path

import tokenbox
from tokenbox.cli import clock, streams, terminal
from tokenbox.cli.options import AS_JSON, flag, option
from tokenbox.cli.outcome import UsageProblem
from tokenbox.errors import plural
from tokenbox.ledger.call import Call, time_text
from tokenbox.ledger.errors import InvalidCall, LedgerError
from tokenbox.ledger.totals import HEADS, Totals, aligned, cells, notes, total
from tokenbox.ledger.when import moment
from tokenbox.render.lines import printable
from tokenbox.store.calls import CallField, CallSpan, CallTotals


def cost(
    since: str | None = option("--since TIME", "Start: 2026-11-01, 7d, 12h, today, yesterday."),
    until: str | None = option("--until TIME", "End; a day includes all of it."),
    by: str = option(
        "--by FIELD,...", "Group by model, category, day, project or session, or several of them.", "model"
    ),
    project: str | None = option("--project FOLDER", "Only calls of this project; . is the current one."),
    database: str | None = option("--database URL", "A file, or postgresql://user@host/name."),
    export: bool = flag("--export", "Print every call as a line of JSON instead."),
    import_file: str | None = option("--import FILE", "Add calls from --export; duplicates are ignored."),
    as_json: bool = AS_JSON,
) -> None:
    """Show the tokens and the cost of model calls, over all sessions.

    Days are in UTC, as on the bills of providers. A ~ marks an estimate. Unknown figures are shown as
    unknown and never counted as 0.

    Example: tokenbox cost --since 7d --by day,model
    """
    settings = tokenbox.config.load(Path.cwd(), os.environ, {"store.database": database})
    where = settings.value("store.database")
    fields, span = _fields(by), _span(since, until, project, clock.now())
    if export and (as_json or import_file is not None):
        raise UsageProblem("--export does not go together with --json or --import. Give one of them.")
    if import_file is not None:
        _import(import_file, where)
        return
    from tokenbox.store.stores import file_of, open_store

    path = file_of(where)
    is_missing = path is not None and not path.exists()  # reading creates no file
    with nullcontext() if is_missing else open_store(path or where) as store:
        name = str(path) if store is None else store.name
        if export:
            for call in () if store is None else store.calls.each(span):
                streams.write_bytes(streams.json_bytes(call.to_dict(), one_line=True))
            return
        rows = [] if store is None else store.calls.rows(fields, span)
        if as_json:
            streams.write_record("cost", _record(rows, fields, span, name))
        else:
            _show(rows, fields, span, name)


def _fields(by: str) -> tuple[CallField, ...]:
    names = [name.strip() for name in by.split(",")]
    unknown = [name for name in names if name not in {one.value for one in CallField}]
    if unknown or len(set(names)) < len(names):
        raise UsageProblem(
            f"--by {by} is not one of {', '.join(one.value for one in CallField)}, or several of them, "
            "separated by commas."
        )
    return tuple(map(CallField, names))


def _span(since: str | None, until: str | None, project: str | None, now: datetime) -> CallSpan:
    span = CallSpan(
        None if since is None else moment(since, now),
        None if until is None else moment(until, now, end=True),
        None if project is None else project_of(Path(project)),
    )
    if span.since is not None and span.until is not None and span.since >= span.until:
        raise UsageProblem(f"--since {since} is not before --until {until}.")
    return span


def project_of(folder: Path) -> str:
    """Return the project that calls in ``folder`` are recorded under: its root, else the folder itself."""
    found = tokenbox.config.find_project(folder)
    return str(folder.absolute() if found is None else found.root)


def _record(
    rows: Sequence[CallTotals], fields: Sequence[CallField], span: CallSpan, database: str
) -> dict[str, object]:
    since, until = span.since, span.until
    keys = [field.value for field in fields]
    return {
        "database": database,
        "since": None if since is None else time_text(since),
        "until": None if until is None else time_text(until),
        "project": span.project,
        "by": keys,
        "rows": [{**dict(zip(keys, row.key, strict=True)), **row.totals.to_dict()} for row in rows],
        "total": total(row.totals for row in rows).to_dict(),
    }


def _show(rows: Sequence[CallTotals], fields: Sequence[CallField], span: CallSpan, database: str) -> None:
    if not rows and span == CallSpan():
        streams.write_error(
            f"No calls are recorded in {printable(database)} yet. "
            "tokenbox records the tokens and the cost of each call it makes.\n"
        )
        return
    if not rows:
        streams.write_error(f"No calls in {printable(database)} are within these bounds.\n")
        return
    keys = [field.value for field in fields]
    whole: Totals = total(row.totals for row in rows)
    body = [[*("-" if part is None else part for part in row.key), *cells(row.totals)] for row in rows]
    body.append(["total", *[""] * (len(keys) - 1), *cells(whole)])
    heads, *lines = aligned([[*keys, *HEADS], *body], len(keys))
    terminal.show_table(heads, lines)
    streams.write_error("".join(f"note: {note}\n" for note in notes(whole)))


def _import(name: str, where: str | None) -> None:
    from tokenbox.store.stores import open_store

    calls = [
        _call(line, streams.shown_name(name), number)
        for number, line in enumerate(streams.read_syntax(name).split("\n"), 1)
        if line.strip()
    ]
    with open_store(where) as store:
        added = store.calls.record(*calls)
        streams.write_text(
            f"{plural(len(calls), 'call')} read, {added:,} of them new to {printable(store.name)}\n"
        )


def _call(line: str, shown: str, number: int) -> Call:
    try:
        return Call.from_dict(json.loads(line))
    except (LedgerError, ValueError, RecursionError) as error:
        problem = error.message if isinstance(error, LedgerError) else f"the line is not JSON: {error}."
        raise InvalidCall(
            f"{shown}:{number}: {problem} Nothing was imported.", file=shown, line=number
        ) from None
