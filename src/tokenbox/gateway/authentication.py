"""Who may enter: keys from the store, remembered for a few seconds."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.services import Grant, bearer
from tokenbox.gateway.settings import Mode
from tokenbox.store.errors import StoreError
from tokenbox.store.keys import PREFIX, digest_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from tokenbox.gateway.asgi import Incoming
    from tokenbox.store.keys import GatewayKey, Keys
    from tokenbox.store.threads import StoreThreads

# A revoked key is refused this long after at the latest.
FRESH_SECONDS = 2.0
# While the store is away, a key that was good so recently is still good.
STALE_SECONDS = 300.0
# A store that did not answer is asked again after so long; until then, and while one asks, no other waits.
RETRY_SECONDS = 2.0
ASKING_SECONDS = 6.0
# Digests remembered, good and bad: guesses do not fill the memory, nor ask the store each time.
REMEMBERED = 10_000


class KeyAuthenticator:
    """Admits who has a key. ``clock`` gives the time that expiry is held against."""

    def __init__(self, keys: Keys, clock: Callable[[], datetime], threads: StoreThreads) -> None:
        self._keys = keys
        self._threads = threads
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, GatewayKey | None]] = OrderedDict()
        # While the store is away: until when good keys are not asked for.
        self._away_until: float | None = None

    async def admit(self, incoming: Incoming) -> Grant:
        secret = bearer(incoming)
        if secret is None:
            raise _unauthorized(
                "missing_key", "This gateway needs a key: send it as `Authorization: Bearer KEY`."
            )
        key = await self._find(secret) if secret.startswith(PREFIX) else None
        if key is None or not key.valid_at(self._clock()):
            raise _unauthorized("invalid_key", "The key is not known here, has expired or was revoked.")
        modes = frozenset(Mode(mode) for mode in key.modes) if key.modes else frozenset(Mode)
        # The first mode of a key that may not do all is its own.
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
        except StoreError:
            self._away_until = time.monotonic() + RETRY_SECONDS
            if good is not None:
                return good
            raise Refusal(
                503,
                "keys_unavailable",
                "Keys cannot be checked just now. Try again shortly.",
                headers=((b"retry-after", b"2"),),
            ) from None
        self._away_until = None
        self._known[digest] = (now, key)
        self._known.move_to_end(digest)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return key


def _unauthorized(code: str, message: str) -> Refusal:
    return Refusal(401, code, message, headers=((b"www-authenticate", b"Bearer"),))
