"""Anyone's chunks within a budget: those of most worth, in forms of their own, without repetition.

For retrieved passages, tool outputs, memories and old turns. The worth is the caller's own scores, or what
the words of a query say (``tokenbox.worth``); without either, what is given first is worth most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tokenbox.compose.counting import Counter
from tokenbox.content.block_kinds import Priority
from tokenbox.engine.choice import Upgrade, choose
from tokenbox.errors import ContextCriticalOverflow, InvalidContent, TokenizerError
from tokenbox.integers import token_budget
from tokenbox.tokenizers.registry import as_tokenizer
from tokenbox.worth.documents import Document, PieceSpan
from tokenbox.worth.query import read_query
from tokenbox.worth.relevance import Relevance
from tokenbox.worth.scorers import scorer_of, scores
from tokenbox.worth.words import split

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer
    from tokenbox.worth.scorers import Scorer

SEPARATOR = "\n\n"
# Of two texts that share so much of the smaller one's word sequences (percent), the one of less worth is
# left out.
COPIED = 85
_SHINGLE = 5
_SCALE = 1 << 40
_TRIES = 12
# A shorter form tells this much (percent) of what the text tells.
_SHORTER = 40


class SelectionOrder(StrEnum):
    """The order of what is selected."""

    GIVEN = "given"
    WORTH = "worth"


class ChunkReason(StrEnum):
    """Why a chunk is shown as it is."""

    CHOSEN = "chosen"
    NO_ROOM = "no room"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A text that may be shown. ``forms``: shorter texts that may stand for it, the longest first.

    ``title`` is matched like a path; it is not shown. ``score``: its worth, in place of the query's. Chunks
    of a more urgent ``priority`` go first, whatever their worth; critical ones are always shown in full.
    """

    text: str
    id: str = ""
    title: str = ""
    forms: tuple[str, ...] = ()
    score: float | Fraction | None = None
    priority: Priority = Priority.NORMAL

    @classmethod
    def of(cls, value: object, number: int) -> Chunk:
        """The chunk in a string, a mapping or a document of a library. Raises :class:`InvalidContent`.

        A mapping has these keys; ``content`` may stand for ``text``, and ``summary`` for one form.
        """
        if isinstance(value, Chunk):
            return value
        if isinstance(value, str):
            return cls(value)
        fields: Mapping[str, Any] = value if isinstance(value, Mapping) else _attributes(value)
        text = next(
            (fields[key] for key in ("text", "content", "page_content") if isinstance(fields.get(key), str)),
            None,
        )
        if text is None:
            raise InvalidContent(
                f"chunk {number} is {type(value).__name__} without a text. Give a string, or a "
                "mapping with 'text'.",
                index=number,
            )
        forms = fields.get("forms") or ([fields["summary"]] if isinstance(fields.get("summary"), str) else [])
        if not isinstance(forms, list | tuple):
            raise InvalidContent(f"chunk {number}: its forms are a list of texts.", index=number)
        title = fields.get("title") or fields.get("path") or fields.get("source") or ""
        name = fields.get("id")
        return cls(
            str(text),
            "" if name is None else str(name),
            str(title),
            tuple(map(str, forms)),
            _score(fields.get("score"), number),
            _priority(fields.get("priority"), number),
        )


def _score(value: Any, number: int) -> float | Fraction | None:  # noqa: ANN401  # whatever is given
    """A chunk's own worth. Raises :class:`InvalidContent` for what is not a finite number."""
    try:
        # Texts are none, for "1e999999999" has a billion digits.
        return None if value is None else Fraction(value if not isinstance(value, str) else math.nan)
    except (TypeError, ValueError, OverflowError):
        raise InvalidContent(
            f"chunk {number}: a score is a number, not {value!r:.60}.", index=number
        ) from None


def _priority(value: Any, number: int) -> Priority:  # noqa: ANN401
    """The class of a chunk, by name or number. Raises :class:`InvalidContent`."""
    if value is None:
        return Priority.NORMAL
    try:
        return Priority[value.upper()] if isinstance(value, str) else Priority(value)
    except (KeyError, ValueError):
        names = ", ".join(one.name.lower() for one in Priority)
        raise InvalidContent(
            f"chunk {number}: a priority is one of {names}, not {value!r:.60}.", index=number
        ) from None


_FIELDS = (
    *("text", "content", "page_content", "id", "title", "path", "source"),
    *("forms", "summary", "score", "priority"),
)


def _attributes(value: object) -> dict[str, Any]:
    """The attributes of an object that a chunk has, as a mapping."""
    return {name: found for name in _FIELDS if (found := getattr(value, name, None)) is not None}


@dataclass(frozen=True, slots=True)
class SelectedChunk:
    """What became of a chunk. ``form``: 0 is its text, 1 its first shorter form, ...; None is nothing.

    ``size``: tokens of the form, without the separator. ``copy_of``: the chunk that says the same.
    """

    index: int
    id: str
    form: int | None
    size: int
    worth: int
    reason: ChunkReason
    copy_of: int | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection. ``total`` is the count of ``text`` as a whole; it is never over ``budget``.

    ``gap_permille``: by how much the best selection there is may be better, by the worths, in thousandths.
    """

    text: str
    total: int
    budget: int
    chunks: tuple[SelectedChunk, ...]
    exact: bool
    gap_permille: int

    @property
    def shown(self) -> tuple[int, ...]:
        """The indices of the chunks that are shown, in the order of the text."""
        return tuple(chunk.index for chunk in self.chunks if chunk.form is not None)


def check_query(query: object) -> None:
    """Raise :class:`InvalidContent` for a query that is not text."""
    if query is not None and not isinstance(query, str):
        raise InvalidContent(f"a query is a text, not {type(query).__name__}.")


def select(  # noqa: PLR0913  # each is an option of its own
    chunks: Iterable[object],
    budget: int,
    tokenizer: str | Tokenizer | Callable[[str], int],
    *,
    query: str | None = None,
    order: SelectionOrder | str = SelectionOrder.GIVEN,
    separator: str = SEPARATOR,
    copies: bool = False,
    scorer: Scorer | str | None = None,
    cache: CountCache | None = None,
) -> Selection:
    """The chunks worth most in at most ``budget`` tokens, joined by ``separator``.

    ``chunks``: strings, mappings, :class:`Chunk` or documents of a library. ``query``: what they are for; a
    chunk's own ``score`` goes before it. ``scorer``: a function of (query, texts) that says what chunks
    without a score are worth, the name of an entry point of ``tokenbox.scorers``, or ``module:function``.
    ``order``: as given, or the best last. Of chunks that say the same
    only the best is shown, unless ``copies``. Raises ``ContextCriticalOverflow`` if the critical chunks do
    not fit, :class:`InvalidContent`, ``ScorerProblem`` and ``InvalidBudget``.
    """
    budget = token_budget(budget)
    check_query(query)
    if isinstance(chunks, str | bytes | Mapping) or not isinstance(chunks, Iterable):
        raise InvalidContent(f"chunks are a list of texts or mappings, not {type(chunks).__name__}.")
    given = [Chunk.of(value, number) for number, value in enumerate(chunks)]
    if scorer is not None:
        given = _scored(given, scorer_of(scorer), query or "")
    counter = Counter(as_tokenizer(tokenizer), cache)
    worths = _worths(given, query)
    copied = {} if copies else _copies(given, worths)
    correction = 0
    for _ in range(_TRIES):
        whole = _Chunks(given, counter, separator, copied)
        room = whole.take_critical(budget) - correction
        upgrades = [
            Upgrade(int(chunk.priority), worths[i] if form == 0 else worths[i] * _SHORTER // 100, i, -form)
            for i, chunk in enumerate(given)
            if i not in copied and chunk.priority is not Priority.CRITICAL
            for form in range(len(chunk.forms) + 1)
        ]
        choice = choose(upgrades, max(0, room), whole)
        places = sorted(
            whole.forms, key=lambda i: (worths[i] if SelectionOrder(order) is SelectionOrder.WORTH else 0, i)
        )
        text = separator.join(whole.text(i) for i in places)
        total = counter.whole(text)
        if total <= budget:
            found = {
                i: whole.forms.get(i)
                for i in [*places, *(i for i in range(len(given)) if i not in whole.forms)]
            }
            results = tuple(
                SelectedChunk(
                    i,
                    given[i].id,
                    form,
                    0 if form is None else counter.small(whole.text(i)),
                    worths[i],
                    ChunkReason.COPY
                    if i in copied
                    else ChunkReason.NO_ROOM
                    if form is None
                    else ChunkReason.CHOSEN,
                    copied.get(i),
                )
                for i, form in found.items()
            )
            exact = counter.tokenizer.identity.exact
            return Selection(text, total, budget, results, exact, choice.gap_permille)
        correction += total - budget
    name = counter.tokenizer.identity.name
    raise TokenizerError(f"the counter {name} is not consistent: a count must depend on the text only.")


class _Chunks:
    """The chunks that are shown, priced. Fulfils ``engine.choice.Whole``.

    The form of an upgrade is negative: a longer text is more.
    """

    def __init__(
        self, chunks: Sequence[Chunk], counter: Counter, separator: str, copied: Mapping[int, int]
    ) -> None:
        self._chunks = chunks
        self._counter = counter
        self._separator = separator
        self._copied = copied
        self.forms: dict[int, int] = {}

    def take_critical(self, budget: int) -> int:
        """Show the critical chunks; the room that they leave. Raises ``ContextCriticalOverflow``."""
        critical = [
            i
            for i, one in enumerate(self._chunks)
            if one.priority is Priority.CRITICAL and i not in self._copied
        ]
        self.forms = dict.fromkeys(critical, 0)
        load = self._counter.whole(self._separator.join(self.text(i) for i in critical))
        if load > budget:
            sizes = [
                (self._chunks[i].id or f"chunk {i}", self._counter.small(self.text(i))) for i in critical
            ]
            raise ContextCriticalOverflow(
                fixed_load=load,
                budget=budget,
                critical=sizes,
                smallest_change={
                    "change": "raise_budget",
                    "by": load - budget,
                    "minimum_budget": load,
                    "say": f"raise the budget by {load - budget:,} to {load:,}",
                },
                estimate=not self._counter.tokenizer.identity.exact,
                what="chunks",
            )
        # The last of all needs no separator after it.
        return budget - load if critical else budget + self._counter.small(self._separator)

    def text(self, i: int) -> str:
        form = self.forms[i]
        return self._chunks[i].text if form == 0 else self._chunks[i].forms[form - 1]

    def at_least(self, upgrade: Upgrade) -> int:
        """Nothing is known without counting, for a chunk may be anything."""
        return 0

    def price(self, upgrade: Upgrade) -> int | None:
        shown, form = self.forms.get(upgrade.item), -upgrade.form
        if shown is not None and shown <= form:
            return None
        before = 0 if shown is None else self._price(upgrade.item, shown)
        return self._price(upgrade.item, form) - before

    def take(self, upgrade: Upgrade) -> None:
        self.forms[upgrade.item] = -upgrade.form

    def _price(self, i: int, form: int) -> int:
        """A form with the separator after it: what the first one needs none of is left over."""
        text = self._chunks[i].text if form == 0 else self._chunks[i].forms[form - 1]
        return self._counter.count(text + self._separator)


def _scored(chunks: Sequence[Chunk], scorer: Scorer, query: str) -> list[Chunk]:
    """The chunks, with what the scorer says of those that have no score of their own."""
    unknown = [i for i, chunk in enumerate(chunks) if chunk.score is None]
    found = dict(zip(unknown, scores(scorer, query, [chunks[i].text for i in unknown]), strict=True))
    return [replace(chunk, score=found[i]) if i in found else chunk for i, chunk in enumerate(chunks)]


def _worths(chunks: Sequence[Chunk], query: str | None) -> list[int]:
    """The worth of each chunk: its score, or what the query makes of it, or that it comes first."""
    scores = [None if chunk.score is None else Fraction(chunk.score) for chunk in chunks]
    if any(score is not None for score in scores):
        least = min((score for score in scores if score is not None), default=Fraction(0))
        most = max((score - least for score in scores if score is not None), default=Fraction(0)) or Fraction(
            1
        )
        return [0 if score is None else 1 + int((score - least) * _SCALE / most) for score in scores]
    if query is None or not query.strip():
        return [len(chunks) - i for i in range(len(chunks))]
    documents = [Document(chunk.title, chunk.text.encode("utf-8", "replace")) for chunk in chunks]
    relevance = Relevance(documents, read_query(query))
    return [relevance.piece(i, PieceSpan(0, len(document.data))) for i, document in enumerate(documents)]


def _copies(chunks: Sequence[Chunk], worths: Sequence[int]) -> dict[int, int]:
    """The chunks that say what a chunk of more worth says, each with that chunk."""
    copied: dict[int, int] = {}
    holders: dict[tuple[str, ...], list[int]] = {}
    sizes: dict[int, int] = {}
    urgent = sorted(range(len(chunks)), key=lambda i: (chunks[i].priority, -worths[i], i))
    for i in urgent:
        words = split(chunks[i].text)
        parts = (
            {tuple(words[at : at + _SHINGLE]) for at in range(max(1, len(words) - _SHINGLE + 1))}
            if words
            else set()
        )
        shared: dict[int, int] = {}
        for part in parts:
            for other in holders.get(part, ()):
                shared[other] = shared.get(other, 0) + 1
        same = [other for other, count in shared.items() if count * 100 >= COPIED * max(len(parts), 1)]
        if same:
            copied[i] = min(same, key=urgent.index)
            continue
        sizes[i] = len(parts)
        for part in parts:
            holders.setdefault(part, []).append(i)
    return copied
