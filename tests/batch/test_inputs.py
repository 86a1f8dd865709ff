"""Inputs and outputs as users have them: byte order marks, damaged archives, wrong names, mixed types."""

from __future__ import annotations

import gc
import gzip
import io
import json
import os
import re
import sys
import threading
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from tests.batch.rows import read_jsonl
from tokenbox import batch
from tokenbox.batch import BatchPlan, storage
from tokenbox.batch.cells import check_columns
from tokenbox.batch.errors import InvalidAddress, InvalidPlan, RowTooLarge
from tokenbox.batch.reading import ShardReader
from tokenbox.batch.shards import shard_input
from tokenbox.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LINES = b'{"id": 1, "text": "one two"}\n{"id": 2, "text": "three"}\n'


def totals(source: Path, **options: Any) -> list[int]:  # of every kind
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


# ``mtime``: the data are in the names of the tests, which must be the same in workers that start later.
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("in.jsonl.gz", gzip.compress(LINES * 50, mtime=0)[:-20]),
        ("in.jsonl.gz", gzip.compress(LINES * 50, mtime=0)[:20] + b"\xff" * 60),
        ("in.jsonl.gz", LINES),
        ("in.jsonl.zst", zstandard.ZstdCompressor().compress(LINES * 50)[:-9]),
        ("in.jsonl.zst", LINES),
    ],
)
def test_a_damaged_archive_is_an_error_and_never_a_shorter_input(
    tmp_path: Path, name: str, data: bytes
) -> None:
    (tmp_path / name).write_bytes(data)
    said = "the zstd data cannot be expanded: " if name.endswith(".zst") else ""
    with pytest.raises(InvalidAddress, match=f"cannot be read: {said}"):
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
    plan = BatchPlan.of(task="count", **{option: given})
    if option == "budget":
        with pytest.raises(InvalidPlan, match="the first rows have no column 'qestion'"):
            check_columns(plan, sharded)
    else:
        warning = check_columns(plan, sharded)
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
        file.writelines([b"half", None])  # type: ignore[list-item]  # wrong by intent
    assert not remote.is_file("memory://drafts/out.jsonl")


class CloudError(Exception):
    """An error as those of botocore, gcsfs and azure, which are no ``OSError``."""


@pytest.mark.parametrize(
    ("owner", "method", "way"),
    [
        (MemoryFileSystem, "_open", "written"),
        (MemoryFile, "write", "written"),
        (MemoryFile, "close", "written"),
        (MemoryFileSystem, "rm", "written"),
        (MemoryFileSystem, "find", "written"),
        (MemoryFileSystem, "isdir", "written"),
        (MemoryFileSystem, "isfile", "written"),
        (MemoryFileSystem, "makedirs", None),  # object stores have no folders
        (MemoryFileSystem, "_open", "read"),
        (MemoryFile, "read", "read"),
        (MemoryFileSystem, "info", "read"),
    ],
)
def test_an_error_of_a_remote_file_system_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, way: str | None
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CloudError("the token has expired")

    (tmp_path / "in.jsonl").write_bytes(LINES)
    here, there = str(tmp_path), "memory://cloud"
    batch.run(f"{here}/in.jsonl", f"{there}/in.jsonl", task="count", keep=["id", "text"], overwrite=True)
    source, output = (there, f"{here}/out.jsonl") if way == "read" else (here, f"{there}/in.jsonl")
    monkeypatch.setattr(owner, method, fail)
    text = f"{there}.* cannot be {way}: CloudError: the token has expired"
    with nullcontext() if way is None else pytest.raises(InvalidAddress, match=text):
        batch.run(f"{source}/in.jsonl", output, task="count", overwrite=True)


@pytest.mark.parametrize("scheme", ["ftp", "github", "webhdfs"])
def test_a_file_system_that_needs_more_than_an_address_is_one_message(tmp_path: Path, scheme: str) -> None:
    with pytest.raises(InvalidAddress, match=f"{scheme}://host cannot be opened, neither by fsspec: "):
        batch.run(f"{scheme}://host/in.jsonl", tmp_path / "out.jsonl", task="count")


def errors(source: Path, **options: Any) -> list[str | None]:  # of every kind
    """Compile the rows of ``source``, and return the messages of their errors."""
    output = source.with_name("out.jsonl")
    batch.run(source, output, overwrite=True, budget=50, **options)
    return [row["error"] and row["error"]["message"] for row in read_jsonl(output)]


@pytest.mark.parametrize(
    ("name", "values", "bad"),
    [  # Functions: the first array of a process loads pandas.
        ("text", lambda: pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xff", b"b"]).buffers()), 0),
        ("id", lambda: pa.array([1, 10**7], pa.date32()), 1),
        ("id", lambda: pa.array([2**62, 1], pa.timestamp("us")), 0),
    ],
    ids=["text", "date", "time"],
)
def test_a_value_of_parquet_that_python_does_not_have_costs_its_row(
    tmp_path: Path, name: str, values: Callable[[], pa.Array], bad: int
) -> None:
    column = values()
    table = pa.table({"id": [1, 2], "text": ["a", "b"]})
    table = table.set_column(table.column_names.index(name), name, column)
    pq.write_table(table, tmp_path / "in.parquet")
    found = errors(tmp_path / "in.parquet")
    assert found[1 - bad] is None
    assert str(found[bad]).startswith(f"the column {name} ({column.type}) has a value that cannot be read: ")


def test_damaged_pages_of_parquet_are_one_message(tmp_path: Path) -> None:
    """Arrow raises a ``ValueError`` for an index beyond the dictionary, and an ``OSError`` for others."""
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": ["a", "b", "c"] * 500}), path, compression="none")
    data = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    stop = column.dictionary_page_offset + column.total_compressed_size
    data[stop - 40 : stop] = b"\xff" * 40
    path.write_bytes(data)
    with pytest.raises(InvalidAddress, match=r"in\.parquet cannot be read: "):
        totals(path)


@pytest.mark.parametrize("task", ["select", "count", "fit"])
def test_a_list_in_a_cell_is_what_a_list_in_json_lines_is(tmp_path: Path, task: str) -> None:
    lists = {
        "select": ["one two", "three"],
        "count": [{"role": "user", "content": "one"}],
        "fit": [{"role": "user", "content": "one"}],
    }
    name = {"select": "chunks"}.get(task, "messages")
    cell = json.dumps(json.dumps(lists[task])).replace('\\"', '""')
    (tmp_path / "in.csv").write_text(f"{name}\n{cell}\n")
    (tmp_path / "in.jsonl").write_text(json.dumps({name: lists[task]}) + "\n")
    results = []
    for suffix in ("csv", "jsonl"):
        batch.run(tmp_path / f"in.{suffix}", tmp_path / "out.jsonl", task=task, budget=500, overwrite=True)
        results.append((tmp_path / "out.jsonl").read_bytes())
    assert results[0] == results[1]
    assert read_jsonl(tmp_path / "out.jsonl")[0]["error"] is None


@pytest.mark.parametrize("text", ['[{"a": 1}]', "[1, 2]", "[{}]"])
def test_a_text_that_is_json_is_a_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": text}) + "\n")
    assert errors(tmp_path / "in.jsonl") == [None]
    assert read_jsonl(tmp_path / "out.jsonl")[0]["text"] == text
    assert errors(tmp_path / "in.jsonl", task="count") == [None]


def test_a_row_without_content_says_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": 1, "body": "a"}\n{"id": 2, "text": null}\n')
    missing, null = errors(tmp_path / "in.jsonl")
    assert "no column text or content. Its columns: id, body. Name" in str(missing)
    assert null == "the column text is null."


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("cr.csv", b"id,text\r1,a\r2,b\r", r"ends its lines with CR alone. Convert them: tr '\\r' '\\n'"),
        ("latin.csv", b"id,t\xe9xt\n1,a\n", r"byte 4 of its header is 0xE9. Convert it: iconv -f latin1"),
        ("wide.csv", "id,text\n1,a\n".encode("utf-16"), r"byte 0 of its header .* iconv -f utf-16"),
        ("other.csv", b"id;body\n1;a\n", r"none of the columns text, content, sections .* are id;body\."),
    ],
)
def test_csv_that_is_not_ours_is_one_message(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises((InvalidAddress, InvalidPlan), match=message):
        errors(tmp_path / name)


def test_a_quote_that_is_never_closed_is_an_error_of_its_row(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('id,text\n1,a\n2,"b\n3,c\n4,d\n')
    assert errors(tmp_path / "in.csv") == [None, "a quote is never closed: the row has the last 13 bytes."]
    (tmp_path / "in.csv").write_text('id,text\n1,"b\nc"')
    assert errors(tmp_path / "in.csv") == [None]


@pytest.mark.parametrize(
    ("source", "output", "message"),
    [
        ("-", "out.jsonl", "INPUT cannot be standard input"),
        ("", "out.jsonl", "INPUT is empty"),
        ("in.jsonl", "-", "OUTPUT cannot be standard output"),
        ("in.jsonl", "", "OUTPUT is empty"),
        ("pipe", "out.jsonl", "pipe is a pipe or a device, which cannot be read twice"),
        ("in.jsonl", "out.xml", "results are not written as .xml"),
    ],
)
def test_a_name_that_is_no_place_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, output: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_bytes(LINES)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidAddress, match=message):
        batch.run(source, output, task="count")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "pipe"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "process", "address": "ray://a:1"}, "the engine process has no address 'ray://a:1'"),
        ({"engine": "inline", "workers": 4}, "the engine inline has 1 worker, not 4"),
        ({"output_format": "csv"}, "is named as jsonl, not csv"),
        ({"budget": "4k"}, "not '4k'. Write 4000"),
        ({"task": "render", "mode": "html"}, "mode is one of xml, markdown, minimal, not 'html'"),
    ],
)
def test_an_option_without_effect_is_refused_before_the_output_is_touched(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    (tmp_path / "in.jsonl").write_bytes(LINES)
    output = tmp_path / "out.jsonl"
    output.write_text("mine")
    with pytest.raises(InvalidPlan, match=re.escape(message)):
        batch.run(tmp_path / "in.jsonl", output, **{"task": "count", "overwrite": True, **options})
    assert output.read_text() == "mine"


def test_memory_is_of_this_process_only(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(LINES)
    with pytest.raises(
        InvalidPlan, match=r"no worker of the engine process can reach it\. Use --engine inline"
    ):
        batch.run(tmp_path / "in.jsonl", "memory://out/of.jsonl", task="count", engine="process")


def test_a_shard_of_parquet_that_fails_prints_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Arrow closes a writer when it is collected; the file is closed by then, which it would print."""
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(LINES * 5_000, mtime=0)[:-20])
    with pytest.raises(InvalidAddress):
        batch.run(tmp_path / "in.jsonl.gz", tmp_path / "out.parquet", task="count")
    gc.collect()
    assert capfd.readouterr().err == ""


def test_a_file_of_a_folder_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text("one two")
    (folder / "b.txt").write_text("mine")
    opened = storage.LocalStorage.open

    def refused(self: storage.LocalStorage, path: str) -> Any:  # noqa: ANN401  # a file
        if path.endswith("b.txt"):  # the superuser of a test may read everything
            raise PermissionError(13, "Permission denied", path)
        return opened(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(storage.LocalStorage, "open", refused)
        batch.run(folder, tmp_path / "out.jsonl", task="count", overwrite=True)
    rows = read_jsonl(tmp_path / "out.jsonl")
    assert rows[0]["total"] == 2
    assert rows[1]["error"]["message"] == "b.txt cannot be read: permission denied."
    again = batch.run(folder, tmp_path / "out.jsonl", task="count", resume=True)
    assert (again.reused, again.failed) == (0, 0)
    os.mkfifo(folder / "pipe")
    with pytest.raises(InvalidAddress, match="in/pipe cannot be read: it is a pipe or a device, not a file"):
        totals(folder)
    (folder / "pipe").unlink()
    (folder / "gone.txt").symlink_to(tmp_path / "nothing")
    with pytest.raises(InvalidAddress, match=r"in/gone\.txt cannot be read: No such file"):
        totals(folder)


@pytest.mark.parametrize(
    ("package", "source", "output"),
    [
        ("zstandard", "in.jsonl.zst", "out.jsonl"),
        ("pyarrow.parquet", "in.parquet", "out.jsonl"),
        ("fsspec", "in.jsonl", "out.jsonl"),
        ("pyarrow.parquet", "in.jsonl", "out.parquet"),
    ],
)
def test_a_missing_extra_costs_no_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, source: str, output: str
) -> None:
    for name in ("in.jsonl.zst", "in.parquet", "in.jsonl", output):
        (tmp_path / name).write_bytes(LINES)
    monkeypatch.setitem(sys.modules, package, None)
    address = "http://nowhere.invalid/rows.jsonl" if package == "fsspec" else str(tmp_path / source)
    with pytest.raises(MissingExtra, match=r"tokenbox-llm\[batch\]"):
        batch.run(address, tmp_path / output, task="count", overwrite=True)
    assert (tmp_path / output).read_bytes() == LINES
    assert not (tmp_path / f"{output}.batch").exists()


class Answers(BaseHTTPRequestHandler):
    """Answers ``/ok.jsonl`` with a row, and ``/403.jsonl`` with that status."""

    def do_GET(self) -> None:
        data = b'{"text": "a"}\n' if self.path == "/ok.jsonl" else b""
        self.send_response(200 if data else 403)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET  # noqa: N815  # the name that the server calls

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_a_server_that_refuses_is_one_message_and_no_password_is_written(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://anna:hunter2@127.0.0.1:{server.server_port}"
        found = batch.run(f"{address}/ok.jsonl", tmp_path / "out.jsonl", task="count")
        with pytest.raises(InvalidAddress, match="403") as caught:
            batch.run(f"{address}/403.jsonl", tmp_path / "no.jsonl", task="count")
        server.shutdown()
    assert found.tally.rows == 1
    assert found.input.startswith("http://anna:***@127.0.0.1:")
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"hunter2" not in written + json.dumps(caught.value.to_dict()).encode()
