"""The lines of README, manifest and entry point by which a pack without a query tells what the project is."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.folder.priors import PRIORS

if TYPE_CHECKING:
    from tokenbox.folder.source import File

# No introduction takes more than this share of the room (1/12).
_MAX_SHARE = 12
# What is no prose: links, images, tags, addresses, entities; directives, tables; who gives money.
_MARKUP = re.compile(
    r"!?\[[^\[\]]*\](?:\([^()\n]*\)|\[[^\[\]]*\]|:\s.*)|<[^<>]*>|\w{1,12}://\S+|&#?\w{1,12};"
)
_NO_PROSE = re.compile(r"\s*(?:\.\. |:|\||```)|(?is:.*\b(?:sponsor|donat|open collective|tidelift))")
# Titles of sections about who gives money, and headings of Markdown and reStructuredText.
_MONEY = re.compile(rb"sponsor|donat|backers|funding|supporters", re.IGNORECASE)
_HEADING = re.compile(
    rb"^(?:(#{1,6})[ \t]([^\n]*)|(?!#)(\S[^\n]*)\n(=|-|~|\^|\")\4{2,}[ \t]*$)", re.MULTILINE
)
_PARAGRAPH = re.compile(rb"\S[^\n]*(?:\n[ \t]*\S[^\n]*)*")
# The number of letters that make a sentence, and a paragraph without the end of a sentence.
_SENTENCE, _WORDS = 12, 40
_SENTENCE_END = re.compile(r"[.!?:。！？：][*_)\]`]*\s*\Z")
# The line with which a manifest begins to name the project.
_NAMED = re.compile(
    rb"^[ \t]*(?:\[(?:project|package|tool\.poetry)\]|\"?(?:\w{1,40}\.)?name\"?[ \t]*[:=](?! *Some\()"
    rb"|module |<artifactId>|project[ \t]*\(|app:)",
    re.MULTILINE | re.IGNORECASE,
)
# How a manifest names an entry point: a module and its function, or a path.
_CALLED = re.compile(rb"[\"'= ]([\w.]{1,200}):\w[\w.]{0,100}[ \t]*[\"'\n\[]")
_STARTED = re.compile(
    rb"\"(?:bin|main|module|source|exports)\"\s{0,9}:\s{0,9}(?:\{[^{}\"]{0,99}\"[^\"\n]{1,99}\"\s{0,9}:\s{0,9})?"
    rb"\"\.?/?([^\"\n]{1,200})\"|^path[ \t]{0,9}=[ \t]{0,9}\"([^\"\n]{1,200})\"",
    re.MULTILINE,
)
# What entry points are called that no manifest names, the most telling first, and last those of a library.
_ENTRY_POINT = re.compile(
    r"(?:.*/)?(?:(__main__\.py)|(main\.\w+)|(lib\.rs)|(index\.\w+)|(program\.\w+)|(\w*application\.(?:java|kt))"
    r"|(app\.\w+)|(server\.\w+)|(manage\.py)|(__init__\.py))|(lib/[^/]+\.(?:rb|ex|js))",
    re.DOTALL,
)
_MAIN = re.compile(
    rb"^[ \t]*(?:[\w<>\[\]*]{1,40}[ \t]+){1,5}\*?main[ \t]*\(|^main[ \t]*::", re.MULTILINE | re.IGNORECASE
)
# What stands above the code of a file: blanks, comments, directives.
_ABOVE = re.compile(
    rb"\s+|(?:#|//|--|;)[^\n]*|/\*.*?\*/|<\?php\b|['\"]use \w+['\"];?|(?:package|namespace|declare)\b[^\n]*",
    re.DOTALL,
)


class Introduction(NamedTuple):
    """File ``file`` is shown from byte ``start``, in ``tokens`` tokens or 1/``share`` of the room."""

    file: int
    start: int
    share: int
    tokens: int

    def limit(self, room: int) -> int:
        """Return the maximum number of tokens, of those that there are for files, with the markup."""
        return min(max(self.tokens, room // self.share), room // _MAX_SHARE)


def introductions(files: Sequence[File]) -> Iterator[Introduction]:
    """Yield the introductions: of README and manifest at the top of what is packed, and of an entry point.

    Of several, the first that has something to tell.
    """
    kinds = (
        (_at_top(files, "readme"), _prose, 40, 120),
        (_at_top(files, "manifest"), _name, 80, 80),
        (_entry_points(files), _main, 80, 80),
    )
    for candidates, find, share, tokens in kinds:
        for i in candidates:
            start = find(files[i].data)
            if start is not None:
                yield Introduction(i, start, share, tokens)
                break


def _at_top(files: Sequence[File], prior: str) -> list[int]:
    """Return the files with this prior at the top of what is packed, in the order of the prior's patterns."""
    globs = next(known.globs for known in PRIORS if known.name == prior).lower().split()
    found = [i for i in _known(files, prior) if "/" not in files[i].name]
    return [i for glob in globs for i in found if fnmatchcase(files[i].name.lower(), glob)]


def _entry_points(files: Sequence[File]) -> Iterator[int]:
    """Yield the files that the manifests call entry points; then by their names, those near the top first."""
    sources = {files[i].name: i for i in _known(files, "source")}
    for manifest in _at_top(files, "manifest"):
        data = files[manifest].data
        for module in _CALLED.findall(data):
            path = module.decode("ascii", "replace").replace(".", "/")
            names = (
                f"{folder}{path}{end}" for folder in ("", "src/", "lib/") for end in (".py", "/__init__.py")
            )
            yield from (sources[name] for name in names if name in sources)
        for quoted in map(b"".join, _STARTED.findall(data)):
            path = quoted.decode("utf-8", "replace").rstrip("/")
            yield from (sources[name] for name in (path, f"{path}.js", f"{path}/index.js") if name in sources)
    kinds = ((name, _ENTRY_POINT.fullmatch(name.lower())) for name in sources)
    named = [(name.count("/"), kind.lastindex, len(name), name) for name, kind in kinds if kind is not None]
    yield from (sources[name] for *_, name in sorted(named))


def _known(files: Sequence[File], prior: str) -> Iterator[int]:
    """Yield the files with this prior and a text, unless the user said which priority they have."""
    return (
        i for i, file in enumerate(files) if file.prior.name == prior and file.text and file.asked is None
    )


def _prose(data: bytes) -> int | None:
    """Return where prose begins, after titles and badges; if possible, outside of sections about money."""
    about_money = _about_money(data)
    first = None
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
            if bisect_right(about_money, at) % 2 == 0:
                return at
            first = at if first is None else first
    return first


def _about_money(data: bytes) -> list[int]:
    """Return where each section about money starts, and where it ends: at the next heading of its level."""
    underlines: list[bytes] = []  # in the order of their levels, as in reStructuredText
    bounds: list[int] = []
    within = 0
    for heading in _HEADING.finditer(data):
        hashes, title, underlined, underline = heading.groups(b"")
        if underline and underline not in underlines:
            underlines.append(underline)
        level = len(hashes) or underlines.index(underline) + 1
        if within and level <= within:
            bounds.append(heading.start())
            within = 0
        if not within and _MONEY.search(title or underlined):
            bounds.append(heading.start())
            within = level
    return bounds


def _plain(text: bytes) -> str:
    return _MARKUP.sub("", text.decode("utf-8", "replace"))


def _name(data: bytes) -> int | None:
    """Return where a manifest begins to name the project."""
    named = _NAMED.search(data)
    return None if named is None else named.start()


def _main(data: bytes) -> int | None:
    """Return where the main function begins, or else the code of the file."""
    main = _MAIN.search(data)
    if main is not None:
        return main.start()
    at = 0
    while (above := _ABOVE.match(data, at)) is not None:
        at = above.end()
    return at if at < len(data) else None
