"""Which names does a text define? They are recognized by the beginning of a line, without a parser.

Each language has its own words for it (``_LANGUAGES``), so that prose in a comment, such as "type below" or
"for all of Unicode (see", defines nothing. A text of any other language may use all of them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import re2

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping

_MODIFIERS = (
    r"export|default|declare|pub(?:\([a-z]+\))?|public|private|protected|internal|fileprivate|static|final"
    r"|abstract|async|sealed|open|override|virtual|inline|const|unsafe|extern(?: \"[^\"\n]*\")?|partial|data"
    r"|local|readonly|ref|case|implicit|lazy|inner|value|annotation|actual|expect|infix|operator|suspend"
    r"|tailrec|indirect|strictfp|non-sealed|opaque|template *<[^\n]*?>|@\w[\w.]*(?:\([^()\n]*\))?"
)
_BEFORE = rf"(?:(?:{_MODIFIERS}) +)*"
# A name after its qualifiers: Elixir's ``A.B``, C++'s ``A::B``, Lua's ``a:b``.
_NAME = r"(?:[A-Za-z_]\w*(?:\.|::?))*([A-Za-z_]\w{2,})"
# After the name of a type: not the name of a variable or function, nor the end of a forward declaration.
_OPENS = (
    r"(?:[ \t]*(?:[{(:<#\[=|]|/[/*]|\r?$)"
    r"|[ \t]+(?:extends|implements|where|is|with|derives|final|permits|for|do)\b)"
)
_TYPE_PARAMETERS = r"(?:<[^>\n]*> *)?(?:[A-Z]\w*<[^>\n]*>\.)?"
# Kotlin's functions for other types, as in ``fun <A> Map<A, List<B>>?.name(``.
_ARGUMENTS = r"<(?:[^<>\n]|<(?:[^<>\n]|<[^<>\n]*>)*>)*>"
_EXTENSION = (
    rf"^{_BEFORE}(?:fun|val|var) +(?:{_ARGUMENTS} *)?"
    rf"(?:(?:[A-Za-z_]\w*(?:{_ARGUMENTS})?|\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\))\??\.)*"
    r"([A-Za-z_]\w{2,})[ \t]*(?:[(:=\n]|by\b)"
)
_OPENS_OR_CONSTRUCTOR = (
    rf"(?:{_OPENS}|[ \t]+(?:@|(?:actual|internal|private|protected|public|constructor)\b))"
)
# In C#, ``object`` is the type of a method.
_OBJECT = rf"^[ \t]*{_BEFORE}object +{_NAME}(?:[ \t]*(?:[{{:]|\r?$)|[ \t]+(?:extends|with)\b)"
_IN_GROUP = r"^[ \t]+([A-Z]\w+) +(?:struct|interface) ?\{"  # in Go's ``type (``
# PHP's ``if (! function_exists('name')) {``, with the function in it.
_IF_MISSING = r"^if \(! ?function_exists\(['\"](?:\w+\\+)*([A-Za-z_]\w{2,})['\"]\)\)"
# Functions, also with the name at the beginning of a line, but not those of a type; macros; types.
_OF_C = (
    r"^[A-Za-z_][\w *:<>,&]*[ *&](?:[a-z_]\w*::)*([A-Za-z_]\w{2,}) ?\([^;{\n]*(?:\{|$)",
    r"^([A-Za-z_]\w{2,}) ?\([^;\n]*\n(?:[ \t][^\n]*\n)*\{",
    r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w{2,})",
    r"^typedef [^;{\n]*[ *]([A-Za-z_]\w{2,});",
    r"^\} *\*?([A-Za-z_]\w{2,});",
)


# Constants and other names for types, in C++.
_OF_CPP = (
    r"^[ \t]*(?:(?:inline|static) +)*constexpr +[\w:<>, ]+ +([A-Za-z_]\w{2,}) *(?:[={]|\[)",
    r"^[ \t]*(?:template *<[^\n]*> *)?using +([A-Za-z_]\w{2,}) *=",
)
_DELEGATE = rf"^[ \t]*{_BEFORE}delegate +[\w.<>\[\], ?]+ +([A-Za-z_]\w{{2,}}) *[<(]"  # of C#
# What a module of CommonJS exports under a name.
_EXPORTS = (
    r"^(?:module\.)?exports\.([A-Za-z_$]\w{2,}) *=[^=]",
    r"^module\.exports *= *(?:async +)?(?:function\*?|class) +([A-Za-z_$]\w{2,})",
)
_RUBY_TYPE = r"^[ \t]*([A-Z]\w{2,}) *= *(?:Struct|Data|Class|Module)\.(?:new|define)\b"
_LUA_FUNCTION = r"^(?:local +)?(?:\w+[.:])*([A-Za-z_]\w{2,}) *= *function\b"
_SQL = (
    r"^[ \t]*(?i:create +(?:or +replace +)?(?:[a-z]+ +)*?(?:table|view|function|procedure|type)"
    r" +(?:if +not +exists +)?)(?:[\w\[\]\"`]+\.)?[\[\"`]?([A-Za-z_]\w{2,})"
)


class _Words(NamedTuple):
    """The words before names: of types, of functions, variables and constants, and of other names for types.

    ``opens`` comes after the name of a type, ``is_alias`` after another name for one; ``more`` are further
    patterns; what is in a block ``comment`` defines nothing.
    """

    types: str = ""
    functions: str = ""
    aliases: str = ""
    opens: str = _OPENS
    is_alias: str = r"[ \t]*[=<:\[]"
    more: tuple[str, ...] = ()
    comment: str = r"^[ \t]*/\*(?s:.*?)\*/"

    def heads(self) -> Iterator[str]:
        """Yield a pattern for a comment, and one with the name in a group for each kind of definition."""
        if self.comment:
            yield self.comment
        # Types anywhere; functions, variables and constants only at the beginning of a line: no members.
        if self.types:
            yield (rf"^[ \t]*{_BEFORE}(?:{self.types}) +(?:[A-Z][A-Z0-9]*_[A-Z0-9_]+ +)?{_NAME}{self.opens}")
        if self.aliases:
            yield rf"^[ \t]*{_BEFORE}(?:{self.aliases}) +{_NAME}{self.is_alias}"
        if self.functions:
            yield rf"^{_BEFORE}(?:{self.functions})\*? +{_TYPE_PARAMETERS}{_NAME}"
        yield from self.more


_ANY = _Words(
    "(?:enum |record |fun )?(?:class|struct|interface)|enum|trait|mod|module|protocol|record|union"
    "|macro_rules!|actor|defmodule|defprotocol",
    "def|func|fn|function|fun|sub|val|var|let|const|defp?|macro",
    "type|typealias|newtype",
    is_alias="",
    more=(_OBJECT, _IN_GROUP, *_OF_C),
    comment="",
)
_C = _Words("(?:enum )?(?:class|struct)|enum|union|interface", more=_OF_C)
_TYPESCRIPT = _Words("class|interface|enum|module|namespace", "function|const|let|var", "type")
_LANGUAGES: Mapping[str, _Words] = {
    "c": _C,
    "cpp": _C._replace(types=f"{_C.types}|concept", more=(*_OF_C, *_OF_CPP)),
    "csharp": _Words("(?:record )?(?:class|struct)|interface|enum|record", more=(_DELEGATE,)),
    "go": _Words("", "func|var|const", "type", is_alias="", more=(_IN_GROUP,)),
    "java": _Words("class|@?interface|enum|record"),
    "javascript": _TYPESCRIPT._replace(more=_EXPORTS),
    "kotlin": _Words(
        "(?:enum |fun )?(?:class|interface)",
        "",
        "typealias",
        opens=_OPENS_OR_CONSTRUCTOR,
        more=(_OBJECT, _EXTENSION),
    ),
    "lua": _Words("", "function", comment="", more=(_LUA_FUNCTION,)),
    "php": _Words("class|interface|trait|enum", "function|const", more=(_IF_MISSING,)),
    "python": _Words("class", "def", "type", opens=r"[ \t]*[:(\[]", comment=""),
    "ruby": _Words("class|module", "def", comment="", more=(_RUBY_TYPE,)),
    "rust": _Words(
        "struct|enum|union|trait|mod",
        "fn|const|static(?: mut| ref)?|macro|macro_rules!",
        "type",
        opens=rf"(?:{_OPENS}|;)",
    ),
    "scala": _Words("(?:case )?class|trait|enum", "def|val|var", "type", more=(_OBJECT,)),
    "sql": _Words(more=(_SQL,), comment=""),
    "swift": _Words("class|struct|protocol|enum|actor", "func|let|var", "typealias"),
    "tsx": _TYPESCRIPT,
    "typescript": _TYPESCRIPT,
    "vue": _TYPESCRIPT,
}
# What the patterns of C take for a name in a type of functions, and in ``operator bool()``.
_NO_NAMES = frozenset(
    b"void bool char short int long float double unsigned signed auto const operator return".split()
)
_QUALIFIER = re2.compile(rb"(\w+)(?:\.|::?)$")
_MEMBERS = re2.compile(
    rf"(?m)^[ \t]*{_BEFORE}(?:{_ANY.functions})\*? +(?:\([^)\n]*\) *)?(?:self\.)?([A-Za-z_]\w{{2,}})".encode()
)


def defined_in(data: bytes, language: str | None = None) -> list[bytes]:
    """Return the distinct names that a text defines, without the members of types.

    ``language``: a name of ``content.lenses.languages``, if it is known.
    """
    found: dict[bytes, None] = {}
    for match in _pattern(language or "").finditer(data):
        if (group := match.lastindex) is not None:
            start, end = match.span(group)
            found[data[start:end]] = None
    return [name for name in found if name not in _NO_NAMES]


def enclosing_in(data: bytes, language: str) -> dict[bytes, set[bytes]]:
    """Return the names of the types that each name is defined in; ``b""`` for one at the top of the text.

    By indentation; a name without a type around it that is indented is in ``b"?"``.
    """
    found: dict[bytes, set[bytes]] = {}
    around: list[tuple[int, bytes]] = []
    for match in _pattern(language).finditer(data):
        if match.lastindex is not None:
            indent = len(match[0]) - len(match[0].lstrip())
            while around and around[-1][0] >= indent:
                around.pop()
            qualifier = _QUALIFIER.search(data[match.start() : match.start(match.lastindex)])
            inner = around[-1][1] if around else b"?" if indent else b""
            found.setdefault(match[match.lastindex], set()).add(qualifier[1] if qualifier else inner)
            around.append((indent, match[match.lastindex]))
    return found


def defined_with_members(data: bytes) -> set[bytes]:
    """Return the names that a text of any language defines, with the functions in types."""
    return {*defined_in(data), *(match[1] for match in _MEMBERS.finditer(data))}


@cache
def _pattern(language: str) -> re.Pattern[bytes]:
    heads = "|".join(_LANGUAGES.get(language, _ANY).heads())
    return re2.compile(f"(?m){heads}".encode())  # type: ignore[no-any-return]
