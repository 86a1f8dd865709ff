"""Loading of code by name: ``module:function``, or an entry point of an installed package.

A name may come from a project file, a document, a bundle or a request, and so from somebody else. Rule: an
entry point is always loaded, because the user chose to install its package. ``module:function`` is imported
only after :func:`allow` was called with that name. Command-line options, the user's settings and environment,
``code.allowed`` and Python callers may call it.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, reduce
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeVar

from tokenbox.errors import CodeNotAllowed, TokenboxError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


T = TypeVar("T")

_MODULE_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_allowed: set[str] = set()
_own_entries: tuple[str, ...] = ()


def is_code(name: object) -> bool:
    """Return whether ``name`` is a ``module:function``. ``file:PATH`` names a vocabulary, not code."""
    return (
        isinstance(name, str)
        and not name.startswith("file:")
        and _MODULE_FUNCTION.fullmatch(name) is not None
    )


def name_of(code: object) -> str:
    """Return ``module:name`` of a function, or of the class of a callable object."""
    named = code if hasattr(code, "__qualname__") else type(code)
    return f"{getattr(named, '__module__', '?')}:{getattr(named, '__qualname__', '?')}"


def allow(*names: object, folder: str | None = None) -> None:
    """Allow this process to import these names. A name that is not a ``module:function`` is ignored.

    ``folder``: a folder to search for their modules, in addition to ``PYTHONPATH``.
    """
    given = {str(name) for name in names if is_code(name)}
    _allowed.update(given)
    if given and folder is not None and folder not in sys.path:
        sys.path.insert(0, folder)


def allow_entries(entries: Sequence[str]) -> None:
    """Allow the entries of the user's own ``code.allowed``. An error suggests to add to them."""
    global _own_entries  # noqa: PLW0603  # of this process, as the names that it may import
    _own_entries = tuple(entries)
    allow(*entries)


def allowed() -> frozenset[str]:
    """Return the names that this process may import, to pass them on to a worker process."""
    return frozenset(_allowed)


def meant(name: str, known: Collection[str]) -> str:
    """Return a sentence with the known name that was probably meant, or else with all of them."""
    near = difflib.get_close_matches(name, known, 1)
    return f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}."


@cache
def entry_points_of(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group in installed packages, by name."""
    from importlib.metadata import entry_points  # 20 ms, for a name that is not built in

    return {point.name: point for point in entry_points(group=group)}


def load_registered(
    name: str,
    group: str,
    registry: Mapping[str, T],
    what: str,
    call: str,
    error: type[TokenboxError],
    **details: object,
) -> T | None:
    """Return what an installed package registers by ``name``; None if no package provides that.

    ``what``: the kind of thing, in words. ``call``: how a package registers it. Raises an ``error``.
    """
    point = entry_points_of(group).get(name)
    if point is None:
        return None
    try:
        point.load()
    except error:
        raise
    except Exception as cause:
        raise error(
            f"the {what} {name!r} of {point.value} cannot be loaded: {type(cause).__name__}: {cause}. "
            "Update or remove the package that provides it.",
            **details,
        ) from cause
    if name not in registry:
        raise error(
            f"{point.value} provides a {what} {name!r} but does not register it. "
            f"Its module must call {call}.",
            **details,
        )
    return registry[name]


def load(name: str, group: str, failed: Callable[[str], TokenboxError]) -> object | None:
    """Import the object that ``name`` refers to, or load the entry point of ``group``; None if unknown.

    Raises :class:`CodeNotAllowed`, and ``failed(message)`` if the import fails.
    """
    if is_code(name) and name not in _allowed:
        raise CodeNotAllowed.of(name, _own_entries)
    try:
        if is_code(name):
            module, _, path = name.partition(":")
            return reduce(getattr, path.split("."), import_module(module))
        from importlib.metadata import entry_points  # 20 ms, for a name that is not built in

        return next((point.load() for point in entry_points(group=group, name=name)), None)
    except (Exception, SystemExit) as error:
        raise failed(
            f"{name} cannot be imported: {type(error).__name__}: {error}. Is its folder on PYTHONPATH?"
        ) from error
