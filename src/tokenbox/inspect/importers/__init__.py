"""Importers of what other tools log. Each is one file: whether a file is its own, and the requests in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tokenbox.inspect.importers import claude_code, codex, lhar, request_log

if TYPE_CHECKING:
    from types import ModuleType

    from tokenbox.inspect.importers.transcript import Record, Transcript

# In the order in which they are asked. Each has ``NAME``, ``is_own(records)`` and ``read(records)``.
IMPORTERS: Final[tuple[ModuleType, ...]] = (lhar, claude_code, codex, request_log)


def imported(records: list[Record]) -> list[Transcript] | None:
    """The requests in the records of a log; None where no importer knows them."""
    for importer in IMPORTERS:
        if importer.is_own(records):
            found: list[Transcript] = importer.read(records)
            return found
    return None


def names() -> list[str]:
    """What can be imported, for a message."""
    return [str(importer.NAME) for importer in IMPORTERS]
