"""What nobody wrote by hand, and what is not text at all."""

from __future__ import annotations

import codecs
import re

_LOCKS = frozenset(
    {
        *("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "deno.lock"),
        *("poetry.lock", "pdm.lock", "uv.lock", "pipfile.lock", "conda-lock.yml", "pixi.lock"),
        *(
            "cargo.lock",
            "go.sum",
            "gemfile.lock",
            "composer.lock",
            "mix.lock",
            "pubspec.lock",
            "podfile.lock",
        ),
        *("flake.lock", "packages.lock.json", "gradle.lockfile", "package.resolved", ".terraform.lock.hcl"),
    }
)
_NAMES = re.compile(
    r"\.min\.(?:js|css|mjs)$|\.(?:js|css|mjs)\.map$|_pb2(?:_grpc)?\.pyi?$|\.pb\.(?:go|cc|h)$|\.g\.dart$|"
    r"\.designer\.cs$|\.generated\.\w+$|_generated\.\w+$",
    re.IGNORECASE,
)
_VENDORED = frozenset(
    {"vendor", "_vendor", "vendored", "third_party", "thirdparty", "node_modules", "bower_components", "pods"}
)
_MARK = re.compile(
    rb"@generated\b|--hash=sha256:[0-9a-f]{64}\b|"
    rb"\b(?:code|file|auto-?|automatically) generated\b.{0,200}\bdo not (?:edit|modify)\b",
    re.IGNORECASE | re.DOTALL,
)
# Marks stand at the top. Marks are also written about, so not far down.
_LOOKED_AT = 1024
_MINIFIED = re.compile(r"\.(?:js|mjs|cjs|css|html?|json)$", re.IGNORECASE)
_MINIFIED_FROM = 4096
_MINIFIED_LINE = 250  # bytes per line on average

_SAMPLE = 65_536
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def is_lock(path: str) -> bool:
    """Whether a program keeps exact versions there."""
    return path.rpartition("/")[2].lower() in _LOCKS


def is_vendored(path: str) -> bool:
    """Whether it is a copy of someone else's project."""
    return not _VENDORED.isdisjoint(path.lower().split("/")[:-1])


def is_generated(path: str, content: bytes) -> bool:
    """Whether a program wrote it: by its name, by a mark at its top such as ``@generated``, or minified.

    The hash of a package is such a mark too: requirements that are locked go by any name.
    """
    if is_lock(path) or _NAMES.search(path) or _MARK.search(content, 0, _LOOKED_AT):
        return True
    long_lines = len(content) >= _MINIFIED_FROM and len(content) > _MINIFIED_LINE * (content.count(b"\n") + 1)
    return long_lines and _MINIFIED.search(path) is not None


def as_text(content: bytes) -> tuple[bytes, str | None] | None:
    """The content as UTF-8, and the encoding it had if that was another; None for what is not text."""
    for mark, encoding in _MARKS.items():
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
