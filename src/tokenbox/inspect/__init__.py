"""The inspector: what a request is made of, as one HTML file that works offline (docs/inspect.md)."""

from tokenbox.inspect.entries import entry_of
from tokenbox.inspect.page import page
from tokenbox.inspect.record import SCHEMA, NothingToInspect, PageEntry, PageTooLarge, record_of
from tokenbox.inspect.widget import slider

__all__ = [
    "SCHEMA",
    "NothingToInspect",
    "PageEntry",
    "PageTooLarge",
    "entry_of",
    "page",
    "record_of",
    "slider",
]
