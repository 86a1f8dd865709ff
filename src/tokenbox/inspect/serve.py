"""Serves one page on this machine until interrupted."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

HOST: Final = "127.0.0.1"
_HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def serve(page: bytes, policy: str, port: int, ready: Callable[[str], object]) -> None:
    """Serve the page on the loopback address until interrupted. ``ready`` is called with its address.

    Port 0 takes any free port. Only a request whose Host is this machine is answered, so no other page can
    read it by DNS rebinding. Raises ``OSError`` if the port is taken.
    """
    with ThreadingHTTPServer((HOST, port), _handler(page, policy)) as server:
        server.daemon_threads = True
        ready(f"http://{HOST}:{server.server_port}/")
        server.serve_forever()


def _handler(page: bytes, policy: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers ``GET /`` and ``HEAD /``."""

        server_version = "tokenbox"
        sys_version = ""

        def do_GET(self) -> None:
            if self._answer():
                self.wfile.write(page)

        def do_HEAD(self) -> None:
            self._answer()

        def _answer(self) -> bool:
            assert isinstance(self.server, ThreadingHTTPServer)  # noqa: S101  # as started above
            port = self.server.server_port
            if self.headers.get("Host") not in {f"{HOST}:{port}", f"localhost:{port}"}:
                self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
                return False
            if self.path != "/":
                self.send_error(HTTPStatus.NOT_FOUND)
                return False
            self.send_response(HTTPStatus.OK)
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            self.send_header("Content-Security-Policy", f"{policy}; frame-ancestors 'none'")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            return True

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Handler
