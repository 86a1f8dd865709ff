"""Groups of sections, and the bounds that groups and sections have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tokenbox.content.weight import weight_text
from tokenbox.errors import InvalidSection, shown
from tokenbox.integers import MAX_INTEGER, meant_figure, whole
from tokenbox.records import to_record

# A share of the budget as text, as in layout.schema.json.
_PERCENT = re.compile(r"(?:100|[0-9]{1,2}(?:\.[0-9]{1,20})?|[0-9]{1,20}/[1-9][0-9]{0,19}) ?%")


@dataclass(frozen=True, slots=True)
class Group:
    """Bounds shared by all sections whose ``group`` has this name, and by the groups inside it.

    ``min``: the lower bound of a kept group, in tokens. ``max``: the upper bound, in tokens or as a share of
    the budget (``"30%"``). ``priority``: the group's priority among its sibling sections and groups; the
    priorities of its own sections are compared only inside the group. ``parent``: the enclosing group.
    """

    name: str
    min: int = 0
    max: int | Fraction | None = None
    priority: int = 500
    parent: str | None = None

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name:
            raise InvalidSection(
                f"a group needs a name: a text that is not empty, not {shown(self.name)}.", field="name"
            )
        place = f"group {self.name!r}"
        object.__setattr__(self, "priority", whole_from(place, "priority", self.priority, -MAX_INTEGER))
        object.__setattr__(self, "min", whole_from(place, "min", self.min, 0))
        object.__setattr__(self, "max", exact_bound(place, self.max))
        if self.parent is not None and (type(self.parent) is not str or not self.parent):
            raise InvalidSection(
                f"{place}: parent is the name of a group, not {shown(self.parent)}.", field="parent"
            )

    @classmethod
    def of(cls, name: str, value: Group | Mapping[str, object]) -> Group:
        """Return ``value`` if it is a group, or make one from a mapping of field names to values."""
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
        """Return the group as plain data, without its name. ``Group.of`` reads it back."""
        return to_record(self, "min max priority parent", max=bound_text(self.max))


GROUP_FIELDS = ("min", "max", "priority", "parent")


def exact_bound(place: str, value: object, **details: object) -> int | Fraction | None:
    """Return an upper bound: tokens, or a percentage as an exact share of the budget. None: no bound."""
    number = whole(value)
    if value is None or (number is not None and 0 <= number <= MAX_INTEGER):
        return number
    share = value
    if isinstance(value, str) and _PERCENT.fullmatch(value):
        share = Fraction(value.rstrip("% ")) / 100
    if not isinstance(share, Fraction) or not 0 <= share <= 1:
        raise InvalidSection(
            f"{place}: max is tokens, or a share such as '30%' of the budget, not {shown(value)}.",
            field="max",
            **details,
        )
    return share


def bound_text(bound: int | Fraction | None) -> int | str | None:
    """Return an upper bound in the form that :func:`exact_bound` reads."""
    return f"{weight_text(bound * 100)}%" if isinstance(bound, Fraction) else bound


def whole_from(place: str, name: str, value: object, least: int, **details: object) -> int:
    """Return ``value`` as an integer of at least ``least``. Raises :class:`InvalidSection`."""
    number = whole(value)
    if number is None or not least <= number <= MAX_INTEGER:
        allowed = "within 2**53" if least else "of tokens, 0 or more"
        raise InvalidSection(
            f"{place}: {name} is a whole number {allowed}, not {shown(value)}.{meant_figure(value)}",
            field=name,
            **details,
        )
    return number
