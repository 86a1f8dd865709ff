"""The picture of an entry without scripts: in notebooks, and on the page in a browser without JavaScript."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.inspect.entries import entry_of
from tokenbox.render.html import FigureRow, figure

if TYPE_CHECKING:
    from tokenbox.inspect.record import PageEntry, PageState

# A session may have thousands of notes.
_MOST_NOTES = 20


def picture(value: object) -> str:
    """Return a result of tokenbox as a small HTML picture. Raises what :func:`entry_of` raises."""
    return static(entry_of(value, small=True))


def static(entry: PageEntry) -> str:
    """Return an entry as HTML without scripts: the request as it is sent, or as it was refused."""
    states: dict[int, PageState] = {}
    refused = entry.verdict is not None and not entry.verdict.ok
    for frame in entry.frames[:1] if refused else entry.frames:
        states |= {state.item: state for state in frame.changes}
    frame = entry.frames[0 if refused else -1]
    why: dict[int, list[str]] = {}
    for step in frame.steps:
        for item in step.items:
            why.setdefault(item, []).append(step.why)
    rows = [
        FigureRow(entry.items[i].id, state.decision, entry.items[i].base, state.size, tuple(why.get(i, ())))
        for i, state in sorted(states.items())
        if state.decision != "absent"
    ]
    facts = dict(entry.facts)
    named = [name for name in (facts.get("Model"), facts.get("Tokenizer")) if name not in (None, "not named")]
    verdict = entry.verdict
    notes = [*(() if verdict is None else (verdict.title, *verdict.lines)), *entry.notes]
    return figure(
        " · ".join([entry.title.capitalize() if entry.title == entry.kind else entry.title, *named[:1]]),
        rows,
        total=frame.total,
        budget=frame.budget,
        exact=frame.exact,
        notes=notes[:_MOST_NOTES],
    )
