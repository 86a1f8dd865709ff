"""The official client, connected to a server in this process or another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio

from tokenbox.mcp.tools import SharedState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    import mcp_types as types
    from mcp import Client
    from mcp.client.session import ClientRequestContext

    Talk = Callable[[Client], Awaitable[None]]
ERAS = ("legacy", "auto")


def talk(
    server: Any,  # noqa: ANN401  # a SharedState, or what a client accepts: a command line, an address
    conversation: Talk,
    *,
    roots: Sequence[Path] | None = None,
    started: Sequence[str] = (),
    mode: str = "legacy",
) -> None:
    """Run the conversation. ``roots`` is read at each request of the server; None: no roots.

    ``started``: the roots with which the server of a SharedState is started.
    """
    import mcp_types as types
    from mcp import Client

    from tokenbox.mcp.server import make_server  # here: it takes a second to load

    async def listed(context: ClientRequestContext) -> types.ListRootsResult:
        assert roots is not None
        assert context is not None
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": r.as_uri()}) for r in roots])

    failures: list[Exception] = []

    async def run() -> None:
        callback = None if roots is None else listed
        served = make_server(server, started) if isinstance(server, SharedState) else server
        async with Client(served, mode=mode, list_roots_callback=callback) as client:
            try:
                await conversation(client)
            except Exception as error:  # noqa: BLE001  # raised below, outside of exception groups
                failures.append(error)

    anyio.run(run)
    if failures:
        raise failures[0]


async def call(client: Client, tool: str, /, **arguments: object) -> list[str]:
    """Call a tool that must succeed; return the texts of the result."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return texts(result)


async def failure(client: Client, tool: str, /, **arguments: object) -> str:
    """Call a tool that must fail; return the error code."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content
    (text,) = texts(result)
    assert text.endswith(")")
    return text[text.rindex("(") + 1 : -1]


def texts(result: types.CallToolResult) -> list[str]:
    assert result.structured_content is None
    found = []
    for block in result.content:
        assert block.type == "text"
        found.append(block.text)
    return found


def note(blocks: Sequence[str]) -> dict[str, Any]:
    """Return the parsed note, the last text of a result."""
    found: dict[str, Any] = json.loads(blocks[-1])
    return found
