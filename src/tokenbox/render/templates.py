"""How a type of block is written: the form of a template, and what goes into it.

The full forms are, byte for byte, those of the LCP reference (lcp-wire 8.3): a model sees the same text
whichever program rendered the pack. The summary forms follow its summary of a code block.
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from tokenbox.content.block_kinds import BlockType, EntryKind
from tokenbox.content.blocks import (
    DiffBlock,
    FileTreeBlock,
    PayloadBlock,
    UnknownBlock,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tokenbox.content.blocks import Block, TreeEntry


_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class BlockTemplate(NamedTuple):
    """What stands before and after a block's content, and before and after its summary."""

    before: str
    after: str
    before_summary: str
    after_summary: str = ""


# What the templates call ``{path}``, ``{role}`` and so on.
_NAMES: Mapping[BlockType | None, Mapping[str, Callable[[Any], str]]] = {
    BlockType.CODE: {"lang": attrgetter("lang.display"), "path": attrgetter("path")},
    BlockType.CONVERSATION: {
        "role": attrgetter("role.display"),
        "Role": lambda block: block.role.display.capitalize(),
    },
    BlockType.FILE_TREE: {"root": attrgetter("root_path")},
    BlockType.TOOL_RESULT: {"name": attrgetter("tool_name"), "status": attrgetter("status.display")},
    BlockType.DOCUMENT: {"title": attrgetter("title"), "format": attrgetter("format_hint.display")},
    BlockType.STRUCTURED_DATA: {"format": attrgetter("format.display")},
    BlockType.DIFF: {"path": attrgetter("path")},
    BlockType.EMBEDDING_REF: {"model": attrgetter("model")},
    BlockType.IMAGE: {"media": attrgetter("media_type.display"), "alt": attrgetter("alt_text")},
    BlockType.EXTENSION: {"ns": attrgetter("namespace"), "kind": attrgetter("kind")},
    None: {"id": lambda block: f"{block.type_id:02X}"},
}


def block_names(block: Block) -> dict[str, str]:
    """The names of a block that its markup shows, not yet made safe for a mode."""
    return {name: value(block) for name, value in _NAMES[block.type].items()}


def block_body(block: Block, escape: Callable[[str], str] = str) -> str:
    """The text a full form holds between its markup; bad UTF-8 as U+FFFD.

    ``escape`` is applied to the names of a file tree: each must stay on its line.
    """
    match block:
        case FileTreeBlock():
            return tree_lines(block.entries, escape)
        case DiffBlock():
            return "".join(hunk.lossy_text for hunk in block.hunks)
        case PayloadBlock():
            return block.lossy_text
    return ""


def tree_lines(entries: Sequence[TreeEntry], escape: Callable[[str], str] = str) -> str:
    """A line per entry, two spaces of indent per level (lcp-wire 8.4). Any depth."""
    lines: list[str] = []
    pending = [(entry, 0) for entry in reversed(entries)]
    while pending:
        entry, depth = pending.pop()
        indent, name = "  " * depth, escape(entry.name)
        if entry.kind is EntryKind.DIRECTORY:
            lines.append(f"{indent}{name}/\n")
            pending += [(child, depth + 1) for child in reversed(entry.children)]
        else:
            lines.append(f"{indent}{name} ({entry.size} bytes)\n")
    return "".join(lines)


def is_text(block: Block) -> bool:
    """Whether the block's content is UTF-8, as its full form requires where that is a payload of text."""
    return isinstance(block, UnknownBlock) or not isinstance(block, PayloadBlock) or block.text is not None


def one_line(name: str) -> str:
    r"""The name without characters that end a line or control a screen: ``\x0a`` stands for a newline."""
    return _CONTROLS.sub(lambda match: _written(match[0]), name)


def heading_name(name: str) -> str:
    """A name in a heading: on one line, and without what would make a block in full look like its summary."""
    line = one_line(name)
    return f"{line[:-1]}\\)" if line.endswith("(summary)") else line


def _written(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004  # the last of two digits
