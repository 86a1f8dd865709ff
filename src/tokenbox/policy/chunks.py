"""What a request is made of: texts, sections, blocks or messages, read from what a caller gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tokenbox.compose.lay_out import SEPARATOR
from tokenbox.content.section import Section
from tokenbox.policy.errors import InvalidChunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.content.blocks import Block
    from tokenbox.content.message import Message

    Chunk = str | Section | Block | Message | Mapping[str, object]


class Kind(StrEnum):
    """What all chunks of a request are. A string is a flexible section."""

    SECTIONS = "sections"
    BLOCKS = "blocks"
    MESSAGES = "messages"


@dataclass(frozen=True)
class Request:
    """The chunks of one request, all of one kind. ``items`` are strings or sections, blocks, or messages."""

    kind: Kind
    items: tuple[Any, ...]
    separator: str = SEPARATOR
    tools: tuple[Mapping[str, object], ...] = ()

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Of sections: their contents."""
        return tuple(item if isinstance(item, str) else item.content for item in self.items)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """A name for each chunk: of a section its id, of others where it stands."""
        return tuple(
            item.id if isinstance(item, Section) else f"{_NAMES[self.kind]}[{i}]"
            for i, item in enumerate(self.items)
        )

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The items as sections. A string is a flexible one: ``shrink`` 1."""
        return tuple(
            Section(name, item, shrink=1) if isinstance(item, str) else item
            for name, item in zip(self.ids, self.items, strict=True)
        )


_NAMES = {Kind.SECTIONS: "chunk", Kind.BLOCKS: "block", Kind.MESSAGES: "message"}


def read_chunks(
    chunks: Iterable[Chunk] | Request,
    separator: str = SEPARATOR,
    tools: Sequence[Mapping[str, object]] | None = None,
) -> Request:
    """The request that ``chunks`` make.

    Strings and sections go together; blocks, and chat messages, only with their own kind. A mapping with an
    ``id`` is a section, one with a ``role`` a message. ``tools`` are the schemas that go with messages.
    Raises :class:`InvalidChunks`, or what is wrong with one of them.
    """
    if isinstance(chunks, Request):
        return chunks
    if isinstance(chunks, str | bytes | Mapping) or not isinstance(chunks, Iterable):
        raise InvalidChunks(
            f"chunks is a list of strings, sections, blocks or messages, not {type(chunks).__name__}. "
            "For one text give a list of one."
        )
    if type(separator) is not str:
        raise InvalidChunks(f"a separator is text, not {type(separator).__name__}.")
    kinds: dict[Kind, int] = {}
    items = []
    for position, chunk in enumerate(chunks):
        kind, item = _read(chunk, position)
        kinds.setdefault(kind, position)
        items.append(item)
    if len(kinds) > 1:
        places = ", ".join(f"{kind} (the first at {position})" for kind, position in kinds.items())
        raise InvalidChunks(
            f"the chunks are of several kinds: {places}. Give one kind, or ask once for each.",
            kinds=[kind.value for kind in kinds],
        )
    request = Request(next(iter(kinds), Kind.SECTIONS), tuple(items), separator, tuple(tools or ()))
    if request.tools and request.kind is not Kind.MESSAGES:
        raise InvalidChunks(f"tools go with messages, not with {request.kind.value}.")
    if request.kind is Kind.SECTIONS and len(set(request.ids)) < len(request.ids):
        twice = next(name for i, name in enumerate(request.ids) if name in request.ids[:i])
        raise InvalidChunks(f"two chunks have the id {twice!r}. Ids are unique.", id=twice)
    return request


def _read(chunk: object, position: int) -> tuple[Kind, object]:
    if isinstance(chunk, str):
        return Kind.SECTIONS, chunk
    if isinstance(chunk, Section):
        return Kind.SECTIONS, chunk
    from tokenbox.content.blocks import Block  # noqa: PLC0415  # strings and sections do not need them
    from tokenbox.content.message import Message  # noqa: PLC0415

    if isinstance(chunk, Block):
        return Kind.BLOCKS, chunk
    if isinstance(chunk, Message):
        return Kind.MESSAGES, chunk
    if isinstance(chunk, Mapping):
        if "role" in chunk and "id" not in chunk:
            return Kind.MESSAGES, _message(chunk, position)
        return Kind.SECTIONS, Section.of(chunk, position)
    raise InvalidChunks(
        f"chunk {position} is {type(chunk).__name__}: give a string, a section (or a mapping with id and "
        "content), a block, or a message (or a mapping with role).",
        position=position,
    )


def _message(chunk: Mapping[str, object], position: int) -> Message:
    from tokenbox.content.message import InvalidMessage, Message  # noqa: PLC0415

    try:
        return Message.of(chunk)
    except InvalidMessage as error:
        raise InvalidMessage(f"messages[{position}]: {error.message}", index=position) from None
