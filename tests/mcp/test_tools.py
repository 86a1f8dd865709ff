"""The tools, by the official client, in both eras of the protocol."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import tokenbox
from tests.mcp.talking import ERAS, call, failure, note, talk
from tokenbox import proof
from tokenbox.mcp.answers import AnswerStore, StoredAnswer
from tokenbox.mcp.tools import TOOLS, SharedState

if TYPE_CHECKING:
    from pathlib import Path

    from mcp import Client

MODEL = "gpt-4o"
SCHEMAS = 1_500


def test_all_schemas_together_are_small() -> None:
    from tokenbox.mcp.server import INSTRUCTIONS, tool_list

    tools = [tool.model_dump(by_alias=True, exclude_none=True) for tool in tool_list()]
    assert [tool["name"] for tool in tools] == ["pack", "count", "select", "explain", "expand", "verify"]
    for said in (json.dumps(tools), json.dumps(tools, indent=2)):
        for model in ("gpt-4o", "gpt-4", "claude-sonnet-4-5"):
            counted = tokenbox.count(said + INSTRUCTIONS, model)
            assert counted.total < SCHEMAS, model


def test_clients_are_told_the_tools() -> None:
    async def conversation(client: Client) -> None:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == list(TOOLS)
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in listed.tools)

    for mode in ERAS:
        talk(SharedState(), conversation, mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_a_pack_is_what_the_library_packs(project: Path, mode: str) -> None:
    async def conversation(client: Client) -> None:
        text, figures = await call(client, "pack", path=".", budget=700, query="cart_7", model=MODEL)
        expected = tokenbox.pack(project, 700, "cart_7", model=MODEL)
        assert text == expected.text
        assert tokenbox.count(text, MODEL).total == expected.total <= 700
        found = json.loads(figures)
        assert (found["tokens"], found["exact"], found["budget"]) == (expected.total, True, 700)
        assert sum(found["files"].values()) == 4
        assert "rest" not in found
        # An integer of JSON Schema may be written as a float.
        again = await call(client, "pack", path=".", budget=700.0, query="cart_7", model=MODEL)
        assert again[0] == text

    talk(SharedState(), conversation, roots=[project], mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_what_is_left_out_comes_back_byte_for_byte(project: Path, mode: str) -> None:
    async def conversation(client: Client) -> None:
        blocks = await call(client, "pack", path=".", budget=10_000, model=MODEL, max_tokens=500)
        pieces = [blocks[0]]
        while "rest" in note(blocks):
            blocks = await call(
                client, "expand", handle=note(blocks)["rest"]["handle"], model=MODEL, max_tokens=500
            )
            pieces.append(blocks[0])
            assert sum(tokenbox.count(block, MODEL).total for block in blocks) <= 500
        assert len(pieces) > 5
        assert "".join(pieces) == tokenbox.pack(project, 10_000, model=MODEL).text
        blocks = await call(client, "pack", path=".", budget=300, query="cart_7", model=MODEL)
        handle = note(blocks)["handle"]
        for name in ("src/mail.py", "mail.py", "notes.md"):
            text, _ = await call(client, "expand", handle=handle, name=name)
            path = project / ("src/mail.py" if name == "mail.py" else name)
            assert text.encode() == path.read_bytes()
        assert await failure(client, "expand", handle=handle, name="nothing.py") == "unknown_handle"
        assert await failure(client, "expand", handle="0" * 16) == "unknown_handle"
        assert await failure(client, "expand", handle=f"{handle}@99999999") == "unknown_handle"
        assert await failure(client, "expand", handle=f"{handle}@-1") == "unknown_handle"
        explained, _ = await call(client, "explain", handle=handle)
        assert all(name in explained for name in ("src/cart.py", "src/mail.py", "notes.md"))

    talk(SharedState(), conversation, roots=[project], mode=mode)


def test_no_answer_is_over_its_tokens(project: Path) -> None:
    async def conversation(client: Client) -> None:
        for most in (200, 400, 1_000):
            for model in (MODEL, None):
                blocks = await call(client, "pack", path=".", max_tokens=most, model=model)
                counted = sum(tokenbox.count(block, model).total for block in blocks)
                assert counted <= most
        assert await failure(client, "pack", path=".", max_tokens=20, budget=500) == "invalid_budget"
        # Without max_tokens, an answer is what common clients take.
        (project / "long.md").write_text("one two three four\n" * 30_000)
        blocks = await call(client, "pack", path=".", budget=1_000_000)
        counts = [tokenbox.count(block) for block in blocks]
        assert sum(count.total for count in counts) <= 20_000
        assert note(blocks)["rest"]["characters"] > 400_000

    talk(SharedState(), conversation, roots=[project])


def test_a_server_has_a_model_and_a_limit_of_its_own(project: Path) -> None:
    async def conversation(client: Client) -> None:
        blocks = await call(client, "pack", path=".")
        assert note(blocks)["exact"]
        assert sum(tokenbox.count(block, MODEL).total for block in blocks) <= 600
        (counted,) = await call(client, "count", text="hello world")
        assert json.loads(counted) == {"total": 2, "exact": True, "at_most": 2, "by": "text"}

    talk(SharedState(MODEL, 600), conversation, roots=[project])


def test_counts_are_those_of_the_library() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]

    async def conversation(client: Client) -> None:
        (counted,) = await call(client, "count", messages=messages, model=MODEL)
        assert json.loads(counted) == tokenbox.count(messages, MODEL).to_dict()
        (counted,) = await call(client, "count", messages=messages)
        assert json.loads(counted)["exact"] is False
        assert await failure(client, "count", messages=[{"content": 3}]) == "invalid_message"
        assert await failure(client, "count", text="a", messages=messages) == "invalid_arguments"
        assert await failure(client, "count") == "invalid_arguments"
        (counted,) = await call(client, "count", text="a", model="no such model")
        assert json.loads(counted)["exact"] is False

    talk(SharedState(), conversation)


def test_chunks_that_are_not_shown_are_kept() -> None:
    chunks = [
        "cats sleep all day",
        {"id": "dogs", "text": "dogs bark at cats"},
        "cats sleep all day",
        "xyz " * 99,
    ]

    async def conversation(client: Client) -> None:
        blocks = await call(client, "select", chunks=chunks, budget=6, query="dogs bark", model=MODEL)
        assert blocks[0] == "dogs bark at cats"
        assert note(blocks)["chunks"] == {"chosen": 1, "no_room": 2, "copy": 1}
        handle = note(blocks)["handle"]
        assert (await call(client, "expand", handle=handle, name="3"))[0] == "xyz " * 99
        assert (await call(client, "expand", handle=handle, name="dogs"))[0] == "dogs bark at cats"
        explained, _ = await call(client, "explain", handle=handle)
        assert explained.splitlines()[0].split()[-1] == "dogs"
        critical = {"text": "too long to fit", "priority": "critical"}
        assert await failure(client, "select", chunks=[critical], budget=2) == "context_critical_overflow"
        assert await failure(client, "select", chunks=[7], budget=2) == "invalid_content"
        assert await failure(client, "select", chunks=[{"text": "a", "priority": "x"}]) == "invalid_content"

    talk(SharedState(), conversation)


def test_a_proof_is_verified(project: Path) -> None:
    from tokenbox.store.bundles import Bundles

    folder = project / "proofs"
    store = Bundles(folder)
    written = []

    def sink(evidence: proof.Evidence) -> None:
        written.append(store.write(evidence))

    tokenbox.layout([{"id": "a", "content": "hello"}], 10, "o200k_base", proof=sink)
    bundle = written[0].path

    async def conversation(client: Client) -> None:
        name = str(bundle.relative_to(project))
        (said,) = await call(client, "verify", path=name)
        assert json.loads(said) == {
            "ok": True,
            "id": bundle.name,
            "signed_by": [],
            "not_checked": [],
        }
        (bundle / "decisions.jsonl").chmod(0o600)
        (bundle / "decisions.jsonl").write_text("{}\n")
        (said,) = await call(client, "verify", path=name)
        assert json.loads(said)["ok"] is False
        assert "decisions.jsonl" in json.loads(said)["message"]
        (said,) = await call(client, "verify", path="src")
        assert json.loads(said)["ok"] is False

    talk(SharedState(), conversation, roots=[project])


def test_the_shelf_forgets_the_oldest_first() -> None:
    answers = AnswerStore(room=1_000)
    first, second = answers.put(StoredAnswer("a" * 400)), answers.put(StoredAnswer("b" * 400))
    answers.get(first)
    third = answers.put(StoredAnswer("c" * 400))
    assert answers.get(first).text == "a" * 400
    assert answers.get(third).text == "c" * 400
    with pytest.raises(tokenbox.TokenboxError, match="call pack or select again"):
        answers.get(second)
    # What would push out everything else is kept without its parts, and is not refused.
    large = answers.put(StoredAnswer("d" * 100, {"x": b"x" * 2_000}))
    assert answers.get(large) == StoredAnswer("d" * 100)
    # The same text of two folders is one; with other parts it is another.
    same = answers.put(StoredAnswer("e", folders=("/a",)))
    assert answers.put(StoredAnswer("e", folders=("/b",))) == same
    assert set(answers.get(same).folders) == {"/a", "/b"}
    assert answers.put(StoredAnswer("e", {"x": b"1"})) != answers.put(StoredAnswer("e", {"x": b"2"}))
    assert answers.get(answers.put(StoredAnswer("e", {"\ud800": b"1"}))).parts == {"\ud800": b"1"}
