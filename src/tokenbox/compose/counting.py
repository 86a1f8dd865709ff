"""Counting for one layout: each text once, through whatever the tokenizer can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tokenbox.compose.again import LAST
from tokenbox.content.section import Text
from tokenbox.tokenizers.cache import CountCache, is_worth_remembering
from tokenbox.tokenizers.protocol import AdditiveTokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.compose.requests import RequestCounter
    from tokenbox.content.section import Section
    from tokenbox.tokenizers.protocol import Tokenizer

# Shared by all layouts of the process, so that laying out again after one change counts one text.
DEFAULT_CACHE = CountCache()


class Counter:
    """A tokenizer with a memory. All counts of one layout go through here.

    Texts that may come back in another layout (contents, extra items, strategy results) are remembered in
    ``cache``; the small windows of joins only for this layout, unless the cache says otherwise. ``requests``
    counts the whole where that is a request of messages.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        cache: CountCache | None = None,
        requests: RequestCounter | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.requests = requests
        self._cache = None
        if is_worth_remembering(tokenizer):
            self._cache = DEFAULT_CACHE if cache is None else cache
        self._windows = self._cache if self._cache is not None and self._cache.keeps_windows else None
        self._small: dict[str, int] = {"": 0}
        self._sizes: tuple[Sequence[Section], list[int]] = ((), [])
        self._forms: dict[tuple[str, bytes], tuple[str, int]] = {}

    def sizes(self, sections: Sequence[Section]) -> list[int]:
        """The count of each section's content, made once for the sections of this layout."""
        if self._sizes[0] is not sections:
            by = "sizes", self._cache, getattr(self.tokenizer, "function", self.tokenizer)
            (sizes,) = LAST.columns(by, sections, self._counted, self._holds)
            self._sizes = sections, sizes
        return self._sizes[1]

    def _counted(self, sections: Sequence[Section]) -> list[list[int]]:
        texts = [section.content for section in sections]
        if self._cache is None:
            return [self.tokenizer.count_batch(texts)]
        digests = [section.content_digest for section in sections]
        return [self._cache.count_batch(self.tokenizer, texts, digests)]

    def _holds(self, section: Section, sizes: Sequence[int]) -> bool:
        """Whether a count that was remembered is what the tokenizer says now: a function may have changed."""
        return self._cache is not None or [self.tokenizer.count(section.content)] == sizes

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
        """The count of an emitted whole, counted again: it checks the figures kept up to date."""
        return self.tokenizer.count(text) if text else 0

    def form(self, section: Section, number: int) -> tuple[str, int]:
        """One of the section's alternatives and its count, made once for all layouts of this counter."""
        form = section.alternatives[number]
        if isinstance(form, Text):
            return form.text, self.count(form.text)
        key = form.identity, section.content_digest
        if key not in self._forms:
            text = form.apply(section.content, self.tokenizer)
            self._forms[key] = text, self.count(text)
        return self._forms[key]

    @property
    def measuring(self) -> Tokenizer:
        """What cuts are measured with: with the memory, for a tokenizer about which nothing is known.

        On the way to the longest cut, such a one is asked the same again.
        """
        known = isinstance(self.tokenizer, AdditiveTokenizer) or getattr(self.tokenizer, "cuts", None)
        return self.tokenizer if known else cast("Tokenizer", self)
