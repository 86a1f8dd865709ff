"""``tokenbox batch``: compiles every row of a data set."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import tokenbox
from tokenbox.batch.engines import EngineName
from tokenbox.batch.errors import RowsFailed
from tokenbox.batch.plan import Decisions, Task
from tokenbox.batch.shards import RowFormat, Sharded
from tokenbox.batch.work import Event, Mark, ShardRecord
from tokenbox.cli import clock, terminal
from tokenbox.cli.counter_options import note_misspelt
from tokenbox.cli.options import ALLOW_OUTSIDE, MODEL, RECLAIM, TOKENIZER, argument, flag, option
from tokenbox.cli.outcome import Exit, UsageProblem, only_one, report
from tokenbox.cli.proving import PROOF, PROOF_DIR, proving
from tokenbox.cli.streams import write_error, write_json, write_record
from tokenbox.engine.result import Policy
from tokenbox.errors import plural
from tokenbox.integers import digits
from tokenbox.ledger.cost import dollars
from tokenbox.render.lines import Line, Span, Style, printable

if TYPE_CHECKING:
    from tokenbox.batch.summary import BatchSummary


_BAR_WIDTH = 30
# Intervals of the progress: a new line of a log, and the line that a terminal redraws.
_LOG_SECONDS = 10.0
_REDRAW_SECONDS = 0.2


def batch(
    source: str = argument("INPUT", "A JSONL, CSV or Parquet file, a folder, a pattern with *, or a URL."),
    output: str = option("--output -o OUTPUT", "A file, or a folder that gets a file per shard.", ...),
    task: Task = option("--task", "The operation on each row.", Task.LAYOUT),
    budget: str | None = option("--budget -b TOKENS", "A number, or the column that contains it."),
    model: str | None = MODEL,
    tokenizer: str | None = TOKENIZER,
    content: str | None = option(
        "--content COLUMN",
        "Column of the text, messages, chunks, blocks or path. Default: the column of that name.",
    ),
    query: str | None = option("--query -q COLUMN", "Column of the question; never cut."),
    system: str | None = option("--system COLUMN", "Column of the system prompt; never cut."),
    keep: str = option("--keep COLUMN,...", "Input columns to copy to the output.", "id"),
    decisions: Decisions = option("--decisions", "Detail of the decisions in the output.", Decisions.SHORT),
    engine: EngineName = option(
        "--engine", "auto uses several processes if that is faster.", EngineName.AUTO
    ),
    workers: int | None = option("--workers -w N", "Processes. Default: one per core.", min=1),
    address: str | None = option("--address ADDRESS", "Address of a Ray cluster."),
    resume: bool = flag("--resume", "Continue an earlier run; finished shards are kept."),
    overwrite: bool = flag("--overwrite", "Replace existing output."),
    fail_fast: bool = flag("--fail-fast", "Stop at the first row that fails."),
    input_format: RowFormat | None = option("--input-format", "Default: by the file names."),
    output_format: RowFormat | None = option(
        "--format <jsonl|csv|parquet>", "Format of an output folder. Default: that of the input."
    ),
    shard_size: int | None = option("--shard-size BYTES", "Default: 1/256 of the input.", min=1),
    policy: Policy = option("--policy", "degrade uses smaller forms and cuts before it drops.", Policy.FACET),
    reclaim: bool = RECLAIM,
    mode: str = option("--mode MODE", "Format of render and pack: xml, markdown, minimal.", "xml"),
    allow_outside: bool = ALLOW_OUTSIDE,
    progress: bool = flag("--progress", "Print a line of progress every 10 seconds, for logs."),
    as_json: bool = flag("--json", "Print the summary as JSON."),
    proof: bool | None = PROOF,
    proof_dir: str | None = PROOF_DIR,
) -> int:
    """Compile every row of a data set into its budget.

    A row is a layout document, or has the columns that --content, --query and --system name. OUTPUT has one
    row for each input row, in the same order. A row that fails has an `error`, and the exit status is 5. All
    engines write the same bytes.

    Example: tokenbox batch rows.jsonl -o out.jsonl --content text --budget 4000
    """
    with proving(proof=proof, texts=None, folder=proof_dir) as prover:
        only_one({"--resume": resume, "--overwrite": overwrite})
        if output.startswith("memory://"):
            raise UsageProblem(
                f"the output {output!r:.60} is in the memory of this command and is lost when it ends. "
                "Write it to a file: --output out.jsonl"
            )
        from tokenbox.batch.runs import RunOptions, run

        plan = tokenbox.batch.BatchPlan.of(
            task=task,
            budget=int(budget) if budget and digits(budget.removeprefix("-")) is not None else budget,
            model=model,
            tokenizer=tokenizer,
            content=content,
            query=query,
            system=system,
            keep=[name for name in keep.split(",") if name],
            decisions=decisions,
            policy=policy,
            reclaim=reclaim,
            mode=mode,
            allow_outside=allow_outside,
        )
        note_misspelt(model, tokenizer)
        options = RunOptions(
            engine=engine,
            workers=workers,
            address=address,
            resume=resume,
            overwrite=overwrite,
            fail_fast=fail_fast,
            input_format=input_format,
            output_format=output_format,
            shard_size=shard_size,
            on=clock.now().date(),
        )
        meter = _Meter(in_place=sys.stderr.isatty() and not progress, in_lines=progress)
        try:
            with _ended_as_by_ctrl_c(), closing(meter):
                found = run(
                    source, output, plan, options, watch=meter.watch, planned=meter.plan, proof=prover
                )
        except RowsFailed as error:
            if as_json:
                write_record("error", {"error": error.to_dict()})
            report(error)
            return Exit.ROWS_FAILED
        except KeyboardInterrupt:
            write_error("interrupted. The finished shards are kept; continue with --resume\n")
            raise
        if as_json:
            write_json(found.to_dict())
        else:
            terminal.show(_picture(found))
        _report_failures(found)
        status = Exit.OK if prover is None else prover.status()
    return Exit.ROWS_FAILED if found.failed else status


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """Let SIGTERM, by which service managers and job queues end a run, close it as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _report_failures(found: BatchSummary) -> None:
    if found.skipped:
        names = ", ".join(found.skipped[:3])
        write_error(f"skipped {plural(len(found.skipped), 'file')} of another format: {printable(names)}\n")
    if found.failed:
        codes = ", ".join(f"{code} {count:,}" for code, count in sorted(found.tally.errors.items()))
        write_error(f"{found.failed:,} of {found.tally.rows:,} rows failed: {printable(codes)}\n")
    if found.tally.first_error is not None:
        row, message = found.tally.first_error
        write_error(f"the first is row {row + 1:,}: {printable(message)}\n")


def _picture(found: BatchSummary) -> list[Line]:
    tally = found.tally
    about = "" if tally.exact else "~"
    shards = plural(found.shards, "shard")
    if found.reused:
        shards += f", {found.reused:,} done before"
    saved = f"{about}{tally.saved:,}"
    if tally.unmeasured:
        saved += f"; the saving of {plural(tally.unmeasured, 'row')} is unknown"
    rows = [("rows", f"{tally.rows:,} in {shards}")]
    rows += [
        (name, _share(tally.outcomes[name], tally.rows)) for name in ("whole", "cut", "refused", "failed")
    ]
    rows += [("tokens", f"{about}{tally.tokens:,} ({found.tokenizer['name']})"), ("saved", saved)]
    if found.model is not None:
        rows.append(("cost", _cost(found, about)))
    rows += [("output", printable(found.output)), ("digest", found.digest)]
    lines: list[Line] = [(Span(f"{name:<9}", Style.FAINT), Span(value)) for name, value in rows]
    if tally.histogram:
        lines += [(Span(""),), (Span("tokens of a row", Style.FAINT),)]
    largest = max(tally.histogram.values(), default=1)
    for bound in sorted(tally.histogram):
        count = tally.histogram[bound]
        bar = "#" * max(1, count * _BAR_WIDTH // largest)
        lines.append((Span(f"{'<=':>3} {about}{bound:<12,}"), Span(f"{count:>12,}  {bar}", Style.KEPT)))
    return lines


def _cost(found: BatchSummary, about: str) -> str:
    amount = found.dollars
    if amount is None or found.price is None:
        return f"unknown: {printable(str(found.model))} has no price"
    source = f"{found.price.source}, {found.price.date}"
    return f"{about}{dollars(amount)} as input of {printable(str(found.model))} ({source})"


def _share(count: int, rows: int) -> str:
    return f"{count:,}" if not rows else f"{count:,} ({count * 1000 // rows / 10} %)"


class _Meter:
    """The progress on standard error: a line that is redrawn, or a new line every 10 seconds."""

    def __init__(self, *, in_place: bool, in_lines: bool) -> None:
        self._in_place, self._in_lines = in_place, in_lines
        self._began = self._drawn_at = time.monotonic()
        self._drawn = False
        self._sizes: dict[int, int] = {}
        self._left = 0
        """Bytes of the shards that are not finished."""
        self._running: dict[int, Mark] = {}
        self._finished = Counter[str]()
        """Rows, tokens and rows that are not whole, of all finished shards; rows and bytes of this run."""

    def plan(self, sharded: Sharded, warning: str | None = None) -> None:
        if warning is not None:
            write_error(f"warning: {printable(warning)}\n")
        self._sizes = {shard.number: shard.size or 0 for shard in sharded.shards}
        self._left = sum(self._sizes.values())

    def watch(self, event: Event) -> None:
        if isinstance(event, ShardRecord):
            self._running.pop(event.number, None)
            tally, size = event.tally, self._sizes.get(event.number, 0)
            over = tally.rows - tally.outcomes["whole"]
            self._left -= size
            self._finished.update(rows=tally.rows, tokens=tally.tokens, over=over)
            if not event.reused:
                self._finished.update(own_rows=tally.rows, own_bytes=size)
        else:
            self._running[event.shard] = event
        self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        wait = _REDRAW_SECONDS if self._in_place else _LOG_SECONDS
        too_early = not self._drawn and now - self._began < terminal.PATIENCE_SECONDS
        if too_early or now - self._drawn_at < wait or not (self._in_place or self._in_lines):
            return
        self._drawn_at, self._drawn = now, True
        text = self.text(now - self._began)
        write_error(f"\r\x1b[2K{text[: terminal.width() - 1]}" if self._in_place else f"{text}\n")

    def text(self, seconds: float) -> str:
        """Return rows, rates, the share of rows that are not whole, and the estimated time left."""
        done, marks = self._finished, self._running.values()
        running = sum(mark.rows for mark in marks)
        rows = done["rows"] + running
        tokens = done["tokens"] + sum(mark.tokens for mark in marks)
        over = done["over"] + sum(mark.cut for mark in marks)
        rate = (done["own_rows"] + running) / seconds if seconds else 0.0
        speed = tokens / rows * rate if rows else 0.0
        share = over * 1000 // rows / 10 if rows else 0
        rest = ""
        if done["own_bytes"]:
            rest = f", about {_duration(seconds * self._left / done['own_bytes'])} left"
        rates = f"{rate:,.0f} rows/s, {speed:,.0f} tokens/s"
        return f"{plural(rows, 'row')}, {rates}, {share} % cut, refused or failed{rest}"

    def close(self) -> None:
        if self._drawn and self._in_place:
            write_error("\r\x1b[2K")


def _duration(seconds: float) -> str:
    if seconds < 120:  # seconds up to two minutes, minutes up to two hours
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
