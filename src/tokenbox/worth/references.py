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

# The number of connecting identifiers, and the weights of the words of those that are defined in focus and of
# those only used there.
_MAX_TIES = 64
_DEFINED, _USED = 4, 1
# The weight of the definition of what is used in focus.
_DEFINITION = 20
# A name defined in focus does not connect if more texts than this mention it (a part of all, or a minimum).
_COMMON_PART, _COMMON = 12, 6
# A name only used in focus does not if more texts than this define it, as it is unknown which one is meant.
_MAX_DEFINITIONS = 3
_NAME = re.compile(rb"[A-Za-z_]\w{2,}\Z")
_KEYWORD = re.compile(rb"[a-z]{1,3}\Z")


def with_references(
    query: Query, documents: Sequence[Document], focus: Sequence[bytes], places: Iterable[NamedPath]
) -> Query:
    """Extend the query by ``places``, what texts in ``focus`` define, and definitions of what they use."""
    used: Counter[bytes] = Counter()
    for text in focus:
        used.update({name: often for name, often in identifiers(text).items() if _NAME.match(name)})
    own = {name for text in focus for name in defined_with_members(text)}
    mentioned: Counter[bytes] = Counter()
    defined: Counter[bytes] = Counter()
    for document in documents:
        found = used.keys() & tokens(document.data)
        mentioned.update(found)
        defined.update(found & defined_with_members(document.data))
    most = max(_COMMON, len(documents) // _COMMON_PART)
    ties = [
        (times * log2(len(documents) + 1, mentioned[name]), name)
        for name, times in used.items()
        if (0 < mentioned[name] <= most if name in own else 0 < defined[name] <= _MAX_DEFINITIONS)
        and not _KEYWORD.match(name)
    ]
    ties.sort(key=lambda tie: (-tie[0], tie[1]))
    chosen = [name for _, name in ties[:_MAX_TIES]]
    words = [Word(name.decode(), _DEFINED if name in own else _USED, whole=True) for name in chosen]
    known = {word.text for word in query.words}
    symbols = {**{name.decode(): _DEFINITION for name in chosen if name not in own}, **query.symbols}
    return replace(
        query,
        words=(*query.words, *(word for word in words if word.text not in known)),
        places=(*query.places, *places),
        symbols=symbols,
    )
