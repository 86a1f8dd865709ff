"""The guard: whether a request may be sent (nrv ADR 007, 5; requests.md, "A guard").

    denied iff tokens_in + reserve_out > max_ctx * (1 - headroom), or tokens_in > max_input

in exact arithmetic. Since the left side is an integer, this is the budget of layout.md: denied iff
``tokens_in > floor(max_ctx * (1 - headroom)) - reserve_out``.

An exact count is decided on its total. An estimate is denied if its total is over the limit, and allowed if
its upper bound is within it; between the two :class:`Uncertain` decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Final

from tokenbox.compose.requests import By, Count
from tokenbox.content.weight import exact_weight, weight_text
from tokenbox.errors import one_of, shown
from tokenbox.integers import MAX_INTEGER, whole
from tokenbox.models import ModelFigures, usable_of
from tokenbox.policy.errors import InvalidPolicy, unknown_window
from tokenbox.records import to_record


@dataclass(frozen=True, slots=True)
class GuardLimits:
    """The limits of a request, in tokens.

    ``max_ctx`` holds input and output together; ``reserve_out`` is reserved for the answer; ``headroom`` is
    the fraction of the window kept free as a margin; ``max_input`` is a limit of the input alone, if there is
    one. ``sources`` names the source of a figure, by its field.
    """

    max_ctx: int
    reserve_out: int = 0
    headroom: Fraction = Fraction(0)
    max_input: int | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    input_limit: int = field(init=False, repr=False, compare=False)
    """The most input that passes, by the smaller limit. Below 0 if none passes."""

    def __post_init__(self) -> None:
        room = self.window_room
        limit = room if self.max_input is None else min(room, self.max_input)
        object.__setattr__(self, "input_limit", limit)

    @classmethod
    def of(
        cls,
        max_ctx: object,
        reserve_out: object = 0,
        headroom: object = 0,
        max_input: object = None,
        sources: Mapping[str, str] | None = None,
    ) -> GuardLimits:
        """Validate the limits. Raises :class:`InvalidPolicy`."""
        return cls(
            tokens(max_ctx, "max_ctx"),
            tokens(reserve_out, "reserve_out"),
            exact_headroom(headroom),
            None if max_input is None else tokens(max_input, "max_input"),
            dict(sources or {}),
        )

    @classmethod
    def of_model(cls, figures: ModelFigures) -> GuardLimits:
        """Return the limits of a request to a model. Raises :class:`UnknownWindow`."""
        if figures.context_window is None or figures.output_reserve is None:
            raise unknown_window(figures.model)
        sources = {FIELDS[name]: source for name, source in figures.sources.items() if name in FIELDS}
        return cls(
            figures.context_window, figures.output_reserve, figures.headroom, figures.max_input, sources
        )

    @property
    def usable(self) -> int:
        """``floor(max_ctx * (1 - headroom))``: the most that input and output may take together."""
        return usable_of(self.max_ctx, self.headroom)

    @property
    def window_room(self) -> int:
        """The tokens that the window leaves for the input; below 0 if the reserve alone is too large."""
        return self.usable - self.reserve_out

    @property
    def max_input_binds(self) -> bool:
        """Whether ``max_input`` is the smaller limit."""
        return self.max_input is not None and self.max_input < self.window_room

    def denies(self, tokens_in: int) -> bool:
        """Apply the rule of ADR 007, in integers."""
        return tokens_in > self.input_limit

    def largest_reserve(self, tokens_in: int) -> int:
        """Return the largest reserve beside that input; below 0 if the input alone is too large."""
        return self.usable - tokens_in

    def smallest_window(self, tokens_in: int) -> int:
        """Return the smallest ``max_ctx`` that lets that input pass, all else being equal."""
        needed = Fraction(tokens_in + self.reserve_out) / (1 - self.headroom)
        return -(-needed.numerator // needed.denominator)

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self,
            "max_ctx reserve_out headroom max_input usable input_limit sources",
            headroom=weight_text(self.headroom),
        )


MARGINS: Final[Mapping[By, Fraction]] = {
    By.TEMPLATE: Fraction(5, 100),
    By.SERVER: Fraction(5, 100),
    By.PUBLISHED: Fraction(5, 100),
    By.TEXT: Fraction(15, 100),
    By.MARKERS: Fraction(0),  # counted generously: the total includes a margin
    By.MARGIN: Fraction(0),
    By.CHARS4: Fraction(15, 100),
}
"""The margin of an estimate, as a share of its total, by who counted."""

FIELDS: Final = {
    "context_window": "max_ctx",
    "max_input": "max_input",
    "output_reserve": "reserve_out",
    "headroom": "headroom",
}
"""The figures of a model by the names of ADR 007."""


class Uncertain(StrEnum):
    """The setting ``policy.uncertain``: what decides if an estimate fits by its total, not by its bound."""

    MARGIN = "margin"
    """The total and its margin."""
    BOUND = "bound"
    """The upper bound: nothing uncertain passes."""
    ALLOW = "allow"
    """The total."""


class Basis(StrEnum):
    """The figure of the count that decided."""

    EXACT = "exact"
    TOTAL = "total"
    AT_MOST = "at_most"
    MARGIN = "margin"


class Binding(StrEnum):
    """The limit that decided."""

    CONTEXT_WINDOW = "context_window"
    MAX_INPUT_TOKENS = "max_input_tokens"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision whether a request may be sent, and the figure that decided.

    ``tokens`` is that figure: the total, the total with its margin, or the upper bound.
    """

    ok: bool
    count: Count
    limits: GuardLimits
    tokens: int
    basis: Basis
    uncertain: Uncertain

    @property
    def binding(self) -> Binding:
        """The smaller limit."""
        return Binding.MAX_INPUT_TOKENS if self.limits.max_input_binds else Binding.CONTEXT_WINDOW

    @property
    def over(self) -> int:
        """By how many tokens the input exceeds its limit; 0 or less if it fits."""
        return self.tokens - self.limits.input_limit

    def to_dict(self) -> dict[str, object]:
        return to_record(self, "ok count tokens basis uncertain over binding") | self.limits.to_dict()


def checked_uncertain(value: object) -> Uncertain:
    """Return ``value`` as :class:`Uncertain`. Raises :class:`InvalidPolicy`."""
    return one_of(Uncertain, "policy.uncertain", value, InvalidPolicy, field="uncertain")


def guard(count: Count, limits: GuardLimits, uncertain: Uncertain = Uncertain.MARGIN) -> Verdict:
    """Decide whether a request of that count may be sent within ``limits``."""
    tokens, basis = needed(count, uncertain)
    if basis is not Basis.EXACT and limits.denies(in_window(count)):
        basis = Basis.TOTAL
    return Verdict(not limits.denies(tokens), count, limits, tokens, basis, uncertain)


def needed(count: Count, uncertain: Uncertain = Uncertain.MARGIN) -> tuple[int, Basis]:
    """Return the tokens that the limit must leave for the input, and which figure that is."""
    total = in_window(count)
    if count.exact:
        return total, Basis.EXACT
    if uncertain is Uncertain.ALLOW:
        return total, Basis.TOTAL
    margin = MARGINS[count.by]
    margined = total - (-total * margin.numerator // margin.denominator)
    if uncertain is Uncertain.BOUND or count.at_most <= margined:
        return count.at_most, Basis.AT_MOST
    return margined, Basis.MARGIN


def in_window(count: Count) -> int:
    """Return the total; of several prompts the largest, since each has the window for itself."""
    return count.total if count.largest is None else count.largest


def tokens(value: object, name: str) -> int:
    """Return ``value``, an integer of any library, as a number of tokens. Raises :class:`InvalidPolicy`."""
    number = whole(value)
    if number is None or not 0 <= number <= MAX_INTEGER:
        raise InvalidPolicy(
            f"{name} is a whole number of tokens, from 0 to {MAX_INTEGER:,}, not {shown(value)}.",
            field=name,
            value=shown(value),
        )
    return number


def exact_headroom(value: object) -> Fraction:
    """Return ``value`` as an exact fraction of the window, 0 <= headroom < 1. Raises :class:`InvalidPolicy`.

    It is a decimal string such as ``"0.05"``, a Decimal, a Fraction, 0, or a float by its shortest decimal
    form.
    """
    try:
        fraction = Fraction(exact_weight(value))
    except (TypeError, ValueError) as error:
        cause = str(error).replace("a weight", "a headroom")
        raise InvalidPolicy(
            f"headroom is a decimal such as '0.05', not {shown(value)}: {cause:.160}.",
            field="headroom",
            value=shown(value),
        ) from None
    if fraction >= 1:
        raise InvalidPolicy(
            f"headroom is a fraction of the window below 1, not {value}. For 5 % give '0.05'.",
            field="headroom",
            value=repr(value),
        )
    return fraction
