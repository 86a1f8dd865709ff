"""What people see: estimates marked, what is not known said."""

from __future__ import annotations

import pytest

from tests.ledger.calls import HAIKU, NOON
from tokenbox.ledger import Call, Totals, Usage
from tokenbox.ledger.totals import NOTHING, aligned, cells, notes

STARTED = Call("a", NOON, "m")
EXACT = Totals.of(STARTED.end(NOON, Usage(1_000_000, 3, 0), HAIKU))
GUESSED = Totals.of(STARTED.end(NOON, Usage(5, 3, 0), HAIKU, exact=False))
CUT_OFF = Totals.of(STARTED)
UNPRICED = Totals.of(STARTED.end(NOON, Usage(7, 3), None))
UNREPORTED = Totals.of(STARTED.end(NOON, Usage(None, None), HAIKU))


@pytest.mark.parametrize(
    ("totals", "texts", "notes_begin"),
    [
        (NOTHING, ("0", "0", "0", "0", "$0.000000"), []),
        (EXACT, ("1", "1,000,000", "0", "3", "$1.000015"), []),
        (GUESSED, ("1", "~5", "~0", "~3", "~$0.000020"), ["~ marks"]),
        (CUT_OFF, ("1", "unknown", "unknown", "unknown", "unknown"), ["1 call is in progress"]),
        (UNPRICED, ("1", "7", "unknown", "3", "unpriced"), ["1 call is unpriced"]),
        (UNREPORTED, ("1", "unknown", "unknown", "unknown", "unknown"), ["1 call is of unknown cost"]),
        (UNPRICED + UNPRICED, ("2", "14", "unknown", "6", "unpriced"), ["2 calls are unpriced"]),
        (
            UNPRICED + CUT_OFF,
            ("2", "7+", "unknown", "3+", "1 unpriced + 1 unknown"),
            ["+ marks", "1 call is unpriced", "1 call is in progress"],
        ),
        (
            EXACT + GUESSED + CUT_OFF + UNPRICED,
            ("4", "~1,000,012+", "~0+", "~9+", "~$1.000035 + 1 unpriced + 1 unknown"),
            ["~ marks", "+ marks", "1 call is unpriced", "1 call is in progress"],
        ),
    ],
)
def test_unknown_and_estimated_figures_are_marked_and_noted(
    totals: Totals, texts: tuple[str, ...], notes_begin: list[str]
) -> None:
    assert cells(totals) == texts
    said = notes(totals)
    assert len(said) == len(notes_begin)
    assert all(note.startswith(begin) for note, begin in zip(said, notes_begin, strict=True))


def test_figures_are_aligned_at_the_right() -> None:
    assert aligned([["model", "calls", "cost"], ["m", "1", "x"]], 1) == [
        ["model", "calls", "cost"],
        ["m", "    1", "x"],
    ]
