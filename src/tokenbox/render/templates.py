"""Templates of block types, and the values that they contain.

The full forms are byte for byte those of the LCP reference (lcp-wire 8.3), so a model sees the same text from
any implementation. The summary forms follow the reference's summary of a code block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
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
    from tokenbox.content.blocks import Block, TreeEntry


_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class BlockTemplate(NamedTuple):
    """The markup before and after a block's content, and before and after its summary."""

    before: str
    after: str
    before_summary: str
    after_summary: str = ""


# The values of ``{path}``, ``{role}`` and so on in templates.
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
    """Return the template values of a block, not escaped."""
    return {name: value(block) for name, value in _NAMES[block.type].items()}


def block_body(block: Block, escape: Callable[[str], str] = str) -> str:
    """Return the content of a full form, with U+FFFD for invalid UTF-8.

    ``escape`` is applied to the names of a file tree, because each must stay on its line.
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
    """Return one line per entry, with two spaces of indent per level (lcp-wire 8.4), at any depth."""
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
    """Return whether the block can be shown in full: its content is UTF-8, or is not a payload."""
    return isinstance(block, UnknownBlock) or not isinstance(block, PayloadBlock) or block.text is not None


def one_line(name: str) -> str:
    r"""Escape line ends and control characters in a name: a newline becomes ``\x0a``."""
    return _CONTROLS.sub(lambda match: _escaped(match[0]), name)


def heading_name(name: str) -> str:
    """Return a name for a heading, on one line. A final ``(summary)`` is escaped: it marks summaries."""
    line = one_line(name)
    return f"{line[:-1]}\\)" if line.endswith("(summary)") else line


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # two digits
