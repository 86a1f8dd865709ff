"""The metrics of the other workers of one gateway: each answers on a socket in a shared folder.

A worker that ends leaves its figures in a file there, so that sums never fall. The figures of a killed worker
are lost.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tokenbox.files import OWN, replace
from tokenbox.gateway.asgi import json_bytes, json_object
from tokenbox.gateway.metrics import GAUGES

if TYPE_CHECKING:
    from pathlib import Path

    from tokenbox.gateway.metrics import Snapshot

# A worker whose event loop is blocked for longer is left out of the page.
_SECONDS = 2.0
_SOCKET, _ENDED = ".sock", ".ended"


class Peers:
    """The other workers, for the worker whose own figures are ``own``.

    ``folder`` is shared by the workers. Its path has to be short, as the path of a socket has at most 107
    bytes.
    """

    def __init__(self, folder: Path, own: Callable[[], Snapshot]) -> None:
        self._folder = folder
        self._own = own
        self._path = folder / f"{os.getpid()}{_SOCKET}"
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._answer, str(self._path))

    def close(self) -> None:
        """Leave the last figures in a file, without gauges, which are no longer true."""
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)
        kept = {name: rows for name, rows in self._own().items() if name not in GAUGES}
        with suppress(OSError):
            replace(self._folder / f"{uuid.uuid4().hex}{_ENDED}", json_bytes(kept), new=OWN, sync=False)

    async def snapshots(self) -> list[Snapshot]:
        """Return the figures of all other workers, and of those that have ended."""
        sockets = [path for path in self._folder.glob(f"*{_SOCKET}") if path != self._path]
        answers = await asyncio.gather(*map(_request, sockets))
        ended = [_read(path) for path in self._folder.glob(f"*{_ENDED}")]
        return [found for found in (*answers, *ended) if found is not None]

    async def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json_bytes(self._own()))
        with suppress(OSError):
            await writer.drain()
        writer.close()


async def _request(path: Path) -> Snapshot | None:
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_unix_connection(str(path))
            try:
                data = await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
    return json_object(data)


def _read(path: Path) -> Snapshot | None:
    try:
        return json_object(path.read_bytes())
    except OSError:
        return None
