"""What a reader accepts, and what it gives: a pack, or the events it is read as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeAlias

    from tokenbox.content.blocks import Block
    from tokenbox.lcp.frames import Frame, Header

MIB = 1 << 20

# lcp-wire 4.2 and 5: what the reference writes and expands at most.
MAX_BODY = 16 * MIB
MAX_EXPANDED_BLOCK = 16 * MIB
MAX_EXPANDED_PAYLOAD = 256 * MIB

# Deeper than any real project, and far from where comparing or printing the values would recurse too deep.
MAX_TREE_DEPTH = 128


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes.

    ``frame``: the size a block may announce (as stored); None for no limit but the input itself.
    ``expanded_block``: what a compressed block may expand to, and what a store may return for a reference.
    ``expanded_payload``: what a pack compressed as a whole may expand to, and, apart from that, what its
    compressed blocks and references may expand to together. ``tree_depth``: levels of a file
    tree, at most 128. ``elements``: blocks, tree entries and hunks of one pack together; each takes a few
    hundred bytes of memory for as few as three in the pack.
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
    """A whole pack; ``frames[i]`` says how ``blocks[i]`` was stored. END is not among them."""

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
    """END was read, after ``blocks`` blocks. ``offset`` is where it ends. The last event of every pack."""

    blocks: int
    offset: int


Event: TypeAlias = HeaderEvent | BlockEvent | EndEvent
