"""What a server's refusal means: status, headers and body become one of our errors.

The texts of the tables are those of the servers' own sources and documents (November 2026).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from tokenbox.providers.errors import (
    AuthenticationFailed,
    ContextExceeded,
    ModelNotFound,
    ProviderError,
    RateLimited,
    RequestRejected,
    ServerFailed,
)
from tokenbox.providers.shapes import at, count_at, is_html, text_at

_MAX_SHOWN: Final = 400  # characters of a server's text in a message
_MAX_SEARCHED: Final = 4_000  # characters of it that are searched

# The messages of servers for a request that does not fit, the most specific first. {I}, {O}, {T} and {W} are
# the figures: input, output, their sum, window.
_CONTEXT_TEXTS: Final = r"""
# llama.cpp
request \({I} tokens\) exceeds the available context size \({W} tokens\)
input \({I} tokens\) is larger than the max context size(?: \({W} tokens?\))?
# vLLM, over the years; OpenAI; OpenRouter
length is {W} tokens\. However, you requested (?:about )?{T} tokens \({I} (?:in|of)[ a-z]+, {O} in
length is {W} tokens\. However, you requested {O} output tokens and your prompt contains (?:at least )?{I}\b
length is {W} tokens\. However, your (?:request has|messages resulted in|prompt contains)(?: at least)? {I}\b
is too large: {O}\. This model's maximum context length is {W} tokens and your request has {I} input tokens
context length is {W} tokens,? but the prompt contains {I} input tokens
context length is {W} tokens\. However, you requested (?:about )?{T} tokens
Input tokens exceed the configured limit of {W} tokens\. Your messages resulted in {I} tokens
# SGLang
The input \({I} tokens\) is longer than the model's context length \({W} tokens\)
length of {W} tokens\. You requested a total of {T} tokens: {I} tokens from the input messages and {O} tokens
exceeds the model's maximum context length of {W} tokens
# Anthropic
prompt is too long: {I} tokens > {W} maximum
input length and `max_tokens` exceed context limit: {I} \+ {O} > {W}
# TGI
`inputs` tokens \+ `max_new_tokens` must be <= {W}\. Given: {I} `inputs` tokens and {O} `max_new_tokens`
`inputs` must have less than {W} tokens\. Given: {I}
# Ollama, told not to truncate
prompt too long; exceeded max context length by (?P<over>\d[\d,]*) tokens
# Mistral, xAI, Gemini
Prompt contains {I} tokens\b.{0,60}?too large for model with {W} maximum context length
maximum prompt length is {W} but the request contains {I} tokens
input token count \({I}\) exceeds the maximum number of tokens allowed \({W}\)
# without figures, or with one
maximum context length is {W} tokens
exceeds the available context (?:size|window)
input exceeds the context window
greater than the context length
context[_ ]length[_ ]exceeded
prompt is too long|prompt too long
"""
_FIGURES: Final = {"{I}": "input", "{O}": "output", "{T}": "total", "{W}": "window"}


def _pattern(line: str) -> re.Pattern[str]:
    for letter, name in _FIGURES.items():
        line = line.replace(letter, rf"(?P<{name}>\d[\d,]*)")
    return re.compile(line, re.IGNORECASE)


CONTEXT_TEXTS: Final = tuple(
    _pattern(line) for line in _CONTEXT_TEXTS.splitlines() if line and not line.startswith("#")
)
CONTEXT_CODES: Final = frozenset({"context_length_exceeded", "exceed_context_size_error"})

# The status for an error's type, for errors without a status: in a stream, or with status 200.
STATUS_OF_TYPE: Final = {
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "invalid_request_error": 400,
    "BadRequestError": 400,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
}


def failure(
    status: int | None,
    body: object,
    *,
    place: str,
    hide: Callable[[str], str],
    headers: Mapping[str, str] | None = None,
    window: int | None = None,
) -> ProviderError:
    """Return the error for a refusal. ``place`` names the server; ``hide`` removes the key from a text.

    ``body``: parsed JSON or text. ``status``: None for an error inside a stream. ``window``: the context
    window, if the request stated it (Ollama's ``num_ctx``).
    """
    names = {text_at(body, path) for path in ("error.type", "error.code", "type", "code", "error_type")}
    if status is None:
        status = _status_inside(body, names)
    message = hide(_message(body))[:_MAX_SEARCHED]
    shown = message[:_MAX_SHOWN] + ("…" if len(message) > _MAX_SHOWN else "")
    says = f"{place} says: {shown}" if shown else f"{place} gives no reason"
    if status not in {401, 403, 429}:
        figures = _context_figures(body, message, names, window)
        if figures is not None:
            return ContextExceeded(f"the request does not fit. {says}", status=status, **figures)
    match status:
        case 401 | 403:
            return AuthenticationFailed(
                f"status {status}: the key is missing or refused. {says}", status=status
            )
        case 429:
            return RateLimited(f"too many requests. {says}", retry_after=_retry_after(headers), status=429)
        case 404 if "model_not_found" in names or "model" in message.lower():
            return ModelNotFound(f"no such model. {says}", status=404)
        case int() if status < 500:  # HTTP
            hint = (
                " Check that the endpoint is an LLM server."
                if isinstance(body, str) and is_html(body)
                else ""
            )
            return RequestRejected(f"status {status}. {says}{hint}", status=status)
        case _:
            return ServerFailed(f"status {status}. {says}", retry_after=_retry_after(headers), status=status)


def _message(body: object) -> str:
    """Return the server's error message on one line."""
    if isinstance(body, str):
        words = "an HTML page" if is_html(body) else body
    else:
        paths = ("error.message", "error", "message", "detail", "detail.0.msg", "error.error")
        words = next((text for path in paths if (text := text_at(body, path))), "")
    return " ".join(words.split())


def _status_inside(body: object, names: set[str]) -> int:
    codes = (at(body, path) for path in ("error.code", "error.http_status_code", "code", "status_code"))
    stated = next((code for code in codes if isinstance(code, int) and 400 <= code < 600), None)  # HTTP
    if stated is not None:
        return stated
    return next((STATUS_OF_TYPE[name] for name in sorted(names) if name in STATUS_OF_TYPE), 500)


def _context_figures(
    body: object, message: str, names: set[str], window: int | None
) -> dict[str, int | None] | None:
    """Return the figures of a request that does not fit; None for another error."""
    found = next((match for text in CONTEXT_TEXTS if (match := text.search(message))), None)
    if found is None and not names & CONTEXT_CODES:
        return None
    groups = {} if found is None else found.groupdict()
    stated = {
        name: int(figure.replace(",", "")[:18]) for name, figure in groups.items() if figure is not None
    }
    size = stated.get("input", count_at(body, "error.n_prompt_tokens"))
    limit = stated.get("window", count_at(body, "error.n_ctx"))
    if limit is None:
        limit = window
    if "over" in stated and limit is not None:
        size = limit + stated["over"]
    if size is None and "output" not in stated:
        size = stated.get("total")  # the message does not mention output
    return {"input_tokens": size, "output_tokens": stated.get("output"), "context_window": limit}


def _retry_after(headers: Mapping[str, str] | None) -> int | None:
    """Return the wait in seconds, rounded up. A date is relative to the server's ``date``, not our clock."""
    if headers is None:
        return None
    stated = headers.get("retry-after", "").strip()
    milliseconds = headers.get("retry-after-ms", "").strip()
    if re.fullmatch(r"\d{1,9}", milliseconds):
        return -(-int(milliseconds) // 1000)
    if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", stated):
        whole, _, part = stated.partition(".")
        return int(whole) + bool(part.strip("0"))
    try:
        wait = parsedate_to_datetime(stated) - parsedate_to_datetime(headers.get("date", ""))
    except (TypeError, ValueError, OverflowError):
        return None
    return max(0, round(wait.total_seconds()))
