"""The registry of renderers. A renderer is one module that registers itself, here or in another package.

Another package provides a renderer by an entry point of the group ``tokenbox.renderers`` with the renderer's
name. Its module calls :func:`register_renderer`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from tokenbox.errors import RenderError, shown
from tokenbox.named_code import entry_points_of, load_registered

if TYPE_CHECKING:
    from tokenbox.render.templates import Markup

ENTRY_POINTS: Final = "tokenbox.renderers"
BUILTIN: Final = ("xml", "markdown", "minimal")
"""The renderers of this package, each in the module of its name."""
RENDERERS: Final[dict[str, Markup]] = {}


def register_renderer(markup: Markup) -> None:
    """Register a renderer. Raises :class:`RenderError` if another one has the same name."""
    if RENDERERS.setdefault(markup.name, markup) is not markup:
        raise RenderError(f"there is already a renderer {markup.name!r}. Choose another name.")


def renderer_names() -> tuple[str, ...]:
    """Return the names of all renderers: the built-in ones, then the others, sorted."""
    others = {*RENDERERS, *entry_points_of(ENTRY_POINTS)}.difference(BUILTIN)
    return (*BUILTIN, *sorted(others))


def find_renderer(name: str) -> Markup:
    """Return the renderer of that name. Raises :class:`RenderError` if no renderer has that name."""
    if not isinstance(name, str):
        raise RenderError(f"mode is one of {', '.join(renderer_names())}, not {shown(name)}.")
    if name not in RENDERERS:
        if name in BUILTIN:
            import_module(f"tokenbox.render.{name}")
        else:
            call = "register_renderer(...)"
            load_registered(name, ENTRY_POINTS, RENDERERS, "renderer", call, RenderError)
    markup = RENDERERS.get(name)
    if markup is None:
        raise RenderError(f"mode is one of {', '.join(renderer_names())}, not {name!r}.")
    return markup
