"""Comparison of two layouts, field by field, with the first byte at which their texts differ.

Both may be layouts of this process or records read from JSON. A record does not contain the inputs and the
text of each section. A value that is unknown (None) is neither equal nor different.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from typing import Protocol

from tokenbox.content.section import Section
from tokenbox.engine.result import Decision
from tokenbox.errors import LayoutError
from tokenbox.records import AsRecord, to_record
from tokenbox.render.explain import LayoutShown
from tokenbox.render.lines import cells, pad, printable

SCHEMA = "tokenbox.layout/1"
"""The schema of the record that ``Layout.to_dict()`` returns."""

CONTEXT = 32
MAX_NAME = 48
_BLOCK = 4_096

# The fields of a record with a single value, in the order of comparison.
_VALUES = ("budget", "separator", "policy", "reclaim", "total", "joins", "fixed_load", "pricing")
_COUNTED = frozenset({"total", "joins", "fixed_load"})
_TOKENIZER = ("name", "version", "fingerprint", "exact")
_INPUTS = tuple(f.name for f in fields(Section) if f.init and f.name != "id")


class LayoutRead(LayoutShown, Protocol):
    """The compared attributes of a layout, in addition to ``_VALUES``."""

    @property
    def texts(self) -> tuple[str, ...]: ...
    @property
    def text(self) -> str: ...
    @property
    def digest(self) -> str: ...


@dataclass(frozen=True, slots=True)
class SectionState:
    """One section of a record. ``text`` and ``input`` are None if the record does not contain them."""

    id: str
    decision: Decision
    base_size: int
    size: int
    form: str | None = None
    text: str | None = field(default=None, repr=False)
    input: Section | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, object]:
        return to_record(self, "decision base_size size form?")


@dataclass(frozen=True, slots=True)
class LayoutValues:
    """The compared values of a layout. ``values``: the single values by name; None is unknown.

    ``exact``: whether its counts are exact.
    """

    values: Mapping[str, object]
    sections: tuple[SectionState, ...]
    text: str
    digest: str
    exact: bool

    @classmethod
    def of(cls, layout: LayoutRead) -> LayoutValues:
        values = {name: getattr(layout, name) for name in _VALUES}
        values |= {f"tokenizer.{name}": value for name, value in layout.tokenizer.to_dict().items()}
        states = tuple(
            SectionState(s.id, s.decision, s.base_size, s.size, s.form, text, section)
            for s, text, section in zip(layout.sections, layout.texts, layout.inputs, strict=True)
        )
        return cls(values, states, layout.text, layout.digest, layout.exact)

    @classmethod
    def from_dict(cls, data: object) -> LayoutValues:
        """Read the record of ``Layout.to_dict()``. Raises :class:`LayoutError` if it is not one."""
        top = _checked(data, {"budget": int, "total": int, "text": str, "digest": str}, "")
        if top.get("schema") != SCHEMA:
            raise LayoutError(f"not a saved layout: schema is {top.get('schema')!r}, not {SCHEMA!r}.")
        values = {name: top.get(name) for name in _VALUES} | {"policy": top.get("policy", "facet")}
        tokenizer = _checked(
            top.get("tokenizer"), {"name": str, "fingerprint": str, "exact": bool}, "tokenizer"
        )
        values |= {f"tokenizer.{name}": tokenizer.get(name) for name in _TOKENIZER}
        sections = top.get("sections")
        if not isinstance(sections, list):
            raise LayoutError("not a saved layout: sections is not a list.")
        states = tuple(_section_state(value, f"sections[{i}]") for i, value in enumerate(sections))
        if len({state.id for state in states}) < len(states):
            raise LayoutError("not a saved layout: two sections have the same id.")
        count = top.get("count")
        exact = (count if isinstance(count, dict) else tokenizer).get("exact") is True
        return cls(values, states, str(top["text"]), str(top["digest"]), exact)


@dataclass(frozen=True, slots=True)
class ValueChange(AsRecord):
    """A field with one value in each record."""

    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class SectionChange:
    """A changed section. ``before`` or ``after`` is None if that record does not contain the section.

    ``what`` names the differences: ``decision``, ``base_size``, ``size``, ``text``, ``place`` (among the
    sections of both), and fields of its input.
    """

    id: str
    before: SectionState | None
    after: SectionState | None
    what: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        return to_record(self, "id what before after")


@dataclass(frozen=True, slots=True)
class FirstChange(AsRecord):
    """The first difference of two texts: ``byte`` from 0 in their UTF-8, ``line`` from 1, with context.

    ``common``: the text before the difference. ``before`` and ``after``: the text after it, empty at the end.
    """

    byte: int
    line: int
    common: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class LayoutDiff:
    """The differences of two layouts. ``str()`` is for people, ``to_dict()`` for programs.

    ``exact``: whether the counts of each layout are exact; estimates are shown with ``~``.
    """

    exact: tuple[bool, bool]
    values: tuple[ValueChange, ...]
    sections: tuple[SectionChange, ...]
    text: FirstChange | None
    digest: ValueChange | None

    @property
    def same(self) -> bool:
        """Whether no known value differs."""
        return self.first_field is None

    @property
    def first_field(self) -> str | None:
        """The first difference: of the values, then sections, then the text, then only the digest."""
        if self.values:
            return self.values[0].field
        if self.sections:
            return f"sections[{self.sections[0].id!r}].{self.sections[0].what[0]}"
        if self.text is not None:
            return "text"
        return None if self.digest is None else "digest"

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self,
            "same first_field values sections text digest",
            digest=None if self.digest is None else to_record(self.digest, "before after"),
        )

    def __str__(self) -> str:
        if self.same:
            return "no difference"
        was, now = ("" if exact else "~" for exact in self.exact)
        rows = [
            (v.field, _value_text(v.field, v.before, was), _value_text(v.field, v.after, now), "")
            for v in self.values
        ]
        rows += [_section_row(section, was, now) for section in self.sections]
        lines = _columns(rows)
        if self.text is None:
            why = "" if self.values or self.sections else "; the digests differ, so the inputs do"
            return "\n".join([*lines, f"the text is the same{why}"])
        text = self.text
        lines += [
            f"first changed byte of the text: {text.byte:,}, in line {text.line:,}",
            f"  after  {text.common!r}" if text.common else "  at the start",
            f"  was    {text.before!r}" if text.before else "  was    the end",
            f"  now    {text.after!r}" if text.after else "  now    the end",
        ]
        return "\n".join(lines)


def diff(a: LayoutRead | LayoutValues, b: LayoutRead | LayoutValues) -> LayoutDiff:
    """Return the changes from ``a`` to ``b``."""
    old = a if isinstance(a, LayoutValues) else LayoutValues.of(a)
    new = b if isinstance(b, LayoutValues) else LayoutValues.of(b)
    names = [*(f"tokenizer.{name}" for name in _TOKENIZER), *_VALUES]
    return LayoutDiff(
        (old.exact, new.exact),
        tuple(
            ValueChange(name, old.values[name], new.values[name])
            for name in names
            if _differ(old.values[name], new.values[name])
        ),
        tuple(_section_changes(old.sections, new.sections)),
        first_change(old.text, new.text),
        None if old.digest == new.digest else ValueChange("digest", old.digest, new.digest),
    )


def first_change(a: str, b: str) -> FirstChange | None:
    """Return the first difference, at the first byte of a character; None if the texts are equal."""
    if a == b:
        return None
    at = 0
    while a[at : at + _BLOCK] == b[at : at + _BLOCK]:
        at += _BLOCK
    at += next(i for i, (x, y) in enumerate(zip_longest(a[at : at + _BLOCK], b[at : at + _BLOCK])) if x != y)
    return FirstChange(
        byte=len(a[:at].encode("utf-8", "surrogatepass")),
        line=a.count("\n", 0, at) + 1,
        common=a[max(0, at - CONTEXT) : at],
        before=a[at : at + CONTEXT],
        after=b[at : at + CONTEXT],
    )


def _section_changes(old: Iterable[SectionState], new: Iterable[SectionState]) -> Iterable[SectionChange]:
    """Yield the changed sections in the order of ``new``, then the removed sections."""
    before, after = {s.id: s for s in old}, {s.id: s for s in new}
    places = {name: i for i, name in enumerate(name for name in before if name in after)}
    place = 0
    for name, state in after.items():
        previous = before.get(name)
        if previous is None:
            yield SectionChange(name, None, state, ("added",))
            continue
        what = _what_differs(previous, state)
        if places[name] != place:
            what.append("place")
        place += 1
        if what:
            yield SectionChange(name, previous, state, tuple(what))
    for name, state in before.items():
        if name not in after:
            yield SectionChange(name, state, None, ("removed",))


def _what_differs(old: SectionState, new: SectionState) -> list[str]:
    compared = ("decision", "base_size", "size", "text")
    what = [name for name in compared if _differ(getattr(old, name), getattr(new, name))]
    if old.form != new.form:
        what.append("form")
    if old.input is not None and new.input is not None:
        what += [name for name in _INPUTS if getattr(old.input, name) != getattr(new.input, name)]
    return what


def _differ(a: object, b: object) -> bool:
    return a is not None and b is not None and a != b


def _value_text(field: str, value: object, about: str) -> str:
    if type(value) is int:
        return f"{about if field in _COUNTED else ''}{value:,}"
    if field == "tokenizer.fingerprint":
        return str(value)[:12]
    return repr(value) if field == "separator" else str(value)


def _section_row(change: SectionChange, old_about: str, new_about: str) -> tuple[str, str, str, str]:
    old, new = change.before, change.after
    before = "absent" if old is None else f"{old.decision.value} {old_about}{old.size:,}"
    after = "absent" if new is None else f"{new.decision.value} {new_about}{new.size:,}"
    beside = [name for name in change.what if name not in {"decision", "size", "added", "removed"}]
    note = "" if not beside or (beside == ["text"] and before != after) else f"({', '.join(beside)})"
    return f"section {printable(change.id)}", before, after, note


def _columns(rows: Sequence[tuple[str, str, str, str]]) -> list[str]:
    """Return lines ``name  before -> after  (note)``, aligned."""
    name = min(max([cells(row[0]) for row in rows] + [0]), MAX_NAME)
    old, new = max([cells(row[1]) for row in rows] + [0]), max([cells(row[2]) for row in rows] + [0])
    return [f"{pad(a, name)}  {pad(b, old)} -> {pad(c, new)}  {d}".rstrip() for a, b, c, d in rows]


def _checked(data: object, kinds: Mapping[str, type], place: str) -> Mapping[str, object]:
    """Check that ``data`` is a mapping with fields of these types."""
    if not isinstance(data, dict):
        raise LayoutError(f"not a saved layout: {place or 'it'} is not an object.")
    for name, kind in kinds.items():
        if type(data.get(name)) is not kind:
            where = f"{place}.{name}" if place else name
            raise LayoutError(f"not a saved layout: {where} is {data.get(name)!r}, not {kind.__name__}.")
    return data


def _section_state(value: object, place: str) -> SectionState:
    data = _checked(value, {"id": str, "decision": str, "base_size": int, "size": int}, place)
    form = data.get("form")
    try:
        decision = Decision(str(data["decision"]))
    except ValueError:
        raise LayoutError(f"not a saved layout: {place}.decision is {data['decision']!r}.") from None
    sizes = int(str(data["base_size"])), int(str(data["size"]))
    return SectionState(str(data["id"]), decision, *sizes, None if form is None else str(form))
