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
            digest.update(installed()[package].encode())
        for module in modules:
            digest.update(Path(str(module.__file__)).read_bytes())
    except (OSError, KeyError):
        return None
    return digest.digest()


@cache
def installed() -> dict[str, str]:
    """Return each installed package as its folder is named, with the version; all of them if it has several.

    ``importlib.metadata`` takes 40 ms to import and to parse four files.
    """
    found: dict[str, str] = {}
    for folder in sys.path:
        with suppress(OSError):
            for name in sorted(os.listdir(folder or ".")):
                if name.endswith((".dist-info", ".egg-info")):
                    package = name.partition("-")[0].replace("_", "-").lower()
                    found[package] = f"{found.get(package, '')}{name}\n"
    return found
