"""A cache of the counts of texts and of joined texts, for counting requests.

The guard counts every request, so counting must be fast: a text is counted once and then looked up by itself.
(Python hashes a string once. The digests that layouts use take longer than counting with fastokens.)
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tokenbox.compose.seamed import joined_total
from tokenbox.errors import TokenizerError
from tokenbox.tokenizers.utf8 import check_texts

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer

    Key = tuple[str, ...]


# From this many parts on, a fast engine counts the whole sooner than the joins.
MANY: Final = 200


class RememberedCounts:
    """An LRU cache of counts, by text, and by the texts of a joined whole.

    The keys have at most ``max_characters`` in all. Thread-safe: two threads may both count a missing text,
    with the same result.
    """

    def __init__(self, max_characters: int = 32_000_000) -> None:
        self._max_characters = max_characters
        self._counts: OrderedDict[Key, int] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def each(self, tokenizer: Tokenizer, texts: Sequence[str]) -> list[int]:
        """Return the count of each text."""
        if not getattr(tokenizer, "cacheable", True):
            return counted(tokenizer, texts)
        who = tokenizer.identity.fingerprint
        found = self._look_up([(who, text) for text in texts])
        if None not in found:
            return found  # type: ignore[return-value]  # no None is left
        missing = list(dict.fromkeys(text for text, count in zip(texts, found, strict=True) if count is None))
        new = dict(zip(missing, counted(tokenizer, missing), strict=True))
        self._remember({(who, text): count for text, count in new.items()})
        return [new[text] if count is None else count for text, count in zip(texts, found, strict=True)]

    def whole(self, tokenizer: Tokenizer, texts: Sequence[str], separator: str) -> int:
        """Return the count of the joined texts, without empty texts."""
        parts = tuple(filter(None, texts))
        if len(parts) <= 1:
            return self.each(tokenizer, parts)[0] if parts else 0
        key = (tokenizer.identity.fingerprint, separator, *parts)
        if not getattr(tokenizer, "cacheable", True):
            check_texts(parts)
            return joined_total(parts, separator, tokenizer, None)
        total = self._look_up([key])[0]
        if total is None:
            # Without proven cuts the counts of the parts do not help.
            by_parts = getattr(tokenizer, "cuts_proven", False) and not self._is_quicker_whole(
                tokenizer, parts
            )
            sizes = self.each(tokenizer, parts) if by_parts else None
            total = joined_total(parts, separator, tokenizer, sizes)
            self._remember({key: total})
        return total

    def _is_quicker_whole(self, tokenizer: Tokenizer, parts: Sequence[str]) -> bool:
        """Return whether a fast engine counts the whole sooner: for many parts without a cached count."""
        if len(parts) < MANY or getattr(tokenizer, "engine", None) != "fast":
            return False
        who = tokenizer.identity.fingerprint
        return not any(self._look_up([(who, text) for text in parts]))

    def limit(self, max_characters: int) -> None:
        """Set the maximum number of characters, evicting entries if needed."""
        with self._lock:
            self._max_characters = max_characters
            self._forget()

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._counts.clear()
            self._characters = 0

    def _look_up(self, keys: Sequence[Key]) -> list[int | None]:
        counts, found = self._counts, []
        with self._lock:
            try:
                for key in keys:
                    if (count := counts.get(key)) is not None:
                        counts.move_to_end(key)
                    found.append(count)
            except TypeError:
                raise TokenizerError("only text can be counted.") from None
            return found

    def _remember(self, new: Mapping[Key, int]) -> None:
        with self._lock:
            for key, count in new.items():
                size = sum(map(len, key))
                if size > self._max_characters // 4:
                    continue
                if key not in self._counts:
                    self._characters += size
                self._counts[key] = count
            self._forget()

    def _forget(self) -> None:
        while self._characters > self._max_characters:
            evicted, _ = self._counts.popitem(last=False)
            self._characters -= sum(map(len, evicted))


def counted(tokenizer: Tokenizer, texts: Sequence[str]) -> list[int]:
    """Count texts without a cache."""
    if not isinstance(texts, Sequence):
        raise TokenizerError(f"texts are a list, not {type(texts).__name__}.")
    if len(texts) == 1:
        return [tokenizer.count(texts[0])]  # faster than a batch of one
    return tokenizer.count_batch(texts)


COUNTS = RememberedCounts()
"""The cache of this process."""
