"""Packs without a query: do they contain the most referenced definitions, and how are the tokens used?

    python bench/selection/unasked.py CLONES [--only NAME,NAME] [--commit HEAD] [--most 10,30,100]

For each clone, at 8,000 and 32,000 tokens (or ``--budgets``): the number of the ten most referenced
definitions whose signature is in the pack (``--most``: of so many), the share of tokens that is content of
files (not the tree, not markup), and the share of the budget that is used.

By the syntax trees, a definition is a type, a macro, or a function outside of types, if it is not private;
files that merge all others define nothing. A reference is another source file of its language that contains
its name as an identifier which ``resolving.py`` can lead back to it, and to no other definition of that name;
definitions with fewer than three references do not count. Members of types do not count: without type
inference, any ``name`` or ``push`` would be a reference.
In C and C++, the prototype in a header is a signature, too.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2]))

from mine import named_clones
from resolving import mentions_of, scope_of
from trees import files_of, source_of

from tests.compose.independent import encoding
from tokenbox.content.blocks import CodeBlock, DocumentBlock
from tokenbox.content.lenses.definition import DefinitionRole
from tokenbox.content.lenses.definitions import definitions
from tokenbox.content.lenses.languages import BY_NAME
from tokenbox.content.lenses.syntax import has_grammar
from tokenbox.folder import PackOptions, pack_source
from tokenbox.tokenizers import registry
from tokenbox.tokenizers.cache import CountCache

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from resolving import Mentions

    from tokenbox.content.lenses.definition import Definition
    from tokenbox.folder import Source
    from tokenbox.folder.source import File

_SHORTEST = 4
# The minimum number of references: below, the order of definitions is arbitrary.
_FEWEST = 3
# The bytes of a line, and the number of such lines, by which a merged file is recognized.
_LONG, _MANY = 24, 300
# Languages that mention each other's names.
_GROUPS = {"cpp": "c", "javascript": "typescript", "tsx": "typescript"}
_MODIFIERS = (
    r"(?:@[\w.]+(?:\([^)\n]*\))?\s+"
    r"|(?:export|default|declare|pub(?:\([a-z]+\))?|public|internal|open|final|unsafe|abstract) +)*"
)
# Namespaces, additions to types that are defined elsewhere, and private definitions.
_NAMESPACE = re.compile(_MODIFIERS + r"(?:namespace|package|extern|using)\b")
_EXTENSION = re.compile(_MODIFIERS + r"(?:impl|mod|extension|given|func \()")
_PRIVATE = re.compile(
    _MODIFIERS + r"(?:(?:private|fileprivate|static|local)\b(?! *(?:class|interface|enum))|fn\b)"
)
# Blocks of a DSL in Ruby, such as ``action :find do``: their names are those of anything.
_SYMBOL_BLOCK = re.compile(r"[\w:.]+[ (]*(?::\w+|\w+: )[^\n]*(?:\bdo\b|\{)")
_HAS_SIGNATURE = re.compile(
    r"#[ \t]*define\b|"
    + _MODIFIERS
    + r"(?:type|typedef|typealias|delegate|class|record|enum|struct|object)\b"
)
_COMMENT_OR_STRING = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
_HEADERS = (".h", ".hh", ".hpp", ".hxx")


@dataclass(frozen=True)
class Wanted:
    """A definition, the number of files that reference it, and how the lines of its signature begin."""

    name: str
    path: str
    files: int
    lines: tuple[str, ...]

    def is_in(self, text: str) -> bool:
        return any(
            re.search(rf"^\s*(?:[0-9]+\|\s*)?{re.escape(line)}(?!\w)", text, re.MULTILINE)
            for line in self.lines
        )


def most_referenced(source: Source, number: int) -> list[Wanted]:
    """Return the ``number`` definitions that most files reference, the most referenced first."""
    mentions: dict[str, dict[str, list[Mentions]]] = defaultdict(lambda: defaultdict(list))
    defined: dict[str, set[tuple[str, str, str]]] = defaultdict(set)
    scopes: dict[str, frozenset[str]] = {}
    modules: dict[str, set[str]] = defaultdict(set)
    headers = []
    files = [file for file in source.files if _counts(file)]
    merged = _merged(files)
    for file in files:
        if file.name in merged:
            continue
        language = file.kind.outline or ""
        modules[PurePosixPath(file.name).name.partition(".")[0]].add(file.name)
        group = _GROUPS.get(language, language)
        if file.name.endswith(_HEADERS):
            headers.append(file.data.decode())
        found = mentions_of(file.name, file.data, language)
        for name in found.names:
            mentions[group][name].append(found)
        scopes[file.name] = scope_of(file.name, file.data)
        for name, line in _defined(file.data, definitions(file.data, BY_NAME[language]), top=True):
            defined[name].add((group, file.name, line))
    counted = []
    for name, found in _first(defined):
        lines: dict[str, list[str]] = defaultdict(list)
        for _, path, line in found:
            lines[path].append(line)
        if any(modules[name] - {path} for path in lines):
            continue
        files = Counter(
            meant[0]
            for group in {group for group, _, _ in found}
            for one in mentions[group][name]
            if one.path not in lines
            and len(meant := [path for path in lines if _means(one, name, path, scopes)]) == 1
        )
        counted += [(-files[path], name, path, starts) for path, starts in lines.items()]
    return [
        Wanted(name, path, -files, (*lines, *_prototypes(headers, name)))
        for files, name, path, lines in sorted(counted)[:number]
        if -files >= _FEWEST
    ]


def _means(one: Mentions, name: str, path: str, scopes: dict[str, frozenset[str]]) -> bool:
    return one.refers(name, scopes[path], str(PurePosixPath(path).parent))


def _counts(file: File) -> bool:
    """Return whether the file is source code with a grammar."""
    language = file.kind.outline
    return (
        file.text is not None
        and file.prior.name == "source"
        and language is not None
        and has_grammar(language)
    )


def _merged(files: Sequence[File]) -> set[str]:
    """Return the files that consist of others: nine tenths of their longer lines stand in several others."""
    lines = {
        file.name: {line for raw in file.data.split(b"\n") if len(line := raw.strip()) >= _LONG}
        for file in files
    }
    sizes = Counter(line for found in lines.values() for line in found)
    return {
        name
        for name, found in lines.items()
        if len(found) >= _MANY
        and sum(sizes[line] > 1 for line in found) * 10 >= 9 * len(found)
        and not any(len(found & other) * 2 >= len(found) for path, other in lines.items() if path != name)
    }


def _first(defined: dict[str, set[tuple[str, str, str]]]) -> list[tuple[str, list[tuple[str, str, str]]]]:
    return [(name, sorted(found)) for name, found in defined.items() if len(name) >= _SHORTEST]


def _defined(text: bytes, found: Iterable[Definition], *, top: bool) -> Iterator[tuple[str, str]]:
    """Yield the name of each definition that counts, and the beginning of the line with its signature."""
    for one in found:
        whole = text[one.start : one.last].decode("utf-8", "replace")
        before = text[text.rfind(b"\n", 0, one.start) + 1 : one.start].decode("utf-8", "replace")
        is_namespace = _NAMESPACE.match(whole) is not None
        yield from _defined(text, one.inside, top=top and (is_namespace or not one.name))
        is_type = one.role is DefinitionRole.CONTAINER
        is_function = one.role is DefinitionRole.FUNCTION and top
        if not (is_type or is_function or (top and _HAS_SIGNATURE.match(whole))):
            continue
        if (
            is_namespace
            or _SYMBOL_BLOCK.match(whole)
            or _EXTENSION.match(whole)
            or _PRIVATE.match(whole)
            or not re.fullmatch(r"(?:_?M[.:])?\w+", one.name)
        ):
            continue
        # After an unknown macro, the parser may mistake the type of a function for its name.
        head = _COMMENT_OR_STRING.sub(lambda match: " " * len(match[0]), whole[: one.body - one.start])
        place = re.search(rf"(?<!\w){one.name}(?!\w)(?!\)| +\w+ *\(|(?:\.|::?)\w)", head)
        if place is not None:
            start = whole.rfind("\n", 0, place.start()) + 1
            line = ((before if start == 0 else "") + whole[start : place.end()]).strip()
            if top or not line.startswith("}"):  # in a struct, a field after its type
                yield re.split(r"[.:]", one.name)[-1], line


def _prototypes(headers: Iterable[str], name: str) -> Iterator[str]:
    pattern = re.compile(rf"^(?!#|\s|return\b)(?:\w[\w \t*]*[ \t*])?{name}(?= *\()", re.MULTILINE)
    return (match[0] for header in headers for match in pattern.finditer(header))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", type=Path)
    parser.add_argument("--only", default="", help="names of clones, separated by commas")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--most", default="10", help="numbers of definitions, separated by commas")
    parser.add_argument("--budgets", default="8000,32000")
    options = parser.parse_args()
    counter, cache, judge = registry.get("o200k_base"), CountCache(), encoding("o200k_base")
    budgets, most = ([int(one) for one in given.split(",")] for given in (options.budgets, options.most))
    print(f"repository, files, tokens of source; at {options.budgets}: signatures, content, used")
    for name, clone in named_clones(options.clones, options.only):
        source = source_of(files_of(clone, options.commit))
        wanted = most_referenced(source, max(most))
        size = sum(len(file.text or b"") for file in source.files if file.prior.name == "source") // 4
        row = []
        for budget in budgets:
            pack = pack_source(source, counter, budget, options=PackOptions(), cache=cache)
            total = len(judge.encode_ordinary(pack.text))
            if total > budget:
                raise SystemExit(f"over {budget} in {name}")
            content = 0
            for block in pack.blocks:
                if isinstance(block, CodeBlock | DocumentBlock):
                    shown = block.content.decode() if block.summary is None else block.summary
                    content += len(judge.encode_ordinary(shown))
            found = [one.is_in(pack.text) for one in wanted]
            signatures = ", ".join(f"{sum(found[:n])} of {len(found[:n])}" for n in most)
            row.append(f"{signatures}, {content / total:.1%}, {total / budget:.1%}")
        print(f"{name}: {len(source.files):,}, ~{size:,}; {'; '.join(row)}", flush=True)


if __name__ == "__main__":
    main()
