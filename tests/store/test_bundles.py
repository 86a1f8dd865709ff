"""A bundle on disk is whole or not there: kills, full disks, several writers, and what others put there."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tokenbox
from tests.proof.examples import EXAMPLES, files_of, layout_evidence
from tests.waiting import SECONDS
from tokenbox.proof.errors import BundleInvalid
from tokenbox.proof.signing import new_key, public_key, signer_of
from tokenbox.proof.verify import verify
from tokenbox.store.bundle_files import FolderFiles, open_archive, open_bundle
from tokenbox.store.bundle_log import LOG
from tokenbox.store.bundles import (
    DRAFTS,
    BundleNotFound,
    Bundles,
    ProofNotWritten,
    bundles_of,
    environment,
    sign_bundle,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join((str(Path(tokenbox.__file__).parents[1]), str(ROOT))),
    "PYTHONDONTWRITEBYTECODE": "1",
}


def is_whole_or_nothing(folder: Path) -> bool:
    """Whether a bundle is there; it verifies, and nothing else is there."""
    store = Bundles(folder)
    for bundle_id in store.ids():
        verify(store.files(bundle_id), bundle_id)
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    assert names - {DRAFTS, LOG} == set(store.ids())
    drafts = folder / DRAFTS
    assert not drafts.exists() or list(drafts.iterdir()) == []
    return bool(store.ids())


@pytest.mark.parametrize("fsync", [False, True])
@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_written_is_what_was_built(tmp_path: Path, name: str, texts: bool, fsync: bool) -> None:
    evidence = EXAMPLES[name]()
    store = Bundles(tmp_path / "a" / "b", texts=texts, fsync=fsync)
    written = store(evidence)
    bundle_id, files = files_of(evidence, texts=texts)
    assert (written.id, written.new) == (bundle_id, True)
    assert is_whole_or_nothing(store.folder)
    found = FolderFiles(written.path)
    assert set(found.names()) == set(files)
    assert all(found.read(f, 1 << 20) == files[f] for f in files if f != "volatile.json")
    assert not store.write(evidence).new
    assert store.ids() == [bundle_id]


def test_files_have_the_permissions_that_the_user_wants(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        path = Bundles(tmp_path).write(layout_evidence()).path
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o750
    assert (path / "manifest.json").stat().st_mode & 0o777 == 0o640


@pytest.mark.slow
def test_killed_at_any_step(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.store.kill_writers", str(tmp_path / "proof")],
        env=ENVIRONMENT,
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=4 * SECONDS,  # hundreds of processes, one after another
    )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert found[0] == "none"
    assert found[-1] == "whole"
    assert found.count("none") > 100


def fault(monkeypatch: pytest.MonkeyPatch, at: int, number: int) -> list[str]:
    """Of the calls to the system that write, number ``at`` fails. Gives the names of those made."""
    calls: list[str] = []

    def failing(name: str) -> Callable[..., object]:
        real = getattr(os, name)

        def call(*args: object, **more: object) -> object:
            calls.append(name)
            if len(calls) - 1 == at:
                raise OSError(number, os.strerror(number))
            return real(*args, **more)

        return call

    for name in ("mkdir", "open", "write", "fsync", "rename"):
        monkeypatch.setattr(os, name, failing(name))
    return calls


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_failure_of_any_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    evidence = layout_evidence()
    outcomes, message = [], ""
    for at in range(200):
        folder = tmp_path / str(at)
        with monkeypatch.context() as patch:
            calls = fault(patch, at, number)
            try:
                Bundles(folder, fsync=True).write(evidence)
            except ProofNotWritten as error:
                outcomes.append(calls[at])
                message = error.message
        whole = is_whole_or_nothing(folder)
        if len(calls) <= at:
            assert whole
            break
        assert os.strerror(number) in message
    else:
        pytest.fail("the writing never ends")
    assert {"mkdir", "open", "write", "fsync", "rename"} <= set(outcomes)


def in_a_child(program: str, folder: Path, before: Callable[[], None] | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        env=ENVIRONMENT,
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=SECONDS,
        preexec_fn=before,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


WRITER = """
import sys
from tests.proof.examples import layout_evidence
from tokenbox.errors import TokenboxError
from tokenbox.store.bundles import Bundles
try:
    print("written", Bundles(sys.argv[1], texts=True).write(layout_evidence()).new)
except TokenboxError as error:
    print(error.code, error.message)
"""


def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))  # noqa: E731
    said = in_a_child(WRITER, tmp_path / "proof", limit)
    assert said.startswith("proof_not_written")
    assert "File too large" in said
    assert not is_whole_or_nothing(tmp_path / "proof")


READ_ONLY = """
import os, sys
from pathlib import Path
from tests.proof.examples import layout_evidence
from tokenbox.errors import TokenboxError
from tokenbox.store.bundles import Bundles
evidence = layout_evidence()
Bundles(Path(sys.argv[1], "warm")).write(evidence)  # imports what it needs, which nobody may read
os.chdir(Path(sys.argv[1], "proof"))
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    print("written", Bundles(".").write(evidence).new)
except TokenboxError as error:
    print(error.code, error.message)
"""


def test_a_folder_that_may_not_be_changed(tmp_path: Path) -> None:
    folder = tmp_path / "proof"
    folder.mkdir()
    folder.chmod(0o555)
    said = in_a_child(READ_ONLY, tmp_path)
    assert said.startswith("proof_not_written")
    assert "Permission denied" in said
    assert not is_whole_or_nothing(folder)


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch], ids=["folder", "file"])
def test_something_else_in_its_place(tmp_path: Path, make: Callable[[Path], None]) -> None:
    bundle_id, _ = files_of(layout_evidence())
    make(tmp_path / bundle_id)
    with pytest.raises(ProofNotWritten):
        Bundles(tmp_path).write(layout_evidence())
    assert list((tmp_path / DRAFTS).iterdir()) == [] if (tmp_path / DRAFTS).exists() else True


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "proof").touch()
    with pytest.raises(ProofNotWritten, match=r"File exists|Not a directory"):
        Bundles(tmp_path / "proof").write(layout_evidence())
    with pytest.raises(BundleNotFound):
        Bundles(tmp_path / "proof").ids()


def test_a_damaged_one_is_not_taken_for_the_same(tmp_path: Path) -> None:
    path = Bundles(tmp_path).write(layout_evidence()).path
    (path / "inputs.jsonl").write_bytes(b"")
    with pytest.raises(ProofNotWritten, match="damaged"):
        Bundles(tmp_path).write(layout_evidence())


def test_threads_that_write_the_same(tmp_path: Path) -> None:
    evidence = layout_evidence()
    found: list[bool] = []
    start = threading.Barrier(8)
    for turn in range(10):
        found.clear()
        folder = tmp_path / str(turn)

        def one(folder: Path = folder) -> None:
            start.wait()
            found.append(Bundles(folder, texts=True).write(evidence).new)

        threads = [threading.Thread(target=one) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [False] * 7 + [True]
        assert is_whole_or_nothing(folder)


@pytest.mark.slow
def test_processes_that_write_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "proof"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder)], env=ENVIRONMENT, cwd=ROOT, stdout=subprocess.PIPE
        )
        for _ in range(4)
    ]
    said = sorted(process.communicate(timeout=SECONDS)[0] for process in processes)
    assert said == [b"written False\n"] * 3 + [b"written True\n"]
    assert is_whole_or_nothing(folder)


def test_what_the_killed_left_is_swept_after_a_day(tmp_path: Path) -> None:
    old, new = tmp_path / DRAFTS / "old", tmp_path / DRAFTS / "new"
    for path in (old, new):
        path.mkdir(parents=True)
        (path / "manifest.json").touch()
    long_ago = time.time() - 2 * 24 * 60 * 60
    os.utime(old, (long_ago, long_ago))
    Bundles(tmp_path).write(layout_evidence())
    assert [path.name for path in (tmp_path / DRAFTS).iterdir()] == ["new"]


def test_ids_and_their_beginnings(tmp_path: Path) -> None:
    store = Bundles(tmp_path)
    assert store.ids() == []
    ids = [store.write(make()).id for make in EXAMPLES.values()]
    assert store.ids() == sorted(ids)
    assert store.find(ids[0][:20]) == store.find(ids[0]) == ids[0]
    for wrong in ("", "x", "../" + ids[0], ids[0] + "0"):
        with pytest.raises(BundleNotFound):
            store.find(wrong)
    (tmp_path / ("f" * 64)).mkdir()
    (tmp_path / ("f" * 63 + "0")).mkdir()
    with pytest.raises(BundleNotFound, match="Give more"):
        store.find("f" * 20)


def test_a_list_tells_what_cannot_be_read(tmp_path: Path) -> None:
    store = Bundles(tmp_path)
    whole, damaged = (store.write(EXAMPLES[name]()) for name in ("layout", "refusal"))
    (damaged.path / "manifest.json").write_bytes(b"{}")
    (tmp_path / ("f" * 64)).mkdir()
    listed = store.listed()
    assert listed[0].id == whole.id
    assert [bundle.problem is None for bundle in listed] == [True, False, False]


@pytest.fixture
def written(tmp_path: Path) -> tuple[str, Path]:
    done = Bundles(tmp_path, texts=True).write(layout_evidence())
    return done.id, done.path


def refused(written: tuple[str, Path]) -> BundleInvalid:
    with pytest.raises(BundleInvalid) as caught:
        verify(FolderFiles(written[1]), written[0])
    return caught.value


@pytest.mark.parametrize("name", ["manifest.json", "inputs.jsonl", "volatile.json", "texts", "extra"])
def test_links_are_not_followed(written: tuple[str, Path], tmp_path: Path, name: str) -> None:
    path = written[1] / name
    if path.exists():
        path.rename(tmp_path / "elsewhere")
    else:
        (tmp_path / "elsewhere").touch()
    path.symlink_to(tmp_path / "elsewhere")
    assert refused(written).file == name


@pytest.mark.parametrize("name", ["manifest.json", "decisions.jsonl", "volatile.json", "extra"])
def test_a_pipe_is_not_waited_for(written: tuple[str, Path], name: str) -> None:
    (written[1] / name).unlink(missing_ok=True)
    os.mkfifo(written[1] / name)
    assert refused(written).file == name


@pytest.mark.parametrize("name", ["manifest.json", "inputs.jsonl", "volatile.json"])
def test_a_huge_file_is_not_read(written: tuple[str, Path], name: str) -> None:
    os.truncate(written[1] / name, 1 << 40)
    assert refused(written).file == name


def test_folders_in_a_bundle(written: tuple[str, Path]) -> None:
    for name in ("summaries", "more", "texts/more"):
        (written[1] / name).mkdir()
        assert refused(written).file in (name, f"{name}/")
        (written[1] / name).rmdir()
    (written[1] / "texts" / os.fsdecode(b"\xff")).touch()
    assert refused(written).file == os.fsdecode(b"texts/\xff")


def test_open_bundle_anywhere(written: tuple[str, Path], tmp_path: Path) -> None:
    bundle_id, path = written
    assert open_bundle(path)[1] == bundle_id
    path.rename(tmp_path / "renamed")
    files, claimed = open_bundle(tmp_path / "renamed")
    assert verify(files, claimed).id == bundle_id
    with pytest.raises(BundleInvalid, match="cannot be read"):
        open_bundle(tmp_path / "missing")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BundleInvalid, match="not a regular file"):
        open_archive(tmp_path / "pipe")


def test_the_environment_has_versions_and_nothing_else() -> None:
    found = environment()
    assert found["python"] == f"{sys.implementation.name} {sys.version.split()[0]}"
    assert all(str(Path.cwd()) not in value for value in found.values())


@pytest.mark.parametrize("name", [DRAFTS, LOG, f"{LOG}/pending", f"{LOG}/entries", f"{LOG}/hashes"])
def test_no_link_in_a_store_leads_a_writer_elsewhere(tmp_path: Path, name: str) -> None:
    """The store of a project may be of another person, who must not choose what is removed or overwritten."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "old").mkdir(parents=True)
    (elsewhere / "old" / "text").write_text("mine")
    os.utime(elsewhere / "old", (0, 0))
    link = tmp_path / "store" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere if "/" not in name else elsewhere / "old" / "text")
    with pytest.raises(ProofNotWritten, match="cannot be written"):
        Bundles(tmp_path / "store").write(layout_evidence())
    assert (elsewhere / "old" / "text").read_text() == "mine"
    assert [path.name for path in elsewhere.rglob("*")] == ["old", "text"]


@pytest.mark.parametrize("name", ["lock", "pending", "entries", "hashes"])
def test_a_pipe_in_a_log_is_not_waited_for(tmp_path: Path, name: str) -> None:
    (tmp_path / LOG).mkdir()
    os.mkfifo(tmp_path / LOG / name)
    with pytest.raises(ProofNotWritten, match="cannot be written"):
        Bundles(tmp_path).write(layout_evidence())


def test_a_link_within_the_project_is_refused_too(tmp_path: Path) -> None:
    """Old drafts are removed from where it leads, which would be a folder of the project."""
    (tmp_path / ".tokenbox").mkdir()
    assert bundles_of(tmp_path) == tmp_path / ".tokenbox" / "proof"
    (tmp_path / ".tokenbox" / "proof").symlink_to("..")
    with pytest.raises(ProofNotWritten, match="is a link"):
        bundles_of(tmp_path)


def test_of_signatures_that_are_added_at_once_none_is_lost(tmp_path: Path) -> None:
    """Each was added to what had been read before, and the last one stayed."""
    pairs = [new_key() for _ in range(4)]
    signers = [signer_of(private, "key") for private, _ in pairs]
    made = Bundles(tmp_path).write(layout_evidence())
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda signer: sign_bundle(made.path, [signer]), signers))
    keys = [public_key(public, "key.pub") for _, public in pairs]
    verify(FolderFiles(made.path), made.id, keys, threshold=len(keys))
