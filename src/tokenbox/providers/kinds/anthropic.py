"""Anthropic's API."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from tokenbox.content.request import Api
from tokenbox.providers.anthropic_messages import DIALECT
from tokenbox.providers.kinds.kind import (
    Figures,
    Question,
    RequestCount,
    ServerKind,
    Sign,
    figure,
    number,
    only,
    register_kind,
)

_FIELDS: Final = ("system", "tool_choice", "thinking", "mcp_servers", "context_management", "output_config")


def _model(body: object, _model: str) -> Figures:
    """Read ``GET /v1/models/{id}``."""
    return {
        "max_input_tokens": figure(body, "/v1/models", "max_input_tokens"),
        "max_output_tokens": figure(body, "/v1/models", "max_tokens"),
    }


register_kind(
    ServerKind(
        "anthropic",
        DIALECT,
        chat_path="/v1/messages",
        models_path="/v1/models?limit=1000",  # a page has 20 by default
        key_header=("x-api-key", ""),
        headers={"anthropic-version": "2023-06-01"},
        counts={
            # "The token count should be considered an estimate", says Anthropic's documentation of it.
            Api.MESSAGES: (
                RequestCount(
                    "/v1/messages/count_tokens",
                    only("model", "messages", "tools", *_FIELDS),
                    number("input_tokens"),
                    exact=False,
                    has_media=True,
                ),
            )
        },
        questions=(Question(lambda model: f"/v1/models/{quote(model, safe='')}", _model),),
        signs=(Sign(host="api.anthropic.com"),),
        in_catalog=True,
    )
)
