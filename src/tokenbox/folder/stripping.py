"""Remove comments and base64 data from files. Outputs of notebooks are removed where they are read.

Comments are found in the syntax tree, so only in languages whose grammar is installed. Docstrings are not
comments.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from tokenbox.content.lenses.languages import BY_NAME
from tokenbox.content.lenses.syntax import as_parsed, has_grammar, syntax_tree
from tokenbox.folder.option_values import Strip
from tokenbox.folder.pieces import MAX_PARSED

if TYPE_CHECKING:
    from tree_sitter import Node

# Longer than digests, which have at most 128 characters.
_BASE64 = re.compile(rb"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/]{200,}={0,2}(?![A-Za-z0-9+/_-])")


def stripped(
    data: bytes, language: str | None, what: Collection[Strip]
) -> tuple[bytes, Sequence[int] | None]:
    """Return the text of a file without ``what``, or unchanged if it cannot be parsed.

    Also the number, from 1, that each line of the result has in the file; None if all are still there.
    ``language``: a name of ``content.lenses.languages``.
    """
    lines = None
    if Strip.COMMENTS in what and language is not None and len(data) <= MAX_PARSED and has_grammar(language):
        data, lines = _without_comments(data, language)
    if Strip.BASE64 in what:
        data = _BASE64.sub(lambda match: b"[base64, %d characters]" % len(match[0]), data)
    return data, lines


def _without_comments(data: bytes, language: str) -> tuple[bytes, Sequence[int] | None]:
    root = syntax_tree(as_parsed(data, BY_NAME[language]), BY_NAME[language])
    if root is None:
        return data, None
    kept: list[tuple[int, int]] = []
    done = 0
    for start, end in _comments(root, data):
        if start < done or (start == 0 and data.startswith(b"#!")):
            continue
        line = max(data.rfind(b"\n", 0, start) + 1, done)
        after = data.find(b"\n", end)
        after = len(data) if after < 0 else after
        ends_line = not data[end:after].strip()
        if ends_line and not data[line:start].strip():
            # Nothing else is on its lines: remove them.
            kept.append((done, line))
            done = min(len(data), after + 1)
        else:
            code = len(data[done:start].rstrip(b" \t")) if ends_line else start - done
            kept.append((done, done + code))
            done = end
    kept.append((done, len(data)))
    return b"".join(data[start:end] for start, end in kept), _lines(data, kept)


def _lines(data: bytes, kept: Sequence[tuple[int, int]]) -> Sequence[int] | None:
    """Return the number that each line has that begins in a kept part; None if that is every line."""
    lines = array("L")
    line, done, is_new = 1, 0, True
    for start, end in kept:
        if start == end:
            continue
        line += data.count(b"\n", done, start)
        breaks, ends_line = data.count(b"\n", start, end), data[end - 1 : end] == b"\n"
        lines.extend(range(line + (not is_new), line + breaks + (not ends_line)))
        line, done, is_new = line + breaks, end, ends_line
    return lines if lines and lines[-1] > len(lines) else None


def _comments(root: Node, data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each comment, in order."""
    cursor = root.walk()
    while True:
        node = cursor.node
        if node is not None and node.is_named and "comment" in node.type:
            # Some grammars include the line break after a comment.
            text = data[node.start_byte : node.end_byte]
            yield node.start_byte, node.start_byte + len(text.rstrip(b"\r\n"))
        elif cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
