"""A bound on the memory that the bodies of all requests in progress may take together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tokenbox.gateway.refusals import unavailable

# Bytes that a parsed JSON value takes at least: a Python object and the reference to it.
_PER_VALUE = 64


@dataclass(slots=True)
class BodyMemory:
    """The bytes of all bodies in progress in this process.

    A single body may exceed ``limit``: the size of one body is bounded elsewhere.
    """

    limit: int
    used: int = 0


@dataclass(slots=True)
class BodyReservation:
    """The bytes held by the body of one request. As a context, it releases them at the end."""

    _bodies: BodyMemory
    _bytes: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.resize(0)

    def add(self, count: int) -> None:
        """Reserve ``count`` more bytes. Raises :class:`Refusal` (503) if other requests hold the rest."""
        bodies = self._bodies
        others = bodies.used - self._bytes
        if others and bodies.used + count > bodies.limit:
            message = (
                f"Requests in progress take {bodies.used:,} of {bodies.limit:,} bytes. Try again shortly."
            )
            raise unavailable("bodies_full", message, 1)
        self._bytes += count
        bodies.used += count

    def add_values(self, count: int) -> None:
        """Reserve memory for parsing the body into ``count`` values."""
        self.add(_PER_VALUE * count)

    def resize(self, count: int) -> None:
        """Hold ``count`` bytes from now on."""
        self._bodies.used += count - self._bytes
        self._bytes = count
