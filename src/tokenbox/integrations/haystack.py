"""Haystack: agents whose requests fit.

Agent(chat_generator=..., hooks={"before_llm": [FitHook(8_000, model="gpt-4o")]})
"""

from __future__ import annotations

from typing import Any

from haystack.components.agents.state.state import State

from tokenbox.integrations.fitting import Fitting


class FitHook:
    """Fits the messages of an agent's state before each call of its model.

    In Haystack, the messages of the state are what is sent: what leaves has left the conversation.
    ``budget``, ``model``: see :mod:`tokenbox.integrations.fitting`. The tools of the step count. ``options``
    are those of :func:`tokenbox.fit`, as plain values.
    """

    allowed_hook_points = ("before_llm",)

    def __init__(self, budget: int | None = None, *, model: str, **options: Any) -> None:
        self._arguments = {"budget": budget, "model": model, **options}
        self._fitting = Fitting(budget, model, options)

    def run(self, state: State) -> None:
        """Fit the messages in ``state``."""
        tools = [{"type": "function", "function": tool.tool_spec} for tool in state.data.get("tools") or ()]
        state.data["messages"] = self._fitting.fit(state.data["messages"], tools=tools)

    def to_dict(self) -> dict[str, Any]:
        """The hook as Haystack saves it."""
        return {
            "type": f"{type(self).__module__}.{type(self).__qualname__}",
            "init_parameters": self._arguments,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FitHook:
        """The hook that was saved."""
        return cls(**data["init_parameters"])
