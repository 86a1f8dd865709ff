"""A pack that was read, and the events it is read as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeAlias

    from tokenbox.content.blocks import Block
    from tokenbox.lcp.frames import Frame, Header


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
