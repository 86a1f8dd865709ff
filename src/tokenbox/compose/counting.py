"""Counting for one layout: each text once, in the fastest way that the tokenizer allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from tokenbox.compose.columns import SectionColumns, contents_of
from tokenbox.compose.cutting import SectionCuts
from tokenbox.compose.reuse import MEASUREMENTS, Measured
from tokenbox.content.section import Section, Text
from tokenbox.errors import LayoutError, shown
from tokenbox.tokenizers.cache import CountCache, is_worth_remembering
from tokenbox.tokenizers.guarded import GuardedTokenizer
from tokenbox.tokenizers.protocol import AdditiveTokenizer, Tokenizer
from tokenbox.tokenizers.utf8 import check_texts

if TYPE_CHECKING:
    from tokenbox.compose.requests import RequestCounter

# Shared by all layouts of the process, so that a layout after one change counts only one text.
DEFAULT_CACHE = CountCache()


def cache_of(cache: CountCache | None) -> CountCache:
    """Return ``cache``, or that of all layouts. Raises ``LayoutError`` for anything else."""
    if cache is not None and not isinstance(cache, CountCache):
        raise LayoutError(f"cache is a CountCache, not {shown(cache)}.")
    return DEFAULT_CACHE if cache is None else cache


class Counter:
    """A tokenizer with a cache. All counts of one layout go through it.

    Texts that other layouts may contain (contents, extra items, strategy results) are cached in ``cache``;
    the short texts around joins only for this layout, unless the cache keeps them too. ``requests`` counts
    the whole if that is a request of messages. ``checked``: whether all texts are known to have UTF-8 bytes.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        cache: CountCache | None = None,
        requests: RequestCounter | None = None,
        *,
        checked: bool = False,
    ) -> None:
        cache = cache_of(cache)
        self.tokenizer = tokenizer
        self._count_one, self._count_each = tokenizer.count, tokenizer.count_batch
        if checked and isinstance(tokenizer, GuardedTokenizer):
            self._count_one, self._count_each = tokenizer.count_checked, tokenizer.count_each_checked
        self.requests = requests
        self._cache = cache if is_worth_remembering(tokenizer) else None
        self._windows = self._cache if self._cache is not None and self._cache.keeps_windows else None
        self._small: dict[str, int] = {"": 0}
        self._sizes: tuple[Sequence[Section], Measured[int]] | None = None
        self._forms: dict[tuple[str, bytes], tuple[str, int]] = {}
        self._cuts: dict[tuple[object, ...], tuple[str, int]] = {}

    def sizes(self, sections: Sequence[Section]) -> list[int]:
        """Return the count of each section's content, computed once per layout."""
        return self.sizes_when_read(sections).all()

    def sizes_when_read(self, sections: Sequence[Section]) -> Measured[int]:
        """Return the count of each section's content; one is computed when it is read."""
        if self._sizes is None or self._sizes[0] is not sections:
            # The function must not refer to this object, which keeps it: so texts are freed with the layout.
            cache, tokenizer, contents = self._cache, self.tokenizer, contents_of(sections)
            count_each = self._count_each
            by = "sizes", cache, getattr(tokenizer, "inner", tokenizer)

            def count(indices: Sequence[int]) -> list[int]:
                texts = [contents[i] for i in indices]
                if cache is None:
                    return count_each(texts)
                digests = sections.digests(indices) if isinstance(sections, SectionColumns) else None
                return cache.count_batch(tokenizer, texts, digests)

            self._sizes = sections, MEASUREMENTS.of(by, contents, count, self._holds)
        return self._sizes[1]

    def _holds(self, text: str, size: int) -> bool:
        """Return whether a cached count is still right: a user's function may count differently now."""
        return self._cache is not None or self._count_one(text) == size

    def count_all(self, texts: Sequence[str]) -> list[int]:
        """Count texts that other layouts may contain."""
        if self._cache is None:
            return self._count_each(texts)
        return self._cache.count_batch(self.tokenizer, texts)

    def count(self, text: str) -> int:
        """Count a text that other layouts may contain."""
        if not text:
            return 0
        if self._cache is None:
            return self.small(text)
        return self._cache.count(self.tokenizer, text)

    def small(self, text: str) -> int:
        """Count a short piece of text, cached for this layout."""
        count = self._small.get(text)
        if count is None:
            cache = self._windows
            count = self._count_one(text) if cache is None else cache.count(self.tokenizer, text)
            self._small[text] = count
        return count

    def count_small(self, texts: Sequence[str]) -> None:
        """Count many short pieces in one batch and cache them for ``small``."""
        # Sorted: the order of a set differs between processes, the order of counting must not.
        missing = sorted({text for text in texts if text not in self._small})
        if not missing:
            return
        cache, tokenizer = self._windows, self.tokenizer
        counts = self._count_each(missing) if cache is None else cache.count_batch(tokenizer, missing)
        self._small.update(zip(missing, counts, strict=True))

    def whole(self, text: str) -> int:
        """Count the emitted whole without a cache, to check the running total."""
        return self._count_one(text) if text else 0

    def form(self, section: Section, number: int) -> tuple[str, int]:
        """Return one of the section's alternatives and its count, computed once per counter."""
        form = section.alternatives[number]
        if isinstance(form, Text):
            return form.text, self.count(form.text)
        key = form.identity, section.content_digest
        if key not in self._forms:
            text = form.apply(section.content, self.tokenizer)
            check_texts([text])  # a registered lens may return what is not
            self._forms[key] = text, self.count(text)
        return self._forms[key]

    def cut(self, section: Section, text: str, size: int, at_most: int, at_least: int) -> tuple[str, int]:
        """Cut one form of a section, and return the cut and its count, computed once per counter.

        It is the longest cut of at most ``at_most`` tokens; if that has fewer than ``at_least``, the shortest
        that has not.
        """
        key = text, section.keep, section.cut, section.marker, section.items, at_most, at_least
        if key not in self._cuts:
            cuts = SectionCuts(section, text, size, self)
            cut = cuts.longest(at_most)
            if self.count(cut) < at_least:
                cut = cuts.shortest(at_least)
            self._cuts[key] = cut, self.count(cut)
        return self._cuts[key]

    @property
    def measuring(self) -> Tokenizer:
        """The tokenizer to measure cuts with.

        For an unknown tokenizer it is this counter, which has a cache: the search for the longest cut counts
        the same texts repeatedly.
        """
        known = isinstance(self.tokenizer, AdditiveTokenizer) or getattr(self.tokenizer, "cuts", None)
        return self.tokenizer if known else cast("Tokenizer", self)
