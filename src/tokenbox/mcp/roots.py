"""The files that a client may read: those inside the roots of the client and of ``--root``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from tokenbox.errors import TokenboxError
from tokenbox.folder.names import shown

MAX_ROOTS: Final = 100


class NoRoots(TokenboxError, code="no_roots"):
    """No file may be read: neither the client nor ``--root`` names a folder."""


class OutsideRoots(TokenboxError, code="outside_roots"):
    """The path is outside all roots. The message does not reveal whether it exists."""


@dataclass(frozen=True, slots=True)
class Roots:
    """Folders with links resolved. ``given``: the client's, None if it has none. ``started``: of ``--root``.

    If both are set, a path must be inside one of each: a client cannot extend the permission of ``--root``.
    """

    given: tuple[str, ...] | None
    started: tuple[str, ...] = ()

    @classmethod
    def of(cls, uris: Iterable[str] | None, started: Sequence[str] = ()) -> Roots:
        """Build the roots from a client's URIs. Only file URIs of this machine count."""
        if uris is None:
            return cls(None, tuple(started))
        paths = [path for uri in list(uris)[:MAX_ROOTS] if (path := _path_of(uri)) is not None]
        return cls(tuple(map(os.path.realpath, paths)), tuple(started))

    def resolve(self, path: str) -> str:
        """Return the absolute path with links resolved. A relative path starts at a root.

        Raises :class:`NoRoots` and :class:`OutsideRoots`.
        """
        bases, name = self.bases(), shown(path)[:200]
        if not bases:
            raise NoRoots(
                "this client has no roots, so no file may be read. Start the server with folders: "
                "tokenbox mcp --root FOLDER."
            )
        if not _is_path(path):
            raise OutsideRoots(f"{name} is not a path: it has a NUL, or is not Unicode text.", path=name)
        candidates = [os.path.realpath(os.path.join(base, path)) for base in bases]
        allowed = [found for found in dict.fromkeys(candidates) if self.holds(found)]
        existing = [found for found in allowed if os.path.exists(found)]
        if len(existing) > 1:
            raise OutsideRoots(f"{name} is in {len(existing)} roots. Give the absolute path.", path=name)
        if not allowed:
            raise OutsideRoots(
                f"{name} is outside the roots that may be read. Give a path inside one; "
                "`.` is the root itself.",
                path=name,
            )
        return (existing or allowed)[0]

    def bases(self) -> tuple[str, ...]:
        """Return the folders at which relative paths start: the roots inside what may be read."""
        if self.given is None:
            return self.started
        if not self.started:
            return self.given
        inner = [root for root in self.given if _inside(root, self.started)]
        return tuple(dict.fromkeys([*inner, *(root for root in self.started if _inside(root, self.given))]))

    def holds(self, path: str) -> bool:
        """Return True if the path, absolute and with its links resolved, may be read."""
        if self.given is None:
            return _inside(path, self.started)
        return _inside(path, self.given) and (not self.started or _inside(path, self.started))

    def above(self, path: str) -> str:
        """Return the root that contains ``path``. Ignore files above it are not read."""
        return max((root for root in self.bases() if _inside(path, (root,))), key=len, default=path)


def _inside(path: str, roots: Iterable[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip(os.sep) + os.sep) for root in roots)


def _is_path(path: str) -> bool:
    """Return True if a file system could have this path."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _path_of(uri: str) -> str | None:
    """Return the absolute path in a file URI, or None if it is not a file of this machine."""
    try:
        parts = urlsplit(uri)
        path = url2pathname(parts.path)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or "\0" in path:
        return None
    return path if os.path.isabs(path) else None
