"""Limits and prices of models, each with its source and date. No network is used.

    model("gpt-5").context_window     Figure(400000, "models.dev via ctxlen 2026.10.27.2", "2026-10-27")
    find("claude sonnet")             the models of that name, best first
    price("gpt-5", on=date.today())   dollars per million tokens, as Decimal; None is unpriced

Limits from the user's config or from a live server are passed as :class:`ModelLimits`, and override published
ones.
"""

from tokenbox.catalog.families import tokenizer_family
from tokenbox.catalog.figures import (
    Disagreement,
    Figure,
    FigureRule,
    Limit,
    ModelInfo,
    ModelLimits,
    TokenizerFamily,
)
from tokenbox.catalog.lookup import find, model, nearest
from tokenbox.catalog.prices import Price, PriceTier, price

__all__ = [
    "Disagreement",
    "Figure",
    "FigureRule",
    "Limit",
    "ModelInfo",
    "ModelLimits",
    "Price",
    "PriceTier",
    "TokenizerFamily",
    "find",
    "model",
    "nearest",
    "price",
    "tokenizer_family",
]
