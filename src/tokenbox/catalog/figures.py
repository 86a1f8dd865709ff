"""A figure with its source and date, and which of several figures counts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenbox.catalog.families import TokenizerFamily


class Limit(StrEnum):
    """The three limits of a model, which differ: GPT-5 holds 400,000 tokens and takes 272,000."""

    CONTEXT_WINDOW = "context_window"  # input and output together
    MAX_INPUT_TOKENS = "max_input_tokens"
    MAX_OUTPUT_TOKENS = "max_output_tokens"


class FigureRule(StrEnum):
    """Why a figure counts and not another one."""

    CONFIGURED = "configured"  # the user said so
    DISCOVERED = "discovered"  # the server that gets the request says so
    SMALLEST = "smallest"  # of what is published
    UNROUNDED = "unrounded"  # the figure that a smaller one was rounded from
    BOTH_HOLD = "both_hold"  # a window smaller than the most input


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of tokens, who says so, and when (``YYYY-MM-DD``; None is not known).

    ``value`` None means that this source says it does not know, or that there is no limit it would name.
    """

    value: int | None
    source: str
    date: str | None = None

    def to_dict(self) -> dict[str, object]:
        return {"value": self.value, "source": self.source, "date": self.date}


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """What one source says of a model; None where it says nothing.

    The user's config and the clients of servers give these to :func:`tokenbox.catalog.model`.
    """

    context_window: Figure | None = None
    max_input_tokens: Figure | None = None
    max_output_tokens: Figure | None = None

    def figure(self, limit: Limit) -> Figure | None:
        found: Figure | None = getattr(self, limit.value)
        return found


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Sources that do not agree on a limit. ``chosen`` counts, by ``rule``; ``others`` say something else."""

    limit: Limit
    rule: FigureRule
    chosen: Figure
    others: tuple[Figure, ...]

    def to_dict(self) -> dict[str, object]:
        return {
            "limit": self.limit.value,
            "rule": self.rule.value,
            "chosen": self.chosen.to_dict(),
            "others": [figure.to_dict() for figure in self.others],
        }


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known of a model. A limit that no source has is None: unknown, and never 0.

    Of several published figures the smallest counts, unless it is another one rounded. The user's config
    counts before the server's own figure, and that before anything published. What does not agree stands in
    ``disagreements``.
    """

    id: str
    provider: str | None
    context_window: Figure | None
    max_input_tokens: Figure | None
    max_output_tokens: Figure | None
    tokenizer: TokenizerFamily | None
    disagreements: tuple[Disagreement, ...] = ()

    @property
    def tokenizer_family(self) -> str | None:
        """The name of the tokenizer: None where none is published, or nothing is known."""
        return None if self.tokenizer is None else self.tokenizer.name

    @property
    def window(self) -> Figure | None:
        """What to enforce: the context window, or where no source has it the most input, never larger."""
        if self.context_window is not None:
            return self.context_window
        taken = self.max_input_tokens
        return None if taken is None else Figure(taken.value, f"max input of {taken.source}", taken.date)

    def figure(self, limit: Limit) -> Figure | None:
        found: Figure | None = getattr(self, limit.value)
        return found

    def to_dict(self) -> dict[str, object]:
        figures = {limit.value: self.figure(limit) for limit in Limit}
        return {
            "id": self.id,
            "provider": self.provider,
            **{name: None if figure is None else figure.to_dict() for name, figure in figures.items()},
            "tokenizer": None if self.tokenizer is None else self.tokenizer.to_dict(),
            "disagreements": [found.to_dict() for found in self.disagreements],
        }


def settle(
    limit: Limit,
    configured: ModelLimits | None,
    discovered: ModelLimits | None,
    published: Iterable[ModelLimits],
) -> tuple[Figure | None, Disagreement | None]:
    """The figure that counts for ``limit``, and who disagrees.

    The user's config, else the server, else the smallest published figure (of equals, the first). A rounded
    figure never counts before the one that it was rounded from.
    """
    said = [
        (rule, figure)
        for rule, limits in (
            (FigureRule.CONFIGURED, configured),
            (FigureRule.DISCOVERED, discovered),
            *((FigureRule.SMALLEST, limits) for limits in published),
        )
        if limits is not None and (figure := limits.figure(limit)) is not None and figure.value is not None
    ]
    if not said:
        return None, None
    rule = said[0][0]
    smallest = min((figure for by, figure in said if by is rule), key=_tokens)
    chosen = smallest
    if rule is FigureRule.SMALLEST:
        full = (figure for _, figure in said if is_rounding(_tokens(smallest), _tokens(figure)))
        chosen = min(full, key=_tokens, default=smallest)
        rule = rule if chosen is smallest else FigureRule.UNROUNDED
    others = tuple(dict.fromkeys(figure for _, figure in said if figure.value != chosen.value))
    return chosen, Disagreement(limit, rule, chosen, others) if others else None


def is_rounding(figure: int, full: int) -> bool:
    """Whether ``figure`` is ``full`` written with one or two digits: 1,000,000 for 1,047,576.

    128,000 has three digits: it is a figure by itself, and no rounding of 131,072.
    """
    digits, full_digits = (len(str(value).rstrip("0")) for value in (figure, full))
    close = figure < full <= figure + figure // _CLOSE
    return close and digits <= _ROUND_DIGITS and full_digits >= digits + _MORE_DIGITS


_ROUND_DIGITS = 2
_MORE_DIGITS = 2
_CLOSE = 20  # 5 %


def with_input(
    window: Figure | None, found: Disagreement | None, taken: Figure | None, *, stated: bool
) -> tuple[Figure | None, Disagreement | None]:
    """The window beside the most input, which cannot be larger: a disagreement, unless the user stated it.

    A rounded window gives way to the most input, which it was rounded from.
    """
    if window is None or taken is None or stated or _tokens(window) >= _tokens(taken):
        return window, found
    others = () if found is None else found.others
    if is_rounding(_tokens(window), _tokens(taken)):
        others = tuple(other for other in (window, *others) if other.value != taken.value)
        return taken, Disagreement(Limit.CONTEXT_WINDOW, FigureRule.UNROUNDED, taken, others)
    others = tuple(dict.fromkeys((*others, taken)))
    return window, Disagreement(Limit.CONTEXT_WINDOW, FigureRule.BOTH_HOLD, window, others)


def _tokens(figure: Figure) -> int:
    if figure.value is None:
        raise AssertionError("only figures with a value are compared")
    return figure.value
