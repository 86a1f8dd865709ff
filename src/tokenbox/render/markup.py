"""The base of all renderers: how the form of a block becomes unambiguous text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.render.placeholders import placeholder
from tokenbox.render.templates import block_body, block_names, heading_name, one_line

if TYPE_CHECKING:
    from tokenbox.content.block_kinds import BlockType
    from tokenbox.content.blocks import Block
    from tokenbox.render.templates import BlockTemplate

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
