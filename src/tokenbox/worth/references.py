"""Query expansion by references: identifiers that connect the texts in focus with other texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tokenbox.worth.defined import defined_with_members
from tokenbox.worth.fixed import log2
from tokenbox.worth.lexical import identifiers, tokens
from tokenbox.worth.query import NamedPath, Word

if TYPE_CHECKING:
    from tokenbox.worth.documents import Document
    from tokenbox.worth.query import Query

# The number of connecting identifiers, and the weights of those defined in focus and those only used there.
_MAX_TIES = 64
_DEFINED, _USED = 4, 2
# An identifier that more texts mention than this (a fraction of all, or a minimum) does not connect.
_COMMON_PART, _COMMON = 12, 6
_NAME = re.compile(rb"[A-Za-z_]\w{2,}\Z")
_KEYWORD = re.compile(rb"[a-z]{1,3}\Z")


def with_references(
    query: Query, documents: Sequence[Document], focus: Sequence[bytes], places: Iterable[NamedPath]
) -> Query:
    """Extend the query by names that the texts in ``focus`` define and use, and by ``places``."""
    used: Counter[bytes] = Counter()
    for text in focus:
        used.update({name: often for name, often in identifiers(text).items() if _NAME.match(name)})
    defined = {name for text in focus for name in defined_with_members(text)}
    mentioned: Counter[bytes] = Counter()
    elsewhere: set[bytes] = set()
    for document in documents:
        found = used.keys() & tokens(document.data)
        mentioned.update(found)
        elsewhere.update(found & defined_with_members(document.data))
    most = max(_COMMON, len(documents) // _COMMON_PART)
    ties = [
        (times * log2(len(documents) + 1, mentioned[name]), name)
        for name, times in used.items()
        if 1 < mentioned[name] <= most and (name in defined or name in elsewhere) and not _KEYWORD.match(name)
    ]
    ties.sort(key=lambda tie: (-tie[0], tie[1]))
    chosen = [name for _, name in ties[:_MAX_TIES]]
    words = [Word(name.decode(), _DEFINED if name in defined else _USED, whole=True) for name in chosen]
    known = {word.text for word in query.words}
    symbols = {**{name.decode(): _USED for name in chosen if name in elsewhere}, **query.symbols}
    return replace(
        query,
        words=(*query.words, *(word for word in words if word.text not in known)),
        places=(*query.places, *places),
        symbols=symbols,
    )
