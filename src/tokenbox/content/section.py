"""A section: one box of text with layout constraints (FACET Token Box Model)."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, NoReturn

from tokenbox.content.group import bound_text, exact_bound, whole_from
from tokenbox.content.weight import exact_weight, weight_text
from tokenbox.errors import InvalidSection, InvalidText, LensError, shown
from tokenbox.integers import MAX_INTEGER
from tokenbox.records import to_record
from tokenbox.tokenizers.cache import text_digest
from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    from tokenbox.content.lenses import Pipeline

WeightInput = int | float | str | Decimal | Fraction
"""The accepted types of ``grow`` and ``shrink``. A section stores them as exact rationals."""

_RATIO = re.compile("[0-9]{1,1000}/[1-9][0-9]{0,999}")


# Field names of other libraries and formats, and the fields to suggest instead.
_SUGGESTED: Mapping[str, tuple[str, ...]] = {
    other: fields
    for others, fields in (
        ("text body value prompt", ("content",)),
        ("file path", ("content_file",)),
        ("name key title", ("id",)),
        ("weight importance rank", ("priority",)),
        ("max_tokens limit", ("budget", "max")),
        ("min_tokens", ("min",)),
        ("lens lenses compress", ("strategy",)),
        ("encoding", ("tokenizer",)),
        ("blocks messages section", ("sections",)),
    )
    for other in others.split()
}


def meant_field(key: str, fields: Sequence[str]) -> str | None:
    """Return the one of ``fields`` that ``key`` probably means, by meaning or else by spelling."""
    by_meaning = [field for field in _SUGGESTED.get(key, ()) if field in fields]
    return next(iter((*by_meaning, *difflib.get_close_matches(key[:100], fields, 1))), None)


class Keep(StrEnum):
    """The part of a section that a cut keeps."""

    HEAD = "head"
    TAIL = "tail"
    MIDDLE = "middle"
    ENDS = "ends"


class Cut(StrEnum):
    """The positions where a section may be cut. ``never``: show it uncut, in a smaller form, or drop it."""

    GRAPHEME = "grapheme"
    WORD = "word"
    SENTENCE = "sentence"
    LINE = "line"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Text:
    """A shorter form of a section, written by its author."""

    text: str


_CHOICES: Mapping[str, Mapping[str, StrEnum]] = {
    name: {word.value: word for word in words} for name, words in (("keep", Keep), ("cut", Cut))
}
# The rarely used options of a section, and their defaults.
_OPTIONS = ("strategy", "role", "extra", "keep", "forms", "max", "group", "with_", "cut", "marker")
_PLAIN = (None, None, (), Keep.HEAD, (), None, None, None, Cut.GRAPHEME, "")


@dataclass(frozen=True, init=False)
class Section:
    """One box of text with layout constraints.

    ``id``: unique in a layout. ``content``: the text. ``priority``: lower is dropped earlier. ``min``: the
    lower bound of a kept section, in tokens. ``grow``: the share of left-over space that its ``extra`` items
    may use. ``shrink``: 0 makes the section critical (never compressed, cut or dropped); among equal
    priorities the larger value shrinks first. ``strategy``: a lens pipeline such as
    ``"squeeze |> head(40)"``. ``role``: the role of a chat message. ``extra``: items, in order, that are
    appended to the section if there is space, each after a separator. ``keep``: the part that a cut keeps;
    ``cut``: the positions where a cut is allowed; ``marker``: the text that replaces a removed part
    (``{tokens}`` stands for its token count).

    Only with ``policy="degrade"``: ``forms``: alternatives to the content, best first, pipelines or
    ``{"text": ...}``; a ``strategy`` is a list of one form. ``max``: the upper bound, in tokens or as a
    share of the budget (``"30%"``). ``group``: the group whose bounds it shares. ``with_`` (in mappings
    ``with``): the id of a section; both are kept or both are dropped.

    A list or a mapping as ``content`` becomes one item per line, and is cut only between items (``items``).

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
    forms: tuple[Pipeline | Text, ...] = ()
    max: int | Fraction | None = None
    group: str | None = None
    with_: str | None = None
    cut: Cut = Cut.GRAPHEME
    marker: str = ""
    items: tuple[str, ...] | None = None
    needs_degrade: str | None = field(default=None, init=False, repr=False, compare=False)
    """The name of its first field that requires ``policy="degrade"``."""
    _digest: bytes | None = field(default=None, init=False, repr=False, compare=False)

    # The parameters accept more types than the fields. A layout may have 100,000 sections, most of them with
    # plain values: those need few checks, and no memory for options at their defaults.
    def __init__(  # noqa: PLR0913, PLR0917  # one parameter per field
        self,
        id: str,
        content: str | Sequence[object] | Mapping[str, object],
        priority: int = 500,
        min: int = 0,
        grow: WeightInput = 0,
        shrink: WeightInput = 0,
        strategy: Pipeline | str | None = None,
        role: str | None = None,
        extra: Sequence[str] = (),
        keep: Keep | str = Keep.HEAD,
        forms: Sequence[Pipeline | Text | str | Mapping[str, str]] = (),
        max: int | str | Fraction | None = None,
        group: str | None = None,
        with_: str | None = None,
        cut: Cut | str = Cut.GRAPHEME,
        marker: str = "",
        items: tuple[str, ...] | None = None,
    ) -> None:
        values = self.__dict__  # the fastest way to set fields of a frozen class
        values["id"] = id
        values["content"] = content
        values["priority"] = priority
        values["min"] = min
        values["grow"] = grow
        values["shrink"] = shrink
        if id.__class__ is not str or not id or not id.isascii():
            self._check_id()
        if content.__class__ is not str or not content.isascii():
            self._take_items()
            self._check_text("content", self.content)
        if priority.__class__ is not int or not -MAX_INTEGER <= priority <= MAX_INTEGER:
            values["priority"] = whole_from(f"section {id!r}", "priority", priority, -MAX_INTEGER, id=id)
        if min.__class__ is not int or not 0 <= min <= MAX_INTEGER:
            values["min"] = whole_from(f"section {id!r}", "min", min, 0, id=id)
        if grow.__class__ is not int or not 0 <= grow <= MAX_INTEGER:
            values["grow"] = self._weight("grow", grow)
        if shrink.__class__ is not int or not 0 <= shrink <= MAX_INTEGER:
            values["shrink"] = self._weight("shrink", shrink)
        if items is not None and self.content == self._joined(items):
            values["items"] = items
        options = (strategy, role, extra, keep, forms, max, group, with_, cut, marker)
        try:
            is_plain = options == _PLAIN
        except ValueError:  # an array of numbers has no one truth
            is_plain = False
        if not is_plain:
            values.update(zip(_OPTIONS, options, strict=True))
            self._check_options()

    def _check_options(self) -> None:
        values = self.__dict__
        if self.strategy is not None:
            values["strategy"] = self._pipeline(self.strategy)
        if self.role is not None:
            self._check_text("role", self.role)
            if not self.role:
                self._refuse("role", "is a word such as 'user', not an empty text")
        values["extra"] = self._items(self.extra)
        for name, choices in _CHOICES.items():
            if values[name] not in list(choices):  # of any type, also of one without a hash
                self._refuse(name, f"is one of {', '.join(choices)}, not {shown(values[name])}")
            values[name] = choices[values[name]]
        self._check_text("marker", self.marker)
        values["forms"] = self._alternatives(self.forms)
        if self.forms and self.strategy is not None:
            self._refuse("forms", "and strategy exclude each other. Put the strategy into forms")
        values["max"] = exact_bound(f"section {self.id!r}", self.max, id=self.id)
        for name, other in (("group", self.group), ("with", self.with_)):
            if other is not None:
                self._check_text(name, other)
                if not other or other == self.id:
                    self._refuse(name, f"names a group or another section, not {other!r}")
        given = {"forms": self.forms, "max": self.max, "group": self.group, "with": self.with_}
        values["needs_degrade"] = next((n for n, value in given.items() if value not in (None, ())), None)

    @property
    def alternatives(self) -> tuple[Pipeline | Text, ...]:
        """The alternatives to the content, best first."""
        return self.forms if self.strategy is None else (self.strategy,)

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text of the section: its content, extra items, and the forms written by its author."""
        own = [form.text for form in self.forms if isinstance(form, Text)]
        return (self.content, *self.extra, *own)

    @property
    def critical(self) -> bool:
        """Whether the section is never compressed, truncated or dropped."""
        return self.shrink == 0

    @property
    def content_digest(self) -> bytes:
        """The SHA-256 of the content as UTF-8, computed once."""
        digest = self._digest
        if digest is None:
            digest = sha256(utf8(self.content)).digest()
            self.__dict__["_digest"] = digest
        return digest

    @classmethod
    def of(cls, value: Section | Mapping[str, object], position: int = 0) -> Section:
        """Return ``value`` if it is a section, or make one from a mapping of field names to values."""
        if isinstance(value, cls):
            return value
        if type(value) is not dict and not isinstance(value, Mapping):
            raise InvalidSection(
                f"section {position} is neither a Section nor a mapping, but {type(value).__name__}. "
                'Give {"id": "question", "content": "Why?"}.',
                position=position,
            )
        if not _REQUIRED <= value.keys() <= _NAMES:
            raise cls._invalid_fields(value, position)
        if "with" in value:
            value = {"with_" if key == "with" else key: item for key, item in value.items()}
        return cls(**value)  # type: ignore[arg-type]  # __post_init__ checks every field

    @staticmethod
    def _invalid_fields(value: Mapping[str, object], position: int) -> InvalidSection:
        """Return the error for a mapping with an unknown or a missing key."""
        name = value.get("id", position)
        for key in value:
            if key not in _NAMES:
                near = meant_field(str(key), _FIELDS)
                hint = f" It has: {', '.join(_FIELDS)}." if near is None else f" Did you mean {near!r}?"
                return InvalidSection(
                    f"section {name!r} has no field {shown(key)}.{hint}", field=str(key)[:80]
                )
        missing = "content" if "id" in value else "id"
        return InvalidSection(f"section {name!r} needs {missing!r}.", field=missing)

    def to_dict(self) -> dict[str, object]:
        """Return the section as plain data. ``Section.of`` reads it back."""
        return (
            to_record(
                self,
                "id content priority min grow shrink strategy role extra keep",
                content=self.content if self.items is None else list(self.items),
                grow=weight_text(self.grow),
                shrink=weight_text(self.shrink),
                strategy=None if self.strategy is None else str(self.strategy),
            )
            | self.degrading()
        )

    def degrading(self) -> dict[str, object]:
        """Return the fields beyond the Token Box Model's own that are not at their defaults."""
        given = {
            "forms": [{"text": form.text} if isinstance(form, Text) else str(form) for form in self.forms],
            "max": bound_text(self.max),
            "group": self.group,
            "with": self.with_,
            "cut": None if self.cut is Cut.GRAPHEME else self.cut.value,
            "marker": self.marker,
        }
        # A maximum of 0 is a bound; no maximum is not.
        return {name: value for name, value in given.items() if value or type(value) is int}

    def _joined(self, items: object) -> str:
        if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
            self._refuse("items", f"are a list of texts, not {shown(items)}")
        return "\n".join(items)

    def _refuse(self, name: str, what: str) -> NoReturn:
        raise InvalidSection(f"section {self.id!r}: {name} {what}.", id=self.id, field=name)

    def _check_id(self) -> None:
        if type(self.id) is not str or not self.id:
            raise InvalidSection(
                f"a section needs an id: a text that is not empty, not {shown(self.id)}.", field="id"
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
                value = Fraction(value)  # to_dict() writes a ratio for a value without a finite decimal form
            return exact_weight(value)
        except (ValueError, TypeError):
            self._refuse(
                name, f"is a number such as 0.5, 0 or more, of up to 1,000 digits, not {shown(value)}"
            )

    def _take_items(self) -> None:
        """Turn a list or a mapping as content into one line per item."""
        given: object = self.content
        if isinstance(given, Mapping):
            items = [f"{self._key(key)}: {self._item(value)}" for key, value in given.items()]
        elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
            items = [self._item(value) for value in given]
        else:
            return
        for item in items:
            self._check_text("content", item)
        object.__setattr__(self, "items", tuple(items))
        object.__setattr__(self, "content", "\n".join(items))

    def _item(self, value: object) -> str:
        """Return a text as it is, and any other value as JSON."""
        if isinstance(value, str):
            return value
        try:
            return _json(value)
        except RecursionError:
            self._refuse("content", "has an item that is nested too deeply")
        except (TypeError, ValueError) as error:
            self._refuse("content", f"has an item that is neither text nor JSON: {error}")

    def _key(self, key: object) -> str:
        try:
            return str(key)
        except ValueError as error:  # an integer of more than 4,300 digits
            self._refuse("content", f"has a key that cannot be written: {error}")

    def _alternatives(self, value: object) -> tuple[Pipeline | Text, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            self._refuse("forms", f"is a list of pipelines and texts, not {type(value).__name__}")
        return tuple(self._form(form) for form in value)

    def _form(self, value: object) -> Pipeline | Text:
        if isinstance(value, Mapping):
            if set(value) != {"text"}:
                self._refuse("forms", "has a mapping other than {'text': ...}")
            value = Text(value["text"])
        if isinstance(value, Text):
            self._check_text("forms", value.text)
            return value
        return self._pipeline(value, "forms")

    def _items(self, value: object) -> tuple[str, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            self._refuse("extra", f"is a list of texts, not {type(value).__name__}")
        for item in value:
            self._check_text("extra", item)
        return tuple(value)

    def _pipeline(self, value: object, name: str = "strategy") -> Pipeline:
        from tokenbox.content.lenses import Pipeline, parse_pipeline  # only with a strategy

        if isinstance(value, Pipeline):
            return value
        if not isinstance(value, str):
            what = f"is a pipeline such as 'squeeze |> head(40)', not {type(value).__name__}"
            self._refuse(name, what)
        try:
            return parse_pipeline(value)
        except LensError as error:
            raise type(error)(f"section {self.id!r}: {error}", id=self.id, **error.details) from None


def _json(value: object) -> str:
    """Return a value as JSON, with all digits of its decimal numbers, which ``json`` does not write."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except TypeError:
        return _json_with_decimals(value)


def _json_with_decimals(value: object) -> str:
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        members = (
            f"{json.dumps(key, ensure_ascii=False)}: {_json_with_decimals(inner)}"
            for key, inner in value.items()
        )
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_json_with_decimals, value))}]"
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is not a finite number")
        return str(value)
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


_FIELDS = tuple(
    "with" if f.name == "with_" else f.name for f in fields(Section) if f.init and f.name != "items"
)
_NAMES = frozenset(_FIELDS)
_REQUIRED = frozenset(("id", "content"))
