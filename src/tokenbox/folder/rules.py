"""The digest of the rules by which something is found in files, for the keys of a cache."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def digest_of_rules(name: str, modules: Iterable[ModuleType], packages: Iterable[str] = ()) -> bytes | None:
    """Return a digest of ``name``, of the source of modules and of the versions of packages.

    None if a source or a version is unknown: what the rules find cannot be cached.
    """
    digest = hashlib.sha256(name.encode())
    try:
        for package in packages:
            digest.update(f"{package} {version(package)}\n".encode())
        for module in modules:
            digest.update(Path(str(module.__file__)).read_bytes())
    except (OSError, PackageNotFoundError):
        return None
    return digest.digest()
