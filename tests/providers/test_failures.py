"""What servers say when they refuse, and the figures in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tokenbox.providers import (
    AuthenticationFailed,
    ContextExceeded,
    ModelNotFound,
    ProviderError,
    RateLimited,
    RequestRejected,
    ServerFailed,
)
from tokenbox.providers.failures import CONTEXT_TEXTS, failure


def refused(
    status: int | None, body: object, headers: dict[str, str] | None = None, window: int | None = None
) -> ProviderError:
    place = "http://server/v1/chat/completions"
    return failure(status, body, place=place, hide=lambda text: text, headers=headers, window=window)


# status, body, (input, output, window): as the servers write them
# What servers say, word for word, of a request that does not fit.
CONTEXT = json.loads(Path(__file__).with_name("refusals.json").read_bytes())


@pytest.mark.parametrize("case", CONTEXT, ids=lambda case: case["server"])
def test_a_request_that_does_not_fit_is_recognised_with_its_figures(case: dict[str, Any]) -> None:
    for status in (case["status"], None):
        error = refused(status, case["body"])
        assert isinstance(error, ContextExceeded), error
        assert {name: getattr(error, name) for name in case["figures"]} == case["figures"]
        assert error.to_dict() | case["figures"] == error.to_dict()
        assert not error.transient


def test_ollama_says_by_how_much_and_we_know_the_window() -> None:
    error = refused(400, {"error": "prompt too long; exceeded max context length by 100 tokens"}, window=4096)
    assert isinstance(error, ContextExceeded)
    assert (error.input_tokens, error.context_window) == (4196, 4096)


WITHOUT_FIGURES = [
    "tokens to keep from the initial prompt is greater than the context length",
    "prompt is too long",
    "context length exceeded",
    "input (90 tokens) is larger than the max context size (80 tokens)",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
    "this model's maximum context length is 100 tokens, but the prompt contains 120 input tokens",
    "Requested token count exceeds the model's maximum context length of 131072 tokens",
    "This model's maximum context length is 9 tokens. However, you requested 12 tokens",
    "this model's maximum context length is 128000 tokens",
]


def test_every_text_of_the_table_is_what_some_server_says() -> None:
    said = [text for case in CONTEXT for text in strings(case["body"])] + WITHOUT_FIGURES
    first = [next((text for text in CONTEXT_TEXTS if text.search(one)), None) for one in said]
    assert [text.pattern for text in CONTEXT_TEXTS if text not in first] == []


def strings(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in strings(inner)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, {"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}, AuthenticationFailed),
        (403, "<html>no</html>", AuthenticationFailed),
        (429, {"error": {"message": "maximum context length is 5 tokens"}}, RateLimited),
        (
            404,
            {"error": {"message": "The model `x` does not exist.", "code": "model_not_found"}},
            ModelNotFound,
        ),
        (404, {"error": 'model "x" not found, try pulling it first'}, ModelNotFound),
        (404, {"detail": "Not Found"}, RequestRejected),
        (400, {"detail": [{"msg": "field required"}]}, RequestRejected),
        (422, "", RequestRejected),
        (500, "Internal Server Error", ServerFailed),
        (
            503,
            {"error": {"message": "Loading model", "code": 503}},
            ServerFailed,
        ),
        (
            529,
            {"error": {"type": "overloaded_error", "message": "Overloaded"}},
            ServerFailed,
        ),
        (
            None,
            {"error": {"type": "overloaded_error", "message": "Overloaded"}},
            ServerFailed,
        ),
        (None, {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}, RateLimited),
        (None, {"error": {"message": "no", "code": 400}}, RequestRejected),
        (None, {"error": {"message": "no", "http_status_code": 422}}, RequestRejected),
        (None, {"error": "something broke"}, ServerFailed),
        (None, {"error": [1, 2]}, ServerFailed),
        (200, None, RequestRejected),
    ],
)
def test_the_kind_of_refusal(status: int | None, body: object, kind: type[ProviderError]) -> None:
    error = refused(status, body)
    assert type(error) is kind, error
    assert "http://server" in str(error)
    assert "html" not in str(error).replace("HTML page", "")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "1.2"}, 2),
        ({"retry-after": "3.0"}, 3),
        ({"retry-after": "9", "retry-after-ms": "1500"}, 2),
        ({"retry-after": "Sat, 21 Nov 2026 10:00:30 GMT", "date": "Sat, 21 Nov 2026 10:00:00 GMT"}, 30),
        ({"retry-after": "Sat, 21 Nov 2026 09:00:00 GMT", "date": "Sat, 21 Nov 2026 10:00:00 GMT"}, 0),
        ({"retry-after": "Sat, 21 Nov 2026 10:00:30 GMT"}, None),
        ({"retry-after": "soon", "date": "now"}, None),
        ({"retry-after": "-1"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: int | None) -> None:
    error = refused(429, {"error": "slow down"}, headers=headers)
    assert isinstance(error, RateLimited)
    assert error.retry_after == seconds
    assert error.to_dict()["retry_after"] == seconds


def test_a_long_text_is_not_shown_whole() -> None:
    assert len(str(refused(500, "x" * 100_000))) < 600
