"""Questions that a lower layer asks about a model. The layers that can answer are above it.

``import tokenbox`` names who answers, without loading it. A lower layer imports only this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Lookup:
    """A question about a model's name. The answer is None for an unknown name."""

    def __init__(self) -> None:
        self._answer: Callable[[str], Any] | None = None

    def answered_by(self, answer: Callable[[str], Any]) -> None:
        """Ask ``answer`` from now on."""
        self._answer = answer

    def __call__(self, model: str) -> Any:  # noqa: ANN401  # a type of a higher layer
        return None if self._answer is None else self._answer(model)


family_of = Lookup()
"""The tokenizer family of a model: a :class:`tokenbox.catalog.TokenizerFamily`."""

counter_of_model = Lookup()
"""What counts whole requests to a model: a :class:`tokenbox.compose.requests.RequestCounter`."""

settings_of = Lookup()
"""A model's id, and who counts for it by the settings of this folder: a :class:`tokenbox.models.Counting`."""
