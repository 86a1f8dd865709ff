"""Code that is named: ``module:function``, or an entry point of an installed package.

A name may come from a project's file, a document, a bundle or a request, and so from somebody else. Rule: an
entry point is loaded, because installing its package was the user's choice; ``module:function`` is imported
only once somebody who may choose code allowed that very name, with :func:`allow`. These are options on the
command line, the user's own settings and environment, ``code.allowed``, and callers in Python.
"""

from __future__ import annotations

import re
import sys
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Final

from tokenbox.errors import CodeNotAllowed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenbox.errors import TokenboxError

_NAMED: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_allowed: set[str] = set()


def is_code(name: object) -> bool:
    """Whether ``name`` is a ``module:function``. A ``file:PATH`` with a suffix is none: ``file`` is taken."""
    return isinstance(name, str) and not name.startswith("file:") and _NAMED.fullmatch(name) is not None


def allow(*names: object, folder: str | None = None) -> None:
    """Let these names be imported in this process; names that are no ``module:function`` are passed over.

    ``folder``: where their modules may be, beside ``PYTHONPATH``.
    """
    given = {str(name) for name in names if is_code(name)}
    _allowed.update(given)
    if given and folder is not None and folder not in sys.path:
        sys.path.insert(0, folder)


def allowed() -> frozenset[str]:
    """The names that may be imported in this process, for one that works for it."""
    return frozenset(_allowed)


def load(name: str, group: str, failed: Callable[[str], TokenboxError]) -> object | None:
    """What the name stands for: an object of a module, or an entry point of ``group``; None if there is none.

    Raises :class:`CodeNotAllowed`, and what ``failed`` makes of a message where it cannot be imported.
    """
    if is_code(name) and name not in _allowed:
        raise CodeNotAllowed.of(name)
    try:
        if is_code(name):
            module, _, path = name.partition(":")
            return reduce(getattr, path.split("."), import_module(module))
        from importlib.metadata import entry_points  # noqa: PLC0415  # 20 ms, for a name that is not built in

        return next((point.load() for point in entry_points(group=group, name=name)), None)
    except Exception as error:
        raise failed(
            f"{name} cannot be imported: {type(error).__name__}: {error}. Is its folder on PYTHONPATH?"
        ) from error
