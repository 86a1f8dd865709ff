"""Markdown mode: a heading or a bold role per block.

Contents are always printed byte for byte. Code, data, trees and diffs are in a fence that is longer than any
run of backticks inside. Other contents have no fence, as in the LCP reference, unless one of their lines
looks like the beginning of a rendered block: a role such as ``**System**:``, a heading of this mode, an
omission, a data fence, ``## name`` followed by a fence. Then they get a fence without a language. A content
that begins with such a fence gets one too, so the result is unambiguous, and one that leaves a fence or HTML
open, in which the next blocks would be (CommonMark 0.31, 4.5 and 4.6).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tokenbox.content.block_kinds import BlockType, DataFormat, TurnRole
from tokenbox.render.registry import register_renderer
from tokenbox.render.templates import LINE_BREAKS, BlockTemplate, Markup

_FENCE = "```"
_BACKTICKS = re.compile("`+")

_ROLES = "|".join(role.display for role in TurnRole)
_FORMATS = "|".join(data_format.display for data_format in DataFormat)
_OURS = (
    rf"\*\*(?:{_ROLES})\*\*(?: \(summary\))?:"
    r"|### (?:File Tree: |Tool: |Document: |Diff: |Image \(|Extension: |Data \[)"
    r"|\*\[Embedding ref: |_\[Omitted: |<!-- unknown block type 0x"
)
_BREAK = f"[{LINE_BREAKS}]"
# ``## name`` is a common heading, so it counts as ours only before a code fence or with a summary mark.
_CODE = r"## [^\n]*(?:\n\n```|\(summary\)|\n*\Z)"
_DATA = rf"```+(?:{_FORMATS})(?:\n|\Z)"
_SUSPECT = re.compile(
    rf"(?:\A|{_BREAK})[ \t]*(?:{_OURS})|(?:\A|\n\n){_DATA}|\A`{{3,}}(?:\n|\Z)", re.IGNORECASE
)
# A heading, up to a line feed. A match takes in the headings after other line breaks, so each is read once.
_HEADING = re.compile(rf"(?:\A|{_BREAK})[ \t]*## ([^\n]*)")
_SUMMARY = re.compile(r"\(summary\)", re.IGNORECASE)
# Every line of our markup contains one of these.
_MARKS = ("**", "##", "*[", "_[", "<!--", _FENCE)

_HEAD = re.compile(
    rf"\*\*(?:{_ROLES})\*\*(?: \(summary\))?:(?: |\n\n(?=`{{3,}}\n))"
    r"|## [^\n]*\n\n|### [^\n]*\n\n|\*\[Embedding ref: [^\n]*\]\* \(summary\)\n\n|<!-- unknown[^\n]*-->\n"
    rf"|(?=```+(?:{_FORMATS})\n)",
    re.IGNORECASE,
)
_LINE = re.compile(r"(?:_\[Omitted: |\*\[Embedding ref: )[^\n]*(?=\n\n|\Z)")
_OPEN = re.compile(r"(`{3,})([^\n`]*)\n")
_NEXT = re.compile(rf"\n\n(?={_OURS}|{_CODE}|{_DATA})", re.IGNORECASE)


# Fences; and HTML that ends only with its own mark, wherever that is.
_FENCE_LINE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_HTML = tuple(
    (re.compile(rf"^ {{0,3}}<{begin}", re.MULTILINE | re.IGNORECASE), re.compile(end, re.IGNORECASE))
    for begin, end in (
        (r"!--", r"-->"),
        (r"\?", r"\?>"),
        (r"!\[CDATA\[", r"\]\]>"),
        (r"(?:script|pre|style|textarea)(?=[ \t>]|$)", r"</(?:script|pre|style|textarea)>"),
    )
)


def fence_for(text: str, least: int) -> str:
    """Return ``least`` backticks, or more: one more than any run of them in the text."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0) if "`" in text else 0
    return "`" * max(least, longest + 1)


def guard(body: str, kind: BlockType | None) -> tuple[str, Mapping[str, str]]:  # noqa: ARG001  # as in all modes
    """Return ``body`` unchanged, and the fence around it, if it needs one."""
    fence = fence_for(body, len(_FENCE))
    bare = {"fence": fence, "open": "", "inline": " ", "close": ""}
    if (any(mark in body for mark in _MARKS) and _looks_like_ours(body)) or _stays_open(body):
        return body, {**bare, "open": f"{fence}\n", "inline": f"\n\n{fence}\n", "close": f"\n{fence}"}
    return body, bare


def _looks_like_ours(body: str) -> bool:
    """Return whether a line of the body looks like the beginning of a block; for headings, as ``_CODE``."""
    if _SUSPECT.search(body):
        return True
    end = len(body.rstrip("\n"))
    return any(
        heading.end() >= end or body.startswith("\n\n```", heading.end()) or _SUMMARY.search(heading[1])
        for heading in _HEADING.finditer(body)
    )


def _stays_open(body: str) -> bool:
    """Return whether a fence or HTML of the body is not closed in it."""
    opened = ""
    for found in _FENCE_LINE.finditer(body) if "```" in body or "~~~" in body else ():
        run, info = found.groups()
        if opened and run.startswith(opened) and not info.strip():
            opened = ""
        elif not opened and (run[0] == "~" or "`" not in info):
            opened = run
    if opened or "<" not in body:
        return bool(opened)
    for begin, end in _HTML:
        *_, last = [0, *(match.end() for match in begin.finditer(body))]
        if last and not end.search(body, last):
            return True
    return False


def bodies(text: str) -> list[str]:
    """Return the body of each piece of a rendering, in order; ``""`` for a piece without a body."""
    found, at = [], 0
    while at < len(text):
        head = _HEAD.match(text, at)
        line = None if head else _LINE.match(text, at)
        if line is not None:
            found.append("")
            at = line.end() + len("\n\n")
            continue
        if head is None:
            raise ValueError(f"no block begins at character {at}")
        start, opening = head.end(), _OPEN.match(text, head.end())
        if opening is not None and (
            not opening[2]
            or (head[0].startswith("## ") and not head[0].endswith("(summary)\n\n"))
            or not head[0]
            or (head[0].startswith("### Diff") and opening[2] == "diff")
        ):
            fence = re.compile(f"`{{{len(opening[1])},}}").search(text, opening.end())
            if fence is None:
                raise ValueError(f"the fence at character {start} is not closed")
            stop = fence.end() - len(opening[1])
            inside = head[0].startswith(("### File Tree: ", "### Diff: ")) and not head[0].endswith(
                "(summary)\n\n"
            )
            found.append(text[opening.end() : stop - (not inside)])
            at = fence.end() + len("\n\n")
        else:
            following = _NEXT.search(text, start)
            stop = following.start() if following else len(text)
            found.append(text[start:stop])
            at = stop + len("\n\n")
    return found


def _headed(heading: str, before: str = "{open}", after: str = "{close}") -> BlockTemplate:
    """Return the template of a block under a heading; ``before`` and ``after`` its full content."""
    return BlockTemplate(f"{heading}\n\n{before}", after, f"{heading} (summary)\n\n{{open}}", "{close}")


_EMBEDDING = "*[Embedding ref: model={model}]*"

TEMPLATES: Mapping[BlockType | None, BlockTemplate] = {
    BlockType.CODE: _headed("## {path}", "{fence}{lang}\n", "\n{fence}"),
    BlockType.CONVERSATION: BlockTemplate(
        "**{Role}**:{inline}", "{close}", "**{Role}** (summary):{inline}", "{close}"
    ),
    BlockType.FILE_TREE: _headed("### File Tree: {root}", "{fence}\n", "{fence}"),
    BlockType.TOOL_RESULT: _headed("### Tool: {name} ({status})"),
    BlockType.DOCUMENT: _headed("### Document: {title} [{format}]"),
    BlockType.STRUCTURED_DATA: _headed("### Data [{format}]")._replace(
        before="{fence}{format}\n", after="\n{fence}"
    ),
    BlockType.DIFF: _headed("### Diff: {path}", "{fence}diff\n", "{fence}"),
    BlockType.EMBEDDING_REF: _headed(_EMBEDDING)._replace(before=_EMBEDDING, after=""),
    BlockType.IMAGE: _headed("### Image ({media}): {alt}"),
    BlockType.EXTENSION: _headed("### Extension: {ns}/{kind}"),
    None: BlockTemplate(
        "<!-- unknown block type 0x{id} -->\n{open}",
        "{close}",
        "<!-- unknown block type 0x{id} (summary) -->\n{open}",
        "{close}",
    ),
}

MARKDOWN = Markup(
    name="markdown",
    templates=TEMPLATES,
    omitted="_[Omitted: {label} {description}, ~{tokens} tokens]_",
    omitted_many="_[Omitted: {blocks} {priority}-priority {noun}, ~{tokens} tokens]_",
    guard=guard,
    bodies=bodies,
)
register_renderer(MARKDOWN)
