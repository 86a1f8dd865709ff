"""The real server in a process of its own: by standard input and output, and by HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import tokenbox
from tests.cli.transcript import CommandLine
from tests.mcp.talking import ERAS, call, failure, note, talk
from tests.waiting import SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mcp import Client

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "tokenbox", "mcp"]


def initialize(identifier: int = 1) -> dict[str, Any]:
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": identifier, "method": "initialize", "params": params}


@pytest.mark.parametrize("mode", ERAS)
def test_by_standard_input_and_output(project: Path, mode: str) -> None:
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def conversation(client: Client) -> None:
        text, _ = await call(client, "pack", path=".", budget=500, query="cart_7", model="gpt-4o")
        assert text == tokenbox.pack(project, 500, "cart_7", model="gpt-4o").text
        assert await failure(client, "pack", path="..") == "outside_roots"

    server = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])
    # By default the SDK takes the sys.stderr of when it was loaded, which was perhaps another test's.
    talk(stdio_client(server, errlog=sys.stderr), conversation, roots=[project], mode=mode)


def test_standard_output_has_only_the_protocol(project: Path) -> None:
    """Whatever goes wrong: lines that are not JSON, a tool that has a bug, a client that leaves."""
    lines = [
        json.dumps(initialize()),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        "this is not JSON",
        '{"jsonrpc": "2.0", "id": ',
        "[" * 5_000,
        "\x00\x01",
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "pack"}}),
        json.dumps({"jsonrpc": "2.0", "id": 3, "method": "no/such/method"}),
        json.dumps({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "rm -rf"}}),
        '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"count","arguments":{"text":"\\ud800"}}}',
        json.dumps({"jsonrpc": "2.0", "id": 6, "method": "ping"}),
        json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/list"}),
    ]
    process = subprocess.Popen(
        [*COMMAND, "--root", str(project)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("".join(f"{line}\n" for line in lines).encode())
    process.stdin.flush()
    answers: dict[int, dict[str, Any]] = {}
    watchdog = threading.Timer(SECONDS, process.kill)
    watchdog.start()
    while not {1, 2, 3, 4, 6, 7} <= set(answers):
        line = process.stdout.readline()
        assert line, process.communicate(timeout=SECONDS)[1]
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        if isinstance(message.get("id"), int):
            answers[message["id"]] = message
    watchdog.cancel()
    rest, said = process.communicate(timeout=SECONDS)
    assert rest == b""
    assert process.returncode == 0, said
    assert b"Traceback" not in said
    assert answers[1]["result"]["serverInfo"] == {
        "name": "tokenbox",
        "title": "tokenbox",
        "version": tokenbox.__version__,
    }
    assert "path is missing" in answers[2]["result"]["content"][0]["text"]
    assert answers[3]["error"]["code"] == -32601
    assert answers[4]["error"]["code"] == -32602
    assert 5 not in answers  # to the SDK a lone surrogate is not JSON
    assert answers[6]["result"] == {}


@contextmanager
def served(*options: str, **variables: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A server by HTTP: its port."""
    process = subprocess.Popen(
        [*COMMAND, "--http", "--port", "0", *options],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("tokenbox mcp: http://"), line
        yield int(line.rsplit(":", 1)[1].partition("/")[0]), process
    finally:
        process.terminate()
        out, _ = process.communicate(timeout=SECONDS)
        assert out == ""


def status(port: int, body: dict[str, Any] | None = None, **headers: str) -> int:
    """What the server says to a request with these headers."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/mcp",
        data=json.dumps(body or initialize()).encode(),
        headers={
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code)
    except urllib.error.URLError:  # refused while it was still sent
        return 0


def test_by_http(project: Path) -> None:
    with served("--root", str(project)) as (port, _):
        url = f"http://127.0.0.1:{port}/mcp"

        async def conversation(client: Client) -> None:
            steps: list[tuple[float, float | None]] = []

            async def told(progress: float, total: float | None, message: str | None) -> None:
                assert message is None
                steps.append((progress, total))

            wanted = tokenbox.pack(project, 500, "cart_7", model="gpt-4o").text
            with anyio.fail_after(SECONDS):
                while not steps or steps[-1][0] != steps[-1][1]:  # on a busy machine a client misses the last
                    result = await client.call_tool(
                        "pack",
                        {"path": ".", "budget": 500, "query": "cart_7", "model": "gpt-4o"},
                        progress_callback=told,
                    )
                    assert result.content[0].text == wanted  # type: ignore[union-attr]
            assert await failure(client, "pack", path="..") == "outside_roots"
            blocks = await call(client, "pack", path=".", max_tokens=300, budget=400, model="gpt-4o")
            rest = await call(client, "expand", handle=note(blocks)["rest"]["handle"])
            assert blocks[0] + rest[0] == tokenbox.pack(project, 400, model="gpt-4o").text

        for mode in ERAS:
            talk(url, conversation, mode=mode)
            talk(url, conversation, mode=mode, roots=[project])

        async def confined(client: Client) -> None:
            assert await failure(client, "pack", path=str(project / "notes.md")) == "outside_roots"
            await call(client, "pack", path=".")

        for mode in ERAS:
            talk(url, confined, mode=mode, roots=[project / "src"])

        # Names that no program of this machine uses: a page of another site has had its name point here.
        assert status(port) == 200
        assert status(port, host=f"localhost:{port}") == 200
        assert status(port, origin=f"http://localhost:{port}") == 200
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1.evil.example:{port}"):
            assert status(port, host=host) == 421, host
        for origin in (
            "http://evil.example",
            "null",
            "https://127.0.0.1.evil.example",
            "http://localhost:1",
            "x",
        ):
            assert status(port, origin=origin) == 403, origin
        modern = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": modern}}
        assert status(port, listing, host="evil.example", mcp_protocol_version="2026-07-28") == 421
        assert status(port, listing, origin="http://evil.example", mcp_protocol_version="2026-07-28") == 403
        assert status(port, content_type="text/plain") == 400
        assert status(port, {**initialize(), "x": "x" * (5 << 20)}) in {413, 0}


def test_a_token_is_asked_for(project: Path) -> None:
    with served("--root", str(project), "--allow-host", "box.example", TOKENBOX_MCP_TOKEN="s3cret") as (
        port,
        _,
    ):
        assert status(port) == 401
        assert status(port, authorization="Bearer wrong") == 401
        assert status(port, authorization="s3cret") == 401
        assert status(port, authorization="Bearer s3cret") == 200
        assert status(port, authorization="Bearer s3cret", host="box.example") == 200
        assert status(port, authorization="Bearer s3cret", origin="https://box.example") == 200
        assert status(port, authorization="Bearer s3cret", host="evil.example") == 421


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--http"], "--http needs --root"),
        (["--http", "--root", ".", "--host", "0.0.0.0"], "TOKENBOX_MCP_TOKEN"),
        (["--http", "--root", ".", "--host", "10.1.2.3"], "TOKENBOX_MCP_TOKEN"),
        (["--http", "--root", ".", "--host", "no such name"], "TOKENBOX_MCP_TOKEN"),
        (["--root", "nothing-there"], "is not a folder"),
    ],
)
def test_what_is_not_safe_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], says: str
) -> None:
    monkeypatch.delenv("TOKENBOX_MCP_TOKEN", raising=False)
    done = CommandLine(monkeypatch, tmp_path)("mcp", *options)
    assert (done.status, done.out) == (2, b"")
    assert says in done.err
    assert "Traceback" not in done.err
