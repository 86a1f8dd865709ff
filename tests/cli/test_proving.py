"""Proof that the settings ask for, and where in a project it goes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.transcript import CommandLine

DOCUMENT = (
    'budget = 9\ntokenizer = "utf8-bytes"\n[[sections]]\nid = "a"\ncontent = "one two three"\nshrink = 1\n'
)
MESSAGES = {"model": "m", "messages": [{"role": "user", "content": "hello é"}], "tools": [{"a": 1}]}
COMMANDS = [
    ("layout", "p.toml"),
    ("pack", "p.toml", "--budget", "900", "--no-cache"),
    ("plan", "-t", "utf8-bytes", "--max-ctx", "90", "p.toml"),
    ("enforce", "-m", "m", "-t", "utf8-bytes", "--max-ctx", "90", "p.toml"),
]


def bundles(folder: Path) -> list[Path]:
    return sorted(folder.glob(".tokenbox/proof/[0-9a-f]*"))


@pytest.fixture
def project(tokenbox: CommandLine) -> CommandLine:
    (tokenbox.folder / "p.toml").write_text(DOCUMENT)
    assert tokenbox("config", "set", "proof.write", "true").status == 0
    return tokenbox


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_settings_ask_for_proof(project: CommandLine, command: tuple[str, ...]) -> None:
    assert "proof: .tokenbox/proof/" in project(*command).err
    (written,) = bundles(project.folder)
    assert not (written / "texts").exists()
    assert "proof:" not in project(*command, "--no-proof").err
    project("config", "set", "proof.texts", "true")
    project(*command)
    project(*command, "--no-proof-texts")
    assert sorted((found / "texts").exists() for found in bundles(project.folder)) == [False, True]


def test_the_list_marks_an_estimate_by_an_exact_vocabulary(project: CommandLine) -> None:
    chat = b'[{"role": "user", "content": "hello"}]'
    fitted = project("fit", "-", "-b", "99", "-m", "unknown", "-t", "o200k_base", "--json", stdin=chat)
    assert json.loads(fitted.out)["exact"] is False
    (line,) = [line for line in project("proof", "list").out.splitlines() if b"o200k_base" in line]
    assert f"~{json.loads(fitted.out)['total']} of 99".encode() in line


def test_the_list_marks_a_layout_of_messages_whose_count_is_an_estimate(project: CommandLine) -> None:
    sections = b"[{id: a, role: developer, content: hello}]"  # no published rule covers the role
    given = ("layout", "-", "--format", "yaml", "-b", "99", "-m", "gpt-4o", "--json", "--proof-texts")
    laid_out = json.loads(project(*given, stdin=b"sections: " + sections).out)
    assert (laid_out["tokenizer"]["exact"], laid_out["count"]["exact"]) == (True, False)
    (line,) = [line for line in project("proof", "list").out.splitlines() if b"o200k_base openai" in line]
    assert f"~{laid_out['total']} of 99".encode() in line
    assert project("proof", "replay", line.split()[0].decode()).status == 0


def test_settings_do_not_get_in_the_way(project: CommandLine) -> None:
    """What has no proof, and would not go together with --proof, is as it was."""
    assert project("layout", "p.toml", "--whatif", "5,9").status == 0
    assert project("pack", "p.toml", "--tree", "--no-cache").status == 0
    assert bundles(project.folder) == []


def test_proof_of_a_project_is_in_one_place(project: CommandLine) -> None:
    """A ``.tokenbox`` in a folder inside would hide the project's settings there."""
    inside = project.folder / "src" / "deep"
    inside.mkdir(parents=True)
    (inside / "p.toml").write_text(DOCUMENT)
    project.folder, root = inside, project.folder
    assert "proof: ../../.tokenbox/proof/" in project("layout", "p.toml").err
    assert not (inside / ".tokenbox").exists()
    (written,) = bundles(root)
    assert project("proof", "verify").out == f"{written.name}: ok\n".encode()
    assert json.loads(project("proof", "list", "--json").out)["bundles"][0]["id"] == written.name
    assert project("config", "proof.write").out == b"true\n"


def test_messages_given_again(project: CommandLine) -> None:
    (project.folder / "m.json").write_text(json.dumps(MESSAGES, indent=2))
    command = (
        "enforce",
        "-t",
        "utf8-bytes",
        "--max-ctx",
        "1000",
        "--reserve-out",
        "9",
        "--messages",
        "m.json",
    )
    assert project(*command).status == 0
    (written,) = bundles(project.folder)
    assert project("proof", "replay", written.name).status == 2
    again = project("proof", "replay", written.name, "--from", "m.json")
    assert (again.status, again.out.splitlines()[0]) == (0, b"the same")


def test_a_document_has_every_text_of_its_sections(project: CommandLine) -> None:
    section = {
        "id": "a",
        "content": "word " * 40,
        "shrink": 1,
        "forms": [{"text": "Words."}],
        "extra": ["more"],
    }
    document = {"tokenizer": "utf8-bytes", "budget": 20, "policy": "degrade", "sections": [section]}
    (project.folder / "forms.json").write_text(json.dumps(document))
    answer = project("layout", "forms.json", "--proof", "--no-proof-texts")
    assert (answer.status, answer.out) == (0, b"Words.")
    (written,) = bundles(project.folder)
    again = project("proof", "replay", written.name, "--from", "forms.json")
    assert (again.status, again.out.splitlines()[0]) == (0, b"the same")


def test_the_reserve_of_enforce(project: CommandLine) -> None:
    command = ("enforce", "-m", "m", "-t", "utf8-bytes", "--max-ctx", "90", "p.toml", "--json", "--no-proof")
    answer = json.loads(project(*command, "--reserve-out", "7").out)
    assert answer["why"]["reserve_out"] == 7
    assert answer["why"]["sources"]["reserve_out"] == "the flag --reserve-out"
    assert project(*command, "--reserve-out", "7", "--max-tokens", "7").status == 2


def test_a_project_cannot_lead_proof_out_of_it(
    project: CommandLine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its author would choose where files of the user are written; the user may name any folder."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (project.folder / ".tokenbox" / "proof").symlink_to(elsewhere)
    answer = project("layout", "p.toml")
    assert (answer.status, "leads out of the project" in answer.err) == (2, True)
    assert list(elsewhere.iterdir()) == []
    assert project("layout", "p.toml", "--proof-dir", ".tokenbox/proof").status == 0
