"""Detect files that a program wrote and files that are not text."""

from __future__ import annotations

import codecs
import re

_NAMES = re.compile(
    r"\.min\.(?:js|css|mjs)$|\.(?:js|css|mjs)\.map$|_pb2(?:_grpc)?\.pyi?$|\.pb\.(?:go|cc|h)$|\.g\.dart$|"
    r"\.designer\.cs$|\.generated\.\w+$|_generated\.\w+$",
    re.IGNORECASE,
)
_MARK = re.compile(
    rb"@generated\b|--hash=sha256:[0-9a-f]{64}\b|"
    rb"\b(?:code|file|auto-?|automatically) generated\b.{0,200}\bdo not (?:edit|modify)\b",
    re.IGNORECASE | re.DOTALL,
)
# Bytes in which a mark counts: further down it may be documentation about such marks.
_MARK_WITHIN = 1024
_MINIFIED = re.compile(r"\.(?:js|mjs|cjs|css|html?|json)$", re.IGNORECASE)
_MINIFIED_FROM = 4096
_MINIFIED_LINE = 250  # bytes per line on average

_SAMPLE = 65_536
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def is_generated(path: str, content: bytes) -> bool:
    """Return whether a program wrote the file: by its name, a mark at its top, or minified content.

    A package hash is such a mark too, because locked requirements have no fixed file name.
    """
    if _NAMES.search(path) or _MARK.search(content, 0, _MARK_WITHIN):
        return True
    long_lines = len(content) >= _MINIFIED_FROM and len(content) > _MINIFIED_LINE * (content.count(b"\n") + 1)
    return long_lines and _MINIFIED.search(path) is not None


def as_text(content: bytes) -> tuple[bytes, str | None] | None:
    """Return the content as UTF-8 with its original encoding (None if UTF-8); None for binary content."""
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            try:
                return content.decode(encoding).encode(), encoding
            except UnicodeError:
                return None
    if b"\x00" in content:
        return None
    try:
        content.decode()
    except UnicodeDecodeError:
        sample = content[:_SAMPLE]
        if len(_CONTROLS.findall(sample)) * 100 > len(sample):
            return None
        return content.decode("latin-1").encode(), "latin-1"
    return content, None
