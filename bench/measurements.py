"""The spread of the figures behind a table: median, minimum, maximum and number of measurements.

It shows how far the medians of the table can be trusted. After a run, bench/results/NAME.json has each single
figure; the repository does not contain that file.
"""

from __future__ import annotations

from statistics import median
from typing import Any


def measurements(rows: list[dict[str, Any]]) -> str:
    """Return a section of Markdown. ``rows`` are cells: what was measured, and lists of figures."""
    flat = [_flat(row) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    lines = [
        "## Measurements",
        "",
        "Of lists of figures: the median (least to most; how many). Times without a unit are in seconds.",
        "",
        f"| {' | '.join(names)} |",
        "|" + "---|" * len(names),
        *(f"| {' | '.join(_cell(row.get(name)) for name in names)} |" for row in flat),
    ]
    return "\n".join(lines) + "\n"


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Turn a list of rounds, each a record of figures, into one list per figure."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            for figure in value[0]:
                found[figure] = [each[figure] for each in value]
        else:
            found[name] = value
    return found


def _cell(value: object) -> str:
    if isinstance(value, list):
        figures = [each for each in value if isinstance(each, int | float)]
        if len(figures) < len(value) or not figures:  # error messages, mostly empty
            return "; ".join(str(each) for each in value if each) or ""
        if len(set(figures)) == 1:
            return f"{_figure(figures[0])} ({len(figures)})"
        spread = f"{_figure(min(figures))} to {_figure(max(figures))}; {len(figures)}"
        return f"{_figure(median(figures))} ({spread})"
    if isinstance(value, float | int) and not isinstance(value, bool):
        return _figure(value)
    return "" if value is None else str(value)


def _figure(value: float) -> str:
    """Return an integer in full, any other number with four digits."""
    if isinstance(value, int) or value.is_integer():
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
