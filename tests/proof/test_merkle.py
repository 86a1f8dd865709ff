"""The tree beside a slow, obvious one, and beside the test vectors of RFC 6962's implementations."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.proof import merkle

# From the test data of the reference implementation of Certificate Transparency.
LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def slow_root(entries: list[bytes]) -> bytes:
    if len(entries) < 2:
        return merkle.leaf_hash(entries[0]) if entries else hashlib.sha256().digest()
    size = 1
    while size * 2 < len(entries):
        size *= 2
    return merkle.node_hash(slow_root(entries[:size]), slow_root(entries[size:]))


def grown(entries: list[bytes]) -> list[bytes]:
    hashes: list[bytes] = []
    for number, entry in enumerate(entries):
        hashes += list(merkle.new_hashes(number, merkle.leaf_hash(entry), hashes.__getitem__))
    return hashes


def test_the_vectors_of_certificate_transparency() -> None:
    hashes = grown(LEAVES)
    assert [merkle.root(n, hashes.__getitem__).hex() for n in range(1, 9)] == ROOTS


@given(st.lists(st.binary(max_size=3), max_size=40), st.data())
def test_as_the_slow_tree(entries: list[bytes], data: st.DataObject) -> None:
    hashes, growing = grown(entries), merkle.GrowingRoot()
    assert len(hashes) == merkle.stored(len(entries))
    for size in range(len(entries) + 1):
        assert merkle.root(size, hashes.__getitem__) == slow_root(entries[:size]) == growing.root
        if size < len(entries):
            growing.add(entries[size])
    if entries:
        size = data.draw(st.integers(1, len(entries)))
        number = data.draw(st.integers(0, size - 1))
        path = merkle.inclusion(number, size, hashes.__getitem__)
        assert merkle.root_of_inclusion(entries[number], number, size, path) == slow_root(entries[:size])
        assert merkle.root_of_inclusion(entries[number] + b"x", number, size, path) != slow_root(
            entries[:size]
        )
        assert merkle.root_of_inclusion(entries[number], number, size, [*path, bytes(32)]) is None
        assert not path or merkle.root_of_inclusion(entries[number], number, size, path[:-1]) is None


@pytest.mark.parametrize(("number", "size"), [(-1, 3), (3, 3), (1, 1), (0, 0)])
def test_no_place_in_the_tree(number: int, size: int) -> None:
    assert merkle.root_of_inclusion(b"", number, size, []) is None
