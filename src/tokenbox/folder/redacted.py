"""Redact the secrets of files. A cache knows the contents without any, so that these are searched once."""

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
from tokenbox.folder.secrets import Redacted, redact_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.tokenizers.cache import CountCache

# The packages and modules that decide what is a secret.
_PACKAGES = ("detect-secrets", "google-re2")
_MODULES = (made_up, private_keys, secret_keywords, secret_lines, secret_shapes, secret_values, secrets)
# The minimum size in bytes of a file for which a look-up is faster than a search.
_MIN_CACHED = 200


def without_secrets(contents: Sequence[tuple[bytes, str]], memory: CountCache | None) -> list[Redacted]:
    """Replace each secret in the ``contents`` (UTF-8, each with its path). ``memory`` is the cache.

    A content with a secret is not cached: the cache has no text, and nothing in it can put a secret back.
    """
    if memory is None:
        return redact_all(contents)
    keys = [_key(content, path) if len(content) >= _MIN_CACHED else None for content, path in contents]
    known = memory.recall([key for key in keys if key is not None])
    new = [one for one, key in zip(contents, keys, strict=True) if key not in known]
    found = iter(redact_all(new))
    results = [
        Redacted(one[0], []) if key in known else next(found) for one, key in zip(contents, keys, strict=True)
    ]
    memory.remember(
        {
            key: b""
            for (content, _), key, one in zip(contents, keys, results, strict=True)
            if key is not None and key not in known and one == (content, [])
        }
    )
    return results


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
