"""Real folders at ten budgets: never over any, by a count that is none of tokenbox's."""

from __future__ import annotations

import sysconfig
from itertools import cycle
from pathlib import Path

import pytest

from tests.compose.independent import encoding
from tests.pack.conftest import Memory
from tokenbox.errors import EmptyInput
from tokenbox.folder import CountAhead, PackOptions, pack_source, read, survey
from tokenbox.tokenizers import registry

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
STDLIB = Path(sysconfig.get_path("stdlib"))
PARTS = ("src/tokenbox/folder", "src/tokenbox/worth", "tests/pack", "docs", "README.md", "pyproject.toml")
PACKAGES = ("asyncio", "email", "http", "json", "logging", "unittest", "ast.py", "typing.py", "LICENSE.txt")
NAME = "o200k_base"
MODES = ("xml", "markdown", "minimal")
QUERIES = (
    None,
    "the count of a text that is cut in the middle of a token is wrong",
    "TypeError in json.decoder",
)


def paths_of(folder: str) -> list[Path]:
    """A part of the repository, or of the standard library: large enough that no budget but one holds it."""
    if folder == "repository":
        return [ROOT / part for part in PARTS]
    return [STDLIB / name for name in PACKAGES if (STDLIB / name).exists()]


@pytest.mark.parametrize("folder", ["repository", "standard library"])
def test_never_over_any_budget_by_an_independent_count(folder: str) -> None:
    cache, counter = Memory(), registry.get(NAME)
    with CountAhead(counter, cache) as ahead:
        source = read(survey(paths_of(folder)), seen=ahead.add)
    whole = pack_source(source, counter, cache=cache).total
    modes, queries = cycle(MODES), cycle(QUERIES)
    used, pack = [], None
    for budget in (0, 1, 37, 200, 500, 2_000, 8_000, 32_000, whole // 2, whole - 1, whole):
        mode = "xml" if budget >= whole - 1 else next(modes)
        try:
            pack = pack_source(source, counter, budget, mode, options=PackOptions(next(queries)), cache=cache)
        except EmptyInput:
            assert budget <= 50
            continue
        counted = len(encoding(NAME).encode_ordinary(pack.text))
        assert counted == pack.total <= budget
        if 500 < budget < whole:
            used.append(counted * 100 // budget)
    assert pack is not None
    assert pack.total == whole
    assert min(used) >= 97
