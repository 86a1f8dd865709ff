"""The chunks of a request: texts, sections, blocks or messages, parsed from a caller's values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tokenbox.compose.layout import SEPARATOR
from tokenbox.content.blocks import Block
from tokenbox.content.items import Item, read_item
from tokenbox.content.message import InvalidMessage, Message, Object, thaw
from tokenbox.content.request import INPUT_KEYS, Api, Request, in_parts
from tokenbox.content.section import Section
from tokenbox.content.tool_objects import checked_tools
from tokenbox.errors import several
from tokenbox.policy.errors import InvalidChunks

if TYPE_CHECKING:
    Chunk = str | Section | Block | Item | Message | Mapping[str, object]


class ChunkKind(StrEnum):
    """The kind of all chunks of a request. A string is a flexible section."""

    SECTIONS = "sections"
    BLOCKS = "blocks"
    MESSAGES = "messages"


@dataclass(frozen=True)
class Chunks:
    """The chunks of one request, all of one kind.

    ``items`` are strings or sections, blocks, or the items of a conversation, one for each that the caller
    gave. ``fields``: the other fields of a request of messages that may cost tokens. ``head``: the number of
    items that come from a field, such as Anthropic's ``system``. ``api``: the shape of the request.
    """

    kind: ChunkKind
    items: tuple[Any, ...]
    separator: str = SEPARATOR
    tools: tuple[Mapping[str, object], ...] = ()
    fields: Object = field(default_factory=Object)
    head: int = 0
    api: Api = Api.CHAT

    def request(self, items: Sequence[Item]) -> Request:
        """Return the request with these items in place of its own."""
        made = Request.of_items(items, self.tools or None, thaw(self.fields))
        return made if self.api is Api.CHAT else replace(made, api=self.api, verbatim=False)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The contents of sections."""
        return tuple([item if isinstance(item, str) else item.content for item in self.items])

    @property
    def have_roles(self) -> bool:
        """Whether these are sections that can be sent as messages: each has a role."""
        return self.kind is ChunkKind.SECTIONS and bool(self.items) and all(map(_role, self.items))

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """A name for each chunk: the id of a section, the position of others."""
        return tuple(
            item.id if isinstance(item, Section) else self._name(i) for i, item in enumerate(self.items)
        )

    def _name(self, i: int) -> str:
        return "system" if i < self.head else f"{_NAMES[self.kind]}[{i - self.head}]"

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The items as sections. A string is a flexible one: ``shrink`` 1."""
        return tuple(
            Section(name, item, shrink=1) if isinstance(item, str) else item
            for name, item in zip(self.ids, self.items, strict=True)
        )


def _role(item: str | Section) -> str | None:
    return None if isinstance(item, str) else item.role


_NAMES = {ChunkKind.SECTIONS: "chunk", ChunkKind.BLOCKS: "block", ChunkKind.MESSAGES: "message"}


def read_chunks(
    chunks: Iterable[Chunk] | Mapping[str, object] | Chunks,
    separator: str = SEPARATOR,
    tools: Sequence[object] | None = None,
) -> Chunks:
    """Parse the chunks of a request.

    Strings and sections go together; blocks, and chat messages, only with their own kind. A mapping with an
    ``id`` and a ``content`` is a section; one with a ``role`` or a ``type`` is a message of any API, and so
    are the objects of libraries. ``tools`` are schemas, or the tool objects of a library, that go with
    messages. A mapping with messages or an input is a whole request: its messages are the chunks, and all
    its fields are counted. Raises :class:`InvalidChunks`, or the error of an invalid chunk.
    """
    if isinstance(chunks, Chunks):
        return chunks
    if isinstance(chunks, Mapping) and not INPUT_KEYS.isdisjoint(chunks):
        return _whole_request(chunks, separator, tools)
    listed = several(chunks)
    if listed is None:
        raise InvalidChunks(
            "chunks is a list of strings, sections, blocks or messages, or a whole request, not "
            f"{type(chunks).__name__}. For one text give a list of one."
        )
    if type(separator) is not str:
        raise InvalidChunks(f"a separator is text, not {type(separator).__name__}.")
    kinds: dict[ChunkKind, int] = {}
    items: list[Any] = []
    given = tuple(listed)
    if set(map(type, given)) == {str}:  # the usual case of many chunks
        return _checked(Chunks(ChunkKind.SECTIONS, given, separator), tools)
    for position, chunk in enumerate(given):
        kind, item = _read(chunk, position)
        kinds.setdefault(kind, position)
        items.append(item)
    if len(kinds) > 1:
        places = ", ".join(f"{kind} (the first at {position})" for kind, position in kinds.items())
        raise InvalidChunks(
            f"the chunks are of several kinds: {places}. Give one kind, or ask once for each.",
            kinds=[kind.value for kind in kinds],
        )
    kind = next(iter(kinds), ChunkKind.SECTIONS)
    request = _checked(Chunks(kind, tuple(items), separator), tools)
    if request.kind is ChunkKind.SECTIONS and len(set(request.ids)) < len(request.ids):
        twice = Counter(request.ids).most_common(1)[0][0]
        raise InvalidChunks(f"two chunks have the id {twice!r}. Ids are unique.", id=twice)
    return request


def _checked(request: Chunks, tools: Sequence[object] | None) -> Chunks:
    """Return the request with the tools, which only messages have."""
    schemas = checked_tools(tools)
    if schemas and request.kind is not ChunkKind.MESSAGES:
        raise InvalidChunks(f"tools go with messages, not with {request.kind.value}.")
    return replace(request, tools=tuple(schemas)) if schemas else request


def _whole_request(body: Mapping[str, Any], separator: str, tools: Sequence[object] | None) -> Chunks:
    parts = in_parts(body if tools is None else {**body, "tools": tools})
    items = (*parts.head, *parts.items)
    return Chunks(
        ChunkKind.MESSAGES, items, separator, tuple(parts.tools), parts.fields, len(parts.head), parts.api
    )


def _read(chunk: object, position: int) -> tuple[ChunkKind, object]:
    if isinstance(chunk, str | Section):
        return ChunkKind.SECTIONS, chunk
    if isinstance(chunk, Item):
        return ChunkKind.MESSAGES, chunk
    if isinstance(chunk, Block):
        return ChunkKind.BLOCKS, chunk
    if isinstance(chunk, Mapping) and "type" not in chunk and ("role" not in chunk or "id" in chunk):
        return ChunkKind.SECTIONS, Section.of(chunk, position)
    try:
        return ChunkKind.MESSAGES, read_item(chunk)
    except InvalidMessage as error:
        if isinstance(chunk, Mapping):
            raise InvalidMessage(f"messages[{position}]: {error.message}", index=position) from None
    raise InvalidChunks(
        f"chunk {position} is {type(chunk).__name__}: give a string, a section (or a mapping with id and "
        "content), a block, or a message (a mapping with role, or a message object of a library).",
        position=position,
    )
