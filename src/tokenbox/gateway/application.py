"""The gateway as an ASGI application: routes, errors, CORS (the Fetch standard), start and stop.

``uvicorn --factory tokenbox.gateway.application:application``, or the same with hypercorn or granian, reads
the settings of the current folder, and adds the endpoints of installed packages: entry points of the group
``tokenbox.endpoints``, each a function that takes the services of the gateway and returns
``(method, path, handler)``, with a handler like those of :mod:`tokenbox.gateway.routes`. ``tokenbox serve``
adds bounds on how slow a client may be, workers with common metrics, the operator's listener and reloads.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from tokenbox.compose.remembered import COUNTS
from tokenbox.config import load
from tokenbox.config.trust import is_loopback
from tokenbox.errors import TokenboxError
from tokenbox.gateway.admin import Admin
from tokenbox.gateway.asgi import Message, Receive, Reply, Send
from tokenbox.gateway.attempt import new_key
from tokenbox.gateway.authentication import is_local_name
from tokenbox.gateway.body_memory import BodyReservation
from tokenbox.gateway.configured import settings_from
from tokenbox.gateway.incoming import ClientGone, Incoming
from tokenbox.gateway.log import RequestLog
from tokenbox.gateway.protocols import PROTOCOLS, ErrorStyle
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.request import GatewayRequest
from tokenbox.gateway.routes import Routes
from tokenbox.gateway.services import GatewayServices, Stores

if TYPE_CHECKING:
    from pathlib import Path

    from tokenbox.gateway.settings import GatewaySettings


_MAX_AGE_SECONDS = b"600"


def preflight_headers(incoming: Incoming) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers of the answer to a preflight request."""
    asked = incoming.headers.get(b"access-control-request-headers", b"authorization, content-type")
    return (
        (b"access-control-allow-origin", incoming.headers[b"origin"]),
        (b"access-control-allow-methods", b"GET, POST"),
        (b"access-control-allow-headers", asked),
        (b"access-control-max-age", _MAX_AGE_SECONDS),
        (b"vary", b"origin, access-control-request-headers"),
    )


def with_cors(origin: str, send: Send) -> Send:
    """Wrap ``send`` so that a page of ``origin`` may read the answer and its headers.

    Credentials are not allowed: a page needs a key of its own.
    """
    added = {
        b"access-control-allow-origin": origin.encode("latin-1"),
        b"access-control-expose-headers": b"*",
        b"vary": b"origin",
    }

    async def send_with_cors(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message["headers"] if name not in added]
            message = {**message, "headers": [*kept, *added.items()]}
        await send(message)

    return send_with_cors


# A handler gets the request and its id.
Handler = Callable[[Incoming, str], Awaitable[Reply]]

_MAX_REQUEST_ID = 128


class Application:
    """An ASGI application with a table of routes. ``services`` logs internal errors.

    ``is_local``: only this machine may ask, so that a request that names another host is refused.
    """

    def __init__(self, services: GatewayServices, *, is_local: bool) -> None:
        self.services = services
        self.is_local = is_local
        self.routes: dict[tuple[str, str], Handler] = {}
        self._paths: set[str] = set()

    def add(self, method: str, path: str, handler: Handler) -> None:
        """Add a route. A path that ends with a name in braces matches everything below it."""
        self.routes[method, path] = handler
        self._paths.add(path)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":  # not supported: a close before the handshake is answered with 403
            await receive()
            await send({"type": "websocket.close", "code": 1000})
        elif scope["type"] == "http":
            with BodyReservation(self.services.body_memory) as memory:
                incoming = Incoming.of(scope, receive, memory)
                await self.answer(incoming, send, _request_id(incoming))

    def is_foreign(self, incoming: Incoming) -> bool:
        """Whether a page asks whose name was made to lead to this machine, where only this machine may ask.

        To the browser it is a page of the gateway's own site, so that it need not name its origin.
        """
        host = incoming.header(b"host")
        return self.is_local and host is not None and not is_local_name(host)

    async def answer(self, incoming: Incoming, send: Send, request_id: str) -> None:
        """Answer by the route, or with an error in the shape of the API that the path belongs to."""
        style = ErrorStyle.ANTHROPIC if incoming.path.startswith("/v1/messages") else ErrorStyle.OPENAI
        try:
            reply = await self._handle(incoming, request_id)
        except ClientGone:
            return
        except Refusal as refusal:
            reply = refusal.reply(style, request_id)
        except Exception as error:  # noqa: BLE001  # logged, and answered in the API's shape
            reply = self.services.internal_error(error).reply(style, request_id)
        await replace(reply, headers=(*reply.headers, (b"x-request-id", request_id.encode()))).send(send)

    async def _handle(self, incoming: Incoming, request_id: str) -> Reply:
        """Return the reply of the route. Raises :class:`Refusal` (404, 405) if there is no such route."""
        if self.is_foreign(incoming):
            raise Refusal(
                403,
                "foreign_host",
                f"Only this machine may ask here, not {str(incoming.header(b'host'))[:100]!r}. "
                "Use 127.0.0.1, or start the gateway with --keys.",
            )
        # The server drops the body of an answer to HEAD.
        method = "GET" if incoming.method == "HEAD" else incoming.method
        handler = self.routes.get((method, self.route_path(incoming.path)))
        if handler is None:
            raise self._no_route(incoming)
        return await handler(incoming, request_id)

    def route_path(self, path: str) -> str:
        """Return the path as the table of routes spells it, such as ``/v1/models/{model}``."""
        if path in self._paths:
            return path
        roots = {known.partition("{")[0]: known for known in self._paths if "{" in known}
        found = [root for root in roots if path.startswith(root) and path != root]
        return roots[max(found, key=len)] if found else path

    def _no_route(self, incoming: Incoming) -> Refusal:
        listed = self.route_path(incoming.path)
        if listed in self._paths:
            methods = {method for method, path in self.routes if path == listed}
            if listed in PROTOCOLS:
                methods.add("POST")
            if "GET" in methods:
                methods.add("HEAD")
            allowed = sorted(methods)
            return Refusal(
                405,
                "method_not_allowed",
                f"{incoming.path} takes {' and '.join(allowed)}, not {incoming.method}.",
                headers=((b"allow", ", ".join(allowed).encode()),),
            )
        with_version = f"/v1{incoming.path}"
        hint = (
            f"The base URL ends in /v1: {with_version}"
            if with_version in self._paths
            else "GET /openapi.json lists the routes."
        )
        return Refusal(404, "not_found", f"There is no {incoming.method} {incoming.path}. {hint}")


class Gateway(Application):
    """The gateway: its own routes, and the routes of the APIs in ``PROTOCOLS``."""

    def __init__(self, services: GatewayServices) -> None:
        super().__init__(services, is_local=not services.settings.keys_required)
        self._paths |= set(PROTOCOLS)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def answer(self, incoming: Incoming, send: Send, request_id: str) -> None:
        origin, origins = incoming.header(b"origin"), self.services.settings.cors_origins
        if origin is not None and (origin in origins or "*" in origins):
            if incoming.method == "OPTIONS" and b"access-control-request-method" in incoming.headers:
                await Reply(204, b"", preflight_headers(incoming)).send(send)
                return
            send = with_cors(origin, send)
        if incoming.method == "POST" and incoming.path in PROTOCOLS and not self.is_foreign(incoming):
            await GatewayRequest(self.services, incoming, send, request_id).run()
        else:
            await super().answer(incoming, send, request_id)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.services.open()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.services.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


def _request_id(incoming: Incoming) -> str:
    """Return the client's own id if it is short and printable, else a new one."""
    given = incoming.header(b"x-request-id")
    if given is not None and 0 < len(given) <= _MAX_REQUEST_ID and given.isascii() and given.isprintable():
        return given
    return f"req_{new_key()}"


# Building it.

GROUP: Final = "tokenbox.endpoints"


class EndpointProblem(TokenboxError, code="gateway_endpoint"):
    """An endpoint of another package cannot be added, so the gateway does not start."""


def add_plugin_endpoints(gateway: Gateway, services: GatewayServices) -> None:
    """Add the endpoints of installed packages. Raises :class:`EndpointProblem`."""
    for point in sorted(entry_points(group=GROUP)):
        try:
            for method, path, handler in point.load()(services):
                _check_free(gateway, method, path)
                gateway.add(method, path, handler)
        except Exception as error:
            raise EndpointProblem(
                f"the endpoint {point.name!r} of {point.value} cannot be added: "
                f"{type(error).__name__}: {error}. Update or remove the package that offers it.",
                endpoint=point.name,
            ) from error


def _check_free(gateway: Gateway, method: str, path: str) -> None:
    """Raise ``ValueError`` if the gateway itself answers there."""
    if (method, path) in gateway.routes or (method == "POST" and path in PROTOCOLS):
        raise ValueError(f"{method} {path} is taken")


# Characters of the texts whose counts a worker caches: about 15,000 messages of running conversations.
CACHED_CHARACTERS = 8_000_000


def application(folder: str = ".") -> Gateway:
    """Build the application from the settings of ``folder``.

    It cannot know from where the server is reached, so clients need keys unless ``gateway.keys`` is false.
    Raises ``ConfigError`` and the errors of the stores.
    """
    flags = {"gateway.keys": True} if load(folder).value("gateway.keys") is None else {}
    settings = settings_from(folder, flags)
    gateway, _ = gateway_of(settings, Stores.open(settings), RequestLog(sys.stderr.write))
    return gateway


def gateway_of(
    settings: GatewaySettings, stores: Stores, log: RequestLog, workers_folder: Path | None = None
) -> tuple[Gateway, GatewayServices]:
    """Build the gateway and its services. ``workers_folder`` is where several workers find each other."""
    COUNTS.limit(CACHED_CHARACTERS)
    services = GatewayServices(settings, stores, log, workers_folder)
    gateway = Gateway(services)
    Routes(services).add_to(gateway, operating=settings.admin_port is None)
    add_plugin_endpoints(gateway, services)
    return gateway, services


def admin_of(services: GatewayServices) -> Application:
    """Build the application of the operator's listener."""
    app = Application(services, is_local=is_loopback(services.settings.admin_host))
    Routes(services).add_operating_to(app)
    Admin(services).add_to(app)
    return app
