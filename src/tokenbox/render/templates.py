"""The base of all renderers: the templates of block types, and how a block becomes unambiguous text.

The full forms are byte for byte those of the LCP reference (lcp-wire 8.3), so a model sees the same text from
any implementation. The summary forms follow the reference's summary of a code block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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


LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
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


def merged_placeholder(priority: str, blocks: int, tokens: int, line: str) -> str:
    """Return the line for ``blocks`` blocks of a priority class, with ``tokens`` tokens in all."""
    return line.format(
        priority=priority, blocks=blocks, noun="block" if blocks == 1 else "blocks", tokens=tokens
    )


class Framed(NamedTuple):
    """A printed form: markup, content, markup."""

    before: str
    body: str
    after: str

    @property
    def text(self) -> str:
        return self.before + self.body + self.after


@dataclass(frozen=True, slots=True)
class Markup:
    """A renderer. Its output is ``start``, the pieces with ``separator`` between them, and ``end``.

    Each piece is a form between ``before_piece`` and ``after_piece``. ``escape`` escapes a name. ``guard``
    returns a body that is safe inside this type of block, and the template fields for it. ``bodies`` parses
    the bodies from the output.
    """

    name: str
    templates: Mapping[BlockType | None, BlockTemplate]
    omitted: str
    """The line for an omitted block: ``{label}``, ``{attribute}``, ``{description}``, ``{tokens}``."""
    omitted_many: str
    """The line for several omitted blocks: ``{priority}``, ``{blocks}``, ``{noun}``, ``{tokens}``."""
    guard: Callable[[str, BlockType | None], tuple[str, Mapping[str, str]]]
    bodies: Callable[[str], list[str]]
    start: str = ""
    end: str = ""
    separator: str = "\n\n"
    before_piece: str = ""
    after_piece: str = ""
    escape: Callable[[str], str] = heading_name

    def piece(self, framed: Framed) -> Framed:
        """Return a form as a piece of the output."""
        return Framed(self.before_piece + framed.before, framed.body, framed.after + self.after_piece)

    def full(self, block: Block) -> Framed:
        """Return the block with its full content. Invalid UTF-8 is shown as U+FFFD."""
        template = self.templates[block.type]
        return self._framed(block, block_body(block, one_line), template.before, template.after)

    def summary(self, block: Block, summary: str) -> Framed:
        """Return the block with ``summary`` in place of its content."""
        template = self.templates[block.type]
        return self._framed(block, summary, template.before_summary, template.after_summary)

    def placeholder(self, block: Block, tokens: int) -> Framed:
        """Return the line that replaces the block, whose content has ``tokens`` tokens."""
        label, _, attribute = _DESCRIPTIONS[block.type]
        description = self.escape(one_line(block_description(block)))
        line = self.omitted.format(label=label, attribute=attribute, description=description, tokens=tokens)
        return Framed(line, "", "")

    def _framed(self, block: Block, body: str, before: str, after: str) -> Framed:
        guarded, needed = self.guard(body, block.type)
        names = {name: self.escape(value) for name, value in block_names(block).items()}
        fields = {**names, **needed}
        return Framed(before.format(**fields), guarded, after.format(**fields))
