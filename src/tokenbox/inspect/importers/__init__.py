"""Importers for the logs of other tools. Each module recognizes its files and reads the requests in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tokenbox.inspect.importers import claude_code, codex, lhar, request_log, traces

if TYPE_CHECKING:
    from types import ModuleType

    from tokenbox.inspect.importers.transcript import Record, Transcript

# In the order of recognition. Each has ``NAME``, ``is_own(record)`` and ``read(records)``.
IMPORTERS: Final[tuple[ModuleType, ...]] = (lhar, claude_code, codex, traces, request_log)
# The records by which a file is recognized.
_FIRST: Final = 200


def imported(records: list[Record]) -> list[Transcript] | None:
    """Return the requests in the records of a log, or None if no importer recognizes them."""
    for importer in IMPORTERS:
        if any(map(importer.is_own, records[:_FIRST])):
            found: list[Transcript] = importer.read(records)
            return found
    return None


def names() -> list[str]:
    """Return the names of the formats, for a message."""
    return [str(importer.NAME) for importer in IMPORTERS]
