"""Read the contents of a bundle, and compare two bundles field by field."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tokenbox.errors import shown
from tokenbox.proof.bundle import DECISIONS, INPUTS, SUMMARIES
from tokenbox.proof.manifest import leaves, read_records, read_summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenbox.proof.evidence import Record
    from tokenbox.proof.manifest import Manifest
    from tokenbox.proof.verify import BundleFiles

# The digests of the files: their contents are compared instead.
_DERIVED = frozenset({"files"})
_MAX_SUMMARY = 1 << 20
_MAX_RECORDS = 256 << 20


class _Absent:
    """The value of a missing field."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()


@dataclass(frozen=True, slots=True)
class Contents:
    """The records of a verified bundle."""

    manifest: Manifest
    inputs: Sequence[Record]
    decisions: Sequence[Record]
    summaries: Sequence[Record]


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field, such as ``inputs[notes].tokens``, and its two values, or ABSENT."""

    field: str
    left: object
    right: object

    def to_dict(self) -> dict[str, object]:
        """Return the difference as JSON, without ``left`` or ``right`` if the field is absent there."""
        sides = (("left", self.left), ("right", self.right))
        return {"field": self.field, **{name: value for name, value in sides if value is not ABSENT}}

    def __str__(self) -> str:
        return f"{self.field}: {shown(self.left)} -> {shown(self.right)}"


def read_contents(files: BundleFiles, manifest: Manifest) -> Contents:
    """Parse the files of a bundle. Raises ``BundleInvalid`` for invalid records."""
    records = {name: read_records(files.read(name, _MAX_RECORDS), name) for name in (INPUTS, DECISIONS)}
    summaries = []
    if manifest.tree(SUMMARIES) is not None:
        names = sorted(name for name in files.names() if name.startswith(SUMMARIES))
        summaries = [read_summary(files.read(name, _MAX_SUMMARY), name) for name in names]
    return Contents(manifest, records[INPUTS], records[DECISIONS], summaries)


def differences(left: Contents, right: Contents) -> list[FieldDifference]:
    """Return the fields that differ, in order."""
    before, after = dict(fields_of(left)), dict(fields_of(right))
    found = []
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name, ABSENT), after.get(name, ABSENT)
        if old.__class__ is not new.__class__ or old != new:
            found.append(FieldDifference(name, old, new))
    return found


def fields_of(contents: Contents) -> Iterator[tuple[str, object]]:
    """Yield each field with its value. Records are named by id, so that an added one renames no other."""
    yield "emitted", contents.manifest.emitted
    for name, value in contents.manifest.predicate.items():
        if name not in _DERIVED:
            yield from leaves(value, name)
    yield from _named("inputs", contents.inputs)
    outcomes = [record for record in contents.decisions if "action" not in record]
    yield from _named("decisions", outcomes)
    steps = (record for record in contents.decisions if "action" in record)
    for number, step in enumerate(steps, 1):
        yield from leaves(step, f"steps[{number}]")
    for summary in contents.summaries:
        of = ", ".join(map(str, cast("list[object]", summary["of"])))
        yield from leaves(summary, f"summaries[{of}]")


def _named(group: str, records: Sequence[Record]) -> Iterator[tuple[str, object]]:
    seen = Counter[str]()
    for number, record in enumerate(records, 1):
        name = str(record.get("id", number))  # a decision on the request has no id
        seen[name] += 1
        label = name if seen[name] == 1 else f"{name} #{seen[name]}"
        rest = {key: value for key, value in record.items() if key != "id"}
        yield from leaves(rest, f"{group}[{label}]")
