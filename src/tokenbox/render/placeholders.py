"""The lines that replace omitted blocks: one block, or several of a priority class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tokenbox.content.block_kinds import BlockType
from tokenbox.render.templates import block_names, one_line

if TYPE_CHECKING:
    from tokenbox.content.blocks import Block

# The label and description of each block type, and the XML attribute for the description (lcp-wire 8.6).
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
    """Return the printed type of a block: ``code``, ``tool-result``, ..."""
    return _DESCRIPTIONS[block.type][0]


def block_description(block: Block) -> str:
    """Return the printed identification of a block: its path, title, role, ..., not escaped."""
    return _DESCRIPTIONS[block.type][1].format(**block_names(block))


def placeholder(block: Block, tokens: int, line: str, escape: Callable[[str], str]) -> str:
    """Return the line for a block of ``tokens`` tokens, from the template ``line``.

    ``escape`` escapes its description for the markup.
    """
    label, _, attribute = _DESCRIPTIONS[block.type]
    description = escape(one_line(block_description(block)))
    return line.format(label=label, attribute=attribute, description=description, tokens=tokens)


def merged_placeholder(priority: str, blocks: int, tokens: int, line: str) -> str:
    """Return the line for ``blocks`` blocks of a priority class, with ``tokens`` tokens in all."""
    return line.format(
        priority=priority, blocks=blocks, noun="block" if blocks == 1 else "blocks", tokens=tokens
    )
