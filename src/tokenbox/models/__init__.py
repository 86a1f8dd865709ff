"""Resolution of a model's limits and counters, the only place that decides them.

The functions are pure: settings and answers of servers are arguments.
"""

from tokenbox.models.counters import Counters, Counting, counters_for, is_openai, names_model
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
    "is_openai",
    "names_model",
    "resolve",
    "resolve_figures",
    "source_text",
    "usable_of",
]
