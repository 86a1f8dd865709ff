"""Lenses: compression strategies for sections. ``parse_pipeline("squeeze |> head(lines=40)")``."""

from __future__ import annotations

from tokenbox.content.lenses.lens import Lens, LensKind
from tokenbox.content.lenses.pipeline import Pipeline, parse_pipeline
from tokenbox.content.lenses.registry import describe, lens_names, register_lens

__all__ = [
    "Lens",
    "LensKind",
    "Pipeline",
    "describe",
    "lens_names",
    "parse_pipeline",
    "register_lens",
]
