"""The inputs of relevance: documents, and pieces of them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class DocumentRole(StrEnum):
    """The role of a document: it defines names that others use, only uses them, or neither."""

    SOURCE = "source"
    TEST = "test"
    OTHER = "other"


class Document(NamedTuple):
    """A text with a path (or a title). ``percent``: the prior of its kind, relative to source code.

    ``defines``: the names that it defines, if they are known. ``if_about``: the prior if the query is about
    the document. ``lines``: the number by which a query names each line, if lines were removed.
    """

    path: str
    data: bytes
    percent: int = 100
    role: DocumentRole = DocumentRole.SOURCE
    defines: Sequence[bytes] | None = None
    if_about: int = 0
    lines: Sequence[int] | None = None


class PieceSpan(NamedTuple):
    """A piece of a document: bytes ``start`` to ``end``, lines ``first`` to ``last`` (from 0; ends excluded).

    ``names``: of the definitions in it. ``within``: of the definitions around it, outermost first.
    ``is_notice``: it is the license at the top of the document.
    """

    start: int
    end: int
    first: int = 0
    last: int = 0
    names: Sequence[str] = ()
    within: Sequence[str] = ()
    is_notice: bool = False
