"""llama.cpp's server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tokenbox.content.request import Api
from tokenbox.providers.kinds.kind import (
    LISTED,
    Figures,
    Question,
    RequestCount,
    ServerKind,
    Sign,
    TextCount,
    figure,
    number,
    prompt_as,
    register_kind,
    text,
    tokens,
    whole,
)
from tokenbox.providers.openai_chat import DIALECT
from tokenbox.providers.shapes import count_at


def _props(body: object, _model: str) -> Figures:
    """Read ``GET /props``. Its ``n_ctx`` is that of one slot."""
    return {
        "context_window": figure(body, "/props", "default_generation_settings.n_ctx"),
        "slots": count_at(body, "total_slots"),
    }


# /tokenize is not part of OpenAI's API, so it is not under /v1.
TEXT: Final = TextCount("content", tokens)
# Like a real prompt, with the token that begins one, if the model has it.
PROMPT: Final = RequestCount(
    "/tokenize", prompt_as("content", add_special=True, parse_special=True), tokens, ids="tokens"
)


def _counted(path: str) -> RequestCount:
    return RequestCount(path, whole, number("input_tokens"), is_whole=True, has_media=True)


CHAT: Final = _counted("/v1/chat/completions/input_tokens")
# Older builds return the rendered prompt, which is then counted. It has a short marker for each image.
_RENDERED: Final = RequestCount("/apply-template", whole, text("prompt"), is_whole=True, then=PROMPT)

COUNTS: Final[Mapping[Api, tuple[RequestCount, ...]]] = {
    Api.CHAT: (CHAT, _RENDERED),
    Api.RESPONSES: (_counted("/v1/responses/input_tokens"),),
    Api.MESSAGES: (_counted("/v1/messages/count_tokens"),),
    Api.COMPLETIONS: (PROMPT,),
    Api.EMBEDDINGS: (PROMPT,),
}

register_kind(
    ServerKind(
        "llama.cpp",
        DIALECT,
        text_count=TEXT,
        counts=COUNTS,
        questions=(LISTED, Question(lambda _: "/props", _props)),
        signs=(Sign(server="llama.cpp"), Sign(owner="llamacpp")),
        tokenizes=True,
        output_fields=("max_tokens", "max_completion_tokens", "n_predict"),
    )
)
