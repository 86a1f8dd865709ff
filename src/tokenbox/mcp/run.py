"""Serves the protocol over standard input and output, or over HTTP."""

from __future__ import annotations

import hmac
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import uvicorn
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import Response

from tokenbox.config.trust import is_loopback

if TYPE_CHECKING:
    from mcp.server import Server
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH: Final = "/mcp"
_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
# A session whose client does not return is closed after this time.
_IDLE_SECONDS: Final = 3600.0
# The exit status of an interrupted command.
_INTERRUPTED: Final = 130


def serve_stdio(server: Server[Any]) -> None:
    """Serve one client over standard input and output, until it disconnects, or Ctrl-C ends the process."""

    async def serve() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    # A thread of the SDK waits for a line, so an orderly end would wait too. There is nothing to save.
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    anyio.run(serve)


def serve_http(
    server: Server[Any],
    host: str,
    port: int,
    say: Callable[[str], None],
    *,
    names: Sequence[str] = (),
    token: str | None = None,
) -> None:
    """Serve clients over streamable HTTP until interrupted. ``say`` is called with the address.

    ``names``: other host names of this machine. A request with another Host or Origin is refused, so that no
    web page can reach the server (DNS rebinding). ``token``: the bearer token that each request must have.
    Raises ``OSError`` if the address is not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        port = listening.getsockname()[1]
        app = http_app(server, host, port, names=names, token=token)
        shown = f"[{host}]" if ":" in host else host
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", server_header=False)
        listening.listen(128)
        say(f"tokenbox mcp: http://{shown}:{port}{PATH}\n")
        uvicorn.Server(config).run(sockets=[listening])


def http_app(
    server: Server[Any], host: str, port: int, *, names: Sequence[str] = (), token: str | None = None
) -> ASGIApp:
    """Build the application, which refuses requests with another Host or Origin."""
    own = _LOOPBACK_NAMES if is_loopback(host) else (f"[{host}]" if ":" in host else host,)
    hosts = [f"{name}:{port}" for name in own] + [form for name in names for form in (name, f"{name}:{port}")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{one}" for one in hosts for scheme in ("http", "https")],
    )
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH, transport_security=security, session_idle_timeout=_IDLE_SECONDS
    )
    return app if token is None else _Bearer(app, token)


class _Bearer:
    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = Headers(scope=scope).get("authorization", "").encode("latin-1", "replace")
            if not hmac.compare_digest(given, self._token):
                refusal = Response("Unauthorized", 401, {"www-authenticate": "Bearer"})
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)
