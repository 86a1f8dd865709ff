"""The strategy ``worth``: keep the chunks that are most relevant to the question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tokenbox.worth.documents import Document, PieceSpan
from tokenbox.worth.query import read_query
from tokenbox.worth.relevance import Relevance

if TYPE_CHECKING:
    from tokenbox.policy.strategies import Candidate

# Tokens that a chunk may cost beside its text: the markers of a message, or a separator.
_OVERHEAD = 8


def by_worth(
    candidates: Sequence[Candidate],
    budget: int,
    count: Callable[[str], int],  # noqa: ARG001  # every strategy has this parameter
) -> list[int]:
    """Return the chunks to send, in their order: the critical ones, then the most relevant that fit.

    The question is the last user message, else the last critical chunk; without one, later chunks are
    preferred. A tool's result stays with the message before it.
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
    sizes = [sum(one.tokens + _OVERHEAD for one in group) for group in groups]
    kept = {i for i, group in enumerate(groups) if any(one.critical or one is question for one in group)}
    left = budget - sum(sizes[i] for i in kept)
    for i in sorted(range(len(groups)), key=lambda i: (-worths[i], -i)):
        if i not in kept and sizes[i] <= left:
            kept.add(i)
            left -= sizes[i]
    return [one.index for i in sorted(kept) for one in groups[i]]


def _question(candidates: Sequence[Candidate]) -> Candidate | None:
    users = [one for one in candidates if one.role == "user"] or [one for one in candidates if one.critical]
    return users[-1] if users else None
