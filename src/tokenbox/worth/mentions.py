"""How often is each name mentioned, and where is the name from that is meant there.

A text that imports a name or writes it after a qualifier tells where the name is from: where it is defined,
or a place that offers it as well, such as a ``prelude``. One that imports all
of a place may mean something else: a type that comes with the language, a variable. There, a mention counts
only as far as the name is mentioned more often than in texts that do not import that place.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from tokenbox.worth.imports import HERE, imports_of, offers_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from tokenbox.worth.documents import Document
    from tokenbox.worth.imports import Imports

# A name after a qualifier; ``..`` and ``...`` qualify nothing. For so many matches ``re`` is faster than re2,
# if the first character is one of a few. Some languages qualify by dots only.
_AFTER_QUALIFIER = re.compile(rb"[.:>](?=[A-Za-z_])(?<!\.\.)(?<![^:]:)(?<![^-]>)([A-Za-z_]\w+)")
_AFTER_DOT = re.compile(rb"[.](?<!\.\.)([A-Za-z_]\w+)")
_ONLY_DOTS = frozenset({"cs", "go", "js", "py"})
# In VHDL the qualifier is a library, whose name only the compiler is told.
_NO_QUALIFIERS = frozenset({"vhd"})
# Names in an import or a declaration of a package are those of packages.
_PACKAGE_LINES = (b"import ", b"from ", b"package ", b"use ", b"namespace ", b"using ")
_WORD = re.compile(rb"\w*")
_LONGEST_QUALIFIER = 64


class Mentions:
    """The mentions of names by the texts of one family of languages, each with the weight of its text.

    ``defined``: the names whose origin matters.
    """

    def __init__(self, family: str, defined: frozenset[bytes]) -> None:
        self._family = family
        self._defined = defined
        # The weight of the texts that mention a name which may be any.
        self._anywhere: Counter[bytes] = Counter()
        # For each name: the weight by place, and, where it is not qualified, by all places that are imported.
        self._of_places: defaultdict[bytes, Counter[bytes]] = defaultdict(Counter)
        self._of_wholes: dict[bytes, Counter[frozenset[bytes]]] = {}
        # For each name, and for all names of a place (``*``): the places that offer what is from a place.
        self._offers: defaultdict[bytes, defaultdict[bytes, set[bytes]]] = defaultdict(
            lambda: defaultdict(set)
        )
        # The weight of the texts that import all of a place, that mention a name unqualified, of all texts.
        self._importers: Counter[bytes] = Counter()
        self._unqualified: Counter[bytes] = Counter()
        self._total = 0

    def add(self, found: Iterable[bytes], weight: int) -> None:
        """Add the names that were ``found`` in a text, wherever they come from."""
        for name in found:
            self._anywhere[name] += weight

    def add_placed(
        self, document: Document, found: Mapping[bytes, int], own: AbstractSet[bytes], weight: int
    ) -> None:
        """Add the names ``found`` in a text, except its ``own``, by where they come from."""
        names = found.keys() - own
        defined = self._defined & names
        imports = imports_of(document.path, document.data, self._family)
        if imports is not None:
            self._add_offers(document, defined, imports)
        if not defined:  # as in most small texts
            self.add(names, weight)
            if imports is not None:
                self._add_wholes((), imports.wholes, weight)
            return
        is_qualified = self._family not in _NO_QUALIFIERS
        pairs = Counter(_qualified(document.data, self._family, defined) if is_qualified else ())
        qualified: Counter[bytes] = Counter()
        for (_, name), times in pairs.items():
            qualified[name] += times
        if imports is None:
            only = {name for name, times in qualified.items() if times >= found[name]}
            places = {pair for pair in pairs if pair[1] in only}
            self.add(names - only, weight)
        else:
            imported = [pair for pair in imports.names if pair[1] in defined]
            places = {(imports.renamed.get(place, place), name) for place, name in pairs}.union(imported)
            self.add(names - defined, weight)
            unqualified = {name for name in defined if name not in qualified or found[name] > qualified[name]}
            self._add_wholes(unqualified.difference(name for _, name in imported), imports.wholes, weight)
        for place, name in places:
            self._of_places[name][place] += weight

    def _add_offers(self, document: Document, defined: Collection[bytes], imports: Imports) -> None:
        if offers := offers_of(document.path, document.data, self._family):
            for place, name in imports.names:
                if name in defined:
                    self._offers[name][place] |= offers
            for place in imports.wholes:
                self._offers[b"*"][place] |= offers

    def offering(self, name: bytes, places: frozenset[bytes]) -> frozenset[bytes]:
        """Return the ``places`` that a name is from, with those that offer it, also from another of them."""
        if name not in self._offers or not places:
            return places
        offers, found, new = (
            [self._offers[name], self._offers[b"*"]],
            set(places),
            set(places).difference(HERE),
        )
        while new:
            more = {place for some in offers for at in common(new, some) for place in some[at]}
            new = more - found
            found |= new
        return frozenset(found)

    def _add_wholes(self, names: Collection[bytes], wholes: frozenset[bytes], weight: int) -> None:
        self._total += weight
        for place in wholes:
            self._importers[place] += weight
        for name in names:
            self._unqualified[name] += weight
            if wholes:
                self._of_wholes.setdefault(name, Counter())[wholes] += weight

    def anywhere(self, name: bytes) -> int:
        """Return the weight of the mentions that may mean any definition of the name."""
        return self._anywhere[name]

    def has_places(self, name: bytes) -> bool:
        """Return whether any mention of the name tells where it may be from."""
        return name in self._of_places or name in self._of_wholes

    def by_place(self, name: bytes, places: Collection[bytes]) -> Counter[bytes]:
        """Return those of the ``places`` that texts take the name from, with the weight of the mentions."""
        of_places = self._of_places.get(name, Counter())
        found = Counter({place: of_places[place] for place in common(places, of_places)})
        in_wholes: Counter[bytes] = Counter()
        for wholes, weight in self._of_wholes.get(name, {}).items():
            for place in common(places, wholes):
                in_wholes[place] += weight
        for place, weight in in_wholes.items():
            importers = self._importers[place]
            elsewhere = self._unqualified[name] - weight
            by_chance = importers * elsewhere // max(1, self._total - importers)
            found[place] += max(0, weight - by_chance)
        return found


def common(some: Collection[bytes], others: Collection[bytes]) -> list[bytes]:
    """Return what is in both, in the time of the smaller."""
    smaller, larger = (some, others) if len(some) < len(others) else (others, some)
    return [one for one in smaller if one in larger]


def _qualified(data: bytes, family: str, names: Collection[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield each of the ``names`` after a qualifier, such as ``(b"json", b"Decoder")`` for ``json.Decoder``.

    The qualifier is in lower case, and empty if it is no word: a call or an index.
    """
    pattern = _AFTER_DOT if family in _ONLY_DOTS else _AFTER_QUALIFIER
    # The start of the line of a match is searched from the match before: a line may be all of the text.
    line = done = 0
    for match in pattern.finditer(data):
        if (name := match[1]) in names:
            end = match.start()
            line, done = data.rfind(b"\n", done, end) + 1 or line, end
            if data.startswith(_PACKAGE_LINES, line):
                continue
            backwards = data[max(0, end - _LONGEST_QUALIFIER) : end].rstrip(b":-")[::-1]
            yield _WORD.match(backwards)[0][::-1].lower(), name  # type: ignore[index]  # it matches anything
