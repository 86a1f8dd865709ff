"""XML mode: an element per block inside ``<context>``.

Contents are printed unescaped, as in the LCP reference, so the result is for models and not for XML parsers.
Only a tag of this mode is escaped: its ``<`` becomes ``&lt;``. These are the closing tags of the block's own
element and of ``<context>``, and opening tags with their first attribute as this mode writes them
(``<turn role=``), in upper or lower case; an ordinary ``<code>`` in a document is not escaped. If a content
already has ``&lt;`` at such a position, ``&`` becomes ``&amp;``. So :func:`bodies` can restore the contents
exactly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from tokenbox.content.block_kinds import BlockType
from tokenbox.render.registry import register_renderer
from tokenbox.render.templates import BlockTemplate, Markup


def _element(opening: str, *, before_end: str = "\n") -> BlockTemplate:
    """Return the template of an element whose contents begin on their own line."""
    closing = f"</{opening.split(maxsplit=1)[0]}>"
    return BlockTemplate(
        f"<{opening}>\n", before_end + closing, f'<{opening} summary="true">\n', f"\n{closing}"
    )


TEMPLATES: Mapping[BlockType | None, BlockTemplate] = {
    BlockType.CODE: _element('code lang="{lang}" path="{path}"'),
    BlockType.CONVERSATION: BlockTemplate(
        '<turn role="{role}">', "</turn>", '<turn role="{role}" summary="true">', "</turn>"
    ),
    BlockType.FILE_TREE: _element('tree root="{root}"', before_end=""),
    BlockType.TOOL_RESULT: _element('tool name="{name}" status="{status}"'),
    BlockType.DOCUMENT: _element('doc title="{title}" format="{format}"'),
    BlockType.STRUCTURED_DATA: _element('data format="{format}"'),
    BlockType.DIFF: _element('diff path="{path}"', before_end=""),
    BlockType.EMBEDDING_REF: _element('embed-ref model="{model}"')._replace(
        before='<embed-ref model="{model}" />', after=""
    ),
    BlockType.IMAGE: _element('image type="{media}" alt="{alt}"'),
    BlockType.EXTENSION: _element('ext ns="{ns}" type="{kind}"'),
    None: BlockTemplate(
        "<!-- unknown block type 0x{id} -->\n", "", "<!-- unknown block type 0x{id} (summary) -->\n"
    ),
}

# The elements and their first attributes, as the templates write them.
_OPENED = {kind: re.match(r"<([a-z-]+) ([a-z]+)=", template.before) for kind, template in TEMPLATES.items()}
_ELEMENTS = {kind: found[1] for kind, found in _OPENED.items() if found is not None}
_TYPES = {element: kind for kind, element in _ELEMENTS.items()}

# The text after ``<`` in our opening tags.
_OPENINGS = (
    r"context\s*>|!--\s*unknown\s+block\s+type|(?:"
    + "".join(rf"{found[1]}\s+{found[2]}|" for found in _OPENED.values() if found is not None)
    + r"omitted\s+(?:type|priority))\s*="
)
_PIECE = re.compile(
    rf"<(?P<element>{'|'.join(_TYPES)}|omitted)"
    r'(?: [a-z]+="[^"]*")*(?P<end> />|>)'
    r"|<!-- unknown block type 0x[0-9A-F]{2}(?: \(summary\))? -->\n"
)
_NEXT_PIECE = re.compile(rf"\n\n(?=<(?:{_OPENINGS}))|\n</context>\Z")


def escape(name: str) -> str:
    """Escape a name as the value of an attribute (lcp-wire 8.5)."""
    if "&" in name:
        name = name.replace("&", "&amp;")
    return name.replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


@cache
def _ours(kind: BlockType | None) -> str:
    """Return a pattern for the text after ``<`` in the tags to escape in a body of this type."""
    closing = "|".join(["context", *([_ELEMENTS[kind]] if kind is not None else [])])
    return rf"(?i:/\s*(?:{closing})(?![A-Za-z0-9_.:-])|{_OPENINGS})"


# Each pattern begins with a literal character, which makes the search fast.
@cache
def _tag(kind: BlockType | None) -> re.Pattern[str]:
    return re.compile(rf"<(?={_ours(kind)})")


@cache
def _escaped_tag(kind: BlockType | None) -> re.Pattern[str]:
    return re.compile(rf"&((?:amp;)*lt;)(?={_ours(kind)})")


def guard(body: str, kind: BlockType | None) -> tuple[str, Mapping[str, str]]:
    """Return ``body`` with our tags escaped."""
    if "&" in body:
        body = _escaped_tag(kind).sub(r"&amp;\1", body)
    return _tag(kind).sub("&lt;", body), {}


def unguard(body: str, kind: BlockType | None) -> str:
    """Undo :func:`guard`."""
    if "&" not in body:
        return body
    return _escaped_tag(kind).sub(lambda match: "<" if match[1] == "lt;" else "&" + match[1][4:], body)


def bodies(text: str) -> list[str]:
    """Return the body of each piece of a rendering, in order; ``""`` for a piece without a body."""
    found, at, end = [], len("<context>\n"), len(text) - len("\n</context>")
    while at < end:
        opening = _PIECE.match(text, at)
        if opening is None:
            raise ValueError(f"no block begins at character {at}")
        element, start = opening["element"], opening.end()
        kind = _TYPES.get(element or "")
        if element is None:
            following = _NEXT_PIECE.search(text, start)
            stop = at = following.start() if following else end
            found.append(unguard(text[start:stop], None))
        elif opening["end"] == " />":
            found.append("")
            at = start
        else:
            stop = text.index(f"</{element}>", start)
            at = stop + len(f"</{element}>")
            framed = element != "turn"
            closed = framed and (element not in ("tree", "diff") or 'summary="true"' in opening[0])
            found.append(unguard(text[start + framed : stop - closed], kind))
        at += len("\n\n")
    return found


XML = Markup(
    name="xml",
    templates=TEMPLATES,
    omitted='<omitted type="{label}" {attribute}="{description}" tokens="{tokens}" />',
    omitted_many='<omitted priority="{priority}" blocks="{blocks}" tokens="{tokens}" />',
    # The newlines belong to the pieces, so that the separator of any two parts is empty.
    start="<context>",
    end="</context>",
    separator="",
    before_piece="\n",
    after_piece="\n",
    escape=escape,
    guard=guard,
    bodies=bodies,
)
register_renderer(XML)
