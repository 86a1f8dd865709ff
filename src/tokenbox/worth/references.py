"""What refers to the focus or to the best match, and what these refer to: identifiers that tie texts."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.worth.fixed import SCALE, log2
from tokenbox.worth.lexical import identifiers, tokens
from tokenbox.worth.query import NamedPath, Word
from tokenbox.worth.standing import defined_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tokenbox.worth.documents import Document
    from tokenbox.worth.query import Query

# Identifiers that tie most, and how much they weigh: what is defined in focus, and what is only used there.
_MOST = 64
_DEFINED, _USED = 4, 2
# What more than this part of all texts mentions ties nothing.
_COMMON_PART, _TIED_PART, _COMMON = 12, 5, 6
_NAME = re.compile(rb"[A-Za-z_]\w{2,}\Z")
_KEYWORD = re.compile(rb"[a-z]{1,3}\Z")


def nearby(
    query: Query, documents: Sequence[Document], focus: Sequence[bytes], places: Iterable[NamedPath]
) -> Query:
    """The query, asking for what the texts in ``focus`` define and use as well, and for ``places``."""
    used: Counter[bytes] = Counter()
    for text in focus:
        used.update({name: often for name, often in identifiers(text).items() if _NAME.match(name)})
    defined = {name for text in focus for name in defined_in(text)}
    mentioned: Counter[bytes] = Counter()
    elsewhere: set[bytes] = set()
    for document in documents:
        found = used.keys() & identifiers(document.data).keys()
        mentioned.update(found)
        elsewhere.update(found & set(defined_in(document.data)))
    most = max(_COMMON, len(documents) // _COMMON_PART)
    ties = [
        (times * log2(len(documents) + 1, mentioned[name]), name)
        for name, times in used.items()
        if 1 < mentioned[name] <= most and (name in defined or name in elsewhere) and not _KEYWORD.match(name)
    ]
    ties.sort(key=lambda tie: (-tie[0], tie[1]))
    chosen = [name for _, name in ties[:_MOST]]
    words = [Word(name.decode(), _DEFINED if name in defined else _USED, whole=True) for name in chosen]
    known = {word.text for word in query.words}
    symbols = {**{name.decode(): _USED for name in chosen if name in elsewhere}, **query.symbols}
    return replace(
        query,
        words=(*query.words, *(word for word in words if word.text not in known)),
        places=(*query.places, *places),
        symbols=symbols,
    )


# So many of the best pieces refer to others, and are referred to; what they tie comes after so many.
_LEADERS, _AFTER = 3, 30
# Percent of the best worth that a piece gets for a rare name that ties it to the best piece.
_TIE = 40
# A name in so few texts is as rare as can be.
_RARE = 3


class ReferencePart(NamedTuple):
    """A piece as references see it: its text, the names it defines, the prior of its document in percent."""

    text: bytes
    names: Collection[bytes]
    percent: int


def ties(mentioned: Mapping[bytes, int], documents: int) -> dict[bytes, int]:
    """How much each name ties the texts that mention it, up to ``SCALE``, by how many of them do.

    What one text mentions, or more than a part of all, ties nothing.
    """
    most = max(_COMMON, documents // _TIED_PART)
    by_number: dict[int, int] = {}
    for number in {number for number in mentioned.values() if 1 < number <= most}:
        rare = log2(documents + number, number) * SCALE // log2(documents + _RARE, _RARE)
        by_number[number] = min(SCALE, rare)
    return {
        name: by_number[number]
        for name, number in mentioned.items()
        if number in by_number and len(name) > 2 and not name[:1].isdigit()  # noqa: PLR2004  # as in _NAME
    }


def referring(
    parts: Sequence[ReferencePart], worths: Sequence[int], leading: int, tie: Mapping[bytes, int]
) -> list[int]:
    """The worths, with that of what the best pieces refer to, and of what refers to them.

    The best are looked for among the first ``leading`` pieces. What is lifted comes after the thirty best
    of them: what says what the query says goes before what is only near to it.
    """
    order = sorted(range(leading), key=lambda n: -worths[n])
    if len(order) <= _AFTER:
        return list(worths)
    last = worths[order[_AFTER]]
    used: dict[bytes, int] = {}
    defined: dict[bytes, int] = {}
    for n in reversed(order[:_LEADERS]):
        used.update(dict.fromkeys(tie.keys() & identifiers(parts[n].text).keys(), worths[n]))
        defined.update(dict.fromkeys(tie.keys() & set(parts[n].names), worths[n]))
    lifted = list(worths)
    for n, (text, names, percent) in enumerate(parts):
        if worths[n] >= last:
            continue
        gains = [used[name] * tie[name] for name in used.keys() & set(names)]
        gains += [defined[name] * tie[name] for name in (defined.keys() & set(tokens(text))) - set(names)]
        gain = max(gains, default=0) // SCALE * _TIE // 100 * percent // 100
        lifted[n] = max(worths[n], min(last - 1, worths[n] + gain))
    return lifted
