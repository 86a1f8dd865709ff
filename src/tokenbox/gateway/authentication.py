"""Authentication: the keys of the store, cached for a few seconds, or none on the local machine."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tokenbox.config.trust import is_loopback
from tokenbox.gateway.refusals import Refusal, unauthorized, unavailable
from tokenbox.gateway.settings import GatewaySettings, Mode
from tokenbox.store.errors import StoreError
from tokenbox.store.keys import PREFIX, GatewayKey, Keys, digest_of

if TYPE_CHECKING:
    from datetime import datetime

    from tokenbox.gateway.incoming import Incoming
    from tokenbox.ledger.quota import Quota
    from tokenbox.store.threads import StoreThreads

# Cached keys are looked up again after this time, so a revoked key is refused within it.
FRESH_SECONDS = 2.0
# While the store is unavailable, a key that was valid this recently stays valid.
STALE_SECONDS = 300.0
# A store that failed is asked again after RETRY_SECONDS. Until then, and while one request asks it, for at
# most ASKING_SECONDS, requests with a known key do not wait.
RETRY_SECONDS = 2.0
ASKING_SECONDS = 6.0
# Names that nobody can register. A name without a dot is one, too.
_LOCAL_NAMES = (".localhost", ".local", ".internal")
# Cached digests, of valid and of unknown keys, so that guesses neither fill the memory nor reach the store
# each time.
_MOST_CACHED = 10_000
# The schemes of pages, and those of desktop applications (Electron's, Tauri's, editors'), which no page can
# have. A page in a frame or in a file has the origin "null".
_WEB = ("http", "https")
_APPS = ("app", "tauri", "vscode-webview", "vscode-file", "capacitor")
# The headers in which clients of OpenAI's, Anthropic's and Azure's APIs send keys. Anthropic accepts some
# keys only with a beta header.
AUTH_HEADERS = (b"authorization", b"x-api-key", b"api-key", b"anthropic-beta")


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of an authenticated client.

    ``key_id`` is None without keys. ``client_auth`` is the client's own key, in the headers it came in: it
    goes to an upstream that has no key of its own, and nowhere else. ``quotas`` are those of the key, its
    user and its team, each with the id that it is counted under.
    """

    key_id: str | None = None
    modes: frozenset[Mode] = frozenset(Mode)
    mode: Mode | None = None
    client_auth: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    quotas: tuple[tuple[str, Quota], ...] = ()
    key: GatewayKey | None = None

    def allows(self, model: str) -> bool:
        return self.key is None or self.key.allows(model)

    def may_observe(self, own: Mode) -> bool:
        """Whether a header may ask for the mode ``observe``, where ``own`` applies without the header."""
        return own is Mode.OBSERVE or (self.key is not None and Mode.OBSERVE in self.key.modes)

    def check(self, model: str) -> None:
        """Raise :class:`Refusal` (403) for a model that the key may not use."""
        if not self.allows(model):
            raise Refusal(
                403, "model_not_allowed", f"This key may not use the model {model[:100]!r}.", "model"
            )

    def served_as(self, name: str, settings: GatewaySettings) -> str:
        """Return the model that requests for ``name`` go to. Raises :class:`Refusal` (403)."""
        self.check(name)
        return settings.served_as(name)


class LocalAuthenticator:
    """Admits everyone without a key. It is used only on a loopback address.

    Browsers on this machine let pages of other sites send requests, too, and name their origin: those are
    refused, except for the sites in ``origins``.
    """

    def __init__(self, origins: Collection[str] = ()) -> None:
        self._origins = origins

    async def admit(self, incoming: Incoming) -> Grant:
        given = incoming.headers
        origin = given.get(b"origin", b"").decode("latin-1")
        if b"origin" in given and not self._allows(origin):
            raise Refusal(
                403,
                "foreign_origin",
                f"A page of {origin[:100]!r} asks, and without keys only this machine may. Name the page in "
                "gateway.cors_origins, or start the gateway with --keys.",
            )
        return Grant(client_auth=tuple((name, given[name]) for name in AUTH_HEADERS if name in given))

    def _allows(self, origin: str) -> bool:
        # "*" lets pages read answers of a gateway with keys; without keys it would open this machine.
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        is_page_of_here = parts.scheme in _WEB and is_loopback(parts.hostname or "")
        return origin in self._origins or is_page_of_here or parts.scheme in _APPS


class KeyAuthenticator:
    """Admits clients that have a valid key. ``clock`` gives the time that expiry is compared with."""

    def __init__(self, keys: Keys, clock: Callable[[], datetime], threads: StoreThreads) -> None:
        self._keys = keys
        self._threads = threads
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, GatewayKey | None]] = OrderedDict()
        # None while the store answers; else the time until which known keys are not looked up.
        self._away_until: float | None = None

    async def admit(self, incoming: Incoming) -> Grant:
        """Return the rights of the client's key. Raises :class:`Refusal` (401) for no key or a wrong one."""
        secret = bearer(incoming)
        if secret is None:
            raise unauthorized(
                "missing_key", "This gateway needs a key: send it as `Authorization: Bearer KEY`."
            )
        key = await self._find(secret) if secret.startswith(PREFIX) else None
        if key is None or not key.valid_at(self._clock()):
            raise unauthorized("invalid_key", "The key is not known here, has expired or was revoked.")
        modes = frozenset(Mode(mode) for mode in key.modes) if key.modes else frozenset(Mode)
        # The first mode of a key with limited modes is its default.
        own = Mode(key.modes[0]) if key.modes else None
        return Grant(key.id, modes, own, quotas=key.limits, key=key)

    async def _find(self, secret: str) -> GatewayKey | None:
        digest, now = digest_of(secret), time.monotonic()
        known = self._known.get(digest)
        if known is not None and now - known[0] < FRESH_SECONDS:
            return known[1]
        good = known[1] if known is not None and now - known[0] < STALE_SECONDS else None
        if self._away_until is not None:
            if good is not None and now < self._away_until:
                return good
            self._away_until = now + ASKING_SECONDS
        try:
            key = await self._threads.ask(self._keys.find, secret)
        except StoreError as error:
            self._away_until = time.monotonic() + RETRY_SECONDS
            if good is not None:
                return good
            message = "Keys cannot be checked now. Try again shortly."
            raise unavailable("keys_unavailable", message, 2, error.message) from None
        self._away_until = None
        self._known[digest] = (now, key)
        self._known.move_to_end(digest)
        while len(self._known) > _MOST_CACHED:
            self._known.popitem(last=False)
        return key


@lru_cache(maxsize=256)
def is_local_name(host: str) -> bool:
    """Whether a Host header has an address or a name that no page of the internet can have."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        ip_address(name)
    except ValueError:
        name = host.rpartition(":")[0] or host
        return "." not in name or name.lower().endswith(_LOCAL_NAMES)
    return True


def bearer(incoming: Incoming) -> str | None:
    """Return the key that a client sends, as a bearer token or in Anthropic's or Azure's header."""
    given = incoming.header(b"authorization")
    if given is not None and given[:7].lower() == "bearer ":
        return given[7:].strip() or None
    return incoming.header(b"x-api-key") or incoming.header(b"api-key")
