"""Worth without a query: the standing of a definition is the number of texts that mention its name."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import isqrt
from typing import TYPE_CHECKING

from tokenbox.worth.defined import defined_in
from tokenbox.worth.documents import DocumentRole
from tokenbox.worth.fixed import SCALE, log2
from tokenbox.worth.imports import ROOTS, Home, home_of
from tokenbox.worth.lexical import tokens
from tokenbox.worth.mentions import Mentions, common
from tokenbox.worth.notices import after_copyright

if TYPE_CHECKING:
    from tokenbox.worth.documents import Document, PieceSpan
    from tokenbox.worth.recent import RecentWork

# A name that more than this many texts define is not specific to any of them.
_COMMON = 6
_PARTS = 24
# The worth of a name in percent: of a prototype in a header; of a member, whose namesakes in other types are
# mentioned as well; of a single word in lower case, which is often a variable. A member is worth at most half
# of the best name outside of types.
_PROTOTYPE, _MEMBER, _WORD, _MEMBER_OF_TOP = 60, 33, 60, 50
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".d.ts", ".pyi")
# The number of names from which a document can be one that merges others.
_MANY_NAMES = 40
_IDENTIFIER = re.compile(rb"\w+")
# What is in no name: those of Lisp, COBOL and shells may have signs in them.
_SEPARATED = bytes(
    byte if chr(byte).isalnum() or byte > 0x7F or chr(byte) in "_-?!*<>=/+%&~^" else ord(" ")
    for byte in range(256)
)
# A source file that mentions a name counts as much as four tests.
_MENTION = {DocumentRole.SOURCE: 4, DocumentRole.TEST: 1}
_UNIT = SCALE * SCALE // _MENTION[DocumentRole.SOURCE]
# The busiest document and piece of the recent work get this percentage of the best worth.
_RECENT = 2500
# The percentage of recent work that counts: pages and manifests change with the source, and tell less of it.
_WORK_ON = {DocumentRole.SOURCE: 100, DocumentRole.TEST: 20, DocumentRole.OTHER: 0}
# By the ending of a file, that of the interface beside it: what is declared there is defined there.
_INTERFACES = {
    "adb": "ads",
    "ml": "mli",
    "re": "rei",
    "res": "resi",
    "fs": "fsi",
    "sml": "sig",
    "pyx": "pxd",
    "pkb": "pks",
    "tpb": "tps",
}
# The languages whose files mention each other's names, by extension.
_FAMILIES = {
    extension: family.partition(" ")[0]
    for family in (
        "c h cc cpp cxx hh hpp hxx m mm inl ipp tpp cu cuh ino",
        "js jsx ts tsx mjs cjs mts cts vue svelte astro",
        "java kt kts scala groovy gvy",
        "cs cshtml razor",
        "ex exs heex eex",
        "py pyi pyx pxd",
        "rb rake erb",
        "pl pm t psgi",
        "ps1 psm1",
        "vhd vhdl",
        "v sv vh svh",
        "ml mli mly mll",
        "fs fsi fsx",
        "hs hsc lhs hs-boot",
        "res resi",
        "f90 f95 f03 f08 f for",
        "erl hrl",
        "clj cljs cljc",
        "adb ads",
        "lua moon",
        "cbl cob cpy cobol",
        "cls trigger",
        "pas dpr lpr inc",
        "sql pks pkb tps tpb pls plb plsql prc fnc trg ddl",
    )
    for extension in family.split()
}


class Standing:
    """The worth of documents and of their pieces without a query, with the interface of ``Relevance``.

    ``found``: the identifiers of each document, if they are known; then only documents have a worth.
    ``recent``: what is being worked on.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        found: Iterable[AbstractSet[bytes]] | None = None,
        recent: RecentWork | None = None,
    ) -> None:
        self._documents = documents
        self._recent = recent
        self._family = [_family(document.path) for document in documents]
        # Documentation that mentions a name does not use it.
        own = [() if document.role is DocumentRole.OTHER else _defines(document) for document in documents]
        sources = [i for i, document in enumerate(documents) if document.role is DocumentRole.SOURCE]
        # Where files are named after a type, one with many types in it merges nothing.
        merged = _merged({i: own[i] for i in sources if self._family[i] != "java"})
        for i in merged:
            own[i] = ()
        self._own = [frozenset(names) for names in own]
        self._counted = set[bytes]().union(*self._own)
        """The names whose mentions are counted. Members of types follow when they are known."""
        self._weights = {
            i: _MENTION[document.role]
            for i, document in enumerate(documents)
            if document.role is not DocumentRole.OTHER and i not in merged
        }
        interfaces = list(_interfaces(documents, sources))
        for i, interface in interfaces:
            own[i] = [name for name in own[i] if name not in self._own[interface]]
        self._definers = _definers({i: own[i] for i in sources})
        defined = frozenset(self._definers)
        self._symbols: defaultdict[str, set[bytes]] = defaultdict(set)
        """The names in each family that are no identifiers, such as ``make-point`` and ``empty?``."""
        for i in sources:
            self._symbols[self._family[i]].update(name for name in own[i] if not _IDENTIFIER.fullmatch(name))
        self._mentions = {family: Mentions(family, defined) for family in set(self._family)}
        self._has_places = found is None
        """Whether mentions are told apart by where the name is from."""
        if found is None:
            self._count_placed()
        else:
            for i, known in enumerate(found):
                if (weight := self._weights.get(i)) is not None:
                    mentioned = (self._counted & known) - self._own[i]
                    self._mentions[self._family[i]].add(mentioned, weight)
        for i, _ in interfaces:
            self._own[i] = frozenset(own[i])
        self._by_pieces: Counter[bytes] = Counter()
        self._names: dict[tuple[int, bytes], int] = {}
        self._homes: dict[int, Home] = {}
        self._shared: dict[tuple[str, bytes], Mapping[bytes, int]] = {}
        worths = [self._best_names(i, names) for i, names in enumerate(own)]
        self._tops = [best[0] if best else 0 for best in worths]
        # One name that all texts use counts as much as many names.
        self._files = [best[0] * _PARTS // 4 + sum(best) // 2 if best else 0 for best in worths]
        self._best_file = max([SCALE, *self._files])

    def _count_placed(self) -> None:
        """Count the mentions of each name by documents that do not define it, by where it comes from."""
        for i, weight in self._weights.items():
            document, family = self._documents[i], self._family[i]
            text = after_copyright(document.data)
            words = tokens(text)
            if symbols := self._symbols[family]:
                words += filter(symbols.__contains__, _symbols(text))
            mentioned = Counter(filter(self._counted.__contains__, words))
            self._mentions[family].add_placed(document, mentioned, self._own[i], weight)

    def count_members(self, names: Iterable[str]) -> None:
        """Count the mentions of those names that are not counted yet, in one reading of the texts."""
        new = {_unqualified(name) for name in names} - self._counted
        if not new:
            return
        self._counted |= new
        for i, weight in self._weights.items():
            mentioned = new.intersection(tokens(after_copyright(self._documents[i].data)))
            self._mentions[self._family[i]].add(mentioned, weight)

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

    def _best_names(self, i: int, names: Iterable[bytes]) -> list[int]:
        """Return the worths of the names that are worth most in document ``i``."""
        return sorted([self._name(i, name) for name in names], reverse=True)[:_PARTS]

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
        self._names.clear()  # these count the definitions in pieces
        self.count_members(name for _, span in pieces for name in (*span.names, *span.within))
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

    def name(self, i: int, name: str) -> int:
        """Return the worth of a name that document ``i`` defines. For many, see ``count_members``."""
        self.count_members((name,))
        return self._best(i, (name,))

    def _best(self, i: int, names: Iterable[str]) -> int:
        """Return the worth of the best of these names in document ``i``."""
        own, path = self._own[i], self._documents[i].path
        best = 0
        for text in names:
            name = _unqualified(text)
            worth = self._name(i, name)
            if name in own:
                pass
            elif name in self._definers and path.endswith(_HEADERS):
                worth = worth * _PROTOTYPE // 100
            else:
                worth = worth * _MEMBER // 100
                worth = min(worth, self._tops[i] * _MEMBER_OF_TOP // 100) if own else worth
            best = max(best, worth)
        return best

    def _name(self, i: int, name: bytes) -> int:
        """Return the worth of a name that document ``i`` defines."""
        worth = self._names.get((i, name))
        if worth is None:
            worth = self._names[i, name] = self._worth_of(i, name)
        return worth

    def _worth_of(self, i: int, name: bytes) -> int:
        """Compute the worth of a name.

        It grows with the root of the number of mentions, so that one name does not outweigh all others.
        """
        if name in ROOTS or name.startswith(b"__"):
            return 0
        mentions, definers = self._mentions[self._family[i]], self._definers.get(name, ())
        defined = max(1, len(definers) or self._by_pieces[name])
        has_place = bool(definers) and self._has_places
        anywhere = mentions.anywhere(name) if defined <= _COMMON else 0
        if anywhere and has_place and name in self._home(i).inner:
            anywhere = 0
        found = _UNIT * anywhere // (defined * defined)
        if has_place and mentions.has_places(name):
            placed = self._placed(self._family[i], name)
            found += sum(placed[place] for place in common(self._places(i, name), placed))
        return isqrt(found) * (_WORD if name.isalpha() and name.islower() else 100) // 100

    def _placed(self, family: str, name: bytes) -> Mapping[bytes, int]:
        """Return what the mentions of a name by place are worth, shared by its definitions in that place."""
        placed = self._shared.get((family, name))
        if placed is None:
            homes = [self._places(i, name) for i in self._definers[name] if self._family[i] == family]
            weights = self._mentions[family].by_place(name, frozenset().union(*homes))
            shares = Counter(place for home in homes for place in common(home, weights))
            placed = {place: _UNIT * weight // max(1, shares[place]) for place, weight in weights.items()}
            self._shared[family, name] = placed
        return placed

    def _places(self, i: int, name: bytes) -> frozenset[bytes]:
        """Return the places that others take a name of document ``i`` from."""
        return self._mentions[self._family[i]].offering(name, self._home(i).places_of(name))

    def _home(self, i: int) -> Home:
        home = self._homes.get(i)
        if home is None:
            document = self._documents[i]
            home = home_of(document.path, document.data, self._family[i], self._own[i])
            self._homes[i] = home
        return home


def _symbols(data: bytes) -> Iterator[bytes]:
    """Yield the words of a text whose languages have more in names than letters, also after a slash."""
    for word in data.translate(_SEPARATED).split():
        yield word
        if b"/" in word:
            yield word.rpartition(b"/")[2]


def _unqualified(name: str) -> bytes:
    return name[max(name.rfind("."), name.rfind(":")) + 1 :].encode("utf-8", "surrogateescape")


def _definers(own: Mapping[int, Sequence[bytes]]) -> dict[bytes, list[int]]:
    """Return the documents that define each name."""
    definers: dict[bytes, list[int]] = {}
    for i, names in own.items():
        for name in names:
            definers.setdefault(name, []).append(i)
    return definers


def _interfaces(documents: Sequence[Document], sources: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield each source with the one that declares what it defines: beside it, or the main part of a type."""
    found = {documents[i].path: i for i in sources}
    mains: dict[str, int] = {}
    for path in sorted(found, key=lambda path: (path.count("."), len(path), path)):
        name = path.rpartition("/")[2].partition(".")[0]
        if path.endswith(".cs") and b" partial " in documents[found[path]].data:
            main = mains.setdefault(name, found[path])
            if main != found[path]:
                yield found[path], main
    for path, i in found.items():
        stem, _, ending = path.rpartition(".")
        interface = found.get(f"{stem}.{_INTERFACES.get(ending)}")
        if interface is not None:
            yield i, interface


def _merged(own: Mapping[int, Sequence[bytes]]) -> frozenset[int]:
    """Return the documents that merge several others: nearly all of their names are defined there as well."""
    many = {i: names for i, names in own.items() if len(names) >= _MANY_NAMES}
    definers = _definers(own) if many else {}
    merged = []
    for i, names in many.items():
        shared = [name for name in names if len(definers[name]) > 1]
        if len(shared) * 10 < len(names) * 9:
            continue
        others = Counter(other for name in shared for other in definers[name] if other != i)
        if max(others.values()) * 2 < len(names):
            merged.append(i)
    return frozenset(merged)


def _family(path: str) -> str:
    extension = path.rpartition(".")[2].lower()
    return _FAMILIES.get(extension, extension)


def _defines(document: Document) -> Sequence[bytes]:
    return defined_in(document.data) if document.defines is None else document.defines
