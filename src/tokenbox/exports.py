"""Public names of a package that are imported on first use, so that a part loads only what it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType


def on_first_use(
    package: str, modules: Mapping[str, str], parts: Mapping[str, str] = MappingProxyType({})
) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package. ``modules``: the public names of each module, as words.

    ``parts``: modules that are public themselves, by their names.
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def find(name: str) -> object:
        if name not in parts and name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{parts.get(name) or module_of[name]}")
        value = module if name in parts else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return find
