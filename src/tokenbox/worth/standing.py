"""Worth without a query: the standing of a definition is the number of texts that mention its name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import isqrt
from typing import TYPE_CHECKING

import re2

from tokenbox.worth.defined import defined_in
from tokenbox.worth.documents import DocumentRole
from tokenbox.worth.fixed import SCALE, log2
from tokenbox.worth.lexical import identifiers, tokens
from tokenbox.worth.notices import after_copyright

if TYPE_CHECKING:
    from tokenbox.worth.documents import Document, PieceSpan
    from tokenbox.worth.recent import RecentWork

# A name that more than this many texts define is not specific to any of them.
_COMMON = 6
_PARTS = 24
# The worth of a name in percent: of a prototype in a header; of a member, whose namesakes in other types are
# mentioned as well; of a single word in lower case, which is often a variable.
_PROTOTYPE, _MEMBER, _WORD = 60, 33, 60
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".d.ts", ".pyi")
# A name after a qualifier; ``..`` and ``...`` qualify nothing. For so many matches ``re`` is faster than re2.
_AFTER_QUALIFIER = re.compile(rb"(?:\.(?<!\.\.)|::|->)([A-Za-z_]\w+)")
_NO_WORD = re.compile(rb"\W")
_LONGEST_QUALIFIER = 64
# The namespace of a document, and the words for it in itself.
_SCOPE = re2.compile(rb"(?m)^[ \t]*(?:inline +)?(?:namespace|package|module|defmodule)[ \t]+([\w.:\\]+)")
_HERE = (b"crate", b"super")
# Folders of source by language, which are also the roots of the packages that come with it.
_ROOTS = frozenset((b"", b"java", b"kotlin", b"scala"))
# In these families, a name without a qualifier is defined in its own folder.
_FOLDER_PACKAGES = frozenset({"go"})
# The number of names from which a document can be one that merges others.
_MANY_NAMES = 40
# A source file that mentions a name counts as much as this many tests.
_SOURCE_MENTION = 4
# The busiest document and piece of the recent work get this percentage of the best worth.
_RECENT = 2500
# The percentage of recent work that counts: pages and manifests change with the source, and tell less of it.
_WORK_ON = {DocumentRole.SOURCE: 100, DocumentRole.TEST: 20, DocumentRole.OTHER: 0}
# The languages whose files mention each other's names, by extension.
_FAMILIES = {
    extension: family[0]
    for family in (
        ("c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "m", "mm", "inl"),
        ("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"),
        ("java", "kt", "kts", "scala", "groovy"),
        ("ex", "exs"),
        ("py", "pyi", "pyx"),
    )
    for extension in family
}


class Standing:
    """The worth of documents and of their pieces without a query, with the interface of ``Relevance``.

    ``found``: the identifiers of each document, if they are known. ``recent``: what is being worked on.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        found: Iterable[Mapping[bytes, int]] | None = None,
        recent: RecentWork | None = None,
    ) -> None:
        self._documents = documents
        self._recent = recent
        self._family = [_family(document.path) for document in documents]
        # Documentation that mentions a name does not use it.
        own = [() if document.role is DocumentRole.OTHER else _defines(document) for document in documents]
        sources = [i for i, document in enumerate(documents) if document.role is DocumentRole.SOURCE]
        merged = _merged({i: own[i] for i in sources})
        for i in merged:
            own[i] = ()
        self._own = [frozenset(names) for names in own]
        self._defined = Counter(name for i in sources for name in own[i])
        self._mentioned: dict[str, Counter[bytes]] = {family: Counter() for family in self._family}
        """For each family of languages, the number of source files that mention each name."""
        self._tested: dict[str, Counter[bytes]] = {family: Counter() for family in self._family}
        """The same for tests."""
        self._qualified: dict[str, dict[bytes, Counter[bytes]]] = {family: {} for family in self._family}
        """For each name, the number of source files that mention it only after a qualifier, by qualifier."""
        self._count(found, merged)
        self._by_pieces: Counter[bytes] = Counter()
        self._homes: dict[int, frozenset[bytes]] = {}
        self._files = [self._of_names(i, names) for i, names in enumerate(own)]
        self._best_file = max([SCALE, *self._files])

    def _count(self, found: Iterable[Mapping[bytes, int]] | None, merged: Collection[int]) -> None:
        """Count the mentions of each name by documents that neither define it nor are ``merged``."""
        looks_closer = found is None
        if found is None:
            found = (identifiers(after_copyright(document.data)) for document in self._documents)
        for i, (document, known) in enumerate(zip(self._documents, found, strict=True)):
            family = self._family[i]
            if document.role is DocumentRole.TEST:
                self._tested[family].update(known.keys() - self._own[i])
            elif document.role is DocumentRole.SOURCE and i not in merged:
                names = known.keys() - self._own[i]
                if looks_closer:
                    names -= self._count_qualified(document, family, names, known)
                self._mentioned[family].update(names)

    def _count_qualified(
        self, document: Document, family: str, names: Collection[bytes], known: Mapping[bytes, int]
    ) -> set[bytes]:
        """Count and return the ``names`` that a document mentions only after a qualifier.

        Where an unqualified name is of its own folder, the folder is its qualifier.
        """
        defined = {name for name in names if name in self._defined}
        pairs = list(_qualified(document.data, defined))
        often = Counter(name for _, name in pairs)
        if family in _FOLDER_PACKAGES:
            only = defined
            folder = _folder(document.path)
            pairs += [(folder, name) for name in only if known[name] > often[name]]
        else:
            only = {name for name, times in often.items() if times >= known[name]}
        qualified = self._qualified[family]
        for word, name in {pair for pair in pairs if pair[1] in only}:
            qualified.setdefault(name, Counter())[word] += 1
        return only

    @property
    def is_led(self) -> bool:
        """True if there is recent work to lead the choice."""
        return self._recent is not None and bool(self._recent)

    def document(self, i: int) -> int:
        """Return the worth of document ``i``: by mentions of the names that it defines."""
        worth = self._files[i] + SCALE
        if self._recent is not None:
            work = self._recent.document(i) * _WORK_ON[self._documents[i].role] // 100
            worth += self._best_file * _RECENT * work // (100 * SCALE)
        return worth * self._documents[i].percent // 100

    @property
    def shares(self) -> list[int]:
        """The logarithm of each document's standing, to combine with a query."""
        return [log2(standing + SCALE, SCALE) for standing in self._files]

    def _of_names(self, i: int, names: Iterable[bytes]) -> int:
        """Return the worth of the names: one name that all texts use counts as much as many names."""
        found = sorted((self._name(i, name) for name in names), reverse=True)[:_PARTS]
        return found[0] * _PARTS // 4 + sum(found) // 2 if found else 0

    def piece(self, i: int, span: PieceSpan, known: Collection[str] = ()) -> int:
        """Return the worth of a piece of document ``i``. ``known`` names count like enclosing names."""
        document = self._documents[i]
        # A name that a test defines is mentioned only by tests, or is also defined in the source.
        is_source = document.role is DocumentRole.SOURCE
        best = self._best(i, (name for name in span.names if name not in known)) if is_source else 0
        enclosing = self._best(i, [*span.within, *known] if known else span.within)
        # Among pieces without names, the first is worth most.
        score = best + enclosing // 8 + SCALE * 2 // (2 + span.first // 40) + self._files[i] // (4 * _PARTS)
        return score * document.percent // 100 + 1

    def pieces(self, pieces: Sequence[tuple[int, PieceSpan]]) -> list[int]:
        """Return the worth of each piece. Each is given with the number of its document.

        A name counts only where its document first defines it: overloads add little. The pieces' names come
        from a syntax tree if possible, which finds the members of types as well.
        """
        found = {
            (i, name)
            for i, span in pieces
            for name in span.names
            if self._documents[i].role is DocumentRole.SOURCE
        }
        self._by_pieces = Counter(name.encode("utf-8", "surrogateescape") for _, name in found)
        worths = []
        known: dict[int, set[str]] = {}
        for i, span in pieces:
            before = known.setdefault(i, set())
            worths.append(self.piece(i, span, before & set(span.names)))
            before.update(span.names)
        if self._recent is None:
            return worths
        work = [
            own * _WORK_ON[self._documents[i].role] * self._documents[i].percent // 10_000
            for own, (i, _) in zip(self._recent.pieces(pieces), pieces, strict=True)
        ]
        most, unit = max([SCALE, *work]), max(worths, default=0) * _RECENT // 100
        return [worth + unit * own // most for worth, own in zip(worths, work, strict=True)]

    def _best(self, i: int, names: Iterable[str]) -> int:
        """Return the worth of the best of these names in document ``i``."""
        own, path = self._own[i], self._documents[i].path
        best = 0
        for text in names:
            name = _unqualified(text).encode("utf-8", "surrogateescape")
            percent = 100 if name in own else _MEMBER
            if percent == _MEMBER and name in self._defined and path.endswith(_HEADERS):
                percent = _PROTOTYPE
            best = max(best, self._name(i, name) * percent // 100)
        return best

    def _name(self, i: int, name: bytes) -> int:
        """Return the worth of a name that document ``i`` defines.

        It grows with the root of the number of mentions, so that one name does not outweigh all others.
        """
        family = self._family[i]
        mentions = self._mentioned[family][name] * _SOURCE_MENTION + self._tested[family][name]
        qualified = self._qualified[family].get(name)
        if qualified is not None:
            home = self._home(i)
            mentions += sum(times for word, times in qualified.items() if word in home) * _SOURCE_MENTION
        if mentions <= 0 or name in _ROOTS or name.startswith(b"__"):
            return 0
        defined = max(1, self._defined[name] or self._by_pieces[name])
        percent = _WORD if name.isalpha() and name.islower() else 100
        worth = isqrt(SCALE * SCALE * mentions // _SOURCE_MENTION) * percent // 100
        return worth // defined if defined <= _COMMON else 0

    def _home(self, i: int) -> frozenset[bytes]:
        """Return the words that qualify the names of document ``i``, in lower case."""
        home = self._homes.get(i)
        if home is None:
            document = self._documents[i]
            *folders, name = document.path.lower().encode("utf-8", "surrogateescape").split(b"/")
            scopes = (word for match in _SCOPE.finditer(document.data) for word in tokens(match[1].lower()))
            types = (name.lower() for name in self._own[i])
            home = self._homes[i] = frozenset(
                {*folders, name.partition(b".")[0], *scopes, *types, *_HERE, _folder(document.path)} - _ROOTS
            )
        return home


def _unqualified(name: str) -> str:
    return name[max(name.rfind("."), name.rfind(":")) + 1 :]


def _folder(path: str) -> bytes:
    """Return the folder of a path, as the qualifier of its own names."""
    return path[: path.rfind("/") + 1].encode("utf-8", "surrogateescape") or b"/"


def _qualified(data: bytes, names: Collection[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield each of the ``names`` after a qualifier, such as ``(b"json", b"Decoder")`` for ``json.Decoder``.

    The qualifier is in lower case, and empty if it is no word: a call or an index.
    """
    for match in _AFTER_QUALIFIER.finditer(data):
        name = match[1]
        if name in names:
            end = match.start()
            backwards = data[max(0, end - _LONGEST_QUALIFIER) : end][::-1]
            yield _NO_WORD.split(backwards, 1)[0][::-1].lower(), name


def _merged(own: Mapping[int, Sequence[bytes]]) -> frozenset[int]:
    """Return the documents that merge several others: nearly all of their names are defined there as well."""
    definers: dict[bytes, list[int]] = {}
    for i, names in own.items():
        for name in names:
            definers.setdefault(name, []).append(i)
    merged = []
    for i, names in own.items():
        if len(names) < _MANY_NAMES:
            continue
        shared = [name for name in names if len(definers[name]) > 1]
        if len(shared) * 10 < len(names) * 9:
            continue
        others = Counter(other for name in shared for other in definers[name] if other != i)
        if max(others.values()) * 2 < len(names):
            merged.append(i)
    return frozenset(merged)


def _family(path: str) -> str:
    extension = path.rpartition(".")[2]
    return _FAMILIES.get(extension, extension)


def _defines(document: Document) -> Sequence[bytes]:
    return defined_in(document.data) if document.defines is None else document.defines
