"""A section: one box of text with layout constraints (FACET Token Box Model)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn

from tokenbox.content.weight import exact_weight, weight_text
from tokenbox.errors import InvalidSection, InvalidText, LensError
from tokenbox.tokenizers.cache import text_digest

if TYPE_CHECKING:
    from tokenbox.content.lenses import Pipeline

# RFC 8785 numbers are exact up to here, and a layout's record is RFC 8785 JSON.
MAX_INTEGER = 2**53 - 1

WeightInput = int | float | str | Decimal | Fraction
"""What ``grow`` and ``shrink`` are read from; a section holds them as exact rationals."""

MAX_SHOWN = 60

_RATIO = re.compile("[0-9]{1,1000}/[1-9][0-9]{0,999}")


class Keep(StrEnum):
    """Which part of a section a cut keeps."""

    HEAD = "head"
    TAIL = "tail"
    MIDDLE = "middle"
    ENDS = "ends"


_KEEPS = [keep.value for keep in Keep]
# strategy, role, extra and keep of a section that says nothing of them.
_PLAIN = (None, None, (), Keep.HEAD)


@dataclass(frozen=True, slots=True)
class Section:
    """One box of text with layout constraints.

    ``id``: unique in a layout. ``content``: the text. ``priority``: lower is dropped earlier. ``min``: a kept
    section is never smaller, in tokens. ``grow``: share of left-over space its ``extra`` items may take.
    ``shrink``: 0 makes it critical (never compressed, cut or dropped); among equal priorities the larger
    goes first. ``strategy``: a lens pipeline such as ``"squeeze |> head(40)"``. ``role``: for
    chat messages. ``extra``: items, in order, that an expanding section may take in, each after a
    separator. ``keep``: which part a cut keeps.

    Raises :class:`InvalidSection` for a field of the wrong type or range, and a ``LensError`` for a
    strategy that does not parse.
    """

    id: str
    content: str
    priority: int = 500
    min: int = 0
    grow: int | Fraction = 0
    shrink: int | Fraction = 0
    strategy: Pipeline | None = None
    role: str | None = None
    extra: tuple[str, ...] = ()
    keep: Keep = Keep.HEAD
    _digest: bytes | None = field(default=None, init=False, repr=False, compare=False)

    if TYPE_CHECKING:
        # What may be given is wider than what a section then holds.
        def __init__(  # noqa: PLR0913, PLR0917  # a section has so many fields
            self,
            id: str,  # noqa: A002
            content: str,
            priority: int = 500,
            min: int = 0,  # noqa: A002
            grow: WeightInput = 0,
            shrink: WeightInput = 0,
            strategy: Pipeline | str | None = None,
            role: str | None = None,
            extra: Sequence[str] = (),
            keep: Keep | str = Keep.HEAD,
        ) -> None: ...

    def __post_init__(self) -> None:
        # A layout may have a hundred thousand sections, most with plain values: those are passed quickly.
        if self.id.__class__ is not str or not self.id or not self.id.isascii():
            self._check_id()
        if self.content.__class__ is not str or not self.content.isascii():
            self._check_text("content", self.content)
        if self.priority.__class__ is not int or not -MAX_INTEGER <= self.priority <= MAX_INTEGER:
            self._refuse("priority", f"is a whole number within 2**53, not {self.priority!r}")
        if self.min.__class__ is not int or not 0 <= self.min <= MAX_INTEGER:
            self._refuse("min", f"is a whole number of tokens, 0 or more, not {self.min!r}")
        if self.grow.__class__ is not int or not 0 <= self.grow <= MAX_INTEGER:
            object.__setattr__(self, "grow", self._weight("grow", self.grow))
        if self.shrink.__class__ is not int or not 0 <= self.shrink <= MAX_INTEGER:
            object.__setattr__(self, "shrink", self._weight("shrink", self.shrink))
        if self.keep.__class__ is not Keep or (self.strategy, self.role, self.extra, self.keep) != _PLAIN:
            self._check_options()

    def _check_options(self) -> None:
        if self.strategy is not None:
            object.__setattr__(self, "strategy", self._pipeline(self.strategy))
        if self.role is not None:
            self._check_text("role", self.role)
            if not self.role:
                self._refuse("role", "is a word such as 'user', not the empty text")
        object.__setattr__(self, "extra", self._items(self.extra))
        if self.keep not in _KEEPS:
            self._refuse("keep", f"is one of {', '.join(_KEEPS)}, not {self.keep!r}")
        object.__setattr__(self, "keep", Keep(self.keep))

    @property
    def critical(self) -> bool:
        """Never compressed, truncated or dropped."""
        return self.shrink == 0

    @property
    def content_digest(self) -> bytes:
        """SHA-256 of the content as UTF-8; computed once in the section's life."""
        digest = self._digest
        if digest is None:
            digest = text_digest(self.content)
            object.__setattr__(self, "_digest", digest)
        return digest

    @classmethod
    def of(cls, value: Section | Mapping[str, object], position: int = 0) -> Section:
        """``value`` as a section: itself, or made from a mapping with the fields' names as keys."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise InvalidSection(
                f"section {position} is neither a Section nor a mapping, but {type(value).__name__}.",
                position=position,
            )
        if not (value.keys() <= _NAMES and "id" in value and "content" in value):
            raise cls._misfit(value, position)
        return cls(**value)  # type: ignore[arg-type]  # __post_init__ checks every field

    @staticmethod
    def _misfit(value: Mapping[str, object], position: int) -> InvalidSection:
        """The error for a mapping with a key too many, or one missing."""
        name = value.get("id", position)
        for key in value:
            if key not in _NAMES:
                near = difflib.get_close_matches(str(key), _FIELDS, 1)
                hint = f" Did you mean {near[0]!r}?" if near else f" It has: {', '.join(_FIELDS)}."
                return InvalidSection(f"section {name!r} has no field {key!r}.{hint}", field=str(key))
        missing = "content" if "id" in value else "id"
        return InvalidSection(f"section {name!r} needs {missing!r}.", field=missing)

    def to_dict(self) -> dict[str, object]:
        """The section as plain data; ``Section.of`` reads it back."""
        return {
            "id": self.id,
            "content": self.content,
            "priority": self.priority,
            "min": self.min,
            "grow": weight_text(self.grow),
            "shrink": weight_text(self.shrink),
            "strategy": None if self.strategy is None else str(self.strategy),
            "role": self.role,
            "extra": list(self.extra),
            "keep": self.keep.value,
        }

    def _refuse(self, name: str, what: str) -> NoReturn:
        raise InvalidSection(f"section {self.id!r}: {name} {what}.", id=self.id, field=name)

    def _check_id(self) -> None:
        if type(self.id) is not str or not self.id:
            raise InvalidSection(
                f"a section needs an id: a text that is not empty, not {self.id!r}.", field="id"
            )
        self._check_text("id", self.id)

    def _check_text(self, name: str, value: object) -> None:
        if type(value) is not str:
            self._refuse(name, f"is text, not {type(value).__name__}")
        elif not value.isascii():
            try:
                text_digest(value)
            except InvalidText as error:
                place = f"section {self.id!r}: {name}"
                raise InvalidText(f"{place}: {error}", id=self.id, field=name, **error.details) from None

    def _weight(self, name: str, value: object) -> int | Fraction:
        try:
            if isinstance(value, str) and _RATIO.fullmatch(value):
                value = Fraction(value)  # as to_dict() writes what no decimal can say
            return exact_weight(value)
        except (ValueError, TypeError) as error:
            self._refuse(name, f"cannot be {_shown(value)}: {error}")

    def _items(self, value: object) -> tuple[str, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            self._refuse("extra", f"is a list of texts, not {type(value).__name__}")
        for item in value:
            self._check_text("extra", item)
        return tuple(value)

    def _pipeline(self, value: object) -> Pipeline:
        from tokenbox.content.lenses import Pipeline, parse_pipeline  # noqa: PLC0415  # only with a strategy

        if isinstance(value, Pipeline):
            return value
        if not isinstance(value, str):
            what = f"is a pipeline such as 'squeeze |> head(40)', not {type(value).__name__}"
            self._refuse("strategy", what)
        try:
            return parse_pipeline(value)
        except LensError as error:
            raise type(error)(f"section {self.id!r}: {error}", id=self.id, **error.details) from None


def _shown(value: object) -> str:
    """The value for a message, unless it is too long to be read, or to be written at all."""
    try:
        shown = repr(value)
    except ValueError:
        return f"this {type(value).__name__}"
    return shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + "..."


_FIELDS = tuple(f.name for f in fields(Section) if f.init)
_NAMES = frozenset(_FIELDS)
