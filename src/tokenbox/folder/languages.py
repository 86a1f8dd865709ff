"""The language of a file, by its name or else by its first bytes. Data.

Data files (JSON, YAML, TOML) become code blocks, because a structured data block has no field for the path.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tokenbox.content.block_kinds import FormatHint, Lang
from tokenbox.content.lenses.heads import HEADS


class FileKind(NamedTuple):
    """The block for a file: a document if it has a ``format``, otherwise code.

    ``outline``: the language's name in ``content.lenses.languages``.
    """

    lang: Lang = Lang.UNKNOWN
    outline: str | None = None
    format: FormatHint | None = None


CODE = FileKind()
# Text in a language without an entry below.
OTHER = FileKind(outline="other")
MARKDOWN = FileKind(Lang.MARKDOWN, None, FormatHint.MARKDOWN)
PLAIN = FileKind(format=FormatHint.PLAIN)

_PYTHON = FileKind(Lang.PYTHON, "python")
_JAVASCRIPT = FileKind(Lang.JAVASCRIPT, "javascript")
_TYPESCRIPT = FileKind(Lang.TYPESCRIPT, "typescript")
_TSX = FileKind(Lang.TYPESCRIPT, "tsx")
_C = FileKind(Lang.C, "c")
_CPP = FileKind(Lang.CPP, "cpp")
_RUBY = FileKind(Lang.RUBY, "ruby")
_SHELL = FileKind(Lang.SHELL, "shell")
_HTML = FileKind(Lang.HTML)
_CSS = FileKind(Lang.CSS, "css")
_JSON = FileKind(Lang.JSON)
_NOTEBOOK = FileKind(Lang.PYTHON, "notebook")
_YAML = FileKind(Lang.YAML)
_TOML = FileKind(Lang.TOML)

_SUFFIXES: dict[str, FileKind] = {
    **{suffix: FileKind(outline=heads.name) for heads in HEADS for suffix in heads.suffixes.split()},
    **dict.fromkeys(("py", "pyi", "pyw", "bzl", "bazel", "star", "gyp", "gypi"), _PYTHON),
    **dict.fromkeys(("js", "mjs", "cjs", "jsx"), _JAVASCRIPT),
    **dict.fromkeys(("ts", "mts", "cts"), _TYPESCRIPT),
    "tsx": _TSX,
    "go": FileKind(Lang.GO, "go"),
    "rs": FileKind(Lang.RUST, "rust"),
    "java": FileKind(Lang.JAVA, "java"),
    **dict.fromkeys(("c", "h"), _C),
    **dict.fromkeys(("cc", "cpp", "cxx", "hh", "hpp", "hxx", "ino", "cu", "cuh", "inl", "ipp", "tpp"), _CPP),
    **dict.fromkeys(("rb", "rake", "gemspec"), _RUBY),
    **dict.fromkeys(("sh", "bash", "zsh", "ksh", "fish"), _SHELL),
    "cs": FileKind(outline="csharp"),
    **dict.fromkeys(("php", "phtml"), FileKind(outline="php")),
    "swift": FileKind(outline="swift"),
    **dict.fromkeys(("kt", "kts"), FileKind(outline="kotlin")),
    **dict.fromkeys(("scala", "sc", "sbt"), FileKind(outline="scala")),
    "lua": FileKind(outline="lua"),
    "sql": FileKind(Lang.SQL, "sql"),
    **dict.fromkeys(("html", "htm", "xhtml"), _HTML),
    **dict.fromkeys(("vue", "svelte", "astro"), FileKind(Lang.HTML, "vue")),
    "css": _CSS,
    **dict.fromkeys(("scss", "sass", "less"), FileKind(Lang.CSS, "sass")),
    **dict.fromkeys(("json", "jsonc", "json5", "jsonl", "geojson"), _JSON),
    "ipynb": _NOTEBOOK,
    **dict.fromkeys(("yaml", "yml"), _YAML),
    "toml": _TOML,
    **dict.fromkeys(("md", "markdown", "mdx", "rmd", "qmd"), MARKDOWN),
    **dict.fromkeys(("txt", "text", "rst", "adoc", "org", "log", "csv", "tsv"), PLAIN),
}

_NAMES: dict[str, FileKind] = {
    **dict.fromkeys(("rakefile", "gemfile", "vagrantfile"), _RUBY),
    **dict.fromkeys((".bashrc", ".profile", ".zshrc", "configure", "gradlew"), _SHELL),
    **dict.fromkeys(("makefile", "gnumakefile", "justfile"), FileKind(outline="make")),
    "cmakelists.txt": FileKind(outline="cmake"),
    "jenkinsfile": FileKind(outline="clike"),
    **dict.fromkeys(("sconstruct", "sconscript", "wscript", "tiltfile"), _PYTHON),
    **dict.fromkeys(("dockerfile", "containerfile"), FileKind(outline="docker")),
    **dict.fromkeys(("cargo.lock", "poetry.lock", "uv.lock", "pipfile", "pdm.lock"), _TOML),
    **dict.fromkeys(("composer.lock", "pipfile.lock", "flake.lock", ".prettierrc", ".babelrc"), _JSON),
    **dict.fromkeys(("license", "licence", "copying", "notice", "authors", "readme", "changelog"), PLAIN),
}

_INTERPRETERS: tuple[tuple[re.Pattern[bytes], FileKind], ...] = (
    (re.compile(rb"python"), _PYTHON),
    (re.compile(rb"\b(?:ba|da|z|k|a)?sh\b"), _SHELL),
    (re.compile(rb"\bts-node|\bdeno|\bbun\b"), _TYPESCRIPT),
    (re.compile(rb"\bnode"), _JAVASCRIPT),
    (re.compile(rb"\bruby"), _RUBY),
)
_BEGINNINGS: tuple[tuple[re.Pattern[bytes], FileKind], ...] = (
    (re.compile(rb"\s*<(?:!doctype html|html)\b", re.IGNORECASE), _HTML),
    (re.compile(rb"\s*\{\s*\""), _JSON),
    (re.compile(rb"---\s*\n"), _YAML),
    # The files of Bazel that have no suffix.
    (re.compile(rb"(?:#[^\n]*\n|\s)*(?:load|package|workspace|\w+_(?:library|binary|test))\("), _PYTHON),
)
# The signs that a header is Objective-C or C++; without them it is C.
_OBJC_HEADER = re.compile(rb"^(?:@(?:interface|protocol|end)\b|#import\b)", re.MULTILINE)
_CPP_HEADER = re.compile(rb"^[ \t]*(?:class \w+|namespace\b|template ?<|#include <\w+>)", re.MULTILINE)
# The first line of Pascal in a file that may be Puppet's.
_PASCAL_UNIT = re.compile(
    rb"^[ \t]*(?:unit|program|library)[ \t]+[\w.]+[ \t]*;", re.MULTILINE | re.IGNORECASE
)
_MACRO = re.compile(rb"^[ \t]*\{%-?[ \t]*macro\b", re.MULTILINE)
# What a suffix means if the text has a sign of that.
_SIGNS: dict[str, tuple[tuple[re.Pattern[bytes], FileKind], ...]] = {
    "ts": ((re.compile(rb"\A\s*<\?xml\b"), OTHER),),  # translations of Qt
    "h": ((_OBJC_HEADER, FileKind(outline="objc")), (_CPP_HEADER, _CPP)),
    "sql": ((_MACRO, FileKind(Lang.SQL, "jinja")),),
    "pp": ((_PASCAL_UNIT, FileKind(outline="pascal")),),
}
_SEARCHED_BYTES = 4096
_SEARCHED_BYTES_FOR_SIGNS = 1 << 16


def kind_of(path: str, content: bytes) -> FileKind:
    """Return the kind of the file ``path``."""
    name = without_in(path.rpartition("/")[2].lower())
    stem, _, suffix = name.rpartition(".")
    known = _NAMES.get(name) or (_SUFFIXES.get(suffix) if stem else None)
    if known is None:
        found = _by_content(content)
        return OTHER if found is CODE and stem and suffix else found
    if known is _NOTEBOOK and content.lstrip()[:1] == b"{":
        return _JSON  # it could not be read as cells
    for sign, kind in _SIGNS.get(suffix, ()):
        if sign.search(content, 0, _SEARCHED_BYTES_FOR_SIGNS):
            return kind
    return known


def without_in(name: str) -> str:
    """Return a name without the ``.in`` of a template: the text of ``config.h.in`` is C."""
    stem = name.removesuffix(".in")
    return stem if "." in stem[1:] or stem in _NAMES else name


def _by_content(content: bytes) -> FileKind:
    if content.startswith(b"#!"):
        line = content[: content.find(b"\n") + 1 or len(content)][:_SEARCHED_BYTES]
        return next((kind for sign, kind in _INTERPRETERS if sign.search(line)), CODE)
    return next((kind for sign, kind in _BEGINNINGS if sign.match(content, 0, _SEARCHED_BYTES)), CODE)
