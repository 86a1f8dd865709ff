"""The MCP server, by the official inspector's command line. ``make clients`` installs it and runs this."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tokenbox
from tests.clients.test_clients import OPENAI_NODE
from tests.mcp.test_transports import served
from tests.waiting import SECONDS
from tokenbox.mcp.tools import TOOLS

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
INSPECTOR = ["node", "node/node_modules/@modelcontextprotocol/inspector/cli/build/cli.js", "--cli"]


def inspected(server: Sequence[str], *asked: str) -> dict[str, Any]:
    """What the inspector prints of an answer."""
    if not OPENAI_NODE.is_installed:
        pytest.skip("the inspector is not installed; make clients installs it")
    done = subprocess.run(
        [*INSPECTOR, *server, *asked], cwd=HERE, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def folder(tmp_path: Path) -> Path:
    (tmp_path / "cart.py").write_text("def total(prices):\n    return sum(prices)\n")
    return tmp_path


PACK = ("--method", "tools/call", "--tool-name", "pack", "--tool-arg", "path=.", "budget=200", "model=gpt-4o")


def test_by_standard_input_and_output(tmp_path: Path) -> None:
    root = folder(tmp_path)
    server = [sys.executable, "-m", "tokenbox", "mcp", "--root", str(root)]
    tools = inspected(server, "--method", "tools/list")["tools"]
    assert [tool["name"] for tool in tools] == list(TOOLS)
    answer = inspected(server, *PACK)
    assert answer["content"][0]["text"] == tokenbox.pack(root, 200, model="gpt-4o").text
    outside = [part.replace("path=.", "path=..") for part in PACK]
    assert inspected(server, *outside)["isError"] is True


def test_by_http(tmp_path: Path) -> None:
    root = folder(tmp_path)
    with served("--root", str(root)) as (port, _):
        answer = inspected([f"http://127.0.0.1:{port}/mcp", "--transport", "http"], *PACK)
    assert answer["content"][0]["text"] == tokenbox.pack(root, 200, model="gpt-4o").text
