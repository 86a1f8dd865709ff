"""A lens: a named, versioned, pure function on text, together with its arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tokenbox.errors import DuplicateLens, LensError, TokenboxError
from tokenbox.integers import MAX_INTEGER
from tokenbox.records import to_record

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer

    Apply = Callable[[str, Tokenizer], str]

Value = int | str | bool
"""The types of a lens argument."""

_KIND_NAMES = {int: "a whole number", str: "a quoted text", bool: "true or false"}
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNPRINTABLE = re.compile(r'[\\"\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff]')


class ArgumentProblem(Exception):  # the parser catches it and adds the position
    """An argument is invalid. ``parameter`` names it; None stands for the call."""

    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a lens. It is required unless it has a ``default`` or is ``optional``.

    ``least``: the smallest allowed number. ``keyword_only``: the argument must be named. ``optional``:
    without a default, the argument may be absent.
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
        if type(value) is int and not self.least <= value <= MAX_INTEGER:
            raise ArgumentProblem(
                f"{self.name} is a whole number from {self.least} to {MAX_INTEGER}, not {value}",
                self.name,
            )


@dataclass(frozen=True, slots=True)
class LensKind:
    """A lens without arguments, as the registry stores it.

    ``build`` takes the arguments by name and returns the function to apply. It raises
    :class:`ArgumentProblem` for arguments that contradict each other.
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
        """The syntax of the lens: ``head(lines) or head(tokens=...)``."""
        if self.usage:
            return self.usage
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(_parameter_text(p) for p in self.parameters)})"

    def to_dict(self) -> dict[str, object]:
        return to_record(self, "name version takes description example builtin")

    def make(self, arguments: Mapping[str, Value]) -> Lens:
        """Return the lens with these arguments. Raises :class:`ArgumentProblem` and ``MissingExtra``."""
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
    """A compression strategy with its arguments: ``head(lines=40)``. Equal lenses have equal results.

    ``arguments`` is canonical: all arguments by name, in declared order, including defaults.
    """

    name: str
    version: str
    arguments: tuple[tuple[str, Value], ...]
    builtin: bool
    _function: Apply = field(repr=False, compare=False)

    def apply(self, text: str, tokenizer: Tokenizer) -> str:
        """Apply the lens to the text.

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
                "A lens must work on any text; fix the registered function.",
                lens=str(self),
            ) from error
        if not isinstance(result, str):
            raise LensError(
                f"the lens {self} returned {type(result).__name__} instead of text. "
                "Fix the registered function.",
                lens=str(self),
            )
        return result

    @property
    def identity(self) -> str:
        """The text of the lens with its version: ``head@1(lines=40)``."""
        return f"{self.name}@{self.version}{self._call()}"

    def __str__(self) -> str:
        return self.name + self._call()

    def _call(self) -> str:
        if not self.arguments:
            return ""
        return f"({', '.join(f'{name}={spell(value)}' for name, value in self.arguments)})"


KINDS: dict[str, LensKind] = {}
"""All registered lenses by name."""


def register(kind: LensKind) -> None:
    """Add ``kind`` to the registry. Raises ``DuplicateLens`` for a registered name."""
    # setdefault is atomic: if two threads register one name, only one succeeds
    if (taken := KINDS.setdefault(kind.name, kind)) is not kind:
        raise DuplicateLens.of(kind.name, taken.version)


def lens(
    version: str, description: str, *parameters: Parameter, usage: str = "", example: str = ""
) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Register a function from text to text as a built-in lens with the function's name."""

    def decorated(function: Callable[..., str]) -> Callable[..., str]:
        def build(**arguments: Value) -> Apply:
            return lambda text, _: function(text, **arguments)

        name = function.__name__
        register(LensKind(name, version, build, parameters, usage, description, example or name))
        return function

    return decorated


def spell(value: Value) -> str:
    """Return ``value`` in the syntax of a pipeline."""
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
