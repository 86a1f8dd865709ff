"""Tools of MCP servers in the form of chat completions, through the MCP SDK (the extra ``mcp``)."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final, TextIO

from tokenbox.content.tool_objects import checked_tools
from tokenbox.errors import MissingExtra, needing
from tokenbox.providers.blocking import wait_for
from tokenbox.shell.errors import BadArguments, McpFailed, NoSuchItem

CONNECT_SECONDS: Final = 15.0
CALL_SECONDS: Final = 120.0
_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,24}")
_INVALID: Final = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME: Final = 64  # OpenAI's limit for the name of a function
_MAX_PAGES: Final = 20  # of a list of tools, so that a server cannot send them forever


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool: its name for models, its name on the server, and its schema."""

    name: str
    own_name: str
    schema: Mapping[str, Any]


@dataclass(slots=True, eq=False)
class _Connection:
    name: str
    where: str
    client: Any
    tools: tuple[McpTool, ...]
    leave: asyncio.Event
    task: asyncio.Task[None]


class McpTools:
    """The servers connected in this session."""

    def __init__(self) -> None:
        self._connections: dict[str, _Connection] = {}

    @property
    def servers(self) -> Mapping[str, tuple[McpTool, ...]]:
        return {name: connection.tools for name, connection in self._connections.items()}

    def where(self, server: str) -> str:
        return self._connections[server].where

    @property
    def schemas(self) -> list[Mapping[str, Any]]:
        return [tool.schema for tools in self.servers.values() for tool in tools]

    def knows(self, tool: str) -> bool:
        return self._found(tool) is not None

    def connect(self, name: str, where: str, variables: Mapping[str, str], folder: str) -> Sequence[McpTool]:
        """Start the server of a command line, or connect to a URL, and return its tools.

        Raises :class:`BadArguments`, :class:`McpFailed`, ``MissingExtra``.
        """
        if not _NAME.fullmatch(name):
            raise BadArguments(
                f"{name!r} is not a valid name for a server: use at most 24 letters, digits and -."
            )
        if name in self._connections:
            raise BadArguments(f"{name} is connected already. First: :mcp disconnect {name}")
        connection = wait_for(self._connect(name, where, variables, folder))
        self._connections[name] = connection
        return connection.tools

    def disconnect(self, name: str) -> None:
        """End the connection. Raises :class:`NoSuchItem`."""
        connection = self._connections.pop(name, None)
        if connection is None:
            raise NoSuchItem(f"no server {name!r} is connected. :mcp list shows those that are.", name=name)
        wait_for(_leave(connection))

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool and return its result as text. Raises :class:`McpFailed`."""
        found = self._found(tool)
        if found is None:
            raise McpFailed(f"no connected server has a tool {tool!r}.", tool=tool)
        return wait_for(_call(*found, arguments))

    def _found(self, tool: str) -> tuple[_Connection, McpTool] | None:
        """Return the tool of that name, and its server."""
        tools = ((server, known) for server in self._connections.values() for known in server.tools)
        return next((found for found in tools if found[1].name == tool), None)

    def close(self) -> None:
        for name in list(self._connections):
            self.disconnect(name)

    async def _connect(self, name: str, where: str, variables: Mapping[str, str], folder: str) -> _Connection:
        with needing("connecting tool servers", "mcp"):
            from mcp import Client  # slow to import
        # Without a handler, Python would print what the SDK logs of a server's bad lines, with tracebacks.
        logging.getLogger("mcp").addHandler(logging.NullHandler())
        ready: asyncio.Future[_Connection] = asyncio.get_running_loop().create_future()
        leave = asyncio.Event()

        async def live() -> None:
            # The SDK requires that one task opens and closes a connection.
            try:
                # The log of a server must not appear in the middle of a conversation.
                with Path(os.devnull).open("w", encoding="utf-8") as log:  # noqa: ASYNC230  # it never waits
                    async with Client(_transport(where, variables, folder, log)) as client:
                        tools = await _list(name, client)
                        ready.set_result(_Connection(name, where, client, tools, leave, task))
                        await leave.wait()
            except Exception as error:  # noqa: BLE001  # a server can fail in any way
                if not ready.done():
                    ready.set_exception(_failed(f"the tool server {name} cannot be used", error))

        task = asyncio.create_task(live())
        try:
            return await asyncio.wait_for(asyncio.shield(ready), CONNECT_SECONDS)
        except TimeoutError:
            task.cancel()
            raise McpFailed(
                f"the tool server {name} did not answer within {CONNECT_SECONDS:g} s. "
                f"Does {where!r} run an MCP server?"
            ) from None
        except asyncio.CancelledError:
            task.cancel()
            raise


def _transport(where: str, variables: Mapping[str, str], folder: str, log: TextIO) -> Any:
    if where.startswith(("http://", "https://")):
        return where
    from mcp.client.stdio import StdioServerParameters, stdio_client

    try:
        command, *arguments = shlex.split(where)
    except ValueError as error:
        raise BadArguments(f"{where!r} is not a command line ({error}).") from None
    parameters = StdioServerParameters(command=command, args=arguments, env=dict(variables), cwd=folder)
    return stdio_client(parameters, errlog=log)


async def _list(server: str, client: Any) -> tuple[McpTool, ...]:
    tools: dict[str, McpTool] = {}
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            name = _name(server, tool.name, tools)
            tools[name] = _tool(name, tool)
        cursor = page.next_cursor
        if not cursor:
            break
    checked_tools([tool.schema for tool in tools.values()])  # raises: no question could be asked with NaN
    return tuple(tools.values())


def _name(server: str, tool: str, taken: Collection[str]) -> str:
    """Return a name that models accept and no other tool has: ``a.b`` and ``a_b`` would be the same."""
    name = f"{server}__{_INVALID.sub('_', tool)}"[:_MAX_NAME]
    others = (f"{name[: _MAX_NAME - len(end)]}{end}" for end in map("_{}".format, count(2)))
    return name if name not in taken else next(other for other in others if other not in taken)


def _tool(name: str, tool: Any) -> McpTool:
    function: dict[str, Any] = {"name": name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.input_schema
    return McpTool(name, tool.name, {"type": "function", "function": function})


async def _call(connection: _Connection, tool: McpTool, arguments: Mapping[str, Any]) -> str:
    try:
        result = await connection.client.call_tool(
            tool.own_name, dict(arguments), read_timeout_seconds=CALL_SECONDS
        )
    except Exception as error:  # noqa: BLE001  # of any server
        raise _failed(f"the tool {tool.name} failed", error) from None
    text = "\n".join(getattr(part, "text", None) or f"[{part.type}]" for part in result.content)
    return f"error: {text}" if result.is_error else text


async def _leave(connection: _Connection) -> None:
    connection.leave.set()
    done, _ = await asyncio.wait({connection.task}, timeout=CONNECT_SECONDS)
    if not done:
        connection.task.cancel()


def _failed(what: str, error: BaseException) -> McpFailed:
    if isinstance(error, McpFailed | BadArguments | MissingExtra):
        return error  # type: ignore[return-value]  # it has a message of its own
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return McpFailed(f"{what}: there is no program {error.filename!r}.")
    return McpFailed(f"{what}: {type(error).__name__}: {error}.".replace("..", "."))
