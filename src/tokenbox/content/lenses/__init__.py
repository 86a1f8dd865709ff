"""Lenses: compression strategies for sections. ``parse_pipeline("squeeze |> head(lines=40)")``."""

from __future__ import annotations

from tokenbox.content.lenses.lens import Lens
from tokenbox.content.lenses.pipeline import Pipeline, parse_pipeline
from tokenbox.content.lenses.registry import LensDescription, describe, lens_names, register_lens

__all__ = [
    "Lens",
    "LensDescription",
    "Pipeline",
    "describe",
    "lens_names",
    "parse_pipeline",
    "register_lens",
]
