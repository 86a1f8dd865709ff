"""Which model on which server: the endpoint, as it was given and as it is used, and the key."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from tokenbox.providers.errors import InvalidTarget

_KEY: Final = re.compile(r"[\x21-\x7e]+")
_SHORTEST_TO_HIDE: Final = 4  # hiding every "a" in a server's text would hide nothing but its sense


class ApiKey:
    """A secret. It shows as ``***``, everywhere, and leaves only by :meth:`reveal`.

    Blanks at the ends are dropped, as a file or variable often has a final newline. Raises
    :class:`InvalidTarget` for what cannot stand in a header.
    """

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        value = value.strip()
        if not _KEY.fullmatch(value):
            raise InvalidTarget(
                f"the key cannot be sent: {len(value)} characters, "
                + ("none at all." if not value else "and not all of them printable ASCII.")
                + " Check the variable or keyring entry it comes from."
            )
        self.__value = value

    def reveal(self) -> str:
        return self.__value

    def hidden_in(self, text: str) -> str:
        """``text`` without the key: servers like to repeat it in their messages."""
        return text.replace(self.__value, "***") if len(self.__value) >= _SHORTEST_TO_HIDE else text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ApiKey) and self.__value == other.reveal()

    def __hash__(self) -> int:
        return hash(self.__value)

    def __repr__(self) -> str:
        return "ApiKey(***)"

    __str__ = __repr__

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a key is not written anywhere: give the name of its variable or keyring entry")


def root_of(endpoint: str) -> str:
    """The server's root: no trailing slash, no final ``/v1``. Raises :class:`InvalidTarget`.

    ``http://host:8080/``, ``http://host:8080/v1`` and ``http://host:8080`` are one endpoint. What is
    OpenAI's lives under ``/v1``; what is a server's own (``/tokenize``, ``/props``, ``/info``) does not:
    llama.cpp answers 404 to ``/v1/tokenize``.
    """
    try:
        parts = urlsplit(endpoint.strip())
        host, port = parts.hostname, parts.port
        (host or "").encode("idna")  # as the resolver will have it
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in {"http", "https"} or not host or re.search(r"[\s\x00-\x1f]", endpoint.strip()):
        # The text is not shown: a misplaced key may be in it.
        raise InvalidTarget("the endpoint is not a URL like http://127.0.0.1:8080 or https://api.openai.com.")
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidTarget(
            f"the endpoint at {host} has a user, password, query or fragment in it. "
            "Give scheme, host, port and path only; a key has a setting of its own."
        )
    name = f"[{host}]" if ":" in host else host
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{name}{'' if port is None else f':{port}'}{path}"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds on time and size. Seconds and bytes."""

    probe_seconds: float = 2.0  # for a count, or a question about the server
    connect_seconds: float = 10.0
    idle_seconds: float = 300.0  # between two pieces of an answer; the first may wait for a long prompt
    total_seconds: float = 3600.0
    answer_bytes: int = 32 * 1024 * 1024
    event_bytes: int = 8 * 1024 * 1024  # one event of a stream
    stream_bytes: int = 256 * 1024 * 1024
    error_bytes: int = 64 * 1024  # of an error's body; the rest is not read


@dataclass(frozen=True, slots=True)
class Target:
    """A model on a server, and how it is to be counted. Nothing here asks the server anything.

    ``endpoint`` None: there is no server, and counts are local. ``kind`` is the name of the kind of server;
    ``auto`` is found out. ``tokenizer`` is the local tokenizer that
    counts when the server does not; without one, ``chars4``. ``use_tokenize_endpoint`` allows the server to
    be asked for counts; without it no count makes a request. ``context_window`` is what the user states; it
    is required of no server but is what Ollama is told as ``num_ctx``.
    """

    endpoint: str | None
    model: str
    kind: str = "auto"
    key: ApiKey | None = None
    tokenizer: str | None = None
    use_tokenize_endpoint: bool = False
    context_window: int | None = None
    bounds: Bounds = field(default=Bounds(), repr=False)

    @property
    def root(self) -> str:
        """See :func:`root_of`. Raises :class:`InvalidTarget`."""
        if self.endpoint is None:
            raise InvalidTarget(f"the model {self.model} has no endpoint. Set one to talk to it.")
        return root_of(self.endpoint)

    @property
    def counts_on_server(self) -> bool:
        """Whether the server may be asked for counts. Without an endpoint there is none to ask."""
        return self.use_tokenize_endpoint and self.endpoint is not None

    def hide(self, text: str) -> str:
        """``text`` without the key."""
        return text if self.key is None else self.key.hidden_in(text)
