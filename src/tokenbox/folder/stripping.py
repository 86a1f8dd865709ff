"""What can be left out of a file without a loss to who reads its code: comments, data in base64, outputs.

Comments are found by the syntax tree, so only in languages whose grammar is installed. Documentation strings
are not comments.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import TYPE_CHECKING

from tokenbox.content.lenses.definitions import grammar, works
from tokenbox.content.lenses.languages import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tree_sitter import Node

# A digest has at most 128 characters; what is longer is data.
_BASE64 = re.compile(rb"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/]{200,}={0,2}(?![A-Za-z0-9+/_-])")
_MAX_PARSED = 2 << 20


class Strip(StrEnum):
    """What is left out of files."""

    COMMENTS = "comments"
    BASE64 = "base64"
    OUTPUTS = "outputs"


def stripped(data: bytes, path: str, language: str | None, what: Collection[Strip]) -> bytes:
    """The text of a file without ``what``; the bytes as they are where that cannot be done.

    ``language``: a name of ``content.lenses.languages``.
    """
    if Strip.OUTPUTS in what and path.endswith(".ipynb"):
        data = _without_outputs(data)
    if Strip.COMMENTS in what and language is not None and len(data) <= _MAX_PARSED and works(language):
        data = _without_comments(data, language)
    if Strip.BASE64 in what:
        data = _BASE64.sub(lambda match: b"[base64, %d characters]" % len(match[0]), data)
    return data


def _without_outputs(data: bytes) -> bytes:
    try:
        notebook = json.loads(data)
        cells = notebook["cells"]
        for cell in cells:
            if cell.get("outputs"):
                cell["outputs"] = []
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return data
    return json.dumps(notebook, ensure_ascii=False, indent=1).encode() + b"\n"


def _without_comments(data: bytes, language: str) -> bytes:
    import tree_sitter  # noqa: PLC0415  # an extra

    tree = tree_sitter.Parser(grammar(BY_NAME[language])).parse(data)
    kept: list[bytes] = []
    done = 0
    for start, end in _comments(tree.root_node):
        if start < done or (start == 0 and data.startswith(b"#!")):
            continue
        line = data.rfind(b"\n", 0, start) + 1
        after = data.find(b"\n", end)
        after = len(data) if after < 0 else after
        before = data[max(line, done) : start]
        if not before.strip() and not data[end:after].strip():
            # Nothing else is in its lines: they go as well.
            kept.append(data[done : max(line, done)])
            done = min(len(data), after + 1)
        elif not data[end:after].strip():
            kept.append(data[done:start].rstrip(b" \t"))
            done = end
        else:
            kept.append(data[done:start])
            done = end
    return b"".join([*kept, data[done:]])


def _comments(root: Node) -> Iterator[tuple[int, int]]:
    """Where the comments are, in order."""
    cursor = root.walk()
    while True:
        node = cursor.node
        if node is not None and node.is_named and "comment" in node.type:
            # Some grammars count the line break after a comment as a part of it.
            text = node.text or b""
            yield node.start_byte, node.start_byte + len(text.rstrip(b"\r\n"))
        elif cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
