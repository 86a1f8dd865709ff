"""What holds for a request to a model: how much it may take, who says so, and who counts it.

Pure: settings and what servers said come in as values. Everything that resolves a model asks here.
"""

from tokenbox.models.counters import Counters, Counting, counters_for, names_model
from tokenbox.models.resolve import (
    DEFAULT_SHARES,
    NO_LIMITS,
    ModelFigures,
    ModelUse,
    OutputMode,
    Stated,
    resolve,
    resolve_figures,
    source_text,
    usable_of,
)

__all__ = [
    "DEFAULT_SHARES",
    "NO_LIMITS",
    "Counters",
    "Counting",
    "ModelFigures",
    "ModelUse",
    "OutputMode",
    "Stated",
    "counters_for",
    "names_model",
    "resolve",
    "resolve_figures",
    "source_text",
    "usable_of",
]
