"""OpenAI Agents: a filter that fits the requests of runs.

Runner.run(agent, question, run_config=RunConfig(call_model_input_filter=fit_input(8_000)))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents import FunctionTool
from agents.models import get_default_model
from agents.run_config import CallModelData, ModelInputData

from tokenbox.integrations.fitting import Fitting


def fit_input(
    budget: int | None = None, *, model: str | None = None, **options: Any
) -> Callable[[CallModelData[Any]], ModelInputData]:
    """Return a filter that fits the items of every model call; the run and its session keep all of them.

    ``budget``, ``model``: see :mod:`tokenbox.integrations.fitting`; the default model is that of the agent.
    The count includes instructions and function tools; leave room for tools of MCP servers and handoffs.
    ``options`` are those of :func:`tokenbox.fit`.
    """
    fitting = Fitting(budget, model, options)

    def filtered(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        head = [] if given.instructions is None else [{"role": "system", "content": given.instructions}]
        tools = [tool for tool in data.agent.tools if isinstance(tool, FunctionTool)]
        model = data.agent.model or get_default_model()
        named = getattr(model, "model", model)
        items = fitting.fit(given.input, head=head, tools=tools, model=named)
        return ModelInputData(input=items, instructions=given.instructions)

    return filtered
