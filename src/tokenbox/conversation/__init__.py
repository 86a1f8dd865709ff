"""Conversations within a token budget: messages counted as they are sent, evicted in complete exchanges."""

from tokenbox.conversation.chat_format import ChatFormat
from tokenbox.conversation.conversation import Conversation
from tokenbox.conversation.fit import fit
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
    "fit",
    "shorten_tools",
    "tool_costs",
]
