"""Calls that take long, are taken back, or are hostile: the server goes on answering."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.mcp.talking import call, failure, talk
from tests.waiting import SECONDS, until
from tokenbox.mcp.calls import TEXTS, WHOLE
from tokenbox.mcp.tools import TOOLS, SharedState
from tokenbox.tokenizers.protocol import BaseTokenizer, Tokenizer, TokenizerIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mcp import Client

# The ping of the handshake era is what most clients send.
pytestmark = pytest.mark.filterwarnings("ignore:ping is removed")


class Waiting(BaseTokenizer):
    """Counts bytes; the first count waits until it may go on."""

    def __init__(self) -> None:
        self.entered, self.free = threading.Event(), threading.Event()
        self.counts = 0

    @property
    def identity(self) -> TokenizerIdentity:
        return TokenizerIdentity("waiting", str(id(self)), str(id(self)), exact=True)

    def count(self, text: str) -> int:
        self.entered.set()
        assert self.free.wait(SECONDS)
        self.counts += 1
        return len(text.encode())


@dataclass(frozen=True, slots=True)
class SlowState(SharedState):
    waiting: Waiting = field(default_factory=Waiting)

    def counter(self, arguments: Mapping[str, Any]) -> Tokenizer:
        return self.waiting


@pytest.mark.slow
def test_a_ping_is_answered_while_a_pack_is_made(project: Path) -> None:
    state = SlowState()

    async def conversation(client: Client) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(call_pack, client)
            await anyio.to_thread.run_sync(until, state.waiting.entered.is_set)
            await client.send_ping()
            assert not state.waiting.free.is_set()
            await call(client, "count", text="other tools too")
            state.waiting.free.set()

    async def call_pack(client: Client) -> None:
        await call(client, "pack", path=".")

    talk(state, conversation, roots=[project])


def test_a_call_that_is_taken_back_ends(project: Path) -> None:
    state = SlowState()
    for n in range(300):
        (project / f"file{n}.txt").write_text(f"text {n}")

    async def conversation(client: Client) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "pack", {"path": "."})
            await anyio.to_thread.run_sync(until, state.waiting.entered.is_set)
            group.cancel_scope.cancel()
        await client.send_ping()  # the cancellation was read before it
        state.waiting.free.set()
        threads = [t for t in threading.enumerate() if "AnyIO worker" in t.name]
        assert threads
        # The texts of the pack are never counted to the end: one slice of them is.
        before = state.waiting.counts
        await call(client, "count", text="and the server goes on")
        assert state.waiting.counts - before <= 64

    talk(state, conversation, roots=[project])
    assert state.waiting.counts <= 64


def test_many_calls_at_once(project: Path) -> None:
    async def conversation(client: Client) -> None:
        answers: list[str] = []

        async def one() -> None:
            answers.append((await call(client, "pack", path=".", budget=400, model="gpt-4o"))[0])

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(one)
        assert len(answers) == 20
        assert len(set(answers)) == 1

    talk(SharedState(), conversation, roots=[project])


HOSTILE: Sequence[object] = (
    *(True, 0, -1, 1.5, 2**53, 10**400, "", "\0", "\ud800", "x" * 100_000, [], [[]], [None], [True]),
    *(
        {},
        {"a": {}},
        [{"role": "user"}],
        [{"role": {}, "content": []}],
        [{"text": None}],
        ["a", {"text": "b", "id": []}],
    ),
    *([{"text": "a", "score": "1e999999999"}], [{"text": "a", "forms": "abc"}], [{"text": "\ud800"}]),
    *(
        [{"role": "user", "content": "\ud800"}],
        [{"role": "user", "content": [{"type": "image"}]}],
        "../../..",
        "@",
        "a@b@c",
    ),
)


@pytest.mark.parametrize("tool", list(TOOLS))
def test_hostile_arguments_are_answered(project: Path, tool: str) -> None:
    """Each argument with each value, beside good ones: an answer or a typed refusal, never a bug."""
    good: dict[str, dict[str, object]] = {
        "pack": {"path": "notes.md", "budget": 200, "query": "Größe"},
        "count": {},
        "select": {"chunks": ["a", "b"], "budget": 5},
        "explain": {"handle": "0"},
        "expand": {"handle": "0"},
        "verify": {"path": "src"},
    }

    async def conversation(client: Client) -> None:
        for one in TOOLS[tool].arguments:
            for value in HOSTILE:
                result = await client.call_tool(tool, {**good[tool], one.name: value})
                text = str(result.content)
                assert "internal_error" not in text, (one.name, repr(value)[:80], text)
                if one.kind in (WHOLE, TEXTS) and value in (True, -1, 1.5, {}):
                    assert "(invalid_arguments)" in text, (one.name, value)
        assert await failure(client, tool, **{**good[tool], "surprise\n\u202e": 1}) == "invalid_arguments"
        await client.send_ping()

    talk(SharedState("gpt-4o"), conversation, roots=[project])
