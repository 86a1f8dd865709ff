"""The log of a store: an append-only list of all bundles, in the order of writing.

    log/entries       the id of a bundle per line
    log/hashes        the Merkle tree over the lines (tokenbox.proof.merkle), 32 bytes per node
    log/checkpoints   a DSSE envelope per line: size, root, time, and the digest of the last entry's
                      volatile.json, which is not part of its id; signed; only if a key signs
    log/pending       the bundle that is being published

Rule 1: entries are only appended. The next writer truncates an entry that a kill cut off.
Rule 2: a bundle is published and entered under one lock, after its id was written to ``pending``. So after a
kill the next writer knows whether it was published, and enters it.
Rule 3: ``hashes`` is derived from ``entries``, and is rebuilt if they differ. Verifiers do not use it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from tokenbox.content.canonical import NotCanonical, canonical, parse_canonical
from tokenbox.errors import plural
from tokenbox.files import open_regular, sync_folder, turn
from tokenbox.proof import merkle
from tokenbox.proof.bundle import VOLATILE, volatile_start
from tokenbox.proof.errors import LogInvalid, SignatureInvalid
from tokenbox.proof.manifest import HEX
from tokenbox.proof.signing import CHECKPOINT_TYPE, check_signatures, payload_of, read_envelope, signed

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from tokenbox.proof.signing import PublicKey, SigningKey

LOG: Final = "log"
ENTRIES, HASHES, CHECKPOINTS, PENDING, LOCK = "entries", "hashes", "checkpoints", "pending", "lock"
_LINE: Final = 65
_DIGITS: Final = 64
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The statement that the log had ``size`` entries with this root at this time.

    ``volatile``: the digest in ``volatile.json`` of the last entry.
    """

    size: int
    root: str
    time: str
    volatile: str

    def payload(self) -> bytes:
        return canonical(asdict(self))

    @classmethod
    def of(cls, payload: bytes, place: str) -> Checkpoint:
        """Raises :class:`LogInvalid`."""
        try:
            record = parse_canonical(payload)
        except NotCanonical:
            record = None
        match record:
            case {
                "size": int(size),
                "root": str(root),
                "time": str(time),
                "volatile": str(volatile),
                **others,
            } if (
                not others
                and type(size) is int
                and size > 0
                and HEX.fullmatch(root)
                and HEX.fullmatch(volatile)
                and _TIME.fullmatch(time)
            ):
                return cls(size, root, time, volatile)
        raise _invalid(CHECKPOINTS, "is not a checkpoint.", place)


@dataclass(frozen=True, slots=True)
class Inclusion:
    """The proof that a bundle is entry ``number`` of the log of a checkpoint, verifiable without the log."""

    number: int
    path: tuple[str, ...]
    checkpoint: Checkpoint
    envelope: bytes

    def to_dict(self) -> dict[str, object]:
        return {
            "entry": self.number,
            "path": list(self.path),
            "checkpoint": self.envelope.decode(),
        }

    @classmethod
    def of(cls, record: object, file: str) -> Inclusion:
        """Raises :class:`LogInvalid`."""
        match record:
            case {"entry": int(number), "path": list(path), "checkpoint": str(envelope), **others} if (
                not others
                and type(number) is int
                and all(isinstance(node, str) and HEX.fullmatch(node) for node in path)
            ):
                data = envelope.encode(errors="replace")
                return cls(number, tuple(path), read_checkpoint(data, "checkpoint"), data)
        raise LogInvalid("is not a proof of inclusion.", file=file)

    def check(self, bundle_id: str, keys: Sequence[PublicKey], threshold: int, file: str) -> None:
        """Check that the bundle is in the log, and who signed its checkpoint. Raises :class:`LogInvalid`."""
        path = [bytes.fromhex(node) for node in self.path]
        found = merkle.root_of_inclusion(bundle_id.encode(), self.number, self.checkpoint.size, path)
        if found is None or found.hex() != self.checkpoint.root:
            message = f"does not show that {bundle_id[:12]} is entry {self.number} of the log."
            raise LogInvalid(message, file=file, field="path", expected=self.checkpoint.root)
        check_signatures(read_envelope(self.envelope, CHECKPOINT_TYPE, file), keys, threshold, file)


class BundleLog:
    """The log in ``folder/log``. Any number of processes write to it.

    ``signers``: keys that sign every entry. ``sync``: entries are on the disk when ``publish`` returns.
    """

    def __init__(self, folder: Path, signers: Sequence[SigningKey] = (), *, sync: bool = False) -> None:
        self._store = folder
        self._signers, self._sync = signers, sync
        self.folder = folder / LOG

    def publish(self, bundle_id: str, publish: Callable[[], bool], *, time: str) -> bool:
        """Call ``publish``, and enter the bundle if it returns that it is new. Raises ``OSError``."""
        with turn(self.folder / LOCK):
            entries = self._recover()
            with self._open(PENDING, "wb") as pending:
                pending.write(bundle_id.encode())
            if self._sync:
                sync_folder(self.folder)
            new = publish()
            if new:
                self._enter(bundle_id, entries)
                if self._signers:
                    self._sign(bundle_id, entries + 1, time)
            (self.folder / PENDING).unlink()
        return new

    def size(self) -> int:
        """Return the number of complete entries."""
        try:
            return (self.folder / ENTRIES).stat().st_size // _LINE
        except FileNotFoundError:
            return 0

    def ids(self) -> Iterator[str]:
        """Yield the ids, in order. Raises :class:`LogInvalid` for an invalid line."""
        try:
            file = self._open(ENTRIES, "rb")
        except FileNotFoundError:
            return
        with file:
            for number in range(self.size()):
                line = file.read(_LINE)
                name = line[:-1].decode("ascii", "replace")
                if not HEX.fullmatch(name) or not line.endswith(b"\n"):
                    raise _invalid(ENTRIES, "is not the id of a bundle.", f"line {number + 1}")
                yield name

    def pending(self) -> str | None:
        """Return the bundle that is being published, or was when a writer was killed; else None."""
        try:
            with self._open(PENDING, "rb") as file:
                return file.read(_LINE).decode("ascii", "replace")
        except FileNotFoundError:
            return None

    def unentered(self) -> str | None:
        """Return the pending bundle if it is in the store and not in the log; the next writer enters it."""
        left = self.pending()
        if left is None or not HEX.fullmatch(left) or not (self._store / left).is_dir() or left in self.ids():
            return None
        return left

    def volatile_digest(self, bundle_id: str) -> str:
        """Return the digest in ``volatile.json`` of a bundle. Raises ``OSError``."""
        start = len(volatile_start(bundle_id))
        with open_regular(self._store / bundle_id / VOLATILE, links=False) as file:
            return file.read(start + _DIGITS)[start:].decode("ascii", "replace")

    def checkpoints(self) -> Iterator[tuple[Checkpoint, bytes]]:
        """Yield each checkpoint and its envelope, in order. Raises :class:`LogInvalid`."""
        try:
            file = self._open(CHECKPOINTS, "rb")
        except FileNotFoundError:
            return
        with file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):  # an incomplete one was never published
                    yield read_checkpoint(line, f"line {number}"), line

    def inclusion(self, bundle_id: str) -> Inclusion:
        """Return the proof that a bundle is in the log of the last checkpoint. Raises :class:`LogInvalid`."""
        number = next((place for place, name in enumerate(self.ids()) if name == bundle_id), None)
        if number is None:
            raise _invalid(ENTRIES, f"does not have {bundle_id[:12]}.")
        latest = max(self.checkpoints(), key=lambda one: one[0].size, default=None)
        if latest is None or number >= latest[0].size:
            message = f"does not cover {bundle_id[:12]} yet. Set proof.sign_with, and write a bundle."
            raise _invalid(CHECKPOINTS, message)
        checkpoint, envelope = latest
        with self._open(HASHES, "rb") as hashes:
            path = merkle.inclusion(number, checkpoint.size, _reader(hashes))
        return Inclusion(number, tuple(node.hex() for node in path), checkpoint, envelope)

    def _open(self, name: str, mode: str) -> BinaryIO:
        """Open a file of the log. A link in a project would let its author choose what is overwritten."""
        return open_regular(self.folder / name, mode, links=False)

    def _recover(self) -> int:
        """Repair what a killed writer left, and return the number of entries."""
        with self._open(ENTRIES, "ab") as file:
            torn = file.tell() % _LINE
            if torn:
                file.truncate(file.tell() - torn)
        entries = self.size()
        self._fit_hashes(entries)
        self._cut_checkpoints()
        left = self.unentered()
        if left is None:
            return entries
        self._enter(left, entries)
        with self._open(ENTRIES, "ab") as file:  # the writer that was killed may have synced its bundle
            os.fsync(file.fileno())
        return entries + 1

    def _cut_checkpoints(self) -> None:
        if not (self.folder / CHECKPOINTS).exists():
            return
        with self._open(CHECKPOINTS, "r+b") as file:
            end = file.seek(0, os.SEEK_END)
            if end and (file.seek(end - 1), file.read(1))[1] != b"\n":
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)

    def _fit_hashes(self, entries: int) -> None:
        """Rebuild the stored hashes if their number does not match the entries."""
        with self._open(HASHES, "a+b") as hashes:
            if hashes.tell() == merkle.HASH_SIZE * merkle.stored(entries):
                return
            hashes.truncate(0)
            for number, name in enumerate(self.ids()):
                hashes.writelines(merkle.new_hashes(number, merkle.leaf_hash(name.encode()), _reader(hashes)))
                hashes.flush()

    def _enter(self, bundle_id: str, entries: int) -> None:
        self._append(ENTRIES, f"{bundle_id}\n".encode())
        with self._open(HASHES, "a+b") as hashes:
            leaf = merkle.leaf_hash(bundle_id.encode())
            hashes.write(b"".join(merkle.new_hashes(entries, leaf, _reader(hashes))))

    def _sign(self, bundle_id: str, entries: int, time: str) -> None:
        with self._open(HASHES, "rb") as hashes:
            root = merkle.root(entries, _reader(hashes)).hex()
        checkpoint = Checkpoint(entries, root, time, self.volatile_digest(bundle_id))
        self._append(CHECKPOINTS, signed(checkpoint.payload(), CHECKPOINT_TYPE, self._signers))

    def _append(self, name: str, data: bytes) -> None:
        with self._open(name, "ab") as file:
            file.write(data)
            if self._sync:
                file.flush()
                os.fsync(file.fileno())


def _invalid(
    name: str, message: str, place: str | None = None, *, expected: object = None, found: object = None
) -> LogInvalid:
    """Return the error for a file of the log."""
    return LogInvalid(message, file=f"{LOG}/{name}", field=place, expected=expected, found=found)


def read_checkpoint(line: bytes, place: str) -> Checkpoint:
    """Return the checkpoint in an envelope, without checking signatures. Raises :class:`LogInvalid`."""
    try:
        return Checkpoint.of(payload_of(line, CHECKPOINT_TYPE), place)
    except SignatureInvalid:
        raise _invalid(CHECKPOINTS, "is not a checkpoint.", place) from None


def verify_log(
    log: BundleLog,
    bundles: Callable[[], Sequence[str]],
    keys: Sequence[PublicKey] | None = None,
    threshold: int = 1,
    elsewhere: Sequence[tuple[str, bytes]] = (),
    retired: Sequence[PublicKey] = (),
) -> Iterator[LogInvalid | SignatureInvalid]:
    """Yield everything that is wrong with the log of the store whose bundles ``bundles`` lists.

    Other processes may write meanwhile: bundles that existed before must be entered or pending, and entered
    bundles must exist after. ``elsewhere`` are checkpoints that were kept outside of the store, with the
    names of their files. They detect a log that was cut together with its checkpoints. ``retired`` are keys
    that were replaced. Their checkpoints are valid up to the first one of ``keys``, so that an old key cannot
    be used any longer.
    """
    before, pending = set(bundles()), log.pending()
    entered: dict[str, int] = {}
    try:
        checkpoints = [(f"line {number}", *one) for number, one in enumerate(log.checkpoints(), 1)]
        checkpoints += [(file, read_checkpoint(data, file), data) for file, data in elsewhere]
        yield from _entries(log, checkpoints, entered)
    except LogInvalid as error:
        yield error
        return
    for name in entered.keys() - set(bundles()):
        message = f"has {name[:12]}, and the store does not: the bundle was deleted."
        yield _invalid(ENTRIES, message, f"line {entered[name]}")
    for name in sorted(before - entered.keys() - {pending}):
        yield LogInvalid("is not in the log.", file=name)
    if keys is not None:
        yield from _unsigned(checkpoints, keys, threshold, retired)


def _entries(
    log: BundleLog, checkpoints: Sequence[tuple[str, Checkpoint, bytes]], entered: dict[str, int]
) -> Iterator[LogInvalid]:
    """Yield what is wrong with the entries and their checkpoints; fills ``entered`` with their lines."""
    wanted: dict[int, list[tuple[str, Checkpoint]]] = {}
    for place, checkpoint, _ in checkpoints:
        wanted.setdefault(checkpoint.size, []).append((place, checkpoint))
    tree = merkle.GrowingRoot()
    for number, name in enumerate(log.ids(), 1):
        if name in entered:
            message = f"enters {name[:12]} again, which is entry {entered[name]}."
            yield _invalid(ENTRIES, message, f"line {number}")
        entered.setdefault(name, number)
        tree.add(name.encode())
        if here := wanted.pop(number, []):
            root = tree.root.hex()
            yield from _disagreeing(here, root)
            yield from _remade(log, name, [one for one in here if one[1].root == root])
    for place, checkpoint in (one for later in wanted.values() for one in later):
        message = (
            f"states that at {checkpoint.time} there were {plural(checkpoint.size, 'entry', 'entries')}, "
            f"and there are {tree.entries:,}: the log was cut."
        )
        yield _invalid(CHECKPOINTS, message, place, expected=checkpoint.size, found=tree.entries)


def _disagreeing(checkpoints: Sequence[tuple[str, Checkpoint]], root: str) -> Iterator[LogInvalid]:
    for place, checkpoint in checkpoints:
        if checkpoint.root != root:
            message = (
                f"signed other entries than the first {checkpoint.size:,} of this log: they were changed or "
                "reordered, or it is the log of a fork."
            )
            yield _invalid(CHECKPOINTS, message, place, expected=checkpoint.root, found=root)


def _remade(log: BundleLog, name: str, checkpoints: Sequence[tuple[str, Checkpoint]]) -> Iterator[LogInvalid]:
    """Yield each checkpoint of the bundle that signed another ``volatile.json`` of it."""
    with suppress(OSError):  # that it cannot be read, verifying the bundle says
        found = log.volatile_digest(name)
        for place, checkpoint in checkpoints:
            if checkpoint.volatile != found:
                yield LogInvalid(
                    f"is not the one that the checkpoint of {place} signed: its time, host or "
                    "environment was changed.",
                    file=f"{name}/{VOLATILE}",
                    field="digest",
                    expected=checkpoint.volatile,
                    found=found,
                )


def _unsigned(
    checkpoints: Sequence[tuple[str, Checkpoint, bytes]],
    keys: Sequence[PublicKey],
    threshold: int,
    retired: Sequence[PublicKey],
) -> Iterator[SignatureInvalid]:
    if not checkpoints:
        yield SignatureInvalid("is missing: the log was never signed.", file=f"{LOG}/{CHECKPOINTS}")
    first = _replaced_at(((one, data) for _, one, data in checkpoints), keys, threshold) if retired else 0
    if first is None:
        message = (
            "have no signature of a key in use: the log was cut, or nothing was written since the rotation."
        )
        yield SignatureInvalid(message, file=f"{LOG}/{CHECKPOINTS}", field="signatures")
    for place, checkpoint, data in checkpoints:
        accepted = [*keys, *retired] if first is not None and checkpoint.size <= first else keys
        try:
            envelope = read_envelope(data, CHECKPOINT_TYPE, f"{LOG}/{CHECKPOINTS}")
            check_signatures(envelope, accepted, threshold, f"{LOG}/{CHECKPOINTS}, {place}")
        except SignatureInvalid as error:
            yield error


def entered_before(log: BundleLog, keys: Sequence[PublicKey], threshold: int = 1) -> frozenset[str]:
    """Return the bundles that retired keys may have signed: those before the first checkpoint of ``keys``.

    Raises :class:`LogInvalid`. The result is meaningful only if :func:`verify_log` finds nothing wrong.
    """
    first = _replaced_at(log.checkpoints(), keys, threshold)
    return frozenset() if first is None else frozenset(islice(log.ids(), first - 1))


def _replaced_at(
    checkpoints: Iterable[tuple[Checkpoint, bytes]], keys: Sequence[PublicKey], threshold: int
) -> int | None:
    """Return the size of the log at the first checkpoint that ``keys`` signed; None if they signed none."""
    sizes = []
    for checkpoint, data in checkpoints:
        with suppress(SignatureInvalid):
            check_signatures(read_envelope(data, CHECKPOINT_TYPE), keys, threshold)
            sizes.append(checkpoint.size)
    return min(sizes, default=None)


def _reader(hashes: BinaryIO) -> Callable[[int], bytes]:
    def read(index: int) -> bytes:
        hashes.seek(index * merkle.HASH_SIZE)
        data = hashes.read(merkle.HASH_SIZE)
        hashes.seek(0, os.SEEK_END)
        if len(data) < merkle.HASH_SIZE:
            raise _invalid(HASHES, "is too short.", f"byte {index * merkle.HASH_SIZE}")
        return data

    return read
