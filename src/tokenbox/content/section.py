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
from typing import TYPE_CHECKING, NoReturn

from tokenbox.content.weight import exact_weight, weight_text
from tokenbox.errors import InvalidSection, InvalidText, LensError
from tokenbox.integers import MAX_INTEGER, whole
from tokenbox.tokenizers.cache import text_digest

if TYPE_CHECKING:
    from tokenbox.content.lenses import Pipeline

# RFC 8785 numbers are exact up to here, and a layout's record is RFC 8785 JSON.

WeightInput = int | float | str | Decimal | Fraction
"""What ``grow`` and ``shrink`` are read from; a section holds them as exact rationals."""

MAX_SHOWN = 60

_PERCENT = re.compile(r"[0-9]{1,20}(?:[./][0-9]{1,20})? ?%")
_RATIO = re.compile("[0-9]{1,1000}/[1-9][0-9]{0,999}")


# Words of other libraries and formats, by the fields that they may mean here.
_MEANT: Mapping[str, tuple[str, ...]] = {
    "text": ("content",),
    "body": ("content",),
    "value": ("content",),
    "prompt": ("content",),
    "file": ("content_file",),
    "path": ("content_file",),
    "name": ("id",),
    "key": ("id",),
    "title": ("id",),
    "weight": ("priority",),
    "importance": ("priority",),
    "rank": ("priority",),
    "max_tokens": ("budget", "max"),
    "limit": ("budget", "max"),
    "min_tokens": ("min",),
    "lens": ("strategy",),
    "lenses": ("strategy",),
    "compress": ("strategy",),
    "encoding": ("tokenizer",),
    "blocks": ("sections",),
    "messages": ("sections",),
    "section": ("sections",),
}


def meant_field(key: str, fields: Sequence[str]) -> str | None:
    """The one of ``fields`` that ``key`` probably means, by its meaning or else by its spelling."""
    by_meaning = [field for field in _MEANT.get(key, ()) if field in fields]
    return next(iter((*by_meaning, *difflib.get_close_matches(key[:100], fields, 1))), None)


class Keep(StrEnum):
    """Which part of a section a cut keeps."""

    HEAD = "head"
    TAIL = "tail"
    MIDDLE = "middle"
    ENDS = "ends"


class Cut(StrEnum):
    """Where a section may be cut. ``never``: it is whole, in a smaller form, or not there."""

    GRAPHEME = "grapheme"
    WORD = "word"
    SENTENCE = "sentence"
    LINE = "line"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Text:
    """A form of a section that its author wrote."""

    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """Bounds that sections have in common: each section whose ``group`` has this name, and groups inside it.

    ``min``: a group that is kept is never smaller, in tokens. ``max``: it is never larger, in tokens or as a
    share of the budget (``"30%"``). ``priority``: where the group stands among the sections and groups beside
    it; the priorities of its own sections are compared inside it. ``parent``: the group it is in.
    """

    name: str
    min: int = 0
    max: int | Fraction | None = None
    priority: int = 500
    parent: str | None = None

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name:
            raise InvalidSection(
                f"a group needs a name: a text that is not empty, not {self.name!r}.", field="name"
            )
        place = f"group {self.name!r}"
        object.__setattr__(self, "priority", whole_from(place, "priority", self.priority, -MAX_INTEGER))
        object.__setattr__(self, "min", whole_from(place, "min", self.min, 0))
        object.__setattr__(self, "max", exact_bound(place, self.max))
        if self.parent is not None and (type(self.parent) is not str or not self.parent):
            raise InvalidSection(
                f"{place}: parent is the name of a group, not {self.parent!r}.", field="parent"
            )

    @classmethod
    def of(cls, name: str, value: Group | Mapping[str, object]) -> Group:
        """``value`` as a group: itself, or made from a mapping with the fields' names as keys."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise InvalidSection(f"group {name!r} is a mapping, not {type(value).__name__}.", field="groups")
        unknown = [str(key) for key in value if key not in GROUP_FIELDS]
        if unknown:
            raise InvalidSection(
                f"group {name!r} has no field {unknown[0]!r}. It has: {', '.join(GROUP_FIELDS)}.",
                field=unknown[0],
            )
        return cls(name, **value)  # type: ignore[arg-type]  # __post_init__ checks every field

    def to_dict(self) -> dict[str, object]:
        """The group as plain data, without its name; ``Group.of`` reads it back."""
        return {
            "min": self.min,
            "max": bound_text(self.max),
            "priority": self.priority,
            "parent": self.parent,
        }


GROUP_FIELDS = ("min", "max", "priority", "parent")

_KEEPS = [keep.value for keep in Keep]
_CUTS = [cut.value for cut in Cut]
# The options of a section that says nothing of them.
_OPTIONS = ("strategy", "role", "extra", "keep", "forms", "max", "group", "with_", "cut", "marker")
_PLAIN = (None, None, (), Keep.HEAD, (), None, None, None, Cut.GRAPHEME, "")


@dataclass(frozen=True, init=False)
class Section:
    """One box of text with layout constraints.

    ``id``: unique in a layout. ``content``: the text. ``priority``: lower is dropped earlier. ``min``: a kept
    section is never smaller, in tokens. ``grow``: share of left-over space its ``extra`` items may take.
    ``shrink``: 0 makes it critical (never compressed, cut or dropped); among equal priorities the larger
    goes first. ``strategy``: a lens pipeline such as ``"squeeze |> head(40)"``. ``role``: for
    chat messages. ``extra``: items, in order, that an expanding section may take in, each after a
    separator. ``keep``: which part a cut keeps; ``cut``: where it may fall; ``marker``: what it leaves in
    place of what it took (``{tokens}`` stands for how much that was).

    With ``policy="degrade"`` also: ``forms``: alternatives to the content, best first, pipelines or
    ``{"text": ...}``; a ``strategy`` is the list of one. ``max``: the section is never larger, in tokens or
    as a share of the budget (``"30%"``). ``group``: the group whose bounds it shares. ``with_`` (in mappings
    ``with``): the id of a section that it is kept or dropped together with.

    A list or a mapping as ``content`` is one item per line, and is cut by whole items, which ``items`` holds.

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
    """The first of its fields that only ``policy="degrade"`` obeys."""
    _digest: bytes | None = field(default=None, init=False, repr=False, compare=False)

    # What may be given is wider than what is then held. A layout may have a hundred thousand sections, most
    # with plain values: those are passed quickly, and take no place for an option that they do not have.
    def __init__(  # noqa: PLR0913, PLR0917  # a section has so many fields
        self,
        id: str,  # noqa: A002
        content: str | Sequence[object] | Mapping[str, object],
        priority: int = 500,
        min: int = 0,  # noqa: A002
        grow: WeightInput = 0,
        shrink: WeightInput = 0,
        strategy: Pipeline | str | None = None,
        role: str | None = None,
        extra: Sequence[str] = (),
        keep: Keep | str = Keep.HEAD,
        forms: Sequence[Pipeline | Text | str | Mapping[str, str]] = (),
        max: int | str | Fraction | None = None,  # noqa: A002
        group: str | None = None,
        with_: str | None = None,
        cut: Cut | str = Cut.GRAPHEME,
        marker: str = "",
        items: tuple[str, ...] | None = None,
    ) -> None:
        values = self.__dict__  # a frozen class has no quicker way
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
            values["priority"] = self._whole("priority", -MAX_INTEGER)
        if min.__class__ is not int or not 0 <= min <= MAX_INTEGER:
            values["min"] = self._whole("min", 0)
        if grow.__class__ is not int or not 0 <= grow <= MAX_INTEGER:
            values["grow"] = self._weight("grow", grow)
        if shrink.__class__ is not int or not 0 <= shrink <= MAX_INTEGER:
            values["shrink"] = self._weight("shrink", shrink)
        if items is not None and self.content == "\n".join(items):
            values["items"] = items
        options = (strategy, role, extra, keep, forms, max, group, with_, cut, marker)
        if options != _PLAIN:
            values.update(zip(_OPTIONS, options, strict=True))
            self._check_options()

    def _whole(self, name: str, least: int) -> int:
        given = getattr(self, name)
        number = whole(given)
        if number is None or not least <= number <= MAX_INTEGER:
            what = "within 2**53" if least else "of tokens, 0 or more"
            self._refuse(name, f"is a whole number {what}, not {given!r}")
        return number

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
        if self.cut not in _CUTS:
            self._refuse("cut", f"is one of {', '.join(_CUTS)}, not {self.cut!r}")
        object.__setattr__(self, "cut", Cut(self.cut))
        self._check_text("marker", self.marker)
        object.__setattr__(self, "forms", self._alternatives(self.forms))
        if self.forms and self.strategy is not None:
            self._refuse("forms", "and strategy are two ways to say one thing. Put the strategy into forms")
        object.__setattr__(self, "max", exact_bound(f"section {self.id!r}", self.max))
        for name, other in (("group", self.group), ("with", self.with_)):
            if other is not None:
                self._check_text(name, other)
                if not other or other == self.id:
                    self._refuse(name, f"names a group or another section, not {other!r}")
        given = {"forms": self.forms, "max": self.max, "group": self.group, "with": self.with_}
        needs = next((name for name, value in given.items() if value not in (None, ())), None)
        object.__setattr__(self, "needs_degrade", needs)

    @property
    def alternatives(self) -> tuple[Pipeline | Text, ...]:
        """What the section may be instead of its content, best first."""
        return self.forms if self.strategy is None else (self.strategy,)

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
        if "with" in value:
            value = {"with_" if key == "with" else key: item for key, item in value.items()}
        return cls(**value)  # type: ignore[arg-type]  # __post_init__ checks every field

    @staticmethod
    def _misfit(value: Mapping[str, object], position: int) -> InvalidSection:
        """The error for a mapping with a key too many, or one missing."""
        name = value.get("id", position)
        for key in value:
            if key not in _NAMES:
                near = meant_field(str(key), _FIELDS)
                hint = f" It has: {', '.join(_FIELDS)}." if near is None else f" Did you mean {near!r}?"
                return InvalidSection(f"section {name!r} has no field {key!r}.{hint}", field=str(key))
        missing = "content" if "id" in value else "id"
        return InvalidSection(f"section {name!r} needs {missing!r}.", field=missing)

    def to_dict(self) -> dict[str, object]:
        """The section as plain data; ``Section.of`` reads it back."""
        return {
            "id": self.id,
            "content": self.content if self.items is None else list(self.items),
            "priority": self.priority,
            "min": self.min,
            "grow": weight_text(self.grow),
            "shrink": weight_text(self.shrink),
            "strategy": None if self.strategy is None else str(self.strategy),
            "role": self.role,
            "extra": list(self.extra),
            "keep": self.keep.value,
            **self.degrading(),
        }

    def degrading(self) -> dict[str, object]:
        """Those of the fields beside the Token Box Model's own that say something."""
        given = {
            "forms": [{"text": form.text} if isinstance(form, Text) else str(form) for form in self.forms],
            "max": bound_text(self.max),
            "group": self.group,
            "with": self.with_,
            "cut": None if self.cut is Cut.GRAPHEME else self.cut.value,
            "marker": self.marker,
        }
        return {name: value for name, value in given.items() if value}

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

    def _take_items(self) -> None:
        """A list or a mapping as content: one line per item."""
        given: object = self.content
        if isinstance(given, Mapping):
            items = [f"{key}: {self._item(value)}" for key, value in given.items()]
        elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
            items = [self._item(value) for value in given]
        else:
            return
        for item in items:
            self._check_text("content", item)
        object.__setattr__(self, "items", tuple(items))
        object.__setattr__(self, "content", "\n".join(items))

    def _item(self, value: object) -> str:
        """An item as one says it: a text as it is, other values as JSON."""
        if isinstance(value, str):
            return value
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            self._refuse("content", f"has an item that is neither text nor JSON: {error}")

    def _alternatives(self, value: object) -> tuple[Pipeline | Text, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            self._refuse("forms", f"is a list of pipelines and texts, not {type(value).__name__}")
        return tuple(self._form(form) for form in value)

    def _form(self, value: object) -> Pipeline | Text:
        if isinstance(value, Mapping):
            if set(value) != {"text"}:
                self._refuse("forms", "has a text of your own as {'text': ...}, with no other key")
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
        from tokenbox.content.lenses import Pipeline, parse_pipeline  # noqa: PLC0415  # only with a strategy

        if isinstance(value, Pipeline):
            return value
        if not isinstance(value, str):
            what = f"is a pipeline such as 'squeeze |> head(40)', not {type(value).__name__}"
            self._refuse(name, what)
        try:
            return parse_pipeline(value)
        except LensError as error:
            raise type(error)(f"section {self.id!r}: {error}", id=self.id, **error.details) from None


def exact_bound(place: str, value: object) -> int | Fraction | None:
    """A maximum: tokens, or the share of the budget in a percentage, exactly. None: no maximum."""
    number = whole(value)
    if value is None or (number is not None and 0 <= number <= MAX_INTEGER):
        return number
    share = value
    if isinstance(value, str) and _PERCENT.fullmatch(value):
        share = Fraction(value.rstrip("% ")) / 100
    if not isinstance(share, Fraction) or not 0 <= share <= 1:
        raise InvalidSection(
            f"{place}: max is tokens, or a share such as '30%' of the budget, not {_shown(value)}.",
            field="max",
        )
    return share


def bound_text(bound: int | Fraction | None) -> int | str | None:
    """A maximum as :func:`exact_bound` reads it."""
    return f"{weight_text(bound * 100)}%" if isinstance(bound, Fraction) else bound


def whole_from(place: str, name: str, value: object, least: int) -> int:
    """``value`` as a whole number of at least ``least``. Raises :class:`InvalidSection`."""
    number = whole(value)
    if number is None or not least <= number <= MAX_INTEGER:
        raise InvalidSection(
            f"{place}: {name} is a whole number from {least:,} to 2**53, not {value!r}.", field=name
        )
    return number


def _shown(value: object) -> str:
    """The value for a message, unless it is too long to be read, or to be written at all."""
    try:
        shown = repr(value)
    except ValueError:
        return f"this {type(value).__name__}"
    return shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + "..."


_FIELDS = tuple(
    "with" if f.name == "with_" else f.name for f in fields(Section) if f.init and f.name != "items"
)
_NAMES = frozenset(_FIELDS)
