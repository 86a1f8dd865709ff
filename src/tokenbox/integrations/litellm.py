"""LiteLLM: a callback that fits the messages of every call, and reports predicted and used tokens.

litellm.callbacks = [FitCallback(8_000)]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from litellm.integrations.custom_logger import CustomLogger

from tokenbox import api
from tokenbox.integrations.fitting import Called, Fitting

_CHATS: Final = {"acompletion", "completion"}
# The limit of remembered calls without an answer; the oldest are forgotten first.
_MAX_OPEN: Final = 1_000


class FitCallback(CustomLogger):
    """Fits chat requests of ``litellm.acompletion``, of its router and of its proxy before they are sent.

    LiteLLM calls callbacks before sending only in asynchronous calls. For ``litellm.completion``, use
    ``messages=callback.fitted(model, messages, tools)``. ``budget``, ``model``: see
    :mod:`tokenbox.integrations.fitting`; the default model is that of the call, without its provider.
    ``on_call`` receives the predicted count and the input tokens that the server used. ``options`` are those
    of :func:`tokenbox.fit`.
    """

    def __init__(
        self,
        budget: int | None = None,
        *,
        model: str | None = None,
        on_call: Callable[[Called], object] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._fitting = Fitting(budget, model, options)
        self._on_call = on_call
        self._sent: dict[str, tuple[list[Any], list[Any] | None]] = {}

    def fitted(self, model: str, messages: list[Any], tools: list[Any] | None = None) -> list[Any]:
        """Return the messages that fit, for a call of that model."""
        return self._fitting.fit(messages, tools=tools or (), model=_without_provider(model))

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: Any
    ) -> dict[str, Any] | None:
        if getattr(call_type, "value", call_type) not in _CHATS or not kwargs.get("messages"):
            return None
        messages = self.fitted(kwargs["model"], kwargs["messages"], kwargs.get("tools"))
        if self._on_call is not None:
            # LiteLLM reports the answer with the original messages, so those that were sent are kept here.
            self._sent[str(kwargs.get("litellm_call_id"))] = (messages, kwargs.get("tools"))
            while len(self._sent) > _MAX_OPEN:
                self._sent.pop(next(iter(self._sent)))
        return {**kwargs, "messages": messages}

    def log_success_event(
        self, kwargs: Mapping[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Call ``on_call`` after an answered call."""
        if self._on_call is None or not kwargs.get("messages"):
            return
        given = kwargs["messages"], (kwargs.get("optional_params") or {}).get("tools")
        messages, tools = self._sent.pop(str(kwargs.get("litellm_call_id")), given)
        model = self._fitting.model or _without_provider(kwargs["model"])
        used = getattr(getattr(response_obj, "usage", None), "prompt_tokens", None)
        self._on_call(Called(model, api.count(messages, model, tools=tools or None), used))

    async def async_log_success_event(
        self, kwargs: Mapping[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        self.log_success_event(kwargs, response_obj, start_time, end_time)


def _without_provider(model: str) -> str:
    """Return ``gpt-4o`` for ``openai/gpt-4o``."""
    return model.rpartition("/")[2]
