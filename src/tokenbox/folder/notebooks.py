"""Notebooks as text: their cells one below the other, in the percent format of editors and Jupytext.

The JSON around the cells, their ids and pictures say nothing to a model. Of each output only the first lines
of its text remain.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

# The limits of the outputs of a cell.
_MAX_LINES, _MAX_CHARACTERS = 8, 600


def as_cells(data: bytes, *, outputs: bool = True) -> bytes | None:
    """Return the cells of a notebook as text; None if it is none. ``outputs``: with their beginnings."""
    try:
        notebook = json.loads(data)
        cells = notebook["cells"] if "cells" in notebook else notebook["worksheets"][0]["cells"]
        return "\n".join(_cell(cell, outputs=outputs) for cell in cells).encode("utf-8", "replace")
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        return None


def _cell(cell: dict[str, Any], *, outputs: bool) -> str:
    kind = cell["cell_type"]
    text = _joined(cell.get("source", cell.get("input", "")))
    mark = "# %%" if kind == "code" else f"# %% [{kind}]"
    shown = _beginning("\n".join(_outputs(cell))) if outputs and kind == "code" else ""
    return "".join(f"{part}\n" for part in (mark, text.strip("\n"), shown) if part)


def _outputs(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the text of each output; for others their type."""
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        text = output.get("text", data.get("text/plain"))
        if text is not None:
            yield _joined(text)
        elif "ename" in output:
            yield f"{output['ename']}: {output.get('evalue', '')}"
        yield from (f"[{kind}]" for kind in data if kind.startswith(("image/", "application/")))


def _beginning(text: str) -> str:
    """Return the first lines of an output as comments."""
    lines = text.strip("\n").splitlines() if text.strip() else []
    kept: list[str] = []
    for line in lines[:_MAX_LINES]:
        kept.append(line[: _MAX_CHARACTERS - sum(map(len, kept))])
        if len(kept[-1]) < len(line):
            break
    if len(kept) < len(lines) or kept != lines[: len(kept)]:
        kept.append(f"... {len(text):,} characters")
    return "\n".join(f"#> {line}".rstrip() for line in kept)


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)
