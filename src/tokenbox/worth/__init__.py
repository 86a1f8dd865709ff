"""Relevance without a model: how much a text is worth, by its words and by who refers to it.

All of it is pure: bytes and strings in, integers out, and the same on every platform. ``SCALE`` is 1.
"""

from tokenbox.worth.fixed import SCALE
from tokenbox.worth.query import Query, Word, read_query

__all__ = ["SCALE", "Query", "Word", "read_query"]
