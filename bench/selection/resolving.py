"""Which definition a name in a source file refers to, as far as the file's own text tells.

A name refers to a definition elsewhere unless the file declares that name itself (a parameter, a variable, a
member, a type parameter). If it is qualified (``a.b``, ``a::b``), the qualifier has to be the module, the
folder or the type of the definition. In languages that import names, the file has to import it, or to be in
the same folder where folders are packages. So ``logger.info``, ``sync.Mutex`` and a local ``result`` are no
references to a function ``info``, a type ``Mutex`` and a command ``result`` of the project.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

import tree_sitter

from tokenbox.content.lenses.languages import BY_NAME
from tokenbox.content.lenses.syntax import grammar

_IDENTIFIER = re.compile(r".*identifier$|name$|constant$|word$")
_DECLARES = re.compile(
    r".*(?:param|declar|assign|defin|variable|field|binding|property|argument|for_|alias|let"
    r"|class|module|namespace)"
)
_TYPE_PARAMETER = re.compile(r".*type_parameter|associated_?type|.*directive")
_NAMED_BY = frozenset(("name", "pattern", "left", "declarator", "alias"))
_IMPORTS = re.compile(r"import|future_import|use_|using|namespace_use|package_(?:clause|header|declaration)")
# In Lua, also ``a:b``, without a space.
_QUALIFIER = re.compile(rb"(\w+)(?:[!?]?\s*(?:\.|::|->|\\)\s*|:)\Z")
_CHAINED = re.compile(rb"[)\]}\"']\s*(?:\?\.|\.|::|->)\s*\Z|\?\.\Z")
_SCOPE = re.compile(rb"^[ \t]*(?:inline )?(?:namespace|package|module)[ \t]+([\w.:\\]+)", re.MULTILINE)
_WORD = re.compile(r"\w+")
# Languages in which a name has to be imported, and those of them in which a folder is one package.
_IMPORTING = frozenset(
    ("python", "javascript", "typescript", "tsx", "rust", "java", "kotlin", "scala", "php", "go")
)
_BY_FOLDER = frozenset(("java", "kotlin", "scala", "php", "go"))
# Files that are named after their folder, and folders that say nothing of what is in them.
_OF_FOLDER = frozenset(("__init__", "index", "mod", "lib", "main", "init"))
_ANY_FOLDER = frozenset(
    ("src", "lib", "main", "java", "kotlin", "scala", "pkg", "internal", "core", "utils", "util")
)


@dataclass(frozen=True)
class Mentions:
    """The names in a file that it does not declare, each with its qualifiers (None: unqualified)."""

    names: dict[str, frozenset[str | None]]
    imported: dict[str, set[str]]
    """The words for where each name is imported from; ``*``: all names of there."""
    path: str
    language: str

    def refers(self, name: str, scope: frozenset[str], folder: str) -> bool:
        """Return whether the file refers to the definition ``name`` in a file of this scope and folder."""
        qualifiers = self.names.get(name, frozenset())
        if qualifiers & scope:
            return True
        if None not in qualifiers:
            return False
        if self.language not in _IMPORTING or (
            self.language in _BY_FOLDER and folder == str(PurePosixPath(self.path).parent)
        ):
            return True
        return any(self.imported.get(imported, set()) & scope for imported in (name, "*"))


def scope_of(path: str, text: bytes) -> frozenset[str]:
    """Return the words that a qualifier or an import uses for what this file defines."""
    parts = PurePosixPath(path)
    stem = parts.name.partition(".")[0]
    folders = [part for part in parts.parts[:-1] if part not in _ANY_FOLDER]
    declared = {word.decode() for match in _SCOPE.finditer(text) for word in re.findall(rb"\w+", match[1])}
    modules = set() if stem in _OF_FOLDER else {stem}
    return frozenset(word for name in {*folders, *modules} for word in _WORD.findall(name)) | declared


def mentions_of(path: str, text: bytes, language: str) -> Mentions:
    """Return the names that a source file mentions."""
    names: dict[str, set[str | None]] = {}
    own: set[str] = set()
    imported: dict[str, set[str]] = {}
    at = tree_sitter.Parser(grammar(BY_NAME[language])).parse(text).walk()
    while True:
        node = at.node
        assert node is not None
        if node.is_named and _IMPORTS.match(node.type):
            statement = (node.text or b"").decode("utf-8", "replace")
            listed, origin = _import(statement, language)
            for name in listed:
                imported.setdefault(name, set()).update(origin)
        elif node.child_count == 0 and node.is_named and _IDENTIFIER.match(node.type):
            name = (node.text or b"").decode("utf-8", "replace")
            around = "" if node.parent is None else node.parent.type
            if _TYPE_PARAMETER.match(around) or (at.field_name in _NAMED_BY and _DECLARES.match(around)):
                own.add(name)
            else:
                before = text[max(0, node.start_byte - 80) : node.start_byte]
                qualifier = _QUALIFIER.search(before)
                chained = _CHAINED.search(before) is not None
                names.setdefault(name, set()).add(
                    qualifier[1].decode("utf-8", "replace") if qualifier else "()" if chained else None
                )
        elif node.type != "namespace_name" and at.goto_first_child():
            continue
        while not at.goto_next_sibling():
            if not at.goto_parent():
                kept = {name: frozenset(some) for name, some in names.items() if name not in own}
                for name in imported.keys() - own - {"*"}:
                    kept.setdefault(name, frozenset({None}))
                return Mentions(kept, imported, path, language)


def _import(statement: str, language: str) -> tuple[list[str], list[str]]:
    """Return the names that a statement imports (``*``: all), and the words for where they are from."""
    if language in ("go", "csharp") or statement.startswith("package"):
        return [], []  # packages and namespaces contain no names
    if language in _BY_FOLDER:
        # All of a project is in ``org.project``: only the last package tells where a name is from.
        words = re.sub(r"\{[^}]*\}|\b(?:import|use|static|function|const)\b|_\s*$", "", statement)
        packages = _WORD.findall(words.partition(" as ")[0])
        is_php = language == "php"
        first = next((n for n, part in enumerate(packages) if part[0].isupper() and not is_php), None)
        group = re.search(r"\{([^}]*)\}", statement)
        stars = "*" in statement or statement.rstrip("; ").endswith("._")
        if group or stars:
            names = _WORD.findall(group[1]) if group else []
            origin = packages[-1:] if first is None else packages[max(0, first - 1) :]
            return [*names, *["*"] * stars], origin
        return packages[-1:], packages[-2:-1] if first is None else packages[max(0, first - 1) : -1]
    names = statement
    if language == "python":
        names = statement.rpartition("import")[2]
    elif language in ("javascript", "typescript", "tsx"):
        names = statement.rpartition(" from ")[0]
    found = _WORD.findall(names)
    return [*found, *["*"] * ("*" in statement)], _WORD.findall(statement)
