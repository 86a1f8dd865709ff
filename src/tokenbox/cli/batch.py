"""``tokenbox batch``: every row of a data set compiled."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tokenbox.cli import clock, terminal
from tokenbox.cli.outcome import Exit, UsageProblem, reporting
from tokenbox.cli.proving import Proof, ProofDir, proving
from tokenbox.cli.streams import json_bytes, write_bytes, write_error, write_record
from tokenbox.engine.result import Policy
from tokenbox.errors import TokenboxError
from tokenbox.render.lines import Span, Style, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenbox.batch.shards import Sharded
    from tokenbox.batch.summary import BatchSummary
    from tokenbox.batch.work import Event, Mark
    from tokenbox.render.lines import Line


class TaskChoice(StrEnum):
    """What is done with each row."""

    LAYOUT = "layout"
    FIT = "fit"
    COUNT = "count"
    ENFORCE = "enforce"
    SELECT = "select"
    PACK = "pack"
    RENDER = "render"
    AUTO = "auto"


class EngineChoice(StrEnum):
    """Who compiles."""

    AUTO = "auto"
    INLINE = "inline"
    PROCESS = "process"
    RAY = "ray"


class FormatChoice(StrEnum):
    """How rows are written."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class InputChoice(StrEnum):
    """How rows are read."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    FILES = "files"


class DecisionsChoice(StrEnum):
    """How much of the decisions is in the output."""

    SHORT = "short"
    WHOLE = "whole"
    NONE = "none"


_BAR = 30
# A line of progress where there is no terminal.
_EVERY_SECONDS = 10.0
_REDRAWN_SECONDS = 0.2


def batch(  # noqa: PLR0913, PLR0917  # one parameter per option
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT", help="A JSONL, CSV or Parquet file, a folder, a pattern with *, or an address."
        ),
    ],
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="OUTPUT", help="A file, or a folder of one file per shard."),
    ],
    task: Annotated[
        TaskChoice, typer.Option("--task", help="What is done with each row.")
    ] = TaskChoice.LAYOUT,
    budget: Annotated[
        str | None,
        typer.Option("--budget", "-b", metavar="TOKENS", help="A number, or the column that has it."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="NAME", help="The model that is asked.")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option("--tokenizer", "-t", metavar="NAME", help="A name of `tokenbox tokenizers`.")
    ] = None,
    content: Annotated[
        str | None,
        typer.Option(
            "--content",
            metavar="COLUMN",
            help="The text, messages, chunks, blocks or path. Default: the column of that name.",
        ),
    ] = None,
    query: Annotated[
        str | None, typer.Option("--query", "-q", metavar="COLUMN", help="What is asked: kept whole.")
    ] = None,
    system: Annotated[
        str | None, typer.Option("--system", metavar="COLUMN", help="The system prompt: kept whole.")
    ] = None,
    keep: Annotated[
        str, typer.Option("--keep", metavar="COLUMN,...", help="Columns that the output has too.")
    ] = "id",
    decisions: Annotated[
        DecisionsChoice, typer.Option("--decisions", help="How much of them is in the output.")
    ] = DecisionsChoice.SHORT,
    engine: Annotated[
        EngineChoice, typer.Option("--engine", help="auto: process where that pays.")
    ] = EngineChoice.AUTO,
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", min=1, metavar="N", help="Default: one per core.")
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", metavar="ADDRESS", help="Of a Ray cluster.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an earlier run; finished shards are not done again.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="End at the first row that fails.")] = False,
    input_format: Annotated[
        InputChoice | None, typer.Option("--input-format", help="Default: by the names of the files.")
    ] = None,
    output_format: Annotated[
        FormatChoice | None, typer.Option("--format", help="Of a folder. Default: that of the input.")
    ] = None,
    shard_size: Annotated[
        int | None,
        typer.Option("--shard-size", min=1, metavar="BYTES", help="Default: a 256th of the input."),
    ] = None,
    policy: Annotated[
        Policy, typer.Option("--policy", help="degrade: smaller forms and cuts before drops.")
    ] = Policy.FACET,
    reclaim: Annotated[
        bool, typer.Option("--reclaim", help="After cutting, give back what then fits again.")
    ] = False,
    mode: Annotated[
        str, typer.Option("--mode", metavar="MODE", help="Of render and pack: xml, markdown, minimal ...")
    ] = "xml",
    allow_outside: Annotated[
        bool, typer.Option("--allow-outside", help="Let rows name files outside the input's folder.")
    ] = False,
    progress: Annotated[
        bool, typer.Option("--progress", help="A line of progress every 10 seconds, for logs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    proof: Proof = None,
    proof_dir: ProofDir = None,
) -> int:
    """Compile every row of a data set into its budget.

    A row is a layout document, or has columns that --content, --query and --system name. Each row has one row
    in OUTPUT, in order; one that fails has an `error`, and the exit status is then 5. All engines write the
    same bytes.

    Example: tokenbox batch rows.jsonl -o out.jsonl --content text --budget 4000
    """
    with reporting(as_json=as_json), proving(proof=proof, texts=None, folder=proof_dir) as prover:
        if resume and overwrite:
            raise UsageProblem("--resume and --overwrite do not go together. Give one of them.")
        from tokenbox.batch import BatchPlan  # only this command
        from tokenbox.batch.engines import EngineName
        from tokenbox.batch.errors import RowsFailed
        from tokenbox.batch.runs import RunOptions, run
        from tokenbox.batch.shards import RowFormat

        plan = BatchPlan.of(
            task=task.value,
            budget=None if budget is None else int(budget) if _is_number(budget) else budget,
            model=model,
            tokenizer=tokenizer,
            content=content,
            query=query,
            system=system,
            keep=[name for name in keep.split(",") if name],
            decisions=decisions.value,
            policy=policy,
            reclaim=reclaim,
            mode=mode,
            allow_outside=allow_outside,
        )
        options = RunOptions(
            engine=EngineName(engine.value),
            workers=workers,
            address=address,
            resume=resume,
            overwrite=overwrite,
            fail_fast=fail_fast,
            input_format=None if input_format is None else RowFormat(input_format.value),
            output_format=None if output_format is None else RowFormat(output_format.value),
            shard_size=shard_size,
            on=clock.now().date(),
        )
        try:
            with _watching(in_lines=progress) as meter:
                found = run(
                    source, output, plan, options, watch=meter.watch, planned=meter.plan, proof=prover
                )
        except RowsFailed as error:
            _report(error, as_json=as_json)
            return Exit.ROWS_FAILED
        if as_json:
            write_bytes(json_bytes(found.to_dict()))
        else:
            terminal.show(_picture(found))
        _say_failures(found)
        status = Exit.OK if prover is None else prover.status()
    return Exit.ROWS_FAILED if found.failed else status


def _report(error: TokenboxError, *, as_json: bool) -> None:
    from tokenbox.cli.outcome import report

    if as_json:
        write_record("error", {"error": error.to_dict()})
    report(error)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 17  # noqa: PLR2004  # RFC 8785


def _say_failures(found: BatchSummary) -> None:
    if found.skipped:
        names = ", ".join(found.skipped[:3])
        write_error(f"{len(found.skipped):,} files of another format were skipped: {printable(names)}\n")
    if found.failed:
        codes = ", ".join(f"{code} {count:,}" for code, count in sorted(found.tally.errors.items()))
        write_error(f"{found.failed:,} of {found.tally.rows:,} rows failed: {printable(codes)}\n")


def _picture(found: BatchSummary) -> list[Line]:
    """The summary for a person."""
    tally = found.tally
    about = "" if tally.exact else "~"
    share = {name: _share(tally.outcomes[name], tally.rows) for name in ("whole", "cut", "refused", "failed")}
    shards = f"{found.shards:,} shard{'' if found.shards == 1 else 's'}" + (
        f", {found.reused:,} done before" if found.reused else ""
    )
    rows: list[tuple[str, str]] = [
        ("rows", f"{tally.rows:,} in {shards}"),
        ("whole", share["whole"]),
        ("cut", share["cut"]),
        ("refused", share["refused"]),
        ("failed", share["failed"]),
        ("tokens", f"{about}{tally.tokens:,} ({found.tokenizer['name']})"),
        ("saved", f"{about}{tally.saved:,}" if not tally.unmeasured else _unmeasured(found)),
    ]
    if found.model is not None:
        rows.append(("cost", _cost(found, about)))
    rows += [
        ("output", printable(found.output)),
        ("digest", found.digest),
    ]
    lines: list[Line] = [(Span(f"{name:<9}", Style.FAINT), Span(value)) for name, value in rows]
    most = max(tally.histogram.values(), default=1)
    if tally.histogram:
        lines += [(Span(""),), (Span("tokens of a row", Style.FAINT),)]
    for bound in sorted(tally.histogram):
        count = tally.histogram[bound]
        bar = "#" * max(1, count * _BAR // most)
        lines.append(
            (Span(f"{'<=':>3} {about}{bound:<12,}", Style.PLAIN), Span(f"{count:>12,}  {bar}", Style.KEPT))
        )
    return lines


def _unmeasured(found: BatchSummary) -> str:
    return f"unknown for {found.tally.unmeasured:,} rows; {found.tally.saved:,} of the others"


def _cost(found: BatchSummary, about: str) -> str:
    from tokenbox.ledger.money import dollars

    amount = found.dollars
    if amount is None or found.price is None:
        return f"unknown: {printable(str(found.model))} has no price"
    source = f"{found.price.source}, {found.price.date}"
    return f"{about}{dollars(amount)} as input of {printable(str(found.model))} ({source})"


def _share(count: int, rows: int) -> str:
    return f"{count:,}" if not rows else f"{count:,} ({count * 1000 // rows / 10} %)"


class _Meter:
    """What is done so far, on standard error: a line that is drawn again, or a line every 10 seconds."""

    def __init__(self, *, in_place: bool, in_lines: bool) -> None:
        self._in_place, self._in_lines = in_place, in_lines
        self._began = self._said = time.monotonic()
        self._sizes: dict[int, int | None] = {}
        self._now: dict[int, Mark] = {}
        # Rows, tokens, rows that are not whole, bytes; and the rows and bytes of this run.
        self._done = [0, 0, 0, 0, 0, 0]
        self._drawn = False

    def plan(self, sharded: Sharded) -> None:
        self._sizes = {shard.number: shard.size for shard in sharded.shards}

    def watch(self, event: Event) -> None:
        from tokenbox.batch.work import ShardRecord

        if isinstance(event, ShardRecord):
            self._now.pop(event.number, None)
            tally = event.tally
            over = tally.rows - tally.outcomes["whole"]
            added = (tally.rows, tally.tokens, over, self._sizes.get(event.number) or 0)
            self._done = [
                *(old + new for old, new in zip(self._done, added, strict=False)),
                self._done[4] + (0 if event.reused else tally.rows),
                self._done[5] + (0 if event.reused else added[3]),
            ]
        else:
            self._now[event.shard] = event
        self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        wait = _REDRAWN_SECONDS if self._in_place else _EVERY_SECONDS
        first = not self._drawn and now - self._began < terminal.PATIENCE_SECONDS
        if first or now - self._said < wait or not (self._in_place or self._in_lines):
            return
        self._said, self._drawn = now, True
        text = self.text(now - self._began)
        write_error(f"\r\x1b[2K{text[: terminal.width() - 1]}" if self._in_place else f"{text}\n")

    def text(self, seconds: float) -> str:
        """Rows, rates, the share that is not whole, and an estimate of the rest."""
        rows, tokens, over = (
            self._done[place] + sum(values)
            for place, values in enumerate(
                zip(*((mark.rows, mark.tokens, mark.cut) for mark in self._now.values()), strict=True)
                if self._now
                else [(), (), ()]
            )
        )
        here = self._done[4] + sum(mark.rows for mark in self._now.values())
        rate = here / seconds if seconds else 0.0
        left = sum(size or 0 for size in self._sizes.values()) - self._done[3]
        rest = ""
        if self._done[5]:
            rest = f", about {_span(seconds * left / self._done[5])} left"
        share = over * 1000 // rows / 10 if rows else 0
        speed = tokens / rows * rate if rows else 0.0
        over_budget = f"{share} % cut, refused or failed"
        return f"{rows:,} rows, {rate:,.0f} rows/s, {speed:,.0f} tokens/s, {over_budget}{rest}"

    def stop(self) -> None:
        if self._drawn and self._in_place:
            write_error("\r\x1b[2K")


def _span(seconds: float) -> str:
    if seconds < 120:  # noqa: PLR2004  # two minutes are still told in seconds
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"  # noqa: PLR2004


@contextmanager
def _watching(*, in_lines: bool) -> Iterator[_Meter]:
    meter = _Meter(in_place=sys.stderr.isatty() and not in_lines, in_lines=in_lines)
    try:
        yield meter
    finally:
        meter.stop()
