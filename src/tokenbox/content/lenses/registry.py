"""Which lenses there are: the built-in ones and those a user registers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.content.lenses.builtin import BUILTIN
from tokenbox.content.lenses.lens import Lens, LensKind, Parameter, Value
from tokenbox.errors import DuplicateLens, LensError
from tokenbox.tokenizers.protocol import AdditiveTokenizer, TokenizerIdentity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tokenbox.tokenizers.protocol import Tokenizer

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_RESERVED = ("true", "false")
_KINDS: dict[str, LensKind] = {kind.name: kind for kind in BUILTIN}

# What a lens that works on any text must survive: nothing, blanks, line ends of all sorts, marks, lone
# surrogates, NUL.
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


class _Utf8Length(AdditiveTokenizer):
    """Counts UTF-8 bytes of any text. Only there so that a counting lens can be tried out."""

    @property
    def identity(self) -> TokenizerIdentity:
        return TokenizerIdentity("probe", "1", "", exact=True)

    def weigh(self, text: str) -> int:
        return len(text.encode("utf-8", "surrogatepass"))

    def count_of(self, weight: int) -> int:
        return weight


@dataclass(frozen=True, slots=True)
class LensDescription:
    """One line of a listing: how a lens is written, and what it does."""

    name: str
    version: str
    takes: str
    description: str
    example: str
    builtin: bool

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "version": self.version,
            "takes": self.takes,
            "description": self.description,
            "example": self.example,
            "builtin": self.builtin,
        }


def lens_names() -> tuple[str, ...]:
    """The names of all lenses, sorted."""
    return tuple(sorted(_KINDS))


def describe() -> tuple[LensDescription, ...]:
    """All lenses, sorted by name."""
    return tuple(
        LensDescription(kind.name, kind.version, kind.takes, kind.description, kind.example, kind.builtin)
        for kind in (_KINDS[name] for name in lens_names())
    )


def find_kind(name: str) -> LensKind | None:
    """The lens of that name before its arguments are known; None if there is none."""
    return _KINDS.get(name)


def register_lens(
    name: str,
    function: Callable[..., str],
    *,
    version: str,
    arguments: Mapping[str, type | Value] | None = None,
    counts: bool = False,
    description: str = "",
) -> None:
    """Make ``function`` a lens of that name, for this process.

    ``function(text, **arguments) -> str``, or with ``counts`` ``function(text, tokenizer, **arguments)``.
    ``arguments`` maps the name of each argument to its type (``int``, ``str`` or ``bool``: it must be given)
    or to its default. The function must be pure, work on any text, and leave its own results unchanged. It is
    tried on a few texts, here or, if it has arguments that must be given, when a pipeline uses it.

    Raises ``DuplicateLens`` for a name that is taken; ``LensError`` for a bad name, version or argument, and
    for a function that fails a trial.
    """
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise LensError(
            f"a lens is named by a word of letters, digits, '_' and '-', not {name!r}.", lens=str(name)
        )
    if name in _KINDS:
        raise DuplicateLens(
            f"a lens called {name!r} is there already (version {_KINDS[name].version}). Choose another name.",
            lens=name,
        )
    if type(version) is not str or not version:
        raise LensError(f"the lens {name!r} needs a version such as '1', not {version!r}.", lens=name)
    if not callable(function):
        raise LensError(f"the lens {name!r} needs a function from text to text, not {function!r}.", lens=name)
    parameters = tuple(_parameter(name, key, what) for key, what in (arguments or {}).items())
    kind = LensKind(
        name,
        version,
        _builder(name, version, function, counts=counts),
        parameters,
        description=description,
        example=name if all(p.default is not None for p in parameters) else "",
        builtin=False,
    )
    if all(p.default is not None for p in parameters):
        kind.make({})
    # setdefault, so that of two threads registering one name only one succeeds
    if _KINDS.setdefault(name, kind) is not kind:
        raise DuplicateLens(f"a lens called {name!r} is there already. Choose another name.", lens=name)


def _parameter(lens: str, name: str, what: type | Value) -> Parameter:
    if not _NAME.fullmatch(name) or "-" in name or name in _RESERVED:
        raise LensError(f"the lens {lens!r}: an argument cannot be called {name!r}.", lens=lens)
    least = -(2**53) + 1
    if isinstance(what, type):
        if what not in (int, str, bool):
            raise LensError(f"the lens {lens!r}: {name} is int, str or bool, not {what.__name__}.", lens=lens)
        return Parameter(name, what, least=least)
    if type(what) not in (int, str, bool):
        raise LensError(
            f"the lens {lens!r}: {name} is a number, a text or a boolean, not {what!r}.", lens=lens
        )
    return Parameter(name, type(what), default=what, least=least)


def _builder(
    name: str, version: str, function: Callable[..., str], *, counts: bool
) -> Callable[..., Callable[[str, Tokenizer], str]]:
    def build(**arguments: Value) -> Callable[[str, Tokenizer], str]:
        def apply(text: str, tokenizer: Tokenizer) -> str:
            return function(text, tokenizer, **arguments) if counts else function(text, **arguments)

        _try_out(Lens(name, version, tuple(arguments.items()), builtin=False, _function=apply))
        return apply

    return build


def _try_out(lens: Lens) -> None:
    tokenizer = _Utf8Length()
    for text in _PROBES:
        first, second = lens.apply(text, tokenizer), lens.apply(text, tokenizer)
        if first != second:
            raise LensError(
                f"the lens {lens} gives two results for one text: {first!r} and {second!r} for {text!r}. "
                "A lens depends on nothing but its text and arguments.",
                lens=str(lens),
            )
        if lens.apply(first, tokenizer) != first:
            raise LensError(
                f"the lens {lens} changes its own result: {first!r}, of {text!r}, becomes "
                f"{lens.apply(first, tokenizer)!r}. Twice must be the same as once.",
                lens=str(lens),
            )
