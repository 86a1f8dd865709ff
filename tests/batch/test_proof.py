"""A whole run as one bundle: the same for every engine, verified, and replayed in part."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.batch.rows import mixed, write_jsonl
from tokenbox import batch
from tokenbox.batch.evidence import replay_run
from tokenbox.proof import EvidenceKind
from tokenbox.proof.contents import read_contents
from tokenbox.proof.errors import ReplayImpossible
from tokenbox.proof.verify import verify
from tokenbox.store.bundles import Bundles

if TYPE_CHECKING:
    from pathlib import Path

    from tokenbox.proof.contents import Contents


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "rows.jsonl", mixed(120))


def contents(bundles: Bundles) -> Contents:
    (bundle_id,) = bundles.ids()
    files = bundles.files(bundle_id)
    return read_contents(files, verify(files, bundle_id))


def run(source: Path, out: Path, bundles: Bundles, **how: object) -> str:
    found = batch.run(source, out, proof=bundles, task="auto", budget="limit", shard_size=4_000, **how)
    assert found.bundle == bundles.ids()[0]
    return found.digest


@pytest.mark.slow
def test_every_engine_leaves_the_same_bundle(source: Path, tmp_path: Path) -> None:
    bundles = Bundles(tmp_path / "proof")
    digest = run(source, tmp_path / "a.jsonl", bundles)
    assert run(source, tmp_path / "b", bundles, engine="process", workers=2) == digest
    assert run(source, tmp_path / "b", bundles, resume=True) == digest
    found = contents(bundles)
    assert found.manifest.kind is EvidenceKind.BATCH
    assert found.manifest.emitted == digest
    outputs = "".join(f"{one['digest']}\n" for one in found.decisions)
    assert hashlib.sha256(outputs.encode()).hexdigest() == digest


def test_a_replay_of_a_sample_finds_what_was_changed(source: Path, tmp_path: Path) -> None:
    bundles = Bundles(tmp_path / "proof")
    run(source, tmp_path / "out.jsonl", bundles)
    found = contents(bundles)
    some, whole = replay_run(found, str(source), 10), replay_run(found, str(source))
    assert some.same
    assert whole.same
    assert 10 <= some.rows < whole.rows == 120
    assert not any(name.startswith("decisions") for name in whole.uncompared)
    assert any(name.startswith("decisions") for name in some.uncompared)
    assert (whole.shards, whole.of) == (len(found.inputs), len(found.inputs))
    source.write_bytes(source.read_bytes().replace(b"budget", b"bodget"))
    changed = replay_run(found, str(source), 10)
    assert {"inputs", "decisions", "digest"} <= {one.field.partition("[")[0] for one in changed.differences}
    source.write_bytes(b"".join(source.read_bytes().splitlines(keepends=True)[:20]))
    assert not replay_run(found, str(source)).same


def test_of_a_long_list_of_what_was_not_compared_the_first_are_shown(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tokenbox.cli.proof import replay

    batch.run(
        source,
        tmp_path / "out.jsonl",
        proof=Bundles(tmp_path / "p"),
        task="auto",
        budget="limit",
        shard_size=1_000,
    )
    (bundle,) = Bundles(tmp_path / "p").ids()
    shown_again = partial(
        replay, bundle, given=[str(source)], tokenizer=None, sample=5, folder=str(tmp_path / "p")
    )
    shown_again(as_json=True)
    whole = json.loads(capsys.readouterr().out)["uncompared"]
    shown_again(as_json=False)
    *_, shown = capsys.readouterr().out.splitlines()
    assert len(whole) > 20
    assert shown == f"not compared: {', '.join(whole[:12])}, and {len(whole) - 12} more (--json lists them)"


def test_a_bundle_of_something_else_is_no_batch(source: Path, tmp_path: Path) -> None:
    import tokenbox

    bundles = Bundles(tmp_path / "proof")
    tokenbox.layout([{"id": "a", "content": "b"}], 5, "utf8-bytes", proof=bundles)
    with pytest.raises(ReplayImpossible):
        replay_run(contents(bundles), str(source))


@pytest.mark.parametrize("size", [0, -1, None, "x"])
def test_a_bundle_with_an_impossible_shard_size_is_not_replayed(
    source: Path, tmp_path: Path, size: object
) -> None:
    bundles = Bundles(tmp_path / "proof")
    run(source, tmp_path / "out.jsonl", bundles)
    found = contents(bundles)
    found.manifest.predicate["arguments"]["shard_size"] = size
    with pytest.raises(ReplayImpossible):
        replay_run(found, str(source))


def test_a_bundle_with_an_option_of_another_release_is_not_replayed(source: Path, tmp_path: Path) -> None:
    bundles = Bundles(tmp_path / "proof")
    run(source, tmp_path / "out.jsonl", bundles)
    found = contents(bundles)
    arguments = found.manifest.predicate["arguments"]
    arguments["plan"]["later"] = 1
    with pytest.raises(ReplayImpossible, match=r"unknown option 'later'.*It was made by"):
        replay_run(found, str(source))
