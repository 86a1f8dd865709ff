"""Hugging Face's Text Generation Inference."""

from __future__ import annotations

from tokenbox.content.request import Api
from tokenbox.providers.kinds.kind import (
    Figures,
    Question,
    RequestCount,
    ServerKind,
    Sign,
    TextCount,
    figure,
    length,
    number,
    only,
    register_kind,
)
from tokenbox.providers.openai_chat import DIALECT
from tokenbox.providers.shapes import count_at


def _info(body: object, _model: str) -> Figures:
    """Read ``GET /info``."""
    return {
        "context_window": figure(body, "/info", "max_total_tokens"),
        "max_input_tokens": figure(body, "/info", "max_input_tokens", "max_input_length"),
    }


register_kind(
    ServerKind(
        "tgi",
        DIALECT,
        # The count always includes the token that begins a prompt.
        text_count=TextCount("inputs", length, exact=False),
        counts={
            Api.CHAT: (
                RequestCount(
                    "/chat_tokenize",
                    only("model", "messages", "tools", "tool_prompt", "chat_template_kwargs"),
                    number("tokenize_response"),
                ),
            )
        },
        questions=(Question(lambda _: "/info", _info),),
        fetches_images_in_text=True,
        signs=(Sign(path="/info", shows=lambda body: count_at(body, "max_total_tokens") is not None),),
    )
)
