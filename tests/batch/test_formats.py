"""Parquet, addresses, and the steps of other people's pipelines."""

from __future__ import annotations

import csv
import json
import pickle
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.batch.rows import mixed, read_jsonl, text, write_jsonl
from tokenbox import batch
from tokenbox.batch import Compile, reading
from tokenbox.batch.errors import InvalidAddress, RowTooLarge
from tokenbox.batch.evidence import _place
from tokenbox.batch.reading import ShardReader, without_nulls
from tokenbox.batch.shards import RowFormat, Shard, shard_input
from tokenbox.errors import MissingExtra
from tokenbox.tokenizers import registry

if TYPE_CHECKING:
    from pathlib import Path

CHAT = [{"role": "user", "content": "hello there"}]


def table(count: int) -> pa.Table:
    import random

    chance = random.Random(7)
    return pa.table(
        {
            "id": pa.array(range(count), pa.int32()),
            "label": pa.array([None if n % 5 == 0 else f"l{n}" for n in range(count)]),
            "text": pa.array([text(chance, 40) for _ in range(count)]),
            "messages": pa.array([CHAT if n % 2 else None for n in range(count)]),
        }
    )


@pytest.mark.slow
def test_parquet_in_and_out_is_what_json_lines_are(tmp_path: Path) -> None:
    data = table(300)
    pq.write_table(data, tmp_path / "in.parquet", row_group_size=70)
    write_jsonl(tmp_path / "in.jsonl", data.to_pylist())
    options: dict[str, Any] = {"task": "layout", "budget": 12, "keep": ["id", "label"], "shard_size": 2_000}
    one = batch.run(tmp_path / "in.parquet", tmp_path / "out.parquet", **options)
    batch.run(tmp_path / "in.jsonl", tmp_path / "out.jsonl", **options)
    found, wanted = pq.read_table(tmp_path / "out.parquet"), read_jsonl(tmp_path / "out.jsonl")
    assert one.shards > 5
    assert found.schema.field("id").type == pa.int32()
    assert found.schema.field("text").type == pa.large_string()
    assert found.schema.field("total").type == pa.int64()
    for mine, theirs in zip(found.to_pylist(), wanted, strict=True):
        assert mine == {**theirs, "decisions": json.dumps(theirs["decisions"], separators=(",", ":"))}


def test_kept_values_that_json_has_as_text_are_plain_in_csv(tmp_path: Path) -> None:
    values = {
        "day": datetime(2026, 11, 1, tzinfo=UTC).date(),
        "sum": Decimal("1.10"),
        "raw": b"\xff\x00",
        "none": float("nan"),
        "list": [1, None],
        "text": "short",
    }
    pq.write_table(pa.table({name: [value] for name, value in values.items()}), tmp_path / "in.parquet")
    keep = [name for name in values if name != "text"]
    batch.run(tmp_path / "in.parquet", tmp_path / "out.csv", task="count", keep=keep)
    with (tmp_path / "out.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    found = [row[name] for name in keep]
    assert found == ["2026-11-01", "1.10", "/wA=", "", "[1,null]"]


def test_a_folder_of_parquet_keeps_one_schema(tmp_path: Path) -> None:
    """A shard in which every row failed has the columns and types of the others."""
    pq.write_table(pa.table({"text": pa.array(["a", None] * 50)}), tmp_path / "in.parquet", row_group_size=10)
    batch.run(tmp_path / "in.parquet", tmp_path / "out", task="count", keep=[], shard_size=1)
    parts = sorted((tmp_path / "out").glob("*.parquet"))
    assert len({str(pq.read_schema(part)) for part in parts}) == 1
    assert pq.read_table(parts).num_rows == 100
    again = batch.run(tmp_path / "in.parquet", tmp_path / "out", task="count", keep=[], resume=True)
    assert again.reused == len(parts)


def test_what_arrow_adds_to_records_is_taken_away() -> None:
    row = {"messages": [{"role": "user", "content": "a", "name": None}, {"role": "tool", "id": 1, "x": None}]}
    assert without_nulls(row) == {"messages": [{"role": "user", "content": "a"}, {"role": "tool", "id": 1}]}


def test_a_huge_row_of_parquet_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b" * 5_000]}), tmp_path / "in.parquet")
    reader = ShardReader(shard_input(str(tmp_path / "in.parquet")).shards[0], max_row=1_000)
    first, second = next(reader.chunks())
    assert first == {"text": "a"}
    assert isinstance(second, RowTooLarge)


def test_long_rows_of_parquet_are_read_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of a batch may pass neither the memory nor, with 2 GiB, the offsets of Arrow."""
    data = pa.table({"text": [f"{n} " + "".join(map(chr, range(n + 33, n + 533))) for n in range(100)]})
    pq.write_table(data, tmp_path / "in.parquet", use_dictionary=False, compression=None)
    group = pq.ParquetFile(tmp_path / "in.parquet").metadata.row_group(0)
    assert reading.batch_rows(group) == reading.CHUNK_ROWS
    (shard,) = shard_input(str(tmp_path / "in.parquet")).shards
    before = [row for chunk in ShardReader(shard).chunks() for row in chunk]
    asked: list[int] = []
    whole = pq.ParquetFile.iter_batches

    def iter_batches(file: pq.ParquetFile, rows: int, *given: Any, **named: Any) -> Any:  # noqa: ANN401
        asked.append(rows)
        return whole(file, rows, *given, **named)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)
    for limit, rows in ((10_000, range(5, 25)), (1, range(1, 2))):
        monkeypatch.setattr(reading, "BATCH_BYTES", limit)
        assert [row for chunk in ShardReader(shard).chunks() for row in chunk] == before
        assert asked.pop() in rows


def test_what_is_no_parquet_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "in.parquet").write_bytes(b"PAR1 not at all")
    with pytest.raises(InvalidAddress, match="not a Parquet file"):
        batch.run(tmp_path / "in.parquet", tmp_path / "out.jsonl", task="count")


def test_parquet_without_its_extra_is_one_message_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jsonl(tmp_path / "in.jsonl", [{"text": "a"}])
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtra, match=r"tokenbox-llm\[batch\]"):
        batch.run(tmp_path / "in.jsonl", tmp_path / "out.parquet", task="count")
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_addresses_are_read_and_written(tmp_path: Path, kind: str) -> None:
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    source = write_jsonl(tmp_path / "in.jsonl", mixed(60))
    memory.pipe("/rows/in.jsonl", source.read_bytes())
    output = f"memory://out/{kind}"
    found = batch.run(
        "memory://rows/", output, task="auto", budget="limit", shard_size=4_000, output_format=kind
    )
    local = batch.run(source, tmp_path / "out", task="auto", budget="limit", shard_size=4_000)
    assert found.digest == local.digest
    assert len(memory.glob(f"/out/{kind}/part-*.{kind}")) == found.shards > 2
    again = batch.run("memory://rows/", output, task="auto", budget="limit", resume=True, output_format=kind)
    assert again.reused == found.shards


def test_an_address_that_nobody_can_open_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(InvalidAddress, match="nosuch"):
        batch.run("nosuch://bucket/rows.jsonl", tmp_path / "out.jsonl", task="count")


# Compile.

TEXTS = ["one two three four five six", "short"]


def check(found: Any) -> None:  # noqa: ANN401  # whatever a library has for columns
    wanted = [registry.get("o200k_base").count(text) for text in TEXTS]
    assert list(found["compiled_total"]) == [3, wanted[1]]
    assert list(found["compiled_text"]) == ["one two three", "short"]


@pytest.fixture(scope="module")
def step() -> Compile:
    return Compile("layout", budget=3)


def test_compile_takes_the_batches_of_every_library(step: Compile) -> None:
    import numpy as np
    import pandas as pd

    check(step({"text": TEXTS}))
    check(step({"text": np.array(TEXTS, dtype=object)}))
    check(step(pd.DataFrame({"text": TEXTS})))
    check(step(pa.table({"text": TEXTS})).to_pydict())
    check({name: [row[name] for row in step([{"text": t} for t in TEXTS])] for name in step.columns})
    assert [row["compiled_total"] for row in step(pa.array(TEXTS))] == [3, 1]
    assert set(step(pa.table({"text": TEXTS})).column_names) == {"text", *step.columns}


def test_compile_gives_a_failed_row_an_error_and_the_types_stay(step: Compile) -> None:
    found = step(pa.table({"text": pa.array([None], pa.string())}))
    assert found.schema.field("compiled_total").type == pa.int64()
    assert json.loads(found["compiled_error"][0].as_py())["code"] == "row_invalid"
    assert step({"text": []})["compiled_total"] == []


def test_compile_is_the_same_pickle_before_and_after_work(step: Compile) -> None:
    fresh = pickle.dumps(Compile("layout", budget=3))
    step({"text": TEXTS})
    assert pickle.dumps(step) == fresh
    check(pickle.loads(fresh)({"text": TEXTS}))


@pytest.mark.slow
def test_compile_in_datasets(step: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="an extra of the tests")
    data = datasets.Dataset.from_dict({"text": TEXTS})
    check(data.map(step, batched=True, keep_in_memory=True).to_dict())
    check(data.with_format("arrow").map(step, batched=True, keep_in_memory=True).with_format(None).to_dict())


@pytest.mark.slow
def test_compile_in_daft(step: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", "true")
    monkeypatch.setenv("DAFT_ANALYTICS_ENABLED", "0")
    daft = pytest.importorskip("daft", reason="an extra of the tests")
    total = daft.func.batch(return_dtype=daft.DataType.int64())(step.column("total"))
    frame = daft.from_pydict({"text": TEXTS}).with_column("total", total(daft.col("text")))
    assert frame.to_pydict()["total"] == [3, 1]


def test_the_files_of_a_shard_are_counted_as_english_does() -> None:
    names = [
        _place(Shard(0, RowFormat.FILES, ("d/a.txt", "d/b.txt", "d/c.txt")[:size])) for size in (1, 2, 3)
    ]
    assert names == ["a.txt", "a.txt and 1 more file", "a.txt and 2 more files"]
