"""The content store in a directory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tokenbox.content.block_kinds import Lang
from tokenbox.content.blocks import CodeBlock
from tokenbox.lcp import body_digest, decode, encode
from tokenbox.lcp.errors import DigestMismatch
from tokenbox.store.content_store import ContentStoreError, DirectoryStore

if TYPE_CHECKING:
    from pathlib import Path

BODY = b"body"
DIGEST = body_digest(BODY)


def files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def test_what_was_put_is_there_for_another_store_of_the_directory(tmp_path: Path) -> None:
    DirectoryStore(tmp_path / "new").put(DIGEST, BODY)
    assert DirectoryStore(tmp_path / "new").get(DIGEST) == BODY


def test_reading_makes_no_directory(tmp_path: Path) -> None:
    assert DirectoryStore(tmp_path / "new").get(DIGEST) is None
    assert not (tmp_path / "new").exists()


def test_putting_twice_changes_nothing_and_leaves_no_other_file(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    store.put(DIGEST, BODY)
    (file,) = files(tmp_path)
    before = file.stat().st_mtime_ns
    store.put(DIGEST, BODY)
    assert files(tmp_path) == [file]
    assert file.stat().st_mtime_ns == before
    assert file.relative_to(tmp_path).as_posix() == f"{DIGEST.hex()[:2]}/{DIGEST.hex()[2:]}"


def test_packs_share_it_and_notice_when_a_file_was_changed(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    block = CodeBlock(Lang.C, "a.c", b"int main;")
    first = encode([block], store=store, deduplicate=True)
    second = encode([block], store=store, deduplicate=True)
    assert len(second) < len(first) + 32
    assert decode(second, DirectoryStore(tmp_path)).blocks == (block,)
    files(tmp_path)[0].write_bytes(b"something else")
    with pytest.raises(DigestMismatch):
        decode(second, store)


def test_a_file_over_the_limit_is_refused(tmp_path: Path) -> None:
    DirectoryStore(tmp_path).put(DIGEST, BODY)
    assert DirectoryStore(tmp_path, limit=len(BODY)).get(DIGEST) == BODY
    with pytest.raises(ContentStoreError) as caught:
        DirectoryStore(tmp_path, limit=len(BODY) - 1).get(DIGEST)
    assert caught.value.code == "content_store_error"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_the_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    path = tmp_path / DIGEST.hex()[:2] / DIGEST.hex()[2:]
    path.parent.mkdir()
    os.mkfifo(path)
    with pytest.raises(ContentStoreError, match="not a regular file"):
        DirectoryStore(tmp_path).get(DIGEST)


def test_a_directory_that_cannot_be_written_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = DirectoryStore(tmp_path / "file")
    with pytest.raises(ContentStoreError):
        store.put(DIGEST, BODY)
    with pytest.raises(ContentStoreError):
        store.get(DIGEST)


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(ContentStoreError, match="No space left"):
        DirectoryStore(tmp_path).put(DIGEST, BODY)
    assert files(tmp_path) == []


@pytest.mark.parametrize("damaged", [b"", BODY[:-1], BODY + b"x", b"bodY"])
def test_a_damaged_copy_is_replaced(tmp_path: Path, damaged: bytes) -> None:
    """A crash of the machine may leave an empty file. Packs that refer to it cannot be read."""
    store = DirectoryStore(tmp_path)
    store.put(DIGEST, BODY)
    files(tmp_path)[0].write_bytes(damaged)
    store.put(DIGEST, BODY)
    assert store.get(DIGEST) == BODY
    block = CodeBlock(Lang.C, "a.c", b"int main;")
    encode([block], store=store, deduplicate=True)
    for file in files(tmp_path):
        file.write_bytes(damaged)
    assert decode(encode([block], store=store, deduplicate=True), store).blocks == (block,)
