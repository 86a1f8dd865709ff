"""The page, one HTML file with its script, style and data; its slider in a notebook; a static picture.

Its Content Security Policy allows only this script and style, by their digests, and no loading or sending. So
a text that looks like markup cannot run, even if a browser took it for markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from tokenbox.errors import LayoutError, needing
from tokenbox.inspect.entries import entry_of
from tokenbox.inspect.of_layout import layout_entry
from tokenbox.inspect.record import PageEntry, PageState, record_of, safe_json
from tokenbox.render.html import FigureRow, figure

if TYPE_CHECKING:
    from tokenbox.compose.layout import Layout


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


SCRIPT: Final = "inspector.js"
WIDGET: Final = "widget.js"
STYLE: Final = "inspector.css"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<main id="app"><noscript><p>Without JavaScript, this page shows only the last request of each file.</p>
{static}</noscript></main>
<script type="application/json" id="record">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def page(entries: Sequence[PageEntry], title: str | None = None) -> str:
    """Return the page of these entries as HTML. Raises ``PageTooLarge``."""
    shown = title if title is not None else ", ".join(entry.title for entry in entries[:3])
    script, style = asset(SCRIPT), asset(STYLE)
    return _PAGE.format(
        policy=policy(script, style),
        title=_plain(f"{shown} - tokenbox" if shown else "tokenbox"),
        style=style,
        static="\n".join(map(static, entries)),
        data=safe_json(record_of(entries)),
        script=script,
    )


def slider(layout: Layout, *, stops: int | None = None) -> Any:  # noqa: ANN401  # a widget of anywidget
    """Return a widget with the layouts at other budgets; ``widget.budget`` is the chosen one.

    ``stops``: the number of other budgets; the default is as many as take a few seconds. Raises
    ``MissingExtra``, and :class:`LayoutError` for a layout without its tokenizer or text.
    """
    with needing("the slider in a notebook", "notebook"):
        import anywidget
        import traitlets
    entry = layout_entry(layout, "layout", stops=stops)
    if entry.slider is None:
        raise LayoutError(
            "this layout has no other budgets to show: it has no tokenizer (as a copy), or no text."
        )

    class Slider(anywidget.AnyWidget):
        """The view What if of the inspector."""

        _esm = asset(WIDGET)
        record = traitlets.Unicode().tag(sync=True)
        budget = traitlets.Int().tag(sync=True)

    return Slider(record=json.dumps(record_of([entry])), budget=layout.budget)


def policy(script: str, style: str) -> str:
    """Return the Content Security Policy, which allows only the page's own script and style."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_source(script)}",
            f"style-src {_source(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def asset(name: str) -> str:
    """Read a built file of the page (``make page``)."""
    return (files(__package__) / "data" / name).read_text(encoding="utf-8")


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _plain(text: str) -> str:
    return escape(text.encode("utf-8", "replace").decode())
