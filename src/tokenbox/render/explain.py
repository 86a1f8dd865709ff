"""A plain-text picture of a layout: the use of the budget, and the decision for each section with reasons.

The upper part is the waterfall budget - critical - flexible = free. Below it, each section has a bar at its
position in the emitted text, on the same scale. The wall on the right is the budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tokenbox.engine.box import largest_remainder
from tokenbox.engine.result import Action, Decision
from tokenbox.errors import plural
from tokenbox.render.html import tally
from tokenbox.render.lines import (
    UNICODE,
    Charset,
    Line,
    Span,
    Style,
    cells,
    fit_line,
    pad,
    plain,
    printable,
    wrap,
)

if TYPE_CHECKING:
    from tokenbox.content.section import Section
    from tokenbox.engine.result import SectionResult
    from tokenbox.errors import ContextCriticalOverflow
    from tokenbox.tokenizers.protocol import TokenizerIdentity

# The maximum number of rows; one more line sums up the rest.
MAX_ROWS = 40
MIN_WIDTH = 20
MIN_BAR = 8
MAX_BAR = 100

STYLES = {decision: Style(decision.value) for decision in Decision}
_IN_PART = {Decision.EXPANDED, Decision.COMPRESSED, Decision.TRUNCATED}
_PAST = {
    Action.EXPAND: "expanded",
    Action.COMPRESS: "compressed",
    Action.TRUNCATE: "truncated",
    Action.DROP: "dropped",
    Action.RECLAIM: "given back",
}


class WarningShown(Protocol):
    @property
    def message(self) -> str: ...


class LayoutShown(Protocol):
    """The attributes of a layout that a picture shows."""

    @property
    def inputs(self) -> tuple[Section, ...]: ...
    @property
    def sections(self) -> Sequence[SectionResult]: ...
    @property
    def budget(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def fixed_load(self) -> int: ...
    @property
    def joins(self) -> int: ...
    @property
    def exact(self) -> bool: ...
    @property
    def count(self) -> object | None:
        """The count of the request, if the sections are messages."""
        ...

    @property
    def tokenizer(self) -> TokenizerIdentity: ...
    @property
    def warnings(self) -> Sequence[WarningShown]: ...


def explain(layout: LayoutShown, width: int = 80, charset: Charset = UNICODE) -> str:
    """Return the picture as plain text. No line is wider than ``width`` cells (20 or more)."""
    return plain(picture(layout, width, charset))


def picture(layout: LayoutShown, width: int = 80, charset: Charset = UNICODE) -> list[Line]:
    """Return the picture as lines of styled text."""
    rows = shown_rows(layout)
    grid = Grid.of(rows, layout, max(width, MIN_WIDTH), charset)
    lines: list[Line] = [
        grid.headline(layout),
        (),
        *grid.waterfall(layout),
        (),
        *grid.table(rows, layout),
    ]
    return [fit_line(line, grid.width, charset) for line in lines]


class SectionRow(NamedTuple):
    """One section of the picture. ``start``: its place in the emitted text, in tokens."""

    section: SectionResult
    critical: bool
    start: int


class ShownRows(NamedTuple):
    """The rows to show, and the omitted ones."""

    rows: list[SectionRow]
    omitted: list[SectionRow]


def shown_rows(layout: LayoutShown) -> ShownRows:
    """Choose at most ``MAX_ROWS`` rows, in order: the changed, then the critical, then the largest first."""
    starts = accumulate((section.size for section in layout.sections), initial=0)
    criticals = (section.critical for section in layout.inputs)
    rows = list(map(SectionRow, layout.sections, criticals, starts))

    def interest(i: int) -> tuple[bool, bool, int, int]:
        section = rows[i].section
        return section.decision not in _IN_PART, not rows[i].critical, -section.base_size, i

    chosen = set(sorted(range(len(rows)), key=interest)[:MAX_ROWS])
    return ShownRows(
        [row for i, row in enumerate(rows) if i in chosen],
        [row for i, row in enumerate(rows) if i not in chosen],
    )


@dataclass(frozen=True, slots=True)
class Grid:
    """The widths of the columns in cells, and the scale of the bars, for both parts of the picture."""

    width: int
    name: int
    figure: int
    bar: int
    budget: int
    about: str
    charset: Charset

    @classmethod
    def of(cls, shown: ShownRows, layout: LayoutShown, width: int, charset: Charset) -> Grid:
        about = "" if layout.exact else "~"
        sections = [row.section for row in shown.rows]
        sizes = [size for section in sections for size in (section.base_size, section.size)]
        figure = len(f"{about}{max([layout.budget, layout.total, *sizes, *_sums(shown.omitted), 1_000]):,}")
        # mark, name, gap, base, arrow, size, gap, decision, gap, wall ... wall
        fixed = 2 + 2 + figure + 2 + len(charset.arrow) + figure + 2 + 10 + 2 + 2
        ids = [cells(printable(section.id, charset)) for section in sections]
        names = max(*ids, cells(_more(shown.omitted)), 11)
        name = max(min(names, (width - fixed) // 2, max(width // 4, 16)), 8)
        bar = min(width - fixed - name, MAX_BAR)
        return cls(width, name, figure, bar if bar >= MIN_BAR else 0, layout.budget, about, charset)

    def headline(self, layout: LayoutShown) -> Line:
        kind = "exact" if layout.exact else "estimate"
        free = layout.budget - layout.total
        dot = f" {self.charset.dot} "
        return (
            Span(f"{self._counted(layout.total)} of {plural(layout.budget, 'token')}", Style.STRONG),
            Span(f"{dot}{self._counted(free)} free{dot}"),
            Span(f"{printable(layout.tokenizer.name, self.charset)} ({kind})", Style.FAINT),
        )

    def waterfall(self, layout: LayoutShown) -> Iterable[Line]:
        """Yield budget - critical - flexible = free. The growth of critical sections counts as flexible."""
        critical, end, budget = layout.fixed_load, layout.total, layout.budget
        parts = [critical, end - critical, budget - end]
        shares = _percentages(parts)
        minus = self.charset.minus
        yield self._amount("  budget", f"{budget:,}", "", Style.STRONG, 0, budget)
        yield self._amount(
            f"{minus} critical", self._counted(parts[0]), shares[0], Style.CRITICAL, 0, critical
        )
        yield self._amount(f"{minus} flexible", self._counted(parts[1]), shares[1], Style.KEPT, critical, end)
        yield self._amount("= free", self._counted(parts[2]), shares[2], Style.FREE, end, budget)

    def table(self, shown: ShownRows, layout: LayoutShown) -> Iterable[Line]:
        if not layout.inputs:
            yield (Span("no sections", Style.FAINT),)
            return
        yield self._heading()
        for row in shown.rows:
            yield self._section(row)
            yield from self._reasons(row.section)
        if shown.omitted:
            yield self._omitted(shown.omitted)
        if layout.joins:
            sign = "+" if layout.joins > 0 else self.charset.minus
            label = pad("(joins)", self.name, self.charset)
            figure = f"{sign}{self._counted(abs(layout.joins))}".rjust(
                2 * self.figure + 2 + len(self.charset.arrow)
            )
            between = "separators, and merging at borders" if layout.count is None else "markers of messages"
            yield (Span(f"  {label}  {figure}  {between}", Style.FAINT),)
        yield ()
        yield from self._summary(layout)

    # The parts of a line.

    def _counted(self, tokens: int) -> str:
        """Format a token count; an estimate is marked."""
        return f"{self.about}{tokens:,}"

    def _figures(self, base: int, size: int) -> tuple[str, str]:
        return self._counted(base).rjust(self.figure), self._counted(size).rjust(self.figure)

    def _amount(self, label: str, figure: str, share: str, style: Style, start: int, end: int) -> Line:
        between = 2 * self.figure + len(self.charset.arrow) + 2
        left = f"{pad(label, self.name + 2, self.charset)}  {figure.rjust(between)}  {share.rjust(10)}  "
        return (
            Span(left, Style.STRONG if style is Style.STRONG else Style.PLAIN),
            *self._bar(start, end, style),
        )

    def _heading(self) -> Line:
        base, size = "base".rjust(self.figure), "size".rjust(self.figure)
        left = f"  {pad('section', self.name, self.charset)}  {base} {self.charset.arrow} {size}  decision"
        return (Span(left, Style.FAINT),)

    def _section(self, row: SectionRow) -> Line:
        section, decision = row.section, row.section.decision
        style = Style.CRITICAL if row.critical and decision is Decision.KEPT else STYLES[decision]
        mark = f"{self.charset.critical} " if row.critical else "  "
        base, size = self._figures(section.base_size, section.size)
        return (
            Span(mark, Style.CRITICAL),
            Span(pad(printable(section.id, self.charset), self.name, self.charset), Style.STRONG),
            Span(f"  {base} {self.charset.arrow} "),
            Span(size, style),
            Span("  "),
            Span(f"{decision.value:<10}  ", style),
            *self._bar(row.start, row.start + section.size, style),
        )

    def _bar(self, start: int, end: int, style: Style) -> Line:
        """Return a bar for the tokens from ``start`` to ``end``, on the scale of the budget."""
        if not self.bar:
            return ()
        wall = Span(self.charset.wall, Style.FAINT)
        left = _cells_at(start, self.budget, self.bar)
        if style is Style.DROPPED:
            left = min(left, self.bar - 1)
            body = self.charset.dropped
        else:
            full = self.charset.bars.get(style, self.charset.bars[Style.KEPT])
            body = full * (_cells_at(end, self.budget, self.bar) - left)
            if not body and end > start:
                left = min(left, self.bar - 1)
                body = self.charset.sliver
        return (wall, Span(" " * left), Span(body, style), Span(" " * (self.bar - left - len(body))), wall)

    def _reasons(self, section: SectionResult) -> Iterable[Line]:
        """Yield the reason of each step, and its change of size if there are several steps."""
        lead = f"  {self.charset.because} "
        texts = [] if section.form is None else [f"in the form {printable(section.form, self.charset)}"]
        for step in section.steps:
            text = step.because(self.about)
            if len(section.steps) > 1:
                change = f"{self._counted(step.before)} {self.charset.arrow} {self._counted(step.after)}"
                text = f"{_PAST[step.action]} {change}: {text}"
            texts.append(text)
        for text in texts:
            for i, part in enumerate(wrap(text, self.width - len(lead))):
                yield (Span((lead if not i else " " * len(lead)) + part, Style.FAINT),)

    def _omitted(self, rows: Sequence[SectionRow]) -> Line:
        label = pad(_more(rows), self.name, self.charset)
        figures = f" {self.charset.arrow} ".join(self._figures(*_sums(rows)))
        decisions = tally(row.section.decision for row in rows)
        return (Span(f"  {label}  {figures}  {decisions}", Style.FAINT),)

    def _summary(self, layout: LayoutShown) -> Iterable[Line]:
        sections = layout.sections
        decisions = tally(section.decision for section in sections)
        number = f"{plural(len(sections), 'section')}: {decisions}"
        legend = f"{self.charset.critical} critical: never cut or dropped"
        if not any(section.critical for section in layout.inputs):
            yield (Span(number),)
        elif cells(number) + 3 + cells(legend) <= self.width:
            yield (Span(f"{number}   "), Span(legend, Style.FAINT))
        else:
            yield (Span(number),)
            yield (Span(legend, Style.FAINT),)
        for warned in layout.warnings[:MAX_ROWS]:
            for part in wrap(f"! {printable(warned.message, self.charset)}", self.width):
                yield (Span(part),)


def overflow_picture(
    error: ContextCriticalOverflow, width: int = 80, charset: Charset = UNICODE
) -> list[Line]:
    """Return a picture of the critical sections, largest first, compared with the budget."""
    about = "" if error.details.get("exact") else "~"
    width = max(width, MIN_WIDTH)
    largest = sorted(error.critical, key=lambda item: -item[1])
    shown, omitted = largest[:MAX_ROWS], largest[MAX_ROWS:]
    rows = [(printable(name, charset), size, Style.CRITICAL) for name, size in shown]
    if omitted:
        rows.append((f"and {len(omitted):,} more", sum(size for _, size in omitted), Style.FAINT))
    rows += [("needed together", error.fixed_load, Style.STRONG), ("budget", error.budget, Style.FREE)]
    scale = max([size for _, size, _ in rows] + [1])
    figure = len(f"{about}{scale:,}")
    name = max(min(max(cells(label) for label, _, _ in rows), width // 3), 6)
    bar = min(width - name - figure - 4, MAX_BAR)
    lines: list[Line] = []
    for label, size, style in rows:
        shown_size = f"{size:,}" if style is Style.FREE else f"{about}{size:,}"
        full = charset.bars.get(style, charset.bars[Style.KEPT])
        body = full * _cells_at(size, scale, max(bar, 0)) or (charset.sliver if size and bar > 0 else "")
        lines.append((Span(f"{pad(label, name, charset)}  {shown_size.rjust(figure)}  "), Span(body, style)))
    return [fit_line(line, width, charset) for line in lines]


def _cells_at(tokens: int, scale: int, bar: int) -> int:
    """Round a number of tokens to cells, at most the width of the bar."""
    return min(max((2 * tokens * bar + scale) // (2 * scale), 0), bar) if scale else 0


def _percentages(parts: Sequence[int]) -> list[str]:
    """Return percentages with one decimal that add up to 100.0; empty texts if the sum is 0."""
    if min(parts) < 0 or not sum(parts):
        return [""] * len(parts)
    return [f"{tenths // 10}.{tenths % 10} %" for tenths in largest_remainder(1_000, parts)]


def _more(rows: Sequence[SectionRow]) -> str:
    return f"and {len(rows):,} more" if rows else ""


def _sums(rows: Iterable[SectionRow]) -> tuple[int, int]:
    sections = [row.section for row in rows]
    return sum(section.base_size for section in sections), sum(section.size for section in sections)
