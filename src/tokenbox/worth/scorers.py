"""User-defined scorers, such as embeddings, rerankers or rules, for the worth of texts to a query.

A scorer is a function of (query, texts) that returns a number for each text. It is given as a function, as
the name of an entry point of ``tokenbox.scorers``, or as ``module:function``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, cast

from tokenbox import named_code
from tokenbox.errors import TokenboxError, shown
from tokenbox.integers import plain
from tokenbox.worth.fixed import SCALE

if TYPE_CHECKING:
    from tokenbox.worth.documents import Document, PieceSpan

GROUP = "tokenbox.scorers"


class ScorerProblem(TokenboxError, code="scorer_failed"):
    """A scorer cannot be found, raised an error (its cause), or did not return a number for each text."""


class Scorer(Protocol):
    """A user's scorer. It must be deterministic."""

    def __call__(self, query: str, texts: Sequence[str], /) -> Sequence[float]:
        """Return a finite number for each text, the larger the better. Zero or less is irrelevant."""
        ...


class Worth(Protocol):
    """The worth of documents and their pieces.

    ``is_led``: a query, changes or recent work say which bodies are needed; otherwise breadth counts.
    """

    @property
    def is_led(self) -> bool: ...

    def document(self, i: int, /) -> int: ...

    def pieces(self, pieces: Sequence[tuple[int, PieceSpan]], /) -> list[int]: ...


class Scored:
    """The worth of pieces by a user's scorer. Documents are ordered by ``base``.

    The text of a piece begins with a line with its path.
    """

    is_led = True

    def __init__(self, base: Worth, scorer: Scorer, query: str, documents: Sequence[Document]) -> None:
        self._base = base
        self._scorer = scorer
        self._query = query
        self._documents = documents

    def document(self, i: int) -> int:
        return self._base.document(i)

    def pieces(self, pieces: Sequence[tuple[int, PieceSpan]]) -> list[int]:
        texts = []
        for i, span in pieces:
            path, data = self._documents[i].path, self._documents[i].data
            texts.append(f"{path}\n{data[span.start : span.end].decode('utf-8', 'replace')}")
        return [max(0, int(score * SCALE)) for score in scores(self._scorer, self._query, texts)]


def scores(scorer: Scorer, query: str, texts: Sequence[str]) -> list[Fraction]:
    """Call the scorer and check its result. Raises :class:`ScorerProblem`."""
    try:
        found = [Fraction(plain(score)) for score in scorer(query, texts)]
    except Exception as error:
        raise ScorerProblem(
            f"the scorer failed on {len(texts):,} texts: {type(error).__name__}: {error}. "
            "A scorer must return a finite number for each text."
        ) from error
    if len(found) != len(texts):
        raise ScorerProblem(f"the scorer returned {len(found):,} numbers for {len(texts):,} texts.")
    return found


def scorer_of(value: object) -> Scorer:
    """Return the scorer from a function or a name. Raises :class:`ScorerProblem` and ``CodeNotAllowed``."""
    found = _loaded(value) if isinstance(value, str) else value
    if not callable(found):
        raise ScorerProblem(f"a scorer is a function of (query, texts), not {shown(found):.60}.")
    return cast("Scorer", found)


def _loaded(name: str) -> object:
    found = named_code.load(name, GROUP, lambda why: ScorerProblem(f"the scorer {why}", scorer=name))
    if found is None:
        raise ScorerProblem(
            f"no scorer is called {name!r}. Name your own function as module:function.", scorer=name
        )
    return found


def scorer_name(value: Scorer | str) -> str:
    """Return the name of the scorer for a record."""
    if isinstance(value, str):
        return value
    return f"{getattr(value, '__module__', '?')}:{getattr(value, '__qualname__', type(value).__name__)}"
