"""Strategies of users, and the one by worth: their candidates, their choices, and how these are validated.

A strategy is a built-in name, a function, the name of an entry point of ``tokenbox.strategies``, or
``module:function``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from tokenbox import named_code
from tokenbox.content.canonical import record_digest
from tokenbox.errors import TokenboxError, plural, shown
from tokenbox.policy.errors import StrategyFailed, UnknownStrategy
from tokenbox.records import to_record
from tokenbox.tokenizers.cache import text_digest

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count
    from tokenbox.tokenizers.protocol import TokenizerIdentity


class Ranking:
    """The chunks by worth, in groups that stay together: a tool's result stays with the message before it.

    The critical ones come first, then the question, then the most relevant to it. The question is the last
    user message, else the last critical chunk; without one, later chunks are preferred. Only the chunks' own
    tokens are counted here, without markers and separators.
    ``needed``: the tokens of those that are always kept; ``total``: of all.
    """

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._groups: list[list[Candidate]] = []
        for one in candidates:
            if one.role == "tool" and self._groups:
                self._groups[-1].append(one)
            else:
                self._groups.append([one])
        question = _question(candidates)
        worths = list(range(len(self._groups)))
        if question is not None:
            # Worth takes as long to load as all of `ctx`, and only this strategy needs it.
            from tokenbox.worth.documents import Document, PieceSpan
            from tokenbox.worth.query import read_query
            from tokenbox.worth.relevance import Relevance

            texts = ["\n".join(one.text for one in group).encode() for group in self._groups]
            documents = [Document(group[0].id, text) for group, text in zip(self._groups, texts, strict=True)]
            relevance = Relevance(documents, read_query(question.text))
            worths = [relevance.piece(i, PieceSpan(0, len(text))) for i, text in enumerate(texts)]
        # At least one token each: an empty chunk may still cost a separator.
        self._sizes = [sum(max(1, one.tokens) for one in group) for group in self._groups]
        self._always = {i for i, group in enumerate(self._groups) if any(one.critical for one in group)}
        asks = {i for i, group in enumerate(self._groups) if any(one is question for one in group)}
        others = [i for i in range(len(worths)) if i not in self._always]
        self._others = sorted(others, key=lambda i: (i not in asks, -worths[i], -i))
        self.total = sum(self._sizes)
        self.needed = sum(self._sizes[i] for i in self._always)

    def within(self, budget: int) -> list[int]:
        """Return the indices of those always kept and of the best that fit beside them, in their order."""
        kept, left = set(self._always), budget - self.needed
        for i in self._others:
            if self._sizes[i] <= left:
                kept.add(i)
                left -= self._sizes[i]
        return [one.index for i in sorted(kept) for one in self._groups[i]]


def _question(candidates: Sequence[Candidate]) -> Candidate | None:
    users = [one for one in candidates if one.role == "user"] or [one for one in candidates if one.critical]
    return users[-1] if users else None


SCHEMA = "tokenbox.choice/1"
GROUP: Final = "tokenbox.strategies"
WORTH: Final = "worth"
STRATEGY_NAMES: Final = ("box", "ladder", "window", WORTH)
"""The built-in strategies."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk as a strategy sees it. ``tokens`` is its count alone.

    ``priority`` is a section's number, a block's class (0 is the most urgent), or None for a message.
    ``critical`` chunks must be in the result, unchanged.
    """

    index: int
    id: str
    text: str = field(repr=False)
    tokens: int
    priority: int | None = None
    critical: bool = False
    role: str | None = None


Choice = int | tuple[int, str]
"""The index of a chunk; or the index of a section, and the text that replaces it."""

Picked = Sequence[tuple[int, str | None]]
"""The indices of the chosen chunks in order, each with the text that replaces a section's, if any."""

Strategy = Callable[[Sequence[Candidate], int, Callable[[str], int]], Iterable[Choice]]
"""``strategy(candidates, budget, count)`` returns what to send, in order. It must depend on nothing else."""


@dataclass(frozen=True)
class ChosenLayout:
    """The choice of a strategy, counted as a whole. ``texts`` has None for a chunk that was left out.

    ``count`` is that of the messages that the sections are sent as; None if they are sent as one text.
    """

    ids: tuple[str, ...]
    order: tuple[int, ...]
    texts: tuple[str | None, ...] = field(repr=False)
    base_sizes: tuple[int, ...] = field(repr=False)
    sizes: tuple[int, ...] = field(repr=False)
    text: str = field(repr=False)
    total: int
    budget: int
    strategy: str
    tokenizer: TokenizerIdentity
    separator: str
    count: Count | None = None

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the RFC 8785 JSON of the arguments and the result."""
        record = {**self.to_dict(), "text": None, "digest": None, "emitted": text_digest(self.text).hex()}
        return record_digest(record)

    def to_dict(self) -> dict[str, object]:
        counted = "" if self.count is None else "count "
        return to_record(
            self,
            f"schema strategy budget total {counted}tokenizer separator order chunks text",
            schema=SCHEMA,
            chunks=[
                {"id": name, "base_size": base, "size": size, "chosen": text is not None}
                for name, base, size, text in zip(
                    self.ids, self.base_sizes, self.sizes, self.texts, strict=True
                )
            ],
        )


def name_of(strategy: object) -> str:
    """Return the name of a user's strategy in records: its module and name, and its ``version`` if any."""
    name, version = named_code.name_of(strategy), getattr(strategy, "version", None)
    return f"{name} {version}" if isinstance(version, str) else name


def choose(
    strategy: Strategy,
    candidates: Sequence[Candidate],
    budget: int,
    count: Callable[[str], int],
    *,
    may_change: bool,
) -> Picked:
    """Run the strategy twice, and return its choice: ``(index, new text or None)`` in order.

    Raises :class:`StrategyFailed` if it raises, if the two answers differ, or if the answer has an unknown
    index, an index twice, or a new text where ``may_change`` is false or the chunk is critical.
    """
    name, given = name_of(strategy), tuple(candidates)
    first, second = (_run(strategy, name, given, budget, count) for _ in range(2))
    if first != second:
        raise StrategyFailed(
            f"the strategy {name} is not deterministic: asked twice, it gave {shown(first)} and then "
            f"{shown(second)}. It must depend on its arguments only.",
            strategy=name,
        )
    chosen: list[tuple[int, str | None]] = []
    for answer in first:
        index, text = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
        if type(index) is not int or not 0 <= index < len(given) or not (text is None or type(text) is str):
            raise _broken(
                name,
                f"gave {shown(answer)}: an answer is an index from 0 to {len(given) - 1}, or (index, text)",
            )
        candidate = given[index]
        changed = text is not None and text != candidate.text
        if changed and not may_change:
            raise _broken(name, f"changed the text of {candidate.id}: only sections may be changed")
        if changed and candidate.critical:
            raise _broken(name, f"changed {candidate.id}, which is critical")
        chosen.append((index, text if changed else None))
    indices = {index for index, _ in chosen}
    if len(indices) < len(chosen):
        raise _broken(name, "chose a chunk twice")
    left_out = [one.id for one in given if one.critical and one.index not in indices]
    if left_out:
        raise _broken(name, f"left out {left_out[0]}, which is critical")
    return chosen


def check_budget(name: str, total: int, budget: int) -> None:
    """Raise :class:`StrategyFailed` if what a strategy chose is over the budget."""
    if total > budget:
        raise _broken(
            name, f"chose {plural(total, 'token')} as a whole, {total - budget:,} over the {budget:,} it had"
        )


def _run(
    strategy: Strategy, name: str, given: Sequence[Candidate], budget: int, count: Callable[[str], int]
) -> list[object]:
    try:
        answer = strategy(given, budget, count)
        chosen: list[object] = list(islice(answer, len(given) + 1))  # one more would choose a chunk twice
    except TokenboxError:
        raise
    except (Exception, SystemExit) as error:
        raise StrategyFailed(
            f"the strategy {name} failed: {type(error).__name__}: {error}", strategy=name
        ) from error
    if isinstance(answer, set | frozenset):
        raise _broken(name, "gave a set, which has no order: give a list")
    return chosen


def _broken(name: str, fault: str) -> StrategyFailed:
    return StrategyFailed(f"the strategy {name} {fault}.", strategy=name)


def oldest_first(
    candidates: Sequence[Candidate], budget: int, count_whole: Callable[[Sequence[int]], int]
) -> list[int]:
    """Drop the first flexible sections until the rest fits: the strategy ``window`` for sections.

    As few are dropped as possible.
    """
    everything = [one.index for one in candidates]
    flexible = [one.index for one in candidates if not one.critical]

    def rest(number: int) -> list[int]:
        dropped = set(flexible[:number])
        return [i for i in everything if i not in dropped]

    low, high = 0, len(flexible)
    while low < high:
        middle = (low + high) // 2
        if count_whole(rest(middle)) <= budget:
            high = middle
        else:
            low = middle + 1
    return rest(low)


def strategy_of(value: object) -> str | Strategy | None:
    """Return the strategy that ``value`` is or names.

    It is built in, of an entry point, of ``module:function``, or a callable. Raises :class:`UnknownStrategy`,
    and :class:`StrategyFailed` (with its cause) if it cannot be imported.
    """
    if value is None or (isinstance(value, str) and value in STRATEGY_NAMES):
        return value
    if callable(value):
        return cast("Strategy", value)
    if not isinstance(value, str):
        raise UnknownStrategy(
            f"a strategy is {', '.join(STRATEGY_NAMES)}, a function, an entry point of {GROUP} or "
            f"'module:function', not {shown(value)}."
        )
    found = _load(value)
    if not callable(found):
        raise UnknownStrategy(f"{value} is not a function, but {type(found).__name__}.", strategy=value)
    return cast("Strategy", found)


def _load(name: str) -> object:
    found = named_code.load(name, GROUP, lambda why: StrategyFailed(f"the strategy {why}", strategy=name))
    if found is None:
        hint = named_code.meant(name, (*STRATEGY_NAMES, *sorted(named_code.entry_points_of(GROUP))))
        raise UnknownStrategy(
            f"no strategy is called {name!r}. {hint} A function of yours is named as module:function.",
            strategy=name,
        )
    return found
