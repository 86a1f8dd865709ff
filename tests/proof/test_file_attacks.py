"""A forger at the files of a bundle: more files, links, names of another case, other spellings of the JSON.

Each is done to a bundle on disk, the id kept or made anew, and each is found with the name of the file.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest

from tests.proof.examples import layout_evidence
from tokenbox.proof.bundle import MANIFEST, VOLATILE
from tokenbox.proof.errors import BundleInvalid
from tokenbox.proof.verify import MemoryFiles, verify
from tokenbox.store.bundles import Bundles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return Bundles(tmp_path / "proof", texts=True).write(layout_evidence(60)).path


def text_of(bundle: Path) -> Path:
    return min((bundle / "texts").iterdir())


def more(bundle: Path) -> str:
    (bundle / "notes.txt").write_text("added")
    return "notes.txt"


def more_texts(bundle: Path) -> str:
    data = b"a text that nobody gave"
    (bundle / "texts" / hashlib.sha256(data).hexdigest()).write_bytes(data)
    return "texts/"


def upper(bundle: Path) -> str:
    (bundle / "inputs.jsonl").rename(bundle / "Inputs.jsonl")
    return "Inputs.jsonl"


def upper_digest(bundle: Path) -> str:
    text = text_of(bundle)
    name = text.name.upper()
    text.rename(text.with_name(name))
    return f"texts/{name}"


def linked(bundle: Path) -> str:
    path = bundle / "decisions.jsonl"
    path.rename(bundle.parent / "elsewhere")
    path.symlink_to(bundle.parent / "elsewhere")
    return "decisions.jsonl"


def linked_folder(bundle: Path) -> str:
    (bundle / "texts").rename(bundle.parent / "texts")
    (bundle / "texts").symlink_to(bundle.parent / "texts")
    return "texts"


def a_pipe(bundle: Path) -> str:
    (bundle / "inputs.jsonl").unlink()
    os.mkfifo(bundle / "inputs.jsonl")
    return "inputs.jsonl"


def a_text_of_other_bytes(bundle: Path) -> str:
    """The same characters in another encoding are another text."""
    text = text_of(bundle)
    text.write_bytes(text.read_bytes().decode().encode("utf-16"))
    return f"texts/{text.name}"


def a_text_composed_otherwise(bundle: Path) -> str:
    text = text_of(bundle)
    text.write_bytes(text.read_bytes() + "\u200b".encode())
    return f"texts/{text.name}"


ATTACKS = [
    *(more, more_texts, upper, upper_digest, linked, linked_folder, a_pipe),
    *(a_text_of_other_bytes, a_text_composed_otherwise),
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_changed_file_is_found_and_named(bundle: Path, attack: Callable[[Path], str]) -> None:
    store = Bundles(bundle.parent)
    assert verify(store.files(bundle.name), bundle.name).id == bundle.name
    named = attack(bundle)
    with pytest.raises(BundleInvalid) as caught:
        verify(store.files(bundle.name), bundle.name)
    assert caught.value.file == named


SPELLINGS: dict[str, tuple[bytes, bytes]] = {
    "a key twice": (b'"kind":"layout"', b'"kind":"blocks","kind":"layout"'),
    "a space": (b'"kind":"layout"', b'"kind": "layout"'),
    "an escape": (b'"kind":"layout"', b'"kind":"l\\u0061yout"'),
    "an exponent": (b'"value":60', b'"value":6e1'),
    "a fraction": (b'"value":60', b'"value":60.0'),
    "a zero before": (b'"value":60', b'"value":060'),
    "a number beyond 2**53": (b'"value":60', b'"value":9007199254740993'),
    "a number of many digits": (b'"value":60', b'"value":' + b"9" * 5_000),
    "not a number": (b'"value":60', b'"value":NaN'),
    "a byte that is no UTF-8": (b'"kind":"layout"', b'"kind":"\xfflayout"'),
    "a lone surrogate": (b'"kind":"layout"', b'"kind":"\\ud800"'),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_other_spellings_hashed_again(bundle: Path, spelling: str) -> None:
    old, new = SPELLINGS[spelling]
    files = {str(path.relative_to(bundle)): path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    assert old in files[MANIFEST]
    files[MANIFEST] = files[MANIFEST].replace(old, new, 1)
    bundle_id = hashlib.sha256(files[MANIFEST]).hexdigest()
    files[VOLATILE] = files[VOLATILE].replace(bundle.name.encode(), bundle_id.encode())
    with pytest.raises(BundleInvalid) as caught:
        verify(MemoryFiles(files), bundle_id)
    assert caught.value.file == MANIFEST
