"""The target of requests: a model on a server, with its endpoint and key."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from tokenbox.errors import shown
from tokenbox.providers.errors import InvalidTarget

_KEY: Final = re.compile(r"[\x21-\x7e]+")
# The length of the shortest key that is hidden. A shorter one may be a word of any text, as are EMPTY, ollama
# and lm-studio, which people give to servers without keys.
MIN_HIDDEN: Final = 12


@lru_cache(maxsize=64)
def spellings(key: str) -> re.Pattern[bytes]:
    """Match a key, also where JSON or a URL escapes its characters, as ``%2B`` is ``+``."""

    def spelt(one: str) -> str:
        if re.match(r"[\w.~-]", one):
            return re.escape(one)
        return rf"(?:\\?{re.escape(one)}|(?i:\\u00{ord(one):02x}|%{ord(one):02x}))"

    return re.compile("".join(map(spelt, key)).encode())


class ApiKey:
    """A secret. It is shown as ``***``; only :meth:`reveal` returns it.

    Surrounding white space is removed, because a file or variable often has a final newline. Raises
    :class:`InvalidTarget` for a key that cannot be in a header.
    """

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        value = value.strip()
        if not _KEY.fullmatch(value):
            reason = "is not printable ASCII" if value else "is empty"
            raise InvalidTarget(
                f"the key ({len(value)} characters) {reason}. Check its variable or keyring entry."
            )
        self.__value = value

    def reveal(self) -> str:
        return self.__value

    def hidden_in(self, text: str) -> str:
        """Return ``text`` without the key, which servers may repeat in messages."""
        if len(self.__value) < MIN_HIDDEN:
            return text
        data = text.encode("utf-8", "surrogatepass")
        return spellings(self.__value).sub(b"***", data).decode("utf-8", "surrogatepass")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ApiKey) and self.__value == other.reveal()

    def __hash__(self) -> int:
        return hash(self.__value)

    def __repr__(self) -> str:
        return "ApiKey(***)"

    __str__ = __repr__

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a key cannot be pickled: use the name of its variable or keyring entry")


_WITHOUT_SCHEME = re.compile(r"[a-z0-9.-]+:[0-9]{1,5}(/[a-z0-9/]*)?", re.IGNORECASE)


def root_of(endpoint: str) -> str:
    """Return the server's root, without a trailing slash or ``/v1``. Raises :class:`InvalidTarget`.

    ``http://host:8080/``, ``http://host:8080/v1`` and ``http://host:8080`` are the same endpoint. OpenAI's
    API is under ``/v1``; a server's own paths (``/tokenize``, ``/props``, ``/info``) are not: llama.cpp
    answers 404 to ``/v1/tokenize``.
    """
    try:
        parts = urlsplit(endpoint.strip())
        host, port = parts.hostname, parts.port
        (host or "").encode("idna")  # as for the resolver
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in {"http", "https"} or not host or re.search(r"[\s\x00-\x1f]", endpoint.strip()):
        # Only a scheme and a host are shown: any other text may be a misplaced key.
        address = endpoint.strip()
        given = f", not {shown(f'{parts.scheme}://{host}')}" if parts.scheme and host else ""
        hint = f" Write http://{address}" if _WITHOUT_SCHEME.fullmatch(address) else ""
        raise InvalidTarget(
            f"the endpoint must be a URL like http://127.0.0.1:8080 or https://api.openai.com{given}.{hint}"
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidTarget(
            f"the endpoint at {host} has a user, password, query or fragment. "
            "Use scheme, host, port and path only; the key is a separate setting."
        )
    name = f"[{host}]" if ":" in host else host
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{name}{'' if port is None else f':{port}'}{path}"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of time (seconds) and size (bytes)."""

    probe_seconds: float = 2.0  # for a count, or a question about the server
    connect_seconds: float = 10.0
    idle_seconds: float = 300.0  # between pieces of an answer, and before the first (a long prompt)
    total_seconds: float = 3600.0
    answer_bytes: int = 32 * 1024 * 1024
    event_bytes: int = 8 * 1024 * 1024  # per event of a stream
    stream_bytes: int = 256 * 1024 * 1024
    error_bytes: int = 64 * 1024  # of an error's body; the rest is not read


@dataclass(frozen=True, slots=True)
class Target:
    """A model on a server, and how to count its tokens. A value: it makes no requests.

    ``endpoint``: None for local counts only. ``kind``: the name of the kind of server; ``auto`` is detected.
    ``tokenizer``: the local tokenizer for when the server does not count (default: ``chars4``).
    ``use_tokenize_endpoint``: ask the server for counts; otherwise no count makes a request.
    ``context_window``: set by the user; Ollama receives it as ``num_ctx``.
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
        """Whether the server may be asked for counts."""
        return self.use_tokenize_endpoint and self.endpoint is not None

    def hide(self, text: str) -> str:
        """Return ``text`` without the key."""
        return text if self.key is None else self.key.hidden_in(text)
