"""A cache of counts, so that no text is counted twice."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.tokenizers.protocol import AdditiveTokenizer
from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer

Key = tuple[str, bytes]
"""The fingerprint of the tokenizer and the digest of the text."""


def text_digest(*pieces: str) -> bytes:
    """Return the SHA-256 of a text's UTF-8, given in pieces. Raises :class:`InvalidText` if it has none."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(utf8(piece))
    return digest.digest()


def is_worth_remembering(tokenizer: Tokenizer) -> bool:
    """Return False if weighing is cheaper than a look-up, or if a bare function has no fingerprint."""
    return not isinstance(tokenizer, AdditiveTokenizer) and getattr(tokenizer, "cacheable", True)


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The statistics of a :class:`CountCache`."""

    hits: int
    misses: int
    entries: int
    max_entries: int


class CountCache:
    """An LRU cache of counts by (tokenizer fingerprint, SHA-256 of the text).

    It holds at most ``max_entries`` (about 200 bytes each, whatever the text). Thread-safe: two threads may
    both count a missing text, with equal results. A subclass may look up counts elsewhere.

    ``keeps_windows``: True if the small pieces around the joins of a layout are cached, too. That pays if a
    cache that outlives the process then spares loading the vocabulary.
    """

    keeps_windows = False

    def __init__(self, max_entries: int = 200_000) -> None:
        if max_entries < 1:
            raise ValueError(f"a cache holds at least one entry, not {max_entries}")
        self._max_entries = max_entries
        self._counts: OrderedDict[Key, int] = OrderedDict()
        self._lock = threading.Lock()
        self._hits = 0
        self._misses = 0

    def count(self, tokenizer: Tokenizer, text: str) -> int:
        """Return ``tokenizer.count(text)``, from the cache if possible."""
        key = tokenizer.identity.fingerprint, text_digest(text)
        with self._lock:
            found = self._counts.get(key)
            if found is not None:
                self._hits += 1
                self._counts.move_to_end(key)
                return found
        return self.count_batch(tokenizer, [text], [key[1]])[0]

    def count_batch(
        self, tokenizer: Tokenizer, texts: Sequence[str], digests: Sequence[bytes] | None = None
    ) -> list[int]:
        """Return the counts of ``texts``. ``digests``: their SHA-256, if the caller has them."""
        if digests is None:
            digests = [text_digest(text) for text in texts]
        fingerprint = tokenizer.identity.fingerprint
        keys = [(fingerprint, digest) for digest in digests]
        with self._lock:
            found = [self._counts.get(key) for key in keys]
            for key, count in zip(keys, found, strict=True):
                if count is not None:
                    self._counts.move_to_end(key)
        missing = {key: text for key, text, count in zip(keys, texts, found, strict=True) if count is None}
        known: dict[Key, int] = {}
        if missing:
            known = dict(self._look_up(missing.keys()))
            missing = {key: text for key, text in missing.items() if key not in known}
        if missing:
            counted = dict(zip(missing, tokenizer.count_batch(list(missing.values())), strict=True))
            self._store(counted)
            known.update(counted)
        if known:
            found = [known[key] if count is None else count for key, count in zip(keys, found, strict=True)]
        with self._lock:
            self._hits += len(keys) - len(missing)
            self._misses += len(missing)
            self._counts.update(known)
            while len(self._counts) > self._max_entries:
                self._counts.popitem(last=False)
        return found  # type: ignore[return-value]  # every None has been replaced

    def recall(self, keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        """Return the facts that other processes stored under these digests. This class stores none."""
        return {}

    def remember(self, facts: Mapping[bytes, bytes]) -> None:
        """Store facts about contents, by digest, for other processes. This class stores none."""

    def _look_up(self, keys: Collection[Key]) -> Mapping[Key, int]:
        """Look up counts elsewhere. A hook for subclasses."""
        return {}

    def _store(self, counts: Mapping[Key, int]) -> None:
        """Store new counts elsewhere. A hook for subclasses."""

    def info(self) -> CacheInfo:
        with self._lock:
            return CacheInfo(self._hits, self._misses, len(self._counts), self._max_entries)

    def clear(self) -> None:
        """Forget every count and figure."""
        with self._lock:
            self._counts.clear()
            self._hits = self._misses = 0
