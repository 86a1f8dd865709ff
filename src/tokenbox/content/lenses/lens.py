"""What a lens is: a named, versioned, pure function on text, with its arguments filled in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tokenbox.errors import DuplicateLens, LensError, TokenboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tokenbox.tokenizers.protocol import Tokenizer

    Apply = Callable[[str, Tokenizer], str]

Value = int | str | bool
"""What an argument of a lens can be."""

# More digits than this say nothing about a text, and Python refuses to print numbers of thousands of digits.
LARGEST_INTEGER = 2**53 - 1

_KIND_NAMES = {int: "a whole number", str: "a quoted text", bool: "true or false"}
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNPRINTABLE = re.compile(r'[\\"\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff]')


class ArgumentProblem(Exception):  # caught by the parser, which knows the place; never seen outside
    """An argument has no sense. ``parameter`` names it; None: the call as a whole."""

    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument a lens takes. ``default`` is left out for an argument without which it cannot be built.

    ``least`` is the smallest number allowed. ``keyword_only`` arguments must be named. ``optional``
    arguments without a default are simply absent.
    """

    name: str
    kind: type[int | str | bool]
    default: Value | None = None
    optional: bool = False
    keyword_only: bool = False
    least: int = 0

    def check(self, value: Value) -> None:
        """Raise :class:`ArgumentProblem` unless ``value`` is of the right type and range."""
        if type(value) is not self.kind:
            got = f"{_KIND_NAMES[type(value)]} ({spell(value)})"
            raise ArgumentProblem(f"{self.name} is {_KIND_NAMES[self.kind]}, not {got}", self.name)
        if type(value) is int and not self.least <= value <= LARGEST_INTEGER:
            raise ArgumentProblem(
                f"{self.name} is a whole number from {self.least} to {LARGEST_INTEGER}, not {value}",
                self.name,
            )


@dataclass(frozen=True, slots=True)
class LensKind:
    """A lens before its arguments are known: what the registry holds.

    ``build`` gets the arguments by name and returns the function to apply; it raises
    :class:`ArgumentProblem` for arguments that have no sense together.
    """

    name: str
    version: str
    build: Callable[..., Apply]
    parameters: tuple[Parameter, ...] = ()
    usage: str = ""
    description: str = ""
    example: str = ""
    builtin: bool = True

    @property
    def takes(self) -> str:
        """How it is written: ``head(lines) or head(tokens=...)``."""
        if self.usage:
            return self.usage
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(_parameter_text(p) for p in self.parameters)})"

    def make(self, arguments: Mapping[str, Value]) -> Lens:
        """The lens with these arguments. Raises :class:`ArgumentProblem`, and ``MissingExtra``."""
        given = dict(arguments)
        canonical: list[tuple[str, Value]] = []
        for parameter in self.parameters:
            if parameter.name in given:
                value = given.pop(parameter.name)
                parameter.check(value)
                canonical.append((parameter.name, value))
            elif parameter.default is not None:
                canonical.append((parameter.name, parameter.default))
            elif not parameter.optional:
                raise ArgumentProblem(f"{parameter.name} is missing")
        if given:
            name = next(iter(given))
            raise ArgumentProblem(f"there is no argument {name}", name)
        return Lens(self.name, self.version, tuple(canonical), self.builtin, self.build(**dict(canonical)))


@dataclass(frozen=True, slots=True)
class Lens:
    """A compression strategy with its arguments: ``head(lines=40)``. Equal lenses give equal texts.

    ``arguments`` is canonical: every one by name, in declared order, defaults filled in.
    """

    name: str
    version: str
    arguments: tuple[tuple[str, Value], ...]
    builtin: bool
    _function: Apply = field(repr=False, compare=False)

    def apply(self, text: str, tokenizer: Tokenizer) -> str:
        """The text seen through the lens.

        Raises ``LensError`` if a registered lens fails, and ``TokenizerError`` if the tokenizer cannot count
        (in the lenses that count tokens).
        """
        if self.builtin:
            return self._function(text, tokenizer)
        try:
            result = self._function(text, tokenizer)
        except (TokenboxError, MemoryError):
            raise
        except Exception as error:
            raise LensError(
                f"the lens {self} failed on {len(text):,} characters: {type(error).__name__}: {error}. "
                "A lens must work on any text; mend the function that was registered.",
                lens=str(self),
            ) from error
        if not isinstance(result, str):
            raise LensError(
                f"the lens {self} returned {type(result).__name__} instead of text. "
                "Mend the function that was registered.",
                lens=str(self),
            )
        return result

    @property
    def identity(self) -> str:
        """The spelling with the version: ``head@1(lines=40)``."""
        return f"{self.name}@{self.version}{self._call()}"

    def __str__(self) -> str:
        return self.name + self._call()

    def _call(self) -> str:
        if not self.arguments:
            return ""
        return f"({', '.join(f'{name}={spell(value)}' for name, value in self.arguments)})"


KINDS: dict[str, LensKind] = {}
"""Every lens that has registered itself, by name."""


def register(kind: LensKind) -> None:
    """Make ``kind`` known. Raises ``DuplicateLens`` for a name that is taken."""
    # setdefault, so that of two threads registering one name only one succeeds
    if (taken := KINDS.setdefault(kind.name, kind)) is not kind:
        raise DuplicateLens(
            f"there is a lens {kind.name!r} already (version {taken.version}). Choose another name.",
            lens=kind.name,
        )


def lens(
    version: str, description: str, *parameters: Parameter, usage: str = "", example: str = ""
) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Register a function from text to text, under its own name, as one of the built-in lenses."""

    def decorated(function: Callable[..., str]) -> Callable[..., str]:
        def build(**arguments: Value) -> Apply:
            return lambda text, _: function(text, **arguments)

        name = function.__name__
        register(LensKind(name, version, build, parameters, usage, description, example or name))
        return function

    return decorated


def spell(value: Value) -> str:
    """``value`` as it is written in a pipeline."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return f'"{_UNPRINTABLE.sub(_escape, value)}"'


def _escape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}"


def _parameter_text(parameter: Parameter) -> str:
    if parameter.default is not None:
        return f"{parameter.name}={spell(parameter.default)}"
    return f"{parameter.name}=..." if parameter.optional or parameter.keyword_only else parameter.name
