"""The decision about a request, from its count and the limits of its model."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from tokenbox.compose.requests import By, Count
from tokenbox.gateway.admission import (
    OUTPUT_UNDER_QUOTA,
    Counted,
    judge,
    narrowed,
    refusal_of,
    remedies,
    with_output_limit,
)
from tokenbox.gateway.calls import read_call
from tokenbox.gateway.protocols import CHAT, EMBEDDINGS, Protocol
from tokenbox.gateway.settings import Mode, RequestLimits
from tokenbox.models import ModelFigures
from tokenbox.policy.guard import Uncertain

if TYPE_CHECKING:
    from tokenbox.gateway.calls import ApiCall

WINDOW = 1_000
INPUT: dict[str, dict[str, Any]] = {
    CHAT.name: {"messages": [{"role": "user", "content": "hi"}]},
    EMBEDDINGS.name: {"input": "hi"},
}


def call(protocol: Protocol = CHAT, /, **fields: object) -> ApiCall:
    body = {"model": "m", **INPUT[protocol.name], **fields}
    return read_call(protocol, json.dumps(body).encode(), RequestLimits())


def figures(window: int | None = WINDOW, **more: Any) -> ModelFigures:
    known = {"max_input": None, "max_output": None, "output_reserve": None, "headroom": Fraction(0)}
    return ModelFigures(**{"model": "m", "context_window": window, "sources": {}, **known, **more})


def counted(total: int, at_most: int | None = None, **more: Any) -> Counted:
    bound = total if at_most is None else at_most
    return Counted(Count(total, at_most is None, bound, By.SERVER), "stub:/tokenize", **more)


@pytest.mark.parametrize(
    ("fields", "reserved"),
    [
        ({}, 1),
        ({"max_tokens": 0}, 1),
        ({"max_tokens": 7}, 7),
        ({"max_tokens": -1}, 300),
        ({"max_tokens": 400, "max_completion_tokens": -1}, 400),
        ({"max_tokens": 7, "max_completion_tokens": -1}, 300),
        ({"max_tokens": 7, "enable_thinking": True}, 300),
    ],
)
def test_the_reserve_is_what_the_request_may_make(fields: dict[str, object], reserved: int) -> None:
    """A server refuses a prompt that fills its window, so an answer of no tokens reserves one."""
    model = figures(output_reserve=300 if fields else None)
    admission = judge(call(**fields), counted(WINDOW - reserved), model, Mode.ENFORCE)
    assert (admission.reserved, admission.fits) == (reserved, True)
    assert not judge(call(**fields), counted(WINDOW - reserved + 1), model, Mode.ENFORCE).fits
    assert judge(call(EMBEDDINGS), counted(WINDOW), model, Mode.ENFORCE).fits


@pytest.mark.parametrize(
    ("count", "uncertain", "code"),
    [
        (counted(10, 2 * WINDOW), Uncertain.MARGIN, None),
        (counted(10, 2 * WINDOW), Uncertain.BOUND, "context_length_exceeded"),
        (counted(10, 20, missing="it is away"), Uncertain.ALLOW, None),
        (counted(10, 2 * WINDOW, missing="it is away"), Uncertain.MARGIN, "count_unavailable"),
        (counted(10, 2 * WINDOW, missing="it is away"), Uncertain.ALLOW, "count_unavailable"),
        (counted(2 * WINDOW, 3 * WINDOW, missing="it is away"), Uncertain.ALLOW, "context_length_exceeded"),
        (counted(10, 2 * WINDOW, unseen="a file"), Uncertain.MARGIN, "input_not_countable"),
        (counted(10, 2 * WINDOW, unseen="a file"), Uncertain.ALLOW, None),
        (counted(10, 2 * WINDOW, unseen="a file", missing="away"), Uncertain.ALLOW, "input_not_countable"),
        (counted(2 * WINDOW, 3 * WINDOW, unseen="a file"), Uncertain.ALLOW, "context_length_exceeded"),
    ],
)
def test_what_is_uncertain_passes_only_by_its_rule(
    count: Counted, uncertain: Uncertain, code: str | None
) -> None:
    asked = call(max_tokens=5)
    admission = judge(asked, count, figures(), Mode.ENFORCE, uncertain)
    assert admission.fits is (code is None)
    if code is not None:
        assert refusal_of(asked, admission).code == code


@pytest.mark.parametrize(
    ("one", "other", "window", "max_input"),
    [
        (figures(1_000), figures(600), 600, None),
        (figures(1_000, headroom=Fraction(1, 2)), figures(600), 500, None),
        (figures(None, max_input=90), figures(600), 600, 90),
        (figures(600), figures(None, max_input=90), 600, 90),
        (figures(600, max_input=80), figures(700, max_input=90), 600, 80),
        (figures(600, max_input=80), figures(None), None, None),
    ],
)
def test_several_models_have_the_smallest_of_their_limits(
    one: ModelFigures, other: ModelFigures, window: int | None, max_input: int | None
) -> None:
    found = narrowed(one, other)
    assert (found.usable, found.max_input) == (window, max_input)


@pytest.mark.parametrize(
    ("fields", "used", "window", "limits"),
    [
        ({}, 100, None, {"max_tokens": OUTPUT_UNDER_QUOTA}),
        ({}, 100, WINDOW, {"max_tokens": WINDOW - 100}),
        ({}, WINDOW, WINDOW, {"max_tokens": 1}),
        ({"max_tokens": 50}, 100, WINDOW, {}),
        ({"max_tokens": -1}, 100, WINDOW, {"max_tokens": WINDOW - 100}),
        ({"max_tokens": 0}, 100, WINDOW, {"max_tokens": 1}),
        # Of two fields, one without a limit and one with a smaller one, the server may heed either.
        (
            {"max_tokens": 50, "max_completion_tokens": -1},
            100,
            WINDOW,
            {"max_completion_tokens": WINDOW - 100},
        ),
        ({"max_tokens": 50, "max_completion_tokens": 0}, 100, WINDOW, {"max_completion_tokens": 50}),
        ({"max_completion_tokens": 70}, 100, WINDOW, {"max_tokens": 70}),
        ({"enable_thinking": True}, 100, WINDOW, {"max_tokens": 450, "thinking_budget": 450}),
        (
            {"enable_thinking": True, "max_tokens": 50},
            100,
            WINDOW,
            {"thinking_budget": WINDOW - 100 - 50},
        ),
    ],
)
def test_a_quota_leaves_no_answer_without_a_limit(
    fields: dict[str, object], used: int, window: int | None, limits: dict[str, int]
) -> None:
    asked = call(**fields)
    admission = judge(asked, counted(used), figures(window), Mode.OBSERVE)
    bounded, again = with_output_limit(asked, admission, ("max_tokens",))
    assert bounded.body == {**asked.body, **limits}
    assert (bounded is asked) is (not limits)
    assert not bounded.is_endless
    assert again.reserved == bounded.max_output


@pytest.mark.parametrize(("max_output", "free"), [(None, 900), (40, 40), (2_000, 900)])
def test_a_remedy_is_an_answer_that_the_model_can_give(max_output: int | None, free: int) -> None:
    asked = call(max_tokens=950)
    admission = judge(asked, counted(100), figures(max_output=max_output), Mode.ENFORCE)
    assert not admission.fits
    assert remedies(asked, admission)[0] == {
        "change": "reduce_output",
        "param": "max_tokens",
        "to": free,
        "say": f"set max_tokens to {free} or less",
    }
