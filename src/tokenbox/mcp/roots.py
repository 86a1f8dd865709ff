"""Which files a client may have read: what is inside the folders that it, and who started us, name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from tokenbox.errors import TokenboxError
from tokenbox.folder.names import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST: Final = 100


class NoRoots(TokenboxError):
    """Nothing may be read: the client names no folder, and neither did who started the server."""

    code = "no_roots"


class OutsideRoots(TokenboxError):
    """A path that is in no root. Whether anything is there is not said."""

    code = "outside_roots"


@dataclass(frozen=True, slots=True)
class Roots:
    """Folders without links. ``given``: the client's; None if it names none. ``started``: of ``--root``.

    Where both are there, a path must be inside one of each: what a client says is no permission beyond what
    the server was started with.
    """

    given: tuple[str, ...] | None
    started: tuple[str, ...] = ()

    @classmethod
    def of(cls, uris: Iterable[str] | None, started: Sequence[str] = ()) -> Roots:
        """The roots of a client's URIs. Those that are not file URIs of this machine count for nothing."""
        if uris is None:
            return cls(None, tuple(started))
        paths = [path for uri in list(uris)[:MOST] if (path := _path_of(uri)) is not None]
        return cls(tuple(map(os.path.realpath, paths)), tuple(started))

    def resolve(self, path: str) -> str:
        """The absolute path without links, inside the roots. Relative paths start at a root.

        Raises :class:`NoRoots` and :class:`OutsideRoots`.
        """
        bases, name = self.bases(), shown(path)[:200]
        if not bases:
            raise NoRoots(
                "this client names no roots, so no file may be read. Start the server with the folders: "
                "tokenbox mcp --root FOLDER."
            )
        if not _may_be_a_name(path):
            raise OutsideRoots(f"{name} is not a path: it has a NUL, or is not Unicode text.", path=name)
        candidates = [os.path.realpath(os.path.join(base, path)) for base in bases]  # noqa: PTH118
        allowed = [found for found in dict.fromkeys(candidates) if self.holds(found)]
        there = [found for found in allowed if os.path.exists(found)]  # noqa: PTH110
        if len(there) > 1:
            raise OutsideRoots(
                f"{shown(path)[:200]} is in {len(there)} roots. Give the absolute path.",
                path=shown(path)[:200],
            )
        if not allowed:
            raise OutsideRoots(
                f"{name} is not inside the roots that may be read. Give a path inside one; "
                "`.` is the root itself.",
                path=name,
            )
        return (there or allowed)[0]

    def bases(self) -> tuple[str, ...]:
        """Where relative paths start: the roots that lie inside what may be read."""
        if self.given is None:
            return self.started
        if not self.started:
            return self.given
        inner = [root for root in self.given if _inside(root, self.started)]
        return tuple(dict.fromkeys([*inner, *(root for root in self.started if _inside(root, self.given))]))

    def holds(self, path: str) -> bool:
        """Whether an absolute path without links is inside."""
        if self.given is None:
            return _inside(path, self.started)
        return _inside(path, self.given) and (not self.started or _inside(path, self.started))

    def above(self, path: str) -> str:
        """The root that ``path`` is in: no rule above it is read."""
        return max((root for root in self.bases() if _inside(path, (root,))), key=len, default=path)


def _inside(path: str, roots: Iterable[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip(os.sep) + os.sep) for root in roots)


def _may_be_a_name(path: str) -> bool:
    """Whether a file system could have it."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _path_of(uri: str) -> str | None:
    """The absolute path in a file URI; None for what is not a file of this machine."""
    try:
        parts = urlsplit(uri)
        path = url2pathname(parts.path)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or "\0" in path:
        return None
    return path if os.path.isabs(path) else None  # noqa: PTH117
