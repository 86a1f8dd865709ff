"""pydantic-ai: a capability that fits the requests of agents.

Agent(model, capabilities=[FitHistory(8_000)])
"""

from __future__ import annotations

from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext

from tokenbox.integrations.fitting import Fitting


class FitHistory(AbstractCapability[Any]):
    """Fits the messages of every model request; the history of the run keeps all of them.

    ``budget``, ``model``: see :mod:`tokenbox.integrations.fitting`; the default model is that of the request.
    Messages with a system prompt are kept. ``options`` are those of :func:`tokenbox.fit`.
    """

    def __init__(self, budget: int | None = None, *, model: str | None = None, **options: Any) -> None:
        self._fitting = Fitting(budget, model, options)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        messages = request_context.messages
        about = request_context.model_request_parameters
        tools = [*about.function_tools, *about.output_tools]
        request_context.messages = self._fitting.fit(
            messages, tools=tools, model=request_context.model.model_name
        )
        return request_context
