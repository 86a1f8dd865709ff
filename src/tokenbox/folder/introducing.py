"""The lines of the README and of the manifest with which a pack without a query tells what the project is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.folder.priors import PRIORS

if TYPE_CHECKING:
    from tokenbox.folder.source import File

# For each kind: the share of the room (1/40), and the minimum in tokens, with the markup around the lines.
_KINDS = {"readme": (40, 120), "manifest": (80, 80)}
# No introduction takes more than this share of the room (1/12).
_MAX_SHARE = 12
# What is no prose: links, images, tags, addresses; directives, tables; who gives money.
_MARKUP = re.compile(r"!?\[[^\[\]]*\](?:\([^()\n]*\)|\[[^\[\]]*\]|:\s.*)|<[^<>]*>|\w{1,12}://\S+")
_NO_PROSE = re.compile(r"\s*(?:\.\. |:|\||```)|(?is:.*\b(?:sponsor|donat|open collective|tidelift))")
_PARAGRAPH = re.compile(rb"\S[^\n]*(?:\n[ \t]*\S[^\n]*)*")
# The number of letters that make a sentence, and a paragraph without the end of a sentence.
_SENTENCE, _WORDS = 12, 40
_SENTENCE_END = re.compile(r"[.!?:。！？：][*_)\]`]*\s*\Z")
# The line with which a manifest begins to name the project.
_NAMED = re.compile(
    rb"^[ \t]*(?:\[(?:project|package|tool\.poetry)\]|\"?(?:\w{1,40}\.)?name\"?[ \t]*[:=]"
    rb"|module |<artifactId>|project[ \t]*\(|app:)",
    re.MULTILINE | re.IGNORECASE,
)


class Introduction(NamedTuple):
    """File ``file`` is shown from byte ``start``, in at most ``room`` tokens."""

    file: int
    start: int
    room: int


def introductions(files: Sequence[File], room: int) -> Iterator[Introduction]:
    """Yield the introductions: of the README and of a manifest at the top of what is packed.

    Of several, the first in the table of priors that has something to tell. ``room``: the tokens that there
    are for files.
    """
    for kind, find in (("readme", _prose), ("manifest", _name)):
        globs = next(prior.globs for prior in PRIORS if prior.name == kind).lower().split()
        at_top = [
            (next(n for n, glob in enumerate(globs) if fnmatchcase(file.name.lower(), glob)), i)
            for i, file in enumerate(files)
            if file.prior.name == kind and file.text and file.asked is None and "/" not in file.name
        ]
        share, least = _KINDS[kind]
        for _, i in sorted(at_top):
            start = find(files[i].data)
            if start is not None:
                yield Introduction(i, start, min(max(least, room // share), room // _MAX_SHARE))
                break


def _prose(data: bytes) -> int | None:
    """Return where the first paragraph of prose begins, after titles and badges."""
    for paragraph in _PARAGRAPH.finditer(data):
        at = data.rfind(b"\n", 0, paragraph.start()) + 1
        for line in data[at : paragraph.end()].splitlines(keepends=True):
            if not line.startswith(b"#") and any(map(str.isalpha, _plain(line))):
                break
            at += len(line)
        text = _plain(data[at : paragraph.end()])
        letters = sum(map(str.isalpha, text))
        is_prose = letters >= (_SENTENCE if _SENTENCE_END.search(text) else _WORDS)
        if is_prose and not _NO_PROSE.match(text):
            return at
    return None


def _plain(text: bytes) -> str:
    return _MARKUP.sub("", text.decode("utf-8", "replace"))


def _name(data: bytes) -> int | None:
    """Return where a manifest begins to name the project."""
    named = _NAMED.search(data)
    return None if named is None else named.start()
