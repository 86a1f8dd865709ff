"""Lookups by model name that a lower layer calls and a higher layer implements.

``import tokenbox`` registers the implementations without importing them. Lower layers import only this file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Lookup:
    """A function of a model's name, registered later. It returns None for an unknown name."""

    def __init__(self) -> None:
        self._answer: Callable[[str], Any] | None = None

    def answered_by(self, answer: Callable[[str], Any]) -> None:
        """Register ``answer`` as the implementation."""
        self._answer = answer

    def __call__(self, model: str) -> Any:  # noqa: ANN401  # a type of a higher layer
        return None if self._answer is None else self._answer(model)


family_of = Lookup()
"""The tokenizer family of a model: a :class:`tokenbox.catalog.TokenizerFamily`."""

counter_of_model = Lookup()
"""The counter of requests to a model: a :class:`tokenbox.compose.requests.RequestCounter`."""

settings_of = Lookup()
"""The settings of the current folder for a model: its id, and a :class:`tokenbox.models.Counting`."""
