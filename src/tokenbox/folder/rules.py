"""The digest of the rules by which something is found in files, for the keys of a cache."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
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
            digest.update(f"{_installed()[package]}\n".encode())
        for module in modules:
            digest.update(Path(str(module.__file__)).read_bytes())
    except (OSError, KeyError):
        return None
    return digest.digest()


@cache
def _installed() -> dict[str, str]:
    """Return each installed package as its folder is named, with the version.

    ``importlib.metadata`` takes 40 ms to import and to parse four files.
    """
    found: dict[str, str] = {}
    for folder in reversed(sys.path):  # the first is what Python imports
        with suppress(OSError):
            names = [name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info"))]
            found.update((name.partition("-")[0].replace("_", "-").lower(), name) for name in sorted(names))
    return found
