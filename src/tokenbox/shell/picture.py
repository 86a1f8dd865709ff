"""A picture of the budget: one bar for all of it, and one for each kind of item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tokenbox.engine.box import largest_remainder
from tokenbox.errors import plural
from tokenbox.render.lines import UNICODE, Charset, Line, Span, Style
from tokenbox.shell.context import ContextKind, ContextRow
from tokenbox.shell.screen import percent

if TYPE_CHECKING:
    from tokenbox.providers.counting import TokenCount

FULL: Final = 80
"""The percentage of the budget from which the user is warned."""
_STYLES: Final = {
    ContextKind.SYSTEM: Style.CRITICAL,
    ContextKind.PROJECT: Style.CRITICAL,
    ContextKind.MEMORY: Style.CRITICAL,
    ContextKind.SUMMARY: Style.COMPRESSED,
    ContextKind.TOOLS: Style.TRUNCATED,
    ContextKind.USER: Style.KEPT,
    ContextKind.ASSISTANT: Style.EXPANDED,
    ContextKind.TOOL: Style.COMPRESSED,
    ContextKind.OFFER: Style.TRUNCATED,
    ContextKind.TEMPLATE: Style.CRITICAL,
}
_MAX_CELLS: Final = 100


def picture(
    items: Sequence[ContextRow], total: TokenCount, budget: int, width: int, charset: Charset = UNICODE
) -> list[Line]:
    """Return the lines, at most ``width`` columns wide."""
    sizes: dict[ContextKind, int] = {}
    for item in items:
        sizes[item.kind] = sizes.get(item.kind, 0) + max(0, item.tokens)
    scale = max(budget, total.value, 1)
    room = max(8, min(width - 2, _MAX_CELLS))
    free = max(0, budget - total.value)
    # A little that is used is seen. The cells are rounded so that they add up to the width of the bar.
    used = -(-room * total.value // scale) if free else room
    cells = [*largest_remainder(used, list(sizes.values())), room - used] if sizes else [room]
    bar = [
        Span(charset.bars[_STYLES[kind]] * n, _STYLES[kind]) for kind, n in zip(sizes, cells, strict=False)
    ]
    bar.append(Span(charset.bars[Style.FREE] * cells[-1], Style.FREE))
    about = "" if total.exact else "~"
    full = total.value > budget * FULL // 100
    figures_of = f"{total} of {plural(budget, 'token')}, {percent(total.value, budget)}"
    left = f"{free:,} free" if total.value <= budget else f"{total.value - budget:,} over"
    head = [Span(figures_of, Style.DROPPED if full else Style.STRONG), Span(f"  {left}", Style.FREE)]
    names = max((len(kind.value) for kind in sizes), default=0)
    figures = max((len(f"{about}{size:,}") for size in sizes.values()), default=0)
    longest = max(0, min(40, width - names - figures - 9))
    rows: list[Line] = []
    for kind, size in sizes.items():
        length = -(-size * longest // scale)
        text = f"{kind.value:<{names}}  {f'{about}{size:,}':>{figures}} {percent(size, budget):>4} "
        rows.append([Span(text), Span(charset.bars[_STYLES[kind]] * length, _STYLES[kind])])
    return [head, bar, *rows]


def warning(total: TokenCount, budget: int) -> str | None:
    """Return a warning if the context is nearly full, else None."""
    if budget == 0 or total.value * 100 <= budget * FULL:
        return None
    soon = "soon" if total.value <= budget else "by the next question"
    return (
        f"the context is {percent(total.value, budget)} full; the oldest messages will be evicted {soon}. "
        ":compact summarizes them, :budget raises the budget"
    )
