"""Conversations within a token budget: messages counted as they are sent, evicted in complete exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.exports import on_first_use

if TYPE_CHECKING:
    from tokenbox.conversation.chat_format import ChatFormat
    from tokenbox.conversation.conversation import Conversation
    from tokenbox.conversation.low_water import AutoLowWater
    from tokenbox.conversation.record import Enforced, ExchangeResult, Fitted, WindowDecision
    from tokenbox.conversation.status import ContextItem, Evicted, Status
    from tokenbox.conversation.tools import ShortenedTools, ToolCosts, shorten_tools, tool_costs

__all__ = [
    "AutoLowWater",
    "ChatFormat",
    "ContextItem",
    "Conversation",
    "Enforced",
    "Evicted",
    "ExchangeResult",
    "Fitted",
    "ShortenedTools",
    "Status",
    "ToolCosts",
    "WindowDecision",
    "shorten_tools",
    "tool_costs",
]

# Counting a text does not load the windows of conversations.
if not TYPE_CHECKING:  # a type checker reads the imports above, and reports any other name
    __getattr__ = on_first_use(
        __name__,
        {
            "chat_format": "ChatFormat",
            "conversation": "Conversation",
            "low_water": "AutoLowWater",
            "record": "Enforced ExchangeResult Fitted WindowDecision",
            "status": "ContextItem Evicted Status",
            "tools": "ShortenedTools ToolCosts shorten_tools tool_costs",
        },
    )
