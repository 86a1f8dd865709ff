"""The loop of servers in tests leaves nothing open."""

from __future__ import annotations

import asyncio
import gc
import socket
from typing import TYPE_CHECKING

import pytest

from tests.gateway.test_tls import tls
from tests.loops import EndingLoop
from tests.waiting import SECONDS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("secure", [False, True])
def test_a_connection_whose_client_is_silent_ends_with_the_loop(tmp_path: Path, *, secure: bool) -> None:
    """pytest turns the warning of a transport that was left open into a failure."""
    context = tls(tmp_path, "127.0.0.1")[0] if secure else None
    loop = EndingLoop()

    async def accepted(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def serve() -> asyncio.Server:
        return await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=context)

    server = loop.run_until_complete(serve())
    with socket.create_connection(server.sockets[0].getsockname()) as client:
        loop.run_until_complete(asyncio.sleep(0))  # it is accepted
        server.close()
        loop.close()
        client.settimeout(SECONDS)
        assert client.recv(1) == b""
    del server
    gc.collect()
