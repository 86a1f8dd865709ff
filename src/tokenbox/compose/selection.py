"""Selection of the most relevant chunks within a budget, in full or in shorter forms, without duplicates.

For retrieved passages, tool outputs, memories and old turns. The worth of a chunk is the caller's score, or
its relevance to a query (``tokenbox.worth``). Without either, earlier chunks are worth more.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from tokenbox.characters import composed
from tokenbox.compose.counting import Counter
from tokenbox.content.block_kinds import Priority
from tokenbox.engine.choice import Upgrade, choose
from tokenbox.errors import (
    ContextCriticalOverflow,
    InvalidContent,
    InvalidText,
    TokenizerError,
    one_of,
    raise_budget,
    several,
    shown,
)
from tokenbox.integers import plain, token_budget
from tokenbox.records import AsRecord
from tokenbox.tokenizers.registry import as_tokenizer
from tokenbox.tokenizers.utf8 import utf8
from tokenbox.worth.documents import Document, PieceSpan
from tokenbox.worth.query import read_query
from tokenbox.worth.relevance import Relevance
from tokenbox.worth.scorers import Scorer, scorer_of, scores
from tokenbox.worth.words import split

if TYPE_CHECKING:
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer

SEPARATOR = "\n\n"
# A chunk is a near-duplicate if it shares this percentage of its shingles (word sequences) with a better
# chunk.
COPIED = 85
_SHINGLE = 5
_SCALE = 1 << 40
_TRIES = 12
# The worth of a shorter form, in percent of the text's worth.
_SHORTER = 40


class SelectionOrder(StrEnum):
    """The order of the selected chunks."""

    GIVEN = "given"
    WORTH = "worth"


class ChunkReason(StrEnum):
    """The reason for the decision on a chunk."""

    CHOSEN = "chosen"
    NO_ROOM = "no room"
    COPY = "copy"
    BLANK = "blank"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A text to select. ``forms``: shorter texts that may replace it, the longest first.

    ``title`` is matched like a path, and not shown. ``score``: its worth, which overrides the query. Chunks
    of a higher ``priority`` go first, whatever their worth; critical chunks are always shown in full.
    """

    text: str
    id: str = ""
    title: str = ""
    forms: tuple[str, ...] = ()
    score: float | Fraction | None = None
    priority: Priority = Priority.NORMAL

    @classmethod
    def of(cls, value: object, number: int) -> Chunk:
        """Read a chunk from a string, a mapping or a library's document. Raises :class:`InvalidContent`.

        A mapping has the fields' names as keys. ``content`` is an alias of ``text``, ``summary`` of one form;
        ``path``, ``source`` and the names of a file in its ``metadata`` are aliases of ``title``.
        """
        if isinstance(value, str):
            return cls(_valid(value, number))
        fields: Mapping[str, Any] = value if isinstance(value, Mapping) else _attributes(value)
        text = next(
            (fields[key] for key in ("text", "content", "page_content") if isinstance(fields.get(key), str)),
            None,
        )
        if text is None:
            fix = "Give a string, or a mapping with 'text'."
            if isinstance(value, tuple):
                fix = "Of a document and its score make {'text': ..., 'score': ...}; a distance is no score."
            raise InvalidContent(
                f"chunk {number} is {type(value).__name__} without a text. {fix}", index=number
            )
        forms = fields.get("forms") or ([fields["summary"]] if isinstance(fields.get("summary"), str) else [])
        if not isinstance(forms, list | tuple):
            raise InvalidContent(f"chunk {number}: forms is not a list of texts.", index=number)
        name = fields.get("id")
        return cls(
            _valid(str(text), number),
            "" if name is None else str(name),
            _title(fields),
            tuple(_valid(str(form), number) for form in forms),
            _score(fields.get("score"), number),
            _priority(fields.get("priority"), number),
        )


def _valid(text: str, number: int) -> str:
    """Return the text of a chunk. Raises ``InvalidText``, which names the chunk."""
    try:
        utf8(text)
    except InvalidText as error:
        raise InvalidText(f"chunk {number}: {error}", index=number, **error.details) from None
    return text


def _title(fields: Mapping[str, Any]) -> str:
    """Return the title, which frameworks have among the metadata."""
    for holder in (fields, fields.get("metadata"), fields.get("meta")):
        if isinstance(holder, Mapping):
            found = (holder.get(key) for key in ("title", "path", "source", "file_path", "file_name", "url"))
            if title := next(filter(None, found), None):
                return str(title)
    return ""


def _score(value: Any, number: int) -> float | Fraction | None:  # noqa: ANN401  # any value from a caller
    """Read a chunk's score. Raises :class:`InvalidContent` if it is not a finite number."""
    try:
        # A text is not a score: Fraction("1e999999999") would have a billion digits.
        return None if value is None else Fraction(math.nan if isinstance(value, str) else plain(value))
    except (TypeError, ValueError, OverflowError):
        raise InvalidContent(
            f"chunk {number}: a score is a number, not {shown(value)}.", index=number
        ) from None


def _priority(value: Any, number: int) -> Priority:  # noqa: ANN401  # the caller's
    """Read a chunk's priority, by name or number. Raises :class:`InvalidContent`."""
    if value is None:
        return Priority.NORMAL
    try:
        return Priority[value.upper()] if isinstance(value, str) else Priority(value)
    except (KeyError, ValueError):
        names = ", ".join(one.name.lower() for one in Priority)
        raise InvalidContent(
            f"chunk {number}: a priority is one of {names}, not {shown(value)}.", index=number
        ) from None


_ATTRIBUTES = (
    "text content page_content id title path source metadata meta forms summary score priority".split()
)


def _attributes(value: object) -> dict[str, Any]:
    """Return the attributes of a library's document that describe a chunk."""
    return {name: found for name in _ATTRIBUTES if (found := getattr(value, name, None)) is not None}


@dataclass(frozen=True, slots=True)
class SelectedChunk(AsRecord):
    """The decision for a chunk. ``form``: 0 is its text, 1 its first shorter form, ...; None: not shown.

    ``size``: the tokens of the form, without the separator. ``copy_of``: the chunk that it duplicates.
    """

    index: int
    id: str
    form: int | None
    size: int
    worth: int
    reason: ChunkReason
    copy_of: int | None = None


@dataclass(frozen=True, slots=True)
class Selection(AsRecord):
    """A selection. ``total`` is the count of the whole ``text``; it is never over ``budget``.

    ``gap_permille``: an upper bound of the distance from an optimal selection's worth, in thousandths of it.
    """

    text: str = field(repr=False)
    total: int
    budget: int
    chunks: tuple[SelectedChunk, ...] = field(repr=False)
    exact: bool
    gap_permille: int

    @property
    def shown(self) -> tuple[int, ...]:
        """The indices of the shown chunks, in the order of the text."""
        return tuple(chunk.index for chunk in self.chunks if chunk.form is not None)


def check_query(query: object) -> None:
    """Raise :class:`InvalidContent` if the query is not text."""
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
    """Select chunks as :func:`tokenbox.select` does, which has the options and errors.

    A ``scorer`` gives the worth of chunks without a score of their own. Only the best of near-duplicates is
    shown, unless ``copies``; blank ones are not.
    """
    budget = token_budget(budget)
    check_query(query)
    by_worth = one_of(SelectionOrder, "order", order, InvalidContent) is SelectionOrder.WORTH
    if not isinstance(separator, str):
        raise InvalidContent(f"a separator is text, not {type(separator).__name__}.")
    values = several(chunks)
    if values is None:
        raise InvalidContent(f"chunks are a list of texts or mappings, not {type(chunks).__name__}.")
    given = [Chunk.of(value, number) for number, value in enumerate(values)]
    if scorer is not None:
        given = _scored(given, scorer_of(scorer), query or "")
    counter = Counter(as_tokenizer(tokenizer), cache)
    worths = _worths(given, query)
    copied = {} if copies else _copies(given, worths)
    upgrades = [
        Upgrade(int(chunk.priority), worths[i] if form == 0 else worths[i] * _SHORTER // 100, i, -form)
        for i, chunk in enumerate(given)
        if i not in copied and chunk.priority is not Priority.CRITICAL
        for form, text in enumerate((chunk.text, *chunk.forms))
        if text.strip()
    ]
    identity = counter.tokenizer.identity
    correction = 0
    for tries in count():
        whole = _Chunks(given, counter, separator, copied, worths if by_worth else None)
        room = whole.take_critical(budget) - correction
        choice = choose(upgrades, max(0, room), whole)
        chosen, text = whole.chosen, whole.joined()
        total = counter.whole(text)
        if total <= budget:
            omitted = [i for i in range(len(given)) if i not in whole.forms]
            results = tuple(whole.result(i, worths[i]) for i in (*chosen, *omitted))
            return Selection(text, total, budget, results, identity.exact, choice.gap_permille)
        if room <= 0:  # only the critical chunks are left, and they fitted
            break
        # After some tries the step doubles, so that the search ends soon even with an adverse counter.
        correction += (total - budget) << max(0, tries - _TRIES)
    raise TokenizerError(
        f"the counter {identity.name} is not consistent: a count must depend on the text only."
    )


@dataclass(slots=True)
class _Chunks:
    """The shown chunks with their prices: an implementation of ``engine.choice.ChoiceWhole``.

    The form of an upgrade is negated, because a longer text is the higher form. ``order``: the worths by
    which the text is ordered, if it is. ``forms``: of the shown chunks.
    """

    chunks: Sequence[Chunk]
    counter: Counter
    separator: str
    copied: Mapping[int, int]
    order: Sequence[int] | None
    forms: dict[int, int] = field(default_factory=dict)

    def take_critical(self, budget: int) -> int:
        """Show the critical chunks and return the remaining room. Raises ``ContextCriticalOverflow``."""
        critical = [
            i
            for i, one in enumerate(self.chunks)
            if one.priority is Priority.CRITICAL and i not in self.copied
        ]
        self.forms = dict.fromkeys(critical, 0)
        load = self.counter.whole(self.joined())
        if load > budget:
            sizes = [(self.chunks[i].id or f"chunk {i}", self.counter.small(self.text(i))) for i in critical]
            raise ContextCriticalOverflow(
                fixed_load=load,
                budget=budget,
                critical=sizes,
                smallest_change=raise_budget(budget, load),
                estimate=not self.counter.tokenizer.identity.exact,
                what="chunks",
            )
        # The last chunk has no separator after it.
        return budget - load if critical else budget + self.counter.small(self.separator)

    @property
    def chosen(self) -> list[int]:
        """The shown chunks, in the order of the text."""
        return sorted(self.forms, key=lambda i: (0 if self.order is None else self.order[i], i))

    def joined(self) -> str:
        return self.separator.join(map(self.text, self.chosen))

    def text(self, i: int) -> str:
        return self._text(i, self.forms[i])

    def result(self, i: int, worth: int) -> SelectedChunk:
        form, reason = self.forms.get(i), ChunkReason.CHOSEN
        if form is None:
            is_blank = not self.chunks[i].text.strip()
            omitted = ChunkReason.BLANK if is_blank else ChunkReason.NO_ROOM
            reason = ChunkReason.COPY if i in self.copied else omitted
        size = 0 if form is None else self.counter.small(self.text(i))
        return SelectedChunk(i, self.chunks[i].id, form, size, worth, reason, self.copied.get(i))

    def at_least(self, upgrade: Upgrade) -> int:
        """Return 0: there is no lower bound without counting."""
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
        """Return the count of a form with a separator after it.

        It is at least 1: what a caller's function counts as 0 would fit however little room there is.
        """
        text = self._text(i, form) + self.separator
        return max(bool(text), self.counter.count(text))

    def _text(self, i: int, form: int) -> str:
        return self.chunks[i].text if form == 0 else self.chunks[i].forms[form - 1]


def _scored(chunks: Sequence[Chunk], scorer: Scorer, query: str) -> list[Chunk]:
    """Return the chunks with the scorer's scores for those without a score."""
    unknown = [i for i, chunk in enumerate(chunks) if chunk.score is None]
    found = dict(zip(unknown, scores(scorer, query, [chunks[i].text for i in unknown]), strict=True))
    return [replace(chunk, score=found[i]) if i in found else chunk for i, chunk in enumerate(chunks)]


def _worths(chunks: Sequence[Chunk], query: str | None) -> list[int]:
    """Return the worth of each chunk: by its score, its relevance to the query, or its position."""
    scores = [None if chunk.score is None else Fraction(chunk.score) for chunk in chunks]
    if any(score is not None for score in scores):
        known = [score for score in scores if score is not None]
        lowest = min(known)
        spread = max(known) - lowest or 1
        return [0 if score is None else 1 + int((score - lowest) * _SCALE / spread) for score in scores]
    if query is None or not query.strip():
        return [len(chunks) - i for i in range(len(chunks))]
    documents = [Document(chunk.title, composed(chunk.text).encode("utf-8", "replace")) for chunk in chunks]
    relevance = Relevance(documents, read_query(composed(query)))
    return [relevance.piece(i, PieceSpan(0, len(document.data))) for i, document in enumerate(documents)]


def _copies(chunks: Sequence[Chunk], worths: Sequence[int]) -> dict[int, int]:
    """Return the near-duplicate chunks, each with the better chunk that it duplicates."""
    shingles = [_shingles(chunk.text) for chunk in chunks]
    frequency = collections.Counter(chain.from_iterable(shingles))
    copied: dict[int, int] = {}
    holders: dict[tuple[str, ...], list[int]] = {}
    urgent = sorted(range(len(chunks)), key=lambda i: (chunks[i].priority, -worths[i], i))
    place = {i: n for n, i in enumerate(urgent)}
    for i in urgent:
        own = shingles[i]
        shared = -(-COPIED * len(own) // 100)
        # A chunk that shares that many has one of any others that are left out. The rarest lead to the
        # fewest chunks: a sentence that all chunks begin with leads to all of them.
        rarest = sorted(own, key=lambda shingle: (frequency[shingle], shingle))[: len(own) - shared + 1]
        near = {other for shingle in rarest for other in holders.get(shingle, ())}
        same = [other for other in near if len(own & shingles[other]) >= shared]
        if same:
            copied[i] = min(same, key=place.__getitem__)
            continue
        for shingle in own:
            holders.setdefault(shingle, []).append(i)
    return copied


def _shingles(text: str) -> set[tuple[str, ...]]:
    """Return the sequences of words of a text; a short text is one."""
    words = split(text)
    starts = range(max(1, len(words) - _SHINGLE + 1)) if words else ()
    return {tuple(words[at : at + _SHINGLE]) for at in starts}
