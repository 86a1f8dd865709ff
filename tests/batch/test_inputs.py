"""Inputs and outputs as users have them: byte order marks, damaged archives, wrong names, mixed types."""

from __future__ import annotations

import gzip
import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.batch.rows import read_jsonl
from tokenbox import batch
from tokenbox.batch import BatchPlan, storage
from tokenbox.batch.columns import check_columns
from tokenbox.batch.errors import InvalidAddress, InvalidPlan, RowTooLarge
from tokenbox.batch.reading import ShardReader
from tokenbox.batch.shards import shard_input

if TYPE_CHECKING:
    from pathlib import Path

LINES = b'{"id": 1, "text": "one two"}\n{"id": 2, "text": "three"}\n'


def totals(source: Path, **options: Any) -> list[int]:  # noqa: ANN401  # of every kind
    """Count the rows of ``source``, and return their totals."""
    output = source.with_name("out.jsonl")
    batch.run(source, output, task="count", overwrite=True, **options)
    return [row["total"] for row in read_jsonl(output)]


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(b"\xef\xbb\xbf" + LINES)
    assert totals(tmp_path / "in.jsonl") == [2, 1]
    (tmp_path / "in.jsonl").write_bytes(b"\xef\xbb\xbf")
    assert totals(tmp_path / "in.jsonl") == []


def test_every_frame_of_zstd_is_read(tmp_path: Path) -> None:
    frame = zstandard.ZstdCompressor().compress(LINES)
    (tmp_path / "in.jsonl.zst").write_bytes(frame + frame)
    assert totals(tmp_path / "in.jsonl.zst") == [2, 1, 2, 1]
    large = json.dumps({"text": "a " * 3_000_000}).encode() + b"\n"
    (tmp_path / "in.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(large) + frame)
    assert totals(tmp_path / "in.jsonl.zst")[1:] == [2, 1]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("in.jsonl.gz", gzip.compress(LINES * 50)[:-20]),
        ("in.jsonl.gz", gzip.compress(LINES * 50)[:20] + b"\xff" * 60),
        ("in.jsonl.gz", LINES),
        ("in.jsonl.zst", zstandard.ZstdCompressor().compress(LINES * 50)[:-9]),
        ("in.jsonl.zst", LINES),
    ],
)
def test_a_damaged_archive_is_an_error_and_never_a_shorter_input(
    tmp_path: Path, name: str, data: bytes
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidAddress, match="cannot be read"):
        totals(tmp_path / name)
    assert not list(tmp_path.rglob(".draft-*"))


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_an_input_without_rows_has_an_output_without_rows(tmp_path: Path, suffix: str) -> None:
    for name in ("in.jsonl", "in.csv"):
        (tmp_path / name).touch()
        found = batch.run(tmp_path / name, tmp_path / f"{name}.{suffix}", task="count")
        assert found.tally.rows == 0
    if suffix == "csv":
        assert (tmp_path / "in.csv.csv").read_text() == "id,total,exact,digest,error\n"
    if suffix == "parquet":
        assert pq.read_table(tmp_path / "in.csv.parquet").column_names[-1] == "error"


def test_an_output_never_replaces_its_input(tmp_path: Path) -> None:
    source = tmp_path / "rows" / "part-00000.jsonl"
    source.parent.mkdir()
    source.write_bytes(LINES)
    (tmp_path / "link").symlink_to(source.parent)
    for given, output in (
        (source, source),
        (source, tmp_path / "link" / source.name),
        (source, source.parent),
        (source.parent, source.parent),
        (source.parent, source.parent / "out"),
        (source.parent, tmp_path / "link" / "out.jsonl"),
    ):
        with pytest.raises(InvalidAddress, match="Name an"):
            batch.run(given, output, task="count", overwrite=True)
    assert [path.read_bytes() for path in source.parent.iterdir()] == [LINES]


def test_a_name_that_promises_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_bytes(LINES)
    with pytest.raises(InvalidAddress, match="--input-format jsonl"):
        totals(tmp_path / "in.json")
    assert totals(tmp_path / "in.json", input_format="jsonl") == [2, 1]
    with pytest.raises(InvalidAddress, match="results are not written as"):
        batch.run(tmp_path / "in.json", tmp_path / "out.json", task="count", input_format="jsonl")


def test_a_column_with_a_type_per_file_is_text(tmp_path: Path) -> None:
    """Types that hold both values are used; a number and a text have none."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name, table in {
        "a": {"id": pa.array([1], pa.int32()), "n": pa.array([1], pa.int32()), "z": pa.array([None])},
        "b": {
            "id": pa.array(["x"]),
            "n": pa.array([2], pa.int64()),
            "more": pa.array([1.5]),
            "z": pa.array([3]),
        },
    }.items():
        pq.write_table(pa.table({**table, "text": ["one"]}), folder / f"{name}.parquet")
    batch.run(folder, tmp_path / "out.parquet", task="count", keep=["id", "n", "z", "more"])
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.schema.field("n").type == pa.int64()
    assert found.select(["id", "n", "z", "more"]).to_pylist() == [
        {"id": "1", "n": 1, "z": None, "more": None},
        {"id": "x", "n": 2, "z": 3, "more": 1.5},
    ]


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table([[1], ["a"]], names=["text", "text"]), tmp_path / "in.parquet")
    with pytest.raises(InvalidAddress, match="two columns 'text'"):
        totals(tmp_path / "in.parquet")


@pytest.mark.parametrize("option", ["content", "query", "system", "budget", "keep"])
def test_a_misspelt_column_is_found_before_the_first_row(tmp_path: Path, option: str) -> None:
    given: Any = ["qestion"] if option == "keep" else "qestion"
    (tmp_path / "in.csv").write_text("id,question\n1,why\n")
    with pytest.raises(InvalidPlan, match=f"Did you mean --{option} question"):
        totals(tmp_path / "in.csv", **{option: given})
    (tmp_path / "in.jsonl").write_text('{"question": "why"}\n')
    sharded = shard_input(str(tmp_path / "in.jsonl"))
    warning = check_columns(BatchPlan.of(task="count", **{option: given}), sharded)
    assert warning is not None
    assert "the first rows have no column 'qestion'" in warning
    right: Any = ["question"] if option == "keep" else "question"
    assert check_columns(BatchPlan.of(task="count", **{option: right}), sharded) is None


def test_the_first_error_is_counted_over_all_shards(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(LINES * 20 + b"{bad\n" + LINES + b"[]\n")
    found = batch.run(tmp_path / "in.jsonl", tmp_path / "out.jsonl", task="count", shard_size=100)
    assert found.shards > 5
    assert found.tally.first_error is not None
    assert found.tally.first_error[0] == 40
    assert "not JSON" in found.tally.first_error[1]
    again = batch.run(tmp_path / "in.jsonl", tmp_path / "out.jsonl", task="count", resume=True)
    assert again.tally.first_error == found.tally.first_error


class _Counting(io.BufferedReader):
    """A file that counts the bytes that are taken from it."""

    taken = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        _Counting.taken += len(line)
        return line


def test_a_shard_inside_a_long_line_reads_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a line of n bytes, cut into shards, costs n * n."""
    line = json.dumps({"text": "word " * 20_000}).encode() + b"\n"
    (tmp_path / "in.jsonl").write_bytes(line + LINES)
    monkeypatch.setattr(storage.LocalStorage, "open", lambda _, path: _Counting(io.FileIO(path)))
    shards = shard_input(str(tmp_path / "in.jsonl"), shard_size=1_000).shards
    rows = [row for shard in shards for chunk in ShardReader(shard).chunks() for row in chunk]
    assert len(shards) > 100
    assert len(rows) == 3
    assert _Counting.taken < 3 * len(line)


def test_a_long_line_of_csv_is_an_error_of_its_row(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(
        f'n,text\n1,a\n2,{"b" * 5_000}\n3,"{"c" * 600}\n{"d" * 600}"\n4,{"e" * 700},{"f" * 700}\n5,g\n'
    )
    (shard,) = shard_input(str(tmp_path / "in.csv")).shards
    first, second, third, fourth, fifth = next(ShardReader(shard, max_row=1_000).chunks())
    assert (first, fifth) == ({"n": "1", "text": "a"}, {"n": "5", "text": "g"})
    assert all(isinstance(row, RowTooLarge) for row in (second, third, fourth))


def test_a_remote_file_that_is_not_finished_is_removed() -> None:
    remote = storage.storage_of("memory://drafts/out.jsonl")
    with pytest.raises(TypeError), remote.create("memory://drafts/out.jsonl") as file:
        file.writelines([b"half", None])
    assert not remote.is_file("memory://drafts/out.jsonl")
