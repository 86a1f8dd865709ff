"""The recall of packs within budgets, shared by the tasks of the standard library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peers_of_selection import SELECTORS
from score import interval, recall

from tests.compose.independent import encoding
from tokenbox.tokenizers import registry
from tokenbox.tokenizers.cache import CountCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.folder.source import Source


class Recalls:
    """Measures selectors. A tokenizer that is not tokenbox's checks that no pack is over its budget."""

    def __init__(self, budgets: Sequence[int]) -> None:
        self.budgets = budgets
        self._counter, self._cache = registry.get("o200k_base"), CountCache()
        self._judge = encoding("o200k_base")

    def of(self, name: str, source: Source, query: str, gold: Sequence[Sequence[str]]) -> list[float]:
        """Return the recall of one task for each budget."""
        found = []
        for budget in self.budgets:
            text = SELECTORS[name](source, query, budget, self._counter, self._cache)
            if len(self._judge.encode_ordinary(text)) > budget:
                raise SystemExit(f"{name} is over {budget} for {query!r}")
            found.append(recall(text, gold))
        return found

    def show(self, title: str, rows: Sequence[Sequence[float]]) -> None:
        """Print the mean of each budget over all tasks, and its interval."""
        print(title)
        for column, budget in enumerate(self.budgets):
            values = [row[column] for row in rows]
            low, high = interval(values)
            print(f"  {budget:>6}  {sum(values) / len(values):.3f}  ({low:.3f}-{high:.3f})", flush=True)
