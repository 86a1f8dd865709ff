"""Verify that each byte of a bundle matches its id, and locate the first one that does not."""

from __future__ import annotations

import hashlib
import io
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, BinaryIO, cast

from tokenbox.content.canonical import NotCanonical, canonical, parse_canonical, record_digest
from tokenbox.errors import shown
from tokenbox.proof.bundle import (
    DECISIONS,
    ENVELOPE,
    INPUTS,
    MANIFEST,
    MAX_MANIFEST,
    SUMMARIES,
    TEXTS,
    VOLATILE,
    line_sum,
    tree_digest,
    volatile_start,
)
from tokenbox.proof.errors import BundleInvalid, SignatureInvalid
from tokenbox.proof.manifest import HEX, leaves, read_manifest
from tokenbox.proof.signing import MAX_ENVELOPE, STATEMENT_TYPE, check_signatures, payload_of, read_envelope

if TYPE_CHECKING:
    from tokenbox.proof.manifest import Manifest
    from tokenbox.proof.signing import PublicKey

# The size limit of volatile.json, far above a copy of the manifest and checksums.
MAX_VOLATILE = 4 * MAX_MANIFEST
_DIGITS = 64
_PIECE = 1 << 20
# The maximum size of a file in which a damaged line is located.
_MAX_LOCATED = 256 << 20
_PLAIN = frozenset({MANIFEST, INPUTS, DECISIONS, VOLATILE})
_SUFFIX = {SUMMARIES: ".json", TEXTS: ""}


class BundleFiles(ABC):
    """The files of a bundle in any storage. Each method raises :class:`BundleInvalid`.

    Names are relative, with ``/``; an empty folder is a name that ends in ``/``. Anything but a regular file
    is an error. Only ``read`` holds a file in memory.
    """

    @abstractmethod
    def names(self) -> Iterable[str]:
        """Return the names of all files, in any order."""

    @abstractmethod
    def opened(self, name: str) -> AbstractContextManager[tuple[BinaryIO, int]]:
        """Open a file, and give it with its size in bytes."""

    def read(self, name: str, limit: int) -> bytes:
        """Return the bytes of a file. Raises if it has more than ``limit``."""
        with self.opened(name) as (file, size):
            if size > limit:
                raise BundleInvalid(f"has {size:,} bytes, over the limit of {limit:,}.", file=name)
            return file.read(size)

    def sha256(self, name: str, size: int | None = None) -> tuple[int, str]:
        """Return the size and SHA-256 (hex) of a file. Raises before hashing if its size is not ``size``."""
        with self.opened(name) as (file, found):
            if size is not None and found != size:
                message = f"has {found:,} bytes, and the manifest says {size:,}."
                raise BundleInvalid(message, file=name, field="size", expected=size, found=found)
            digest, left = hashlib.sha256(), found
            while left and (piece := file.read(min(left, _PIECE))):
                digest.update(piece)
                left -= len(piece)
            return found - left, digest.hexdigest()


class MemoryFiles(BundleFiles):
    """A bundle in memory: bytes by name."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def names(self) -> Iterator[str]:
        return iter(self._files)

    @contextmanager
    def opened(self, name: str) -> Iterator[tuple[BinaryIO, int]]:
        if name not in self._files:
            raise missing(name)
        yield io.BytesIO(self._files[name]), len(self._files[name])


def verify(
    files: BundleFiles,
    bundle_id: str | None = None,
    keys: Sequence[PublicKey] | None = None,
    threshold: int = 1,
) -> Manifest:
    """Verify every byte of a bundle, and return its manifest. Raises :class:`BundleInvalid`.

    ``bundle_id``: the expected id; by default, the one in the bundle. ``keys``: public keys; at
    least ``threshold`` of them must have signed. Without keys, signatures are not verified, but their payload
    is. Only the files are needed: no network, no tokenizer.
    """
    if bundle_id is None:
        bundle_id = claimed_id(files)
    data = files.read(MANIFEST, MAX_MANIFEST)
    if hashlib.sha256(data).hexdigest() != bundle_id:
        raise _manifest_differs(files, data, bundle_id)
    names = frozenset(files.names())
    if ENVELOPE in names:
        _check_envelope(files, data, keys, threshold)
    elif keys is not None:
        raise SignatureInvalid("is missing: the bundle is not signed.", file=ENVELOPE)
    manifest = read_manifest(data, bundle_id)
    trees = _check_names(names, manifest)
    _check_volatile(files, bundle_id)
    for name in (INPUTS, DECISIONS):
        _check_file(files, manifest, name)
    for name, found in trees.items():
        _check_tree(files, manifest, name, found)
    return manifest


def claimed_id(files: BundleFiles) -> str:
    """Return the id in ``volatile.json``."""
    data = files.read(VOLATILE, MAX_VOLATILE)
    start = volatile_start("").index(b'","')
    claimed = data[start : start + _DIGITS].decode("ascii", "replace")
    if not HEX.fullmatch(claimed):
        raise BundleInvalid("is not a bundle id.", file=VOLATILE, field="bundle", found=claimed)
    return claimed


def missing(name: str) -> BundleInvalid:
    return BundleInvalid("is missing.", file=name)


def _check_envelope(
    files: BundleFiles, manifest: bytes, keys: Sequence[PublicKey] | None, threshold: int
) -> None:
    """Check that the envelope signs this manifest, with enough of the keys."""
    data = files.read(ENVELOPE, MAX_ENVELOPE)
    payload = payload_of(data, STATEMENT_TYPE)
    if keys is not None:
        check_signatures(read_envelope(data, STATEMENT_TYPE), keys, threshold)
    if payload != manifest:
        try:
            path, expected, found = _first_difference(parse_canonical(payload), manifest)
        except NotCanonical:
            raise SignatureInvalid("signs something else.", file=ENVELOPE, field="payload") from None
        message = f"is {shown(found)}, and was {shown(expected)} when the bundle was signed."
        raise SignatureInvalid(message, file=MANIFEST, field=path, expected=expected, found=found)


def _check_names(names: Iterable[str], manifest: Manifest) -> dict[str, list[str]]:
    """Check that the files are those of the manifest, and return the names in each folder, without suffix."""
    if names == _PLAIN and not any(map(manifest.files.get, _SUFFIX)):
        return {}
    wanted = set(_PLAIN)
    names = sorted(set(names) - {ENVELOPE})
    trees: dict[str, list[str]] = {name: [] for name in _SUFFIX if manifest.files[name] is not None}
    for name in names:
        if name in wanted:
            wanted.remove(name)
            continue
        folder, _, own = name.partition("/")
        found = trees.get(f"{folder}/")
        stem = own.removesuffix(_SUFFIX.get(f"{folder}/", ""))
        if found is None or name != f"{folder}/{stem}{_SUFFIX[f'{folder}/']}" or not HEX.fullmatch(stem):
            raise BundleInvalid("is not in the manifest. Remove it.", file=name[:200])
        found.append(stem)
        if len(found) > manifest.files[f"{folder}/"]["files"]:
            raise BundleInvalid("has more files than the manifest says.", file=f"{folder}/")
    if wanted:
        raise missing(min(wanted))
    return trees


def _check_volatile(files: BundleFiles, bundle_id: str) -> None:
    data = files.read(VOLATILE, MAX_VOLATILE)
    start = volatile_start(bundle_id)
    if not data.startswith(start):
        message = f"does not belong to bundle {bundle_id[:12]}."
        raise BundleInvalid(message, file=VOLATILE, field="bundle", expected=bundle_id)
    place = len(start)
    recorded = data[place : place + _DIGITS]
    found = hashlib.sha256(data[:place] + data[place + _DIGITS :]).hexdigest()
    if recorded != found.encode():
        message = "is not the digest of the file: something in it was changed."
        expected = recorded.decode("ascii", "replace")
        raise BundleInvalid(message, file=VOLATILE, field="digest", expected=expected, found=found)


def _check_file(files: BundleFiles, manifest: Manifest, name: str) -> None:
    record = manifest.files[name]
    try:
        _, digest = files.sha256(name, record["bytes"])
    except BundleInvalid as error:
        line = None if error.field is None else _first_line(files, name, manifest.id)
        if line is None:
            raise
        raise BundleInvalid(
            f"differs; the file has {error.found} bytes instead of {error.expected}.",
            file=name,
            field=line,
            expected=error.expected,
            found=error.found,
        ) from None
    wanted = record["sha256"]
    if digest != wanted:
        line = _first_line(files, name, manifest.id) or "sha256"
        message = f"differs; the file hashes to {digest[:12]}..., and the manifest says {wanted[:12]}..."
        raise BundleInvalid(message, file=name, field=line, expected=wanted, found=digest)


def _check_tree(files: BundleFiles, manifest: Manifest, folder: str, found: list[str]) -> None:
    record = manifest.files[folder]
    count = record["files"]
    if len(found) != count:
        message = f"has {len(found):,} files, and the manifest says {count:,}."
        raise BundleInvalid(message, file=folder, field="files", expected=count, found=len(found))
    total = 0
    for stem in sorted(found):
        name = f"{folder}{stem}{_SUFFIX[folder]}"
        size, digest = files.sha256(name)
        total += size
        if digest != stem:
            message = f"hashes to {digest[:12]}..., which is not its name."
            raise BundleInvalid(message, file=name, field="sha256", expected=stem, found=digest)
    if tree_digest(found) != record["sha256"] or total != record["bytes"]:
        raise BundleInvalid("has other files than the manifest says.", file=folder, field="sha256")


def _manifest_differs(files: BundleFiles, data: bytes, bundle_id: str) -> BundleInvalid:
    """Return the error for a manifest with another digest; with the field, if ``volatile.json`` is intact."""
    found = hashlib.sha256(data).hexdigest()
    copy = _copy(files, bundle_id)
    if copy is not None:
        path, expected, actual = _first_difference(copy, data)
        message = f"is {shown(actual)}, and was {shown(expected)} when the bundle was made."
        return BundleInvalid(message, file=MANIFEST, field=path, expected=expected, found=actual)
    message = f"hashes to {found[:12]}..., and the id of the bundle is {bundle_id[:12]}..."
    return BundleInvalid(message, file=MANIFEST, expected=bundle_id, found=found)


def _first_difference(copy: object, data: bytes) -> tuple[str, object, object]:
    """Return the first field of the manifest that differs from its copy; a byte if it cannot be parsed."""
    original = canonical(copy)
    try:
        value = parse_canonical(data)
    except NotCanonical:
        place = next((i for i, (a, b) in enumerate(zip(original, data, strict=False)) if a != b), None)
        place = min(len(original), len(data)) if place is None else place
        expected, found = (str(side[place : place + 1])[1:] for side in (original, data))
        return f"byte {place}", expected, found
    before, after = dict(leaves(copy)), dict(leaves(value))
    path = next(
        path
        for path in (*before, *after)  # as JSON, in which 1 and true differ
        if path not in before or path not in after or canonical(before[path]) != canonical(after[path])
    )
    return path, before.get(path), after.get(path)


def _copy(files: BundleFiles, bundle_id: str) -> object | None:
    """Return the copy of the manifest in ``volatile.json``; None unless it is intact."""
    volatile = _volatile(files, bundle_id)
    copy = None if volatile is None else volatile.get("manifest")
    try:
        return copy if record_digest(copy) == bundle_id else None
    except NotCanonical:
        return None


def _first_line(files: BundleFiles, name: str, bundle_id: str) -> str | None:
    """Return the first changed line of a file, by the checksums in ``volatile.json``."""
    volatile = _volatile(files, bundle_id)
    sums = None if volatile is None else cast("dict[str, str]", volatile.get("lines", {})).get(name)
    if not sums:
        return None
    try:
        data = files.read(name, _MAX_LOCATED)
    except BundleInvalid:
        return None
    expected = [sums[place : place + 8] for place in range(0, len(sums), 8)]
    lines = data.split(b"\n")
    for number, (line, checksum) in enumerate(zip(lines, expected, strict=False), 1):
        if line_sum(line) != checksum:
            return f"line {number}"
    return f"line {min(len(lines), len(expected) + 1)}"


def _volatile(files: BundleFiles, bundle_id: str) -> dict[str, object] | None:
    try:
        _check_volatile(files, bundle_id)
        value = parse_canonical(files.read(VOLATILE, MAX_VOLATILE))
    except (BundleInvalid, NotCanonical):
        return None
    return value if isinstance(value, dict) else None
