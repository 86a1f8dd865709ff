"""Counting for one layout: each text once, through whatever the tokenizer can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tokenbox.tokenizers.cache import CountCache, is_worth_remembering
from tokenbox.tokenizers.protocol import AdditiveTokenizer
from tokenbox.tokenizers.truncation import truncate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.content.section import Section
    from tokenbox.tokenizers.protocol import Tokenizer

# Shared by all layouts of the process, so that laying out again after one change counts one text.
DEFAULT_CACHE = CountCache()


class Counter:
    """A tokenizer with a memory. All counts of one layout go through here.

    Texts that may come back in another layout (contents, extra items, strategy results) are remembered in
    ``cache``; the small windows of joins only for this layout, unless the cache says otherwise.
    """

    def __init__(self, tokenizer: Tokenizer, cache: CountCache | None = None) -> None:
        self.tokenizer = tokenizer
        self._cache = None
        if is_worth_remembering(tokenizer):
            self._cache = DEFAULT_CACHE if cache is None else cache
        self._windows = self._cache if self._cache is not None and self._cache.keeps_windows else None
        self._small: dict[str, int] = {"": 0}
        self._sizes: tuple[Sequence[Section], list[int]] = ((), [])

    def sizes(self, sections: Sequence[Section]) -> list[int]:
        """The count of each section's content, made once for the sections of this layout."""
        if self._sizes[0] is not sections:
            texts = [section.content for section in sections]
            if self._cache is None:
                sizes = self.tokenizer.count_batch(texts)
            else:
                digests = [section.content_digest for section in sections]
                sizes = self._cache.count_batch(self.tokenizer, texts, digests)
            self._sizes = sections, sizes
        return self._sizes[1]

    def count_all(self, texts: Sequence[str]) -> list[int]:
        """The counts of texts that may come back."""
        if self._cache is None:
            return self.tokenizer.count_batch(texts)
        return self._cache.count_batch(self.tokenizer, texts)

    def count(self, text: str) -> int:
        """The count of a text that may come back."""
        if not text:
            return 0
        if self._cache is None:
            return self.small(text)
        return self._cache.count(self.tokenizer, text)

    def small(self, text: str) -> int:
        """The count of a short piece of text, remembered for this layout."""
        count = self._small.get(text)
        if count is None:
            cache = self._windows
            count = self.tokenizer.count(text) if cache is None else cache.count(self.tokenizer, text)
            self._small[text] = count
        return count

    def count_small(self, texts: Sequence[str]) -> None:
        """Count many short pieces at once, so that ``small`` finds them."""
        missing = list(set(texts) - self._small.keys())
        missing.sort()  # a set's order differs between processes; what the tokenizer sees should not
        if not missing:
            return
        cache, tokenizer = self._windows, self.tokenizer
        counts = tokenizer.count_batch(missing) if cache is None else cache.count_batch(tokenizer, missing)
        self._small.update(zip(missing, counts, strict=True))

    def whole(self, text: str) -> int:
        """The count of an emitted whole, made anew: it checks the figures kept up to date."""
        return self.tokenizer.count(text) if text else 0

    def truncate(self, text: str, max_tokens: int, keep: str, size: int) -> str:
        """The longest cut of at most ``max_tokens`` of a text that counts ``size``."""
        # On the way to the longest cut, what nothing is known of is asked the same again: not with a memory.
        known = isinstance(self.tokenizer, AdditiveTokenizer) or getattr(self.tokenizer, "cuts", None)
        counting = self.tokenizer if known else cast("Tokenizer", self)
        return truncate(text, max_tokens, counting, keep, size=size)
