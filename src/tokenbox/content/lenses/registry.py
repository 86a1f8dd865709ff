"""The registry of lenses: built in, from installed packages, and registered by the program.

Rule 1: each module of this package registers its own lenses on import; to add one, add a file.
Rule 2: another package provides a lens by an entry point of the group ``tokenbox.lenses``, named like the
lens. Its module calls :func:`register_lens`, and is imported when a pipeline first uses that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from tokenbox.content.lenses.lens import KINDS, Lens, LensKind, Parameter, Value, register
from tokenbox.errors import DuplicateLens, LensError
from tokenbox.named_code import entry_points_of, load_registered
from tokenbox.tokenizers.utf8 import Utf8Bytes

if TYPE_CHECKING:
    from tokenbox.content.lenses.lens import Apply
    from tokenbox.tokenizers.protocol import Tokenizer

ENTRY_POINTS = "tokenbox.lenses"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_RESERVED = ("true", "false")

# Texts for the trial of a lens: empty, blank, with all kinds of line ends, markup, combining marks, NUL and a
# lone surrogate.
_PROBES = (
    "",
    " ",
    "\n",
    "a\r\nb\rc\n\n",
    "# T\n\n* x: `y`\n",
    '{"a": [1, 2.0]}',
    "e\u0301 \u0301\U0001f468\u200d\U0001f469",
    "\x00\ud800 x",
)


class _Utf8Length(Utf8Bytes):
    """Counts any text, for the trial of a lens that counts tokens."""

    def weigh(self, text: str) -> int:
        return len(text.encode("utf-8", "surrogatepass"))


def lens_names() -> tuple[str, ...]:
    """Return the names of all lenses, sorted."""
    return tuple(sorted({*_builtin_kinds(), *KINDS, *entry_points_of(ENTRY_POINTS)}))


def describe() -> tuple[LensKind, ...]:
    """Return all lenses, sorted by name. Raises ``LensError`` if a package's lens cannot be loaded."""
    kinds = (find_kind(name) for name in lens_names())
    return tuple(kind for kind in kinds if kind is not None)


def find_kind(name: str) -> LensKind | None:
    """Return the lens of that name, without arguments; None if no lens has that name."""
    kind = _builtin_kinds().get(name) or KINDS.get(name)
    call = f"register_lens({name!r}, ...)"
    return kind or load_registered(name, ENTRY_POINTS, KINDS, "lens", call, LensError, lens=name)


@cache
def _builtin_kinds() -> Mapping[str, LensKind]:
    """Import the modules of this package and return the built-in lenses."""
    package = __name__.rpartition(".")[0]
    for module in iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")
    return {name: kind for name, kind in KINDS.items() if kind.builtin}


def register_lens(
    name: str,
    function: Callable[..., str],
    *,
    version: str,
    arguments: Mapping[str, type | Value] | None = None,
    counts: bool = False,
    description: str = "",
) -> None:
    """Register ``function`` as a lens for this process.

    ``function(text, **arguments) -> str``, or with ``counts`` ``function(text, tokenizer, **arguments)``.
    ``arguments`` maps the name of each argument to its type (``int``, ``str`` or ``bool``) if it is required,
    or to its default. The function must be pure and idempotent, and accept any text. It is tried on a few
    texts: here, or, if it has required arguments, when a pipeline uses it.

    Raises ``DuplicateLens`` for a registered name; ``LensError`` for an invalid name, version or argument,
    and for a function that fails the trial.
    """
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise LensError(
            f"a lens is named by a word of letters, digits, '_' and '-', not {name!r}.", lens=str(name)
        )
    if (existing := _builtin_kinds().get(name) or KINDS.get(name)) is not None:
        raise DuplicateLens.of(name, existing.version)
    if type(version) is not str or not version:
        raise LensError(f"the lens {name!r} needs a version such as '1', not {version!r}.", lens=name)
    if not callable(function):
        raise LensError(f"the lens {name!r} needs a function from text to text, not {function!r}.", lens=name)
    parameters = tuple(_parameter(name, key, what) for key, what in (arguments or {}).items())
    build = _builder(name, version, function, counts=counts)
    needs_none = all(parameter.default is not None for parameter in parameters)
    example = name if needs_none else ""
    kind = LensKind(name, version, build, parameters, "", description, example, builtin=False)
    if needs_none:
        kind.make({})
    register(kind)


def _parameter(lens: str, name: str, what: type | Value) -> Parameter:
    if not _NAME.fullmatch(name) or "-" in name or name in _RESERVED:
        raise LensError(f"the lens {lens!r}: an argument cannot be called {name!r}.", lens=lens)
    least = -(2**53) + 1
    kind, default = (what, None) if isinstance(what, type) else (type(what), what)
    if kind not in (int, str, bool):
        raise LensError(f"the lens {lens!r}: {name} is int, str or bool, not {kind.__name__}.", lens=lens)
    return Parameter(name, kind, default, least=least)


def _builder(name: str, version: str, function: Callable[..., str], *, counts: bool) -> Callable[..., Apply]:
    def build(**arguments: Value) -> Apply:
        def apply(text: str, tokenizer: Tokenizer) -> str:
            return function(text, tokenizer, **arguments) if counts else function(text, **arguments)

        _try_out(Lens(name, version, tuple(arguments.items()), builtin=False, _function=apply))
        return apply

    return build


def _try_out(lens: Lens) -> None:
    tokenizer = _Utf8Length()
    for text in _PROBES:
        first, second = lens.apply(text, tokenizer), lens.apply(text, tokenizer)
        problem = None
        if first != second:
            problem = (
                f"has two results for one text: {first!r} and {second!r} for {text!r}. "
                "A lens may depend only on its text and arguments."
            )
        elif (again := lens.apply(first, tokenizer)) != first:
            problem = (
                f"changes its own result: {first!r}, from {text!r}, becomes {again!r}. "
                "A lens must be idempotent."
            )
        if problem is not None:
            raise LensError(f"the lens {lens} {problem}", lens=str(lens))
