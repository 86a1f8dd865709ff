"""Where do names come from? What a text imports, and by which places others import what it defines.

In a language with imports, a name is another file's only if the text imports it, or all of where it is from.
So a parameter ``state`` or a word ``string`` in a comment is no mention of a function of that name elsewhere.
A *place* is a module, a package, a type, or whatever stands before a dot, in lower case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import re2

from tokenbox.worth.defined import enclosing_in
from tokenbox.worth.lexical import tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

# Of what was found, ``re`` is faster; re2 takes linear time for files of any content.
_WORD = re.compile(rb"[\w$]+")
_RENAMED = re.compile(rb"([\w$*]+)(?:\s+as\s+([\w$]+))?")
_COMMENT = re.compile(rb"#[^\n]*")
_RUST_PART = re.compile(rb"\w+|[{},*]")
# ``from a.b import c as d`` and ``import a.b as c``, from the start of a line.
_PYTHON_FROM = re.compile(rb"[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^()]*\)|(?:[^\\\n#]|\\\r?\n)*)")
_PYTHON_AS = re2.compile(rb"^[ \t]*import[ \t](?:[^\n]*[ \t,])??([\w.]+)[ \t]+as[ \t]+(\w+)")
# ``import a, { b as c } from 'd'``, also in a comment after ``@``; ``const { a } = require('d')``.
_ES_IMPORT = re2.compile(
    rb"\b(?:import|export)\s+((?:type\s+)?(?:[\w$]+\s*,?\s*)?(?:\{[^{}]*\}|\*\s*(?:as\s+[\w$]+)?)?)"
    rb"\s*from\s*['\"]([^'\"\n]+)"
)
_REQUIRE = re2.compile(
    rb"\b(?:const|let|var|import)\s+(\{[^{}]*\}|[\w$]+)\s*=\s*(?:await\s+)?(?:require|import)\s*"
    rb"\(\s*['\"]([^'\"\n]+)"
)
_ES_TYPE = re2.compile(rb"\bimport\(['\"]([^'\"\n]+)['\"]\)\.([\w$]+)")
_ES_MODULE = re2.compile(rb"(?m)^(?:import|export)\b|\bmodule\.exports\b|\brequire\(")
_ES_MODULES = (".vue", ".svelte", ".mjs", ".mts", ".jsx", ".tsx")
_ES_KEYWORDS = (b"type", b"default", b"*")
# ``import a.b.C``, ``import a.b.*``, ``import a.b.{C, D => E}``.
_JVM_IMPORT = re2.compile(
    rb"(?m)^[ \t]*import[ \t]+(?:static[ \t]+)?([\w.`]+?)(?:\.([*_]|\{[^{}]*\}))?"
    rb"(?:[ \t]+as[ \t]+(\w+))?[ \t]*;?[ \t]*\r?$"
)
# ``use A\B\C;``, ``use A\B\{C, D};``
_PHP_USE = re2.compile(
    rb"(?m)^[ \t]*use[ \t]+(?:(?:function|const)[ \t]+)?\\?([\w\\]+?)(?:\\(\{[^{}]*\}))?"
    rb"(?:[ \t]+as[ \t]+(\w+))?[ \t]*;"
)
# ``use a::{b::C, d::*};``, and the use of a macro, which may need no import.
_RUST_USE = re2.compile(rb"\buse\s+([\w:{][^;=()]*);")
_RUST_MACRO = re2.compile(rb"\b([a-z_]\w+)!\s*[\[({]")
# ``local a = require "b.c"`` and ``local a = require("b").a``.
_LUA_REQUIRE = re2.compile(rb"\b([A-Za-z_]\w*)\s*=\s*require\s*\(?\s*[\"']([^\"'\n]+)[\"']\s*\)?(?:\.(\w+))?")
# Everything in a Ruby module can be named where it is open again; in C#, what is in a namespace or around it.
_RUBY_MODULE = re2.compile(rb"(?m)^[ \t]*(?:module|class)[ \t]+([A-Z][\w:]*)")
_CSHARP_SPACE = re2.compile(rb"(?m)^[ \t]*(?:(?:global[ \t]+)?using|(namespace))[ \t]+([A-Z][\w.]*)")
# What offers names of other files: ``pub use``, also in a module within the file, and ``export { a } from``.
_RUST_OFFER = re2.compile(rb"\bpub(?:\([^()\n]*\))? +use\b")
_RUST_INNER = re2.compile(rb"\bmod +(\w+) *\{")
_ES_OFFER = re2.compile(rb"\bexport\s*(?:type\s*)?[{*]")
# What a source file of C or C++ keeps to itself: static functions, and macros.
_C_SOURCE = ("c", "cc", "cpp", "cxx", "m", "mm")
_C_OWN = re2.compile(rb"(?m)^static\s[\w\s*]*?(\w+)\s*\(|^[ \t]*#[ \t]*define[ \t]+(\w+)")
_PACKAGE = re2.compile(rb"(?m)^[ \t]*(?:namespace|package)[ \t]+([\w.\\]+)")
# The namespaces of a text, and the words for it in itself.
_SCOPE = re2.compile(rb"(?m)^[ \t]*(?:inline +)?(?:namespace|package|module|defmodule)[ \t]+([\w.:\\]+)")
HERE = (b"crate", b"super")
# The top of the folder as a place.
_TOP = b"."
# Folders of source by language, which are also the roots of the packages that come with it.
ROOTS = frozenset((b"", b"java", b"kotlin", b"scala"))
# In MATLAB, what is in such a folder is a method, often called as what comes with the language.
_METHODS = re.compile(r"(?:^|/)@\w+/\w+\.m\Z")
# Files that are named after their folder.
_OF_FOLDER = (b"index", b"__init__", b"init")
_RUST_OF_FOLDER = (b"mod", b"lib", b"main")


_Import: TypeAlias = tuple[bytes, bytes, bytes]
"""A place, a name from there (``*``: all names), and what the text calls it if that is something else."""


class Imports(NamedTuple):
    """What a text imports: ``names``, each with its place; all of some places (``wholes``).

    ``renamed``: places by the name that they have in the text.
    """

    names: frozenset[tuple[bytes, bytes]]
    wholes: frozenset[bytes]
    renamed: Mapping[bytes, bytes]


_NO_IMPORTS = Imports(frozenset(), frozenset(), {})


def imports_of(path: str, data: bytes, family: str) -> Imports | None:
    """Return what a text imports; ``None`` if a name of another file needs no import.

    ``family``: a family of languages, by its first extension in ``standing``.
    """
    read = _READERS.get(family)
    if read is None:
        return None
    if family == "js" and _ES_MODULE.search(data) is None and not path.endswith(_ES_MODULES):
        return None  # a script, which shares its names with all others
    if family == "lua" and b"require" not in data:
        return None
    if family == "py" and b"import" not in data:
        return _NO_IMPORTS
    names: set[tuple[bytes, bytes]] = set()
    wholes: set[bytes] = set()
    renamed: dict[bytes, bytes] = {}
    for place, name, other in read(path, data):
        if name != b"*":
            names.add((place.lower(), name))
        elif not other:
            wholes.add(place.lower())
        if other:
            renamed[other.lower()] = (place if name == b"*" else name).lower()
    return Imports(frozenset(names), frozenset(wholes), renamed)


def offers_of(path: str, data: bytes, family: str) -> frozenset[bytes]:
    """Return the places that offer what a text imports, as the module of a text with ``pub use`` does."""
    parts = [part.lower() for part in _parts(path)]
    if family == "rs" and _RUST_OFFER.search(data) is not None:
        module = parts[:-1] if parts[-1] in _RUST_OF_FOLDER else parts[-1:]
        return frozenset((*module, *(match[1].lower() for match in _RUST_INNER.finditer(data))))
    if family == "js" and _ES_OFFER.search(data) is not None:
        module = parts[:-1] if parts[-1] in _OF_FOLDER else parts
        return frozenset((b"/".join(module), *(module if module is not parts else ())))
    return frozenset()


@dataclass(frozen=True, slots=True)
class Home:
    """The places that the names of a text come from.

    ``inner``: those of names in a type, and no place for a name that only the file can use.
    """

    places: frozenset[bytes]
    inner: Mapping[bytes, frozenset[bytes]]

    def places_of(self, name: bytes) -> frozenset[bytes]:
        return self.inner.get(name, self.places)


def home_of(path: str, data: bytes, family: str, names: Iterable[bytes]) -> Home:
    """Return the places of the ``names`` that a text defines."""
    parts = [part.lower() for part in _parts(path)]
    types = {parts[-1], *(name.lower() for name in names)}
    declared = () if family == "py" else _SCOPE.finditer(data)
    scopes = (word for match in declared for word in tokens(match[1].lower()))
    places = {*parts, *scopes, *HERE, *types}
    module = parts[:-1] if parts[-1] in _OF_FOLDER else parts
    if family == "js":
        places.update(b"/".join(module[:end]) for end in range(1, len(module) + 1))
    elif family in {"lua", "py"}:
        # A package may offer what its modules define, and any folder may be the root of the sources.
        places.update(
            b"/".join(module[start:end])
            for end in range(1, len(module) + 1)
            for start in {0, *range(max(0, end - _LONGEST_MODULE), end)}
        )
    if family in _OF_TOP:
        places.add(_TOP)
    inner = {name: frozenset() for name in names} if _METHODS.search(path) else _inner(path, data, types)
    if family in _PACKAGES:
        package = _package(parts[:-1], data, family)
        places.add(package)
        if family == "java":  # what is in an object of Scala is imported as if that were a package
            inner = {
                name: around.union(b"%b.%b" % (package, one) for one in around)
                for name, around in inner.items()
            }
    return Home(frozenset(places - ROOTS), inner)


def _inner(path: str, data: bytes, types: Iterable[bytes]) -> dict[bytes, frozenset[bytes]]:
    """Return the places of names in types, the types directly around them; none of names of this file."""
    extension = path.rpartition(".")[2]
    if extension in _C_SOURCE:
        return {match[1] or match[2]: frozenset() for match in _C_OWN.finditer(data)}
    language = _WITH_INNER_TYPES.get(extension)
    found = {}
    for name, around in () if language is None else enclosing_in(data, language).items():
        if b"" in around or (b"?" in around and language in _INDENTED_ANYWAY):
            continue
        found[name] = frozenset(types if b"?" in around else (place.lower() for place in around))
    return found


def _of_python(path: str, data: bytes) -> Iterator[_Import]:
    """Read the lines with the word import, which is faster than to match the whole text."""
    end = read = 0
    modules = []
    parts = _parts(path)
    while (at := data.find(b"import", end)) >= 0:
        start = data.rfind(b"\n", end, at) + 1
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        line = data[start:end]
        if start >= read and (match := _PYTHON_FROM.match(data, start)) is not None:
            read = match.end()
            place = _python_module(parts, match[1])
            for name, other in _RENAMED.findall(_COMMENT.sub(b"", match[2])):
                yield place, name, other
        elif b"as" in line and (match := _PYTHON_AS.search(line)) is not None:
            modules.append((_python_module(parts, match[1]), b"*", match[2]))
    yield from modules


def _python_module(parts: list[bytes], named: bytes) -> bytes:
    """Return a module as a path: of its name, or from the top of the folder if it is relative."""
    below = named.lstrip(b".")
    up = len(named) - len(below)
    return b"/".join([*(parts[:-up] if up else []), *(below.split(b".") if below else [])]) or _TOP


def _of_javascript(path: str, data: bytes) -> Iterator[_Import]:
    parts = _parts(path)
    is_called = b"import(" in data
    found = [*_ES_IMPORT.finditer(data)] if b"from" in data else []
    if is_called or b"require" in data:
        found += _REQUIRE.finditer(data)
    for match in found:
        place = _es_module(parts, match[2])
        whole, _, listed = match[1].partition(b"{")
        for name, other in _RENAMED.findall(whole):
            if name not in _ES_KEYWORDS:
                yield place, name, b""
            if other or name not in _ES_KEYWORDS:
                yield place, b"*", other or name
        for name, other in _RENAMED.findall(listed):
            if name not in _ES_KEYWORDS:
                yield place, name, other
    for match in _ES_TYPE.finditer(data) if is_called else ():
        yield _es_module(parts, match[1]), match[2], b""


def _es_module(parts: list[bytes], named: bytes) -> bytes:
    """Return a module as a path from the top of the folder, or the last part of its name."""
    names = named.split(b"/")
    found = parts[:-1] if names[0] in {b".", b".."} else []
    for name in names:
        if name == b"..":
            del found[-1:]
        elif name not in {b".", b""}:
            found.append(name.partition(b".")[0] if name is names[-1] else name)
    if found and found[-1] in _OF_FOLDER:
        del found[-1]
    return b"/".join(found) or _TOP if names[0] in {b".", b".."} else b"".join(found[-1:]).lstrip(b"#@~$")


def _of_jvm(path: str, data: bytes) -> Iterator[_Import]:
    yield _package(_parts(path)[:-1], data, "java"), b"*", b""
    for match in _JVM_IMPORT.finditer(data):
        names = match[1].split(b".")
        first_type = next((n for n, name in enumerate(names) if name[:1].isupper()), len(names) - 1)
        if match[2] and not names[-1][:1].isupper():
            first_type = len(names)
        yield from _dotted([b".".join(names[:first_type]), *names[first_type:]], match[2], match[3])


def _of_php(path: str, data: bytes) -> Iterator[_Import]:
    yield _package(_parts(path)[:-1], data, "php"), b"*", b""
    for match in _PHP_USE.finditer(data):
        space, _, name = match[1].rpartition(b"\\")
        yield from _dotted([match[1]] if match[2] else [space, name], match[2], match[3])


def _dotted(names: list[bytes], group: bytes | None, other: bytes | None) -> Iterator[_Import]:
    """Yield each name with what is before it, or the group after the last with that."""
    if group is None:
        for place, name in pairwise(names):
            yield place, name, other if other and name is names[-1] else b""
    else:
        for name in _WORD.findall(group.replace(b"*", b"_")):
            yield names[-1], b"*" if name == b"_" else name, b""


def _of_rust(_: str, data: bytes) -> Iterator[_Import]:
    for match in _RUST_USE.finditer(data):
        yield from _rust_tree(_RUST_PART.findall(match[1]))
    for match in _RUST_MACRO.finditer(data):
        yield b"crate", match[1], b""


def _rust_tree(parts: list[bytes]) -> Iterator[_Import]:
    """Yield the names of a tree such as ``a::{b::C, d::*, E as F}``, each with what is before it."""
    around, path = [b"crate"], list[bytes]()
    for part in [*parts, b","]:
        if part == b"{":
            around.append(path[-1] if path else around[-1])
            path = []
        elif part not in {b",", b"}"}:
            path.append(part)
        else:
            names, other = (path[:-2], path[-1]) if path[-2:-1] == [b"as"] else (path, b"")
            if names and names[-1] != b"self":
                yield names[-2] if len(names) > 1 else around[-1], names[-1], other
            path = []
            if part == b"}":
                around[1:] = around[1:-1]


def _of_lua(_: str, data: bytes) -> Iterator[_Import]:
    for match in _LUA_REQUIRE.finditer(data):
        place = match[2].replace(b".", b"/")
        yield (place, match[3], match[1]) if match[3] else (place, b"*", match[1])


def _of_ruby(_: str, data: bytes) -> Iterator[_Import]:
    yield _TOP, b"*", b""
    for match in _RUBY_MODULE.finditer(data):
        for place in match[1].split(b"::"):
            yield place, b"*", b""


def _of_csharp(_: str, data: bytes) -> Iterator[_Import]:
    yield _TOP, b"*", b""
    for match in _CSHARP_SPACE.finditer(data):
        space = match[2]
        yield space, b"*", b""
        while match[1] and (space := space.rpartition(b".")[0]):
            yield space, b"*", b""


def _of_go(path: str, data: bytes) -> Iterator[_Import]:
    yield _package(_parts(path)[:-1], data, "go"), b"*", b""


def _package(folder: list[bytes], data: bytes, family: str) -> bytes:
    """Return the package of a text, whose names need no qualifier there: in Go, that is a folder."""
    found = None if family == "go" else _PACKAGE.search(data)
    if found is None and family == "cs":
        return _TOP
    return b"/".join([*folder, b""]) or b"/" if found is None else found[1].lower()


def _parts(path: str) -> list[bytes]:
    """Return the folders of a path and the name of its file, without the extensions."""
    *folders, name = path.encode("utf-8", "surrogateescape").split(b"/")
    return [*folders, name.partition(b".")[0]]


# The maximum number of parts of a module's name, if it is not one from the top of the folder.
_LONGEST_MODULE = 8
_OF_TOP = frozenset({"js", "py", "rb"})
_PACKAGES = frozenset({"cs", "go", "java", "php"})
_WITH_INNER_TYPES = {
    "cs": "csharp",
    "java": "java",
    "kt": "kotlin",
    "rb": "ruby",
    "scala": "scala",
    "swift": "swift",
}
# Where a type may be indented although it is in no other: in a namespace, in a condition.
_INDENTED_ANYWAY = frozenset({"csharp", "ruby", "swift"})
_READERS: Mapping[str, Callable[[str, bytes], Iterator[_Import]]] = {
    "cs": _of_csharp,
    "go": _of_go,
    "java": _of_jvm,
    "js": _of_javascript,
    "php": _of_php,
    "lua": _of_lua,
    "py": _of_python,
    "rb": _of_ruby,
    "rs": _of_rust,
}
