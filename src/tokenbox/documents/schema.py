"""The published schemas (JSON Schema, draft 2020-12)."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def layout_schema() -> dict[str, Any]:
    """The schema of a layout document, whichever of the three formats it is written in."""
    return _schema("layout.schema.json")


def result_schema() -> dict[str, Any]:
    """The schema of what a layout gives as JSON: the record, or ``{"error": {...}}``."""
    return _schema("result.schema.json")


def _schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
    return schema
