"""Files of keys that sign proofs: FILE has the private key, FILE.pub the public one."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

from tokenbox.files import OWN, create, open_regular
from tokenbox.proof.errors import KeyInvalid
from tokenbox.proof.signing import new_key, public_key, signer_of

if TYPE_CHECKING:
    from pathlib import Path

    from tokenbox.proof.signing import PublicKey, SigningKey

PUBLIC = ".pub"
_MAX_BYTES = 1 << 16
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def write_key(path: Path) -> PublicKey:
    """Create a key: ``path``, which only its owner can read, and ``path.pub``. No file is overwritten.

    Raises :class:`KeyInvalid`.
    """
    private, public = new_key()
    public_path = path.with_name(path.name + PUBLIC)
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o700, parents=True)
        create(path, private, new=OWN)
        try:
            create(public_path, public, new=0o644)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    except FileExistsError as error:
        raise KeyInvalid.of(str(error.filename), "exists already, and no key is overwritten") from None
    except OSError as error:
        raise KeyInvalid.of(str(path), f"cannot be written: {error.strerror or error}") from None
    return public_key(public, str(public_path))


def read_signer(path: Path) -> SigningKey:
    """Read the private key in a file that only its owner may read. Raises :class:`KeyInvalid`."""
    data, status = _read(path)
    if b"PUBLIC KEY" in data:
        raise KeyInvalid.of(str(path), f"is a public key. To sign, use {path.name.removesuffix(PUBLIC)}")
    if sys.platform != "win32":
        if status.st_mode & _OTHERS:
            rights = f"{stat.S_IMODE(status.st_mode):o}"
            raise KeyInvalid.of(
                str(path), f"may be read or changed by others (rights {rights}). Run: chmod 600 {path}"
            )
        if status.st_uid not in (os.geteuid(), 0):
            raise KeyInvalid.of(str(path), f"belongs to another user (uid {status.st_uid})")
    return signer_of(data, str(path))


def read_public(path: Path) -> PublicKey:
    """Read the public key in a file. Raises :class:`KeyInvalid`."""
    return public_key(_read(path)[0], str(path))


def _read(path: Path) -> tuple[bytes, os.stat_result]:
    try:
        with open_regular(path) as file:
            return file.read(_MAX_BYTES), os.fstat(file.fileno())
    except OSError as error:
        raise KeyInvalid.of(str(path), f"cannot be read: {error.strerror or error}") from None
