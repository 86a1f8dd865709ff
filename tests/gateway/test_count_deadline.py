"""The deadline of a count bounds what a client sends, and not what this process has to load first.

A model whose counts are late does not stop those of others.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.waiting import SECONDS
from tokenbox.catalog import Figure
from tokenbox.compose.requests import By, Count
from tokenbox.conversation.calibration import Calibration
from tokenbox.conversation.markers import MarkersFormat
from tokenbox.gateway import counting
from tokenbox.gateway.calls import read_call
from tokenbox.gateway.local_counts import text_tokenizer
from tokenbox.gateway.protocols import CHAT
from tokenbox.gateway.settings import RequestLimits, UpstreamSettings
from tokenbox.gateway.upstream import Upstream
from tokenbox.models import Stated, resolve
from tokenbox.providers.errors import ServerTimeout
from tokenbox.providers.transport import Answered

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from tokenbox.content.request import Request
    from tokenbox.gateway.admission import Counted


def test_a_slow_load_is_no_fault_of_the_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is loaded before the time of the count begins."""
    limits = replace(RequestLimits(), count_seconds=SECONDS)
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    call = read_call(CHAT, json.dumps(body).encode(), limits)
    use = resolve("m", settings=Stated(context_window=Figure(1_000, "configured")))
    text_tokenizer(use).count("loaded")
    steps: list[object] = []
    timeout = asyncio.timeout

    def begin(seconds: float) -> asyncio.Timeout:
        steps.append(seconds)
        return timeout(seconds)

    monkeypatch.setattr(counting, "_load", lambda _: steps.append("loaded"))
    monkeypatch.setattr(asyncio, "timeout", begin)

    async def count() -> int:
        upstream = Upstream(UpstreamSettings("it", "http://127.0.0.1:9", kind="ollama"), limits)
        counted = await counting.RequestCounting(limits, Calibration()).count(call, upstream, use)
        return counted.tokens

    assert asyncio.run(count()) > 0
    assert steps == ["loaded", SECONDS]


def test_rules_that_were_wrong_once_no_longer_hide_a_text() -> None:
    """A template shows nothing of an unknown key, as long as the server's usage confirms its counts."""

    class Template(MarkersFormat):
        def count_request(self, request: Request) -> Count:
            return Count(10, exact=True, at_most=10, by=By.TEMPLATE)

    limits = RequestLimits()
    messages = [{"role": "user", "content": "hi", "x": "word " * 1_000}]
    call = read_call(CHAT, json.dumps({"model": "m", "messages": messages}).encode(), limits)
    use = resolve("m", settings=Stated(context_window=Figure(1_000, "configured")))
    use = replace(use, counter=Template(text_tokenizer(use)), exact=True)

    async def count() -> tuple[int, int]:
        upstream = Upstream(UpstreamSettings("it", "http://127.0.0.1:9", kind="ollama"), limits)
        counter = counting.RequestCounting(limits, Calibration())
        first = await counter.count(call, upstream, use)
        assert counter.reported(upstream, call, first, 1_010) is not None
        return first.tokens, (await counter.count(call, upstream, use)).tokens

    first, second = asyncio.run(count())
    assert first == 10
    assert second >= 1_000


def test_a_model_whose_counts_are_late_does_not_stop_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor does a model whose server lacks the path, behind a router of several servers."""
    asked: list[str] = []

    async def answer(_: object, __: str, body: Mapping[str, Any], *___: object) -> Answered:
        asked.append(body["model"])
        if body["model"] == "late":
            raise ServerTimeout("it did not answer.")
        return Answered(200, {}, {"count": 9}) if body["model"] == "m" else Answered(404, {}, None)

    monkeypatch.setattr(Upstream, "get", answer)
    limits = RequestLimits()

    async def counts() -> list[Counted]:
        upstream = Upstream(UpstreamSettings("it", "http://127.0.0.1:9", kind="vllm"), limits)
        counter = counting.RequestCounting(limits, Calibration())
        found = []
        for model in ("late", "late", "late", "other", "m"):
            body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
            call = read_call(CHAT, json.dumps(body).encode(), limits)
            use = resolve(model, settings=Stated(context_window=Figure(1_000, "configured")))
            found.append(await counter.count(call, upstream, use))
        return found

    late, _, resting, other, exact = asyncio.run(counts())
    assert (late.missing, resting.missing) == (
        "the upstream 'it' counts for 'late', and it did not answer in time",
        "the upstream 'it' counts for 'late', and it is not available",
    )
    assert asked == ["late", "late", "other", "m"]
    assert (other.exact, other.missing) == (False, None)
    assert (exact.exact, exact.tokens) == (True, 9)
