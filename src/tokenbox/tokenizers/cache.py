"""Counts that have been made, so that no text is counted twice."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.tokenizers.protocol import AdditiveTokenizer
from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tokenbox.tokenizers.protocol import Tokenizer

Key = tuple[str, bytes]
"""Fingerprint of the tokenizer, digest of the text."""


def text_digest(*pieces: str) -> bytes:
    """SHA-256 of a text, whole or in pieces, as UTF-8. Raises :class:`InvalidText` for lone surrogates."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(utf8(piece))
    return digest.digest()


def is_worth_remembering(tokenizer: Tokenizer) -> bool:
    """Whether a cache pays: weighing is cheaper than a look-up, and a bare function has no fingerprint."""
    return not isinstance(tokenizer, AdditiveTokenizer) and getattr(tokenizer, "cacheable", True)


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """Figures of a :class:`CountCache`: look-ups answered and not, entries held and allowed."""

    hits: int
    misses: int
    entries: int
    max_entries: int


class CountCache:
    """Counts by (tokenizer fingerprint, SHA-256 of the text), least recently used out first.

    Bounded by ``max_entries`` (an entry takes about 200 bytes, whatever the text). Thread-safe: two threads
    may both count a text that neither finds, and agree. A subclass may know more counts from elsewhere.

    ``keeps_windows``: whether the small pieces around the joins of a layout are worth remembering too. They
    are where remembering them all means that no vocabulary has to be loaded.
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
        """``tokenizer.count(text)``, made at most once."""
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
        """The counts of ``texts``; ``digests`` are their SHA-256 where the caller has them already."""
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
            known = dict(self._recalled(missing.keys()))
            missing = {key: text for key, text in missing.items() if key not in known}
        if missing:
            counted = dict(zip(missing, tokenizer.count_batch(list(missing.values())), strict=True))
            self._learned(counted)
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
        """What was remembered by these digests in another process. Here: nothing."""
        return {}

    def remember(self, facts: Mapping[bytes, bytes]) -> None:
        """Keep for other processes what follows from contents, by digest. Here: not at all."""

    def _recalled(self, keys: Collection[Key]) -> Mapping[Key, int]:
        """What is known of these from elsewhere."""
        return {}

    def _learned(self, counts: Mapping[Key, int]) -> None:
        """These were counted just now."""

    def info(self) -> CacheInfo:
        with self._lock:
            return CacheInfo(self._hits, self._misses, len(self._counts), self._max_entries)

    def clear(self) -> None:
        """Forget every count and figure."""
        with self._lock:
            self._counts.clear()
            self._hits = self._misses = 0
