"""Counts that outlive the process: right, shared, and never a reason to fail."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.waiting import SECONDS
from tokenbox.files import cache_folder
from tokenbox.store.stored_counts import FILE_NAME, StoredCounts
from tokenbox.tokenizers.protocol import BaseTokenizer, TokenizerIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TEXTS = ["one", "two words", "", "three of them"]


class Words(BaseTokenizer):
    """Counts words, and remembers what it was asked."""

    def __init__(self, fingerprint: str = "ab" * 32) -> None:
        self.asked: list[str] = []
        self._identity = TokenizerIdentity("words", "1", fingerprint, exact=True)

    @property
    def identity(self) -> TokenizerIdentity:
        return self._identity

    def count(self, text: str) -> int:
        self.asked.append(text)
        return len(text.split())


def counted(folder: Path, texts: Sequence[str] = TEXTS, words: Words | None = None) -> list[str]:
    """Count ``texts`` with what is stored in the folder; returns what had to be counted."""
    words = Words() if words is None else words
    with StoredCounts(folder) as counts:
        assert counts.count_batch(words, texts) == [len(text.split()) for text in texts]
    return words.asked


def test_what_was_counted_once_is_not_counted_again(tmp_path: Path) -> None:
    assert counted(tmp_path / "new") == TEXTS
    assert counted(tmp_path / "new") == []
    assert counted(tmp_path / "new", [*TEXTS, "four"]) == ["four"]


def test_each_tokenizer_has_its_own_counts(tmp_path: Path) -> None:
    counted(tmp_path)
    assert counted(tmp_path, words=Words("any text, é")) == TEXTS
    assert counted(tmp_path) == counted(tmp_path, words=Words("any text, é")) == []
    assert counted(tmp_path, words=Words("ef" * 32)) == TEXTS


def test_many_texts_are_looked_up_together(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(3_000)]
    assert len(counted(tmp_path, texts)) == len(texts)
    assert counted(tmp_path, texts) == []


def test_the_file_is_private_and_has_no_text_in_it(tmp_path: Path) -> None:
    counted(tmp_path / "new", ["a remarkable text"])
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
    assert b"remarkable" not in (tmp_path / "new" / FILE_NAME).read_bytes()


@pytest.mark.parametrize(
    "damage",
    [b"", b"no database", b"SQLite format 3\x00" + b"\xff" * 5_000],
    ids=["empty", "something else", "damaged"],
)
def test_a_file_that_is_no_cache_is_made_anew(damage: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(damage)
    assert counted(tmp_path) == TEXTS
    assert counted(tmp_path) == []


@pytest.mark.parametrize("at", range(0, 12_288, 512))
def test_a_file_with_a_damaged_part_gives_right_counts_or_none(at: int, tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(200)]
    counted(tmp_path, texts)
    data = bytearray((tmp_path / FILE_NAME).read_bytes())
    data[at : at + 512] = b"\x5a" * 512
    (tmp_path / FILE_NAME).write_bytes(data)
    counted(tmp_path, texts)  # compares the counts
    counted(tmp_path, texts)


def test_a_number_that_was_changed_is_not_believed(tmp_path: Path) -> None:
    counted(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection, connection:
        connection.execute("UPDATE counts SET value = value + (1 << 32)")
    assert sorted(counted(tmp_path)) == sorted(TEXTS)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection, connection:
        connection.execute("UPDATE counts SET value = 'many'")
    assert sorted(counted(tmp_path)) == sorted(TEXTS)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection, connection:
        # A number that was stored for another text.
        connection.execute("UPDATE counts SET value = (SELECT max(value) FROM counts)")
    assert len(counted(tmp_path)) == len(TEXTS) - 1


def test_a_file_of_another_version_is_made_anew(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("CREATE TABLE counts (something)")
    assert counted(tmp_path) == TEXTS
    assert counted(tmp_path) == []


def test_what_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert counted(tmp_path / "file") == TEXTS  # a file where the folder should be
    (tmp_path / FILE_NAME).mkdir()
    assert counted(tmp_path) == TEXTS
    assert (tmp_path / FILE_NAME).is_dir()


def test_a_file_that_another_process_writes_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tokenbox.store.stored_counts._WAIT_SECONDS", 0.0)
    counted(tmp_path, ["before"])
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert counted(tmp_path) == TEXTS
        other.rollback()
        with StoredCounts(tmp_path) as counts:  # opened before it is locked
            other.execute("BEGIN EXCLUSIVE")
            assert counts.count_batch(Words(), TEXTS) == [1, 2, 0, 3]
            other.rollback()
    assert counted(tmp_path, ["before"]) == []


@pytest.mark.slow
def test_many_processes_share_a_file(tmp_path: Path) -> None:
    code = (
        "import sys; from tests.store.test_stored_counts import counted; from pathlib import Path\n"
        "counted(Path(sys.argv[1]), [f'{sys.argv[2]} {i}' for i in range(400)] + ['all'])"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(n)]) for n in range(4)]
    assert [worker.wait(SECONDS) for worker in workers] == [0] * 4
    assert counted(tmp_path, [f"{n} {i}" for n in range(4) for i in range(400)]) == []


def test_the_oldest_counts_go_first(tmp_path: Path) -> None:
    words = Words()
    for start in range(0, 100, 10):
        with StoredCounts(tmp_path, max_stored=30) as counts:
            counts.count_batch(words, [f"text {number}" for number in range(start, start + 10)])
    assert len(counted(tmp_path, [f"text {number}" for number in range(70)])) == 70
    assert counted(tmp_path, [f"text {number}" for number in range(70, 100)]) == []


def test_where_the_counts_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENBOX_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("TOKENBOX_CACHE_DIR")
    assert cache_folder().name == "tokenbox"
