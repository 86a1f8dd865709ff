"""Sections and pages that several tests use."""

from __future__ import annotations

from functools import cache
from typing import Any

import tokenbox
from tokenbox.inspect import PageEntry, entry_of
from tokenbox.inspect.of_layout import layout_entry

HOSTILE = (
    "<script>window.owned = 1; document.title = 'owned'</script></script><!-- <img src=x onerror=owned()> "
    "&lt;b&gt; \u2028\u2029 שלום עולם \u202eevil\u202c \x00\x07 日本語 👩‍👩‍👧 é"
)
PROSE = "One line of a report that says what was found, and what to do about it.\n"


def sections() -> list[dict[str, Any]]:
    """Return critical sections, forms, truncation with a marker, and hostile names and texts."""
    return [
        {"id": "rules", "content": "Answer in English. Be brief."},
        {
            "id": "history",
            "content": PROSE * 14,
            "shrink": 2,
            "priority": 200,
            "min": 20,
            "forms": ["head(5)", {"text": "The history in short."}],
        },
        {
            "id": "code",
            "content": "def add(one, other):\n    return one + other\n\n" * 14,
            "shrink": 1,
            "priority": 600,
            "min": 60,
        },
        {"id": "notes", "content": PROSE * 4, "shrink": 1, "priority": 100},
        {
            "id": "a<script>alert(1)</script>\u202e.md",
            "content": HOSTILE * 3,
            "shrink": 1,
            "priority": 300,
            "cut": "word",
            "keep": "middle",
            "marker": " [{tokens} left out] ",
        },
        {"id": "question", "content": "What does add return?"},
    ]


@cache
def laid_out(budget: int = 400) -> tokenbox.Layout:
    return tokenbox.layout(sections(), budget, "o200k_base", policy="degrade")


@cache
def demo() -> list[PageEntry]:
    return [entry_of(laid_out(), "prompt.toml"), layout_entry(laid_out(200), "smaller.toml", stops=0)]
