"""The strategy ``worth``: of the chunks that may be left out, those stay that the question needs most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.worth.documents import Document, PieceSpan
from tokenbox.worth.query import read_query
from tokenbox.worth.relevance import Relevance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenbox.policy.strategies import Candidate

# What a chunk may cost beside its text: the markers of a message, the separator of a section.
_AROUND = 8


def by_worth(
    candidates: Sequence[Candidate],
    budget: int,
    count: Callable[[str], int],  # noqa: ARG001  # part of what a strategy is given
) -> list[int]:
    """The chunks to send, in their order: the critical ones, then those worth most to the question that fit.

    The question is the last message of a user, else the last critical chunk; without one, the later chunks
    are worth more. A tool's result stays with the message before it.
    """
    groups: list[list[Candidate]] = []
    for one in candidates:
        if one.role == "tool" and groups:
            groups[-1].append(one)
        else:
            groups.append([one])
    question = _question(candidates)
    texts = ["\n".join(one.text for one in group) for group in groups]
    worths = list(range(len(groups)))
    if question is not None:
        documents = [Document(group[0].id, text.encode()) for group, text in zip(groups, texts, strict=True)]
        relevance = Relevance(documents, read_query(question.text))
        worths = [
            relevance.piece(i, PieceSpan(0, len(document.data))) for i, document in enumerate(documents)
        ]
    sizes = [sum(one.tokens + _AROUND for one in group) for group in groups]
    kept = {i for i, group in enumerate(groups) if any(one.critical or one is question for one in group)}
    left = budget - sum(sizes[i] for i in kept)
    for i in sorted(range(len(groups)), key=lambda i: (-worths[i], -i)):
        if i not in kept and sizes[i] <= left:
            kept.add(i)
            left -= sizes[i]
    return [one.index for i in sorted(kept) for one in groups[i]]


def _question(candidates: Sequence[Candidate]) -> Candidate | None:
    asked = [one for one in candidates if one.role == "user"] or [one for one in candidates if one.critical]
    return asked[-1] if asked else None
