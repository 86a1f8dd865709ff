"""The decoder of packs, for a stream of bytes or a whole pack (lcp-wire section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.content.blocks import Block, UnknownBlock
from tokenbox.errors import TokenboxError
from tokenbox.lcp.addressing import check_digest, resolve
from tokenbox.lcp.bodies import BODIES, BodyReader
from tokenbox.lcp.compression import Expander, expanded
from tokenbox.lcp.errors import (
    DecodeError,
    DecompressionBomb,
    DigestMismatch,
    FrameTooLarge,
    LcpError,
    MissingEndSentinel,
    TooManyElements,
    TrailingData,
    UnexpectedEof,
)
from tokenbox.lcp.frames import (
    COMPRESSED,
    END_TYPE,
    HAS_SUMMARY,
    HEADER_SIZE,
    IS_REFERENCE,
    MAX_BODY,
    MAX_EXPANDED_BLOCK,
    MAX_EXPANDED_PAYLOAD,
    MAX_TREE_DEPTH,
    Frame,
    read_frame_head,
    read_header,
    read_varint,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    from tokenbox.lcp.addressing import ContentStore
    from tokenbox.lcp.frames import Bytes, Header


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a decoder. Sizes are in bytes.

    ``frame``: the stored size of a block; None for no limit except the input itself. ``expanded_block``: the
    expanded size of a compressed block, or the size of a referenced body. ``expanded_payload``: the expanded
    size of a pack compressed as a whole, and, separately, the total size of its compressed blocks and
    references. ``tree_depth``: the levels of a file tree, at most 128. ``elements``: the blocks, tree entries
    and hunks of a pack in all; each needs a few hundred bytes of memory for as few as three in the pack.
    """

    frame: int | None = MAX_BODY
    expanded_block: int = MAX_EXPANDED_BLOCK
    expanded_payload: int = MAX_EXPANDED_PAYLOAD
    tree_depth: int = MAX_TREE_DEPTH
    elements: int = 1_000_000

    def __post_init__(self) -> None:
        if not 1 <= self.tree_depth <= MAX_TREE_DEPTH:
            raise ValueError(f"tree_depth is 1 to {MAX_TREE_DEPTH}, not {self.tree_depth}")


@dataclass(frozen=True, slots=True)
class Pack:
    """A decoded pack. ``frames[i]`` is the frame of ``blocks[i]``. END is not included."""

    header: Header
    blocks: tuple[Block, ...]
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class HeaderEvent:
    """The header was read. The first event of every pack."""

    header: Header


@dataclass(frozen=True, slots=True)
class BlockEvent:
    """A block was read; ``index`` from 0."""

    index: int
    block: Block
    frame: Frame


@dataclass(frozen=True, slots=True)
class EndEvent:
    """END was read, after ``blocks`` blocks. ``offset``: its end. The last event of every pack."""

    blocks: int
    offset: int


Event: TypeAlias = HeaderEvent | BlockEvent | EndEvent


def decode(data: Bytes, store: ContentStore | None = None, *, limits: Limits | None = None) -> Pack:
    """Decode the pack in ``data``, which must contain nothing else. Raises an ``LcpError``.

    The result is that of :class:`Decoder`, but ``limits.frame`` is None by default, because ``data`` itself
    is the limit.
    """
    decoder = Decoder(store, limits=Limits(frame=None) if limits is None else limits)
    events = decoder.feed(data)
    decoder.finish()
    header = next(event.header for event in events if isinstance(event, HeaderEvent))
    read = [event for event in events if isinstance(event, BlockEvent)]
    return Pack(header, tuple(event.block for event in read), tuple(event.frame for event in read))


class Decoder:
    """A streaming decoder: ``feed`` each chunk of a pack, then call ``finish``.

    The events do not depend on the chunks. An error is raised after the events before it were returned: by
    the same ``feed`` if it has no events, otherwise by the next call; every later call raises it again. Bytes
    after END are only counted, in ``trailing``, and ``finish`` raises ``TrailingData``; a caller that accepts
    them stops at the :class:`EndEvent`.

    It needs memory for the current block and the events of one ``feed``. In a pack compressed as a whole, a
    small chunk may expand to many blocks; :meth:`events` yields them one by one.
    """

    def __init__(self, store: ContentStore | None = None, *, limits: Limits | None = None) -> None:
        self._store = store
        self._limits = Limits() if limits is None else limits
        self._header: Header | None = None
        self._expander: Expander | None = None
        self._pending = bytearray()  # an incomplete item (header or frame)
        self._needed = HEADER_SIZE  # the size of the item in bytes, as far as is known
        self._offset = 0  # of the item in the pack
        self._events: list[Event] = []
        self._blocks = 0
        self._elements = 0
        self._room = self._limits.expanded_payload  # bytes left for compressed blocks and references
        self._bodies = BodyReader(self._limits.tree_depth, self._count_element)
        self._ended = False
        self._finished = False
        self._fault: TokenboxError | None = None
        self.trailing = 0

    def feed(self, data: Bytes) -> list[Event]:
        """Return the events that ``data`` completes. Raises an ``LcpError``, or an error of the store."""
        events: list[Event] = []
        try:
            for event in self.events(data):
                events.append(event)  # noqa: PERF402  # keeps the events before an error
        except TokenboxError:
            if not events:
                raise
        return events

    def events(self, data: Bytes) -> Iterator[Event]:
        """Yield the events of :meth:`feed` one at a time; consume all of them. Errors are raised at once."""
        if self._finished:
            raise ValueError("the decoder is finished; make a new one for another pack")
        self._raise_fault()
        try:
            view = memoryview(data).cast("B")  # of any buffer its bytes
        except TypeError:
            raise DecodeError(f"a pack is bytes, not {type(data).__name__}.") from None
        try:
            for _ in self._take(view):
                events, self._events = self._events, []
                yield from events
        except TokenboxError as error:
            self._fault = error
            yield from self._events
            self._events = []
            raise

    def finish(self) -> None:
        """End the input. Raises an ``LcpError`` unless it was exactly one pack."""
        self._finished = True
        self._raise_fault()
        if self._header is None:
            read_header(self._pending)  # raises UnexpectedEof
        if self._expander is not None:
            self._expander.finish()
        end = self._offset + len(self._pending)
        if self.trailing:
            raise TrailingData(extra=self.trailing, offset=self._offset)
        if self._pending:
            raise UnexpectedEof(end, "a block").located(self._blocks, 0)
        if not self._ended:
            raise MissingEndSentinel(offset=end)

    def _raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault.with_traceback(None)

    def _take(self, view: memoryview) -> Iterator[None]:
        """Read ``view``. Yield after each frame, so that its event can be returned."""
        if self._header is None:
            view = self._take_header(view)
            yield
        if self._header is None or not view:
            return
        if self._expander is None:
            yield from self._take_payload(view)
            return
        for part in self._expander.feed(view):
            yield from self._take_payload(memoryview(part))

    def _take_header(self, view: memoryview) -> memoryview:
        """Read the header if it is complete. Return the bytes after it."""
        rest = HEADER_SIZE - len(self._pending)
        self._pending += view[:rest]
        if len(self._pending) == HEADER_SIZE:
            self._header = read_header(self._pending)
            self._pending.clear()
            self._offset, self._needed = HEADER_SIZE, 0
            if self._header.compressed:
                self._expander = Expander(self._limits.expanded_payload)
            self._events.append(HeaderEvent(self._header))
        return view[rest:]

    def _take_payload(self, view: memoryview) -> Iterator[None]:
        """Read frames: complete ones in place. An incomplete one is copied until the rest arrives."""
        while self._pending and view:
            missing = max(self._needed - len(self._pending), 1)
            self._pending += view[:missing]
            view = view[missing:]
            if len(self._pending) >= self._needed:
                with memoryview(self._pending) as whole:
                    used = self._read_frame(whole, 0)
                if used:
                    self._pending.clear()
                    yield
        position = 0
        while not self._ended and (used := self._read_frame(view, position)):
            position += used
            yield
        if self._ended:
            self.trailing += len(view) - position
        else:
            self._pending += view[position:]

    def _read_frame(self, view: memoryview, start: int) -> int:
        """Read the frame at ``start`` and return its size; 0, with ``_needed`` set, if it is incomplete."""
        end = len(view)
        try:
            type_id, flags, size, body = read_frame_head(view, start, end)
        except UnexpectedEof:
            self._needed = end - start + 1
            return 0
        except LcpError as error:
            error.located(self._blocks, self._offset - start)
            raise
        if type_id == END_TYPE:
            self._ended = True
            self._offset += body - start
            self._events.append(EndEvent(self._blocks, self._offset))
            return body - start
        limit = self._limits.frame
        if limit is not None and size > limit:
            raise FrameTooLarge(size=size, limit=limit, offset=self._offset).located(self._blocks, 0)
        self._needed = body - start + size
        if self._needed > end - start:
            return 0
        self._read_block(type_id, flags, view[body : body + size], body - start)
        return self._needed

    def _read_block(self, type_id: int, flags: int, stored: memoryview, head_size: int) -> None:
        in_place = not flags & (IS_REFERENCE | COMPRESSED)
        start = self._offset + head_size
        try:
            self._count_element()
            body = stored if in_place else memoryview(self._resolved(flags, stored))
            self._room -= 0 if in_place else len(body)
        except LcpError as error:
            error.located(self._blocks, start)
            raise
        try:
            block = self._block(type_id, flags, body)
        except LcpError as error:
            error.located(self._blocks, start if in_place else None)
            raise
        frame = Frame(flags, self._offset, len(stored), len(body))
        self._events.append(BlockEvent(self._blocks, block, frame))
        self._blocks += 1
        self._offset = start + len(stored)

    def _resolved(self, flags: int, stored: memoryview) -> bytes | memoryview:
        """Return the body of a reference, a compressed body, or a compressed reference, within the limits."""
        if self._room >= self._limits.expanded_block:
            return self._resolved_to(self._limits.expanded_block, flags, stored)
        try:
            return self._resolved_to(self._room, flags, stored)
        except DecompressionBomb as error:
            limit = self._limits.expanded_payload
            raise DecompressionBomb(actual=limit - self._room + error.actual, limit=limit) from None

    def _resolved_to(self, limit: int, flags: int, stored: memoryview) -> bytes | memoryview:
        if not flags & IS_REFERENCE:
            return expanded(stored, limit)
        digest, body = resolve(stored, self._store, limit)
        if not flags & COMPRESSED:
            check_digest(digest, body)
            return body
        # No known writer does both. The digest may be of the stored body, or, by 4.3, of the expanded one.
        plain = expanded(body, limit)
        try:
            check_digest(digest, body)
        except DigestMismatch:
            check_digest(digest, plain)
        return plain

    def _block(self, type_id: int, flags: int, body: memoryview) -> Block:
        summary, position = None, 0
        if flags & HAS_SUMMARY:
            size, start = read_varint(body, 0, len(body))
            position = start + size
            if position > len(body):
                raise UnexpectedEof(len(body), f"a summary that announces {size:,} bytes")
            summary = str(body[start:position], "utf-8", "replace")
        message = BODIES.get(type_id)
        if message is None:
            return UnknownBlock(type_id, bytes(body[position:]), summary=summary)
        return self._bodies.read(body, position, message, summary)

    def _count_element(self) -> None:
        self._elements += 1
        if self._elements > self._limits.elements:
            raise TooManyElements(limit=self._limits.elements)
