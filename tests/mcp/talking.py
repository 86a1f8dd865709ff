"""The official client, at a server in this process or another."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp import Client

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.client.session import ClientRequestContext

Talk = Callable[[Client], Awaitable[None]]
ERAS = ("legacy", "auto")


def talk(
    server: Any,  # noqa: ANN401  # what a client takes: a server, a command line, an address
    conversation: Talk,
    *,
    roots: Sequence[Path] | None = None,
    mode: str = "legacy",
) -> None:
    """Run the conversation. ``roots`` is looked at each time the server asks; None is a client without."""

    async def listed(context: ClientRequestContext) -> types.ListRootsResult:
        assert roots is not None
        assert context is not None
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": r.as_uri()}) for r in roots])

    failures: list[Exception] = []

    async def run() -> None:
        callback = None if roots is None else listed
        async with Client(server, mode=mode, list_roots_callback=callback) as client:
            try:
                await conversation(client)
            except Exception as error:  # noqa: BLE001  # raised again outside of all groups
                failures.append(error)

    anyio.run(run)
    if failures:
        raise failures[0]


async def call(client: Client, tool: str, /, **arguments: object) -> list[str]:
    """The texts of an answer that is not a failure."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return texts(result)


async def failure(client: Client, tool: str, /, **arguments: object) -> str:
    """The code of a failure."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content
    (text,) = texts(result)
    assert text.endswith(")")
    return text[text.rindex("(") + 1 : -1]


def texts(result: types.CallToolResult) -> list[str]:
    assert result.structured_content is None
    found = []
    for block in result.content:
        assert isinstance(block, types.TextContent)
        found.append(block.text)
    return found


def note(blocks: Sequence[str]) -> dict[str, Any]:
    """The figures after a text."""
    found: dict[str, Any] = json.loads(blocks[-1])
    return found
