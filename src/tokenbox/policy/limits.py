"""The guard: how much of a window a request may take (nrv ADR 007, 5).

    denied iff tokens_in + reserve_out > max_ctx * (1 - headroom), or tokens_in > max_input

in exact arithmetic. As the left side is whole, that is the budget of layout.md: denied iff
``tokens_in > floor(max_ctx * (1 - headroom)) - reserve_out``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from tokenbox.content.section import MAX_INTEGER
from tokenbox.content.weight import exact_weight, weight_text
from tokenbox.policy.errors import InvalidPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request must keep to, in tokens.

    ``max_ctx`` holds input and output together; ``reserve_out`` stays free for the answer; ``headroom`` is
    the fraction of the window kept free as a margin; ``max_input`` is a limit of the input alone, if there is
    one. ``sources`` says, by the name of the field, where a figure comes from.
    """

    max_ctx: int
    reserve_out: int = 0
    headroom: Fraction = Fraction(0)
    max_input: int | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        max_ctx: object,
        reserve_out: object = 0,
        headroom: object = 0,
        max_input: object = None,
        sources: Mapping[str, str] | None = None,
    ) -> Limits:
        """The limits, checked. Raises :class:`InvalidPolicy`."""
        return cls(
            tokens(max_ctx, "max_ctx"),
            tokens(reserve_out, "reserve_out"),
            exact_headroom(headroom),
            None if max_input is None else tokens(max_input, "max_input"),
            dict(sources or {}),
        )

    @property
    def usable(self) -> int:
        """``floor(max_ctx * (1 - headroom))``: what input and output may take together."""
        return int(self.max_ctx * (1 - self.headroom))

    @property
    def window_room(self) -> int:
        """What the window leaves for the input; below 0 if the reserve alone is too large."""
        return self.usable - self.reserve_out

    @property
    def input_limit(self) -> int:
        """The most input that passes: the smallest limit wins. Below 0 if nothing does."""
        return self.window_room if self.max_input is None else min(self.window_room, self.max_input)

    @property
    def max_input_binds(self) -> bool:
        """Whether ``max_input`` is the smaller limit."""
        return self.max_input is not None and self.max_input < self.window_room

    def denies(self, tokens_in: int) -> bool:
        """The rule itself, as ADR 007 writes it."""
        over_window = tokens_in + self.reserve_out > self.max_ctx * (1 - self.headroom)
        return over_window or (self.max_input is not None and tokens_in > self.max_input)

    def largest_reserve(self, tokens_in: int) -> int:
        """The most output that may be reserved beside that input; below 0 if not even none."""
        return self.usable - tokens_in

    def smallest_window(self, tokens_in: int) -> int:
        """The smallest ``max_ctx`` that lets that input pass, all else being equal."""
        needed = Fraction(tokens_in + self.reserve_out) / (1 - self.headroom)
        return -(-needed.numerator // needed.denominator)

    def to_dict(self) -> dict[str, object]:
        return {
            "max_ctx": self.max_ctx,
            "reserve_out": self.reserve_out,
            "headroom": weight_text(self.headroom),
            "max_input": self.max_input,
            "usable": self.usable,
            "input_limit": self.input_limit,
            "sources": dict(self.sources),
        }


def tokens(value: object, name: str) -> int:
    """``value`` as a number of tokens. Raises :class:`InvalidPolicy`."""
    if type(value) is not int or not 0 <= value <= MAX_INTEGER:
        raise InvalidPolicy(
            f"{name} is a whole number of tokens, from 0 to {MAX_INTEGER:,}, not {value!r:.80}.",
            field=name,
            value=f"{value!r:.80}",
        )
    return value


def exact_headroom(value: object) -> Fraction:
    """``value`` as an exact fraction of the window, 0 <= headroom < 1. Raises :class:`InvalidPolicy`.

    A decimal string such as ``"0.05"``, a Decimal, a Fraction, 0, or a float by its shortest decimal form.
    """
    try:
        fraction = Fraction(exact_weight(value))
    except (TypeError, ValueError) as error:
        said = str(error).replace("a weight", "a headroom")
        raise InvalidPolicy(
            f"headroom is a decimal such as '0.05', not {value!r:.80}: {said:.160}.",
            field="headroom",
            value=f"{value!r:.80}",
        ) from None
    if fraction >= 1:
        raise InvalidPolicy(
            f"headroom is a fraction of the window below 1, not {value}. For 5 % give '0.05'.",
            field="headroom",
            value=repr(value),
        )
    return fraction
