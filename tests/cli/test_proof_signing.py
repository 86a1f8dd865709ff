"""Signing, the log and its proofs from the command line; list, show and verify agree."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.transcript import CommandLine

PROMPT = {"budget": 60, "tokenizer": "utf8-bytes", "sections": [{"id": "a", "content": "Answer in English."}]}


@pytest.fixture
def signing(tokenbox: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A project in which every bundle is signed, and verifiers want that."""
    assert tokenbox("proof", "keygen", "key").status == 0
    monkeypatch.setenv("TOKENBOX_PROOF_SIGN_WITH", str(tokenbox.folder / "key"))
    monkeypatch.setenv("TOKENBOX_PROOF_TRUSTED", str(tokenbox.folder / "key.pub"))
    for budget in (50, 60, 70):
        (tokenbox.folder / "p.json").write_text(json.dumps({**PROMPT, "budget": budget}))
        assert tokenbox("layout", "p.json", "--proof-texts").status == 0
    return tokenbox


def bundles(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / ".tokenbox" / "proof").iterdir() if len(path.name) == 64)


def test_settings_sign_and_verify(signing: CommandLine) -> None:
    ids = [path.name for path in bundles(signing.folder)]
    assert signing("proof", "verify", "--log").out.decode().splitlines() == [
        *(f"{name}: ok" for name in ids),
        "log: ok, 3 entries",
    ]
    key_id = json.loads(signing("proof", "show", ids[0], "--json").out)["signed_by"]
    assert f"signed     by {key_id[0][:12]}" in signing("proof", "show", ids[0]).out.decode()


def test_list_show_and_verify_agree(signing: CommandLine) -> None:
    changed, unsigned, whole = bundles(signing.folder)
    lines = (changed / "inputs.jsonl").read_bytes()
    (changed / "inputs.jsonl").write_bytes(lines.replace(b'"tokens":18', b'"tokens":17'))
    (unsigned / "envelope.json").unlink()
    listed = json.loads(signing("proof", "list", "--json").out)["bundles"]
    verified = json.loads(signing("proof", "verify", "--json").out)["bundles"]
    assert {one["id"]: one["ok"] for one in listed} == {
        changed.name: False,
        unsigned.name: False,
        whole.name: True,
    }
    errors = {one["bundle"]: one.get("error", {}).get("code") for one in verified}
    assert errors == {changed.name: "bundle_invalid", unsigned.name: "signature_invalid", whole.name: None}
    for path in (changed, unsigned, whole):
        expected = 0 if path == whole else 2
        for command in ("show", "replay", "export"):
            output = ["-o", "x.tar"] if command == "export" else []
            assert signing("proof", command, path.name, *output).status == expected, command


def test_a_second_key_and_an_archive(signing: CommandLine) -> None:
    one = bundles(signing.folder)[0]
    assert signing("proof", "keygen", "other").status == 0
    assert signing("proof", "verify", one.name, "--key", "other.pub").status == 1
    assert signing("proof", "sign", one.name, "--key", "other").status == 0
    both = ["--key", "other.pub", "--key", "key.pub", "--signatures", "2"]
    assert signing("proof", "verify", one.name, *both).status == 0
    assert signing("proof", "export", one.name, "-o", "x.tar").status == 0
    assert signing("proof", "verify", "x.tar", *both).status == 0
    assert "an archive cannot be signed" in signing("proof", "sign", "x.tar", "--key", "other").err


def test_one_bundle_is_shown_to_be_in_the_log(signing: CommandLine) -> None:
    one, two, _ = bundles(signing.folder)
    assert signing("proof", "inclusion", one.name[:8], "-o", "in.json").status == 0
    assert signing("proof", "verify", one.name, "--inclusion", "in.json", "--key", "key.pub").status == 0
    assert signing("proof", "verify", two.name, "--inclusion", "in.json", "--key", "key.pub").status == 1
    assert signing("proof", "verify", "--inclusion", "in.json").status == 2


@pytest.mark.parametrize(
    "change",
    [
        {"note": "approved by the board"},
        {"entry": True},
        {"path": "x"},
        {"checkpoint": "\ud800"},
        {"checkpoint": "{}"},
    ],
)
def test_a_proof_of_inclusion_holds_nothing_else(signing: CommandLine, change: dict[str, object]) -> None:
    one = bundles(signing.folder)[0]
    record = json.loads(signing("proof", "inclusion", one.name).out)
    (signing.folder / "in.json").write_text(json.dumps({**record, **change}))
    result = signing("proof", "verify", one.name, "--inclusion", "in.json", "--key", "key.pub")
    assert (result.status, result.err[:7]) == (2, "error: "), result.out


def test_a_bundle_beside_the_log_is_told_of_though_a_writer_is_said_to_be_at_it(signing: CommandLine) -> None:
    one = bundles(signing.folder)[0]
    theirs = signing.folder / "theirs"
    assert signing("layout", "p.json", "--proof-dir", "theirs").status == 0  # without texts: another bundle
    (new,) = (path for path in theirs.iterdir() if len(path.name) == 64)
    shutil.copytree(new, one.parent / new.name)
    assert signing("proof", "verify", "--log").status == 1
    (one.parent / "log" / "pending").write_text(new.name)
    said = signing("proof", "verify", "--log").out.decode()
    assert f"log: {new.name[:12]} is not in it yet" in said
    assert json.loads(signing("proof", "verify", "--log", "--json").out)["unentered"] == new.name


def test_the_bundle_that_was_verified_is_the_one_that_is_signed(signing: CommandLine) -> None:
    """Not a folder here whose name is the beginning of its id."""
    one, two, _ = bundles(signing.folder)
    shutil.copytree(two, signing.folder / one.name[:8])
    before = (signing.folder / one.name[:8] / "envelope.json").read_bytes()
    assert signing("proof", "keygen", "other").status == 0
    assert signing("proof", "sign", one.name[:8], "--key", "other").status == 0
    assert (signing.folder / one.name[:8] / "envelope.json").read_bytes() == before
    assert signing("proof", "verify", one.name, "--key", "other.pub").status == 0


def test_what_was_deleted_or_cut_is_found(signing: CommandLine) -> None:
    assert signing("proof", "checkpoint", "-o", "kept.json").status == 0
    log = signing.folder / ".tokenbox" / "proof" / "log"
    last = (log / "entries").read_text().split()[-1]
    shutil.rmtree(log.parent / last)
    result = signing("proof", "verify", "--log")
    assert (result.status, "the bundle was deleted" in result.out.decode()) == (1, True)
    # All traces with it: only the checkpoint that was kept tells.
    for name in ("entries", "checkpoints"):
        lines = (log / name).read_bytes().splitlines(keepends=True)
        (log / name).write_bytes(b"".join(lines[:-1]))
    assert signing("proof", "verify", "--log").status == 0
    result = signing("proof", "verify", "--checkpoint", "kept.json")
    assert (result.status, "the log was cut" in result.out.decode()) == (1, True)


@pytest.mark.parametrize("rights", [0o644, 0o640, 0o620], ids=oct)
def test_a_key_that_others_may_read_or_change(signing: CommandLine, rights: int) -> None:
    (signing.folder / "key").chmod(rights)
    result = signing("layout", "p.json", "--proof")
    assert (result.status, "chmod 600" in result.err) == (2, True)
    assert signing("proof", "keygen", "key").status == 2
