"""The figures of the other workers of one gateway: each answers on a socket in a folder of theirs.

A worker that ends leaves its figures in a file there, so that sums never fall. Those of one that was killed
are lost with it.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

from tokenbox.files import OWN, replace
from tokenbox.gateway.asgi import json_bytes, json_object

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tokenbox.gateway.metrics import Snapshot

# A worker that holds its loop up for longer is left out of a page.
_SECONDS = 2.0
_LARGEST = 64 << 20
_SOCKET, _ENDED = ".sock", ".ended"


class Peers:
    """Of one worker, whose figures are ``own``.

    ``folder`` is the workers' own, and its path is short: the name of a socket has 107 bytes at most.
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
        """Leave the last figures. They may hold figures of gauges, which are no longer true."""
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)
        kept = {name: rows for name, rows in self._own().items() if name not in _MOMENTARY}
        with suppress(OSError):
            replace(self._folder / f"{uuid.uuid4().hex}{_ENDED}", json_bytes(kept), new=OWN, sync=False)

    async def snapshots(self) -> list[Snapshot]:
        """Of all other workers, and of those that have ended."""
        sockets = [path for path in self._folder.glob(f"*{_SOCKET}") if path != self._path]
        answers = await asyncio.gather(*map(self._asked, sockets))
        ended = [_read(path) for path in self._folder.glob(f"*{_ENDED}")]
        return [found for found in (*answers, *ended) if found is not None]

    async def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json_bytes(self._own()))
        with suppress(OSError):
            await writer.drain()
        writer.close()

    @staticmethod
    async def _asked(path: Path) -> Snapshot | None:
        try:
            async with asyncio.timeout(_SECONDS):
                reader, writer = await asyncio.open_unix_connection(str(path))
                try:
                    data = await reader.read(_LARGEST)
                    while more := await reader.read(_LARGEST):
                        data += more
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return None
        return json_object(data)


_MOMENTARY = (
    "upstream_running",
    "upstream_waiting",
    "spool_files_waiting",
    "bodies_bytes",
    "tasks",
    "build_info",
)


def _read(path: Path) -> Snapshot | None:
    try:
        return json_object(path.read_bytes())
    except OSError:
        return None
