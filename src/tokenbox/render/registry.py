"""The renderers by name. A renderer is one file that registers itself, here or in somebody's package.

A package offers one by an entry point of the group ``tokenbox.renderers``, whose name is the renderer's and
whose module calls :func:`register_renderer`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from tokenbox.errors import RenderError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint

    from tokenbox.render.markup import Markup

ENTRY_POINTS: Final = "tokenbox.renderers"
BUILTIN: Final = ("xml", "markdown", "minimal")
"""The renderers of this package, each in the module of its name."""
RENDERERS: Final[dict[str, Markup]] = {}


def register_renderer(markup: Markup) -> None:
    """Make a renderer known by its name. Raises :class:`RenderError` if another one has it."""
    if RENDERERS.setdefault(markup.name, markup) is not markup:
        raise RenderError(f"there is a renderer {markup.name!r} already. Give this one another name.")


def renderer_names() -> tuple[str, ...]:
    """The names of all renderers: those of this package, then of others, sorted."""
    others = {*RENDERERS, *_offered()}.difference(BUILTIN)
    return (*BUILTIN, *sorted(others))


def find_renderer(name: str) -> Markup:
    """The renderer of that name. Raises :class:`RenderError`."""
    if name not in RENDERERS:
        if name in BUILTIN:
            import_module(f"tokenbox.render.{name}")
        elif name in _offered():
            _load(_offered()[name])
    markup = RENDERERS.get(name)
    if markup is None:
        raise RenderError(f"mode is one of {', '.join(renderer_names())}, not {name!r}.")
    return markup


def _load(point: EntryPoint) -> None:
    try:
        point.load()
    except Exception as error:
        raise RenderError(
            f"the renderer {point.name!r} of {point.value} cannot be loaded "
            f"({type(error).__name__}: {error}). Update or remove the package that offers it."
        ) from error


@cache
def _offered() -> Mapping[str, EntryPoint]:
    """The renderers that installed packages offer."""
    from importlib.metadata import entry_points  # noqa: PLC0415  # 20 ms, for a name that is not built in

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}
