"""What is referred to: what a definition is worth without a query, by how many texts mention its name.

Definitions are found by how a line begins, in any language, so that nothing has to be parsed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import re2

from tokenbox.worth.documents import DocumentRole
from tokenbox.worth.fixed import SCALE, log2
from tokenbox.worth.lexical import identifiers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from tokenbox.worth.documents import Document, PieceSpan

_MODIFIERS = (
    rb"export|default|pub(?:\([a-z]+\))?|public|private|protected|internal|static|final|abstract|async|sealed|open"
    rb"|override|virtual|inline|const|unsafe|extern|partial|data|local"
)
_KEYWORDS = (
    rb"def|class|func|fn|function|struct|enum|trait|interface|type|impl|mod|module|macro_rules!|object|protocol"
    rb"|record|union|typedef|namespace|val|var|let|const|fun|extension|actor|defmodule|defp?|sub"
)
_DEFINES = re2.compile(
    rb"(?m)^[ \t]*(?:(?:"
    + _MODIFIERS
    + rb") +)*(?:"
    + _KEYWORDS
    + rb")\*? +(?:\([^)\n]*\) *)?(?:self\.)?([A-Za-z_]\w{2,})"
    rb"|^[A-Za-z_][\w *]*[ *]([A-Za-z_]\w{2,})\([^;\n]*$"
)
# A name that more than this many texts define says nothing about any of them.
_COMMON = 6
_PARTS = 24


class Standing:
    """The worth of documents and of their pieces without a query; the same calls as ``Relevance``.

    ``found``: the identifiers of each document, where they are known.
    """

    def __init__(
        self, documents: Sequence[Document], found: Iterable[Collection[bytes]] | None = None
    ) -> None:
        self._documents = documents
        mentioned: Counter[bytes] = Counter()
        defined: Counter[bytes] = Counter()
        own: list[Sequence[bytes]] = []
        if found is None:
            found = (identifiers(document.data) for document in documents)
        for document, known in zip(documents, found, strict=True):
            # A page that mentions a name does not use it.
            names = [] if document.role is DocumentRole.OTHER else _defines(document)
            if document.role is not DocumentRole.OTHER:
                mentioned.update(list(known))
                # What tests define stands for nothing that they use.
                defined.update(names if document.role is DocumentRole.SOURCE else ())
            own.append(names)
        self._mentioned = mentioned
        """How many documents mention each name, pages left out."""
        self._defined = defined
        self._by_pieces: Counter[bytes] = Counter()
        self._files = [self._of_names(names) for names in own]

    def document(self, i: int) -> int:
        """What document ``i`` is worth: the names it defines, by who mentions them."""
        document = self._documents[i]
        return (self._files[i] + SCALE) * document.percent // 100

    @property
    def shares(self) -> list[int]:
        """For each document, the logarithm of its standing: what it is worth beside a query."""
        return [log2(standing + SCALE, SCALE) for standing in self._files]

    def _of_names(self, names: Iterable[bytes]) -> int:
        """A text that defines one name that all others use is worth as much as one that defines many."""
        found = sorted(map(self._name, names), reverse=True)[:_PARTS]
        return found[0] * _PARTS // 4 + sum(found) // 2 if found else 0

    def piece(self, i: int, span: PieceSpan, known: Collection[str] = ()) -> int:
        """What a piece of document ``i`` is worth. ``known`` names count no more than what encloses it."""
        document = self._documents[i]
        # What a test defines is mentioned by tests, or is a namesake of what source defines.
        is_source = document.role is DocumentRole.SOURCE
        best = self._best(name for name in span.names if name not in known) if is_source else 0
        enclosing = self._best([*span.within, *known] if known else span.within)
        # Without a name, what stands first says most.
        score = best + enclosing // 8 + SCALE * 2 // (2 + span.first // 40) + self._files[i] // (4 * _PARTS)
        return score * document.percent // 100 + 1

    def pieces(self, pieces: Sequence[tuple[int, PieceSpan]]) -> list[int]:
        """What each of these pieces is worth, given with the numbers of their documents.

        A name counts where its document defines it first: overloads say little more. Where a syntax tree says
        what is defined, it knows more definitions than how a line begins.
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
        return worths

    def _best(self, names: Iterable[str]) -> int:
        return max((self._name(name.encode("utf-8", "surrogateescape")) for name in names), default=0)

    def _name(self, name: bytes) -> int:
        mentioned = self._mentioned[name]
        if mentioned <= 1 or name.startswith(b"__"):
            return 0
        defined = max(1, self._defined[name], self._by_pieces[name])
        return SCALE * (mentioned - 1) // defined**2 // 4 if defined <= _COMMON else 0


def _defines(document: Document) -> Sequence[bytes]:
    return defined_in(document.data) if document.defines is None else document.defines


def defined_in(data: bytes) -> list[bytes]:
    """The names that a text defines, each once."""
    return list(dict.fromkeys(match[1] or match[2] for match in _DEFINES.finditer(data)))
