"""Relevance without a model: the worth of a text to a query, by its words and by references to it.

All functions are pure: bytes and strings in, fixed-point integers out, the same on every platform. ``SCALE``
stands for 1.
"""

from tokenbox.worth.fixed import SCALE
from tokenbox.worth.query import Query, Word, read_query

__all__ = ["SCALE", "Query", "Word", "read_query"]
