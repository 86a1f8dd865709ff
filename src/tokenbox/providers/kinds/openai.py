"""OpenAI's API, and compatible servers of unknown kind."""

from __future__ import annotations

from typing import Final

from tokenbox.content.request import Api
from tokenbox.models.counters import OPENAI_HOST
from tokenbox.providers.kinds.kind import LISTED, RequestCount, ServerKind, Sign, number, only, register_kind
from tokenbox.providers.kinds.llama_cpp import CHAT, TEXT
from tokenbox.providers.openai_chat import DIALECT, responses_input
from tokenbox.providers.openai_responses import DIALECT as RESPONSES_DIALECT

_PATH: Final = "/v1/responses/input_tokens"
_COUNTED: Final = only(
    *"model input tools instructions tool_choice previous_response_id conversation reasoning".split(),
    *"text truncation parallel_tool_calls".split(),
)

register_kind(
    ServerKind(
        "openai",
        DIALECT,
        max_tokens_field="max_completion_tokens",
        output_fields=("max_completion_tokens", "max_tokens"),
        counts={
            # OpenAI counts only requests of the Responses API, so the count of a chat is approximate.
            Api.CHAT: (
                RequestCount(_PATH, responses_input, number("input_tokens"), exact=False, is_translated=True),
            ),
            Api.RESPONSES: (RequestCount(_PATH, _COUNTED, number("input_tokens"), has_media=True),),
        },
        signs=(Sign(host=OPENAI_HOST),),
        in_catalog=True,
    )
)
# The same server by its other API: only by setting, never detected.
register_kind(
    ServerKind(
        "openai-responses",
        RESPONSES_DIALECT,
        chat_path="/v1/responses",
        max_tokens_field="max_output_tokens",
        counts={Api.RESPONSES: (RequestCount(_PATH, _COUNTED, number("input_tokens")),)},
        in_catalog=True,
    )
)
# An unknown server is asked by llama.cpp's paths, which it may or may not support.
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
