# ruff: noqa: ANN401  # a forgery is anything
"""A forger changes one field of a bundle and hashes it again, so that it verifies. What finds that.

Signed: the field of the statement that was changed is named; so is a bundle that is another, or gone.
Not signed: a replay names the field; or lists it as not compared; or the changed call, made again, gives what
the bundle says, which is then a true statement about another call.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

import tokenbox
from tests.proof.examples import MADE, layout_evidence
from tests.proof.kinds import KINDS, replayed_files
from tokenbox.cli.replaying import texts_of
from tokenbox.content.canonical import canonical
from tokenbox.errors import TokenboxError
from tokenbox.inspect import page
from tokenbox.inspect.of_proof import proof_entry
from tokenbox.proof.bundle import (
    DECISIONS,
    ENVELOPE,
    INPUTS,
    MANIFEST,
    SUMMARIES,
    TEXTS,
    VOLATILE,
    Bundle,
    build,
    file_record,
    tree_record,
)
from tokenbox.proof.calls import Texts
from tokenbox.proof.contents import read_contents
from tokenbox.proof.errors import BundleInvalid, SignatureInvalid
from tokenbox.proof.signing import STATEMENT_TYPE, new_key, public_key, signed, signer_of
from tokenbox.proof.verify import MemoryFiles, verify
from tokenbox.store.bundle_log import verify_log
from tokenbox.store.bundles import Bundles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tokenbox.proof.evidence import Evidence


PRIVATE, PUBLIC = new_key()
SIGNER, KEY = signer_of(PRIVATE, "key"), public_key(PUBLIC, "key.pub")
# A call that gives the same with another value of these is described truly by either.
EQUIVALENT = ("predicate.arguments.", "predicate.budget.")


@cache
def original(kind: str) -> tuple[str, dict[str, bytes]]:
    bundle = build(KINDS[kind](), texts=True)
    return bundle.id, dict(bundle.files)


def opened(files: dict[str, bytes]) -> dict[str, Any]:
    """The records of a bundle, as a forger sees them."""
    lines = {name: [json.loads(line) for line in files[name].splitlines()] for name in (INPUTS, DECISIONS)}
    summaries = [json.loads(data) for name, data in files.items() if name.startswith(SUMMARIES)]
    predicate = json.loads(files[MANIFEST])["predicate"]
    return {
        "predicate": predicate,
        "inputs": lines[INPUTS],
        "decisions": lines[DECISIONS],
        "summaries": summaries,
    }


def rehashed(files: dict[str, bytes], records: dict[str, Any]) -> tuple[str, dict[str, bytes]]:
    """A bundle of changed records, whole in itself: every digest and the id are right again."""
    changed = {name: data for name, data in files.items() if name.startswith(TEXTS)}
    for name, key in ((INPUTS, "inputs"), (DECISIONS, "decisions")):
        changed[name] = b"".join(canonical(record) + b"\n" for record in records[key])
    trees = {hashlib.sha256(canonical(one)).hexdigest(): canonical(one) for one in records["summaries"]}
    changed |= {f"{SUMMARIES}{name}.json": data for name, data in trees.items()}
    manifest = json.loads(files[MANIFEST])
    predicate = manifest["predicate"] = json.loads(json.dumps(records["predicate"]))
    predicate["files"] |= {name: file_record(changed[name]) for name in (INPUTS, DECISIONS)}
    predicate["files"][SUMMARIES] = tree_record(trees) if trees else None
    if manifest["subject"][0]["name"] == INPUTS:
        manifest["subject"][0]["digest"]["sha256"] = predicate["files"][INPUTS]["sha256"]
    changed[MANIFEST] = canonical(manifest)
    bundle_id = hashlib.sha256(changed[MANIFEST]).hexdigest()
    changed[VOLATILE] = Bundle(bundle_id, manifest, changed).volatile(*MADE)
    return bundle_id, changed


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    found = False
    for key, item in children:
        found = True
        yield from leaves(item, (*path, key))
    if not found:
        yield path


def other(value: Any) -> Any:  # noqa: PLR0911  # a table of types
    """Something else of the same kind, as a forger would write it."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str() if len(value) == 64:
            return "0" * 64
        case str():
            return f"{value}x" if not value.isdigit() else str(int(value) + 1)
        case None:
            return "x"
        case list():
            return ["x"]
    return {"x": 1}


def forgeries(kind: str) -> Iterator[tuple[str, str, dict[str, bytes]]]:
    """Every field in turn: its name, and the bundle in which it says something else."""
    _, files = original(kind)
    for path in leaves(opened(files)):
        if path[:2] == ("predicate", "files"):
            continue  # which follow from what is in them
        records = opened(files)
        *parents, last = path
        place: Any = records
        for key in parents:
            place = place[key]
        place[last] = other(place[last])
        yield ".".join(map(str, path)), *rehashed(files, records)


def is_found(name: str, files: dict[str, bytes], bundle_id: str) -> bool:
    """Whether verifying or replaying an unsigned bundle names the field, or says that it is not compared.

    A forged argument is found by what the call then gives.
    """
    try:
        found = replayed_files(MemoryFiles(files), bundle_id)
    except TokenboxError:
        return True
    field = name.removeprefix("predicate.")
    shown = {field, _numbered("steps", field), _numbered("decisions", field)}
    group, _, rest = field.partition(".")
    if group == "decisions":
        record = opened(files)["decisions"][int(rest.partition(".")[0])]
        shown.add(f"decisions[{str(record.get('id')).partition(' ')[0]}]")
    if not shown.isdisjoint(found.uncompared) or any(_ending(field) in one for one in found.uncompared):
        return True
    differing = [difference.field for difference in found.differences]
    if field.startswith(("arguments.", "budget.", "inputs.")) or field.endswith(".id"):
        return bool(differing)  # a record is known by its id
    last = [part for part in field.split(".") if not part.isdigit()][-1]
    return any(last in part for part in differing)


def _numbered(group: str, field: str) -> str:
    """A field of a step, or of a decision without an id, as a replay lists it."""
    _, _, rest = field.partition("decisions.")
    return re.sub(r"\.\d+", "[]", f"{group}.{rest}")


def _ending(field: str) -> str:
    """How the fields are called that a replay takes as they are, in whatever record."""
    if field.startswith(("inputs.", "summaries.")):
        return ".from" if field.endswith(".from") else "?"
    return ".remedy.models" if field.endswith(".remedy.models") else "?"


@pytest.mark.parametrize("kind", KINDS)
def test_the_original_holds(kind: str) -> None:
    bundle_id, files = rehashed(original(kind)[1], opened(original(kind)[1]))
    assert bundle_id == original(kind)[0]
    assert replayed_files(MemoryFiles(files), bundle_id).differences == ()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_every_field_of_a_signed_bundle(kind: str) -> None:
    envelope = signed(original(kind)[1][MANIFEST], STATEMENT_TYPE, [SIGNER])
    for name, bundle_id, files in forgeries(kind):
        with pytest.raises(TokenboxError) as caught:
            verify(MemoryFiles({**files, ENVELOPE: envelope}), bundle_id, [KEY])
        field = str(getattr(caught.value, "field", ""))
        # A record of another file is known by the digest of that file, which the statement has.
        group = {"inputs": INPUTS, "decisions": DECISIONS, "summaries": SUMMARIES}.get(name.partition(".")[0])
        if group is not None:
            assert field.startswith(
                (f'predicate.files["{group}"]', "predicate.files.summaries", "subject[")
            ), (
                name,
                field,
            )
        else:
            assert field.replace("[", ".").replace("]", "").startswith(name), (name, field)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_every_field_of_an_unsigned_bundle(kind: str) -> None:
    silent = [name for name, bundle_id, files in forgeries(kind) if not is_found(name, files, bundle_id)]
    assert [name for name in silent if not name.startswith(EQUIVALENT)] == []


def in_another_order(records: dict[str, Any], group: str) -> None:
    records[group].reverse()


def doubled(records: dict[str, Any], group: str) -> None:
    records[group].append(records[group][0])


def left_out(records: dict[str, Any], group: str) -> None:
    del records[group][-1]


def added(records: dict[str, Any], group: str) -> None:
    records[group].append({**records[group][0], "id": "choice].from"})


@pytest.mark.parametrize("kind", ["layout", "window", "plan of messages", "gateway, made to fit", "blocks"])
@pytest.mark.parametrize("change", [in_another_order, doubled, left_out, added])
@pytest.mark.parametrize("group", ["inputs", "decisions"])
def test_records_moved_copied_left_out_or_added(kind: str, change: Any, group: str) -> None:
    files = original(kind)[1]
    records = opened(files)
    change(records, group)
    assert records[group] != opened(files)[group]
    bundle_id, forged = rehashed(files, records)
    with suppress(TokenboxError):  # found too
        assert not replayed_files(MemoryFiles(forged), bundle_id).same


@pytest.mark.parametrize(
    ("kind", "table", "name", "value"),
    [
        ("layout", "arguments", "unknown", {"code": "theirs"}),  # no argument of the call
        ("estimate", "budget", "tokens", {"value": 300, "source": None}),  # the call has no budget
        ("layout", "tokenizer", "fingerprint", "0" * 64),
    ],
)
def test_a_field_that_the_call_does_not_have(kind: str, table: str, name: str, value: object) -> None:
    files = original(kind)[1]
    records = opened(files)
    records["predicate"][table][name] = value
    bundle_id, forged = rehashed(files, records)
    with suppress(TokenboxError):  # found too
        assert not replayed_files(MemoryFiles(forged), bundle_id).same


@pytest.mark.parametrize(
    ("place", "key"),
    [
        (("inputs", 0, "fields"), "x].from"),
        (("inputs", 0, "fields"), "[]].from"),
        (("decisions", 0), "x].remedy.models"),
        (("decisions", 0), "y.remedy.models"),
        (("predicate", "outcome", "figures"), "a.source"),
        (("predicate", "figures"), "x.from"),
    ],
)
def test_a_key_that_reads_as_the_path_of_another_field(place: tuple[Any, ...], key: str) -> None:
    files = original("layout")[1]
    records = opened(files)
    table: Any = records
    for part in place:
        table = table[part]
    table[key] = "approved by the board"
    bundle_id, forged = rehashed(files, records)
    found = replayed_files(MemoryFiles(forged), bundle_id)
    assert "approved by the board" in [one.left for one in found.differences]


@pytest.mark.parametrize("kind", ["layout", "blocks", "window", "gateway, admitted", "shell"])
def test_a_text_that_belongs_to_nothing(kind: str) -> None:
    files = dict(original(kind)[1])
    note = b"The board has approved this."
    name = hashlib.sha256(note).hexdigest()
    texts = {path.removeprefix(TEXTS): data for path, data in files.items() if path.startswith(TEXTS)}
    texts[name] = files[f"{TEXTS}{name}"] = note
    manifest = json.loads(files[MANIFEST])
    manifest["predicate"]["files"][TEXTS] = tree_record(texts)
    files[MANIFEST] = canonical(manifest)
    bundle_id = hashlib.sha256(files[MANIFEST]).hexdigest()
    files[VOLATILE] = Bundle(bundle_id, manifest, files).volatile(*MADE)
    (found,) = replayed_files(MemoryFiles(files), bundle_id).differences
    assert found.field == "texts"


OPENED: list[str] = []
sys.addaudithook(lambda event, details: OPENED.append(str(details[0])) if event == "open" else None)


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_is_opened_because_a_bundle_names_it(kind: str, tmp_path: Path) -> None:
    vocabulary = tmp_path / "tokenizer.json"
    vocabulary.write_text("{}")
    given = tmp_path / "given"
    given.mkdir()
    (given / "a.py").write_text("x = 1\n")
    files = original(kind)[1]
    records = opened(files)
    records["predicate"]["tokenizer"]["name"] = f"file:{vocabulary}"
    bundle_id, forged = rehashed(files, records)
    manifest = verify(MemoryFiles(forged), bundle_id)
    OPENED.clear()
    texts = texts_of(MemoryFiles(forged), manifest, [str(given)])
    proof_entry(read_contents(MemoryFiles(forged), manifest), texts, "bundle")
    with suppress(TokenboxError):
        replayed_files(MemoryFiles(forged), bundle_id)
    assert str(vocabulary) not in OPENED


ODD: tuple[Any, ...] = (None, [[]], {"messages": [[1]], "steps": [3], "action": "several"})


@pytest.mark.parametrize(
    "kind", ["layout", "window of other shapes", "plan of messages", "gateway, made to fit"]
)
@pytest.mark.slow
def test_a_page_of_any_bundle_is_made_or_refused(kind: str) -> None:
    _, files = original(kind)
    for path in leaves(opened(files)):
        if path[0] not in ("decisions", "inputs") and path[:2] != ("predicate", "figures"):
            continue
        for odd in ODD:
            records = opened(files)
            *parents, last = path
            place: Any = records
            for key in parents:
                place = place[key]
            place[last] = odd
            bundle_id, forged = rehashed(files, records)
            with suppress(TokenboxError):
                manifest = verify(MemoryFiles(forged), bundle_id)
                contents = read_contents(MemoryFiles(forged), manifest)
                page([proof_entry(contents, Texts(), "bundle")])


def test_bundles_that_were_swapped_deleted_or_signed_by_another(tmp_path: Path) -> None:
    store = Bundles(tmp_path / "proof", signers=[SIGNER])
    one, two = store.write(layout_evidence(50)), store.write(layout_evidence(60))
    other_key = new_key()
    # Another bundle of the same store in its place, with its envelope or the old one.
    for keep in (False, True):
        files = {path.name: path.read_bytes() for path in two.path.iterdir()}
        if keep:
            files[ENVELOPE] = (one.path / ENVELOPE).read_bytes()
        with pytest.raises(TokenboxError):
            verify(MemoryFiles(files), one.id, [KEY])
    files = {path.name: path.read_bytes() for path in one.path.iterdir()}
    with pytest.raises(SignatureInvalid) as caught:
        verify(MemoryFiles(files), one.id, [public_key(other_key[1], "other.pub")])
    assert caught.value.field == "signatures"
    mine = signed(files[MANIFEST], STATEMENT_TYPE, [signer_of(other_key[0], "other")])
    with pytest.raises(SignatureInvalid):
        verify(MemoryFiles({**files, ENVELOPE: mine}), one.id, [KEY])
    shutil.rmtree(one.path)
    (problem,) = verify_log(store.log, store.ids, [KEY])
    assert (problem.field, one.id[:12] in problem.message) == ("line 1", True)


@pytest.mark.parametrize("wrong", [None, "x", {}, [1], True])
def test_lengths_of_items_that_are_no_numbers_are_refused(wrong: object) -> None:
    """The replay ended with a TypeError."""
    made: list[Evidence] = []
    section = {"id": "a", "content": ["one", "two"], "shrink": 1}
    tokenbox.layout([section], 40, "utf8-bytes", policy="degrade", proof=made.append)
    files = dict(build(made[0], texts=True).files)
    records = opened(files)
    records["inputs"][0]["fields"]["items"][1] = wrong
    bundle_id, forged = rehashed(files, records)
    with pytest.raises(BundleInvalid, match="must be a list of lengths"):
        replayed_files(MemoryFiles(forged), bundle_id)
