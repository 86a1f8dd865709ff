"""The deadline of a count bounds what a client sends, and not what this process has to load first."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tokenbox.catalog import Figure
from tokenbox.conversation.calibration import Calibration
from tokenbox.gateway import counting
from tokenbox.gateway.calls import read_call
from tokenbox.gateway.protocols import CHAT
from tokenbox.gateway.settings import RequestLimits, UpstreamSettings
from tokenbox.gateway.upstream import Upstream
from tokenbox.models import Stated, resolve

if TYPE_CHECKING:
    import pytest


def test_a_slow_load_is_no_fault_of_the_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = replace(RequestLimits(), count_seconds=0.2)
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    call = read_call(CHAT, json.dumps(body).encode(), limits)
    use = resolve("m", settings=Stated(context_window=Figure(1_000, "configured")))
    counting.text_tokenizer(use).count("loaded")
    monkeypatch.setattr(counting, "_load", lambda _: time.sleep(0.6))

    async def count() -> int:
        upstream = Upstream(UpstreamSettings("it", "http://127.0.0.1:9", kind="ollama"), limits)
        counted = await counting.RequestCounting(limits, Calibration()).count(call, upstream, use)
        return counted.tokens

    assert asyncio.run(count()) > 0
