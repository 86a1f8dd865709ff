"""OpenAI's API, and whatever speaks it and is nothing that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tokenbox.content.request import Api
from tokenbox.providers.kinds.kind import LISTED, RequestCount, ServerKind, Sign, number, only, register_kind
from tokenbox.providers.kinds.llama_cpp import CHAT, TEXT
from tokenbox.providers.openai_chat import DIALECT, responses_input
from tokenbox.providers.openai_responses import DIALECT as RESPONSES_DIALECT

if TYPE_CHECKING:
    from collections.abc import Mapping

_PATH: Final = "/v1/responses/input_tokens"
_FIELDS: Final = (
    *("instructions", "tool_choice", "previous_response_id", "conversation", "reasoning", "text"),
    *("truncation", "parallel_tool_calls"),
)


def _as_responses(body: Mapping[str, Any]) -> dict[str, Any]:
    return responses_input(body)


register_kind(
    ServerKind(
        "openai",
        DIALECT,
        max_tokens_field="max_completion_tokens",
        counts={
            # OpenAI counts requests of the Responses API; what a chat counts is close to it, no more.
            Api.CHAT: (
                RequestCount(_PATH, _as_responses, number("input_tokens"), exact=False, is_translated=True),
            ),
            Api.RESPONSES: (
                RequestCount(
                    _PATH,
                    only("model", "input", "tools", *_FIELDS),
                    number("input_tokens"),
                    has_media=True,
                ),
            ),
        },
        signs=(Sign(host="api.openai.com"),),
        in_catalog=True,
    )
)
# The same server, asked by its other API; named in the settings, never found out.
register_kind(
    ServerKind(
        "openai-responses",
        RESPONSES_DIALECT,
        chat_path="/v1/responses",
        max_tokens_field="max_output_tokens",
        counts={
            Api.RESPONSES: (
                RequestCount(_PATH, only("model", "input", "tools", *_FIELDS), number("input_tokens")),
            )
        },
        in_catalog=True,
    )
)
# Where nothing is known, llama.cpp's paths are tried: what they do, if anything, is up to each server.
register_kind(
    ServerKind(
        "openai-compatible",
        DIALECT,
        text_count=TEXT,
        counts={Api.CHAT: (CHAT,)},
        questions=(LISTED,),
        signs=(Sign(owner="openai"),),
        in_catalog=True,
    )
)
