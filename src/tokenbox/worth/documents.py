"""What relevance is measured of: documents, and pieces of them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class DocumentRole(Enum):
    """Whether a document defines what others use, only uses it, or neither."""

    SOURCE = "source"
    TEST = "test"
    OTHER = "other"


class Document(NamedTuple):
    """A text with a path (or a title). ``percent``: what its kind is worth beside source code.

    ``defines``: the names that it defines, where they are known already.
    """

    path: str
    data: bytes
    percent: int = 100
    role: DocumentRole = DocumentRole.SOURCE
    defines: Sequence[bytes] | None = None


class PieceSpan(NamedTuple):
    """A piece of a document.

    Bytes ``start`` to ``end``, lines ``first`` to ``last`` (from 0, ``last``
    excluded).

    ``names`` are defined there, ``within`` encloses it.
    """

    start: int
    end: int
    first: int = 0
    last: int = 0
    names: Sequence[str] = ()
    within: Sequence[str] = ()
