"""The inspector: an offline HTML page that shows what a request contains (docs/inspect.md)."""

from tokenbox.inspect.entries import entry_of
from tokenbox.inspect.page import page, picture, slider
from tokenbox.inspect.record import SCHEMA, NothingToInspect, PageEntry, PageTooLarge, record_of

__all__ = [
    "SCHEMA",
    "NothingToInspect",
    "PageEntry",
    "PageTooLarge",
    "entry_of",
    "page",
    "picture",
    "record_of",
    "slider",
]
