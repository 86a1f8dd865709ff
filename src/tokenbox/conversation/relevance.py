"""What a question needs of an old conversation: parts compete by worth for what recency leaves.

A quarter of the room goes to the newest parts, so that the thread is kept. Then the parts that match the
question best come in, by BM25F over all of them, as far as they fit, and last the newest of the others. A
part is a round of tool calls with its results, or what an exchange holds beside its rounds; it is shown in
its place, or not at all. Of a result that alone would take more than that quarter, the lines that match best
are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tokenbox.content.message import Role
from tokenbox.errors import InvalidBudget
from tokenbox.worth.documents import Document, PieceSpan
from tokenbox.worth.query import read_query
from tokenbox.worth.relevance import Relevance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tokenbox.content.items import Item
    from tokenbox.engine.window import WindowLimits

LAST: Final = "last"
"""The name of the last user message as the query."""
RECENT: Final = 4
"""The newest parts have one in so many tokens of the room for themselves."""


def asked(query: str | None, items: Sequence[Item], limits: WindowLimits) -> str | None:
    """The text that old parts must match; None: the oldest leave first. Raises :class:`InvalidBudget`."""
    if query is None:
        return None
    if limits.budget is None or limits.eagerness is not None or limits.mark != limits.budget:
        raise InvalidBudget("query needs a budget and low_water=1: what it needs changes with each request.")
    if query != LAST:
        return query
    spoken = (item for item in reversed(items) if item.role is Role.USER)
    return next((item.text for item in spoken if item.text), "")


def to_leave(
    parts: Sequence[tuple[int, ...]],
    sizes: Mapping[int, int],
    texts: Mapping[int, str],
    room: int,
    query: str,
) -> list[int]:
    """The numbers of the parts that leave, so that what stays is within ``room`` tokens.

    ``parts`` are in order; ``sizes`` and ``texts`` are by number.
    """
    size_of = {part: sum(sizes[number] for number in part) for part in parts}
    newest = list(reversed(parts))
    chosen: set[tuple[int, ...]] = set()
    left = room
    for part in newest:
        if room - left + size_of[part] > room // RECENT:
            break
        chosen.add(part)
        left -= size_of[part]
    worth = _worths(parts, texts, query)
    by_worth = sorted((part for part in newest if worth[part] > 0), key=lambda part: -worth[part])
    for part in (*by_worth, *newest):
        if part not in chosen and size_of[part] <= left:
            chosen.add(part)
            left -= size_of[part]
    return sorted(number for part in parts if part not in chosen for number in part)


def _worths(
    parts: Sequence[tuple[int, ...]], texts: Mapping[int, str], query: str
) -> dict[tuple[int, ...], int]:
    """How well each part matches the query, in fixed point."""
    whole = ["\n".join(texts[number] for number in part) for part in parts]
    documents = [Document("", text.encode("utf-8", "replace")) for text in whole]
    relevance = Relevance(documents, read_query(query))
    return {
        part: relevance.piece(place, PieceSpan(0, len(document.data)))
        for place, (part, document) in enumerate(zip(parts, documents, strict=True))
    }
