"""The log of a store: deletion, reordering, cutting and forks are found; kills and crowds leave it valid."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.proof.examples import EXAMPLES, layout_evidence
from tests.waiting import SECONDS
from tokenbox.proof.errors import KeyInvalid, LogInvalid, SignatureInvalid
from tokenbox.store.bundle_log import ENTRIES, HASHES, PENDING, Inclusion, verify_log
from tokenbox.store.bundles import Bundles
from tokenbox.store.key_files import read_public, read_signer, write_key

if TYPE_CHECKING:
    from tokenbox.proof.signing import PublicKey, SigningKey

ROOT = Path(__file__).parents[2]


@pytest.fixture
def keys(tmp_path: Path) -> tuple[SigningKey, PublicKey]:
    write_key(tmp_path / "key")
    return read_signer(tmp_path / "key"), read_public(tmp_path / "key.pub")


@pytest.fixture
def store(tmp_path: Path, keys: tuple[SigningKey, PublicKey]) -> Bundles:
    store = Bundles(tmp_path / "proof", signers=[keys[0]])
    for budget in (40, 50, 60, 70, 80):
        store.write(layout_evidence(budget))
    return store


def problems(store: Bundles, *keys: PublicKey, kept: bytes | None = None) -> list[str]:
    elsewhere = [] if kept is None else [("kept.json", kept)]
    found = verify_log(store.log, store.ids, list(keys) or None, 1, elsewhere)
    return [f"{error.file}: {error.field}" for error in found]


def test_a_public_key_signs_nothing(tmp_path: Path) -> None:
    write_key(tmp_path / "key")
    with pytest.raises(KeyInvalid, match=r"is a public key\. To sign, use key\."):
        read_signer(tmp_path / "key.pub")


def test_every_bundle_is_entered_once_in_order(store: Bundles, keys: tuple[SigningKey, PublicKey]) -> None:
    assert sorted(store.log.ids()) == store.ids()
    assert [one.size for one, _ in store.log.checkpoints()] == [1, 2, 3, 4, 5]
    before = list(store.log.ids())
    assert not store.write(layout_evidence(50)).new
    assert list(store.log.ids()) == before
    assert problems(store, keys[1]) == []


def test_a_bundle_that_was_deleted(store: Bundles, keys: tuple[SigningKey, PublicKey]) -> None:
    gone = list(store.log.ids())[2]
    shutil.rmtree(store.folder / gone)
    assert problems(store, keys[1]) == ["log/entries: line 3"]
    # And its line with it.
    lines = (store.log.folder / ENTRIES).read_bytes().splitlines(keepends=True)
    (store.log.folder / ENTRIES).write_bytes(b"".join(lines[:2] + lines[3:]))
    assert problems(store, keys[1]) == [f"log/checkpoints: line {n}" for n in (3, 4, 5)]


def test_a_log_that_was_reordered(store: Bundles, keys: tuple[SigningKey, PublicKey]) -> None:
    path = store.log.folder / ENTRIES
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))
    assert problems(store, keys[1])[0] == "log/checkpoints: line 1"


def test_a_log_that_was_cut(store: Bundles, keys: tuple[SigningKey, PublicKey]) -> None:
    kept = list(store.log.checkpoints())[-1][1]
    last = list(store.log.ids())[-1]
    shutil.rmtree(store.folder / last)
    path = store.log.folder / ENTRIES
    path.write_bytes(path.read_bytes()[:-65])
    assert problems(store, keys[1]) == ["log/checkpoints: line 5"]
    # Its checkpoint with it: only one that was kept elsewhere tells.
    checkpoints = store.log.folder / "checkpoints"
    checkpoints.write_bytes(b"".join(checkpoints.read_bytes().splitlines(keepends=True)[:-1]))
    assert problems(store, keys[1]) == []
    assert problems(store, keys[1], kept=kept) == ["log/checkpoints: kept.json"]


def test_a_fork(store: Bundles, keys: tuple[SigningKey, PublicKey], tmp_path: Path) -> None:
    shutil.copytree(store.folder, tmp_path / "fork")
    fork = Bundles(tmp_path / "fork", signers=[keys[0]])
    store.write(layout_evidence(90))
    fork.write(layout_evidence(91))
    assert problems(store, keys[1]) == problems(fork, keys[1]) == []
    kept = list(fork.log.checkpoints())[-1][1]
    assert problems(store, keys[1], kept=kept) == ["log/checkpoints: kept.json"]


def test_a_bundle_that_was_smuggled_in(store: Bundles, tmp_path: Path) -> None:
    other = Bundles(tmp_path / "other").write(EXAMPLES["blocks"]())
    shutil.copytree(other.path, store.folder / other.id)
    assert problems(store) == [f"{other.id}: None"]


def test_another_key(store: Bundles, tmp_path: Path) -> None:
    other = write_key(tmp_path / "other")
    assert problems(store, other) == [f"log/checkpoints, line {n}: signatures" for n in range(1, 6)]
    # A rotation: the new key signs from now on, and verifiers take both.
    rotated = Bundles(store.folder, signers=[read_signer(tmp_path / "other")])
    rotated.write(layout_evidence(99))
    assert problems(store, other, read_public(tmp_path / "key.pub")) == []


def test_an_unsigned_log(tmp_path: Path, keys: tuple[SigningKey, PublicKey]) -> None:
    store = Bundles(tmp_path / "proof")
    store.write(layout_evidence())
    assert problems(store) == []
    assert problems(store, keys[1]) == ["log/checkpoints: None"]


@pytest.mark.parametrize("size", [0, 1, 64, 66, 130])
def test_what_a_kill_tore_off_is_cut(store: Bundles, size: int) -> None:
    entries, hashes = store.log.folder / ENTRIES, store.log.folder / HASHES
    whole = hashes.read_bytes()
    entries.write_bytes(entries.read_bytes() + b"f" * (size % 65))
    hashes.write_bytes(whole[: len(whole) - size])
    checkpoints = store.log.folder / "checkpoints"
    checkpoints.write_bytes(checkpoints.read_bytes() + b'{"payload"')
    assert problems(store) == []
    store.write(layout_evidence(90))
    assert problems(store) == []
    assert hashes.read_bytes().startswith(whole)
    assert store.log.inclusion(list(store.log.ids())[3]).number == 3


def test_a_published_bundle_that_was_not_entered_is_entered_next(
    store: Bundles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr("tokenbox.store.bundle_log.os.fsync", fsync)
    other = Bundles(tmp_path / "other").write(EXAMPLES["blocks"]())
    shutil.copytree(other.path, store.folder / other.id)
    (store.log.folder / PENDING).write_text(other.id)
    assert problems(store) == []
    store.write(layout_evidence(90))
    assert list(store.log.ids())[5] == other.id
    assert synced == [(store.log.folder / ENTRIES).stat().st_ino]  # its writer may have synced the bundle
    assert problems(store) == []


@pytest.mark.parametrize("line", [b"x" * 64 + b"\n", b"a" * 65, b"A" * 64 + b"\n"])
def test_a_line_that_is_no_id(store: Bundles, line: bytes) -> None:
    path = store.log.folder / ENTRIES
    path.write_bytes(path.read_bytes() + line)
    assert problems(store) == ["log/entries: line 6"]


def test_one_bundle_is_shown_without_the_others(store: Bundles, keys: tuple[SigningKey, PublicKey]) -> None:
    ids = list(store.log.ids())
    for number, bundle_id in enumerate(ids):
        shown = Inclusion.of(store.log.inclusion(bundle_id).to_dict(), "x")
        assert shown.number == number
        shown.check(bundle_id, [keys[1]], 1, "x")
        assert not any(other in str(shown.to_dict()) for other in ids)
        with pytest.raises(LogInvalid, match="does not show"):
            shown.check(ids[number - 1], [keys[1]], 1, "x")
    with pytest.raises(SignatureInvalid):
        store.log.inclusion(ids[0]).check(ids[0], [], 1, "x")
    with pytest.raises(LogInvalid, match="does not have"):
        store.log.inclusion("0" * 64)
    records: tuple[object, ...] = (None, [], {}, {**store.log.inclusion(ids[0]).to_dict(), "path": ["x"]})
    for record in records:
        with pytest.raises(LogInvalid):
            Inclusion.of(record, "x")


WRITER = """
import sys
from tests.proof.examples import layout_evidence
from tokenbox.store.bundles import Bundles
from tokenbox.store.key_files import read_signer
from pathlib import Path
store = Bundles(sys.argv[1], signers=[read_signer(Path(sys.argv[2]))])
for number in range(15):
    store.write(layout_evidence(40 + int(sys.argv[3]) * 15 + number))
    store.write(layout_evidence(1_000 + number))
"""


@pytest.mark.slow
def test_many_processes_write_one_log(tmp_path: Path, keys: tuple[SigningKey, PublicKey]) -> None:
    arguments = [sys.executable, "-c", WRITER, str(tmp_path / "proof"), str(tmp_path / "key")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    writers = [subprocess.Popen([*arguments, str(n)], env=environment, cwd=ROOT) for n in range(4)]
    assert [writer.wait(SECONDS) for writer in writers] == [0, 0, 0, 0]
    store = Bundles(tmp_path / "proof")
    assert store.log.size() == 5 * 15
    assert len({one.size for one, _ in store.log.checkpoints()}) == 5 * 15
    assert problems(store, keys[1]) == []


def test_keys_in_files(tmp_path: Path) -> None:
    write_key(tmp_path / "a")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    for name in ("a", "b"):
        (tmp_path / "b.pub").touch()
        with pytest.raises(KeyInvalid, match="no key is overwritten"):
            write_key(tmp_path / name)
    assert not (tmp_path / "b").exists()
    (tmp_path / "a").chmod(0o640)
    with pytest.raises(KeyInvalid, match="chmod 600"):
        read_signer(tmp_path / "a")
    with pytest.raises(KeyInvalid, match="cannot be read"):
        read_public(tmp_path / "none")
    with pytest.raises(KeyInvalid, match="not a regular file"):
        read_public(Path(os.devnull))
    write_key(tmp_path / "new" / "key")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    with pytest.raises(KeyInvalid, match="cannot be written"):
        write_key(Path(os.devnull) / "folder" / "key")
