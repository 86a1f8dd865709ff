"""The lines that stand for what is not shown: one block, or many of a class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.content.block_kinds import BlockType
from tokenbox.render.templates import block_names, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tokenbox.content.blocks import Block

# Type of block: its label, its description, and the attribute that XML gives the description (lcp-wire 8.6;
# ``path`` where the block has one).
_DESCRIPTIONS: Mapping[BlockType | None, tuple[str, str, str]] = {
    BlockType.CODE: ("code", "{path}", "path"),
    BlockType.CONVERSATION: ("conversation", "{role} turn", "desc"),
    BlockType.FILE_TREE: ("file-tree", "tree: {root}", "desc"),
    BlockType.TOOL_RESULT: ("tool-result", "{name}", "desc"),
    BlockType.DOCUMENT: ("document", "{title}", "desc"),
    BlockType.STRUCTURED_DATA: ("data", "{format} data", "desc"),
    BlockType.DIFF: ("diff", "{path}", "path"),
    BlockType.EMBEDDING_REF: ("block", "embedding: {model}", "desc"),
    BlockType.IMAGE: ("image", "{alt}", "desc"),
    BlockType.EXTENSION: ("extension", "{ns}/{kind}", "desc"),
    None: ("block", "unknown 0x{id}", "desc"),
}


def block_label(block: Block) -> str:
    """What kind of block it is, for people: ``code``, ``tool-result``, ..."""
    return _DESCRIPTIONS[block.type][0]


def block_description(block: Block) -> str:
    """Which block it is, for people: its path, title, role, ... as it came."""
    return _DESCRIPTIONS[block.type][1].format(**block_names(block))


def placeholder(block: Block, tokens: int, line: str, escape: Callable[[str], str]) -> str:
    """The line for one block that counts ``tokens``, by the template ``line``.

    ``escape`` makes its description safe in this markup.
    """
    label, _, attribute = _DESCRIPTIONS[block.type]
    description = escape(one_line(block_description(block)))
    return line.format(label=label, attribute=attribute, description=description, tokens=tokens)


def merged_placeholder(priority: str, blocks: int, tokens: int, line: str) -> str:
    """The line for ``blocks`` blocks of a priority class that count ``tokens`` together."""
    return line.format(
        priority=priority, blocks=blocks, noun="block" if blocks == 1 else "blocks", tokens=tokens
    )
