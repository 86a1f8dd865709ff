"""The base of all renderers: how the form of a block, or the line in its place, becomes unambiguous text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.content.block_kinds import BlockType
from tokenbox.render.templates import block_body, block_names, heading_name, one_line

if TYPE_CHECKING:
    from tokenbox.content.blocks import Block
    from tokenbox.render.templates import BlockTemplate


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


LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


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
        return Framed(placeholder(block, tokens, self.omitted, self.escape), "", "")

    def _framed(self, block: Block, body: str, before: str, after: str) -> Framed:
        guarded, needed = self.guard(body, block.type)
        names = {name: self.escape(value) for name, value in block_names(block).items()}
        fields = {**names, **needed}
        return Framed(before.format(**fields), guarded, after.format(**fields))
