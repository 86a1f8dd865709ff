"""A project at absurd budgets, as files: what is shown, or the error that refuses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.compose.independent import encoding
from tokenbox.errors import TokenboxError
from tokenbox.folder import PackOptions, pack_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.pack.conftest import Make, Packed

METHODS = "".join(
    f"    def part_{n}(self, x):\n        '''Part {n} of it.'''\n        return self.base + x * {n}\n\n"
    for n in range(12)
)
PROJECT = {
    "README.md": "# Parts\n\nA machine of twelve parts.\n",
    "src/machine.py": f"class Machine:\n    '''All parts.'''\n\n    base = 7\n\n{METHODS}",
    "src/belt.py": "def belt(length):\n    '''A belt that moves.'''\n    return 'x' * length\n",
    "tests/test_machine.py": "def test_part_3():\n    assert Machine().part_3(1) == 10\n",
    "LICENSE": "Do what you like.\n",
}


@pytest.mark.parametrize("query", [None, "part_3 gives the wrong number"], ids=["no query", "query"])
@pytest.mark.parametrize("budget", [0, 1, 50, 200, 700])
def test_absurd_budgets(
    folder: Make, packed: Packed, golden: Callable[[str, str], None], budget: int, query: str | None
) -> None:
    source = packed(folder(PROJECT))
    try:
        pack = pack_source(source, "o200k_base", budget, "xml", options=PackOptions(query))
    except TokenboxError as error:
        text = f"{error.code}: {error}\n"
    else:
        text = pack.text
        assert len(encoding("o200k_base").encode_ordinary(text)) == pack.total <= budget
    golden(f"pack/{budget}{'-query' if query else ''}.txt", text)
