"""Haystack: a hook that fits the requests of agents.

Agent(chat_generator=..., hooks={"before_llm": [FitHook(8_000, model="gpt-4o")]})
"""

from __future__ import annotations

from typing import Any

from haystack.components.agents.state.state import State

from tokenbox.integrations.fitting import Fitting


class FitHook:
    """Fits the messages of an agent's state before each call of its model.

    Haystack sends the messages of the state, so removed messages leave the conversation. The count includes
    the tools of the step. ``budget``, ``model``: see :mod:`tokenbox.integrations.fitting`. ``options`` are
    those of :func:`tokenbox.fit`, as plain values.
    """

    allowed_hook_points = ("before_llm",)

    def __init__(self, budget: int | None = None, *, model: str, **options: Any) -> None:
        self._arguments = {"budget": budget, "model": model, **options}
        self._fitting = Fitting(budget, model, options)

    def run(self, state: State) -> None:
        """Fit the messages in ``state``."""
        tools = state.data.get("tools") or ()
        state.data["messages"] = self._fitting.fit(state.data["messages"], tools=tools)

    def to_dict(self) -> dict[str, Any]:
        return {
            "type": f"{type(self).__module__}.{type(self).__qualname__}",
            "init_parameters": self._arguments,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FitHook:
        return cls(**data["init_parameters"])
