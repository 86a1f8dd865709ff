"""The files of a run: their places, an existing run, and the joined output.

Beside the output is the folder of the run: `OUTPUT/_batch` for a folder, `OUTPUT.batch` for a file. It has
`run.json` with the options and the plan, a record for each finished shard, and `summary.json`. A killed run
resumes from there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from tokenbox.batch.errors import InvalidAddress, InvalidPlan, RunDiffers
from tokenbox.batch.shards import RowFormat, format_of, pyarrow_parquet
from tokenbox.batch.storage import DRAFT, storage_of, writes
from tokenbox.batch.work import ShardRecord, file_digest
from tokenbox.batch.writing import SUFFIX, WRITERS, json_text

if TYPE_CHECKING:
    from typing import BinaryIO

    from tokenbox.batch.plan import BatchPlan

SCHEMA = "tokenbox.batch.run/1"
FOLDER = "_batch"
# Suffixes that would name a folder, which nobody means by them.
_NOT_WRITTEN = frozenset(
    """
    .arrow .avro .bz2 .db .feather .gz .html .json .log .md .orc .pickle
    .sqlite .tar .tsv .txt .xlsx .xml .xz .yaml .yml .zip .zst
    """.split()
)
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class OutputPlaces:
    """The paths of the files of a run: a folder with a part per shard, or one file."""

    output: str
    is_folder: bool
    format: RowFormat

    @classmethod
    def of(cls, output: str, given: RowFormat | None, input_format: RowFormat) -> OutputPlaces:
        named = format_of(output)
        suffix = PurePosixPath(output).suffix.lower()
        if suffix in _NOT_WRITTEN:
            raise InvalidAddress(
                f"{output}: results are not written as {suffix}. Name a .jsonl, .csv or .parquet file.",
                address=output,
            )
        if given is RowFormat.FILES:
            raise InvalidPlan("the output format must be jsonl, csv or parquet, not files.")
        with writes(output, begun=False):
            is_folder = named is None or output.endswith("/") or storage_of(output).is_folder(output)
        if not is_folder and given not in (None, named):
            raise InvalidPlan(f"{output} is named as {named}, not {given}. Leave out --format, or rename it.")
        default = RowFormat.JSONL if input_format is RowFormat.FILES else input_format
        form = given or (default if is_folder or named is None else named)
        if form is RowFormat.PARQUET:
            pyarrow_parquet()  # a missing extra must not leave a run behind
        return cls(output.rstrip("/") if is_folder else output, is_folder, form)

    @property
    def folder(self) -> str:
        return f"{self.output}/{FOLDER}" if self.is_folder else f"{self.output}.batch"

    def part(self, number: int) -> str:
        parts = self.output if self.is_folder else f"{self.folder}/parts"
        return f"{parts}/part-{number:05}{SUFFIX[self.format]}"

    def record(self, number: int) -> str:
        return f"{self.folder}/shards/{number:05}.json"

    @property
    def run(self) -> str:
        return f"{self.folder}/run.json"

    @property
    def summary(self) -> str:
        return f"{self.folder}/summary.json"


def existing_run(output: str) -> dict[str, Any] | None:
    """Return the content of `run.json` of the output; None if it does not exist, or is damaged."""
    for folder in (f"{output.rstrip('/')}/{FOLDER}", f"{output}.batch"):
        try:
            with storage_of(folder).open(f"{folder}/run.json") as file:
                found = json.loads(file.read())
        except (OSError, ValueError, RecursionError):
            continue
        size = found.get("shard_size") if isinstance(found, dict) else None
        if type(size) is int and size > 0 and found.get("schema") == SCHEMA:
            return cast("dict[str, Any]", found)
    return None


@contextmanager
def held(places: OutputPlaces) -> Iterator[None]:
    """Hold the output during the context: two processes would mix their parts. Raises :class:`RunDiffers`."""
    with ExitStack() as stack:
        with writes(places.output, begun=False):
            is_free = stack.enter_context(storage_of(places.output).held(places.folder))
        if not is_free:
            raise RunDiffers(
                f"another process writes {places.output}. Wait for it to end, or name another output.",
                output=places.output,
            )
        yield


def prepare(
    places: OutputPlaces,
    record: dict[str, Any],
    before: Mapping[str, Any] | None,
    *,
    resume: bool,
    overwrite: bool,
) -> None:
    """Check that an existing output belongs to this run, or remove it. Raises :class:`RunDiffers`."""
    storage = storage_of(places.output)
    with writes(places.output, begun=before is not None):
        if before is not None:
            _check_same(record, before, places.output)
            record["output"] = before.get("output")
            _remove_drafts(places)
            return
        exists = storage.is_file(places.run) or (
            bool(storage.files(places.output)) if places.is_folder else storage.is_file(places.output)
        )
        if exists and not overwrite:
            way = (
                "Its run.json is missing or damaged, so that no run can continue it."
                if resume
                else "To continue an interrupted run: --resume."
            )
            raise RunDiffers(
                f"{places.output} exists already. {way} To replace it: --overwrite.", output=places.output
            )
        if exists:
            for name in storage.files(places.folder):  # the folder itself is held
                storage.remove(name)
            if not places.is_folder:
                storage.remove(places.output)
            else:
                for name in storage.files(places.output):
                    folder, _, own = name.rpartition("/")
                    if own.startswith("part-") and folder == places.output:  # not of a run in a folder below
                        storage.remove(name)
        write_json(places.run, record, begun=False)


def _check_same(record: Mapping[str, Any], before: Mapping[str, Any], output: str) -> None:
    now, then = _named(record), _named(before)
    for name, value in now.items():
        if then.get(name) != value:
            way = "Use that release of tokenbox" if name == "version" else "Use the same options"
            raise RunDiffers(
                f"{output} has a run with {name} {then.get(name)!r:.80}, and this one has {value!r:.80}. "
                f"{way}, name another output, or replace it: --overwrite.",
                output=output,
                option=name,
            )


def _named(record: Mapping[str, Any]) -> dict[str, object]:
    """Return what must be the same in a run that is resumed: the options by their names, and the rest."""
    found: dict[str, object] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            found |= {inner if name == "plan" else f"{name} {inner}": item for inner, item in value.items()}
        elif name != "output":
            found[name] = value
    return found


def _remove_drafts(places: OutputPlaces) -> None:
    """Remove the temporary files of killed workers."""
    storage = storage_of(places.output)
    for folder in (places.output if places.is_folder else f"{places.folder}/parts", places.folder):
        for name in storage.files(folder) if storage.is_folder(folder) else ():
            if name.rpartition("/")[2].startswith(DRAFT):
                storage.remove(name)


def assemble(
    places: OutputPlaces, plan: BatchPlan, record: dict[str, Any], records: Sequence[ShardRecord]
) -> None:
    """Join the parts into the output, atomically, unless it is complete already."""
    if records and all(shard.reused for shard in records) and record["output"] == file_digest(places.output):
        return
    with writes(places.output):
        parts = [places.part(shard.number) for shard in records]
        digest = join_parts(parts, places.output, places.format, plan.columns)
        write_json(places.run, {**record, "output": digest})
        storage_of(places.output).remove(f"{places.folder}/parts")


def remove_stale(places: OutputPlaces, count: int) -> None:
    """Remove the parts and records of an earlier, longer input."""
    storage = storage_of(places.output)
    with writes(places.output):
        for path_of in (places.part, places.record):
            number = count
            while storage.is_file(path_of(number)):
                storage.remove(path_of(number))
                number += 1


def write_json(address: str, value: object, *, begun: bool = True) -> None:
    with writes(address, begun=begun), storage_of(address).create(address) as file:
        file.write(f"{json_text(value)}\n".encode())


def join_parts(parts: Sequence[str], output: str, form: RowFormat, columns: Sequence[str]) -> str:
    """Write the parts to ``output``, atomically, and return the SHA-256 (hex) of the file.

    Without parts it has the ``columns`` and no row. Raises ``OSError``.
    """
    with storage_of(output).create(output, sync=True) as file:
        if not parts:
            WRITERS[form](file, columns, {}).finish()
        elif form is RowFormat.PARQUET:
            _join_columns(parts, file)
        else:
            for piece in _pieces(parts, has_head=form is RowFormat.CSV):
                file.write(piece)
    return file_digest(output) or hashlib.sha256().hexdigest()


def _pieces(parts: Sequence[str], *, has_head: bool) -> Iterator[bytes]:
    """Yield the bytes of the parts, with the header line of the first one only."""
    for number, part in enumerate(parts):
        with storage_of(part).open(part) as file:
            if has_head and number:
                file.readline()
            while data := file.read(_PIECE):
                yield data


def _join_columns(parts: Sequence[str], file: BinaryIO) -> None:
    parquet = pyarrow_parquet()
    writer = None
    try:
        for part in parts:
            with storage_of(part).open(part) as one:
                source = parquet.ParquetFile(one)
                if writer is None:
                    writer = parquet.ParquetWriter(file, source.schema_arrow, compression="zstd")
                for group in range(source.num_row_groups):
                    writer.write_table(source.read_row_group(group, use_threads=False))
    finally:
        if writer is not None:
            writer.close()
