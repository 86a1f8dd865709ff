r"""Minimal mode: a line ``--- name ---`` or a word ``[role]`` per block, the least markup.

Contents have no markup around them. A content line that looks like such a line, or like an omission, gets a
backslash after its indent; a line that already has such backslashes gets one more. So :func:`bodies` can
restore the contents exactly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tokenbox.content.block_kinds import BlockType, TurnRole
from tokenbox.render.registry import register_renderer
from tokenbox.render.templates import LINE_BREAKS, BlockTemplate, Markup

_ROLES = "|".join(role.display for role in TurnRole)
_NO_BREAK = f"[^{LINE_BREAKS}]"
_OURS = (
    rf"--- {_NO_BREAK}*---[ \t]*(?=[{LINE_BREAKS}]|\Z)"
    rf"|\[(?:(?:{_ROLES})(?:, summary)?\]|omitted: |embed-ref: )"
)
_SUSPECT = re.compile(rf"((?:\A|[{LINE_BREAKS}])[ \t]*)(\\*)(?={_OURS})", re.IGNORECASE)
# Every line of our markup contains one of these.
_HINT = re.compile(rf"--- |\[(?:{_ROLES}|omitted: |embed-ref: )", re.IGNORECASE)
_PIECE = re.compile(
    rf"(?:\A|\n\n)(?:(?P<whole>\[(?:omitted|embed-ref): {_NO_BREAK}*\](?=\n\n|\Z))"
    rf"|--- {_NO_BREAK}*---\n|\[(?:{_ROLES})(?:, summary)?\] )"
)


def guard(body: str, kind: BlockType | None) -> tuple[str, Mapping[str, str]]:  # noqa: ARG001  # as in all modes
    """Return ``body`` with a backslash before each line that looks like our markup."""
    if _HINT.search(body) is None:
        return body, {}
    return _SUSPECT.sub(r"\1\2\\", body), {}


def unguard(body: str) -> str:
    """Undo :func:`guard`."""
    if _HINT.search(body) is None:
        return body
    return _SUSPECT.sub(lambda match: match[1] + match[2][1:], body)


def bodies(text: str) -> list[str]:
    """Return the body of each piece of a rendering, in order; ``""`` for a piece without a body."""
    heads = list(_PIECE.finditer(text))
    ends = [*[head.start() for head in heads[1:]], len(text)]
    return [
        "" if head["whole"] else unguard(text[head.end() : end])
        for head, end in zip(heads, ends, strict=True)
    ]


def _titled(title: str) -> BlockTemplate:
    return BlockTemplate(f"--- {title} ---\n", "", f"--- {title} (summary) ---\n")


TEMPLATES: Mapping[BlockType | None, BlockTemplate] = {
    BlockType.CODE: _titled("{path} [{lang}]"),
    BlockType.CONVERSATION: BlockTemplate("[{role}] ", "", "[{role}, summary] "),
    BlockType.FILE_TREE: _titled("tree: {root}"),
    BlockType.TOOL_RESULT: _titled("{name} [{status}]"),
    BlockType.DOCUMENT: _titled("{title}"),
    BlockType.STRUCTURED_DATA: _titled("data [{format}]"),
    BlockType.DIFF: _titled("diff: {path}"),
    BlockType.EMBEDDING_REF: _titled("embed-ref: {model}")._replace(before="[embed-ref: {model}]"),
    BlockType.IMAGE: _titled("image [{media}]: {alt}"),
    BlockType.EXTENSION: _titled("ext: {ns}/{kind}"),
    None: _titled("unknown 0x{id}"),
}

MINIMAL = Markup(
    name="minimal",
    templates=TEMPLATES,
    omitted="[omitted: {label} {description} ~{tokens}tok]",
    omitted_many="[omitted: {blocks} {priority}-priority {noun} ~{tokens}tok]",
    guard=guard,
    bodies=bodies,
)
register_renderer(MINIMAL)
