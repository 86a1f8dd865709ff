"""A small HTML picture of a result: a bar of the emitted parts, and a row for each part.

Notebooks show it, and the inspector's page without scripts. All styles are inline, with colours for light and
dark backgrounds, so a saved notebook shows it offline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from importlib import import_module
from typing import Final, NamedTuple

from tokenbox.errors import plural
from tokenbox.render.lines import UNICODE, printable

# The maximum number of rows. The bar has all parts; adjacent parts that are too small are merged.
MOST_ROWS: Final = 40
_MOST_SEGMENTS: Final = 400
_DECISIONS: Final = {
    "#4a7fb0": "kept full",
    "#3d8a64": "expanded",
    "#a87c1f": "compressed summary outline masked reduced",
    "#c4662c": "truncated cut",
    "#8a8175": "placeholder listed beside",
    "#b8473d": "refused",
}
"""The decisions by their colour, in the order in which they are told."""
_COLOURS: Final = {decision: colour for colour, named in _DECISIONS.items() for decision in named.split()}
_DROPPED: Final = "#b8473d"
_PLAIN: Final = "#4a7fb0"
_FAINT: Final = "color:#808080"


class FigureRow(NamedTuple):
    """One part: its name, the decision, its tokens before and after (None is unknown), and the reasons."""

    name: str
    decision: str
    base: int | None
    size: int | None
    why: tuple[str, ...] = ()


def figure(
    head: str,
    parts: Sequence[FigureRow],
    *,
    total: int | None,
    budget: int | None,
    exact: bool,
    notes: Iterable[str] = (),
) -> str:
    """Return the picture as HTML. ``notes``: lines below it. Estimated counts have the prefix ``~``."""
    about = "" if exact else "~"
    scale = max(budget or 0, total or 0, sum(part.size or 0 for part in parts), 1)
    used = "" if total is None else f"{about}{total:,}{'' if budget is None else f' of {budget:,}'} tokens"
    free = "" if total is None or budget is None else _free(budget - total, about)
    lines = [
        '<div style="font:13px/1.5 system-ui,sans-serif;max-width:56em">',
        f"<div><b>{_plain(head)}</b> {used}{free}</div>",
        _strip(parts, scale),
        f'<div style="{_FAINT}">{escape(tally(part.decision for part in parts))}</div>',
        *(f"<div>{_plain(note)}</div>" for note in notes),
    ]
    if parts:
        rows = "".join(_row(part, about) for part in parts[:MOST_ROWS])
        more = len(parts) - MOST_ROWS
        rest = f'<tr><td colspan="4" style="{_FAINT}">and {more:,} more</td></tr>' if more > 0 else ""
        heads = "".join(
            f'<th scope="col" style="text-align:left;padding-right:14px;{_FAINT}">{name}</th>'
            for name in ("part", "tokens", "decision", "why")
        )
        lines.append(
            f'<details><summary style="cursor:pointer">{plural(len(parts), "part")}'
            '</summary><table style="border-collapse:collapse;font:inherit;color:inherit">'
            f"<thead><tr>{heads}</tr></thead>"
            f"<tbody>{rows}{rest}</tbody></table></details>"
        )
    return "".join([*lines, "</div>"])


class Pictured:
    """A result that notebooks show as a small picture, from the same record as the inspector's page.

    The inspector is imported by its name: it shows results of every layer, so none of them may import it.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(import_module("tokenbox.inspect").picture(self))


def tally(decisions: Iterable[str]) -> str:
    """Return the number of each decision: ``8 kept, 1 truncated, 3 dropped``."""
    numbers = Counter(decisions)
    order = {name: place for place, name in enumerate(_COLOURS)}
    named = sorted(numbers, key=lambda name: (order.get(name, len(order)), name))
    return ", ".join(f"{numbers[name]:,} {name}" for name in named)


def in_words(
    kind: str, total: int, budget: int | None, by: str, decisions: Iterable[str], *, exact: bool
) -> str:
    """Return a result as one line, for ``repr``."""
    about = "" if exact else "~"
    of = "" if budget is None else f" of {budget:,}"
    counts = tally(decisions)
    return f"<{kind}: {about}{total:,}{of} tokens ({by}){f'; {counts}' if counts else ''}>"


def _free(tokens: int, about: str) -> str:
    word = "over" if tokens < 0 else "free"
    return f' <span style="{_FAINT}">{about}{abs(tokens):,} {word}</span>'


def _strip(parts: Sequence[FigureRow], scale: int) -> str:
    """Return a bar of all parts, true to scale. Adjacent parts too small to see are merged.

    It is SVG, whose attributes a content security policy does not take for styles.
    """
    segments: list[tuple[str, int, int, str]] = []
    start = 0
    for part in parts:
        size = part.size or 0
        if not size:
            continue
        colour = _COLOURS.get(part.decision, _PLAIN)
        if segments and size * _MOST_SEGMENTS < scale and segments[-1][2] * _MOST_SEGMENTS < scale:
            colour, before, width, _ = segments[-1]
            segments[-1] = (colour, before, width + size, "more parts")
        else:
            segments.append((colour, start, size, part.name))
        start += size
    bars = "".join(
        f'<rect x="{begin * 100_000 // scale / 100}" width="{size * 100_000 // scale / 100}" height="22" '
        f'fill="{colour}" stroke="#fff6" vector-effect="non-scaling-stroke">'
        f"<title>{_plain(name)}: {size:,}</title></rect>"
        for colour, begin, size, name in segments
    )
    return (
        '<svg viewBox="0 0 1000 22" preserveAspectRatio="none" width="100%" height="22" role="img" '
        f'aria-label="the parts, to scale"><rect width="1000" height="22" fill="#80808040"/>{bars}</svg>'
    )


def _row(part: FigureRow, about: str) -> str:
    cell = 'style="text-align:left;padding:1px 14px 1px 0;vertical-align:top;{}"'
    base = "" if part.base in (None, part.size) else f"{about if part.base else ''}{part.base:,} → "
    size = "?" if part.size is None else f"{about if part.size else ''}{part.size:,}"
    colour = _COLOURS.get(part.decision, _DROPPED if part.size == 0 else _PLAIN)
    why = "<br>".join(_plain(sentence) for sentence in part.why)
    return (
        f"<tr><td {cell.format('')}><bdi>{_plain(part.name)}</bdi></td>"
        f"<td {cell.format('white-space:nowrap')}>{base}{size}</td>"
        f"<td {cell.format(f'border-left:3px solid {colour};padding-left:6px')}>{_plain(part.decision)}</td>"
        f"<td {cell.format(_FAINT)}>{why}</td></tr>"
    )


def _plain(text: str) -> str:
    return escape(printable(text, UNICODE))
