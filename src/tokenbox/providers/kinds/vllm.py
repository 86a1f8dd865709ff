"""vLLM and SGLang, whose ``/tokenize`` takes a text or the messages of a chat."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tokenbox.content.request import Api
from tokenbox.providers.kinds.kind import (
    LISTED,
    RequestCount,
    ServerKind,
    Sign,
    TextCount,
    number,
    only,
    prompt_as,
    register_kind,
)
from tokenbox.providers.openai_chat import DIALECT

# The other fields of a chat that /tokenize renders.
_RENDERED: Final = (
    "chat_template",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "add_special_tokens",
    "mm_processor_kwargs",
)
_LIMITS: Final = ("max_tokens", "max_completion_tokens")
_MESSAGES: Final = ("system", "tool_choice", "thinking")

# With special tokens, the count would include the token that begins a prompt.
_TEXT: Final = TextCount("prompt", number("count"), {"add_special_tokens": False})
_CHAT: Final = RequestCount(
    "/tokenize",
    only("model", "messages", "tools", *_RENDERED),
    number("count"),
    ids="tokens",
)
_PROMPT: Final = RequestCount("/tokenize", prompt_as("prompt"), number("count"), ids="tokens")

register_kind(
    ServerKind(
        "vllm",
        DIALECT,
        text_count=_TEXT,
        output_fields=_LIMITS,
        counts={
            Api.CHAT: (_CHAT,),
            Api.MESSAGES: (
                RequestCount(
                    "/v1/messages/count_tokens",
                    only("model", "messages", "tools", *_MESSAGES),
                    number("input_tokens"),
                ),
            ),
            Api.COMPLETIONS: (_PROMPT,),
            Api.EMBEDDINGS: (_PROMPT,),
        },
        questions=(LISTED,),
        signs=(Sign(owner="vllm"),),
    )
)
register_kind(
    ServerKind(
        "sglang",
        DIALECT,
        text_count=_TEXT,
        output_fields=_LIMITS,
        # Its /tokenize reads no other fields of a chat.
        counts={
            Api.CHAT: (replace(_CHAT, body=only("model", "messages", "tools")),),
            Api.COMPLETIONS: (_PROMPT,),
        },
        questions=(LISTED,),
        signs=(Sign(owner="sglang"),),
    )
)
