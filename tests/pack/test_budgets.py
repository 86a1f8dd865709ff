"""Real folders at ten budgets: never over any, by a count that is none of tokenbox's."""

from __future__ import annotations

import sysconfig
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.compose.independent import encoding
from tokenbox.compose.render_blocks import render_blocks
from tokenbox.errors import ContextCriticalOverflow, EmptyInput
from tokenbox.pack import CountAhead, collect, survey
from tokenbox.tokenizers import registry
from tokenbox.tokenizers.cache import CountCache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenbox.compose.block_record import BlockLayout

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
STDLIB = Path(sysconfig.get_path("stdlib"))
PARTS = ("src", "tests", "docs", "tools", "bench", "README.md", "pyproject.toml", "requirements")
NAME = "o200k_base"
MODES = ("xml", "markdown", "minimal")


def paths_of(folder: str) -> list[Path]:
    """The repository as git has it, or the standard library without its tests."""
    if folder == "repository":
        return [ROOT / part for part in PARTS]
    return [
        path
        for path in sorted(STDLIB.iterdir())
        if path.name not in ("test", "site-packages", "dist-packages", "lib-dynload", "__pycache__")
        and not path.name.startswith("config-")
        and not path.is_symlink()
    ]


def laid_out(folder: str) -> Iterator[tuple[int, BlockLayout | None]]:
    """Ten budgets from nothing to everything, and what was laid out in each; None for a typed refusal."""
    cache, counter = CountCache(), registry.get(NAME)
    with CountAhead(counter, cache) as ahead:
        collection = collect(survey(paths_of(folder)), made=ahead.add)
    whole = render_blocks(collection.blocks, counter, cache=cache).total
    modes = cycle(MODES)
    for budget in (0, 1, 37, 500, 5_000, 50_000, whole // 10, whole // 2, whole - 1, whole):
        try:
            yield (
                budget,
                render_blocks(
                    collection.blocks,
                    counter,
                    budget,
                    "xml" if budget >= whole - 1 else next(modes),
                    summarize=collection.summary,
                    cache=cache,
                ),
            )
        except (EmptyInput, ContextCriticalOverflow):
            yield budget, None


@pytest.mark.parametrize("folder", ["repository", "standard library"])
def test_never_over_any_budget_by_an_independent_count(folder: str) -> None:
    totals = []
    for budget, layout in laid_out(folder):
        if layout is None:
            assert budget <= 37
            continue
        counted = len(encoding(NAME).encode_ordinary(layout.text))
        assert counted == layout.total <= budget
        totals.append(counted)
    assert totals == sorted(totals)
    assert len(totals) >= 7
    assert layout is not None
    assert {block.form.value for block in layout.blocks if block.priority < 4} == {"full"}
