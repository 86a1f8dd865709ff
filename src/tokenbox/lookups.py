"""Lookups by model name that a lower layer makes and a higher layer answers.

The higher layers are imported by their names, when they are asked: no lower layer may import them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def family_of(model: str) -> Any:  # noqa: ANN401  # a type of a higher layer
    """Return the tokenizer family of a model, a :class:`tokenbox.catalog.TokenizerFamily`, or None."""
    return import_module("tokenbox.catalog").tokenizer_family(model)


def counter_of_model(name: str) -> Any:  # noqa: ANN401  # a type of a higher layer
    """Return the counter of requests to a model, or None if ``name`` names neither a model nor files."""
    return import_module("tokenbox.counters").counter_of_model(name)


def request_counter(model: str, tokenizer: object, **options: object) -> Any:  # noqa: ANN401  # a type of a higher layer
    """Return the counter of requests to a model, as :func:`tokenbox.counters.request_counter` does."""
    return import_module("tokenbox.counters").request_counter(model, tokenizer, **options)


def settings_of(model: str) -> tuple[str, Any]:
    """Return the current folder's settings of a model: its id, and a :class:`tokenbox.models.Counting`."""
    settings = import_module("tokenbox.config").current()
    return settings.model_id(model), settings.counting(model)
