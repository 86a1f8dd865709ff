"""What the gateway offers, as OpenAPI 3.1: data.

Bodies are described as far as the gateway itself reads them; the rest of a request is its API's, and passes.
"""

from __future__ import annotations

import re
from typing import Any

from tokenbox.__about__ import __version__
from tokenbox.gateway.library import STRATEGIES
from tokenbox.models import OutputMode
from tokenbox.tokenizers.registry import available

_TEXT: dict[str, Any] = {"type": "string"}
_ANY: dict[str, Any] = {}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}
_LIMIT = {"anyOf": [{"type": "integer", "minimum": -1, "maximum": 2**53 - 1}, {"type": "null"}]}
_OBJECT = {"type": "object"}
_MODEL = {"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[!-~]([ -~]*[!-~])?$"}
_MESSAGES = {"type": "array", "items": _OBJECT, "maxItems": 20_000}
_STREAM = {"type": ["boolean", "null"]}
_PART = {"anyOf": [_TEXT, {"type": "integer"}]}
# A text, tokens, or several of those.
_SEVERAL = {"anyOf": [_TEXT, {"type": "array", "items": _PART}]}
_PROMPT = {
    "anyOf": [_TEXT, {"type": "array", "items": _PART}, {"type": "array", "items": _SEVERAL}],
}
_CHOICES = {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 128}, {"type": "null"}]}
_FIGURE = {"anyOf": [_COUNT, {"type": "null"}]}


def _object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:  # noqa: ANN401  # schemas
    return {"type": "object", "required": list(required), "properties": properties}


_CHAT = _object(
    ("model", "messages"),
    model=_MODEL,
    messages=_MESSAGES,
    tools=_ANY,
    stream=_STREAM,
    max_completion_tokens=_LIMIT,
    max_tokens=_LIMIT,
    n=_CHOICES,
)
_COMPLETION = _object(
    ("model", "prompt"),
    model=_MODEL,
    prompt=_PROMPT,
    stream=_STREAM,
    max_tokens=_LIMIT,
    n=_CHOICES,
    best_of=_CHOICES,
)
_RESPONSE = _object(
    ("model",),
    model=_MODEL,
    input=_ANY,
    instructions=_ANY,
    tools=_ANY,
    stream=_STREAM,
    max_output_tokens=_LIMIT,
)
_MESSAGE = _object(
    ("model", "messages"),
    model=_MODEL,
    messages=_MESSAGES,
    system=_ANY,
    tools=_ANY,
    stream=_STREAM,
    max_tokens=_LIMIT,
)
_NO_MODEL = {"anyOf": [_MODEL, {"type": "null"}]}


def _counted(body: dict[str, Any]) -> dict[str, Any]:
    """The body of a request that is only counted: where there is one model, it need not be named."""
    required = [name for name in body["required"] if name != "model"]
    return {**body, "required": required, "properties": {**body["properties"], "model": _NO_MODEL}}


_EMBEDDING = _object(("model", "input"), model=_MODEL, input=_PROMPT)
_TOKENIZER = {
    "type": ["string", "null"],
    "description": f"One of {', '.join(one.name for one in available())}, or one that the operator allowed.",
}
_LIMITS = {
    "max_ctx": _COUNT,
    "reserve_out": _COUNT,
    "headroom": {"type": "string", "pattern": "^0?\\.[0-9]{1,20}$"},
    "max_input": _COUNT,
    "model": _MODEL,
    "tokenizer": _TOKENIZER,
}
_STRATEGY = {
    "type": "string",
    "description": f"One of {', '.join(STRATEGIES)}, or one that the operator allowed by its name.",
}
_OUTPUT_MODE = {"type": "string", "enum": [mode.value for mode in OutputMode]}
_SECTION = _object(("id", "content"), id={"type": "string", "minLength": 1}, content=_TEXT)
_CHAT_MESSAGE = _object(("role", "content"), role={"enum": ["system", "user", "assistant"]}, content=_TEXT)
_CHUNKS = {
    "type": "array",
    "anyOf": [{"items": _TEXT}, {"items": _SECTION}, {"items": _CHAT_MESSAGE}],
}

SCHEMAS: dict[str, Any] = {
    "Error": _object(
        ("error",),
        error=_object(
            ("message", "type", "param", "code"),
            message=_TEXT,
            type=_TEXT,
            param={"type": ["string", "null"]},
            code={"type": ["string", "integer", "null"]},
        ),
        tokenbox=_OBJECT,
    ),
    "AnthropicError": _object(
        ("type", "error", "request_id"),
        type={"const": "error"},
        error=_object(("type", "message"), type=_TEXT, message=_TEXT),
        request_id=_TEXT,
        tokenbox=_OBJECT,
    ),
    "Counted": _object(
        ("input_tokens", "tokenbox"),
        input_tokens=_COUNT,
        tokenbox=_object(("exact", "counted_by"), exact={"type": "boolean"}, counted_by=_TEXT),
    ),
    "Tokenized": _object(
        ("count", "exact", "counted_by", "max_model_len"),
        count=_COUNT,
        exact={"type": "boolean"},
        counted_by=_TEXT,
        max_model_len=_FIGURE,
        tokens={"type": ["array", "null"], "items": {"type": "integer"}},
    ),
    "Model": {
        **_object(
            ("id", "context_window", "max_input_tokens", "max_output_tokens", "max_model_len", "tokenizer"),
            id=_TEXT,
            context_window=_FIGURE,
            max_input_tokens=_FIGURE,
            max_output_tokens=_FIGURE,
            max_model_len=_FIGURE,
            tokenizer={"type": ["string", "null"]},
        )
    },
}

# Statuses that any route may answer with: who asks, what is asked, what is behind.
_ERRORS = {
    400: "The request is not what its API says, or does not fit (code context_length_exceeded).",
    401: "No key, or one that is not known, has expired or was revoked.",
    403: "The key may not use this model or mode.",
    404: "No upstream serves the model.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is compressed.",
    429: "A quota is used up: retry-after says when it is filled again.",
    500: "A mistake in tokenbox; or the upstream's own error.",
    502: "The upstream cannot be reached, broke off, or sent something that is not an answer.",
    503: "No place at the upstream, or a store that is needed is away.",
    504: "The upstream did not answer in time.",
}
_MODE = {
    "name": "x-tokenbox-mode",
    "in": "header",
    "required": False,
    "description": "What becomes of a request that does not fit.",
    "schema": {"type": "string", "enum": ["observe", "enforce", "fit"]},
}
_STARTED = {
    "name": "x-tokenbox-started",
    "in": "header",
    "required": False,
    "description": "`event`: a frame `event: started` goes before the stream. Most clients break on it.",
    "schema": {"type": "string", "examples": ["event"]},
}


def _header(about: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": about, "schema": schema}


_ID = {"x-request-id": _header("The client's own, if it sent one.", _TEXT)}
# Of every answer to a request that was counted, errors too.
_COUNTED = {
    **_ID,
    "x-tokenbox-mode": _header("observe, enforce or fit.", _TEXT),
    "x-tokenbox-input-tokens": _header("What the request counts.", _COUNT),
    "x-tokenbox-reserved": _header("What is kept free for the answer.", _COUNT),
    "x-tokenbox-remaining": _header("What is left; not there if the window is not known.", _COUNT),
    "x-tokenbox-estimated": _header("Whether the count is an estimate.", {"enum": ["true", "false"]}),
    "x-tokenbox-layout": _header("The id of the decision, and of its proof.", _TEXT),
}

# (method, path): what it is, the schema of its body, and of its answer.
OPERATIONS: dict[tuple[str, str], tuple[str, dict[str, Any] | None, dict[str, Any]]] = {
    ("post", "/v1/chat/completions"): ("OpenAI's chat completions.", _CHAT, _OBJECT),
    ("post", "/v1/completions"): ("OpenAI's completions.", _COMPLETION, _OBJECT),
    ("post", "/v1/responses"): ("OpenAI's responses.", _RESPONSE, _OBJECT),
    ("post", "/v1/messages"): ("Anthropic's messages.", _MESSAGE, _OBJECT),
    ("post", "/v1/embeddings"): ("OpenAI's embeddings.", _EMBEDDING, _OBJECT),
    ("post", "/v1/chat/completions/input_tokens"): (
        "What a chat counts.",
        _counted(_CHAT),
        SCHEMAS["Counted"],
    ),
    ("post", "/v1/responses/input_tokens"): (
        "What a response counts.",
        _counted(_RESPONSE),
        SCHEMAS["Counted"],
    ),
    ("post", "/v1/messages/count_tokens"): ("What a message counts.", _counted(_MESSAGE), SCHEMAS["Counted"]),
    ("post", "/v1/tokenize"): (
        "The count of a text or of a chat, the tokens of a text, and the model's window.",
        {
            **_object((), model=_NO_MODEL, return_tokens=_ANY, tools=_ANY),
            "anyOf": [_object(("prompt",), prompt=_TEXT), _object(("messages",), messages=_MESSAGES)],
        },
        SCHEMAS["Tokenized"],
    ),
    ("post", "/tokenize"): (
        "llama.cpp's: the tokens of a text.",
        _object(("content",), content=_TEXT, model=_NO_MODEL),
        _object(("tokens",), tokens={"type": "array"}),
    ),
    ("post", "/detokenize"): (
        "llama.cpp's: the text of tokens.",
        _object(("tokens",), tokens={"type": "array", "items": {"type": "integer"}}, model=_NO_MODEL),
        _object(("content",), content=_TEXT),
    ),
    ("post", "/v1/layout"): (
        "Sections in a budget, as `tokenbox layout` has them.",
        _object(
            ("sections", "budget"),
            sections={"type": "array", "items": _SECTION},
            budget=_COUNT,
            tokenizer=_TOKENIZER,
        ),
        _OBJECT,
    ),
    ("post", "/v1/plan"): (
        "What of the chunks would be sent.",
        _object(("chunks",), chunks=_CHUNKS, strategy=_STRATEGY, **_LIMITS),
        _OBJECT,
    ),
    ("post", "/v1/enforce"): (
        "Whether the chunks may be sent, and the least that would let them.",
        _object(("chunks",), chunks=_CHUNKS, output_mode=_OUTPUT_MODE, max_tokens_request=_COUNT, **_LIMITS),
        _OBJECT,
    ),
    ("get", "/v1/models"): (
        "The upstreams' models, each with what it can take.",
        None,
        _object(("object", "data"), object=_TEXT, data={"type": "array", "items": SCHEMAS["Model"]}),
    ),
    ("get", "/v1/models/{model}"): ("One of them. Its name may have slashes.", None, SCHEMAS["Model"]),
    ("get", "/v1/capabilities"): (
        "The same as figures with their sources.",
        None,
        _object(("models",), models={"type": "array", "items": _OBJECT}),
    ),
    ("get", "/healthz"): ("Whether the process is alive.", None, _object(("status",), status=_TEXT)),
    ("get", "/readyz"): (
        "Whether it can do its work.",
        None,
        _object(("status", "checks"), status=_TEXT, checks=_OBJECT),
    ),
    ("get", "/openapi.json"): ("This document.", None, _OBJECT),
    ("get", "/metrics"): ("Figures for Prometheus.", None, {"type": "string"}),
}
_NAME = {"name": "model", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
_OPEN = frozenset({"/healthz", "/readyz", "/openapi.json", "/metrics"})
_MAKES_TOKENS = frozenset(
    {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings"}
)


def document() -> dict[str, Any]:
    """The document, as JSON data."""
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), (about, body, answer) in OPERATIONS.items():
        paths.setdefault(path, {})[method] = _operation(path, about, body, answer)
    keys = {"key": {"type": "http", "scheme": "bearer", "description": "A gateway key."}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "tokenbox gateway", "version": __version__},
        "paths": paths,
        "components": {"schemas": SCHEMAS, "securitySchemes": keys},
        "security": [{"key": []}, {}],
    }


def _operation(path: str, about: str, body: dict[str, Any] | None, answer: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": answer}}
    if path in _MAKES_TOKENS:
        content["text/event-stream"] = {}
    if path == "/metrics":
        content = {"text/plain": {"schema": answer}}
    found: dict[str, Any] = {
        "summary": about,
        "operationId": re.sub(r"\W+", "_", path).strip("_"),
        "responses": {
            "200": {
                "description": "The answer.",
                "headers": _COUNTED if path in _MAKES_TOKENS else _ID,
                "content": content,
            }
        },
    }
    if path == "/readyz":
        found["responses"]["503"] = {
            "description": "It cannot.",
            "content": {"application/json": {"schema": answer}},
        }
    if path in _OPEN:
        return {**found, "security": []}
    name = "AnthropicError" if path.startswith("/v1/messages") else "Error"
    error = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    for status, when in _ERRORS.items():
        found["responses"][str(status)] = {
            "description": when,
            "headers": _COUNTED if path in _MAKES_TOKENS else _ID,
            "content": error,
        }
    if body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if path in _MAKES_TOKENS:
        found["parameters"] = [_MODE, _STARTED]
    if path.endswith("{model}"):
        found["parameters"] = [_NAME]
    return found
