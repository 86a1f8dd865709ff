"""The slider of budgets in a notebook: ``tokenbox.inspect.slider(layout)`` (extra ``notebook``)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tokenbox.errors import LayoutError, MissingExtra
from tokenbox.inspect.of_layout import layout_entry
from tokenbox.inspect.page import asset
from tokenbox.inspect.record import record_of

if TYPE_CHECKING:
    from tokenbox.compose.layout import Layout

SCRIPT = "widget.js"


def slider(layout: Layout, *, stops: int | None = None) -> Any:  # noqa: ANN401  # a widget of anywidget
    """Return a widget with the layouts at other budgets; ``widget.budget`` is the chosen one.

    ``stops``: the number of other budgets; the default is as many as take a few seconds. Raises
    ``MissingExtra``, and :class:`LayoutError` for a layout without its tokenizer or text.
    """
    try:
        import anywidget  # an extra
        import traitlets
    except ImportError:
        raise MissingExtra.of("the slider in a notebook", "notebook") from None
    entry = layout_entry(layout, "layout", stops=stops)
    if entry.slider is None:
        raise LayoutError(
            "this layout has no other budgets to show: it has no tokenizer (as a copy), or no text."
        )

    class Slider(anywidget.AnyWidget):
        """The view What if of the inspector."""

        _esm = asset(SCRIPT)
        record = traitlets.Unicode().tag(sync=True)
        budget = traitlets.Int().tag(sync=True)

    return Slider(record=json.dumps(record_of([entry])), budget=layout.budget)
