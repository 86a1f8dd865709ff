"""Content addressing: a body may be replaced by its BLAKE3 digest (lcp-wire 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tokenbox.errors import needing
from tokenbox.lcp.errors import (
    DecompressionBomb,
    DigestMismatch,
    MissingContentStore,
    UnexpectedEof,
    UnresolvedReference,
)

if TYPE_CHECKING:
    from tokenbox.lcp.frames import Bytes

DIGEST_SIZE = 32


class ContentStore(Protocol):
    """A store of bodies by digest. ``put`` is idempotent."""

    def get(self, digest: bytes, /) -> bytes | None:
        """Return the body with that digest, or None if it is not stored."""
        ...

    def put(self, digest: bytes, body: bytes, /) -> None:
        """Store ``body`` under its digest."""
        ...


class MemoryStore:
    """A content store in memory."""

    def __init__(self) -> None:
        self._bodies: dict[bytes, bytes] = {}

    def get(self, digest: bytes) -> bytes | None:
        return self._bodies.get(digest)

    def put(self, digest: bytes, body: bytes) -> None:
        self._bodies.setdefault(digest, body)

    def __len__(self) -> int:
        return len(self._bodies)


def body_digest(body: Bytes) -> bytes:
    """Return the BLAKE3 digest (32 bytes) of an uncompressed body: its summary, if any, and its fields."""
    with needing("a pack with references", "bcp"):
        from blake3 import blake3
    return blake3(body).digest()


def resolve(reference: Bytes, store: ContentStore | None, limit: int) -> tuple[bytes, bytes]:
    """Return ``(digest, body)`` of a reference, at most ``limit`` bytes, without checking the digest.

    Raises, in this order, :class:`MissingContentStore`, :class:`UnexpectedEof` (it is not 32 bytes long),
    :class:`UnresolvedReference`, and ``DecompressionBomb`` for a body over the limit.
    """
    if store is None:
        raise MissingContentStore("reading a pack with references")
    if len(reference) != DIGEST_SIZE:
        raise UnexpectedEof(
            len(reference), f"a reference of {len(reference):,} bytes, where one has {DIGEST_SIZE}"
        )
    digest = bytes(reference)
    body = store.get(digest)
    if body is None:
        raise UnresolvedReference(digest=digest)
    if len(body) > limit:
        raise DecompressionBomb(actual=len(body), limit=limit)
    return digest, body


def check_digest(digest: bytes, body: Bytes) -> None:
    """Raise :class:`DigestMismatch` unless ``body`` has this digest."""
    found = body_digest(body)
    if found != digest:
        raise DigestMismatch(digest=digest, found=found)
