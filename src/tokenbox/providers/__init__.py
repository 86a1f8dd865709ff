"""Clients of LLM servers: context windows, exact counts, chats and streams.

    target = Target("http://127.0.0.1:8080", "qwen", use_tokenize_endpoint=True)
    BlockingProvider(target).token_count("hello world")      for any code
    await Provider(target).chat([{"role": "user", ...}])      for asynchronous code

Requests to a server need the extra ``shell``.
"""

from tokenbox.providers.blocking import BlockingProvider, BlockingStream
from tokenbox.providers.counting import TokenCount
from tokenbox.providers.errors import (
    AnswerTooLarge,
    AuthenticationFailed,
    BadAnswer,
    ConnectionLost,
    ConnectionRefused,
    ContextExceeded,
    InvalidRequest,
    InvalidTarget,
    ModelNotFound,
    ProviderError,
    RateLimited,
    RequestRejected,
    ServerFailed,
    ServerTimeout,
    ServerUnreachable,
    StreamCut,
)
from tokenbox.providers.events import (
    ChatAnswer,
    Event,
    Finished,
    FinishReason,
    KeptBlock,
    ReasoningDelta,
    TextDelta,
    Timings,
    ToolCallDelta,
    UsageReport,
)
from tokenbox.providers.kinds import ServerKind, find_kind, kind_names, register_kind
from tokenbox.providers.memory import EndpointMemory
from tokenbox.providers.provider import Provider, tokenize_supported
from tokenbox.providers.server import Capabilities
from tokenbox.providers.stream import ChatStream
from tokenbox.providers.target import ApiKey, Bounds, Target
from tokenbox.providers.usage import usage_in

__all__ = [
    "AnswerTooLarge",
    "ApiKey",
    "AuthenticationFailed",
    "BadAnswer",
    "BlockingProvider",
    "BlockingStream",
    "Bounds",
    "Capabilities",
    "ChatAnswer",
    "ChatStream",
    "ConnectionLost",
    "ConnectionRefused",
    "ContextExceeded",
    "EndpointMemory",
    "Event",
    "FinishReason",
    "Finished",
    "InvalidRequest",
    "InvalidTarget",
    "KeptBlock",
    "ModelNotFound",
    "Provider",
    "ProviderError",
    "RateLimited",
    "ReasoningDelta",
    "RequestRejected",
    "ServerFailed",
    "ServerKind",
    "ServerTimeout",
    "ServerUnreachable",
    "StreamCut",
    "Target",
    "TextDelta",
    "Timings",
    "TokenCount",
    "ToolCallDelta",
    "UsageReport",
    "find_kind",
    "kind_names",
    "register_kind",
    "tokenize_supported",
    "usage_in",
]
