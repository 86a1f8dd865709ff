"""Code that files name does not run here, unless this user allowed it."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest

import tokenbox
from tokenbox import ctx, named_code
from tokenbox.cli.replaying import texts_of
from tokenbox.config import load
from tokenbox.content.canonical import canonical
from tokenbox.documents import read_document
from tokenbox.errors import CodeNotAllowed, DocumentError
from tokenbox.proof.bundle import build
from tokenbox.proof.calls import Texts
from tokenbox.proof.contents import read_contents
from tokenbox.proof.errors import ReplayImpossible
from tokenbox.proof.manifest import read_manifest
from tokenbox.proof.replay import replay
from tokenbox.proof.verify import MemoryFiles
from tokenbox.tokenizers import registry

if TYPE_CHECKING:
    from pathlib import Path

EVIL = "from pathlib import Path\n\ndef count(text):\n    Path('ran').touch()\n    return 1\n"
NAMED = "evil_named_code:count"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path of modules whose settings and document name code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(named_code, "_allowed", set())
    monkeypatch.setattr(named_code, "_own_entries", ())
    monkeypatch.setattr(registry, "_imported", {})  # what another test allowed
    monkeypatch.delitem(sys.modules, "evil_named_code", raising=False)
    monkeypatch.setenv("TOKENBOX_USER_CONFIG", str(tmp_path / "user.toml"))
    (tmp_path / "evil_named_code.py").write_text(EVIL)
    (tmp_path / ".tokenbox").mkdir()
    settings = f'[policy]\nstrategy = "{NAMED}"\n[models.m]\nmax_ctx = 9\ntokenizer = "{NAMED}"\n'
    (tmp_path / ".tokenbox" / "config.toml").write_text(settings)
    (tmp_path / "p.toml").write_text(
        f'budget = 9\ntokenizer = "{NAMED}"\n[[sections]]\nid = "a"\ncontent = "b"\n'
    )
    ctx.reload()
    return tmp_path


def test_settings_and_documents_of_others_run_nothing(folder: Path) -> None:
    with pytest.raises(CodeNotAllowed) as caught:
        ctx.estimate("m", ["a"])
    assert NAMED in caught.value.message
    with pytest.raises(CodeNotAllowed):
        ctx.pack(["a"], 9, model="other", tokenizer="utf8-bytes")
    assert "is code" in ctx.enforce("other", ["a"], max_ctx=9, tokenizer="utf8-bytes").why.notes[0]
    with pytest.raises(DocumentError) as refused:
        read_document("p.toml").layout()
    assert refused.value.code == "code_not_allowed"
    with pytest.raises(CodeNotAllowed):
        tokenbox.count("a", tokenizer="os:system")
    assert not (folder / "ran").exists()


def test_the_remedies_keep_what_is_allowed_already(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = str(folder / "another project")
    monkeypatch.setenv("TOKENBOX_CODE_ALLOWED", f"ours:count,{other}")
    ctx.reload()
    with pytest.raises(CodeNotAllowed) as caught:
        ctx.estimate("m", ["a"])
    one, project = cast("list[str]", caught.value.details["remedies"])
    assert shlex.split(one)[-1] == f"ours:count,{other},{NAMED}"
    assert shlex.split(project)[-1] == f"ours:count,{other},$PWD"


def test_a_bundle_runs_nothing(folder: Path) -> None:
    found: list[Any] = []
    tokenbox.layout([{"id": "a", "content": "b"}], 9, "utf8-bytes", proof=found.append)
    manifest = json.loads(build(found[0], texts=True).files["manifest.json"])
    manifest["predicate"]["tokenizer"]["name"] = NAMED
    files = {**build(found[0], texts=True).files, "manifest.json": canonical(manifest)}
    forged = read_manifest(files["manifest.json"], hashlib.sha256(files["manifest.json"]).hexdigest())
    texts = Texts(data for name, data in files.items() if name.startswith("texts/"))
    with pytest.raises(ReplayImpossible):
        replay(read_contents(MemoryFiles(files), forged), texts)
    texts_of(MemoryFiles(files), forged, [str(folder)])
    assert not (folder / "ran").exists()


def test_a_project_may_not_allow_its_own_code(folder: Path) -> None:
    with (folder / ".tokenbox" / "config.toml").open("a") as file:
        file.write(f'[code]\nallowed = ["{NAMED}", "{folder}"]\n')
    assert any("may not allow code" in problem for problem in load(folder).problems)
    assert not named_code.allowed()


@pytest.mark.parametrize("entry", [NAMED, "", "/", "/link"])
def test_the_user_allows_a_name_or_a_folder(folder: Path, entry: str) -> None:
    (folder / "link").symlink_to(folder)
    allowed = entry if entry == NAMED else f"{folder}{entry}"
    (folder / "user.toml").write_text(f'[code]\nallowed = ["{allowed}"]\n')
    ctx.reload()
    assert ctx.estimate("m", ["a"]).tokens_in == 1
    assert (folder / "ran").exists()


@pytest.mark.parametrize(
    "name", ["o200k_base", "file:x", "file:a/b.json", "a:b:c", "a:", ":b", "../a:b", "1:b"]
)
def test_other_names_are_no_code(name: str) -> None:
    assert not named_code.is_code(name)
