"""Redact the secrets of a file. A cache keeps what was redacted, so that each content is searched once."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from tokenbox.folder import made_up, secret_shapes, secret_values, secrets
from tokenbox.folder.names import shown
from tokenbox.folder.notes import Note, NoteKind
from tokenbox.folder.remembered import remembered, source_of
from tokenbox.folder.secrets import redact

if TYPE_CHECKING:
    from tokenbox.tokenizers.cache import CountCache

# The packages and modules that decide what is a secret.
_PACKAGES = ("detect-secrets", "google-re2")
_MODULES = (made_up, secret_shapes, secret_values, secrets)
# The minimum size in bytes of a file for which a look-up is faster than a search.
_MIN_CACHED = 200

_Redacted = tuple[list[tuple[int, str]], list[tuple[str, int | None]]]
"""The numbers and texts of the lines that were changed; and the kind and the line of each secret."""


def without_secrets(content: bytes, path: str, memory: CountCache | None) -> tuple[bytes, list[Note]]:
    """Replace each secret in ``content`` (UTF-8), and return a note for each. ``memory`` is the cache."""
    if memory is None or len(content) < _MIN_CACHED:
        return redact(content, path)
    (found,) = remembered([(content, path)], memory, _key, _redacted)
    if found is None:
        return redact(content, path)
    changed, secrets_found = found
    if changed:
        lines = content.split(b"\n")
        for n, line in changed:
            lines[n] = line.encode()
        content = b"\n".join(lines)
    return content, [Note(shown(path), NoteKind.SECRET, kind, n) for kind, n in secrets_found]


def _redacted(content: bytes, path: str) -> _Redacted | None:
    """Return what is redacted in a content; None if its lines were joined, which the cache cannot keep."""
    result, notes = redact(content, path)
    if result is content:
        return [], []
    before, after = content.split(b"\n"), result.split(b"\n")
    if len(before) != len(after):
        return None
    changed = [(n, line.decode()) for n, line in enumerate(after) if line != before[n]]
    return changed, [(note.detail, note.line) for note in notes]


def _key(content: bytes, path: str) -> bytes | None:
    """Return the cache key of what is redacted; None if it cannot be cached."""
    rules = _rules()
    if rules is None:
        return None
    digest = hashlib.sha256(b"%b%b\0" % (rules, path.encode("utf-8", "surrogateescape")))
    digest.update(content)
    return digest.digest()


@cache
def _rules() -> bytes | None:
    """Return a digest of the code that finds secrets; None if its source or a version is unknown."""
    digest = hashlib.sha256(sys.version.encode())
    try:
        for name in _PACKAGES:
            digest.update(f"{name} {version(name)}\n".encode())
        digest.update(source_of(__file__, _MODULES))
    except (OSError, PackageNotFoundError):
        return None
    return digest.digest()
