"""How the public API may be used, for the type checker: ``make check`` reads this, and it runs too."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import get_type_hints

import tokenbox
from tokenbox import Section
from tokenbox.compose.requests import Counts
from tokenbox.conversation import tool_costs


def test_what_a_user_writes_is_typed() -> None:
    sections = [
        Section("a", "text", shrink=0.5, strategy="squeeze |> head(40)", extra=["more"], keep="tail"),
        Section("b", "text", grow="0.5", shrink=Decimal("1.5")),
        Section("c", "text", grow=Fraction(1, 3), role="user"),
    ]
    result: tokenbox.Layout = tokenbox.layout(sections, 100, len)
    digest: str = result.digest
    options: list[tokenbox.Layout | tokenbox.ContextCriticalOverflow] = tokenbox.whatif(sections, [1, 2], len)
    assert len(digest) == 64
    assert len(options) == 2


def test_programs_can_read_which_counters_are_taken() -> None:
    assert get_type_hints(tool_costs)["count"] == Counts | None
