"""The resolver of a model's limits, their sources, and its counters.

The call overrides the settings, which override the model's server, which overrides the catalog. Settings and
answers of servers are arguments: the resolver performs no I/O.

    use = resolve("gpt-4o", settings=Stated(output_reserve=Figure(2_000, "tokenbox.toml:3")))
    use.context_window, use.sources["context_window"]      128000, "models.dev via ctxlen 2026.10.27.2, ..."
    use.counter.count_request(request)                     Count(total, exact, at_most, by)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from tokenbox import catalog
from tokenbox.catalog import Figure, FigureRule, Limit, ModelLimits, TokenizerFamily
from tokenbox.catalog.figures import Disagreement
from tokenbox.models.counters import ANYONE, Counting, counters_for

if TYPE_CHECKING:
    from tokenbox.compose.requests import RequestCounter
    from tokenbox.tokenizers.protocol import Tokenizer


class OutputMode(StrEnum):
    """The use of the answer. It determines the default output reserve: truncated JSON is worthless."""

    TEXT = "text"
    JSON = "json"
    STREAM = "stream"


DEFAULT_SHARES: Final[Mapping[OutputMode, int]] = {
    OutputMode.TEXT: 4,
    OutputMode.STREAM: 4,
    OutputMode.JSON: 2,
}
"""The default output reserve is the model's maximum output, but at most 1/N of the usable window."""

NO_LIMITS: Final = ModelLimits()


@dataclass(frozen=True, slots=True)
class Stated:
    """The limits of a model that the call or the settings state. None: not stated.

    ``context_window`` overrides other sources. ``window_cap`` is an upper bound for any model's window: it
    lowers the figure of the server or the catalog, and is used if both are unknown.
    """

    context_window: Figure | None = None
    max_input: Figure | None = None
    max_output: Figure | None = None
    output_reserve: Figure | None = None
    window_cap: Figure | None = None
    headroom: tuple[Fraction, str] | None = None
    """The share of the window to keep free, and its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFigures:
    """The limits of requests to a model, in tokens. None is unknown, and never 0.

    ``sources``: the source of each figure, by field name. ``output_reserve`` is None only if the context
    window is unknown and no reserve is stated.
    """

    model: str | None
    context_window: int | None
    max_input: int | None
    max_output: int | None
    output_reserve: int | None
    headroom: Fraction = Fraction(0)
    family: TokenizerFamily | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    disagreements: tuple[Disagreement, ...] = ()

    @property
    def usable(self) -> int | None:
        """The limit of input and output together: the window less its headroom, rounded down."""
        return None if self.context_window is None else usable_of(self.context_window, self.headroom)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse(ModelFigures):
    """The limits and counters of a model.

    ``counter``: counts whole requests. ``tokenizer``: counts texts. ``exact``: the counter is proven to count
    like the model's server, so the server needs not be asked.
    """

    counter: RequestCounter
    tokenizer: Tokenizer | None
    exact: bool


def resolve(
    model: str | None,
    *,
    call: Stated = Stated(),  # frozen
    settings: Stated = Stated(),  # frozen
    server: ModelLimits = NO_LIMITS,
    corrections: Mapping[str, ModelLimits] | None = None,
    counting: Counting = ANYONE,
    mode: OutputMode = OutputMode.TEXT,
) -> ModelUse:
    """Resolve the limits and counters of a model. See :func:`resolve_figures` and :func:`counters_for`.

    Raises ``NoTokenizer``, or the error of the named tokenizer.
    """
    counters = counters_for(model, counting)
    figures = resolve_figures(
        model, call=call, settings=settings, server=server, corrections=corrections, mode=mode
    )
    return ModelUse(
        **{one.name: getattr(figures, one.name) for one in fields(ModelFigures)},
        counter=counters.counter,
        tokenizer=counters.tokenizer,
        exact=counters.exact,
    )


def resolve_figures(
    model: str | None,
    *,
    call: Stated = Stated(),  # frozen
    settings: Stated = Stated(),  # frozen
    server: ModelLimits = NO_LIMITS,
    corrections: Mapping[str, ModelLimits] | None = None,
    mode: OutputMode = OutputMode.TEXT,
) -> ModelFigures:
    """Resolve the limits of a model, each with its source.

    ``server``: the limits that the model's server reports, with a date if they were saved. ``corrections``:
    the operator's corrections of the catalog, by model. A window smaller than the maximum input is reported
    as a disagreement; both limits apply.
    """
    known = (
        None if model is None else catalog.model(model, configured=corrections, discovered={model: server})
    )
    found, disagreements = _limits(known, call, settings)
    if call.context_window is None and settings.context_window is None:
        window = found["context_window"] or (None if known is None else known.window)
        found["context_window"] = _capped(window, call, settings)
    context_window = _value(found["context_window"])
    sources = {name: source_text(figure) for name, figure in found.items() if figure is not None}
    headroom, sources["headroom"] = call.headroom or settings.headroom or (Fraction(0), "default")
    reserve = call.output_reserve or settings.output_reserve
    if reserve is None and context_window is not None:
        reserve = default_reserve(found["max_output"], context_window, headroom, mode)
    if reserve is not None:
        sources["output_reserve"] = source_text(reserve)
    return ModelFigures(
        model=model,
        context_window=context_window,
        max_input=_value(found["max_input"]),
        max_output=_value(found["max_output"]),
        output_reserve=_value(reserve),
        headroom=headroom,
        family=None if known is None else known.tokenizer,
        sources=sources,
        disagreements=disagreements,
    )


def _limits(
    known: catalog.ModelInfo | None, call: Stated, settings: Stated
) -> tuple[dict[str, Figure | None], tuple[Disagreement, ...]]:
    """Return each limit, the stated one or else the known one, and the disagreements between sources."""
    found: dict[str, Figure | None] = {}
    disagreements = [] if known is None else list(known.disagreements)
    for name, limit in _LIMITS.items():
        stated = [figure for one in (call, settings) if (figure := getattr(one, name)) is not None]
        other = None if known is None else known.figure(limit)
        found[name] = stated[0] if stated else other
        if stated and any(figure.value != stated[0].value for figure in (*stated[1:], other) if figure):
            disagreements = [one for one in disagreements if one.limit is not limit]
            disagreements.append(_overruled(limit, stated, other, known))
    return found, tuple(disagreements)


_LIMITS: Final[Mapping[str, Limit]] = {
    "context_window": Limit.CONTEXT_WINDOW,
    "max_input": Limit.MAX_INPUT_TOKENS,
    "max_output": Limit.MAX_OUTPUT_TOKENS,
}


def usable_of(window: int, headroom: Fraction) -> int:
    """Return the window less its headroom, rounded down."""
    part = headroom.denominator - headroom.numerator
    return window * part // headroom.denominator


def source_text(figure: Figure) -> str:
    """Return the source of a figure with its date."""
    return figure.source if figure.date is None else f"{figure.source}, {figure.date}"


def _overruled(
    limit: Limit, stated: list[Figure], other: Figure | None, known: catalog.ModelInfo | None
) -> Disagreement:
    """Return the disagreement of a stated figure with all other sources."""
    chosen = stated[0]
    figures = [*stated[1:], *([] if other is None else [other])]
    if known is not None:
        figures += [figure for one in known.disagreements if one.limit is limit for figure in one.others]
    others = tuple(dict.fromkeys(figure for figure in figures if figure.value not in (chosen.value, None)))
    return Disagreement(limit, FigureRule.CONFIGURED, chosen, others)


def _capped(known: Figure | None, call: Stated, settings: Stated) -> Figure | None:
    """Return the model's window, at most the cap; the cap if the window is unknown."""
    cap = call.window_cap or settings.window_cap
    if cap is None or cap.value is None:
        return known
    if known is None or known.value is None:
        return cap
    return cap if cap.value < known.value else known


def default_reserve(longest: Figure | None, window: int, headroom: Fraction, mode: OutputMode) -> Figure:
    """Return the output reserve that nobody stated: the longest answer, but at most a share of the window."""
    share = usable_of(window, headroom) // DEFAULT_SHARES[mode]
    if longest is not None and longest.value is not None and longest.value <= share:
        return Figure(longest.value, f"{_LONGEST_ANSWER}, {source_text(longest)}")
    return Figure(share, f"{_DEFAULT_SHARE} {DEFAULT_SHARES[mode]} of the usable window")


def is_default_reserve(source: str | None) -> bool:
    """Return whether the source of a reserve is that of :func:`default_reserve`."""
    return source is not None and source.startswith((f"{_LONGEST_ANSWER}, ", f"{_DEFAULT_SHARE} "))


# The sources of an output reserve: the request, and for a reserve that nobody stated the default rule.
REQUESTED_RESERVE: Final = "max_tokens of the request"
_LONGEST_ANSWER: Final = "the model's longest answer"
_DEFAULT_SHARE: Final = "default: 1 in"


def _value(figure: Figure | None) -> int | None:
    return None if figure is None else figure.value
