"""The log under attack: by an adversary who owns the store and no key, and by one who has a key of before.

What they do is done to the files. What only a checkpoint kept elsewhere finds has tests of its own.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.cli.conftest import tokenbox
from tests.proof.examples import layout_evidence
from tokenbox.content.canonical import canonical
from tokenbox.proof.signing import new_key, public_key, signer_of
from tokenbox.proof.verify import verify
from tokenbox.store.bundle_log import verify_log
from tokenbox.store.bundles import Bundles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.transcript import CommandLine
    from tokenbox.proof.signing import PublicKey, SigningKey

__all__ = ["tokenbox"]  # a fixture


class Key(NamedTuple):
    signer: SigningKey
    public: PublicKey
    pem: bytes


def key(name: str) -> Key:
    private, public = new_key()
    return Key(signer_of(private, name), public_key(public, name), public)


OLD, NEW, THEIRS = key("old"), key("new"), key("theirs")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three bundles signed with the old key, then three with the new one."""
    folder = tmp_path / "proof"
    for number in range(6):
        signer = OLD.signer if number < 3 else NEW.signer
        Bundles(folder, signers=[signer]).write(layout_evidence(50 + number))
    return folder


def problems(folder: Path, *kept: bytes) -> list[str]:
    """What verifying finds that takes the new key, and the old one as retired."""
    bundles = Bundles(folder)
    elsewhere = [(f"kept {number}", data) for number, data in enumerate(kept)]
    found = verify_log(bundles.log, bundles.ids, [NEW.public], 1, elsewhere, [OLD.public])
    return [f"{one.file}: {one.field}: {one.message}" for one in found]


def lines(folder: Path, name: str) -> list[bytes]:
    return (folder / "log" / name).read_bytes().splitlines(keepends=True)


def write(folder: Path, name: str, content: list[bytes]) -> None:
    (folder / "log" / name).write_bytes(b"".join(content))


def cut(folder: Path, left: int) -> None:
    """The last bundles, their entries and their checkpoints, as if they had never been."""
    for line in lines(folder, "entries")[left:]:
        shutil.rmtree(folder / line.decode().strip(), ignore_errors=True)
    write(folder, "entries", lines(folder, "entries")[:left])
    write(folder, "checkpoints", lines(folder, "checkpoints")[:left])
    (folder / "log" / "hashes").unlink()


def test_nothing_is_wrong_with_the_log_as_it_was_written(store: Path) -> None:
    assert problems(store) == []
    assert problems(store, lines(store, "checkpoints")[-1]) == []


def reordered(folder: Path) -> None:
    entries = lines(folder, "entries")
    write(folder, "entries", [entries[1], entries[0], *entries[2:]])


def doubled(folder: Path) -> None:
    entries = lines(folder, "entries")
    write(folder, "entries", [*entries, entries[0]])


def deleted(folder: Path) -> None:
    shutil.rmtree(folder / lines(folder, "entries")[1].decode().strip())


def deleted_with_its_line(folder: Path) -> None:
    deleted(folder)
    entries = lines(folder, "entries")
    write(folder, "entries", [entries[0], *entries[2:]])


def entries_cut(folder: Path) -> None:
    write(folder, "entries", lines(folder, "entries")[:4])


def checkpoints_gone(folder: Path) -> None:
    (folder / "log" / "checkpoints").unlink()


def log_gone(folder: Path) -> None:
    shutil.rmtree(folder / "log")


def another_root(folder: Path) -> None:
    """A checkpoint that says another size: its signature does not fit."""
    last = json.loads(lines(folder, "checkpoints")[-1])
    first = json.loads(lines(folder, "checkpoints")[0])
    last["signatures"] = first["signatures"]
    spelled = json.dumps(last, sort_keys=True, separators=(",", ":")).encode()
    write(folder, "checkpoints", [*lines(folder, "checkpoints")[:-1], spelled + b"\n"])


def put_in_by_hand(folder: Path) -> None:
    shutil.copytree(folder / lines(folder, "entries")[0].decode().strip(), folder / ("ab" * 32))


def with_a_key_of_theirs(folder: Path) -> None:
    Bundles(folder, signers=[THEIRS.signer]).write(layout_evidence(90))


def with_the_old_key(folder: Path) -> None:
    Bundles(folder, signers=[OLD.signer]).write(layout_evidence(90))


def cut_to_before_the_rotation(folder: Path) -> None:
    cut(folder, 3)


def cut_and_gone_on_with_the_old_key(folder: Path) -> None:
    cut(folder, 3)
    with_the_old_key(folder)


def all_again_with_the_old_key(folder: Path) -> None:
    shutil.rmtree(folder)
    for number in (1, 3, 5, 7, 9):
        Bundles(folder, signers=[OLD.signer]).write(layout_evidence(50 + number))


def made_at_another_time(folder: Path) -> None:
    """The one file that is no part of the id, with a digest of its own that is right."""
    path = folder / lines(folder, "entries")[1].decode().strip() / "volatile.json"
    record = {**json.loads(path.read_bytes()), "host": "theirs", "digest": ""}
    digest = hashlib.sha256(canonical(record)).hexdigest()
    path.write_bytes(canonical({**record, "digest": digest}))
    verify(Bundles(folder).files(path.parent.name), path.parent.name, [OLD.public])


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        (made_at_another_time, "volatile.json: digest is not"),
        (reordered, "log/checkpoints: line 1: "),
        (doubled, "log/entries: line 7: "),
        (deleted, "log/entries: line 2: "),
        (deleted_with_its_line, "log/checkpoints: line 2: "),
        (entries_cut, "log/checkpoints: line 5: "),
        (checkpoints_gone, "log/checkpoints: None: "),
        (log_gone, "log/checkpoints: None: "),
        (another_root, "log/checkpoints, line 6: signatures"),
        (put_in_by_hand, f"{'ab' * 32}: None: "),
        (with_a_key_of_theirs, "log/checkpoints, line 7: signatures"),
        (with_the_old_key, "log/checkpoints, line 7: signatures"),
        (cut_to_before_the_rotation, "log/checkpoints: signatures: "),
        (cut_and_gone_on_with_the_old_key, "log/checkpoints: signatures: "),
        (all_again_with_the_old_key, "log/checkpoints: signatures: "),
    ],
)
def test_found_with_its_place(store: Path, attack: Callable[[Path], None], said: str) -> None:
    attack(store)
    # A bundle is named by its id before the name of its file.
    found = [one.rpartition("/")[2] if said.startswith("volatile") else one for one in problems(store)]
    assert any(one.startswith(said) for one in found), found


def test_cut_together_with_its_checkpoints_needs_one_kept_elsewhere(store: Path) -> None:
    kept = lines(store, "checkpoints")[-1]
    cut(store, 5)
    assert problems(store) == []
    assert any("the log was cut" in one for one in problems(store, kept))


def test_a_fork_needs_a_checkpoint_of_the_other_copy(store: Path, tmp_path: Path) -> None:
    shutil.copytree(store, tmp_path / "copy")
    Bundles(tmp_path / "copy", signers=[NEW.signer]).write(layout_evidence(80))
    Bundles(store, signers=[NEW.signer]).write(layout_evidence(81))
    assert problems(store) == problems(tmp_path / "copy") == []
    assert any("fork" in one for one in problems(store, lines(tmp_path / "copy", "checkpoints")[-1]))


def test_a_checkpoint_kept_elsewhere_must_be_signed_too(store: Path, tmp_path: Path) -> None:
    shutil.copytree(store, tmp_path / "theirs")
    cut(store, 5)
    cut(tmp_path / "theirs", 5)
    with_a_key_of_theirs(tmp_path / "theirs")
    assert problems(store, lines(tmp_path / "theirs", "checkpoints")[-1])


def test_from_the_command_line(store: Path, tokenbox: CommandLine) -> None:
    for name, one in (("old.pub", OLD), ("new.pub", NEW)):
        (tokenbox.folder / name).write_bytes(one.pem)
    given = ("proof", "verify", "--dir", str(store), "--key", "new.pub")
    assert tokenbox(*given, "--log", "--retired", "old.pub").status == 0
    assert tokenbox(*given, "--log").status == 1  # three bundles that the new key did not sign
    assert tokenbox(*given, "--retired", "old.pub").status == 2
    # A bundle of the old key that nobody entered in a checkpoint, or that the next writer's covers.
    written = Bundles(store, signers=[OLD.signer]).write(layout_evidence(90))
    write(store, "checkpoints", lines(store, "checkpoints")[:-1])
    Bundles(store, signers=[NEW.signer]).write(layout_evidence(91))
    said = tokenbox(*given, "--log", "--retired", "old.pub")
    assert said.status == 1
    (wrong,) = [line for line in said.out.decode().splitlines() if ": ok" not in line and "log: " not in line]
    assert wrong.startswith(written.id)
    assert "signatures" in wrong
