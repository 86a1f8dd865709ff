"""How each type of block is written in each mode: one table, and what goes into it.

The full forms are, byte for byte, those of the LCP reference (lcp-wire 8.3): a model sees the same text
whichever program rendered the pack. The summary forms follow its summary of a code block.
"""

from __future__ import annotations

import re
from enum import StrEnum
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


class Mode(StrEnum):
    """The markup that blocks are written in."""

    XML = "xml"
    MARKDOWN = "markdown"
    MINIMAL = "minimal"


class Template(NamedTuple):
    """What stands before and after a block's content, and before and after its summary."""

    before: str
    after: str
    before_summary: str
    after_summary: str = ""


TEMPLATES: Mapping[Mode, Mapping[BlockType | None, Template]] = {
    Mode.XML: {
        BlockType.CODE: Template(
            '<code lang="{lang}" path="{path}">\n',
            "\n</code>",
            '<code lang="{lang}" path="{path}" summary="true">\n',
            "\n</code>",
        ),
        BlockType.CONVERSATION: Template(
            '<turn role="{role}">', "</turn>", '<turn role="{role}" summary="true">', "</turn>"
        ),
        BlockType.FILE_TREE: Template(
            '<tree root="{root}">\n', "</tree>", '<tree root="{root}" summary="true">\n', "\n</tree>"
        ),
        BlockType.TOOL_RESULT: Template(
            '<tool name="{name}" status="{status}">\n',
            "\n</tool>",
            '<tool name="{name}" status="{status}" summary="true">\n',
            "\n</tool>",
        ),
        BlockType.DOCUMENT: Template(
            '<doc title="{title}" format="{format}">\n',
            "\n</doc>",
            '<doc title="{title}" format="{format}" summary="true">\n',
            "\n</doc>",
        ),
        BlockType.STRUCTURED_DATA: Template(
            '<data format="{format}">\n',
            "\n</data>",
            '<data format="{format}" summary="true">\n',
            "\n</data>",
        ),
        BlockType.DIFF: Template(
            '<diff path="{path}">\n', "</diff>", '<diff path="{path}" summary="true">\n', "\n</diff>"
        ),
        BlockType.EMBEDDING_REF: Template(
            '<embed-ref model="{model}" />',
            "",
            '<embed-ref model="{model}" summary="true">\n',
            "\n</embed-ref>",
        ),
        BlockType.IMAGE: Template(
            '<image type="{media}" alt="{alt}">\n',
            "\n</image>",
            '<image type="{media}" alt="{alt}" summary="true">\n',
            "\n</image>",
        ),
        BlockType.EXTENSION: Template(
            '<ext ns="{ns}" type="{kind}">\n',
            "\n</ext>",
            '<ext ns="{ns}" type="{kind}" summary="true">\n',
            "\n</ext>",
        ),
        None: Template(
            "<!-- unknown block type 0x{id} -->\n", "", "<!-- unknown block type 0x{id} (summary) -->\n"
        ),
    },
    Mode.MARKDOWN: {
        BlockType.CODE: Template(
            "## {path}\n\n{fence}{lang}\n", "\n{fence}", "## {path} (summary)\n\n{open}", "{close}"
        ),
        BlockType.CONVERSATION: Template(
            "**{Role}**:{inline}", "{close}", "**{Role}** (summary):{inline}", "{close}"
        ),
        BlockType.FILE_TREE: Template(
            "### File Tree: {root}\n\n{fence}\n",
            "{fence}",
            "### File Tree: {root} (summary)\n\n{open}",
            "{close}",
        ),
        BlockType.TOOL_RESULT: Template(
            "### Tool: {name} ({status})\n\n{open}",
            "{close}",
            "### Tool: {name} ({status}) (summary)\n\n{open}",
            "{close}",
        ),
        BlockType.DOCUMENT: Template(
            "### Document: {title} [{format}]\n\n{open}",
            "{close}",
            "### Document: {title} [{format}] (summary)\n\n{open}",
            "{close}",
        ),
        BlockType.STRUCTURED_DATA: Template(
            "{fence}{format}\n", "\n{fence}", "### Data [{format}] (summary)\n\n{open}", "{close}"
        ),
        BlockType.DIFF: Template(
            "### Diff: {path}\n\n{fence}diff\n", "{fence}", "### Diff: {path} (summary)\n\n{open}", "{close}"
        ),
        BlockType.EMBEDDING_REF: Template(
            "*[Embedding ref: model={model}]*",
            "",
            "*[Embedding ref: model={model}]* (summary)\n\n{open}",
            "{close}",
        ),
        BlockType.IMAGE: Template(
            "### Image ({media}): {alt}\n\n{open}",
            "{close}",
            "### Image ({media}): {alt} (summary)\n\n{open}",
            "{close}",
        ),
        BlockType.EXTENSION: Template(
            "### Extension: {ns}/{kind}\n\n{open}",
            "{close}",
            "### Extension: {ns}/{kind} (summary)\n\n{open}",
            "{close}",
        ),
        None: Template(
            "<!-- unknown block type 0x{id} -->\n{open}",
            "{close}",
            "<!-- unknown block type 0x{id} (summary) -->\n{open}",
            "{close}",
        ),
    },
    Mode.MINIMAL: {
        BlockType.CODE: Template("--- {path} [{lang}] ---\n", "", "--- {path} [{lang}] (summary) ---\n"),
        BlockType.CONVERSATION: Template("[{role}] ", "", "[{role}, summary] "),
        BlockType.FILE_TREE: Template("--- tree: {root} ---\n", "", "--- tree: {root} (summary) ---\n"),
        BlockType.TOOL_RESULT: Template(
            "--- {name} [{status}] ---\n", "", "--- {name} [{status}] (summary) ---\n"
        ),
        BlockType.DOCUMENT: Template("--- {title} ---\n", "", "--- {title} (summary) ---\n"),
        BlockType.STRUCTURED_DATA: Template(
            "--- data [{format}] ---\n", "", "--- data [{format}] (summary) ---\n"
        ),
        BlockType.DIFF: Template("--- diff: {path} ---\n", "", "--- diff: {path} (summary) ---\n"),
        BlockType.EMBEDDING_REF: Template(
            "[embed-ref: {model}]", "", "--- embed-ref: {model} (summary) ---\n"
        ),
        BlockType.IMAGE: Template(
            "--- image [{media}]: {alt} ---\n", "", "--- image [{media}]: {alt} (summary) ---\n"
        ),
        BlockType.EXTENSION: Template(
            "--- ext: {ns}/{kind} ---\n", "", "--- ext: {ns}/{kind} (summary) ---\n"
        ),
        None: Template("--- unknown 0x{id} ---\n", "", "--- unknown 0x{id} (summary) ---\n"),
    },
}


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

    ``escape`` is applied to the names of a file tree, each of which must stay on its line.
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
