"""Runs on this machine: formats, order, resume, and what is there already."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.batch.rows import mixed, read_jsonl, write_jsonl
from tests.growth import calls
from tokenbox import batch
from tokenbox.batch import shards
from tokenbox.batch.errors import InvalidAddress, RowError, RowsFailed, RunDiffers
from tokenbox.batch.reading import ShardReader
from tokenbox.batch.runs import RunOptions, run
from tokenbox.batch.shards import RowFormat, shard_input
from tokenbox.batch.storage import storage_of
from tokenbox.batch.writing import json_text
from tokenbox.cli.schema import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

AUTO: Mapping[str, Any] = {"task": "auto", "budget": "limit"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "rows.jsonl", mixed(150))


def test_every_row_has_its_row_in_order(source: Path, tmp_path: Path) -> None:
    found = batch.run(source, tmp_path / "out.jsonl", shard_size=4_000, **AUTO)
    rows = read_jsonl(tmp_path / "out.jsonl")
    given = [json.loads(line) for line in source.read_text().splitlines()]
    assert found.shards > 3
    assert [row["id"] for row in rows] == [row.get("id") if isinstance(row, dict) else None for row in given]
    assert found.failed == sum(row["error"] is not None for row in rows) > 5
    assert found.tally.tokens == sum(row["total"] or 0 for row in rows)
    assert not (tmp_path / "out.jsonl.batch" / "parts").exists()
    jsonschema.validate(
        json.loads((tmp_path / "out.jsonl.batch" / "summary.json").read_text()),
        schema_of("batch.summary/1", strict=True),
    )


@pytest.mark.parametrize("size", [1, 100, 3_000, 10**9])
@pytest.mark.slow
def test_the_shard_size_changes_no_row(source: Path, tmp_path: Path, size: int) -> None:
    """A line belongs to the shard in which it begins; a shard of one byte has one line, or none."""
    small = write_jsonl(tmp_path / "small.jsonl", mixed(4)) if size == 1 else source
    batch.run(small, tmp_path / "a.jsonl", **AUTO)
    batch.run(small, tmp_path / "b.jsonl", shard_size=size, **AUTO)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n\n \n"])
def test_lines_may_end_as_they_like(tmp_path: Path, ending: bytes) -> None:
    (tmp_path / "in.jsonl").write_bytes(b'\n{"text": "a"}\r\n\n{"text": "b"}' + ending)
    assert batch.run(tmp_path / "in.jsonl", tmp_path / "out.jsonl", task="count").tally.rows == 2


def test_an_empty_input_is_an_empty_output(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").touch()
    found = batch.run(tmp_path / "in.jsonl", tmp_path / "out.jsonl", task="count")
    assert (found.tally.rows, found.shards) == (0, 0)
    assert (tmp_path / "out.jsonl").read_bytes() == b""
    jsonschema.validate(found.to_dict(), schema_of("batch.summary/1", strict=True))


def test_a_huge_row_is_an_error_and_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{"text": "' + "b" * 9_000 + '"}\n{"text": "c"}\n')
    monkeypatch.setattr("tokenbox.batch.reading._PIECE", 1_000)
    shard = shard_input(str(tmp_path / "in.jsonl")).shards[0]
    reader = ShardReader(shard, max_row=2_000)
    lines = list(reader._lines())  # noqa: SLF001  # what is held of a line
    assert [len(line) for line in lines] == [14, 2_001, 14]
    assert reader.digest == ShardReader(shard).digest_input()
    errors = [
        row.code for row in next(ShardReader(shard, max_row=2_000).chunks()) if isinstance(row, RowError)
    ]
    assert errors == ["row_too_large"]


def test_compressed_files_are_read(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    data = source.read_bytes()
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(data))
    (folder / "b.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(data))
    found = batch.run(folder, tmp_path / "out", **AUTO)
    plain = batch.run(source, tmp_path / "plain", **AUTO)
    one, two = sorted((tmp_path / "out").glob("part-*.jsonl"))
    assert one.read_bytes() == two.read_bytes() == (tmp_path / "plain" / "part-00000.jsonl").read_bytes()
    assert found.tally.rows == 2 * plain.tally.rows


def test_csv_with_newlines_in_cells_is_cut_between_rows(tmp_path: Path) -> None:
    rows = [(str(n), f'he said "no",\nand\n\nwent {n}' if n % 3 else "plain") for n in range(200)]
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *rows])
    whole = batch.run(tmp_path / "in.csv", tmp_path / "a.jsonl", task="layout", budget=100)
    cut = batch.run(tmp_path / "in.csv", tmp_path / "b.jsonl", task="layout", budget=100, shard_size=300)
    assert (whole.shards, whole.tally.rows) == (1, 200)
    assert cut.shards > 10
    assert [row["text"] for row in read_jsonl(tmp_path / "b.jsonl")] == [text for _, text in rows]
    out = batch.run(tmp_path / "in.csv", tmp_path / "c.csv", task="layout", budget=100, shard_size=300)
    assert out.digest == cut.digest
    with (tmp_path / "c.csv").open(newline="") as file:
        assert [row["text"] for row in csv.DictReader(file)] == [text for _, text in rows]


def test_the_rows_between_two_cuts_cost_no_step_each(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("id,text\n" + "".join(f'"{n}","a, ""b""\nc"\n' for n in range(20_000)))
    assert calls(lambda: shard_input(str(source), shard_size=100_000)) < 1_000


def test_a_quote_within_a_cell_does_not_move_the_cuts(tmp_path: Path) -> None:
    """As in ``5" disk``: Python's csv takes it as a character, so the cell ends at the next delimiter."""
    body = 'id,size "text,text\n' + "".join(f'{n},5" disk,"one\ntwo ""{n}"""\n' for n in range(30))
    (tmp_path / "in.csv").write_text(body)
    whole = batch.run(tmp_path / "in.csv", tmp_path / "a.jsonl", task="count")
    assert (whole.shards, whole.tally.rows, whole.failed) == (1, 30, 0)
    for size in (1, 40, 300):
        cut = batch.run(
            tmp_path / "in.csv", tmp_path / "b.jsonl", task="count", shard_size=size, overwrite=True
        )
        assert cut.shards > 2
        assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def ends_of_rows(text: str) -> list[int]:
    """The positions after the newlines that end a row for Python's csv."""
    place = 0

    def lines(given: str) -> Iterator[str]:
        nonlocal place
        for line in given.splitlines(keepends=True):
            place += len(line)
            yield line

    found = [place for _ in csv.reader(lines(text))]
    # The last row may end with the text, or in an open cell: another line would belong to it.
    is_open = not text.endswith("\n") or len(list(csv.reader(lines(f"{text}\n")))) == len(found)
    return found[:-1] if is_open else found


@given(text=st.text('a,"\n', max_size=20), piece=st.integers(1, 5), size=st.integers(1, 9))
def test_rows_of_csv_end_where_pythons_csv_says(text: str, piece: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "_PIECE", piece)
        found = list(shards._cuts(io.BytesIO(text.encode()), 0, size, "x.csv"))  # noqa: SLF001
    wanted, ends = size, []
    for end in ends_of_rows(text):
        if end >= wanted:
            ends.append(end)
            wanted = end + size
    assert found == ends


def test_what_is_wrong_in_csv_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(b"\xef\xbb\xbfid,text\n1,a\n2,b,c\n3,\xff\n\n4,d\n")
    batch.run(tmp_path / "in.csv", tmp_path / "out.jsonl", task="count")
    found = [(row["id"], (row["error"] or {}).get("code")) for row in read_jsonl(tmp_path / "out.jsonl")]
    assert found == [("1", None), (None, "row_unreadable"), ("3", "invalid_text"), ("4", None)]


@pytest.mark.parametrize("head", [b"\n1\n", b"a,a\n1,2\n", b'"' + b"x" * (1 << 20)])
def test_csv_without_names_is_refused(tmp_path: Path, head: bytes) -> None:
    (tmp_path / "in.csv").write_bytes(head)
    with pytest.raises(InvalidAddress):
        batch.run(tmp_path / "in.csv", tmp_path / "out.jsonl", task="count")


def test_a_folder_of_texts_is_a_row_each(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "b").mkdir(parents=True)
    (folder / "a.md").write_text("alpha")
    (folder / "b" / "c.txt").write_text("beta gamma")
    (folder / "d.bin").write_bytes(b"\xff\xfe")
    (folder / ".hidden").write_text("no")
    found = batch.run(folder, tmp_path / "out.jsonl", task="count")
    rows = read_jsonl(tmp_path / "out.jsonl")
    assert [row["id"] for row in rows] == ["a.md", "b/c.txt", None]
    assert [row["total"] for row in rows] == [1, 2, None]
    assert found.failed == 1


def test_files_of_one_format_are_shards_and_the_others_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        write_jsonl(folder / f"train-{number:05}-of-00003.jsonl", [{"id": number, "text": "a"}])
    (folder / "README.md").write_text("about")
    found = batch.run(folder, tmp_path / "out.jsonl", task="count")
    assert [row["id"] for row in read_jsonl(tmp_path / "out.jsonl")] == [0, 1, 2]
    assert [Path(name).name for name in found.skipped] == ["README.md"]
    (folder / "more.csv").write_text("id,text\n9,b\n")
    with pytest.raises(InvalidAddress, match="several formats"):
        batch.run(folder, tmp_path / "more.jsonl", task="count")
    pattern = batch.run(f"{folder}/train-*.jsonl", tmp_path / "pattern.jsonl", task="count")
    assert pattern.tally.rows == 3


def test_a_run_that_is_there_is_not_touched(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("mine")
    with pytest.raises(RunDiffers, match="--overwrite"):
        batch.run(source, out, **AUTO)
    assert out.read_text() == "mine"
    batch.run(source, out, overwrite=True, **AUTO)
    with pytest.raises(RunDiffers, match="budget"):
        batch.run(source, out, resume=True, task="auto", budget=7)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": "0.0.0"}, "a run with version '0.0.0'.*Use that release"),
        ({"tokenizer": {"fingerprint": "x"}}, "a run with tokenizer name None"),
        ({"shard_size": None}, "run.json is missing or damaged"),
        ({"shard_size": 0}, "run.json is missing or damaged"),
        ({"shard_size": "4000"}, "run.json is missing or damaged"),
    ],
)
def test_a_run_of_another_kind_is_not_resumed(
    source: Path, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    out = tmp_path / "out.jsonl"
    batch.run(source, out, **AUTO)
    made, record = out.read_bytes(), tmp_path / "out.jsonl.batch" / "run.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | change))
    with pytest.raises(RunDiffers, match=message):
        batch.run(source, out, resume=True, **AUTO)
    assert out.read_bytes() == made


def test_overwriting_a_run_removes_nothing_else(source: Path, tmp_path: Path) -> None:
    batch.run(source, tmp_path / "out" / "inner", **AUTO)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    batch.run(source, tmp_path / "out", overwrite=True, **AUTO)
    inner = (tmp_path / "out" / "inner" / "part-00000.jsonl").read_bytes()
    assert inner == (tmp_path / "out" / "part-00000.jsonl").read_bytes()
    assert (tmp_path / "out" / "notes.txt").exists()
    kept = tmp_path / "out.jsonl.batch" / "rows.jsonl"
    kept.parent.mkdir()
    kept.write_bytes(source.read_bytes())
    (tmp_path / "out.jsonl").write_text("old")
    with pytest.raises(InvalidAddress, match="is the input or contains it"):
        batch.run(kept, tmp_path / "out.jsonl", overwrite=True, **AUTO)
    assert kept.exists()


@pytest.mark.parametrize("output", ["out", "out.jsonl"])
def test_an_output_that_is_being_written_is_refused_to_others(
    source: Path, tmp_path: Path, output: str
) -> None:
    """The parts of two runs have the same names."""
    refused = []

    def second(_: object) -> None:
        for way in ("resume", "overwrite"):
            options: dict[str, Any] = {"task": "count", way: True}
            with pytest.raises(RunDiffers, match="another process writes"):
                batch.run(source, tmp_path / output, **options)
            refused.append(way)

    run(source, tmp_path / output, batch.BatchPlan(task=batch.Task.COUNT), watch=second)
    assert {"resume", "overwrite"} <= set(refused)
    made = batch.run(source, tmp_path / output, task="count", resume=True)
    assert made.reused == made.shards


def test_a_run_that_is_replaced_before_it_is_resumed_is_not_mixed_with_the_other(
    source: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    exact, estimated = (batch.BatchPlan.of(task="count", tokenizer=name) for name in ("o200k_base", "chars4"))
    run(source, output, exact)

    def replace(*_: object) -> None:
        run(source, output, estimated, RunOptions(overwrite=True))

    with pytest.raises(RunDiffers, match="meanwhile"):
        run(source, output, exact, RunOptions(resume=True), planned=replace)
    assert run(source, output, estimated, RunOptions(resume=True)).reused


def test_who_is_refused_leaves_the_folder_to_the_run_that_has_it(tmp_path: Path) -> None:
    """Before its first file it is empty: with another folder of that name, a third run would begin."""
    storage = storage_of(str(tmp_path))
    folder = str(tmp_path / "out.batch")
    with storage.held(folder) as first:
        for _ in range(2):
            with storage.held(folder) as other:
                assert (first, other) == (True, False)
    assert not Path(folder).exists()


def test_a_resumed_run_has_the_cost_of_a_fresh_one(tmp_path: Path) -> None:
    """Above 200,000 tokens this model costs more; the tally of the first run does not tell them apart."""
    source = write_jsonl(tmp_path / "in.jsonl", [{"text": "a"}, {"text": "word " * 210_000}])
    plan: dict[str, Any] = {"task": "count", "model": "gemini-2.5-pro", "tokenizer": "o200k_base"}
    batch.run(source, tmp_path / "out.jsonl", **plan)
    resumed = batch.run(source, tmp_path / "out.jsonl", resume=True, on=date(2026, 10, 1), **plan)
    fresh = batch.run(source, tmp_path / "fresh.jsonl", on=date(2026, 10, 1), **plan)
    assert resumed.dollars == fresh.dollars is not None
    again = batch.run(source, tmp_path / "out.jsonl", resume=True, on=date(2026, 10, 1), **plan)
    assert (again.dollars, again.reused) == (fresh.dollars, again.shards)


@pytest.mark.parametrize("output", ["out", "out.jsonl"])
def test_resume_does_only_what_does_not_hold(source: Path, tmp_path: Path, output: str) -> None:
    out = tmp_path / output
    first = batch.run(source, out, shard_size=3_000, **AUTO)
    again = batch.run(source, out, resume=True, **AUTO)
    assert (again.reused, again.digest) == (first.shards, first.digest)
    lines = source.read_bytes().splitlines(keepends=True)
    changed = lines[-1].replace(b'"id": 149', b'"id": 941')
    source.write_bytes(b"".join([*lines[:-1], changed]))
    third = batch.run(source, out, resume=True, **AUTO)
    assert third.reused == (first.shards - 1 if output == "out" else 0)
    fresh = batch.run(source, tmp_path / "fresh.jsonl", shard_size=3_000, **AUTO)
    assert third.digest == fresh.digest != first.digest


def test_a_damaged_part_and_a_torn_record_are_done_again(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = batch.run(source, out, shard_size=3_000, **AUTO)
    (out / "part-00001.jsonl").write_bytes(b"damaged")
    (out / "part-00002.jsonl").unlink()
    (out / "_batch" / "shards" / "00003.json").write_text('{"number": 3, "inp')
    (out / "_batch" / "shards" / "00004.json").write_text('{"number": 1e999}')
    (out / ".draft-1-part-00004.jsonl").write_text("half")
    again = batch.run(source, out, resume=True, **AUTO)
    assert (again.reused, again.digest) == (first.shards - 4, first.digest)
    assert not list(out.glob(".draft*"))


def test_a_shorter_input_leaves_nothing_of_the_longer(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = batch.run(source, out, shard_size=3_000, **AUTO)
    source.write_bytes(b"".join(source.read_bytes().splitlines(keepends=True)[:20]))
    second = batch.run(source, out, resume=True, **AUTO)
    assert second.shards < first.shards
    assert len(list(out.glob("part-*"))) == second.shards


def test_fail_fast_ends_at_the_first_row_that_fails(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", [{"text": "a"}, {"no": 1}, {"text": "b"}])
    with pytest.raises(RowsFailed, match="row 1 of shard 0"):
        batch.run(source, tmp_path / "out.jsonl", task="count", fail_fast=True)
    assert not (tmp_path / "out.jsonl").exists()


def test_the_shard_size_follows_from_the_input_alone() -> None:
    sizes = [shards._shard_size(total) for total in (0, 1, 10**9, 10**12, 10**15)]  # noqa: SLF001
    assert sizes == [1 << 20, 1 << 20, 1 << 21, 1 << 28, 1 << 28]


def test_what_json_does_not_have_is_written_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": NaN, "text": "a"}\n{"id": "\\ud800", "text": "b"}\n')
    batch.run(tmp_path / "in.jsonl", tmp_path / "out.jsonl", task="count")
    assert [row["id"] for row in read_jsonl(tmp_path / "out.jsonl")] == [None, "\ud800"]
    given = {"array": np.array([1.5, float("nan")]), 2: (float("inf"), "\ud800"), "1": b"x"}
    assert json_text(given) == r'{"array":[1.5,null],"2":[null,"\ud800"],"1":"eA=="}'


def test_an_input_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    for name in ("nothing.jsonl", "no*.jsonl"):
        with pytest.raises(InvalidAddress):
            batch.run(tmp_path / name, tmp_path / "out.jsonl", task="count")
    assert RowFormat("jsonl") is RowFormat.JSONL


_PEAK = """
import resource, sys
from tokenbox import batch, named_code
named_code.allow("tests.batch.rows:words")
plan = {"task": "count", "tokenizer": "tests.batch.rows:words", "engine": "inline"}
for source in sys.argv[1:]:
    batch.run(source, source + ".out.jsonl", **plan)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """A run of 20 MB after one of 1 MB takes no more than 8 MB more."""
    sources = []
    for rows in (1_000, 20_000):
        path = tmp_path / f"{rows}.jsonl"
        with path.open("w") as file:
            file.writelines(f'{{"id": {n}, "text": "{"word " * 200}{n}"}}\n' for n in range(rows))
        sources.append(str(path))
    done = subprocess.run([sys.executable, "-c", _PEAK, *sources], capture_output=True, text=True, check=True)
    small, large = map(int, done.stdout.split())
    assert large - small < 8_000
