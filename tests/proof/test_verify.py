"""A byte changed anywhere in a bundle is found, and so is whatever else is wrong with one."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import subprocess
import sys
import tarfile
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

import tokenbox
from tests.proof.examples import EXAMPLES, MARKERS, files_of, layout_evidence
from tests.proof.kinds import KINDS, replayed_files, slug
from tests.waiting import SECONDS
from tokenbox.content.canonical import canonical
from tokenbox.proof import Budget, Sourced
from tokenbox.proof.archive import ArchiveFiles, archived
from tokenbox.proof.bundle import INPUTS, MANIFEST, VOLATILE, file_record, volatile_start
from tokenbox.proof.contents import differences, read_contents
from tokenbox.proof.errors import BundleInvalid, SignatureInvalid
from tokenbox.proof.verify import MemoryFiles, verify

ROOT = Path(__file__).parents[2]
FLIPS = (0x01, 0x20, 0x80)


def problem(files: dict[str, bytes], bundle_id: str) -> BundleInvalid:
    with pytest.raises(BundleInvalid) as caught:
        verify(MemoryFiles(files), bundle_id)
    return caught.value


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_bundle_is_right(name: str, texts: bool) -> None:
    bundle_id, files = files_of(EXAMPLES[name](), texts=texts)
    assert verify(MemoryFiles(files), bundle_id).id == bundle_id
    assert verify(MemoryFiles(files)).id == bundle_id
    assert hashlib.sha256(files[MANIFEST]).hexdigest() == bundle_id


@pytest.mark.slow
@pytest.mark.parametrize(("name", "texts"), [("layout", False), *((name, True) for name in EXAMPLES)])
def test_a_flip_of_any_byte_is_found(name: str, texts: bool) -> None:
    bundle_id, files = files_of(EXAMPLES[name](), texts=texts)
    choose = random.Random(1)
    for file, data in files.items():
        # Each byte by one of them, in turn.
        for place, flip in zip(range(len(data)), cycle((*FLIPS, 0)), strict=False):
            changed = bytearray(data)
            changed[place] ^= flip or choose.randrange(1, 256)
            found = problem({**files, file: bytes(changed)}, bundle_id)
            assert found.file == file, (file, place, flip)


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("name", EXAMPLES)
def test_longer_shorter_missing_and_more_files_are_found(name: str, texts: bool) -> None:
    bundle_id, files = files_of(EXAMPLES[name](), texts=texts)
    for file, data in files.items():
        for changed in (data + b"\n", data + b"\0", data[:-1], data[1:], b"", data + data):
            if changed != data:
                assert problem({**files, file: changed}, bundle_id).file == file
        gone = {other: bytes_ for other, bytes_ in files.items() if other != file}
        assert problem(gone, bundle_id).file in (file, file.partition("/")[0] + "/")
    digest = hashlib.sha256(b"x").hexdigest()
    for extra in (
        "x",
        "",
        "texts",
        "texts/",
        f"texts/{digest}",
        f"summaries/{digest}.json",
        f"summaries/{digest}",
        f"texts/{digest}.json",
        "../x",
        "/etc/passwd",
        f"texts/../{digest}",
        f"/texts/{digest}",
        "manifest.json/x",
        f"texts//{digest}",
        f"texts/{digest.upper()}",
        "MANIFEST.json",
    ):
        assert problem({**files, extra: b"x"}, bundle_id).file in (extra, f"{extra.partition('/')[0]}/")


def test_the_field_that_differs_is_named() -> None:
    bundle_id, files = files_of(layout_evidence())
    cases = [
        (MANIFEST, b'"value":60', b'"value":61', "predicate.budget.tokens.value"),
        (MANIFEST, b'"exact":true', b'"exact":fals', "byte "),
        (MANIFEST, b'"reclaim":false', b'"reclaim":0', "predicate.arguments.reclaim"),
        (MANIFEST, b'"name":"utf8-bytes"', b'"name":"utf8-bytez"', "predicate.tokenizer.name"),
        (MANIFEST, b'"version":"1"', b'"version":""', "predicate.tokenizer.version"),
        (INPUTS, b'"priority":500', b'"priority":501', "line 1"),
        (INPUTS, b'"id":"more"', b'"id":"less"', "line 3"),
        ("decisions.jsonl", b'"size":', b'"siez":', "line 1"),
        (VOLATILE, b'"host":"host"', b'"host":"most"', "digest"),
    ]
    for file, old, new, field in cases:
        assert old in files[file]
        found = problem({**files, file: files[file].replace(old, new, 1)}, bundle_id)
        assert found.file == file
        assert found.field is not None
        assert found.field.startswith(field)
    found = problem({**files, MANIFEST: files[MANIFEST].replace(b'"value":60', b'"value":61')}, bundle_id)
    assert str(found) == (
        "manifest.json: predicate.budget.tokens.value is 61, and was 60 when the bundle was made."
    )
    assert (found.expected, found.found) == (60, 61)


def forged(changes: dict[str, object], files: dict[str, bytes]) -> tuple[str, dict[str, bytes]]:
    """A bundle whose manifest says something else, with the id that this gives."""
    manifest = json.loads(files[MANIFEST])
    for path, value in changes.items():
        *parents, last = path.split(".")
        table = manifest
        for key in parents:
            table = table[key]
        if value is ...:
            del table[last]
        else:
            table[last] = value
    data = canonical(manifest)
    return hashlib.sha256(data).hexdigest(), {**files, MANIFEST: data}


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("_type", "https://in-toto.io/Statement/v0.1", "_type"),
        ("subject", [], "subject"),
        ("subject", "x", "subject"),
        ("subject", [{"name": "emitted", "digest": {"sha256": "x"}}], "subject"),
        ("subject", [{"name": "inputs.jsonl", "digest": {"sha256": "0" * 64}}], "subject[0].digest.sha256"),
        ("predicateType", 1, "predicateType"),
        ("predicate", [], "predicate"),
        ("predicate.schema", "tokenbox.proof/1", "predicate.schema"),
        ("predicate.kind", "guess", "predicate.kind"),
        ("predicate.kind", ["layout"], "predicate.kind"),
        ("predicate.outcome.status", None, "predicate.outcome.status"),
        ("predicate.budget.tokens.value", True, "predicate.budget.tokens.value"),
        ("predicate.budget.headroom", {"value": 1}, "predicate.budget.headroom.source"),
        ("predicate.tokenizer.exact", 1, "predicate.tokenizer.exact"),
        ("predicate.digest", "A" * 64, "predicate.digest"),
        ("predicate.files", {}, 'predicate.files["inputs.jsonl"]'),
        ("predicate.more", 1, "predicate.more"),
        ("predicate.model", ..., "predicate.model"),
    ],
)
def test_a_manifest_of_another_shape(path: str, value: object, field: str) -> None:
    _, files = files_of(layout_evidence())
    bundle_id, changed = forged({path: value}, files)
    found = problem(changed, bundle_id)
    assert (found.file, found.field) == (MANIFEST, field)


@pytest.mark.parametrize(("number", "age"), [(1, "an older"), (4, "a newer"), (10, "a newer")])
def test_a_bundle_of_another_schema_is_refused_with_its_age(number: int, age: str) -> None:
    """The number was compared as text, so that 10 was older than 3."""
    _, files = files_of(layout_evidence())
    bundle_id, changed = forged({"predicate.schema": f"tokenbox.proof/{number}"}, files)
    assert f"has {age} schema" in str(problem(changed, bundle_id))


def test_a_manifest_that_is_none() -> None:
    _, files = files_of(layout_evidence())
    for data in (
        b"",
        b"[]",
        b"1",
        b"{}",
        b"\xff",
        b"[" * 10_000,
        b'{"a":1,"a":2}',
        b" " * 10,
        b"x" * (2 << 20),
    ):
        assert problem({**files, MANIFEST: data}, hashlib.sha256(data).hexdigest()).file == MANIFEST


def test_another_file_with_its_own_manifest_needs_its_own_volatile() -> None:
    _, files = files_of(layout_evidence())
    other = files[INPUTS].replace(b"rules", b"ruler")
    manifest = json.loads(files[MANIFEST])
    manifest["predicate"]["files"][INPUTS] = file_record(other)
    data = canonical(manifest)
    found = problem({**files, MANIFEST: data, INPUTS: other}, hashlib.sha256(data).hexdigest())
    assert found.file == VOLATILE


def test_a_bundle_without_signatures_is_not_signed_by_no_keys() -> None:
    bundle_id, files = files_of(layout_evidence())
    with pytest.raises(SignatureInvalid, match="not signed"):
        verify(MemoryFiles(files), bundle_id, [])


def test_a_file_that_has_grown_is_not_hashed() -> None:
    bundle_id, files = files_of(layout_evidence())
    found = problem({**files, INPUTS: files[INPUTS] + b"\n"}, bundle_id)
    assert (found.expected, found.found) == (len(files[INPUTS]), len(files[INPUTS]) + 1)


def test_nothing_stands_before_the_id_in_the_volatile_file() -> None:
    bundle_id, files = files_of(layout_evidence())
    start = volatile_start(bundle_id)
    before, after = b" " * len(start), start + b'"}'
    digest = hashlib.sha256(before + after).hexdigest().encode()
    found = problem({**files, VOLATILE: before + digest + after}, bundle_id)
    assert (found.file, found.field) == (VOLATILE, "bundle")


def test_no_text_is_in_a_bundle_unless_asked_for() -> None:
    for make in EXAMPLES.values():
        evidence = make()
        everything = b"".join(name.encode() + data for name, data in files_of(evidence)[1].items())
        assert b"QUAGGA" not in everything
        assert b"Answer" not in everything
        with_texts = b"".join(files_of(evidence, texts=True)[1].values())
        assert b"QUAGGA" in with_texts
    assert MARKERS[4].encode() in b"".join(files_of(EXAMPLES["blocks"](), texts=True)[1].values())


def test_texts_make_another_bundle() -> None:
    evidence = layout_evidence()
    (plain, files), (full, more) = files_of(evidence), files_of(evidence, texts=True)
    assert plain != full
    assert files[INPUTS] == more[INPUTS]
    assert evidence.emitted in [data.decode() for name, data in more.items() if name.startswith("texts/")]


PROGRAM = """
import json
from tests.proof.examples import EXAMPLES, files_of
print(json.dumps({n: [i, {f: d.decode() for f, d in files.items()}] for n, make in EXAMPLES.items()
                  for i, files in [files_of(make())]}))
"""


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_bundles_of_another_process_are_the_same(seed: str) -> None:
    package = Path(tokenbox.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join((str(package), str(ROOT)))},
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=SECONDS,
    )
    for name, (bundle_id, files) in json.loads(done.stdout).items():
        assert (bundle_id, {file: data.encode() for file, data in files.items()}) == files_of(
            EXAMPLES[name]()
        )


@pytest.mark.slow
def test_an_archive_round_trips_and_every_byte_of_it_counts() -> None:
    bundle_id, files = files_of(EXAMPLES["blocks"](), texts=True)
    data = b"".join(archived(bundle_id, files.items()))
    read = ArchiveFiles(io.BytesIO(data), "x.tar")
    assert read.folder == bundle_id
    assert verify(read, bundle_id).id == bundle_id
    assert {name: read.read(name, 1 << 20) for name in read.names()} == files
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= FLIPS[place % 3]
        with pytest.raises(BundleInvalid):
            verify(ArchiveFiles(io.BytesIO(bytes(changed)), "x.tar"), bundle_id)
    for changed_data in (data[:-1], data[:-512], data + b"\0", data[:1000], b"", data + data):
        with pytest.raises(BundleInvalid):
            verify(ArchiveFiles(io.BytesIO(changed_data), "x.tar"), bundle_id)


def test_tar_reads_an_archive(tmp_path: Path) -> None:
    bundle_id, files = files_of(layout_evidence())
    (tmp_path / "x.tar").write_bytes(b"".join(archived(bundle_id, files.items())))
    with tarfile.open(tmp_path / "x.tar") as tar:
        contents = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        found = {name: stream.read() for name, stream in contents.items() if stream is not None}
    assert found == {f"{bundle_id}/{name}": content for name, content in files.items()}


ARCHIVES = ROOT / "tests" / "golden" / "proof"


@pytest.mark.parametrize("kind", KINDS)
def test_bundles_of_any_python_are_those_that_this_one_writes(kind: str) -> None:
    """tools/proof_archives.py wrote them: the same bytes with Python 3.11, 3.12 and 3.13."""
    path = ARCHIVES / f"{slug(kind)}.tar"
    with path.open("rb") as stream:
        files = ArchiveFiles(stream, path.name)
        then = read_contents(files, verify(files, files.folder))
        assert replayed_files(files, files.folder).differences == ()
    bundle_id, now = files_of(KINDS[kind](), texts=True)
    again = read_contents(MemoryFiles(now), verify(MemoryFiles(now), bundle_id))
    # Another release has another version, and so another id.
    assert [d for d in differences(then, again) if d.field != "engine.version"] == []


OFFLINE = """
import sys
NETWORK = ("socket.", "urllib.", "http.")
sys.addaudithook(lambda event, _: event.startswith(NETWORK) and sys.exit(f"network: {event}"))
from pathlib import Path
from tests.proof.examples import EXAMPLES
from tokenbox.proof.contents import read_contents
from tokenbox.proof.calls import Texts
from tokenbox.proof.replay import replay
from tokenbox.proof.verify import verify
from tokenbox.store.bundle_log import verify_log
from tokenbox.store.bundles import Bundles
from tokenbox.store.key_files import read_public, read_signer, write_key
folder = Path(sys.argv[1])
write_key(folder / "key")
keys = [read_public(folder / "key.pub")]
store = Bundles(folder / "proof", texts=True, signers=[read_signer(folder / "key")])
for make in EXAMPLES.values():
    files = store.files(store.write(make()).id)
    texts = Texts(files.read(name, 1 << 20) for name in files.names() if name.startswith("texts/"))
    assert replay(read_contents(files, verify(files, keys=keys)), texts).same
assert list(verify_log(store.log, store.ids, keys)) == []
store.log.inclusion(store.ids()[0]).check(store.ids()[0], keys, 1, "x")
print("ok")
"""


def test_nothing_needs_a_network(tmp_path: Path) -> None:
    package = Path(tokenbox.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(package), str(ROOT)))},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("ok\n", "")


def test_there_is_an_archive_of_each_kind() -> None:
    assert sorted(path.stem for path in ARCHIVES.iterdir()) == sorted(map(slug, KINDS))


OLD = ROOT / "tests" / "golden" / "proof-1" / "layout.tar"


def test_a_bundle_of_the_older_schema_is_refused_as_such() -> None:
    files = ArchiveFiles(io.BytesIO(OLD.read_bytes()), OLD.name)
    with pytest.raises(BundleInvalid) as caught:
        verify(files, files.folder)
    assert caught.value.field == "predicate.schema"
    assert "has an older schema" in caught.value.message


BUDGETS = [
    ({"tokens": -5, "context_window": -5}, "context_window"),
    ({"tokens": 10, "context_window": 20, "headroom": "1e-99999999"}, "headroom"),
    ({"tokens": 0, "context_window": 20, "headroom": "1"}, "headroom"),
    ({"tokens": 10, "context_window": 20, "output_reserve": "10"}, "output_reserve"),
    ({"tokens": 235, "context_window": 1_000_000, "output_reserve": 0, "headroom": "0"}, "tokens"),
    ({"tokens": 11, "max_input": 10}, "tokens"),
    ({"tokens": None, "context_window": 10}, "tokens"),
    ({"tokens": "10"}, "tokens"),
]


@pytest.mark.parametrize(("figures", "field"), BUDGETS)
def test_a_budget_that_does_not_add_up(figures: dict[str, object], field: str) -> None:
    _, files = files_of(layout_evidence())
    changes = {f"predicate.budget.{name}.value": value for name, value in figures.items()}
    bundle_id, changed = forged(changes, files)
    assert problem(changed, bundle_id).field == f"predicate.budget.{field}.value"


def test_a_budget_that_adds_up() -> None:
    evidence = layout_evidence()
    figures = (Sourced(50), Sourced(101), Sourced(30), Sourced("1/5"), Sourced(60))
    budget_of = replace(evidence, budget=Budget(*figures))
    bundle_id, files = files_of(budget_of)
    assert verify(MemoryFiles(files), bundle_id).id == bundle_id
