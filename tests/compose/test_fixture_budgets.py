"""Every open fixture at the budgets that matter: 0, 1, an exact fit, one less; counted independently."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compose.independent import COUNTERS
from tokenbox.compose.blocks import render_blocks
from tokenbox.errors import ContextCriticalOverflow, EmptyInput
from tokenbox.lcp import decode
from tokenbox.render.registry import BUILTIN

FIXTURES = Path(__file__).parents[1] / "conformance" / "lcp"
NAMES = sorted(
    path.parent.relative_to(FIXTURES).as_posix()
    for path in FIXTURES.rglob("payload.bcp")
    if path.parent.name != "trailing_data"  # which is not a pack
)


@pytest.mark.parametrize("mode", BUILTIN)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tokenizer", ["o200k_base", "utf8-bytes", "chars4"])
def test_at_nothing_one_an_exact_fit_and_one_less(name: str, mode: str, tokenizer: str) -> None:
    blocks = decode((FIXTURES / name / "payload.bcp").read_bytes()).blocks
    full = render_blocks(blocks, tokenizer, mode=mode)
    assert full.total == COUNTERS[tokenizer](full.text)
    exact = render_blocks(blocks, tokenizer, full.total, mode)
    assert exact.text == full.text
    for budget in (0, 1, full.total - 1):
        try:
            layout = render_blocks(blocks, tokenizer, budget, mode)
        except (EmptyInput, ContextCriticalOverflow):
            continue
        assert COUNTERS[tokenizer](layout.text) == layout.total <= budget
        assert layout.text != full.text
