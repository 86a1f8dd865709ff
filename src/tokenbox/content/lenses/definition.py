"""A definition in source code, as every way to read it returns it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

# Tags of XML and Javadoc comments, which no outline shows.
COMMENT_TAGS = re.compile(r"</?(?:summary|remarks|exclude|para|br|p) ?/?>")


class DefinitionRole(Enum):
    """The kind of a definition."""

    CONTAINER = auto()
    FUNCTION = auto()
    MEMBER = auto()


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition. ``first <= start < body <= last``: the starts of its comment, code and body; its end.

    ``is_signature``: all of it is its signature: an abstract method, a type alias, a record. An outline shows
    it as far as it is not very long, and not what is ``inside``.
    """

    name: str
    role: DefinitionRole
    first: int
    start: int
    body: int
    last: int
    note: str
    inside: tuple[Definition, ...] = ()
    is_signature: bool = False
