"""Figures with source and date, and the rules that choose among several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tokenbox.records import AsRecord, to_record


class Limit(StrEnum):
    """The limits of a model. They differ: GPT-5 has a window of 400,000 and an input limit of 272,000."""

    CONTEXT_WINDOW = "context_window"  # input and output together
    MAX_INPUT_TOKENS = "max_input_tokens"
    MAX_OUTPUT_TOKENS = "max_output_tokens"


class FigureRule(StrEnum):
    """The rule that chose a figure among several."""

    CONFIGURED = "configured"  # set by the user
    DISCOVERED = "discovered"  # reported by the server that gets the request
    SMALLEST = "smallest"  # of the published figures
    UNROUNDED = "unrounded"  # the exact figure of a smaller, rounded one
    BOTH_HOLD = "both_hold"  # the window is smaller than the input limit


@dataclass(frozen=True, slots=True)
class Figure(AsRecord):
    """A number of tokens with its source and date (``YYYY-MM-DD``; None if unknown).

    ``value`` is None if the source explicitly has no value.
    """

    value: int | None
    source: str
    date: str | None = None


@dataclass(frozen=True, slots=True)
class ModelLimits(AsRecord):
    """The limits of a model from one source. None: the source does not state the limit.

    The user's config and the clients of servers pass these to :func:`tokenbox.catalog.model`.
    """

    context_window: Figure | None = None
    max_input_tokens: Figure | None = None
    max_output_tokens: Figure | None = None

    def figure(self, limit: Limit) -> Figure | None:
        found: Figure | None = getattr(self, limit.value)
        return found


@dataclass(frozen=True, slots=True)
class TokenizerFamily:
    """A tokenizer shared by models. ``name`` is None if the maker publishes no tokenizer."""

    name: str | None
    source: str

    def to_dict(self) -> dict[str, object]:
        return {"family": self.name, "source": self.source}


@dataclass(frozen=True, slots=True)
class Disagreement(AsRecord):
    """A disagreement of sources on a limit. ``rule`` decided for ``chosen``; ``others`` differ."""

    limit: Limit
    rule: FigureRule
    chosen: Figure
    others: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The known limits of a model. A limit is None if it is unknown, and never 0.

    The user's config overrides the server's figure, which overrides published ones. Of several published
    figures the smallest is used, unless it is a rounded form of another. ``disagreements`` lists the
    differences.
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
        """The name of the tokenizer; None if it is unpublished or unknown."""
        return None if self.tokenizer is None else self.tokenizer.name

    @property
    def window(self) -> Figure | None:
        """The limit to enforce: the context window, or else the input limit, which is never larger."""
        if self.context_window is not None:
            return self.context_window
        limit = self.max_input_tokens
        return None if limit is None else Figure(limit.value, f"max input of {limit.source}", limit.date)

    def figure(self, limit: Limit) -> Figure | None:
        found: Figure | None = getattr(self, limit.value)
        return found

    def to_dict(self) -> dict[str, object]:
        limits = " ".join(Limit)
        return to_record(self, f"id provider {limits} tokenizer disagreements")


def settle(
    limit: Limit,
    configured: ModelLimits | None,
    discovered: ModelLimits | None,
    published: Iterable[ModelLimits],
) -> tuple[Figure | None, Disagreement | None]:
    """Choose the figure for ``limit``, and return it with the disagreement, if any.

    The order is the user's config, the server, the smallest published figure (of equals, the first). An exact
    figure is preferred to its rounded form.
    """
    stated = [
        (rule, figure)
        for rule, limits in (
            (FigureRule.CONFIGURED, configured),
            (FigureRule.DISCOVERED, discovered),
            *((FigureRule.SMALLEST, limits) for limits in published),
        )
        if limits is not None and (figure := limits.figure(limit)) is not None and figure.value is not None
    ]
    if not stated:
        return None, None
    rule = stated[0][0]
    smallest = min((figure for by, figure in stated if by is rule), key=_tokens)
    chosen = smallest
    if rule is FigureRule.SMALLEST:
        full = (figure for _, figure in stated if is_rounding(_tokens(smallest), _tokens(figure)))
        chosen = min(full, key=_tokens, default=smallest)
        rule = rule if chosen is smallest else FigureRule.UNROUNDED
    others = tuple(dict.fromkeys(figure for _, figure in stated if figure.value != chosen.value))
    return chosen, Disagreement(limit, rule, chosen, others) if others else None


def is_rounding(figure: int, full: int) -> bool:
    """Return whether ``figure`` is ``full`` rounded to one or two digits, as 1,000,000 is of 1,047,576.

    128,000 has three digits, so it is not a rounded form of 131,072.
    """
    digits, full_digits = (len(str(value).rstrip("0")) for value in (figure, full))
    close = figure < full <= figure + figure // _CLOSE
    return close and digits <= _ROUND_DIGITS and full_digits >= digits + _MORE_DIGITS


_ROUND_DIGITS = 2
_MORE_DIGITS = 2
_CLOSE = 20  # 5 %


def with_input(
    window: Figure | None, found: Disagreement | None, taken: Figure | None, *, published: bool
) -> tuple[Figure | None, Disagreement | None]:
    """Reconcile the window with the input limit, which cannot be larger.

    A smaller window is a disagreement. If it is published as a rounded form of the input limit, that replaces
    it: a server's own figure is no rounded one.
    """
    if window is None or taken is None or _tokens(window) >= _tokens(taken):
        return window, found
    others = () if found is None else found.others
    if published and is_rounding(_tokens(window), _tokens(taken)):
        others = tuple(other for other in (window, *others) if other.value != taken.value)
        return taken, Disagreement(Limit.CONTEXT_WINDOW, FigureRule.UNROUNDED, taken, others)
    others = tuple(dict.fromkeys((*others, taken)))
    return window, Disagreement(Limit.CONTEXT_WINDOW, FigureRule.BOTH_HOLD, window, others)


def _tokens(figure: Figure) -> int:
    if figure.value is None:
        raise AssertionError("only figures with a value are compared")
    return figure.value
