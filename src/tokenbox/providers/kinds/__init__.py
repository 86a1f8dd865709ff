"""The kinds of server: those of this package, and those that installed packages provide.

Rule 1: each module of this package registers its kinds on import. To add a kind, add a file.
Rule 2: a package provides a kind by an entry point of the group ``tokenbox.providers``, named like the kind,
whose module calls :func:`~tokenbox.providers.kinds.kind.register_kind`. It is imported when the kind is first
used, or when a server must be detected.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from tokenbox.named_code import entry_points_of, load_registered
from tokenbox.providers.errors import InvalidTarget
from tokenbox.providers.kinds.kind import KINDS, ServerKind, register_kind

__all__ = [
    "AUTO",
    "ENTRY_POINTS",
    "UNKNOWN",
    "ServerKind",
    "all_kinds",
    "find_kind",
    "kind_names",
    "register_kind",
]

ENTRY_POINTS: Final = "tokenbox.providers"
# The kind to detect, and the kind of a server without any sign.
AUTO: Final = "auto"
UNKNOWN: Final = "openai-compatible"


def kind_names() -> tuple[str, ...]:
    """Return the sorted names of all kinds."""
    return tuple(sorted({*_own(), *KINDS, *entry_points_of(ENTRY_POINTS)}))


def find_kind(name: str) -> ServerKind:
    """Return the kind of that name. Raises :class:`InvalidTarget` if it is unknown or cannot be loaded."""
    kind = _own().get(name) or KINDS.get(name)
    kind = kind or load_registered(
        name, ENTRY_POINTS, KINDS, "kind of server", "register_kind(ServerKind(...))", InvalidTarget
    )
    if kind is None:
        raise InvalidTarget(
            f"there is no kind of server {name[:60]!r}. There are: {AUTO}, {', '.join(kind_names())}."
        )
    return kind


def all_kinds() -> tuple[ServerKind, ...]:
    """Return all kinds that can be loaded."""
    found = []
    for name in kind_names():
        try:
            found.append(find_kind(name))
        except InvalidTarget:
            continue
    return tuple(found)


@cache
def _own() -> Mapping[str, ServerKind]:
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return dict(KINDS)
