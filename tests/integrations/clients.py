"""The SDKs, and clients that answer themselves. Import it in a test: it takes two seconds to load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from anthropic import Anthropic, AnthropicBedrock, AsyncAnthropic
from openai import OpenAI

from tokenbox.integrations import anthropic as for_anthropic
from tokenbox.integrations import openai as for_openai

if TYPE_CHECKING:
    from openai._models import FinalRequestOptions

__all__ = [
    "Answering",
    "AnsweringLater",
    "AnsweringNow",
    "Anthropic",
    "AnthropicBedrock",
    "OpenAI",
    "for_anthropic",
    "for_openai",
]


class Answering(OpenAI):
    """Records what it would send, instead of sending it."""

    sent: ClassVar[list[FinalRequestOptions]] = []

    def request(self, cast_to: Any, options: FinalRequestOptions, **_: Any) -> Any:  # noqa: ANN401
        self.sent.append(options)
        return "the answer"


class AnsweringNow(Anthropic):
    """The same for Anthropic's client."""

    sent: ClassVar[list[Any]] = []

    def request(self, cast_to: Any, options: Any, **_: Any) -> Any:  # noqa: ANN401
        self.sent.append(options)
        return "the answer"


class AnsweringLater(AsyncAnthropic):
    """The same for an asynchronous client."""

    sent: ClassVar[list[Any]] = []

    async def request(self, cast_to: Any, options: Any, **_: Any) -> Any:  # noqa: ANN401
        self.sent.append(options)
        return "the answer"
