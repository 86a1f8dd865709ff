"""How much memory the bodies of requests may take together: a bound on what is under way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tokenbox.gateway.refusals import Refusal

if TYPE_CHECKING:
    from types import TracebackType

# What a value of JSON takes at least, once it is read: an object of Python's, and its place in another.
_PER_VALUE = 64


@dataclass(slots=True)
class Bodies:
    """The bytes of all bodies under way in this process.

    A body that is the only one may pass the ``limit``: how large one may be, is bounded elsewhere.
    """

    limit: int
    used: int = 0

    def hold(self) -> Held:
        """A context: what one request has of them. All of it is given back at its end."""
        return Held(self)


@dataclass(slots=True)
class Held:
    """What the body of one request takes."""

    _bodies: Bodies
    _bytes: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.only(0)

    def more(self, count: int) -> None:
        """``count`` bytes came. Raises :class:`Refusal` (503) where others take the rest."""
        bodies = self._bodies
        others = bodies.used - self._bytes
        if others and bodies.used + count > bodies.limit:
            raise Refusal(
                503,
                "bodies_full",
                f"The requests under way take {bodies.used:,} of {bodies.limit:,} bytes. Try again shortly.",
                headers=((b"retry-after", b"1"),),
            )
        self._bytes += count
        bodies.used += count

    def values(self, count: int) -> None:
        """The body is about to be read into that many values, which take memory, too."""
        self.more(_PER_VALUE * count)

    def only(self, count: int) -> None:
        """It takes no more than this now."""
        self._bodies.used += count - self._bytes
        self._bytes = count
