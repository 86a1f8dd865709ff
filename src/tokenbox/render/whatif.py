"""A table of several budgets side by side: the total, and the decision for every section."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tokenbox.engine.result import Decision
from tokenbox.errors import ContextCriticalOverflow
from tokenbox.render.explain import MAX_ROWS, MIN_WIDTH, STYLES, LayoutShown
from tokenbox.render.lines import UNICODE, Charset, Line, Span, Style, cells, fit_line, pad, printable

if TYPE_CHECKING:
    from tokenbox.content.section import Section

_Outcome: TypeAlias = "LayoutShown | ContextCriticalOverflow"
"""What a budget gives: a layout, or the error that it is too small."""
_CUT = (Decision.COMPRESSED, Decision.TRUNCATED)


class Cell(NamedTuple):
    text: str
    style: Style = Style.PLAIN
    mark: str = " "


def whatif_lines(
    sections: Sequence[Section], outcomes: Sequence[_Outcome], width: int = 80, charset: Charset = UNICODE
) -> list[Line]:
    """Return the table of several budgets as lines of styled text; columns that are too many follow below."""
    width = max(width, MIN_WIDTH)
    rows = _rows(sections, outcomes, charset)
    name = max(min(max(cells(label) for label, _ in rows), width // 3), 6)
    figure = max([cells(cell.text) for _, line in rows for cell in line] + [6]) + 3
    at_once = max((width - name) // figure, 1)
    lines: list[Line] = []
    for first in range(0, len(outcomes), at_once):
        if first:
            lines.append(())
        for label, line in rows:
            faint = Style.STRONG if label == rows[0][0] else Style.PLAIN
            spans = [Span(pad(label, name, charset), faint)]
            for cell in line[first : first + at_once]:
                blank = " " * (figure - 1 - cells(cell.text))
                spans += [Span(blank), Span(f"{cell.text}{cell.mark}", cell.style)]
            lines.append(spans)
    lines += [(), *_legend(rows, charset)]
    return [fit_line(line, width, charset) for line in lines]


def _rows(
    sections: Sequence[Section], outcomes: Sequence[_Outcome], charset: Charset
) -> list[tuple[str, Sequence[Cell]]]:
    """Return the totals, and at most ``MAX_ROWS`` sections: first those that change."""
    layouts = [outcome for outcome in outcomes if not isinstance(outcome, ContextCriticalOverflow)]

    def interest(i: int) -> tuple[bool, int, int]:
        sizes = {layout.sections[i].size for layout in layouts}
        return len(sizes) < 2, -max(sizes, default=0), i  # two sizes differ

    order = sorted(range(len(sections)), key=interest)
    chosen, omitted = sorted(order[:MAX_ROWS]), sorted(order[MAX_ROWS:])
    labels = ["budget", "total", "free", "kept", "cut", "dropped", ""]
    for i in chosen:
        mark = charset.critical if sections[i].critical else " "
        labels.append(f"{mark} {printable(sections[i].id, charset)}")
    if omitted:
        labels.append(f"  and {len(omitted):,} more")
    made = [_column(outcome, chosen, omitted, charset) for outcome in outcomes]
    return [
        (label, [column[row] if row < len(column) else Cell("") for column in made])
        for row, label in enumerate(labels)
    ]


def _column(outcome: _Outcome, chosen: Sequence[int], omitted: Sequence[int], charset: Charset) -> list[Cell]:
    """Return the cells of one budget, from the top. A budget that is too small has only the first three."""
    budget = Cell(f"{outcome.budget:,}", Style.STRONG)
    if isinstance(outcome, ContextCriticalOverflow):
        about = "" if outcome.details.get("exact") else "~"
        load = Cell(f"{about}{outcome.fixed_load:,}", Style.DROPPED, "!")
        return [budget, load, Cell(f"{charset.minus}{about}{outcome.deficit:,}", Style.DROPPED)]
    about = "" if outcome.exact else "~"
    numbers = Counter(section.decision for section in outcome.sections)
    made = [
        budget,
        Cell(f"{about}{outcome.total:,}"),
        Cell(f"{about}{outcome.budget - outcome.total:,}"),
        Cell(f"{numbers[Decision.KEPT] + numbers[Decision.EXPANDED]:,}"),
        Cell(f"{sum(numbers[decision] for decision in _CUT):,}"),
        Cell(f"{numbers[Decision.DROPPED]:,}"),
        Cell(""),
    ]
    for i in chosen:
        size, decision = outcome.sections[i].size, outcome.sections[i].decision
        mark = "+" if decision is Decision.EXPANDED else "<" if decision in _CUT else " "
        style = STYLES[decision] if mark != " " else Style.PLAIN
        dropped = decision is Decision.DROPPED
        made.append(
            Cell(charset.dropped, Style.DROPPED) if dropped else Cell(f"{about}{size:,}", style, mark)
        )
    if omitted:
        made.append(Cell(f"{about}{sum(outcome.sections[i].size for i in omitted):,}", Style.FAINT))
    return made


def _legend(rows: Sequence[tuple[str, Sequence[Cell]]], charset: Charset) -> Iterable[Line]:
    """Yield the meanings of the marks that occur."""
    marks = {mark for _, line in rows for cell in line for mark in (cell.mark, cell.text)}
    marks |= {label[:1] for label, _ in rows}
    meanings = {
        charset.critical: "critical",
        "+": "expanded",
        "<": "cut",
        charset.dropped: "dropped",
        "!": "too small: the critical sections need this",
    }
    legend = [f"{mark} {meaning}" for mark, meaning in meanings.items() if mark in marks]
    if legend:
        yield (Span("   ".join(legend), Style.FAINT),)
