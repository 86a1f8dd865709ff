"""A table of several budgets side by side: the total, and the decision for every section."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.engine.result import Decision
from tokenbox.errors import ContextCriticalOverflow
from tokenbox.render.explain import MAX_ROWS, MIN_WIDTH, STYLES, LayoutShown
from tokenbox.render.lines import UNICODE, Charset, Line, Span, Style, cells, fit_line, pad, printable

if TYPE_CHECKING:
    from tokenbox.content.section import Section

Outcome = LayoutShown | ContextCriticalOverflow
_CUT = (Decision.COMPRESSED, Decision.TRUNCATED)


class Column(NamedTuple):
    """One budget and its layout or error."""

    budget: int
    outcome: Outcome


class Cell(NamedTuple):
    text: str
    style: Style = Style.PLAIN
    mark: str = " "


def whatif_lines(
    sections: Sequence[Section], columns: Sequence[Column], width: int = 80, charset: Charset = UNICODE
) -> list[Line]:
    """Return the table as lines of styled text. Budgets that do not fit side by side follow below."""
    width = max(width, MIN_WIDTH)
    rows = [*_totals(columns, charset), *_sections(sections, columns, charset)]
    name = max(min(max(cells(label) for label, _ in rows), width // 3), 6)
    figure = max([cells(cell.text) for _, line in rows for cell in line] + [6]) + 3
    at_once = max((width - name) // figure, 1)
    lines: list[Line] = []
    for first in range(0, len(columns), at_once):
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


def _totals(columns: Sequence[Column], charset: Charset) -> Iterable[tuple[str, list[Cell]]]:
    yield "budget", [Cell(f"{column.budget:,}", Style.STRONG) for column in columns]
    yield "total", [_total(column.outcome) for column in columns]
    yield "free", [_free(column.outcome, charset) for column in columns]
    for label, decisions in (
        ("kept", (Decision.KEPT, Decision.EXPANDED)),
        ("cut", _CUT),
        ("dropped", (Decision.DROPPED,)),
    ):
        yield label, [_number(column.outcome, decisions) for column in columns]
    yield "", [Cell("") for _ in columns]


def _total(outcome: Outcome) -> Cell:
    if isinstance(outcome, ContextCriticalOverflow):
        return Cell(f"{_about(outcome)}{outcome.fixed_load:,}", Style.DROPPED, "!")
    return Cell(f"{_about(outcome)}{outcome.total:,}")


def _free(outcome: Outcome, charset: Charset) -> Cell:
    if isinstance(outcome, ContextCriticalOverflow):
        return Cell(f"{charset.minus}{_about(outcome)}{outcome.deficit:,}", Style.DROPPED)
    return Cell(f"{_about(outcome)}{outcome.budget - outcome.total:,}")


def _number(outcome: Outcome, decisions: Sequence[Decision]) -> Cell:
    if isinstance(outcome, ContextCriticalOverflow):
        return Cell("")
    numbers = Counter(section.decision for section in outcome.sections)
    return Cell(f"{sum(numbers[decision] for decision in decisions):,}")


def _sections(
    sections: Sequence[Section], columns: Sequence[Column], charset: Charset
) -> Iterable[tuple[str, list[Cell]]]:
    """Yield at most ``MAX_ROWS`` rows of sections: those that change with the budget, then the largest."""
    layouts = [
        column.outcome for column in columns if not isinstance(column.outcome, ContextCriticalOverflow)
    ]

    def interest(i: int) -> tuple[bool, int, int]:
        sizes = {layout.sections[i].size for layout in layouts}
        return len(sizes) < 2, -max(sizes, default=0), i  # two sizes differ

    chosen = sorted(sorted(range(len(sections)), key=interest)[:MAX_ROWS])
    for i in chosen:
        label = f"{charset.critical if sections[i].critical else ' '} {printable(sections[i].id, charset)}"
        yield label, [_size(column.outcome, i, charset) for column in columns]
    omitted = len(sections) - len(chosen)
    if omitted:
        rest = sorted(set(range(len(sections))) - set(chosen))
        yield f"  and {omitted:,} more", [_sum(column.outcome, rest) for column in columns]


def _size(outcome: Outcome, i: int, charset: Charset) -> Cell:
    if isinstance(outcome, ContextCriticalOverflow):
        return Cell("")
    section = outcome.sections[i]
    if section.decision is Decision.DROPPED:
        return Cell(charset.dropped, Style.DROPPED)
    mark = "+" if section.decision is Decision.EXPANDED else "<" if section.decision in _CUT else " "
    style = STYLES[section.decision] if mark != " " else Style.PLAIN
    return Cell(f"{_about(outcome)}{section.size:,}", style, mark)


def _sum(outcome: Outcome, rest: Sequence[int]) -> Cell:
    if isinstance(outcome, ContextCriticalOverflow):
        return Cell("")
    return Cell(f"{_about(outcome)}{sum(outcome.sections[i].size for i in rest):,}", Style.FAINT)


def _about(outcome: Outcome) -> str:
    """Return the prefix of token counts."""
    exact = (
        outcome.details.get("exact")
        if isinstance(outcome, ContextCriticalOverflow)
        else outcome.tokenizer.exact
    )
    return "" if exact else "~"


def _legend(rows: Sequence[tuple[str, list[Cell]]], charset: Charset) -> Iterable[Line]:
    """Yield the meanings of the marks that occur."""
    marks = {cell.mark for _, line in rows for cell in line} | {
        cell.text for _, line in rows for cell in line
    }
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
