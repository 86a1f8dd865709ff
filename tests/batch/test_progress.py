"""What a run says while it runs."""

from __future__ import annotations

from collections import Counter

from tokenbox.batch.shards import RowFormat, Shard, Sharded
from tokenbox.batch.summary import BatchSummary
from tokenbox.batch.tally import Tally
from tokenbox.batch.work import Mark, ShardRecord
from tokenbox.cli.batch import _Meter, _picture


def test_progress_has_rates_the_share_that_is_not_whole_and_an_estimate_of_the_rest() -> None:
    meter = _Meter(in_place=False, in_lines=False)
    shards = tuple(
        Shard(number, RowFormat.JSONL, ("a",), number * 100, number * 100 + 100) for number in range(4)
    )
    meter.plan(Sharded(RowFormat.JSONL, 100, shards))
    assert meter.text(1.0) == "0 rows, 0 rows/s, 0 tokens/s, 0 % cut, refused or failed"
    tally = Tally(rows=1_000, tokens=50_000, outcomes=Counter(whole=900, cut=100))
    meter.watch(ShardRecord(0, "i", "o", "f", 1, tally))
    meter.watch(Mark(1, 500, 756, rows=500, tokens=25_000, cut=50))
    assert meter.text(3.0) == (
        "1,500 rows, 500 rows/s, 25,000 tokens/s, 10.0 % cut, refused or failed, about 9 s left"
    )


def test_what_an_earlier_run_did_is_no_speed_of_this_one() -> None:
    meter = _Meter(in_place=False, in_lines=False)
    shards = tuple(Shard(n, RowFormat.JSONL, ("a",), n * 100, n * 100 + 100) for n in range(3))
    meter.plan(Sharded(RowFormat.JSONL, 100, shards))
    tally = Tally(rows=10, tokens=50, outcomes=Counter(whole=10))
    meter.watch(ShardRecord(0, "i", "o", "f", 1, tally, reused=True))
    assert meter.text(2.0).startswith("10 rows, 0 rows/s, 0 tokens/s")
    meter.watch(ShardRecord(1, "i", "o", "f", 1, tally))
    assert meter.text(2.0).endswith(", about 2 s left")


def test_the_summary_says_for_how_many_rows_the_saving_is_unknown() -> None:
    found = BatchSummary(
        task="layout",
        input="in.jsonl",
        output="out.jsonl",
        engine="local",
        workers=1,
        digest="0",
        shards=1,
        reused=0,
        skipped=(),
        tally=Tally(rows=3, saved=1_200, unmeasured=2),
        seconds=0.0,
        model=None,
        tokenizer={"name": "o200k_base"},
    )
    shown = ["".join(span.text for span in line) for line in _picture(found)]
    assert "saved    1,200; the saving of 2 rows is unknown" in shown
