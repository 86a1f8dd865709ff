"""The limits of a decoder, and its results: a pack, or events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeAlias

    from tokenbox.content.blocks import Block
    from tokenbox.lcp.frames import Frame, Header

MIB = 1 << 20

# The limits of the reference for writing and expanding (lcp-wire 4.2 and 5).
MAX_BODY = 16 * MIB
MAX_EXPANDED_BLOCK = 16 * MIB
MAX_EXPANDED_PAYLOAD = 256 * MIB

# Deeper than any real project, but safe for comparing and printing the values recursively.
MAX_TREE_DEPTH = 128


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
