"""Proof bundles in a folder, written atomically."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import secrets
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tokenbox.files import create, held, is_inside, replace, sync_folder
from tokenbox.proof.bundle import ENVELOPE, MANIFEST, MAX_MANIFEST, VOLATILE, build
from tokenbox.proof.errors import BundleInvalid, ProofError
from tokenbox.proof.manifest import HEX, read_volatile
from tokenbox.proof.signing import MAX_ENVELOPE, STATEMENT_TYPE, signed
from tokenbox.proof.verify import MAX_VOLATILE, verify
from tokenbox.store.bundle_files import FolderFiles
from tokenbox.store.bundle_log import BundleLog

if TYPE_CHECKING:
    from tokenbox.proof.bundle import Bundle
    from tokenbox.proof.evidence import Evidence
    from tokenbox.proof.manifest import Manifest
    from tokenbox.proof.signing import PublicKey, SigningKey

__all__ = ["Bundles", "Written"]

FOLDER = Path(".tokenbox", "proof")
# The folder of bundles that are being written, separate so that cleaning up after a kill is cheap.
DRAFTS = ".new"
_DRAFT_SECONDS = 24 * 60 * 60
_EXISTS = {errno.ENOTEMPTY, errno.EEXIST}
# Packages that can change a count or a cut. The versions of those in use are recorded.
_PACKAGES = ("fastokens", "google-re2", "regex", "sentencepiece", "tiktoken", "tokenizers", "tree-sitter")
_MODULES = {"google-re2": "re2", "tree-sitter": "tree_sitter"}


class ProofNotWritten(ProofError, code="proof_not_written"):
    """A bundle cannot be written: the disk is full, the folder is read-only, ..."""


class BundleNotFound(ProofError, code="bundle_not_found"):
    """No bundle has that id, or several begin with it."""


@dataclass(frozen=True, slots=True)
class Written:
    """A bundle on disk. ``new`` is False if the same bundle existed before."""

    id: str
    path: Path
    new: bool


@dataclass(frozen=True, slots=True)
class Listed:
    """A bundle in a list. If its manifest cannot be read, it has a ``problem`` and no other fields."""

    id: str
    time: str | None
    manifest: Manifest | None
    problem: BundleInvalid | None = None


def bundles_of(project: Path) -> Path:
    """Return the folder of a project's bundles.

    Raises :class:`ProofNotWritten` for a link: the project's author would choose where files are written and
    removed.
    """
    folder = project / FOLDER
    if os.path.realpath(folder) != os.path.join(os.path.realpath(project), FOLDER):
        where = "" if is_inside(folder, project) else " that leads out of the project"
        raise ProofNotWritten(f"{folder} is a link{where}. Replace it by a folder.", folder=str(folder))
    return folder


class Bundles:
    """The bundles in a folder. Called with evidence, it writes a bundle, so ``proof=`` accepts it.

    ``texts``: bundles contain all texts, so that they replay offline. ``fsync``: data is on the disk before
    ``write`` returns, so that a bundle survives a power failure. ``signers`` are keys that sign every bundle,
    and the log.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] = FOLDER,
        *,
        texts: bool = False,
        fsync: bool = False,
        signers: Sequence[SigningKey] = (),
    ) -> None:
        self.folder = Path(folder)
        self.texts = texts
        self.fsync = fsync
        self.signers = signers
        self.log = BundleLog(self.folder, signers, sync=fsync)

    def __call__(self, evidence: Evidence) -> Written:
        return self.write(evidence)

    def write(self, evidence: Evidence) -> Written:
        """Write the bundle of ``evidence``, if it does not exist yet.

        Writing is atomic, also between processes. Raises :class:`ProofNotWritten`.
        """
        bundle = build(evidence, texts=self.texts)
        path = self.folder / bundle.id
        try:
            return self._write(bundle, path)
        except OSError as error:
            raise ProofNotWritten(
                f"the proof {path} cannot be written: {error.strerror or error}. "
                "No part of it is left there. Free some space, or name another folder.",
                folder=str(self.folder),
                id=bundle.id,
            ) from error

    def ids(self) -> list[str]:
        """Return the ids of all bundles, in order. Raises :class:`BundleNotFound` if that fails."""
        try:
            with os.scandir(self.folder) as entries:
                return sorted(
                    entry.name
                    for entry in entries
                    if HEX.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
                )
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BundleNotFound(
                f"{self.folder} cannot be read: {error.strerror}.", folder=str(self.folder)
            ) from error

    def find(self, start: str) -> str:
        """Return the id that begins with ``start``. Raises :class:`BundleNotFound`."""
        found = [name for name in self.ids() if name.startswith(start)] if start else []
        if len(found) == 1:
            return found[0]
        if found:
            raise BundleNotFound(
                f"{len(found)} bundles in {self.folder} begin with {start!r}, such as "
                f"{found[0][:16]} and {found[1][:16]}. Give more of the id.",
                start=start,
                found=len(found),
            )
        raise BundleNotFound(
            f"no bundle in {self.folder} has an id that begins with {start[:64]!r}. "
            "`tokenbox proof list` lists them.",
            start=start[:64],
        )

    def files(self, bundle_id: str) -> FolderFiles:
        return FolderFiles(f"{self.folder}{os.sep}{bundle_id}")

    def listed(self, keys: Sequence[PublicKey] | None = None) -> list[Listed]:
        """Verify and list all bundles, the latest first, invalid ones last.

        If ``keys`` are given, one of them must have signed, as for ``verify``.
        """
        found = [self._list_one(bundle_id, keys) for bundle_id in self.ids()]
        found.sort(key=lambda bundle: bundle.time or "", reverse=True)
        return found

    def _list_one(self, bundle_id: str, keys: Sequence[PublicKey] | None) -> Listed:
        files = self.files(bundle_id)
        try:
            manifest = verify(files, bundle_id, keys)
            made = read_volatile(files.read(VOLATILE, MAX_VOLATILE))
            return Listed(bundle_id, str(made["time"]), manifest)
        except BundleInvalid as error:
            return Listed(bundle_id, None, None, error)

    def _write(self, bundle: Bundle, path: Path) -> Written:
        if path.is_dir():
            return self._existing(bundle, path)
        drafts = self.folder / DRAFTS
        for folder in (drafts, self.log.folder):
            folder.mkdir(parents=True, exist_ok=True)
            if folder.is_symlink():  # old drafts are removed, and must not be those of another folder
                raise OSError(errno.ELOOP, f"{folder} is a link", str(folder))
        _sweep(drafts)
        draft = drafts / f"{bundle.id[:16]}-{os.getpid()}-{secrets.token_hex(4)}"
        draft.mkdir()
        try:
            made = now()
            self._fill(draft, bundle, made)

            def publish() -> bool:
                try:
                    draft.rename(path)
                except OSError as error:
                    if error.errno in _EXISTS:
                        return False
                    raise
                if self.fsync:
                    sync_folder(self.folder)
                return True

            new = self.log.publish(bundle.id, publish, time=made)
            return Written(bundle.id, path, new=True) if new else self._existing(bundle, path)
        finally:  # the draft was renamed, unless something failed
            shutil.rmtree(draft, ignore_errors=True)

    def _fill(self, draft: Path, bundle: Bundle, time: str) -> None:
        folders = {name.partition("/")[0] for name in bundle.files if "/" in name}
        for folder in sorted(folders):
            (draft / folder).mkdir()
        files = {**bundle.files, VOLATILE: bundle.volatile(time, host(), environment())}
        if self.signers:
            files[ENVELOPE] = signed(bundle.files[MANIFEST], STATEMENT_TYPE, self.signers)
        for name, data in files.items():
            create(draft / name, data, sync=self.fsync)
        if self.fsync:
            for folder in sorted(folders):
                sync_folder(draft / folder)
            sync_folder(draft)

    def _existing(self, bundle: Bundle, path: Path) -> Written:
        """Return the existing bundle, after checking that it is not damaged: its id is that of its bytes."""
        try:
            verify(FolderFiles(path), bundle.id)
        except BundleInvalid as error:
            raise ProofNotWritten(
                f"the proof {path} exists already, damaged: {error.message} Move it away, and try again.",
                folder=str(self.folder),
                id=bundle.id,
            ) from error
        if self.signers:
            sign_bundle(path, self.signers)
        return Written(bundle.id, path, new=False)


def sign_bundle(path: Path, signers: Sequence[SigningKey]) -> None:
    """Add signatures to a verified bundle in a folder. Existing signatures are kept.

    Raises :class:`ProofNotWritten`, and ``SignatureInvalid`` for an envelope that cannot be read.
    """
    files = FolderFiles(path)
    try:
        with held(path):  # others may add theirs
            before = files.read(ENVELOPE, MAX_ENVELOPE) if (path / ENVELOPE).exists() else None
            envelope = signed(files.read(MANIFEST, MAX_MANIFEST), STATEMENT_TYPE, signers, before)
            if envelope != before:
                replace(path / ENVELOPE, envelope, drafts=path.parent)
    except OSError as error:
        message = f"the signature of {path} cannot be written: {error.strerror or error}."
        raise ProofNotWritten(message, folder=str(path)) from error


def now() -> str:
    """Return the time, RFC 3339 in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def host() -> str:
    """Return the name of this machine."""
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def environment() -> dict[str, str]:
    """Return the versions of Python, the system, and the packages in use that can change a count or a cut."""
    return {
        "python": f"{sys.implementation.name} {sys.version.split()[0]}",
        "system": sys.platform,
        **{name: _version(name) for name in _PACKAGES if _MODULES.get(name, name) in sys.modules},
    }


@functools.cache
def _version(package: str) -> str:
    from importlib import metadata  # slow to import

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def _sweep(drafts: Path) -> None:
    """Remove the drafts of writers that were killed long ago."""
    with contextlib.suppress(OSError), os.scandir(drafts) as entries:
        for entry in entries:
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > _DRAFT_SECONDS:
                shutil.rmtree(entry.path, ignore_errors=True)
