"""Redact the secrets of a file. A cache knows the contents without any, so that these are searched once."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from typing import TYPE_CHECKING

from tokenbox.folder import (
    made_up,
    private_keys,
    secret_keywords,
    secret_lines,
    secret_shapes,
    secret_values,
    secrets,
)
from tokenbox.folder.rules import digest_of_rules
from tokenbox.folder.secrets import redact

if TYPE_CHECKING:
    from tokenbox.folder.notes import Note
    from tokenbox.tokenizers.cache import CountCache

# The packages and modules that decide what is a secret.
_PACKAGES = ("detect-secrets", "google-re2")
_MODULES = (made_up, private_keys, secret_keywords, secret_lines, secret_shapes, secret_values, secrets)
# The minimum size in bytes of a file for which a look-up is faster than a search.
_MIN_CACHED = 200


def without_secrets(content: bytes, path: str, memory: CountCache | None) -> tuple[bytes, list[Note]]:
    """Replace each secret in ``content`` (UTF-8), and return a note for each. ``memory`` is the cache.

    A content with a secret is not cached: the cache has no text, and nothing in it can put a secret back.
    """
    key = None if memory is None or len(content) < _MIN_CACHED else _key(content, path)
    if memory is None or key is None:
        return redact(content, path)
    if key in memory.recall([key]):
        return content, []
    result, notes = redact(content, path)
    if result == content and not notes:
        memory.remember({key: b""})
    return result, notes


def _key(content: bytes, path: str) -> bytes | None:
    """Return the cache key of a content without secrets; None if the rules are unknown."""
    rules = _rules()
    if rules is None:
        return None
    digest = hashlib.sha256(b"%b%b\0" % (rules, path.encode("utf-8", "surrogateescape")))
    digest.update(content)
    return digest.digest()


@cache
def _rules() -> bytes | None:
    """Return a digest of the code that finds secrets; None if its source or a version is unknown."""
    return digest_of_rules(sys.version, _MODULES, _PACKAGES)
