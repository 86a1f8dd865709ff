"""Okapi BM25 (k1 = 1.5, b = 0.75), the baseline that tokenbox's selection is compared with."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def bm25(texts: Sequence[Sequence[str]], query: Iterable[str]) -> list[float]:
    """Return the score of each text for the query, both given as words."""
    counts = [Counter(words) for words in texts]
    frequency = Counter(word for counted in counts for word in counted)
    mean_length = sum(map(len, texts)) / max(1, len(texts))
    wanted = set(query)

    def score(counted: Counter[str], length: int) -> float:
        found = 0.0
        for word in wanted & counted.keys():
            rarity = math.log(1 + (len(texts) - frequency[word] + 0.5) / (frequency[word] + 0.5))
            damping = 1.5 * (0.25 + 0.75 * length / mean_length)
            found += rarity * counted[word] * 2.5 / (counted[word] + damping)
        return found

    return [score(counted, len(words)) for counted, words in zip(counts, texts, strict=True)]
