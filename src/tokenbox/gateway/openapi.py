"""The gateway's routes as OpenAPI 3.1: data.

Bodies are described as far as the gateway reads them. Other fields are those of the APIs, and are forwarded.
"""

from __future__ import annotations

import re
from typing import Any

from tokenbox.__about__ import __version__
from tokenbox.gateway.protocols import PROTOCOLS
from tokenbox.gateway.settings import Mode
from tokenbox.models import OutputMode
from tokenbox.policy.strategies import STRATEGY_NAMES
from tokenbox.tokenizers.registry import available

_TEXT: dict[str, Any] = {"type": "string"}
_ANY: dict[str, Any] = {}
_NULL = {"type": "null"}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}
_LIMIT = {"anyOf": [{"type": "integer", "minimum": -1, "maximum": 2**53 - 1}, _NULL]}
_OBJECT = {"type": "object"}
_MODEL = {"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[!-~]([ -~]*[!-~])?$"}
_NO_MODEL = {"anyOf": [_MODEL, _NULL]}
_MESSAGES = {"type": "array", "items": _OBJECT, "maxItems": 20_000}
_PART = {"anyOf": [_TEXT, {"type": "integer"}]}
# A text, token ids, or a list of those.
_SEVERAL = {"anyOf": [_TEXT, {"type": "array", "items": _PART}]}
_PROMPT = {
    "anyOf": [_TEXT, {"type": "array", "items": _PART}, {"type": "array", "items": _SEVERAL}],
}
_CHOICES = {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 128}, _NULL]}
_FIGURE = {"anyOf": [_COUNT, _NULL]}


def _object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:  # schemas
    return {"type": "object", "required": list(required), "properties": properties}


# The fields that the gateway reads in the requests of several APIs.
_FIELDS = {
    "model": _MODEL,
    "messages": _MESSAGES,
    "prompt": _PROMPT,
    "input": _ANY,
    "instructions": _ANY,
    "system": _ANY,
    "tools": _ANY,
    "stream": {"type": ["boolean", "null"]},
    "max_completion_tokens": _LIMIT,
    "max_tokens": _LIMIT,
    "max_output_tokens": _LIMIT,
    "n": _CHOICES,
    "best_of": _CHOICES,
}


def _request(required: str, optional: str) -> dict[str, Any]:
    """Return the schema of a request with these fields, as words."""
    names = f"{required} {optional}".split()
    return _object(tuple(required.split()), **{name: _FIELDS[name] for name in names})


_CHAT = _request("model messages", "tools stream max_completion_tokens max_tokens n")
_COMPLETION = _request("model prompt", "stream max_tokens n best_of")
_RESPONSE = _request("model", "input instructions tools stream max_output_tokens")
_MESSAGE = _request("model messages", "system tools stream max_tokens")
_EMBEDDING = _object(("model", "input"), model=_MODEL, input=_PROMPT)


def _counted(body: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a body that is only counted: if there is one model, it need not be named."""
    required = [name for name in body["required"] if name != "model"]
    return {**body, "required": required, "properties": {**body["properties"], "model": _NO_MODEL}}


_TOKENIZER = {
    "type": ["string", "null"],
    "description": f"{', '.join(one.name for one in available())}, or a name that the operator allowed.",
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
    "description": f"One of {', '.join(STRATEGY_NAMES)}, or one that the operator allowed by its name.",
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
    "Model": _object(
        ("id", "context_window", "max_input_tokens", "max_output_tokens", "max_model_len", "tokenizer"),
        id=_TEXT,
        context_window=_FIGURE,
        max_input_tokens=_FIGURE,
        max_output_tokens=_FIGURE,
        max_model_len=_FIGURE,
        tokenizer={"type": ["string", "null"]},
    ),
}

# The errors of all routes.
_ERRORS = {
    400: "The request is not what its API says, or does not fit (code context_length_exceeded).",
    401: "No key, or one that is not known, has expired or was revoked.",
    403: "The key may not use this model or mode.",
    404: "No upstream serves the model.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is compressed.",
    429: "A quota is used up: retry-after tells when its window ends, unless the request can never fit.",
    500: "A defect in tokenbox, or the upstream's own error.",
    502: "The upstream cannot be reached, broke off, or sent something that is not an answer.",
    503: "No free slot at the upstream, or a store is unavailable.",
    504: "The upstream did not answer in time.",
}


def _header(about: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": about, "schema": schema}


def _parameter(name: str, about: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, **_header(about, schema)}


_PARAMETERS = [
    _parameter(
        "x-tokenbox-mode",
        "What happens to a request that does not fit.",
        {"type": "string", "enum": [mode.value for mode in Mode]},
    ),
    _parameter(
        "x-tokenbox-started",
        "`event`: an event `started` is sent before the stream. Most clients fail on it.",
        {"type": "string", "examples": ["event"]},
    ),
]
_ID = {"x-request-id": _header("The client's own, if it sent one.", _TEXT)}
# The headers of every answer to a request that was counted, including errors.
_COUNTED = {
    **_ID,
    "x-tokenbox-mode": _header("observe, enforce or fit.", _TEXT),
    "x-tokenbox-input-tokens": _header("The tokens of the request.", _COUNT),
    "x-tokenbox-reserved": _header("The tokens reserved for the answer.", _COUNT),
    "x-tokenbox-remaining": _header("The tokens left; missing if the window is unknown.", _COUNT),
    "x-tokenbox-estimated": _header("Whether the count is an estimate.", {"enum": ["true", "false"]}),
    "x-tokenbox-layout": _header("The id of the decision, and of its proof.", _TEXT),
}

# (method, path): summary, schema of the body, schema of the answer.
OPERATIONS: dict[tuple[str, str], tuple[str, dict[str, Any] | None, dict[str, Any]]] = {
    ("post", "/v1/chat/completions"): ("OpenAI's chat completions.", _CHAT, _OBJECT),
    ("post", "/v1/completions"): ("OpenAI's completions.", _COMPLETION, _OBJECT),
    ("post", "/v1/responses"): ("OpenAI's responses.", _RESPONSE, _OBJECT),
    ("post", "/v1/messages"): ("Anthropic's messages.", _MESSAGE, _OBJECT),
    ("post", "/v1/embeddings"): ("OpenAI's embeddings.", _EMBEDDING, _OBJECT),
    ("post", "/v1/chat/completions/input_tokens"): (
        "Count the tokens of a chat.",
        _counted(_CHAT),
        SCHEMAS["Counted"],
    ),
    ("post", "/v1/responses/input_tokens"): (
        "Count the input tokens of a response.",
        _counted(_RESPONSE),
        SCHEMAS["Counted"],
    ),
    ("post", "/v1/messages/count_tokens"): (
        "Count the tokens of a message.",
        _counted(_MESSAGE),
        SCHEMAS["Counted"],
    ),
    ("post", "/v1/tokenize"): (
        "Count and tokenize a text or a chat, and report the model's window.",
        {
            **_object((), model=_NO_MODEL, return_tokens=_ANY, tools=_ANY),
            "anyOf": [_object(("prompt",), prompt=_TEXT), _object(("messages",), messages=_MESSAGES)],
        },
        SCHEMAS["Tokenized"],
    ),
    ("post", "/tokenize"): (
        "Tokenize a text, in llama.cpp's form.",
        _object(("content",), content=_TEXT, model=_NO_MODEL),
        _object(("tokens",), tokens={"type": "array"}),
    ),
    ("post", "/detokenize"): (
        "Turn tokens into text, in llama.cpp's form.",
        _object(("tokens",), tokens={"type": "array", "items": {"type": "integer"}}, model=_NO_MODEL),
        _object(("content",), content=_TEXT),
    ),
    ("post", "/v1/layout"): (
        "Lay out sections within a budget, as `tokenbox layout` does.",
        _object(
            ("sections", "budget"),
            sections={"type": "array", "items": _SECTION},
            budget=_COUNT,
            tokenizer=_TOKENIZER,
            policy={"enum": ["facet", "degrade"]},
            groups=_OBJECT,
        ),
        _OBJECT,
    ),
    ("post", "/v1/plan"): (
        "Plan what of the chunks would be sent.",
        _object(("chunks",), chunks=_CHUNKS, strategy=_STRATEGY, **_LIMITS),
        _OBJECT,
    ),
    ("post", "/v1/enforce"): (
        "Decide whether the chunks may be sent, and name the smallest fix if not.",
        _object(("chunks",), chunks=_CHUNKS, output_mode=_OUTPUT_MODE, max_tokens_request=_COUNT, **_LIMITS),
        _OBJECT,
    ),
    ("get", "/v1/models"): (
        "List the upstreams' models, each with its limits.",
        None,
        _object(("object", "data"), object=_TEXT, data={"type": "array", "items": SCHEMAS["Model"]}),
    ),
    ("get", "/v1/models/{model}"): ("Return one model. Its name may have slashes.", None, SCHEMAS["Model"]),
    ("get", "/v1/capabilities"): (
        "List the models' limits with their sources.",
        None,
        _object(("models",), models={"type": "array", "items": _OBJECT}),
    ),
    ("get", "/healthz"): ("Report that the process is alive.", None, _object(("status",), status=_TEXT)),
    ("get", "/readyz"): (
        "Report whether upstreams and stores are available.",
        None,
        _object(("status", "checks"), status=_TEXT, checks=_OBJECT),
    ),
    ("get", "/openapi.json"): ("This document.", None, _OBJECT),
    ("get", "/metrics"): ("Metrics for Prometheus.", None, {"type": "string"}),
}
_NAME = {"name": "model", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
_OPEN = frozenset({"/healthz", "/readyz", "/openapi.json", "/metrics"})


def document() -> dict[str, Any]:
    """Return the document, as JSON data."""
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
    is_api = path in PROTOCOLS
    headers = _COUNTED if is_api else _ID
    content = {"text/plain" if path == "/metrics" else "application/json": {"schema": answer}}
    if is_api:
        content["text/event-stream"] = {}
    responses: dict[str, Any] = {
        "200": {"description": "The answer.", "headers": headers, "content": content}
    }
    found: dict[str, Any] = {
        "summary": about,
        "operationId": re.sub(r"\W+", "_", path).strip("_"),
        "responses": responses,
    }
    if path == "/readyz":
        responses["503"] = {"description": "Not ready.", "content": content}
    if path in _OPEN:
        return {**found, "security": []}
    name = "AnthropicError" if path.startswith("/v1/messages") else "Error"
    error = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    for status, when in _ERRORS.items():
        responses[str(status)] = {"description": when, "headers": headers, "content": error}
    if body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if is_api:
        found["parameters"] = _PARAMETERS
    if path.endswith("{model}"):
        found["parameters"] = [_NAME]
    return found
