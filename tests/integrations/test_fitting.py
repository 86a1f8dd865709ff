"""Guarding of requests, without the clients that send them (tests/clients has these)."""

from __future__ import annotations

import pytest

from tokenbox.integrations.fitting import Fitting, Guarding, OverWindow

REQUEST = {"model": "gpt-4o", "messages": [{"role": "user", "content": "x" * 100}]}


def test_a_request_is_counted_with_the_tokenizer_that_fits_it() -> None:
    """By the words of gpt-4o it is small; by the caller's tokenizer, which counts bytes, it is over."""
    fitting = Fitting(100, options={"tokenizer": "utf8-bytes", "markers": False})
    with pytest.raises(OverWindow) as caught:
        Guarding(fitting).checked(REQUEST, "messages")
    assert caught.value.verdict.count.total == 100
    _, count = Guarding(Fitting(100)).checked(REQUEST, "messages")
    assert count.total < 100
