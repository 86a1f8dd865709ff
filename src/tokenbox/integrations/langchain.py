"""LangChain and LangGraph: middleware that fits requests, and a ``trim_messages`` with exact counts.

create_agent(model, tools, middleware=[FitMiddleware(8_000)])
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, overload

from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain_core.messages import BaseMessage, MessageLikeRepresentation, convert_to_messages
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import RunnableLambda
from langchain_core.utils.function_calling import convert_to_openai_tool

from tokenbox.integrations.fitting import Fitting

# Where chat models have the name of their model: most; Anthropic, Google, Ollama; Bedrock, Hugging Face.
_MODEL_NAMES = ("model_name", "model", "model_id")


class FitMiddleware(AgentMiddleware):
    """Fits the messages of every model call; the state keeps all of them.

    ``budget``, ``model``: see :mod:`tokenbox.integrations.fitting`; the default model is that of the call.
    The count includes the system prompt and the tools. ``options`` are those of :func:`tokenbox.fit`.
    """

    def __init__(self, budget: int | None = None, *, model: str | None = None, **options: Any) -> None:
        super().__init__()
        self._fitting = Fitting(budget, model, options)

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        return handler(self._fitted(request))

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]
    ) -> Any:
        return await handler(self._fitted(request))

    def _fitted(self, request: ModelRequest) -> ModelRequest:
        head = [] if request.system_message is None else [request.system_message]
        tools = [convert_to_openai_tool(tool) for tool in request.tools]
        return request.override(
            messages=self._fitting.fit(request.messages, head=head, tools=tools, model=name_of(request.model))
        )


def name_of(model: object) -> str | None:
    """Return the name of a chat model's model; None if it has none."""
    names = (getattr(model, attribute, None) for attribute in _MODEL_NAMES)
    return next((name for name in names if isinstance(name, str) and name), None)


@overload
def trim_messages(
    messages: None = None, *, max_tokens: int, model: str, **options: Any
) -> RunnableLambda[Any, list[BaseMessage]]: ...
@overload
def trim_messages(
    messages: Iterable[MessageLikeRepresentation] | PromptValue,
    *,
    max_tokens: int,
    model: str,
    **options: Any,
) -> list[BaseMessage]: ...
def trim_messages(
    messages: Iterable[Any] | PromptValue | None = None, *, max_tokens: int, model: str, **options: Any
) -> list[BaseMessage] | RunnableLambda[Any, list[BaseMessage]]:
    """Trim messages so that the request has at most ``max_tokens`` tokens. Replaces LangChain's function.

    ``messages``: in any form that LangChain's function takes, such as the value of a prompt. System messages
    and the last question are kept, tool calls and results are removed together, and old results are shortened
    before anything is removed. Without ``messages``, it returns a runnable. ``options`` are those of
    :func:`tokenbox.fit`, such as ``tools``.
    """
    if messages is None:
        return RunnableLambda(partial(trim_messages, max_tokens=max_tokens, model=model, **options))
    tools = options.pop("tools", None) or ()
    listed = convert_to_messages(messages if isinstance(messages, PromptValue) else list(messages))
    schemas = [convert_to_openai_tool(tool) for tool in tools]
    return Fitting(max_tokens, model, options).fit(listed, tools=schemas)
