"""Strategies of the user's own: installed under an entry point, or named as ``module:function``."""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Final, cast

from tokenbox.policy.errors import StrategyFailed, UnknownStrategy
from tokenbox.policy.packing import STRATEGY_NAMES

if TYPE_CHECKING:
    from tokenbox.policy.strategies import Strategy

GROUP: Final = "tokenbox.strategies"


def strategy_of(value: object) -> str | Strategy | None:
    """The strategy that ``value`` is or names: ours, an entry point's, ``module:function``, or a callable.

    Raises :class:`UnknownStrategy`, and :class:`StrategyFailed` (with its cause) where it cannot be imported.
    """
    if value is None or (isinstance(value, str) and value in STRATEGY_NAMES):
        return value
    if callable(value):
        return cast("Strategy", value)
    if not isinstance(value, str):
        raise UnknownStrategy(
            f"a strategy is {', '.join(STRATEGY_NAMES)}, a function, an entry point of {GROUP} or "
            f"'module:function', not {value!r}."
        )
    found = _imported(value) if ":" in value else _installed(value)
    if not callable(found):
        raise UnknownStrategy(f"{value} is no function, but {type(found).__name__}.", strategy=value)
    return cast("Strategy", found)


def _imported(spec: str) -> object:
    module, _, path = spec.partition(":")
    try:
        found: object = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise StrategyFailed(
            f"the strategy {spec} cannot be imported: {type(error).__name__}: {error}. Is its folder on "
            "PYTHONPATH?",
            strategy=spec,
        ) from error
    return found


def _installed(name: str) -> object:
    from importlib.metadata import entry_points  # noqa: PLC0415  # slow, and only for a name not ours

    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        names = [*STRATEGY_NAMES, *sorted(points)]
        near = difflib.get_close_matches(name, names, 1)
        hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(names)}."
        raise UnknownStrategy(
            f"no strategy is called {name!r}. {hint} A function of yours is named as module:function.",
            strategy=name,
        )
    try:
        return cast("object", points[name].load())
    except Exception as error:
        raise StrategyFailed(
            f"the strategy {name} ({points[name].value}) fails on import: {type(error).__name__}: {error}.",
            strategy=name,
        ) from error
