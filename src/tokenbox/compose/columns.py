"""The sections of a layout as columns: a layout reads a few fields of all sections, and few sections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, filterfalse
from math import lcm
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, cast, overload

from tokenbox.compose.reuse import PARSED, LastResult
from tokenbox.content.section import Section
from tokenbox.content.weight import MAX_BITS
from tokenbox.engine.box import Ranked, rank
from tokenbox.errors import InvalidSection
from tokenbox.integers import MAX_INTEGER
from tokenbox.tokenizers.cache import text_digest

if TYPE_CHECKING:
    from fractions import Fraction

    Columns = Mapping[str, list[Any]]

# The fields of a plain mapping, in the order of a section's parameters, and their defaults.
_PLAIN: Final = {"id": "", "content": "", "priority": 500, "min": 0, "grow": 0, "shrink": 0}
_REQUIRED: Final = {"id", "content"}
# The fields that every layout reads of all sections.
_READ: Final = {
    name: attrgetter(name) for name in ("id", "content", "priority", "grow", "shrink", "needs_degrade")
}
_GROUP: Final = 512
_SHORT: Final = 16_384  # characters

_UNIQUE: LastResult[bool] = LastResult()
_RANKED: LastResult[Ranked] = LastResult()


class SectionColumns(Sequence[Section]):
    """The checked sections of a layout. Sections of plain mappings are made when they are read."""

    def __init__(self, columns: Columns, sections: list[Section] | None = None) -> None:
        self._columns, self._sections = columns, sections
        self.ids: list[str] = columns["id"]
        self.contents: list[str] = columns["content"]
        self.needs_degrade: Sequence[str | None] = columns.get("needs_degrade", ())

    @classmethod
    def of(cls, given: Sequence[object]) -> SectionColumns:
        """Check sections and mappings. Raises :class:`InvalidSection`, also for a duplicate id."""
        plain, types = None, set(map(type, given))
        if types == {dict} and (plain := _plain_columns(cast("Sequence[dict[str, Any]]", given))) is not None:
            made = cls(plain)
        else:
            is_made = types == {Section}
            sections = cast("list[Section]", given) if is_made else PARSED.sections(given, Section.of)  # type: ignore[arg-type]  # `of` checks them
            made = cls(_read(_READ, sections), sections)
            _check_grows(made.grows)
        _UNIQUE.of((made.ids,), lambda: _check_unique(made.ids))
        return made

    @cached_property
    def ranked(self) -> Ranked:
        """The critical sections, and the others in the order in which they are compressed."""
        priorities, shrinks = self._column("priority"), self._column("shrink")
        return _RANKED.of((priorities, shrinks), lambda: rank(priorities, shrinks))

    @property
    def grows(self) -> Sequence[int | Fraction]:
        return self._column("grow")

    def digests(self, indices: Sequence[int]) -> list[bytes]:
        """Return the SHA-256 of the contents of these sections."""
        if self._sections is None:
            return [text_digest(self.contents[i]) for i in indices]
        return [self._sections[i].content_digest for i in indices]

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> Section: ...
    @overload
    def __getitem__(self, place: slice) -> list[Section]: ...
    def __getitem__(self, place: int | slice) -> Section | list[Section]:
        if self._sections is None and isinstance(place, int):
            return Section(*(column[place] for column in self._columns.values()))
        return self._made()[place]

    def __iter__(self) -> Iterator[Section]:
        return iter(self._made())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SectionColumns) and self._made() == other._made()

    __hash__ = None  # type: ignore[assignment]  # like a list

    def __reduce__(self) -> tuple[object, ...]:
        return SectionColumns.of, (self._made(),)

    def _made(self) -> list[Section]:
        if self._sections is None:
            self._sections = list(map(Section, *self._columns.values()))
        return self._sections

    def _column(self, name: str) -> list[Any]:
        if name in self._columns:
            return self._columns[name]
        return list(map(attrgetter(name), self._made()))


def contents_of(sections: Sequence[Section]) -> list[str]:
    """Return the contents. The list may be shared: do not change it."""
    if isinstance(sections, SectionColumns):
        return sections.contents
    return [section.content for section in sections]


def is_short(contents: Sequence[str]) -> bool:
    """Return whether any function counts the whole quickly."""
    return not any(map(_SHORT.__lt__, accumulate(map(len, contents))))


def needing_degrade(sections: Sequence[Section]) -> Section | None:
    """Return the first section with a field that requires ``policy="degrade"``."""
    if isinstance(sections, SectionColumns) and not any(sections.needs_degrade):
        return None
    return next(filter(attrgetter("needs_degrade"), sections), None)


def _plain_columns(mappings: Sequence[dict[str, Any]]) -> Columns | None:
    """Return the columns of mappings with the same plain fields; None if their values need conversion."""
    names = mappings[0].keys()
    if not _REQUIRED <= names <= _PLAIN.keys() or set(map(len, mappings)) != {len(names)}:
        return None
    try:
        columns = _read({name: itemgetter(name) for name in names}, mappings)
    except KeyError:
        return None
    if not all(_is_plain(name, column) for name, column in columns.items()):
        return None
    return {name: columns.get(name) or [default] * len(mappings) for name, default in _PLAIN.items()}


def _read(getters: Mapping[str, Callable[[Any], object]], rows: Sequence[object]) -> dict[str, list[Any]]:
    """Return a column for each getter. Rows are read in groups that stay in the processor's cache."""
    if len(rows) <= _GROUP:
        return {name: list(map(get, rows)) for name, get in getters.items()}
    columns: dict[str, list[Any]] = {name: [] for name in getters}
    for start in range(0, len(rows), _GROUP):
        group = rows[start : start + _GROUP]
        for name, get in getters.items():
            columns[name] += map(get, group)
    return columns


def _is_plain(name: str, column: list[Any]) -> bool:
    """Return whether a section takes these values as they are."""
    if name not in _REQUIRED:
        least = -MAX_INTEGER if name == "priority" else 0
        return set(map(type, column)) == {int} and least <= min(column) and max(column) <= MAX_INTEGER
    if set(map(type, column)) != {str} or (name == "id" and not all(column)):
        return False
    try:
        for text in filterfalse(str.isascii, column):
            text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_grows(grows: Sequence[int | Fraction]) -> None:
    """Check that exact shares can be computed: they take the square of the digits of a common denominator."""
    if set(map(type, grows)) == {int}:
        return
    denominators = {grow.denominator for grow in set(grows)}
    for common in accumulate(denominators, lcm):
        if common.bit_length() > MAX_BITS:
            raise InvalidSection(
                f"the {len(denominators):,} different denominators of grow have a common multiple of more "
                "than 1,000 digits. Write grow with fewer digits, such as 0.333.",
                field="grow",
            )


def _check_unique(ids: Sequence[str]) -> bool:
    seen: set[str] = set()
    for name in ids if len(set(ids)) < len(ids) else ():
        if name in seen:
            raise InvalidSection(f"two sections have the id {name!r}. Ids are unique.", id=name)
        seen.add(name)
    return True
